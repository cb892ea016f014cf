"""Approvers on cards: members of a chat, stages, reminders, people called in, remembered decisions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuSilent, FeishuUnavailable
from assent import ApprovalHandle, Identity, names
from assent.types import State
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, FeishuService, buttons, open_feishu_service
from tests.support.replaying import replays
from tests.support.tools import marks
from tests.support.waiting import until
from workflows import recording

TEAM, OPS = "oc_team", "oc_ops"


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("feishu"))


@pytest.fixture(autouse=True)
async def as_it_was(feishu: FeishuService) -> AsyncIterator[None]:
    yield
    await feishu.chat.behave()


async def members(feishu: FeishuService, chat_id: str, *people: Identity) -> None:
    answer = await feishu.chat.http.put(
        f"/api/chats/{chat_id}/members", json={"members": [person.open_id for person in people]}
    )
    answer.raise_for_status()


async def card_with(feishu: FeishuService, handle: ApprovalHandle, *words: str, number: int = 1) -> dict[str, Any]:
    """The newest card, once there are so many and it says all of this."""

    async def there() -> dict[str, Any] | None:
        found = await feishu.chat.cards(handle.id)
        newest = found[-1] if len(found) >= number else None
        return newest if newest and all(word in str(newest["content"]) for word in words) else None

    return await until(there)


async def all_cards(feishu: FeishuService, handle: ApprovalHandle, count: int) -> list[dict[str, Any]]:
    """All cards of the call, once there are so many."""

    async def there() -> list[dict[str, Any]] | None:
        found = await feishu.chat.cards(handle.id)
        return found if len(found) == count else None

    return await until(there)


async def revisions(feishu: FeishuService, card: dict[str, Any]) -> list[Any]:
    """Every version of a card, in order."""
    answer = await feishu.chat.http.get(f"/api/messages/{card['message_id']}")
    found: list[Any] = answer.raise_for_status().json()["revisions"]
    return found


async def says(feishu: FeishuService, card: dict[str, Any], words: str) -> None:
    """Wait until this card says this."""

    async def says_so() -> bool:
        return words in str((await revisions(feishu, card))[-1])

    await until(says_so)


def rules(**said: str) -> str:
    return "[[rule]]\nname = 'test'\n" + "\n".join(f"{key} = {value}" for key, value in said.items())


def two_stages() -> str:
    """Two people approve, and after them a third."""
    first = f'{{people = ["open_id:{APPROVER.open_id}", "open_id:{REQUESTER.open_id}"], threshold = 2}}'
    second = f'{{people = ["open_id:{OPERATOR.open_id}"]}}'
    return rules(approvers=f"[{first}, {second}]")


async def test_members_of_a_chat_decide_and_nobody_else(feishu: FeishuService, tmp_path: Path) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER)
    async with feishu.service.policy(rules(approvers=f'{{chat = "{TEAM}", threshold = 2}}')):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=OUTSIDER) == "forbidden"
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        progressed = await card_with(feishu, handle, "1 of 2")
        assert "approve" in buttons(progressed["content"])
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        outcome = await handle.outcome()
    assert (outcome.status, marks(tmp_path / "marks")) == ("executed", 1)
    assert len(outcome.approved_by) == 2


async def test_how_far_they_have_come_is_shown_even_if_feishu_does_not_take_it_at_once(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER)
    async with feishu.service.policy(rules(approvers=f'{{chat = "{TEAM}", threshold = 2}}')):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        failing = {"on": "patch", "kind": "5xx", "times": 6, "match": {"message_id": card["message_id"]}}
        await feishu.chat.misbehave(failing)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await card_with(feishu, handle, "1 of 2")
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"
        assert (await handle.outcome()).status == "executed"


async def test_a_card_that_cannot_be_changed_keeps_no_other_from_saying_how_far_they_have_come(
    feishu: FeishuService, tmp_path: Path
) -> None:
    three = (APPROVER, OPERATOR, REQUESTER)
    people = ", ".join(f'"open_id:{person.open_id}"' for person in three)
    async with feishu.service.policy(rules(approvers=f"{{people = [{people}], threshold = 3}}")):
        handle = await feishu.ask(tmp_path)
        sick, *healthy = await all_cards(feishu, handle, len(three))
        failing = {"on": "patch", "kind": "5xx", "match": {"message_id": sick["message_id"]}}
        await feishu.chat.misbehave(failing)

        for number, person in enumerate(three[:2], start=1):
            assert await feishu.click(handle, healthy[0], who=person) == "accepted"
            for card in healthy:
                await says(feishu, card, f"{number} of 3")
        # Each try for the sick card leaves alone those that say it already.
        assert [len(await revisions(feishu, card)) for card in healthy] == [3, 3]
        await feishu.chat.behave()
        await says(feishu, sick, "2 of 3")
        assert [len(await revisions(feishu, card)) for card in healthy] == [3, 3]
        assert await feishu.click(handle, healthy[0], who=three[2]) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == 1


async def test_how_far_they_had_come_does_not_cover_that_it_runs(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER)
    held, released = asyncio.Event(), asyncio.Event()
    patch = Feishu.patch

    async def held_up(client: Feishu, message_id: str, card: str) -> None:
        if not held.is_set():
            held.set()
            await released.wait()
        await patch(client, message_id, card)

    monkeypatch.setattr(Feishu, "patch", held_up)
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
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, released = asyncio.Event(), asyncio.Event()
    patch = Feishu.patch

    async def held_up(client: Feishu, message_id: str, card: str) -> None:
        if not held.is_set():
            held.set()
            await released.wait()
        await patch(client, message_id, card)

    monkeypatch.setattr(Feishu, "patch", held_up)
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
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr(Feishu, "patch", crossing)
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


async def test_the_end_comes_after_what_was_still_being_said(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr(Feishu, "patch", in_trouble)
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


def two_of(*people: Identity, **more: str) -> str:
    named = ", ".join(f'"open_id:{person.open_id}"' for person in people)
    return rules(approvers=f"{{people = [{named}], threshold = 2}}", ttl="'60s'", **more)


async def audited(feishu: FeishuService, handle: ApprovalHandle, event: str) -> None:
    """Wait until the audit has this."""

    async def there() -> bool:
        return event in await feishu.service.events(handle.id)

    await until(there)


async def test_a_reminder_that_feishu_refuses_leaves_the_card_that_is_there_to_be_clicked(
    feishu: FeishuService, tmp_path: Path
) -> None:
    async with feishu.service.policy(two_of(APPROVER, OPERATOR, remind_after="0.05")):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        await feishu.chat.misbehave({"on": "send", "kind": "code", "code": 230035})
        await audited(feishu, handle, "remind")

        workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

        async def is_refused() -> bool:
            happened = [each async for each in workflow.fetch_history_events()]
            sent = {each.event_id for each in happened if _scheduled(each) == names.DELIVER}
            return any(each.activity_task_completed_event_attributes.scheduled_event_id in sent for each in happened)

        await until(is_refused)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await says(feishu, card, "1 of 2")
        assert not await has_no_buttons(feishu, card)
        assert await feishu.click(handle, card, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"


async def test_a_card_that_was_busy_when_it_was_followed_loses_its_buttons(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

        monkeypatch.setattr(Feishu, "patch", slowly)
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


async def has_no_buttons(feishu: FeishuService, card: dict[str, Any]) -> bool:
    return not buttons((await revisions(feishu, card))[-1])


async def test_what_is_said_of_a_running_call_is_said_in_turn(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr(Feishu, "patch", slowly)
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
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr(Feishu, "patch", slowly)
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


async def test_who_has_left_the_chat_by_the_time_it_would_run_does_not_count(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER, OPERATOR)
    async with feishu.service.policy(rules(approvers=f'{{chat = "{TEAM}", threshold = 2}}')):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        await members(feishu, TEAM, REQUESTER, OPERATOR)
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"

        async def struck() -> State | None:
            state = await handle.state()
            return state if state.progress and state.progress.approved == 1 else None

        state = await until(struck)
        assert (state.phase, marks(tmp_path / "marks")) == ("pending", 0)
        newer = await card_with(feishu, handle, number=2)
        assert await feishu.click(handle, newer, who=APPROVER) == "forbidden"
        assert await feishu.click(handle, newer, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == 1


async def test_a_feishu_that_cannot_say_who_belongs_holds_the_click_and_loses_nothing(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await members(feishu, TEAM, REQUESTER, APPROVER)
    async with feishu.service.policy(rules(approvers=f'{{chat = "{TEAM}"}}')):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        await feishu.chat.misbehave({"on": "members", "kind": "5xx", "times": 3})
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        assert (await handle.outcome()).status == "executed"


async def test_nobody_decides_so_they_are_reminded_and_others_are_called_in(
    feishu: FeishuService, tmp_path: Path
) -> None:
    said = {
        "remind_after": "0.02",
        "escalate_after": "0.05",
        "escalate_to": f'["open_id:{OPERATOR.open_id}"]',
        "ttl": '"60s"',
    }
    async with feishu.service.policy(rules(**said)):
        handle = await feishu.ask(tmp_path)
        first = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, first, who=OPERATOR) == "forbidden"
        await card_with(feishu, handle, number=2)

        async def called_in() -> bool:
            progress = (await handle.state()).progress
            return progress is not None and bool(progress.called)

        await until(called_in)
        cards = await card_with(feishu, handle, number=3)
        del cards
        mine = [each for each in await feishu.chat.cards(handle.id) if "approve" in buttons(each["content"])]
        assert await feishu.click(handle, mine[-1], who=OPERATOR) == "accepted"
        outcome = await handle.outcome()
    assert (outcome.status, outcome.decided_by) == ("executed", OPERATOR.within("tenant_1"))
    events = await feishu.service.events(handle.id)
    assert ("remind" in events, "escalate" in events) == (True, True)


async def test_a_card_shows_the_next_stage_to_its_people(feishu: FeishuService, tmp_path: Path) -> None:
    stages = f'[{{people = ["open_id:{APPROVER.open_id}"]}}, {{people = ["open_id:{OPERATOR.open_id}"]}}]'
    async with feishu.service.policy(rules(approvers=stages)):
        handle = await feishu.ask(tmp_path)
        first = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, first, who=APPROVER) == "accepted"
        second = await card_with(feishu, handle, number=2)
        assert second["chat_id"] != first["chat_id"]
        assert await feishu.click(handle, second, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == 1


async def test_a_tool_is_remembered_for_the_chat_that_the_click_came_from(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await feishu.ask(tmp_path, "ask_once", chat_id=TEAM)
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card, "approve_tool") == "accepted"
    assert (await handle.outcome()).status == "executed"
    again = await feishu.ask(tmp_path, "ask_once", chat_id=TEAM, arguments={"note": "another"})
    outcome = await again.outcome()
    assert (outcome.status, outcome.grant_id is not None) == ("executed", True)

    async def noticed() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(again.id)), None)

    notice = await until(noticed)
    assert set(buttons(notice["content"])) == {"revoke"}
    elsewhere = await feishu.ask(tmp_path, "ask_once", chat_id=OPS, arguments={"note": "another"})
    assert (await elsewhere.state()).phase == "pending"
    await elsewhere.cancel()
    assert marks(tmp_path / "marks") == 2
    assert await feishu.service.gate.revoke(outcome.grant_id or "", actor=REQUESTER) == "revoked"

    async def says_so() -> bool:
        cards = [await feishu.chat.cards(each.id) for each in (handle, again)]
        return not any(buttons(card["content"]) for found in cards for card in found)

    await until(says_so)  # where it was given, and where nobody was asked because of it


async def test_a_result_is_shown_on_a_card_of_its_own(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, "looked_at", arguments={"say": "a private matter", "secret": "private"})
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card) == "accepted"

    async def shown() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.RESULT)), None)

    result = await until(shown)
    assert await feishu.click(handle, card, "reject") == "already_decided"
    assert await feishu.click(handle, result, "reject", who=OUTSIDER) == "forbidden"
    assert await feishu.click(handle, result, "reject") == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.withheld) == ("executed", True)
    await feishu.chat.final(handle.id)

    async def is_closed() -> bool:
        (card,) = await feishu.chat.cards(handle.id, MessageKind.RESULT)
        return not buttons(card["content"])

    await until(is_closed)
