"""What is called certain is: on a real Temporal and real databases, each way in which it was not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, names
from assent.contracts.ruling import Ruling
from assent.tools.definition import registry
from assent.types import RulingKind, RulingRefused
from tests.conftest import ME, OPERATOR, Service, accepted, open_service
from tests.support import servers
from tests.support.stepped_clock import SteppedClock
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.worker_processes import Call, WorkerProcesses
from workers.approvals import approvals_worker
from workers.tools import tool_workers


async def asked(service: Service, tool: str, arguments: dict[str, Any], **more: Any) -> ApprovalHandle:
    handle = await service.gate.request(tool, arguments, requester=ME, **more)
    await accepted(handle, await handle.state())
    return handle


async def probes(service: Service, handle: ApprovalHandle) -> int:
    """How often a frozen call's review has asked the tool's probe."""
    review = names.review_workflow(str((await handle.outcome()).idempotency_key))
    state = await service.client.get_workflow_handle(review).query(names.STATE)
    return int(state["probes"])


async def test_a_retry_that_fails_settles_nothing_of_an_attempt_that_took_effect(
    service: Service, tmp_path: Path
) -> None:
    handle = await asked(service, "pays_then_cannot_connect", {"path": str(tmp_path / "m")})
    assert (await handle.outcome()).status == "frozen"
    hash_ = str((await handle.state()).payload_sha256)[:12]
    ruled = await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=hash_)
    assert ruled.kind == "retrying"

    async def tried() -> bool:
        return (await service.events(handle.id)).count("execute_unknown") == 2

    await until(tried)
    assert await service.ledger.settlement(handle.id) is None

    async def settled() -> bool:  # the review may not have heard yet how the retry ended
        return (await handle.settle("executed", operator=OPERATOR, reason="the bank shows it")).kind == "settled"

    await until(settled)
    assert marks(tmp_path / "m") == 1


@pytest.mark.parametrize("tool", ["goes_on", "goes_on_elsewhere", "pays_in_a_thread"])
async def test_a_probe_counts_no_earlier_than_every_attempt_has_ended(
    service: Service, tmp_path: Path, tool: str
) -> None:
    gate = tmp_path / "gate"
    handle = await asked(service, tool, {"path": str(tmp_path / "m"), "gate": str(gate)})
    assert (await handle.outcome()).status == "frozen"

    async def asked_again() -> bool:
        return await probes(service, handle) >= 2

    await until(asked_again)
    assert await service.ledger.settlement(handle.id) is None, "the first attempt's code still runs"
    gate.touch()
    settlement = await handle.settlement()
    assert (settlement.kind, marks(tmp_path / "m")) == ("executed", 1)
    assert "late" in await service.events(handle.id), "what it said in the end is kept"


async def test_what_an_operator_saw_before_a_retry_settles_nothing_after_it(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "tried": str(tmp_path / "tried")}
    handle = await asked(service, "arrives_the_second_time", arguments)
    assert (await handle.outcome()).status == "frozen"
    shown = str((await handle.state()).payload_sha256)
    looked = Ruling(kind="not_executed", operator=OPERATOR, reason="nothing there", payload_sha256=shown, retries=0)
    ruled = await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=shown[:12])
    assert ruled.kind == "retrying"

    async def tried() -> bool:
        return marks(tmp_path / "m") == 1 and (await service.events(handle.id)).count("execute_unknown") == 2

    await until(tried)

    with pytest.raises(RulingRefused) as refusal:
        await handle.rule(looked)
    assert refusal.value.code == "TriedAgain", "by the ledger, before the review has heard how the retry ended"
    assert await service.ledger.settlement(handle.id) is None
    looked_anew = looked.model_copy(update={"kind": RulingKind.EXECUTED, "retries": 1})
    assert (await handle.rule(looked_anew)).kind == "settled"


async def test_who_meets_a_healthy_call_waits_for_it_however_long_and_replays_it(
    service: Service, temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    call, scope = Call(tmp_path), str(tmp_path)
    arguments = {"path": str(call.path), "gate": str(tmp_path / "gate")}
    first = await asked(service, "gated", arguments, idempotency_scope=scope)
    await call.begun()
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        other = await open_service(stack, client, service.settings.database_url, workers=False)
        hasty = other.settings.model_copy(update={"start_within": timedelta(milliseconds=1)})
        for worker in (
            approvals_worker(client, other.ledger, hasty),
            *(each for each in tool_workers(client, other.ledger, registry) if each.task_queue != "nobody"),
        ):
            await stack.enter_async_context(worker)
        second = await asked(other, "gated", arguments, idempotency_scope=scope)
        workflow = client.get_workflow_handle(names.approval_workflow(second.id))

        async def waits() -> bool:
            pending = (await workflow.describe()).raw_description.pending_activities
            return any(each.attempt >= 2 for each in pending if each.activity_type.name == names.EXECUTE)

        await until(waits)
        assert (await second.state()).phase == "executing"
        call.let_end()
        assert (await first.outcome()).status == "executed"
        outcome = await second.outcome()
    assert (outcome.status, outcome.content) == ("replayed", {"marks": 1})
    assert marks(call.path) == 1


async def test_the_kill_switch_stops_an_approved_call_that_waits_for_its_key(service: Service, tmp_path: Path) -> None:
    call, scope = Call(tmp_path), str(tmp_path)
    arguments = {"path": str(call.path), "gate": str(tmp_path / "gate"), "outcome": "failed"}
    first = await asked(service, "gated", arguments, idempotency_scope=scope)
    await call.begun()
    second = await asked(service, "gated", arguments, idempotency_scope=scope)
    workflow = service.client.get_workflow_handle(names.approval_workflow(second.id))

    async def taken() -> bool:
        pending = (await workflow.describe()).raw_description.pending_activities
        return any(each.HasField("last_started_time") for each in pending)

    await until(taken)
    stop = '[[rule]]\nname = "stop"\ntools = ["gated"]\nexecution = "deny"\n'
    async with service.policy(stop):
        call.let_end()
        assert (await first.outcome()).status == "failed"
        outcome = await second.outcome()
    assert (outcome.status, marks(call.path)) == ("failed", 1)
    assert "'stop'" in str(outcome.reason)


@pytest.mark.parametrize("processes", ["postgres"], indirect=True)
async def test_a_prober_whose_clock_is_hours_ahead_settles_nothing(processes: WorkerProcesses, tmp_path: Path) -> None:
    """SQLite's clock is the machine's, which all processes share; PostgreSQL's is its server's."""
    await processes.start("approvals")
    worker = await processes.start("tools")
    handle = await processes.gate.request(
        "sends", {"path": str(tmp_path / "m"), "gate": str(tmp_path / "gate")}, requester=ME
    )
    await processes.approve(handle)
    assert (await handle.outcome()).status == "frozen"
    await worker.kill()
    await processes.start("tools", clock=SteppedClock(tmp_path / "clock", timedelta(hours=2)))
    asked_before = await probes(processes.service, handle)

    async def asked_again() -> bool:
        return await probes(processes.service, handle) >= asked_before + 2

    await until(asked_again)
    assert await processes.ledger.settlement(handle.id) is None
    (tmp_path / "m").write_text("it arrived\n")
    assert (await handle.settlement()).kind == "executed"


@pytest.mark.parametrize("processes", ["sqlite", "postgres"], indirect=True)
async def test_a_worker_that_leaves_waits_for_a_tool_that_ran_out_of_time_and_records_its_end(
    processes: WorkerProcesses, tmp_path: Path
) -> None:
    call = Call(tmp_path)
    await processes.start("approvals")
    leaving = await processes.start("tools")
    handle = await call.ask(processes, "hangs")
    await processes.approve(handle)
    assert (await handle.outcome()).status == "frozen"
    leaving.send(signal.SIGTERM)

    async def waits() -> bool:
        return "still run beyond their time" in leaving.said()

    await until(waits)
    assert await processes.late_results(handle) == []
    call.let_end()
    assert await asyncio.wait_for(leaving.ended(), 300) == 0
    assert await processes.late_results(handle) == ["executed"]
    assert marks(call.path) == 1
