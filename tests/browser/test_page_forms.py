"""Changing arguments, passing on and releasing in the simulator's page, in a real Chromium, up to what arrives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from assent.arguments.fields import typed
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.presentation import Presentation, Words
from cards import Click, Showing, card, parse_event, result_card
from simulator import Settings
from tests.support.cards import WORDING, plan
from tests.support.chat_page import APPROVE
from tests.support.chromium import chromium
from tests.support.form_fields import ARGUMENTS as ALL
from tests.support.form_fields import SCHEMA
from tests.support.permission_cards import ONCE
from tests.support.result_cards import showing
from tests.support.simulated_feishu import Feishu, Webhook, feishu, webhook
from tests.support.waiting import until

ARGUMENTS = {name: ALL[name] for name in ("to", "amount", "kind", "lines", "note", "urgent", "key")}


@dataclass
class FormPage:
    """Somebody at the page, and the app that their clicks reach."""

    platform: Feishu
    hook: Webhook
    page: Page

    async def card(self, text: str, to: str = "oc_team") -> Locator:
        return self.shown(await self.platform.sent(json.loads(text), to))

    def shown(self, message_id: str) -> Locator:
        return self.page.locator(f'#messages > [data-message-id="{message_id}"] article.card')

    async def arrived(self) -> Click:
        """The click that was sent last, as the service reads it."""
        await expect(self.page.locator("[aria-busy=true]")).to_have_count(0)
        click = parse_event(self.hook.opened(), proof="test", tenant_key="tenant_1")
        assert isinstance(click, Click), click
        return click


@pytest.fixture(name="form_page", scope="module")
async def _form_page() -> AsyncIterator[FormPage]:
    async with webhook() as hook, feishu(Settings(callback_url=hook.url, limits=False)) as platform:
        hook.answers({"toast": {"type": "success", "content": "Received"}})
        async with chromium() as browser:
            context = await browser.new_context(viewport={"width": 1200, "height": 1400}, reduced_motion="reduce")
            page = await context.new_page()
            await page.goto(f"{platform.url}/?as=ou_approver&chat=oc_team&lang=en&theme=light")
            await expect(page.locator("body[data-connected=true]")).to_be_visible()
            yield FormPage(platform, hook, page)


EVERYBODY = ["ou_requester", "ou_approver", "ou_outsider", "ou_operator"]


async def pressed(form_page: FormPage, shown: Locator, name: str) -> Click:
    return await sent(form_page, shown.get_by_role("button", name=name, exact=True))


async def sent(form_page: FormPage, button: Locator) -> Click:
    before = len(form_page.hook.received)
    await button.click()
    await until_count(form_page, before + 1)
    return await form_page.arrived()


async def until_count(form_page: FormPage, clicks: int) -> None:
    """Until so many clicks arrived; a toast may have gone by the time that a busy machine looks."""

    async def heard() -> bool:
        return len(form_page.hook.received) == clicks

    await until(heard)


def pending(**fields: Any) -> str:
    return card(Showing(plan=plan(ARGUMENTS, tool="order", sensitive=("key",), **fields), parameters=SCHEMA), WORDING)


async def test_arguments_are_changed_in_their_fields(form_page: FormPage) -> None:
    shown = await form_page.card(pending())
    await shown.get_by_text("Edit the arguments").click()
    await shown.get_by_label("to", exact=True).fill("Müller & Söhne")
    await shown.get_by_label("lines", exact=True).fill('[{"item": "Hotel", "count": 2}]')
    await shown.locator("select[data-name=arg_2]").select_option("express")
    await shown.get_by_label("note", exact=True).fill("two\nlines")
    click = await pressed(form_page, shown, "Approve with these changes")
    assert click.kind == "edit"
    assert click.fields is not None
    assert "key" not in click.fields
    changed = typed(SCHEMA, ARGUMENTS, click.fields, ["key"])
    expected = {"to": "Müller & Söhne", "kind": "express", "lines": [{"item": "Hotel", "count": 2}]}
    assert changed == {**ARGUMENTS, **expected, "note": "two lines"}  # a field of one line holds one line


async def test_a_form_that_nobody_touched_changes_nothing(form_page: FormPage) -> None:
    shown = await form_page.card(pending())
    await shown.get_by_text("Edit the arguments").click()
    click = await pressed(form_page, shown, "Approve with these changes")
    assert click.fields is not None
    assert set(click.fields) == set(ARGUMENTS) - {"key"}
    assert typed(SCHEMA, ARGUMENTS, click.fields, ["key"]) == ARGUMENTS


async def test_a_dangerous_change_is_asked_about_again(form_page: FormPage) -> None:
    shown = await form_page.card(pending(risk=Risk.HIGH))
    await shown.get_by_text("Edit the arguments").click()
    await shown.get_by_role("button", name="Approve with these changes").click()
    await expect(form_page.page.get_by_test_id("confirm-ok")).to_be_visible()
    before = len(form_page.hook.received)
    await form_page.page.get_by_role("button", name="Cancel", exact=True).click()
    assert len(form_page.hook.received) == before


async def test_what_was_typed_survives_that_the_card_changes_meanwhile(form_page: FormPage) -> None:
    message_id = await form_page.platform.sent(json.loads(pending()))
    shown = form_page.shown(message_id)
    await shown.get_by_text("Edit the arguments").click()
    await shown.get_by_label("to", exact=True).fill("half typ")
    await form_page.platform.patch(message_id, json.loads(pending(warnings=("Somebody else approved.",))))
    await expect(shown).to_contain_text("Somebody else approved.")
    await expect(shown.get_by_label("to", exact=True)).to_have_value("half typ")


async def test_the_decision_is_passed_on_to_a_person_of_the_chat(form_page: FormPage) -> None:
    shown = await form_page.card(pending())
    await shown.get_by_text("Let somebody else decide").click()
    picker = shown.locator("select[data-name=delegate_to]")
    await expect(picker).to_be_visible()
    offered = ["Choose a person", "Han Meimei", "Li Lei", "Wang Fang", "Chen Jing"]
    await expect(picker.locator("option")).to_have_text(offered, use_inner_text=True)

    async def refused() -> bool:  # however soon its toast goes
        await shown.get_by_role("button", name="Pass it on").click()
        return await form_page.page.get_by_test_id("toast").filter(has_text="A required field is empty").count() > 0

    await until(refused)
    await picker.select_option(label="Chen Jing")
    click = await pressed(form_page, shown, "Pass it on")
    assert (click.kind, click.delegate_to) == ("delegate", Identity(open_id="ou_operator", tenant_key="tenant_1"))


async def test_who_is_in_the_chat_can_change(form_page: FormPage) -> None:
    await form_page.platform.http.put("/api/chats/oc_team/members", json={"members": ["ou_approver", "ou_outsider"]})
    shown = await form_page.card(pending())
    await shown.get_by_text("Let somebody else decide").click()
    options = shown.locator("select[data-name=delegate_to] option")
    await expect(options).to_have_text(["Choose a person", "Li Lei", "Wang Fang"])
    await form_page.platform.http.put("/api/chats/oc_team/members", json={"members": EVERYBODY})
    await expect(options).to_have_count(5)


_LISTEN = """() => new Promise((listening) => {
  const source = new EventSource("/api/stream");
  source.onopen = () => listening();
  window.heard = new Promise((resolve) => {
    source.onmessage = () => { source.close(); requestAnimationFrame(() => requestAnimationFrame(resolve)); };
  });
})"""
"""Lets the test await that an event reached the page, and that it had the time to draw it."""


@pytest.mark.parametrize("pressed_on", ["button", "panel"])
async def test_a_card_is_not_drawn_anew_between_press_and_release(form_page: FormPage, pressed_on: str) -> None:
    page = form_page.page
    message_id = await form_page.platform.sent(json.loads(pending()))
    shown = form_page.shown(message_id)
    button = shown.get_by_role("button", name=APPROVE, exact=True)
    target = button if pressed_on == "button" else shown.get_by_text("Let somebody else decide")
    await target.scroll_into_view_if_needed()
    await page.evaluate(_LISTEN)
    before = len(form_page.hook.received)
    await target.hover()
    await page.mouse.down()
    await form_page.platform.http.put("/api/chats/oc_team/members", json={"members": EVERYBODY})
    await page.evaluate("() => window.heard")
    await page.mouse.up()
    if pressed_on == "panel":
        await expect(shown.locator("select[data-name=delegate_to]")).to_be_visible()
    else:
        await until_count(form_page, before + 1)
    await form_page.platform.patch(message_id, json.loads(pending(warnings=("Somebody else approved.",))))
    await expect(shown).to_contain_text("Somebody else approved.")
    if pressed_on == "panel":
        await expect(shown.locator("select[data-name=delegate_to]")).to_be_visible()


@asynccontextmanager
async def held(page: Page, button: Locator, how: str) -> AsyncIterator[None]:
    """A button that is pressed, with the mouse, a finger or a key, and then released."""
    if how == "key":
        await button.focus()
        await page.keyboard.down(" ")
        yield
        await page.keyboard.up(" ")
        return
    if how == "finger":
        box = await button.bounding_box()
        assert box is not None
        points = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]
        client = await page.context.new_cdp_session(page)
        await client.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        await client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
        yield
        await client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        await client.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
        return
    await button.hover()
    await page.mouse.down()
    if how == "mouse and shift":
        await page.keyboard.down("Shift")
    yield
    await page.mouse.up()
    await page.keyboard.up("Shift")


@pytest.mark.parametrize("how", ["mouse", "mouse and shift", "finger", "key"])
async def test_however_a_button_is_pressed_its_click_arrives_and_then_what_changed_is_drawn(
    form_page: FormPage, how: str
) -> None:
    message_id = await form_page.platform.sent(json.loads(pending()))
    shown = form_page.shown(message_id)
    button = shown.get_by_role("button", name=APPROVE, exact=True)
    await button.scroll_into_view_if_needed()
    await form_page.page.evaluate(_LISTEN)
    before = len(form_page.hook.received)
    async with held(form_page.page, button, how):
        await form_page.platform.patch(message_id, json.loads(pending(warnings=("Somebody else approved.",))))
        await form_page.page.evaluate("() => window.heard")
        assert "Somebody else approved." not in await shown.inner_text()
    await until_count(form_page, before + 1)
    assert (await form_page.arrived()).kind == "approve"
    await expect(shown).to_contain_text("Somebody else approved.")


_AT_THE_END = """() => new Promise((drawn) => {
  const scroller = document.getElementById("scroller");
  scroller.scrollTop = scroller.scrollHeight;
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(drawn)));
})"""


async def test_who_comes_to_the_end_and_presses_at_once_meets_what_they_aim_at(form_page: FormPage) -> None:
    """The button that leads to what is new makes room when it goes: everything above it would move."""
    page, newer = form_page.page, form_page.page.locator("#newer")
    await page.evaluate("() => { document.getElementById('scroller').scrollTop = 0 }")
    for _ in range(2):
        await form_page.card(pending())
        shown = await form_page.card(pending())
    await expect(newer).to_be_visible()
    await page.locator("#conversation-head").hover()
    await page.mouse.down()
    await page.evaluate(_AT_THE_END)
    assert await newer.is_visible()
    await page.mouse.up()
    await expect(newer).to_be_hidden()
    await shown.get_by_text("Let somebody else decide").click()
    await expect(shown.locator("select[data-name=delegate_to]")).to_be_visible()


async def test_who_ticks_to_be_asked_again_is_not_remembered(form_page: FormPage) -> None:
    shown = await form_page.card(pending(**ONCE))
    box = shown.get_by_label("Ask me again next time")
    await shown.get_by_text("Ask me again next time").click()
    await expect(box).to_be_checked()
    click = await pressed(form_page, shown, "Reject")
    assert (click.kind, click.persist_decision) == ("reject", False)


async def test_remembering_is_a_button_of_its_own(form_page: FormPage) -> None:
    shown = await form_page.card(pending(**ONCE))
    await shown.get_by_role("button", name="Approve, and stop asking about order in this chat for 7 days").click()
    asked = form_page.page.get_by_role("dialog")
    await expect(asked).to_contain_text("Stop asking about order?")
    await expect(asked).to_contain_text("whatever its arguments")
    click = await sent(form_page, form_page.page.get_by_test_id("confirm-ok"))
    assert (click.kind, click.remember, click.chat_id) == ("approve", "tool", "oc_team")


REFUND = {"amount": "12.50", "currency": "EUR", "order": "A-17", "ship_back_to": None}
READ = Presentation(
    title=Words(en="Refund an order", zh="退款"),
    labels={"order": Words(en="Order", zh="订单")},
    summary=Words(en="Refund {amount} {currency} for order {order}", zh="订单 {order} 退款 {amount} {currency}"),
    order=("order", "amount", "currency", "ship_back_to"),
    decimals=("amount",),
)


async def test_on_a_phone_what_would_run_stands_at_the_button_and_its_warning_in_the_question(
    form_page: FormPage,
) -> None:
    page = form_page.page
    await page.set_viewport_size({"width": 390, "height": 700})
    try:
        warned = ("This customer was refunded twice.",)
        asked = plan(REFUND, tool="refund", presentation=READ, risk=Risk.HIGH, warnings=warned, sensitive=())
        for lang, line in (("zh", "订单 A-17 退款 12.50 EUR"), ("en", "Refund 12.50 EUR for order A-17")):
            await page.goto(page.url.replace("lang=en", f"lang={lang}").replace("lang=zh", f"lang={lang}"))
            await expect(page.locator("body[data-connected=true]")).to_be_visible()
            shown = await form_page.card(card(Showing(plan=asked), WORDING))
            await expect(shown.locator(".card-header")).to_contain_text(line)
            assert "null" not in await shown.locator(".card-header").inner_text()
            approve = shown.get_by_role("button", name="Approve" if lang == "en" else "同意", exact=True)
            await approve.scroll_into_view_if_needed()
            await expect(shown.get_by_text(line, exact=True).last).to_be_in_viewport()
            await approve.click()
            await expect(page.get_by_role("dialog")).to_contain_text(line)
            await expect(page.get_by_role("dialog")).to_contain_text("This customer was refunded twice.")
            await page.get_by_test_id("confirm-cancel").click()
    finally:
        await page.set_viewport_size({"width": 1200, "height": 1400})


async def test_a_result_is_read_and_released_or_withheld(form_page: FormPage) -> None:
    of = showing({"invoice": 42})
    shown = await form_page.card(result_card(of, WORDING))
    await expect(shown.get_by_text('"invoice": 42')).to_be_visible()
    release = await pressed(form_page, shown, "Release to the agent")
    assert (release.kind, release.stage, release.payload_sha256) == ("approve", "result", of.content_sha256)
    await shown.get_by_placeholder("Reason for withholding (optional)").fill("private")
    withhold = await pressed(form_page, shown, "Withhold")
    assert (withhold.kind, withhold.stage, withhold.reason) == ("reject", "result", "private")
