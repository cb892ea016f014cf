"""A shared card that resists keeps no other one on old news, nor one that never comes those that are there."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from activities.feishu.answers import Sent
from activities.feishu.client import Feishu
from assent import ApprovalHandle, names, sizes
from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.bundles import BundleAsked, Member
from assent.contracts.decision import DecisionKind, Judged, VerdictKind
from assent.contracts.state import Progress
from ledger import bundle_slot
from tests.support.bundles import bundle_of, decide, finished, shared_cards
from tests.support.cards import values
from tests.support.changing_cards import revisions, says, two_of
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService
from tests.support.ledgers import NOW
from tests.support.replaying import replays
from tests.support.waiting import until
from workflows import bundle, steps
from workflows.bundle import BundleWorkflow

pytestmark = pytest.mark.usefixtures("as_it_was")

ANN, BEN = "oc_p2p_approver", "oc_p2p_operator"
"""The chats of the two whom `by_two` asks."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared card that did not go at once is soon waited for no longer, and tried again and again."""
    monkeypatch.setattr(bundle, "AT_ONCE", timedelta(minutes=10))
    monkeypatch.setattr(bundle, "SOON", timedelta(seconds=1))
    monkeypatch.setattr(steps, "_POLITE", RetryPolicy(maximum_interval=timedelta(seconds=1)))


async def ask(feishu: FeishuService, directory: Path, tool: str, **arguments: str) -> list[ApprovalHandle]:
    """Two calls, each to be decided in private."""
    both = ({"path": str(directory / name), **arguments} for name in "ab")
    calls = [{"tool": tool, "arguments": each} for each in both]
    return await feishu.service.gate.request_many(calls, requester=REQUESTER)


def decisions(card: Any, handle: ApprovalHandle) -> set[str]:
    """What can be decided about one call on a card that looks like this."""
    return {value["decision"] for value in values(card) if value.get("approval_id") == handle.id}


async def says_now(feishu: FeishuService, card: dict[str, Any], handle: ApprovalHandle) -> set[str]:
    return decisions((await revisions(feishu, card))[-1], handle)


async def cards_by_chat(feishu: FeishuService, handle: ApprovalHandle, count: int) -> dict[str, dict[str, Any]]:
    """The shared cards, once there are so many."""

    async def there() -> dict[str, dict[str, Any]] | None:
        found = {each["chat_id"]: each for each in await shared_cards(feishu, handle)}
        return found if len(found) == count else None

    return await until(there)


async def bundle_workflow(feishu: FeishuService, handle: ApprovalHandle) -> WorkflowHandle[Any, Any]:
    return feishu.service.client.get_workflow_handle(names.bundle_workflow(await bundle_of(feishu, handle)))


async def over(feishu: FeishuService, handle: ApprovalHandle) -> None:
    """Wait until the bundle has ended, and see that its history replays."""
    await finished(feishu, handle)
    assert await replays(feishu.service.client, names.bundle_workflow(await bundle_of(feishu, handle)))


async def happened(workflow: WorkflowHandle[Any, Any], *kinds: EventType.ValueType) -> None:
    """Wait until one of these events is in the workflow's history."""

    async def has_happened() -> bool:
        return any([each.event_type in kinds async for each in workflow.fetch_history_events()])

    await until(has_happened)


async def test_a_shared_card_that_resists_keeps_the_others_from_nothing_newer(
    feishu: FeishuService, tmp_path: Path
) -> None:
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        first, second = await ask(feishu, tmp_path, "gated", gate=str(tmp_path / "gate"))
        cards = await cards_by_chat(feishu, first, 2)
        healthy, sick = cards[ANN], cards["oc_p2p_requester"]
        await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": sick["message_id"]}})
        assert await decide(feishu, first, healthy) == "accepted"
        await says(feishu, healthy, "1 of 2")
        assert await feishu.click(first, _about(first, healthy), who=APPROVER) == "accepted"
        await says(feishu, healthy, "It is running now")
        before = len(await revisions(feishu, healthy))
        assert await says_now(feishu, healthy, first) == set()
        assert await says_now(feishu, healthy, second) == {"approve", "reject"}
        await feishu.chat.behave()
        await says(feishu, sick, "It is running now")
        later = (await revisions(feishu, healthy))[before:]
        assert not any(decisions(each, first) for each in later)
        (tmp_path / "gate").touch()
        assert (await first.outcome()).status == "executed"
        await second.cancel()
        await over(feishu, first)


def _about(handle: ApprovalHandle, card: dict[str, Any]) -> dict[str, Any]:
    """A shared card with nothing on it but how this call can be approved."""
    [value] = [
        each
        for each in values(card["content"])
        if each.get("approval_id") == handle.id and each["decision"] == "approve"
    ]
    return {**card, "content": {"behaviors": [{"type": "callback", "value": value}]}}


async def test_what_is_shown_newer_waits_until_what_was_given_up_can_change_nothing_any_more(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, held, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        first, second = await ask(feishu, tmp_path, "mark")
        slow = (await cards_by_chat(feishu, first, 2))[ANN]

        async def held_up(client: Feishu, message_id: str, card: str) -> None:
            if message_id == slow["message_id"] and not held.is_set():
                held.set()
                await goes_on.wait()
            await patch(client, message_id, card)

        monkeypatch.setattr(Feishu, "patch", held_up)
        assert await decide(feishu, first, slow) == "accepted"
        await held.wait()
        await second.cancel()
        await happened(await bundle_workflow(feishu, first), EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED)
        goes_on.set()
        await says(feishu, slow, "withdrawn")
        assert "1 of 2" in str((await revisions(feishu, slow))[-1])
        assert await says_now(feishu, slow, second) == set()
        await first.cancel()
        await over(feishu, first)


async def test_a_shared_card_is_kept_up_to_date_while_another_does_not_arrive(
    feishu: FeishuService, tmp_path: Path, impatient: None
) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "5xx", "match": {"chat_id": BEN}})
    handles = await ask(feishu, tmp_path, "by_two")
    card = (await cards_by_chat(feishu, handles[0], 1))[ANN]
    for handle in handles:
        own = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, own, who=APPROVER) == "accepted"
        assert (await handle.outcome()).status == "executed"

    async def is_over() -> bool:
        return not values((await revisions(feishu, card))[-1])

    await says(feishu, card, "Executed")
    await until(is_over)
    assert len(await shared_cards(feishu, handles[0])) == 1
    await feishu.chat.behave()
    await over(feishu, handles[0])
    for each in await shared_cards(feishu, handles[0]):
        assert values(each["content"]) == []


async def test_a_shared_card_is_kept_up_to_date_once_another_is_given_up(
    feishu: FeishuService, tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after 50 minutes; what is there stays the bundle's to show, and whose card is gone is taken up again."""
    send, is_given_up = Feishu.send, False

    async def sends(client: Feishu, to: Address, *what: Any, **named: Any) -> Sent:
        if is_given_up and named["uuid"] == bens.uuid:
            raise ApplicationError("it can no longer be found", non_retryable=True)
        return await send(client, to, *what, **named)

    await feishu.chat.misbehave({"on": "send", "kind": "5xx", "match": {"chat_id": BEN}})
    handles = await ask(feishu, tmp_path, "by_two")
    card = (await cards_by_chat(feishu, handles[0], 1))[ANN]
    bens = bundle_slot(await bundle_of(feishu, handles[0]), 1)
    own = [await feishu.chat.card(each.id) for each in handles]
    monkeypatch.setattr(Feishu, "send", sends)
    is_given_up = True
    workflow = await bundle_workflow(feishu, handles[0])
    await happened(workflow, EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED)
    for handle, its_card in zip(handles, own, strict=True):
        assert await feishu.click(handle, its_card, who=APPROVER) == "accepted"
        assert (await handle.outcome()).status == "executed"
    await over(feishu, handles[0])
    assert values((await revisions(feishu, card))[-1]) == []
    assert "Executed" in str((await revisions(feishu, card))[-1])


async def test_a_bundle_that_is_taken_up_again_offers_nobody_to_decide_a_running_call(
    feishu: FeishuService, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running, other = await ask(feishu, tmp_path, "gated", gate=str(gate))
    [card] = (await cards_by_chat(feishu, running, 1)).values()
    assert await decide(feishu, running, card) == "accepted"
    await says(feishu, card, "It is running now")
    before = len(await revisions(feishu, card))
    await (await bundle_workflow(feishu, running)).terminate("by hand")
    await other.cancel()
    assert (await other.outcome()).status == "cancelled"
    await says(feishu, card, "withdrawn")
    assert not any(decisions(each, running) for each in (await revisions(feishu, card))[before:])
    assert "It is running now" in str((await revisions(feishu, card))[-1])
    gate.touch()
    assert (await running.outcome()).status == "executed"
    await over(feishu, running)
    assert "Executed" in str((await revisions(feishu, card))[-1])


async def test_of_a_call_whose_progress_is_too_large_it_is_still_known_who_decided() -> None:
    known = BundleWorkflow(BundleAsked(bundle_id="b", approval_ids=("a",), sent_at=NOW))
    who = Judged(
        event_id="e",
        delivery_id=None,
        kind=DecisionKind.APPROVE,
        actor=REQUESTER,
        verdict=VerdictKind.ACCEPTED,
        received_at=NOW,
    )
    approvals = (who.model_copy(update={"reason": "x" * sizes.STANDING}),)
    progress = Progress(approvers=Approvers.of([REQUESTER]), approvals=approvals)
    known._on_news(Member(approval_id="a", decided=who, progress=progress).model_dump(mode="json"))
    [member] = known._shared_calls.members
    assert (member.decided, member.progress) == (who, None)
