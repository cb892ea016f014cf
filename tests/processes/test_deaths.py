"""Real processes killed at gates: what ran is counted outside, and never runs twice."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from assent import ApprovalHandle
from tests.conftest import ME, decision, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.worker_processes import Call, Proxy, WorkerProcesses


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(tmp_path)


# The tool worker dies


async def test_killed_before_the_claim_it_runs_once(processes: WorkerProcesses, call: Call) -> None:
    await processes.start("approvals")
    doomed = await processes.start("tools")
    handle = await call.ask(processes)
    state = await handle.state()
    call.let_end()
    async with processes.ledger_held():
        await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
        await processes.scheduled(handle, started=True)
        await doomed.kill()
    await processes.start("tools")
    assert (await handle.outcome()).status == "executed"
    assert marks(call.path) == 1


async def test_killed_inside_the_tool_it_freezes_and_never_runs_again(processes: WorkerProcesses, call: Call) -> None:
    await processes.start("approvals")
    doomed = await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    await doomed.kill()
    call.let_end()
    await processes.start("tools")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason) == ("frozen", "an attempt began and its end was never recorded")
    assert marks(call.path) == 1


@pytest.mark.parametrize(("ending", "status"), [("completed", "executed"), ("failed", "failed")])
async def test_killed_after_the_record_and_before_temporal_heard_it_returns_the_record(
    processes: WorkerProcesses, call: Call, ending: str, status: str
) -> None:
    await processes.start("approvals")
    proxy = Proxy(processes.service.client.service_client.config.target_host)
    doomed = await processes.start("tools", through=proxy)
    handle = await call.ask(processes, outcome=ending)
    await processes.approve(handle)
    await call.begun()
    proxy.silence()
    call.let_end()
    await processes.claim(handle, status)
    await doomed.kill()
    proxy.hang_up()
    await processes.start("tools")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content, marks(call.path)) == (status, {"marks": 1}, 1)


async def test_killed_inside_a_retry_safe_tool_it_is_begun_again_with_the_same_key(
    processes: WorkerProcesses, call: Call
) -> None:
    await processes.start("approvals")
    doomed = await processes.start("tools")
    handle = await call.ask(processes, "gated_retry_safe")
    await processes.approve(handle)
    await call.begun()
    await doomed.kill()
    await processes.start("tools")
    await call.begun(times=2)
    call.let_end()
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("executed", {"marks": 2})


async def test_stopped_past_its_heartbeat_and_continued_it_changes_nothing_and_is_not_lost(
    processes: WorkerProcesses, call: Call
) -> None:
    await processes.start("approvals")
    zombie = await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    zombie.send(signal.SIGSTOP)
    await processes.start("tools")
    assert (await handle.outcome()).status == "frozen"
    zombie.send(signal.SIGCONT)
    call.let_end()

    async def kept() -> bool | None:
        return await processes.late_results(handle) == ["executed"] or None

    await until(kept)
    await processes.claim(handle, "unknown")
    assert (await handle.outcome()).status == "frozen"
    assert marks(call.path) == 1


# The approvals worker dies, at every step: what matters here is Temporal's memory, so each step has one database


def on(database: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("processes", [database], indirect=True)


@on("sqlite")
async def test_killed_while_preparing(processes: WorkerProcesses, call: Call) -> None:
    doomed = await processes.start("approvals")
    async with processes.ledger_held():
        handle = await call.ask(processes)
        assert (await processes.service.as_it_stands(handle)).phase == "preparing"
        await doomed.kill()
    await ends_executed(processes, call, handle)


async def ends_executed(processes: WorkerProcesses, call: Call, handle: ApprovalHandle) -> None:
    """With fresh workers the approval goes on as if nothing had happened."""
    await processes.start("approvals")
    await processes.start("tools")
    call.let_end()
    await processes.approve(handle)
    assert (await handle.outcome()).status == "executed"
    assert marks(call.path) == 1
    assert await processes.service.events(handle.id) == ["write_request", "confirm", "execute"]
    assert await processes.ledger.verify() == []


@on("postgres")
async def test_killed_while_pending_and_a_click_meanwhile_counts(processes: WorkerProcesses, call: Call) -> None:
    doomed = await processes.start("approvals")
    handle = await call.ask(processes)
    state = await handle.state()
    await doomed.kill()
    verdict = await handle.submit(decision(handle, state), answer_within=timedelta(seconds=8))
    assert verdict.kind == "received"
    await processes.start("approvals")
    await processes.start("tools")
    call.let_end()
    assert (await handle.outcome()).status == "executed"
    assert marks(call.path) == 1


@on("sqlite")
async def test_killed_while_the_tool_runs(processes: WorkerProcesses, call: Call) -> None:
    doomed = await processes.start("approvals")
    await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    await doomed.kill()
    call.let_end()
    await processes.claim(handle, "executed")
    await processes.start("approvals")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content, marks(call.path)) == ("executed", {"marks": 1}, 1)


@on("postgres")
async def test_killed_while_settling_a_rejection(processes: WorkerProcesses, call: Call) -> None:
    doomed = await processes.start("approvals")
    handle = await call.ask(processes)
    state = await handle.state()
    async with processes.ledger_held():
        rejecting = asyncio.create_task(handle.decide("reject", actor=ME, payload_sha256=state.payload_sha256))
        await processes.scheduled(handle, started=True)
        await doomed.kill()
        assert not rejecting.done(), "nobody is told of a rejection that is not on record"
    await processes.start("approvals")
    assert (await handle.outcome()).status == "rejected"
    assert (await rejecting).kind == "accepted"
    assert await processes.service.events(handle.id) == ["write_request", "confirm"]
    assert await processes.ledger.verify() == []


@on("sqlite")
async def test_killed_after_settling_and_before_temporal_heard(processes: WorkerProcesses, call: Call) -> None:
    proxy = Proxy(processes.service.client.service_client.config.target_host)
    doomed = await processes.start("approvals", through=proxy)
    await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    proxy.silence()
    call.let_end()
    await processes.settled(handle)
    await doomed.kill()
    proxy.hang_up()
    await processes.start("approvals")
    assert (await handle.outcome()).status == "executed"
    assert await processes.service.events(handle.id) == ["write_request", "confirm", "execute"]
    assert await processes.ledger.verify() == []


# The Temporal server dies


async def test_temporal_killed_while_pending_and_while_executing(tmp_path: Path, call: Call) -> None:
    server = servers.TemporalServer(file=tmp_path / "temporal.db")
    server.start()
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        client = await server.client()
        service = await open_service(stack, client, await new_database("sqlite", tmp_path), workers=False)
        processes = WorkerProcesses(service, server.address, tmp_path)
        stack.push_async_callback(processes.close)
        await processes.start("approvals")
        await processes.start("tools")
        handle = await call.ask(processes)
        digest = (await handle.state()).payload_sha256
        server.kill()
        server.start()
        await server.client()
        verdict = await handle.decide("approve", actor=ME, payload_sha256=digest, event_id="evt_1")
        assert verdict.kind in ("accepted", "received")
        await call.begun()
        server.kill()
        call.let_end()
        await processes.claim(handle, "executed")
        server.start()
        outcome = await handle.outcome()
        assert (outcome.status, outcome.content, marks(call.path)) == ("executed", {"marks": 1}, 1)
