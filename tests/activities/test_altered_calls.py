"""Whatever is altered between approval and execution, what was not approved does not run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from temporalio.testing import ActivityEnvironment

from activities.tools import ToolActivities
from assent import ApprovalHandle, ApprovalInterrupted, Registry, names, tool
from assent.contracts.execute import PlannedCall, ReportKind, ToolCall
from assent.payload import sha256
from assent.tools.definition import registry
from ledger import Ledger
from tests.conftest import ME, Service, accepted, new_database, open_service
from tests.support import servers
from tests.support.stepwise import writing
from tests.support.tools import leave_mark, marks
from tests.support.waiting import until
from workers.approvals import approvals_worker
from workers.tools import tool_workers


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def idle(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[Service]:
    """A service without tool workers: an approved call waits, and can be tampered with."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database(request.param, tmp_path_factory.mktemp("idle"))
        service = await open_service(stack, client, url, workers=False)
        await stack.enter_async_context(approvals_worker(client, service.ledger, service.settings))
        yield service


async def approved(service: Service, path: Path) -> ApprovalHandle:
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME)
    await accepted(handle, await handle.state())
    return handle


async def served(service: Service, handle: ApprovalHandle, tools: Registry = registry) -> tuple[str, str | None]:
    """Let the tool workers run until the approval has ended."""
    async with AsyncExitStack() as stack:
        for worker in tool_workers(service.client, service.ledger, tools):
            await stack.enter_async_context(worker)
        outcome = await asyncio.wait_for(handle.outcome(), 300)
    return outcome.status.value, outcome.reason


@pytest.mark.parametrize(
    "alteration",
    [
        "replace(plan, 'none', 'evil')",
        'replace(plan, \'"payload_sha256":"\', \'"payload_sha256":"f\')',
        'replace(plan, \'"idempotency_key":"\', \'"idempotency_key":"f\')',
        'replace(plan, \'"tool":"mark"\', \'"tool":"mark.other"\')',
        "NULL",
    ],
)
async def test_arguments_altered_in_the_database_do_not_run(idle: Service, tmp_path: Path, alteration: str) -> None:
    path = tmp_path / "marks"
    handle = await approved(idle, path)
    async with writing(idle.ledger._engine) as connection:
        altering = text(f"UPDATE approvals SET plan = {alteration} WHERE approval_id = :id")
        assert (await connection.execute(altering, {"id": handle.id})).rowcount == 1
    status, reason = await served(idle, handle)
    assert status == "failed"
    assert reason in ("what would run is not what was approved", "the ledger holds no plan for what would run")
    assert marks(path) == 0


async def test_unaltered_call_does_run(idle: Service, tmp_path: Path) -> None:
    handle = await approved(idle, tmp_path / "marks")
    assert (await served(idle, handle))[0] == "executed"
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("change", ["schema", "risk", "approvers"])
async def test_a_tool_that_changed_since_does_not_run(idle: Service, tmp_path: Path, change: str) -> None:
    path = tmp_path / "marks"
    handle = await approved(idle, path)
    changed = Registry()

    def mark(path: str, amount: int = 1) -> int:
        return leave_mark(path)

    original = registry.tools["mark"].function
    match change:
        case "schema":
            tool(registry=changed)(mark)
        case "risk":
            tool(registry=changed, risk="high")(original)
        case "approvers":
            tool(registry=changed, approvers="anyone")(original)
    await publish(idle, changed)
    try:
        status, reason = await served(idle, handle, changed)
    finally:
        await publish(idle, registry)
    assert status == "failed"
    assert reason is not None
    assert "changed" in reason
    assert marks(path) == 0


async def publish(service: Service, tools: Registry) -> None:
    """What every tools worker does when it starts."""
    await service.ledger.publish((tool.manifest for tool in tools.tools.values()), datetime.now(UTC))


async def test_a_call_is_left_by_workers_of_another_version_to_those_of_the_one_that_was_shown(
    idle: Service, tmp_path: Path
) -> None:
    """A rolling upgrade: the new version is published, and old workers still take calls."""
    path, older = tmp_path / "marks", Registry()

    @tool(name="mark", registry=older)
    def mark(path: str) -> int:
        return leave_mark(path)

    handle = await approved(idle, path)
    workflow = idle.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def was_left() -> bool:
        pending = (await workflow.describe()).raw_description.pending_activities
        return any("another version" in each.last_failure.message for each in pending)

    async with AsyncExitStack() as stack:
        for worker in tool_workers(idle.client, idle.ledger, older):
            await stack.enter_async_context(worker)
        await until(was_left)
    assert marks(path) == 0
    assert (await served(idle, handle))[0] == "executed"
    assert marks(path) == 1


@pytest.mark.parametrize(
    "forged", ["terms", "payload", "both", "idempotency_key", "tool", "tool and terms", "approval_id", "start_within"]
)
async def test_a_call_altered_in_the_workflows_own_words_does_not_run(
    idle: Service, tmp_path: Path, forged: str
) -> None:
    """Whoever could make the workflow send another call, or sends one past it, meets the ledger's plan."""
    path = tmp_path / "marks"
    handle = await approved(idle, path)
    call = await scheduled_call(idle, handle)
    plan = await idle.ledger.plan(handle.id)
    assert plan is not None
    other = ToolCall.of(plan).model_copy(update={"payload": plan.payload.replace("none", "evil")})
    other = other.model_copy(update={"payload_sha256": sha256(other.payload)})
    elsewhere = ToolCall.of(plan).model_copy(update={"tool": "mark.other"})
    changes: dict[str, dict[str, object]] = {
        "terms": {"terms_sha256": other.by_its_plan.terms_sha256},
        "payload": {"payload_sha256": other.payload_sha256},
        "both": {"payload_sha256": other.payload_sha256, "terms_sha256": other.by_its_plan.terms_sha256},
        "idempotency_key": {"idempotency_key": call.idempotency_key + "x"},
        "tool": {"tool": "mark.other"},
        "tool and terms": {"tool": "mark.other", "terms_sha256": elsewhere.by_its_plan.terms_sha256},
        "approval_id": {"approval_id": "another"},
        "start_within": {"start_within": call.start_within * 2},
    }
    activities = ToolActivities(idle.ledger, registry)
    report = await ActivityEnvironment().run(activities.execute, call.model_copy(update=changes[forged]))
    assert report.kind is ReportKind.NOT_BEGUN
    assert marks(path) == 0
    assert (await served(idle, handle))[0] == "executed", "the honest call is unharmed"


async def scheduled_call(service: Service, handle: ApprovalHandle) -> PlannedCall:
    """What the workflow asked the tool's queue to run."""
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def scheduled() -> PlannedCall | None:
        async for event in workflow.fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                payloads = event.activity_task_scheduled_event_attributes.input.payloads
                (call,) = await service.client.data_converter.decode(payloads, [PlannedCall])
                assert isinstance(call, PlannedCall)
                return call
        return None

    return await until(scheduled)


async def test_no_worker_in_time_is_failed_and_can_never_run_later(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database("sqlite", tmp_path), workers=False)
        hasty = service.settings.model_copy(update={"start_within": timedelta(milliseconds=1)})
        await stack.enter_async_context(approvals_worker(client, service.ledger, hasty))
        handle = await approved(service, tmp_path / "marks")
        status, reason = await served(service, handle)
        foreign = await approved(service, tmp_path / "marks")
        without = Registry()
        tool(registry=without, name="another")(registry.tools["mark"].function)
        foreign_status, foreign_reason = await served(service, foreign, without)
    assert (status, reason) == ("failed", "it could not begin in time")
    assert (foreign_status, foreign_reason) == ("failed", "this worker has no tool named 'mark'")
    assert marks(tmp_path / "marks") == 0


async def test_a_ledger_out_of_the_tools_reach_is_failed_and_it_did_not_run(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    """Only the tool worker has lost the ledger: the approvals worker closes the claim, and says so."""
    client = await servers.connect(temporal_address, next(namespaces))
    unreachable = Ledger.open(f"postgresql+asyncpg://nobody@127.0.0.1:{servers.free_port()}/nothing")
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database("sqlite", tmp_path), workers=False)
        hasty = service.settings.model_copy(update={"start_within": timedelta(milliseconds=1)})
        await stack.enter_async_context(approvals_worker(client, service.ledger, hasty))
        handle = await approved(service, tmp_path / "marks")
        for worker in tool_workers(client, unreachable, registry):
            await stack.enter_async_context(worker)
        outcome = await handle.outcome()
        assert await service.events(handle.id) == ["write_request", "confirm", "execute_failed"]
    assert outcome.status == "failed"
    assert outcome.reason is not None
    assert "out of reach" in outcome.reason
    assert marks(tmp_path / "marks") == 0


async def test_a_terminated_approval_says_so_and_is_superseded_without_harm(idle: Service, tmp_path: Path) -> None:
    asked, thread = {"path": str(tmp_path / "marks")}, str(tmp_path)
    old = await idle.gate.request("mark", asked, requester=ME, thread_id=thread)
    state = await old.state()
    await idle.client.get_workflow_handle(names.approval_workflow(old.id)).terminate("by hand")
    with pytest.raises(ApprovalInterrupted, match="terminated"):
        await old.outcome()
    assert (await old.decide("approve", actor=ME, payload_sha256=state.payload_sha256)).kind == "missing"
    new = await idle.gate.request("mark", asked, requester=ME, thread_id=thread, when_pending="supersede")
    assert (await new.state()).phase == "pending"
    await new.cancel()
    assert (await new.outcome()).status == "cancelled"
