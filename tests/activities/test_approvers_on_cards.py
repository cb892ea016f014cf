"""Approvers on cards: members of a chat, stages, reminders, people called in, remembered decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from assent import ApprovalHandle, names
from assent.types import State
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support.changing_cards import TEAM, all_cards, has_no_buttons, members, revisions, rules, says, two_of
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, FeishuService, buttons
from tests.support.tools import marks
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("as_it_was")

OPS = "oc_ops"


async def card_with(feishu: FeishuService, handle: ApprovalHandle, *words: str, number: int = 1) -> dict[str, Any]:
    """The newest card, once there are so many and it says all of this."""

    async def there() -> dict[str, Any] | None:
        found = await feishu.chat.cards(handle.id)
        newest = found[-1] if len(found) >= number else None
        return newest if newest and all(word in str(newest["content"]) for word in words) else None

    return await until(there)


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


def _scheduled(event: HistoryEvent) -> str:
    return event.activity_task_scheduled_event_attributes.activity_type.name


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
