"""An operator resets, pauses and resumes what Temporal lets them: the tool does not run again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest, UnpauseActivityRequest

from assent import names
from tests.conftest import ME, OPERATOR, Service
from tests.support.frozen_calls import frozen
from tests.support.temporal_operations import purge, reset
from tests.support.tools import marks
from tests.support.waiting import until


@pytest.mark.parametrize("nth_task", [0, 1, 2])
async def test_reset_of_a_finished_approval_returns_the_recorded_result(
    service: Service, tmp_path: Path, nth_task: int
) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME, idempotency_scope=str(tmp_path))
    first = await service.decided(handle)
    await reset(service, handle, nth_task=min(nth_task, 2), keep_signals=True)
    assert await handle.outcome() == first
    assert marks(path) == 1
    assert await service.events(handle.id) == ["write_request", "confirm", "execute"]


async def test_an_executed_approval_that_is_reset_and_rejected_stays_executed(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME)
    first = await service.decided(handle)
    await reset(service, handle, nth_task=0, keep_signals=False)
    state = await handle.state()
    if state.phase == "pending":
        await handle.decide("reject", actor=ME, payload_sha256=state.payload_sha256)
    assert (await handle.outcome()).status == first.status == "executed"
    assert marks(path) == 1


async def test_reset_of_a_frozen_approval_stays_frozen(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("raises", {"path": str(path)}, requester=ME)
    assert (await service.decided(handle)).status == "frozen"
    await reset(service, handle, nth_task=1, keep_signals=True)
    assert (await handle.outcome()).status == "frozen"
    assert marks(path) == 1


async def test_a_paused_and_resumed_activity_does_not_run_the_tool_again(service: Service, tmp_path: Path) -> None:
    path, gate = tmp_path / "marks", tmp_path / "gate"
    handle = await service.gate.request("gated", {"path": str(path), "gate": str(gate)}, requester=ME)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

    async def begun() -> bool | None:
        return marks(path) == 1 or None

    await until(begun)
    execution = WorkflowExecution(workflow_id=names.approval_workflow(handle.id))
    namespace = service.client.namespace
    await service.client.workflow_service.pause_activity(
        PauseActivityRequest(namespace=namespace, execution=execution, type=names.EXECUTE)
    )
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def paused() -> bool | None:
        return (
            any(activity.paused for activity in (await workflow.describe()).raw_description.pending_activities) or None
        )

    await until(paused)
    await service.client.workflow_service.unpause_activity(
        UnpauseActivityRequest(namespace=namespace, execution=execution, type=names.EXECUTE)
    )
    gate.touch()
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("executed", {"marks": 1})
    assert marks(path) == 1


async def test_paused_until_the_tool_ended_it_returns_the_record(service: Service, tmp_path: Path) -> None:
    """Paused while it runs, ended while paused, resumed afterwards."""
    path, gate = tmp_path / "marks", tmp_path / "gate"
    handle = await service.gate.request("gated", {"path": str(path), "gate": str(gate)}, requester=ME)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    execution = WorkflowExecution(workflow_id=names.approval_workflow(handle.id))
    namespace = service.client.namespace

    async def begun() -> bool | None:
        return marks(path) == 1 or None

    await until(begun)
    await service.client.workflow_service.pause_activity(
        PauseActivityRequest(namespace=namespace, execution=execution, type=names.EXECUTE)
    )
    gate.touch()

    async def recorded() -> bool | None:
        return "execute" in await service.events(handle.id) or None

    await until(recorded)
    outcome = await handle.outcome()
    assert (outcome.status, marks(path)) == ("executed", 1)


async def test_a_rejected_approval_that_is_reset_and_approved_stays_rejected_and_never_runs(
    service: Service, tmp_path: Path
) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME)
    first = await service.decided(handle, "reject")
    await reset(service, handle, nth_task=1, keep_signals=False)
    state = await handle.state()
    if state.phase == "pending":
        await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    assert (await handle.outcome()).status == first.status == "rejected"
    assert marks(path) == 0


async def test_a_retry_that_was_asked_for_by_hand_is_made_once_though_its_review_is_reset(
    service: Service, tmp_path: Path
) -> None:
    """In Temporal's page nobody types an id for their word; the update has one, and a reset applies it again."""
    handle = await frozen(service, tmp_path / "f", "flaky", arguments={"failures": 60, "then": "completed"})
    review = names.review_workflow(str((await handle.outcome()).idempotency_key))
    said = {"kind": "retry", "operator": {"open_id": OPERATOR.open_id}, "reason": "again"}
    said["payload_hash"] = str((await handle.state()).payload_sha256)[:12]
    workflow = service.client.get_workflow_handle(review)
    await workflow.execute_update(names.SETTLE_REVIEW, said)

    async def tried() -> bool:
        return (await service.events(handle.id)).count("execute_unknown") == 2

    await until(tried)
    await reset(service, review, nth_task=0, keep_signals=True)

    async def heard_again() -> bool:
        history = workflow.fetch_history_events()
        return any([event.HasField("workflow_execution_update_completed_event_attributes") async for event in history])

    await until(heard_again)
    assert (await service.events(handle.id)).count("retry") == 1
    await handle.settle("executed", operator=OPERATOR, reason="I looked")


async def test_reset_while_executing_past_the_deadline_never_says_that_it_did_not_run(
    service: Service, tmp_path: Path
) -> None:
    path, gate = tmp_path / "marks", tmp_path / "gate"
    ttl = timedelta(seconds=5)
    arguments = {"path": str(path), "gate": str(gate)}
    handle = await service.gate.request("gated", arguments, requester=ME, ttl=ttl)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    waiting = asyncio.create_task(handle.outcome())

    async def begun_and_past() -> bool | None:
        assert state.deadline is not None
        return (marks(path) == 1 and datetime.now(UTC) > state.deadline + service.settings.grace) or None

    await until(begun_and_past)
    await reset(service, handle, nth_task=0, keep_signals=True)
    outcome = await waiting
    gate.touch()
    assert outcome.status in ("executed", "frozen"), "an operator's reset does not end the waiting, nor the truth"
    assert marks(path) == 1


async def test_asked_again_after_termination_and_retention_the_claim_knows_better(
    service: Service, tmp_path: Path
) -> None:
    path, gate = tmp_path / "marks", tmp_path / "gate"
    asked = {"path": str(path), "gate": str(gate)}
    approval_id = f"{tmp_path.name}-{service.client.namespace}"
    ttl = timedelta(seconds=5)
    handle = await service.gate.request("gated", asked, requester=ME, approval_id=approval_id, ttl=ttl)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

    async def begun() -> bool | None:
        return marks(path) == 1 or None

    await until(begun)
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).terminate("by hand")
    gate.touch()

    async def recorded() -> bool | None:
        return "execute" in await service.events(handle.id) or None

    await until(recorded)
    await purge(service, handle.id)
    again = await service.gate.request("gated", asked, requester=ME, approval_id=approval_id, ttl=ttl)
    outcome = await again.outcome()
    assert (outcome.status, outcome.content, marks(path)) == ("executed", {"marks": 1}, 1)
