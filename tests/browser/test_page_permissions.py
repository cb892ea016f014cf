"""Who may say yes, to what, how often and what they see of the result: in the simulator's page, in a real Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from assent import Assent
from assent.api.door import HttpDoor
from assent.api.wire import MAX_WAIT
from ledger import MessageKind, bundle_slot
from tests.support.chat_page import APPROVE, LANGUAGES, Album, Asked, Scene, Seat
from tests.support.feishu_service import REQUESTER
from tests.support.waiting import until

NOT_YOURS = ("error", "This is not yours to decide. Nothing was changed.")
RUNS = ("success", "Approved. It is running now.")
CONTRACT = {"customer": "ACME Ltd.", "months": 24}
OFFER = "They accepted the offer of last week."


@pytest.fixture
async def seat(scene: Scene) -> Seat:
    """One page, at which people take turns; the requester sits there first."""
    seat = await scene.known("requester")
    await turn(seat, "requester")
    return seat


@pytest.fixture(autouse=True)
async def no_surprises(scene: Scene) -> AsyncIterator[None]:
    yield
    assert scene.surprises.taken() == ([], [], [])


async def turn(seat: Seat, who: str) -> None:
    """Somebody else sits down at the page."""
    button = seat.page.get_by_test_id(f"viewer-ou_{who}")
    await button.click()
    await expect(button).to_have_attribute("aria-pressed", "true")


async def card(scene: Scene, asked: Asked, kind: MessageKind = MessageKind.CARD, number: int = 1) -> Asked:
    """A later card of an approval, once it is there."""

    async def there() -> Asked | None:
        found = await scene.chat.cards(asked.approval_id, kind)
        return Asked(asked.approval_id, found[number - 1]["message_id"], asked.state) if len(found) >= number else None

    return await until(there)


async def outcome(scene: Scene, asked: Asked) -> dict[str, Any]:
    """What the agent is told in the end."""

    async def ended() -> dict[str, Any] | None:
        answer = await scene.agent.get(f"/v1/approvals/{asked.approval_id}", params={"wait": MAX_WAIT // 4})
        told: dict[str, Any] | None = answer.json()["outcome"]
        return told

    return await until(ended)


async def test_two_people_approve_one_after_the_other(scene: Scene, album: Album, seat: Seat) -> None:
    asked = await scene.ask("sign_contract", CONTRACT, reason=OFFER)
    assert await seat.press(asked, APPROVE) == NOT_YOURS  # who asked for it does not count
    await turn(seat, "approver")
    assert await seat.press(asked, APPROVE) == ("success", "Approved: 1 of 2. Others still have to approve.")
    await expect(seat.card(asked)).to_contain_text("1 of 2")
    so_far = (await seat.rows(asked))["Approved so far"]
    assert "Li Lei" in so_far
    await seat.shows(asked, "pending")
    await album.take("progress", asked, "pending")
    assert await seat.press(asked, APPROVE) == ("info", "You have already decided this. Others still have to.")
    await turn(seat, "outsider")
    assert await seat.press(asked, APPROVE) == RUNS
    await seat.shows(asked, "executed")
    for person in ("Li Lei", "Wang Fang"):
        await expect(seat.card(asked)).to_contain_text(person)
    assert await seat.has_no_buttons(asked)
    told = await outcome(scene, asked)
    assert [person["open_id"] for person in told["approved_by"]] == ["ou_approver", "ou_outsider"]


CHANGED = (
    "error",
    "Nothing was changed: You changed arguments in the form. Press “Approve with these changes”, or put them back.",
)


async def test_nothing_runs_but_what_stood_there_whatever_is_typed_and_pressed(scene: Scene, seat: Seat) -> None:
    """Typed and approved as proposed; folded, approved; put back, approved; typed, approved as changed."""
    invoice = {"to": "Globex Corp.", "amount": "120.00"}
    ran = [each["amount"] for each in scene.tools.done("invoices")]
    for typed in ("120.00", "12.00"):
        asked = await scene.ask("send_invoice", invoice)
        card = seat.card(asked)
        await card.get_by_text("Edit the arguments").click()
        amount = card.get_by_label("amount", exact=True)
        await amount.fill("12.00")
        assert await seat.press(asked, APPROVE) == CHANGED
        await card.get_by_text("Edit the arguments").click()  # folded: what was typed is out of sight
        await expect(amount).to_be_hidden()
        assert await seat.press(asked, APPROVE) == CHANGED
        await seat.shows(asked, "pending")
        await card.get_by_text("Edit the arguments").click()
        await amount.fill(typed)
        await seat.press(asked, APPROVE if typed == "120.00" else "Approve with these changes")
        told = await outcome(scene, asked)
        assert (told["status"], told["content"]["amount"]) == ("executed", typed)
    assert [each["amount"] for each in scene.tools.done("invoices")] == [*ran, "120.00", "12.00"]


async def test_a_field_is_changed_in_the_form_and_everybody_looks_again(scene: Scene, album: Album, seat: Seat) -> None:
    asked = await scene.ask("sign_contract", {**CONTRACT, "customer": "Globex Corp."}, reason=OFFER)
    await album.take("editing", asked, "pending", unfold="card.edit_title")
    await turn(seat, "approver")
    await seat.press(asked, APPROVE)
    await expect(seat.card(asked)).to_contain_text("1 of 2")

    await turn(seat, "operator")
    await seat.card(asked).get_by_text("Edit the arguments").click()
    months = seat.card(asked).get_by_label("months", exact=True)
    for wrong in ("a dozen", "12.5", ""):
        await months.fill(wrong)
        kind, text = await seat.press(asked, "Approve with these changes")
        assert (kind, text.startswith("Nothing was changed: "), "months" in text) == ("error", True, True), text
    await seat.shows(asked, "pending")
    await months.fill("12")
    assert await seat.press(asked, "Approve with these changes") == (
        "success",
        "Changed. 1 of 2 have approved it so far; everybody gets the new card.",
    )
    newer = await card(scene, asked, number=2)
    await seat.shows(newer, "pending")
    await seat.shows(asked, "replaced")
    assert await seat.has_no_buttons(asked)
    assert "24 → 12" in await changes(seat.card(newer))
    await album.take("edited", newer, "pending")

    await turn(seat, "approver")  # whose approval was for what it said before
    assert await seat.press(newer, APPROVE) == RUNS
    await seat.shows(newer, "executed")
    assert "24 → 12" in await changes(seat.card(newer))
    signed = [each for each in scene.tools.done("contracts") if each["customer"] == "Globex Corp."]
    assert signed == [{"customer": "Globex Corp.", "months": 12}]
    told = await outcome(scene, asked)
    assert told["edit"]["proposed_payload_sha256"] == asked.state["payload_sha256"] != told["payload_sha256"]


async def changes(shown: Locator) -> str:
    """The text of a card on one line."""
    return " ".join((await shown.inner_text()).split())


async def test_a_remembered_decision_runs_the_next_call_until_it_is_revoked(
    scene: Scene, album: Album, seat: Seat
) -> None:
    async def posted(text: str) -> Asked:
        return await scene.ask("post_update", {"channel": "all-hands", "text": text}, reason="The repair is done.")

    first = await posted("The lift is being repaired.")
    everything = "Approve, and stop asking about post_update in this chat for 7 days, whatever its arguments"
    asked_back = await seat.asked_back(first, everything)
    await expect(asked_back).to_contain_text("Stop asking about post_update?")
    await seat.page.get_by_role("button", name="Cancel", exact=True).click()
    assert await scene.phase(first) == "pending"
    assert await seat.approve_after_a_second_look(first, everything) == RUNS
    await seat.shows(first, "executed")
    granted = "Nobody is asked about post_update in this chat until"
    await expect(seat.card(first)).to_contain_text(granted)
    assert await seat.card(first).get_by_role("button").all_inner_texts() == ["Revoke this remembered decision"]
    await album.take("grant", first, "executed")
    second = await posted("The lift is working again.")
    await seat.shows(second, "executed")
    await expect(seat.card(second)).to_contain_text("Nobody was asked:")
    assert await seat.card(second).get_by_role("button").all_inner_texts() == ["Revoke this remembered decision"]
    assert (await outcome(scene, second))["grant_id"]
    assert len(scene.tools.done("updates")) == 2
    await album.take("notice", second, "executed")

    revoke = "Revoke this remembered decision"
    await turn(seat, "outsider")
    assert await seat.approve_after_a_second_look(second, revoke) == (
        "error",
        "This is not yours to revoke. Nothing was changed.",
    )
    await turn(seat, "requester")
    told = await seat.approve_after_a_second_look(second, revoke)
    assert told == ("success", "Revoked. You will be asked again.")
    for revoked in (first, second):  # where it was given, and where it was revoked
        await expect(seat.card(revoked)).to_contain_text("No longer remembered: revoked by")
        await expect(seat.card(revoked)).not_to_contain_text(granted)
        assert await seat.has_no_buttons(revoked)
    third = await posted("The lift is broken again.")
    await seat.shows(third, "pending")
    assert await scene.phase(third) == "pending"
    assert await seat.press(third, "Reject") == ("success", "Rejected. It will not run.")
    await seat.shows(third, "rejected")
    assert len(scene.tools.done("updates")) == 2


async def test_a_result_is_read_by_those_who_may_release_it_and_by_nobody_else(
    scene: Scene, album: Album, seat: Seat, tmp_path: Path
) -> None:
    """Each is read and decided in private; in the group stands that it waits, and later that it is over."""
    results = {}
    for department in ("Sales", "Legal"):
        asked = await scene.ask("read_payroll", {"department": department}, reason="To plan next year's budget.")
        assert await seat.press(asked, APPROVE) == RUNS
        results[department] = await card(scene, asked, MessageKind.RESULT)
        await seat.shows(asked, "reviewing")
        await expect(seat.card(asked)).to_contain_text("Those who may release it have a card of their own.")
        await expect(seat.message(results[department])).to_have_count(0)
        assert await scene.phase(asked) == "reviewing"
    sales, legal = results.values()
    [private_chat] = {
        each["chat_id"]
        for each in await scene.chat.messages()
        if each["message_id"] in (sales.message_id, legal.message_id)
    }
    seats = {lang: await scene.seat(chat=private_chat, lang=lang, size=(1280, 1400)) for lang in LANGUAGES}
    private = seats["en"]
    await private.shows(sales, "result")
    await Album(tmp_path, seats).take("result", sales, "result")
    await expect(
        private.card(sales).get_by_text('"total": "31415.00"')
    ).to_be_visible()  # it is open, and then released
    await private.card(sales).get_by_role("textbox").fill("Salaries are not for machines.")
    assert await private.press(sales, "Withhold") == ("success", "Withheld. The agent does not get the result.")
    assert await private.press(legal, "Release to the agent") == ("success", "Released. The agent gets the result.")
    for shown, state in ((sales, "withheld"), (legal, "released")):
        await private.shows(shown, state)
        assert await private.has_no_buttons(shown)
        await seat.shows(await card(scene, shown), "executed")
    assert (await private.rows(sales))["Why withheld"] == "Salaries are not for machines."
    assert "31415" not in "".join(text for _, _, text in await seat.conversation())
    await album.take("withheld", await card(scene, sales), "executed")
    kept, given = await outcome(scene, sales), await outcome(scene, legal)
    assert (kept["status"], kept["withheld"], given["status"], given["withheld"]) == (
        *("executed", True),
        *("executed", False),
    )
    assert kept["content"] == "The call ran; its result is withheld. Reason: Salaries are not for machines."
    assert given["content"]["total"] == "31415.00"


async def test_somebody_else_is_let_decide(scene: Scene, seat: Seat) -> None:
    asked = await scene.ask("send_invoice", {"to": "ada@example.com", "amount": "120.00"})
    await seat.card(asked).get_by_text("Let somebody else decide").click()
    await seat.card(asked).locator("select[data-name=delegate_to]").select_option(label="Chen Jing")
    assert await seat.press(asked, "Pass it on") == ("success", "Passed on. It is no longer yours to decide.")

    async def passed_on() -> Asked | None:
        found = await scene.chat.cards(asked.approval_id)
        newest = found[-1]
        return Asked(asked.approval_id, newest["message_id"], asked.state) if "Passed on" in str(newest) else None

    newest = await until(passed_on)
    assert await seat.press(newest, APPROVE) == NOT_YOURS
    await turn(seat, "operator")
    await expect(seat.card(newest)).to_contain_text("Passed on")
    assert await seat.press(newest, APPROVE) == RUNS
    await seat.shows(newest, "executed")
    assert (await outcome(scene, asked))["decided_by"]["open_id"] == "ou_operator"


RULES = """
[[rule]]
name = "large invoices"
tools = ["send_invoice"]
risk = "high"
approvers = {people = ["open_id:ou_approver"]}
warnings = [
  {when = "double(arguments.amount) >= 1000.0", text = "More than 1000: has the order been delivered?"},
  {when = "arguments.currency != 'EUR'", text = "Not in euros."},
]

[[rule]]
name = "closed books"
tools = ["read_mailbox"]
execution = "deny"
reason = "The books are closed until Monday."
"""


async def test_a_rule_warns_and_another_denies(scene: Scene, album: Album, seat: Seat) -> None:
    async with scene.service.policy(RULES):
        asked = await scene.ask("send_invoice", {"to": "ada@example.com", "amount": "4800.00"}, reason=OFFER)
        await expect(seat.card(asked)).to_contain_text("Mind this before you decide:")
        await expect(seat.card(asked)).to_contain_text("More than 1000: has the order been delivered?")
        assert "Not in euros." not in await seat.card(asked).inner_text()
        await seat.card(asked).get_by_text("Details").click()
        await expect(seat.card(asked)).to_contain_text("Rule: large invoices · ")
        await album.take("warned", asked, "pending")
        denied = {"tool": "read_mailbox", "arguments": {}, "requester": {"open_id": "ou_requester"}}
        answer = (await scene.agent.post("/v1/approvals", json={**denied, "chat_id": "oc_team"})).json()
        told = await outcome(scene, Asked(answer["approval_id"], "", {}))
        assert (told["status"], told["decided_by"]) == ("rejected", None)
        assert "The books are closed until Monday." in told["reason"]
        assert await scene.chat.cards(answer["approval_id"]) == []
        await turn(seat, "approver")
        await seat.button(asked, APPROVE).click()
        question = seat.page.get_by_role("dialog")
        await expect(question).to_contain_text("More than 1000: has the order been delivered?")
        assert await seat.told(seat.page.get_by_test_id("confirm-ok").click()) == RUNS
        await seat.shows(asked, "executed")


async def test_several_calls_on_one_card(scene: Scene, album: Album, seat: Seat) -> None:
    calls = [
        {"tool": "post_update", "arguments": {"channel": "kitchen", "text": "The fridge is cleaned on Friday."}},
        {"tool": "post_update", "arguments": {"channel": "parking", "text": "Places 4 to 9 are closed."}},
        {"tool": "send_invoice", "arguments": {"to": "ada@example.com", "amount": "75.00"}},
    ]
    async with Assent(HttpDoor(str(scene.agent.base_url), "secret-agent")) as agent:
        handles = await agent.request_many(calls, requester=REQUESTER, chat_id="oc_team", reason="Monday's chores.")
        *harmless, invoice = handles

        async def sent() -> Asked | None:
            plan = await scene.service.ledger.plan(invoice.id)
            own = bundle_slot(plan.bundle_id, 0).uuid if plan and plan.bundle_id else None
            found = [each for each in await scene.chat.messages("oc_team") if own and each["uuid"] == own]
            return Asked(invoice.id, found[0]["message_id"], {}) if found else None

        bundle = await until(sent)
        await expect(seat.card(bundle).locator(".card-title")).to_have_text("Run these 3 calls?")
        await album.take("bundle", bundle, None)
        before = len(scene.tools.done("updates"))
        assert await seat.press(bundle, "Approve all that are low risk (2)") == (
            "success",
            "All 2 approved. They are running now.",
        )
        assert [(await handle.outcome()).status for handle in harmless] == ["executed"] * 2
        assert len(scene.tools.done("updates")) == before + 2
        await expect(seat.card(bundle)).to_contain_text("1 waiting")
        assert await seat.press(bundle, "Reject") == ("success", "Rejected. It will not run.")
        assert (await invoice.outcome()).status == "rejected"
        await expect(seat.card(bundle)).to_contain_text("Nothing is waiting here")
        assert await seat.has_no_buttons(bundle)
