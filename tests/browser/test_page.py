"""The simulator's page in a real Chromium: what people read, press and see come of it.

Every state of a card is photographed in both languages. The pictures in `docs/cards` are made by

    UPDATE_SCREENSHOTS=1 .venv/bin/python -m pytest tests/browser/test_page*.py

and are to be looked at before they are committed. Without the variable the tests take the same pictures, look whether
there is something on them, and throw them away. Times differ from run to run, so no pixels are compared.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Route, expect

from tests.support.chat_page import APPROVE, LANGUAGES, PICTURES, Album, Asked, Scene, Seat, looked_at, unique
from tests.support.feishu_service import REQUESTER as SOMEBODY
from workers.sample_requests import SAMPLES

REQUESTER = SOMEBODY.within("tenant_1")
INVOICE = {"to": "ada@example.com", "amount": "120.00"}
CUSTOMER = {"customer": "ACME Ltd.", "password": "correct horse battery staple"}
WHY = "The order 4711 was delivered yesterday, and the customer asked for the invoice."
PENDING = ("pending-low", "pending-medium", "pending-high", "pending-file")
FINAL = ("executed", "replayed", "approved", "rejected", "failed", "frozen", "expired", "superseded", "cancelled")
ASKED = ("progress", "editing", "edited", "warned", "result", "withheld", "grant", "notice", "bundle")
"""Of tests/browser/test_page_permissions.py."""
QUESTIONS = ("question-choice", "question-several", "question-text", "question-tool", "question-answered")
"""Of tests/browser/test_page_questions.py."""
FILES = ("file-received", "with-file")
PROGRAMS = ("program", "interaction-choice", "interaction-text", "run")
"""Of tests/browser/test_page_programs.py."""
CARDS = (*PENDING, "agent-call", "running", *FINAL, *ASKED, *QUESTIONS, *FILES, *PROGRAMS)
PAGES = [*(f"page.{lang}" for lang in LANGUAGES), *(f"phone-dark.{lang}" for lang in LANGUAGES)]

SAMPLE = {sample.tool: number for number, sample in enumerate(SAMPLES)}


@pytest.fixture
async def requester(scene: Scene) -> Seat:
    return await scene.known("requester")


@pytest.fixture(autouse=True)
async def no_surprises(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Whatever happens on the page: no word to another host, no error, no dialog of the browser."""
    scene: Scene | None = request.getfixturevalue("scene") if "scene" in request.fixturenames else None
    yield
    assert scene is None or scene.surprises.taken() == ([], [], [])


def local(moment: str, timezone: str) -> str:
    return datetime.fromisoformat(moment).astimezone(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M")


async def test_card_says_everything_in_both_languages(scene: Scene, album: Album) -> None:
    asked = await scene.ask("delete_customer", CUSTOMER, reason="They asked to be forgotten.")
    deadline = asked.state["deadline"]
    reader = await scene.seat("outsider", timezone="America/New_York")
    await expect(reader.card(asked).locator(".card-title")).to_have_text("Run delete_customer?")
    assert await reader.rows(asked) == {
        "Asked by": "HM\nHan Meimei",
        "Why": "They asked to be forgotten.",
        "customer": "ACME Ltd.",
        "password": "••• (hidden, it is marked sensitive)",
        "May decide": "Anyone in this chat",
        "Decide by": local(deadline, "America/New_York"),
    }
    header = reader.card(asked).locator(".card-header")
    await expect(header).to_contain_text("customer: ACME Ltd.")
    await expect(header.locator(".text-tag")).to_have_text(["Waiting", "High risk"])
    await expect(reader.card(asked)).to_contain_text("Delete a customer for good.")

    await reader.page.get_by_test_id("lang-zh").click()
    await expect(reader.card(asked).locator(".card-title")).to_have_text("是否执行 delete_customer？")
    assert await reader.rows(asked) == {
        "申请人": "梅梅\n韩梅梅",
        "申请理由": "They asked to be forgotten.",
        "customer": "ACME Ltd.",
        "password": "•••（敏感信息，已隐藏）",
        "审批人": "本会话中的任何人",
        "截止时间": local(deadline, "America/New_York"),
    }
    await expect(header.locator(".text-tag")).to_have_text(["待审批", "高风险"])
    assert CUSTOMER["password"] not in await reader.page.content()
    await album.take("pending-high", asked, "pending")
    await reader.page.context.close()


async def test_who_may_decide_is_mentioned_and_the_chat_list_says_what_waits(scene: Scene, album: Album) -> None:
    elsewhere = await scene.seat(chat="oc_elsewhere")
    invoice = await scene.ask("send_invoice", INVOICE, reason=WHY)
    row = elsewhere.page.get_by_test_id("chat-oc_team")
    await expect(row).to_contain_text("Approval needed: send_invoice · to: ada@example.com")
    await expect(row).to_contain_text("[@ You]")
    await row.click()
    assert (await elsewhere.rows(invoice))["May decide"] == "@Han Meimei"
    await album.take("pending-medium", invoice, "pending")
    mailbox = await scene.ask("read_mailbox", {"folder": "inbox"}, reason="To find the reply of the supplier.")
    await album.take("pending-low", mailbox, "pending")
    await elsewhere.page.context.close()


async def test_what_no_card_holds_is_read_in_the_file_before_it(scene: Scene, album: Album, requester: Seat) -> None:
    everyone = ", ".join(f"customer-{n:04}@example.com" for n in range(1500))
    asked = await scene.ask("send_invoice", {**INVOICE, "to": everyone}, reason="The yearly fee is due.")
    await expect(requester.card(asked)).to_contain_text("Read the attached file before you decide:")
    file = requester.page.locator("#messages > [data-msg-type=file]").last
    before = await file.evaluate("node => node.nextElementSibling.dataset.messageId")
    assert before == asked.message_id
    await file.locator("summary").click()
    await expect(file.locator("pre")).to_contain_text("customer-1499@example.com")
    await album.take("pending-file", asked, "pending")


async def test_sample_button_files_a_request_and_its_approval_runs_it_before_everyones_eyes(
    scene: Scene, album: Album, requester: Seat
) -> None:
    await requester.page.evaluate("window.neverReloaded = true")
    filed, asked = await scene.press_sample(requester, SAMPLE["send_invoice"])
    assert filed == ("success", "Request filed")
    onlooker = await scene.known("outsider")
    await onlooker.shows(asked, "pending")
    assert await requester.press(asked, APPROVE) == ("success", "Approved. It is running now.")
    for seat in (requester, onlooker):
        await seat.shows(asked, "executed")
        assert await seat.has_no_buttons(asked)
        rows = await seat.rows(asked)
        assert asked.approval_id in rows["Result"]
        said = await seat.card(asked).evaluate("card => card.textContent")  # folded, too
        assert f"Payload: {asked.state['payload_sha256'][:12]}" in said
        assert "Agent: " in said
        await expect(seat.card(asked)).to_contain_text("Done. The call completed.")
        await expect(seat.card(asked)).to_contain_text("Approved by")
    assert [invoice["approval"] for invoice in scene.tools.done("invoices")].count(asked.approval_id) == 1
    assert await requester.page.evaluate("window.neverReloaded")
    await album.take("executed", asked, "executed")


async def test_reason_for_rejecting_is_on_the_final_card(scene: Scene, album: Album, requester: Seat) -> None:
    asked = await scene.ask("send_invoice", INVOICE, reason=WHY)
    await requester.card(asked).get_by_role("textbox").fill("4711 was paid in advance.")
    assert await requester.press(asked, "Reject") == ("success", "Rejected. It will not run.")
    await requester.shows(asked, "rejected")
    assert await requester.has_no_buttons(asked)
    assert (await requester.rows(asked))["Reason for rejecting"] == "4711 was paid in advance."
    await expect(requester.card(asked)).to_contain_text("Rejected. The call did not run.")
    assert asked.approval_id not in str(scene.tools.done("invoices"))
    await album.take("rejected", asked, "rejected")


async def test_outsider_is_told_no_and_nothing_changes(scene: Scene, requester: Seat) -> None:
    asked = await scene.ask("send_invoice", INVOICE, reason=WHY)
    outsider = await scene.known("outsider")
    before = await outsider.card(asked).inner_html()
    assert await outsider.press(asked, APPROVE) == ("error", "This is not yours to decide. Nothing was changed.")
    assert await outsider.press(asked, "Reject") == ("error", "This is not yours to decide. Nothing was changed.")
    await outsider.page.get_by_test_id("lang-zh").click()
    assert await outsider.press(asked, "按原参数同意") == ("error", "你没有审批该申请的权限，未做任何更改")
    await outsider.page.get_by_test_id("lang-en").click()
    assert await outsider.card(asked).inner_html() == before
    assert await outsider.message(asked).get_attribute("data-revision") == "0"
    assert await scene.phase(asked) == "pending"
    assert await requester.press(asked, APPROVE) == ("success", "Approved. It is running now.")


async def test_double_click_counts_once(scene: Scene, requester: Seat) -> None:
    asked = await scene.ask("send_invoice", INVOICE, reason=WHY)
    before = len(requester.clicks)
    await requester.told(requester.button(asked, APPROVE).dblclick())
    await requester.shows(asked, "executed")
    assert len(requester.clicks) == before + 1
    assert str(scene.tools.done("invoices")).count(asked.approval_id) == 1


async def test_second_click_is_told_who_decided(scene: Scene, requester: Seat) -> None:
    """On a card that Feishu has not changed yet, and then when both press at the very same time."""
    approver = await scene.known("approver")
    asked = await scene.ask("delete_customer", CUSTOMER)
    await scene.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": asked.message_id}})
    assert await approver.approve_after_a_second_look(asked) == ("success", "Approved. It is running now.")
    kind, text = await requester.approve_after_a_second_look(asked)
    assert (kind, text.partition(" Its state")[0]) == ("info", "李雷 has already decided this.")
    await scene.chat.behave()

    again = await scene.ask("delete_customer", {**CUSTOMER, "customer": "Race Ltd."})
    both = (requester, approver)
    for seat in both:
        await seat.button(again, APPROVE).click()
    notices = await asyncio.gather(*(seat.told(seat.page.get_by_test_id("confirm-ok").click()) for seat in both))
    assert sorted(kind == "success" for kind, _ in notices) == [False, True]
    await requester.shows(again, "executed")
    assert str(scene.tools.done("deletions")).count("Race Ltd.") == 1
    await requester.shows(asked, "executed")


async def test_high_risk_is_asked_back_and_only_yes_sends_anything(scene: Scene, requester: Seat) -> None:
    asked = await scene.ask("delete_customer", {**CUSTOMER, "customer": "Umbrella plc"})
    before = len(requester.clicks)
    question = requester.page.get_by_test_id("confirm")
    for leave in ("cancel", "escape"):
        await requester.button(asked, APPROVE).click()
        await expect(question).to_contain_text("Approve a high-risk call?")
        await expect(question).to_contain_text("delete_customer · customer: Umbrella plc: this runs right away")
        if leave == "cancel":
            await requester.page.get_by_test_id("confirm-cancel").click()
        else:
            await requester.page.keyboard.press("Escape")
        await expect(question).to_have_count(0)
    assert (len(requester.clicks), await scene.phase(asked)) == (before, "pending")
    assert await requester.message(asked).get_attribute("data-revision") == "0"
    assert await requester.approve_after_a_second_look(asked) == ("success", "Approved. It is running now.")
    await requester.shows(asked, "executed")
    assert len(requester.clicks) == before + 1


async def test_call_whose_answer_was_lost_freezes_and_nobody_is_told_to_repeat_it(
    scene: Scene, album: Album, requester: Seat
) -> None:
    _, asked = await scene.press_sample(requester, SAMPLE["transfer_money"])
    await requester.approve_after_a_second_look(asked)
    await requester.shows(asked, "frozen")
    assert await requester.has_no_buttons(asked)
    await expect(requester.card(asked)).to_contain_text("It is not known whether this happened.")
    await expect(requester.card(asked)).to_contain_text("Please do not repeat it: it could happen twice.")
    assert len(scene.tools.done("transfers")) == 1
    await album.take("frozen", asked, "frozen")


async def test_killed_worker_leaves_a_frozen_card_and_the_next_one_carries_on(
    scene: Scene, album: Album, requester: Seat
) -> None:
    _, midway = await scene.press_sample(requester, SAMPLE["migrate_database"])
    waiting = await scene.ask("send_invoice", INVOICE, reason=WHY)
    await requester.approve_after_a_second_look(midway)
    assert await scene.tools.process.ended() == -9
    await requester.press(waiting, APPROVE)
    await requester.shows(waiting, "running")
    assert await requester.has_no_buttons(waiting)
    await album.take("running", waiting, "running")
    await scene.tools.start()
    await requester.shows(midway, "frozen")
    await expect(requester.card(midway)).to_contain_text("The call was begun and no answer came back.")
    await requester.shows(waiting, "executed")
    assert len(scene.tools.done("migrations")) == 1


async def test_missing_authorization_is_one_tap_away_and_learns_nothing_of_the_page(
    scene: Scene, album: Album, requester: Seat
) -> None:
    _, asked = await scene.press_sample(requester, SAMPLE["read_mailbox"])
    await requester.press(asked, APPROVE)
    await requester.shows(asked, "failed")
    await album.take("failed", asked, "failed")
    context = requester.page.context
    headers: list[dict[str, str]] = []

    async def answer(route: Route) -> None:
        headers.append(route.request.headers)
        await route.fulfill(body="ok")

    await context.route("https://example.com/**", answer)
    async with context.expect_page() as opening:
        await requester.button(asked, "Open example.com").click()
    opened_page = await opening.value
    await opened_page.wait_for_load_state()
    assert opened_page.url == "https://example.com/oauth/authorize?scope=mail.read"
    assert await opened_page.evaluate("window.opener") is None
    assert "referer" not in headers[0]
    await opened_page.close()
    hosts, *_ = scene.surprises.taken()
    assert hosts == [opened_page.url], "only the tap itself went out"


async def test_endings_that_nobody_clicked_arrive_by_themselves(scene: Scene, album: Album, requester: Seat) -> None:
    late = await scene.ask("send_invoice", INVOICE, reason=WHY, ttl=6)
    withdrawn = await scene.ask("send_invoice", INVOICE, reason=WHY)
    conversation = {"thread_id": unique("thread"), "when_pending": "supersede", "reason": WHY}
    older = await scene.ask("send_invoice", INVOICE, **conversation)
    newer = await scene.ask("send_invoice", {**INVOICE, "amount": "130.00"}, **conversation)
    cancel = {"reason": "The customer has changed their mind."}
    answer = await scene.agent.post(f"/v1/approvals/{withdrawn.approval_id}/cancel", json=cancel)
    assert answer.is_success, answer.text
    said = {
        "superseded": (older, "A newer request replaced this one. The call did not run."),
        "cancelled": (withdrawn, "The request was withdrawn. The call did not run."),
        "expired": (late, "Nobody decided in time. The call did not run."),
    }
    for state, (asked, sentence) in said.items():
        await requester.shows(asked, state)
        await expect(requester.card(asked)).to_contain_text(sentence)
        assert await requester.has_no_buttons(asked)
        await album.take(state, asked, state)
    assert (await requester.rows(withdrawn))["Why withdrawn"] == "The customer has changed their mind."
    await requester.shows(newer, "pending")


async def test_same_call_once_more_says_that_nothing_ran(scene: Scene, album: Album, requester: Seat) -> None:
    scope = unique("scope")
    first, second = [await scene.ask("send_invoice", INVOICE, reason=WHY, idempotency_scope=scope) for _ in range(2)]
    await requester.press(first, APPROVE)
    await requester.shows(first, "executed")
    await requester.press(second, APPROVE)
    await requester.shows(second, "replayed")
    await expect(requester.card(second)).to_contain_text("Nothing ran this time.")
    assert second.approval_id not in str(scene.tools.done("invoices"))
    await album.take("replayed", second, "replayed")


async def test_what_the_agent_runs_itself_is_consented_to_and_said_to_be_its_own(
    scene: Scene, album: Album, requester: Seat
) -> None:
    _, asked = await scene.press_sample(requester, SAMPLE["agent_call"])
    await requester.shows(asked, "pending")
    await expect(requester.card(asked)).to_contain_text("agent_call:run_shell")
    await expect(requester.card(asked)).to_contain_text("The agent makes this call itself")
    await album.take("agent-call", asked, "pending")
    assert await requester.press(asked, APPROVE) == ("success", "Approved. The agent makes the call itself.")
    await requester.shows(asked, "approved")
    await expect(requester.card(asked)).to_contain_text("it cannot be promised that it happens at most once")
    assert await requester.has_no_buttons(asked)
    await album.take("approved", asked, "approved")


HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><iframe src=https://evil.example></iframe>\n"
    "<at id=all></at> [tap](https://evil.example) ![x](https://evil.example/x.png) **bold** `code`\n\u202egpj.exe"
)
READ = HOSTILE.replace("\u202e", "⟦U+202E⟧")


async def anatomy(seat: Seat, asked: Asked) -> list[str]:
    """The elements of a card, whatever is written in them."""
    found: list[str] = await seat.card(asked).evaluate(
        "card => [...card.querySelectorAll('*')].map(node => `${node.tagName} ${node.className}`)"
    )
    return found


async def test_markup_in_what_others_wrote_stays_text_to_the_end(scene: Scene, requester: Seat) -> None:
    """Arguments, reasons and results. What would follow from a breach is watched over by `no_surprises`."""
    harmless = await scene.ask("send_invoice", {**INVOICE, "currency": "pla\u202ein"}, reason="plain")
    hostile = await scene.ask(
        "send_invoice", {"to": INVOICE["to"], "amount": "120.00", "currency": HOSTILE}, reason=HOSTILE
    )
    rows = await requester.rows(hostile)
    assert (rows["currency"], rows["Why"]) == (READ, READ)
    assert await anatomy(requester, hostile) == await anatomy(requester, harmless)
    for asked in (harmless, hostile):
        await requester.press(asked, APPROVE)
        await requester.shows(asked, "executed")
    assert "<script>alert(2)</script>" in (await requester.rows(hostile))["Result"]
    assert await anatomy(requester, hostile) == await anatomy(requester, harmless)

    refused = await scene.ask("send_invoice", INVOICE)
    await requester.card(refused).get_by_role("textbox").fill(HOSTILE)
    await requester.press(refused, "Reject")
    await requester.shows(refused, "rejected")
    assert (await requester.rows(refused))["Reason for rejecting"] == READ.replace("\n", " ")  # one line
    assert await requester.card(refused).locator("img, script, iframe, a, .mention").count() == 0


async def test_phone_in_the_dark_reads_and_decides_without_scrolling_sideways(scene: Scene, album: Album) -> None:
    phone = await scene.seat(theme="dark", size=(390, 844), phone=True)
    endless = await scene.ask("send_invoice", {**INVOICE, "to": "x" * 200}, reason="y" * 300)
    asked = await scene.ask("delete_customer", CUSTOMER, reason="They asked to be forgotten.")
    await phone.shows(endless, "pending")
    await phone.shows(asked, "pending")
    assert await widths(phone) <= 390
    colours: list[str] = await phone.page.evaluate(
        "['body', '.card'].map(name => getComputedStyle(document.querySelector(name)).backgroundColor)"
    )
    assert all(max(int(part) for part in colour[4:-1].split(",")) < 64 for colour in colours), colours
    await phone.card(asked).locator(".card-header").scroll_into_view_if_needed()
    for lang in ("zh", "en"):
        await phone.page.get_by_test_id(f"lang-{lang}").click()
        await phone.shows(asked, "pending", lang)
        await phone.card(asked).locator("button[data-name=approve]").scroll_into_view_if_needed()
        await album.page("phone-dark", lang, phone)
    await phone.button(asked, APPROVE).tap()
    assert await widths(phone) <= 390
    assert await phone.told(phone.page.get_by_test_id("confirm-ok").tap()) == (
        "success",
        "Approved. It is running now.",
    )
    await phone.shows(asked, "executed")
    assert await widths(phone) <= 390
    await phone.page.context.close()


async def widths(seat: Seat) -> int:
    """How far anything reaches to the right that one cannot scroll to on purpose."""
    furthest: float = await seat.page.evaluate(
        """() => {
             const shown = [...document.querySelectorAll('#messages *, dialog, dialog *')];
             const scrollers = [document.scrollingElement, document.getElementById('scroller')];
             return Math.max(...scrollers.map(node => node.scrollWidth),
                             ...shown.map(node => node.getBoundingClientRect().right));
           }"""
    )
    return round(furthest)


async def test_reload_finds_everything_again(scene: Scene, album: Album) -> None:
    reader = await scene.seat(chat="oc_p2p_requester", size=(1280, 920))
    _, done = await scene.press_sample(reader, SAMPLE["send_invoice"])
    await reader.press(done, APPROVE)
    await reader.shows(done, "executed")
    _, waiting = await scene.press_sample(reader, SAMPLE["delete_customer"])
    await reader.shows(waiting, "pending")
    before = await reader.conversation()
    assert [message_id for message_id, *_ in before] == [done.message_id, waiting.message_id]
    await reader.page.reload()
    await reader.shows(waiting, "pending")
    assert await reader.conversation() == before
    for lang in LANGUAGES:
        await reader.page.get_by_test_id(f"lang-{lang}").click()
        await reader.shows(waiting, "pending", lang)
        for number in range(len(SAMPLES)):
            await expect(reader.page.get_by_test_id(f"shortcut-{number}")).to_be_in_viewport(ratio=1)
        await album.page("page", lang, reader)
    await reader.page.get_by_test_id("lang-en").click()
    assert await reader.press(waiting, "Reject") == ("success", "Rejected. It will not run.")
    await reader.page.context.close()


async def test_any_call_is_filed_from_its_schema_and_a_call_that_asks_nobody_says_that_it_ran(scene: Scene) -> None:
    seat = await scene.seat("requester")
    await seat.page.get_by_test_id("ask-for").first.click()
    await seat.page.get_by_test_id("compose-tool").select_option("sign_contract")
    await seat.page.get_by_test_id("compose-customer").fill("Initech")
    await seat.page.get_by_test_id("compose-months").fill("twelve")
    notice = await seat.told(seat.page.get_by_test_id("compose-file").click())
    assert notice == ("error", "“months” is not a valid integer")
    await seat.page.get_by_test_id("compose-months").fill("12")
    await seat.page.get_by_test_id("compose-file").click()
    named = seat.page.get_by_role("article", name="customer: Initech")  # its own, not only the tool's
    await expect(named).to_be_in_viewport()
    await expect(named.locator(".card-header")).to_be_in_viewport(ratio=1)  # it is read from its beginning
    await expect(seat.page.get_by_test_id("toast")).to_have_count(0)
    await seat.page.get_by_test_id(f"shortcut-{SAMPLE['look_up_rate']}").click()
    await expect(seat.page.get_by_test_id("toast").last).to_contain_text("nobody was asked, and it ran:")
    await seat.page.context.close()


async def test_a_person_writes_to_the_bot_and_keeps_the_focus(scene: Scene) -> None:
    seat = await scene.seat("operator", chat="oc_p2p_operator", lang="zh")
    box = seat.page.get_by_test_id("say")
    await box.fill("有什么等我处理？")
    await box.press("Enter")
    await expect(seat.page.locator(".bubble").last).to_have_text("有什么等我处理？")
    await expect(seat.page.locator(".message .sender").first).to_have_text("陈静")
    await expect(box).to_be_focused()
    await expect(box).to_have_value("")
    await seat.page.get_by_test_id("chat-oc_team").click()
    await expect(box).to_be_hidden()
    await seat.page.context.close()


async def test_a_dropped_file_is_taken_shown_and_archived_as_it_was(scene: Scene, album: Album) -> None:
    seat = await scene.seat("requester", chat="oc_p2p_requester", calm=True)
    drop = """async ([name, url]) => {
      const transfer = new DataTransfer();
      const data = await (await fetch(url)).arrayBuffer();
      transfer.items.add(new File([data], name));
      const over = { bubbles: true, cancelable: true, dataTransfer: transfer };
      const place = document.getElementById("messages").parentElement;
      place.dispatchEvent(new DragEvent("dragover", over));
      place.dispatchEvent(new DragEvent("drop", over));
    }"""
    before = {file.file_id for file in await scene.service.gate.files.recent(REQUESTER)}
    picture = await seat.page.screenshot(clip={"x": 0, "y": 0, "width": 200, "height": 120})
    key = (
        await scene.chat.http.post(
            "/api/files", params={"open_id": "ou_outsider", "name": "receipt.png"}, content=picture
        )
    ).json()["files"][0]["file_key"]
    await seat.page.evaluate(drop, ["receipt.png", f"/api/files/{key}"])
    received = seat.page.locator("#messages article.card").filter(has_text="File received").last
    await expect(received).to_be_visible()
    await expect(seat.page.locator("#messages img.picture").last).to_be_visible()
    (file,) = [each for each in await scene.service.gate.files.recent(REQUESTER) if each.file_id not in before]
    message_id = await received.locator("xpath=ancestor::li").get_attribute("data-message-id")
    private = {lang: await scene.seat(lang=lang, chat="oc_p2p_requester", size=(1280, 1400)) for lang in LANGUAGES}
    await album.of(private).take("file-received", Asked("", message_id or "", {}), None)
    team = await scene.known("requester")
    notice, asked = await scene.press_sample(team, SAMPLE["archive_file"])
    assert notice[0] == "success"
    await expect(team.card(asked).locator("img.picture")).to_be_visible()
    await expect(team.card(asked)).to_contain_text("Files (1)")
    await album.take("with-file", asked, "pending")
    assert (await team.press(asked, APPROVE))[0] == "success"
    await team.shows(asked, "executed")
    (archived,) = scene.tools.done("archive")
    assert (archived["bytes"], archived["sha256"]) == (len(picture), hashlib.sha256(picture).hexdigest())
    assert file.kind == "image"


def test_every_state_has_its_pictures_in_the_documentation() -> None:
    wanted = {f"{card}.{lang}.png" for card in CARDS for lang in LANGUAGES} | {f"{page}.png" for page in PAGES}
    committed = {file.name: file for file in PICTURES.glob("*.png")}
    assert committed.keys() == wanted
    sizes = {name: file.stat().st_size for name, file in committed.items()}
    assert max(sizes[name] for name in sizes if not name.startswith("page")) < 90_000
    assert sum(sizes.values()) < 5_000_000
    for file in committed.values():
        looked_at(file)
