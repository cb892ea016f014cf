"""Questions to an approval in the middle of a step leave a history that replays: its next worker can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.service import RPCError

from activities.feishu.client import Feishu
from activities.planning import Planner
from assent import ApprovalHandle, Decision, Identity, names
from assent.contracts.plan import Plan
from assent.contracts.prepare import Preparation
from assent.contracts.request import Request
from assent.core import Asked
from assent.types import DecisionKind, State
from ledger import Ledger
from tests.support import servers
from tests.support.feishu_service import REQUESTER, FeishuService, open_feishu_service
from tests.support.replaying import replays
from tests.support.waiting import until
from tests.support.web import TENANT

MEMBERS = """
[[rule]]
name = "members"
tools = ["mark"]
approvers = {chat = "oc_team", threshold = 2}

[[rule]]
name = "one member"
tools = ["looked_at"]
approvers = {chat = "oc_team"}
"""
REMINDING = """
[[rule]]
name = "reminding"
tools = ["mark"]
approvers = {people = ["open_id:ou_approver"]}
remind_after = 0.01
escalate_after = 0.02
escalate_to = ["open_id:ou_operator"]
"""
PEOPLE = [Identity(open_id=f"ou_{name}", tenant_key=TENANT) for name in ("requester", "approver")]
STRANGER = Identity(open_id="ou_stranger", tenant_key=TENANT)


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("queries"))


@asynccontextmanager
async def asked_all_the_time(feishu: FeishuService, handle: ApprovalHandle) -> AsyncIterator[None]:
    """Many want to know how it stands, again and again."""
    workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def ask() -> None:
        while True:
            with suppress(RPCError):  # too many at once: some are turned away
                await workflow.query(names.STATE, result_type=State)

    asking = [asyncio.create_task(ask()) for _ in range(3)]
    try:
        yield
    finally:
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def slow(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> None:
    """What is asked there takes a moment, so that questions come in between."""
    at_once = getattr(of, name)

    async def later(self: Any, *given: Any, **more: Any) -> Any:
        await asyncio.sleep(0.05)  # not a wait for anything: this is how long it takes
        return await at_once(self, *given, **more)

    monkeypatch.setattr(of, name, later)


async def sealed_result(feishu: FeishuService, handle: ApprovalHandle) -> str:
    """Wait until the result waits to be released."""

    async def result() -> str | None:
        return (await feishu.service.as_it_stands(handle)).result_sha256

    return await until(result)


def is_escalated(state: State) -> bool:
    return state.progress is not None and bool(state.progress.called)


@pytest.mark.parametrize("step", ["members", "send"])
async def test_a_history_with_questions_in_the_middle_of_a_step_replays(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    slow(monkeypatch, Feishu, step)
    async with feishu.service.policy(MEMBERS):
        for _ in range(6):
            handle = await feishu.ask(tmp_path, "mark", requester=REQUESTER)
            async with asked_all_the_time(feishu, handle):
                seen = (await handle.state()).payload_sha256
                for person in PEOPLE:
                    assert (await handle.decide("approve", actor=person, payload_sha256=seen)).kind == "accepted"
                assert (await handle.outcome()).status == "executed"
            assert await replays(feishu.service.client, handle)


async def test_a_decision_about_a_result_whose_card_is_still_on_its_way_replays(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with feishu.service.policy(MEMBERS):
        for _ in range(3):
            with monkeypatch.context() as patched:
                handle = await feishu.ask(tmp_path, "looked_at", requester=REQUESTER)
                seen = (await handle.state()).payload_sha256
                for of, step in ((Feishu, "send"), (Feishu, "patch"), (Feishu, "members"), (Ledger, "append")):
                    slow(patched, of, step)
                await handle.decide("approve", actor=PEOPLE[1], payload_sha256=seen)
                async with asked_all_the_time(feishu, handle):
                    result = await sealed_result(feishu, handle)
                    await handle.decide("approve", actor=PEOPLE[1], payload_sha256=result, stage="result")
                    assert (await handle.outcome()).status == "executed"
                assert await replays(feishu.service.client, handle)


async def test_a_decision_while_the_plan_takes_longer_than_tasks_do_replays(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay begins with the last of those tasks, and tells no other time for what was heard in the first of them."""
    asked: dict[str, Any] = {"tool": "mark", "arguments": {"path": str(tmp_path / "marks")}, "requester": REQUESTER}
    before = await feishu.service.gate.request(**asked)
    seen = (await before.state()).payload_sha256
    await before.cancel()
    plan, goes_on = Planner.plan, asyncio.Event()

    async def held_up(planner: Planner, preparation: Preparation) -> Plan:
        await goes_on.wait()
        return await plan(planner, preparation)

    monkeypatch.setattr(Planner, "plan", held_up)
    request = Request(approval_id=f"early-{tmp_path.name}", **asked)
    workflow = await feishu.service.client.start_workflow(
        names.APPROVAL,
        Asked(request=request),
        id=names.approval_workflow(request.approval_id),
        task_queue=names.APPROVALS_QUEUE,
        task_timeout=timedelta(seconds=1),
    )

    async def tasks(after: int = 0) -> int:
        events = [event async for event in workflow.fetch_history_events()]
        return sum(event.HasField("workflow_task_completed_event_attributes") for event in events) - after

    first = await until(tasks)
    decision = Decision(
        approval_id=request.approval_id,
        kind=DecisionKind.APPROVE,
        payload_sha256=seen,
        actor=REQUESTER.within(TENANT),
        event_id="early",
        received_at=datetime.now(UTC),
    )
    await workflow.signal(names.DECIDE, decision)

    async def two_more() -> bool:
        return await tasks(first) >= 3

    await until(two_more)
    goes_on.set()
    handle = feishu.service.gate.approval(request.approval_id)
    assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


async def test_reminders_that_come_due_between_refusals_and_questions_replay(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, Ledger, "append")
    async with feishu.service.policy(REMINDING):
        await clicked_until_others_are_called(feishu, tmp_path)


async def test_a_reminder_that_came_due_while_the_plan_was_made_replays(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a workflow's task lasts: a replay begins with another task than the approval did."""
    register = Ledger.register

    async def late(ledger: Ledger, *given: Any, **more: Any) -> Any:
        prepared = await register(ledger, *given, **more)
        await asyncio.sleep(8.5)  # of a task's ten seconds, a worker lets eight pass
        return prepared

    monkeypatch.setattr(Ledger, "register", late)
    async with feishu.service.policy(REMINDING):
        await clicked_until_others_are_called(feishu, tmp_path)


async def clicked_until_others_are_called(feishu: FeishuService, tmp_path: Path) -> None:
    """Somebody who may not decide does not stop, while many ask how it stands."""

    async def clicked(handle: ApprovalHandle) -> None:
        seen = (await handle.state()).payload_sha256
        async with asked_all_the_time(feishu, handle):
            while not is_escalated(await handle.state()):
                await handle.decide("approve", actor=STRANGER, payload_sha256=seen)
            await handle.cancel()
            assert (await handle.outcome()).status == "cancelled"
        assert await replays(feishu.service.client, handle)

    ttl = timedelta(minutes=1)
    handles = [await feishu.ask(tmp_path, "mark", requester=REQUESTER, ttl=ttl) for _ in range(2)]
    await asyncio.gather(*(clicked(each) for each in handles))
