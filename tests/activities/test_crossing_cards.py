"""What is said on cards at the same time, late, or twice: the older never covers the newer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.workflow import info as workflow_info

from activities.feishu.answers import Sent
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuSilent, FeishuUnavailable
from assent import ApprovalHandle, names
from ledger import MessageKind, Shown, Slot
from tests.conftest import OPERATOR
from tests.support.changing_cards import (
    TEAM,
    all_cards,
    has_no_buttons,
    members,
    revisions,
    rules,
    says,
    two_of,
    two_stages,
)
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, FeishuService, buttons
from tests.support.replaying import replays
from tests.support.waiting import until
from workflows import deliveries, recording, steps, waiting

pytestmark = pytest.mark.usefixtures("as_it_was")


Change = Callable[[Feishu, str, str], Awaitable[None]]


@pytest.fixture
async def changes(feishu: FeishuService, monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Takes over how a test's own cards are changed: those of earlier tests may still be on their way."""
    patch, others = Feishu.patch, {each["message_id"] for each in await feishu.chat.messages()}

    def take_over(change: Change) -> None:
        async def changed(client: Feishu, message_id: str, card: str) -> None:
            await (patch if message_id in others else change)(client, message_id, card)

        monkeypatch.setattr(Feishu, "patch", changed)

    return take_over


def holding_up(patch: Change, held: asyncio.Event, goes_on: asyncio.Event) -> Change:
    """Holds up the first change of a card."""

    async def change(client: Feishu, message_id: str, card: str) -> None:
        if not held.is_set():
            held.set()
            await goes_on.wait()
        await patch(client, message_id, card)

    return change


async def test_how_far_they_had_come_does_not_cover_that_it_runs(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER)
    held, released = asyncio.Event(), asyncio.Event()
    patch = Feishu.patch

    changes(holding_up(patch, held, released))
    gate = tmp_path / "gate"
    async with feishu.service.policy(rules(approvers=f'{{chat = "{TEAM}", threshold = 2}}')):
        handle = await feishu.ask(tmp_path, "gated", chat_id=TEAM, arguments={"gate": str(gate)})
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await held.wait()
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"

        async def listed() -> bool:
            running = feishu.service.gate.approvals(status="executing", limit=1000)
            return handle.id in [each.approval_id async for each in running]

        await until(listed)
        released.set()
        await feishu.chat.final(handle.id)
        gate.touch()
        assert (await handle.outcome()).status == "executed"
    await says(feishu, card, "Executed")
    can_be_clicked = [bool(buttons(each)) for each in await revisions(feishu, card)]
    assert can_be_clicked == [True, True, False, False]


async def test_how_far_one_stage_had_come_does_not_cover_that_the_next_one_is_asked(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    held, released = asyncio.Event(), asyncio.Event()
    patch = Feishu.patch

    changes(holding_up(patch, held, released))
    async with feishu.service.policy(two_stages()):
        handle = await feishu.ask(tmp_path)
        former = await all_cards(feishu, handle, 2)
        assert await feishu.click(handle, former[0], who=APPROVER) == "accepted"
        await held.wait()
        assert await feishu.click(handle, former[0], who=REQUESTER) == "accepted"
        *_, newest = await all_cards(feishu, handle, 3)
        released.set()
        for card in former:
            await until(lambda card=card: has_no_buttons(feishu, card))  # type: ignore[misc]
        assert await feishu.click(handle, newest, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    for card in (*former, newest):
        await says(feishu, card, "Executed")
    assert await replays(feishu.service.client, handle)


async def test_of_two_changes_of_a_card_that_cross_the_older_does_not_stay(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """That newer cards follow reaches Feishu before how far they had come does, and is confirmed after it."""
    patch, crossed = Feishu.patch, ""
    first_sent, second_taken, first_landed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tries = 0

    async def crossing(client: Feishu, message_id: str, card: str) -> None:
        nonlocal tries
        if message_id != crossed:
            await patch(client, message_id, card)
            return
        tries += 1
        if tries == 1:
            first_sent.set()
            await second_taken.wait()
            await patch(client, message_id, card)
            first_landed.set()
        elif tries == 2:
            await patch(client, message_id, card)
            second_taken.set()
            await first_landed.wait()
            await asyncio.sleep(0.5)  # its answer is that much slower
        else:
            await patch(client, message_id, card)

    changes(crossing)
    async with feishu.service.policy(two_stages()):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        crossed = card["message_id"]
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await first_sent.wait()
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        await first_landed.wait()
        await until(lambda: has_no_buttons(feishu, card))
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    assert await replays(feishu.service.client, handle)


async def test_what_landed_though_it_was_given_up_does_not_stay(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """How far they had come reaches a card after that newer cards follow, and Feishu's answer is lost."""
    patch, crossed = Feishu.patch, ""
    sent, goes_on = asyncio.Event(), asyncio.Event()

    async def crossing(client: Feishu, message_id: str, card: str) -> None:
        is_first = message_id == crossed and not sent.is_set()
        if is_first:
            sent.set()
            await goes_on.wait()
        await patch(client, message_id, card)
        if is_first:
            raise FeishuUnavailable("its answer was lost")

    changes(crossing)
    async with feishu.service.policy(two_stages()):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        crossed = card["message_id"]
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await sent.wait()
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        await until(lambda: is_noted(feishu, handle, Shown.REPLACED))
        goes_on.set()

        async def can_be_clicked() -> list[bool] | None:
            found = [bool(buttons(each)) for each in await revisions(feishu, card)]
            return found if len(found) == 4 else None

        assert await until(can_be_clicked) == [True, False, True, False]
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    assert await replays(feishu.service.client, handle)


async def is_noted(feishu: FeishuService, handle: ApprovalHandle, shown: Shown) -> bool:
    """Whether the ledger says so of its first card."""
    record = await feishu.service.ledger.record(handle.id)
    return record is not None and record.messages[0].shown is shown


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_reminder_that_comes_after_the_decision_loses_its_buttons_while_the_call_runs(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """Also where Feishu's answer to it is lost, and nobody knows that it is there."""
    monkeypatch.setattr(deliveries, "AT_ONCE", timedelta(minutes=1))
    send, held, goes_on = Feishu.send, asyncio.Event(), asyncio.Event()
    gate = tmp_path / "gate"
    async with feishu.service.policy(rules(remind_after="0.03", ttl="'60s'")):
        handle = await feishu.ask(tmp_path, "gated", arguments={"gate": str(gate)})
        card = await feishu.chat.card(handle.id)
        reminder_of = Slot(approval_id=handle.id, kind=MessageKind.CARD, generation=2, place=0)

        async def late(client: Feishu, *to: Any, **named: Any) -> Sent:
            if named["uuid"] != reminder_of.uuid:
                return await send(client, *to, **named)
            is_first = not held.is_set()
            held.set()
            await goes_on.wait()
            sent = await send(client, *to, **named)
            if is_first and not is_answered:
                raise FeishuUnavailable("its answer was lost")
            return sent

        monkeypatch.setattr(Feishu, "send", late)
        await held.wait()
        assert await feishu.click(handle, card) == "accepted"
        await until(lambda: has_no_buttons(feishu, card))
        goes_on.set()
        _, reminder = await all_cards(feishu, handle, 2)
        await until(lambda: has_no_buttons(feishu, reminder))
        assert (await handle.state()).phase == "executing"
        gate.touch()
        assert (await handle.outcome()).status == "executed"
    for each in (card, reminder):
        await says(feishu, each, "Executed")
    assert len(await feishu.chat.cards(handle.id)) == 2
    assert await replays(feishu.service.client, handle)


async def test_that_a_call_runs_is_said_once_feishu_lets_it(feishu: FeishuService, tmp_path: Path) -> None:
    """On the card that could not be changed at first; whose card can be is told once."""
    gate = tmp_path / "gate"
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        handle = await feishu.ask(tmp_path, "gated", arguments={"gate": str(gate)})
        sick, healthy = await all_cards(feishu, handle, 2)
        await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": sick["message_id"]}})
        assert await feishu.click(handle, healthy, who=APPROVER) == "accepted"
        assert await feishu.click(handle, healthy, who=REQUESTER) == "accepted"
        await until(lambda: has_no_buttons(feishu, healthy))
        assert not await has_no_buttons(feishu, sick)
        before = len(await revisions(feishu, healthy))
        await feishu.chat.behave()
        await until(lambda: has_no_buttons(feishu, sick))
        assert (await handle.state()).phase == "executing"
        assert len(await revisions(feishu, healthy)) == before
        gate.touch()
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


async def test_no_outcome_waits_for_a_card_that_is_being_told_that_the_call_runs(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("SOON", "OUTBOUND_ATTEMPT"):
        monkeypatch.setattr(steps, limit, timedelta(minutes=10))
    monkeypatch.setattr(recording, "OUTBOUND_ATTEMPT", timedelta(seconds=2))
    patch, held, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()
    gate = tmp_path / "gate"

    changes(holding_up(patch, held, goes_on))
    handle = await feishu.ask(tmp_path, "gated", arguments={"gate": str(gate)})
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card) == "accepted"
    await held.wait()
    gate.touch()
    assert (await handle.outcome()).status == "executed"
    goes_on.set()
    await says(feishu, card, "Executed")
    assert await replays(feishu.service.client, handle)


async def test_what_may_have_landed_is_looked_after_also_once_it_was_decided(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """Whoever looked after it was given up by the decision."""
    patch, crossed, tries, is_in_trouble = Feishu.patch, "", 0, True
    sent, goes_on, looked_after = asyncio.Event(), asyncio.Event(), asyncio.Event()
    gate = tmp_path / "gate"

    async def crossing(client: Feishu, message_id: str, card: str) -> None:
        nonlocal tries
        tries += message_id == crossed
        if message_id == crossed and tries == 1:
            sent.set()
            await goes_on.wait()
            await patch(client, message_id, card)
            raise FeishuUnavailable("its answer was lost")
        if message_id == crossed and tries > 2 and is_in_trouble:
            looked_after.set()
            raise FeishuUnavailable("it answered with the HTTP status 503")
        await patch(client, message_id, card)

    changes(crossing)
    async with feishu.service.policy(two_stages()):
        handle = await feishu.ask(tmp_path, "gated", chat_id=TEAM, arguments={"gate": str(gate)})
        card = await feishu.chat.card(handle.id)
        crossed = card["message_id"]
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await sent.wait()
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        await until(lambda: is_noted(feishu, handle, Shown.REPLACED))
        goes_on.set()
        await looked_after.wait()
        _, newer = await all_cards(feishu, handle, 2)
        assert await feishu.click(handle, newer, who=OPERATOR) == "accepted"
        is_in_trouble = False
        for each in (card, newer):
            await until(lambda each=each: has_no_buttons(feishu, each))  # type: ignore[misc]
        assert (await handle.state()).phase == "executing"
        gate.touch()
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


async def test_that_a_result_waits_is_said_once_feishu_lets_it(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, "looked_at", arguments={"say": "a private matter", "secret": "private"})
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": card["message_id"]}})
    assert await feishu.click(handle, card) == "accepted"

    async def shown() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.RESULT)), None)

    result = await until(shown)
    assert not await has_no_buttons(feishu, card)
    await feishu.chat.behave()
    await says(feishu, card, "waits to be released")
    assert await feishu.click(handle, result) == "accepted"
    assert (await handle.outcome()).status == "executed"
    await says(feishu, card, "Executed")
    assert await replays(feishu.service.client, handle)


async def test_that_a_result_waits_is_said_though_the_history_is_too_long_to_wait_in(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await feishu.ask(tmp_path, "looked_at")
    card = await feishu.chat.card(handle.id)
    workflow_id = names.approval_workflow(handle.id)
    workflow = feishu.service.client.get_workflow_handle(workflow_id)
    first = (await workflow.describe()).run_id

    def is_long() -> bool:
        return workflow_info().workflow_id == workflow_id and workflow_info().continued_run_id is None

    monkeypatch.setattr(waiting, "_history_is_long", is_long)
    assert await feishu.click(handle, card) == "accepted"
    await says(feishu, card, "waits to be released")

    async def continued() -> bool:
        return (await workflow.describe()).run_id != first

    await until(continued)
    (result,) = await feishu.chat.cards(handle.id, MessageKind.RESULT)
    assert await feishu.click(handle, result) == "accepted"
    assert (await handle.outcome()).status == "executed"


@pytest.mark.parametrize("before", ["the result waits", "1 of 2"])
async def test_no_result_waits_for_a_card_that_is_being_told_something(
    feishu: FeishuService,
    tmp_path: Path,
    changes: Callable[[Change], None],
    monkeypatch: pytest.MonkeyPatch,
    before: str,
) -> None:
    for limit in ("SOON", "OUTBOUND_ATTEMPT"):
        monkeypatch.setattr(steps, limit, timedelta(minutes=10))
    monkeypatch.setattr(recording, "OUTBOUND_ATTEMPT", timedelta(seconds=2))
    patch, held, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()
    rule = two_of(APPROVER, REQUESTER) if before == "1 of 2" else rules(ttl="'60s'")

    async def shown() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.RESULT)), None)

    changes(holding_up(patch, held, goes_on))
    async with feishu.service.policy(rule):
        handle = await feishu.ask(tmp_path, "looked_at", chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        if before == "1 of 2":
            assert await feishu.click(handle, card, who=APPROVER) == "accepted"
            await held.wait()
        assert await feishu.click(handle, card) == "accepted"
        await held.wait()
        result = await until(shown)
        assert await feishu.click(handle, result) == "accepted"
        assert (await handle.outcome()).status == "executed"
        goes_on.set()
        await says(feishu, card, "Executed")
    assert await replays(feishu.service.client, handle)


async def test_that_a_tool_asks_is_told_again_until_every_card_says_so(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    patch, refused = Feishu.patch, Counter[str]()

    async def troubled(client: Feishu, message_id: str, card: str) -> None:
        if "waits for an answer" in card and not refused[message_id]:
            refused[message_id] += 1
            raise FeishuUnavailable("it answered with the HTTP status 503")
        await patch(client, message_id, card)

    changes(troubled)
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        handle = await feishu.ask(tmp_path, "asks_in_vain")
        cards = await all_cards(feishu, handle, 2)
        for person in (APPROVER, REQUESTER):
            assert await feishu.click(handle, cards[0], who=person) == "accepted"
        for card in cards:
            await says(feishu, card, "waits for an answer")
        (tmp_path / "marks").touch()
        assert (await handle.outcome()).status == "executed"
    assert sum(refused.values()) == 2
    assert await replays(feishu.service.client, handle)


async def test_a_late_card_waits_for_no_other_that_is_late(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were on their way when it was decided; one comes, the other one's chat does not answer."""
    monkeypatch.setattr(steps, "OUTBOUND_ATTEMPT", timedelta(minutes=10))
    gate, approval_id = tmp_path / "gate", f"late{tmp_path.name}"
    sick, healthy = (
        Slot(approval_id=approval_id, kind=MessageKind.CARD, generation=1, place=place).uuid for place in (0, 1)
    )
    send, tried, on_their_way = Feishu.send, Counter[str](), set[str]()
    is_decided, goes_on = asyncio.Event(), asyncio.Event()

    async def late(client: Feishu, *to: Any, **named: Any) -> Sent:
        uuid = named["uuid"]
        if uuid in (sick, healthy):
            tried[uuid] += 1
            if tried[uuid] == 1:
                raise FeishuUnavailable("it answered with the HTTP status 503")
            on_their_way.add(uuid)
            await (goes_on if uuid == sick else is_decided).wait()
        return await send(client, *to, **named)

    async def both() -> bool:
        return len(on_their_way) == 2

    monkeypatch.setattr(Feishu, "send", late)
    people = ", ".join(f'"open_id:{person.open_id}"' for person in (APPROVER, OPERATOR))
    async with feishu.service.policy(rules(approvers=f"{{people = [{people}]}}")):
        handle = await feishu.ask(tmp_path, "gated", approval_id=approval_id, arguments={"gate": str(gate)})
        await until(both)
        seen = (await handle.state()).payload_sha256 or ""
        assert (await handle.decide("approve", actor=APPROVER, payload_sha256=seen)).kind == "accepted"
        is_decided.set()
        (card,) = await all_cards(feishu, handle, 1)
        await until(lambda: has_no_buttons(feishu, card))
        assert (await handle.state()).phase == "executing"
        goes_on.set()
        gate.touch()
        assert (await handle.outcome()).status == "executed"
    for each in await all_cards(feishu, handle, 2):
        await says(feishu, each, "Executed")
    assert await replays(feishu.service.client, handle)


async def test_the_end_comes_after_what_was_still_being_said(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late that arrives, and though Feishu fails once right after it; the outcome does not wait for cards."""
    monkeypatch.setattr(recording, "OUTBOUND_ATTEMPT", timedelta(seconds=2))
    patch, held, released, failed = Feishu.patch, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def in_trouble(client: Feishu, message_id: str, card: str) -> None:
        if not held.is_set():
            held.set()
            await released.wait()
        elif not failed.is_set():
            failed.set()
            raise FeishuUnavailable("it answered with the HTTP status 503")
        await patch(client, message_id, card)

    changes(in_trouble)
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await held.wait()
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        assert (await handle.outcome()).status == "executed"
    released.set()

    async def both_said() -> bool:
        said = [str(each) for each in await revisions(feishu, card)]
        return any("1 of 2" in each for each in said) and "Executed" in said[-1]

    await until(both_said)
    assert await has_no_buttons(feishu, card)
    assert await replays(feishu.service.client, handle)


async def test_a_click_on_a_new_card_waits_for_no_older_card(feishu: FeishuService, tmp_path: Path) -> None:
    """Feishu did not take the new card at once, and answers for none of the older ones."""
    people = ", ".join(f'"open_id:{person.open_id}"' for person in (APPROVER, REQUESTER, OUTSIDER, OPERATOR))
    stages = f"[{{people = [{people}]}}, {{people = ['open_id:{OPERATOR.open_id}']}}]"
    async with feishu.service.policy(rules(approvers=stages, ttl="'75s'")):
        handle = await feishu.ask(tmp_path)
        older = await all_cards(feishu, handle, 4)
        silent = [
            {"on": "patch", "kind": "slow", "seconds": 120, "match": {"message_id": each["message_id"]}}
            for each in older
        ]
        await feishu.chat.misbehave(*silent, {"on": "send", "kind": "5xx", "times": 1})
        assert await feishu.click(handle, older[0], who=APPROVER) == "accepted"
        *_, newest = await all_cards(feishu, handle, 5)
        assert await feishu.click(handle, newest, who=OPERATOR) == "accepted"
        await feishu.chat.behave()
        assert (await handle.outcome()).status == "executed"


async def test_a_card_of_a_stage_that_is_over_loses_its_buttons_once_feishu_lets_it(
    feishu: FeishuService, tmp_path: Path
) -> None:
    async with feishu.service.policy(two_stages()):
        handle = await feishu.ask(tmp_path)
        sick, healthy = await all_cards(feishu, handle, 2)
        await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": sick["message_id"]}})
        assert await feishu.click(handle, healthy, who=APPROVER) == "accepted"
        await says(feishu, healthy, "1 of 2")
        assert await feishu.click(handle, healthy, who=REQUESTER) == "accepted"
        await all_cards(feishu, handle, 3)
        await until(lambda: has_no_buttons(feishu, healthy))
        assert not await has_no_buttons(feishu, sick)
        await feishu.chat.behave()
        await until(lambda: has_no_buttons(feishu, sick))
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    assert await replays(feishu.service.client, handle)


async def test_a_card_that_was_busy_when_it_was_followed_loses_its_buttons(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """It was just being said on it how far the approvers had come, for a long time."""
    patch, began, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()
    async with feishu.service.policy(two_of(APPROVER, OPERATOR, remind_after="0.08")):
        handle = await feishu.ask(tmp_path)
        former = await all_cards(feishu, handle, 2)
        refused = asyncio.Event()

        async def slowly(client: Feishu, message_id: str, card: str) -> None:
            if message_id == former[0]["message_id"] and not goes_on.is_set():
                if began.is_set():
                    refused.set()
                    raise FeishuSilent("one at a time")  # as the breaker says while a card is being patched
                began.set()
                await goes_on.wait()
            await patch(client, message_id, card)

        changes(slowly)
        assert await feishu.click(handle, former[1], who=APPROVER) == "accepted"
        await refused.wait()  # the reminder's cards are there, and the busy one could not be told
        goes_on.set()
        for card in former:
            await until(lambda card=card: has_no_buttons(feishu, card))  # type: ignore[misc]
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    assert await replays(feishu.service.client, handle)


def _scheduled(event: HistoryEvent) -> str:
    return event.activity_task_scheduled_event_attributes.activity_type.name


async def test_what_is_said_of_a_running_call_is_said_in_turn(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """That its tool asks, and that it runs, while Feishu takes its time: the one never covers the other."""
    at_work, most = Counter[str](), 0
    patch = Feishu.patch

    async def slowly(client: Feishu, message_id: str, card: str) -> None:
        nonlocal most
        at_work[message_id] += 1
        most = max(most, at_work[message_id])
        try:
            await asyncio.sleep(2)  # longer than a call runs before its card says so
            await patch(client, message_id, card)
        finally:
            at_work[message_id] -= 1

    changes(slowly)
    handle = await feishu.ask(tmp_path, "asks_in_vain")
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card) == "accepted"
    workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def said_both() -> bool:
        said = [_scheduled(each) async for each in workflow.fetch_history_events()]
        return said.count(names.SHOW) == 2

    await until(said_both)
    await says(feishu, card, "waits for an answer")
    (tmp_path / "marks").touch()
    assert (await handle.outcome()).status == "executed"
    await says(feishu, card, "Executed")
    assert most == 1
    assert await replays(feishu.service.client, handle)


async def test_of_several_things_that_wait_to_be_said_of_a_running_call_one_is_said_at_a_time(
    feishu: FeishuService, tmp_path: Path, changes: Callable[[Change], None]
) -> None:
    """That its tool asks, and that it runs, both wait until it has been said how far the approvers had come."""
    at_work, most = Counter[str](), 0
    patch, waits, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()

    async def slowly(client: Feishu, message_id: str, card: str) -> None:
        nonlocal most
        at_work[message_id] += 1
        most = max(most, at_work[message_id])
        try:
            waits.set()
            await goes_on.wait()
            await asyncio.sleep(1)  # within which whatever is said at the same time would begin
            await patch(client, message_id, card)
        finally:
            at_work[message_id] -= 1

    changes(slowly)
    people = f'people = ["open_id:{APPROVER.open_id}", "open_id:{REQUESTER.open_id}"]'
    async with feishu.service.policy(rules(approvers=f"{{{people}, threshold = 2}}")):
        handle = await feishu.ask(tmp_path, "asks_in_vain")
        cards = await all_cards(feishu, handle, 2)
        assert await feishu.click(handle, cards[0], who=APPROVER) == "accepted"
        await waits.wait()
        assert await feishu.click(handle, cards[0], who=REQUESTER) == "accepted"

        workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

        async def runs_and_asks() -> bool:
            happened = [each async for each in workflow.fetch_history_events()]
            signals = [each.workflow_execution_signaled_event_attributes.signal_name for each in happened]
            return names.ASKING in signals and any(each.HasField("timer_fired_event_attributes") for each in happened)

        await until(runs_and_asks)
        goes_on.set()
        for card in cards:
            await says(feishu, card, "waits for an answer")

        async def all_said() -> bool:
            said = [_scheduled(each) async for each in workflow.fetch_history_events()]
            return said.count(names.SHOW) == 3 and not sum(at_work.values())

        await until(all_said)
        for card in cards:
            assert "waits for an answer" in str((await revisions(feishu, card))[-1])
        (tmp_path / "marks").touch()
        assert (await handle.outcome()).status == "executed"
    assert most == 1
    assert await replays(feishu.service.client, handle)
