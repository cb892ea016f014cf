"""A decision counts by when it was received, not by when a worker got round to it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.testing import TimeSkipper

from assent import ApprovalHandle, Assent, Decision, names
from assent.types import DecisionKind, State
from tests.conftest import ME, Service, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from workers.approvals import approvals_worker
from workers.tools import tool_workers

TTL = timedelta(seconds=4)


@pytest.fixture(scope="module")
async def unattended(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Service]:
    """A service whose approvals worker runs only when a test lets it."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path_factory.mktemp("unattended"))
        service = await open_service(stack, client, url, workers=False)
        from assent.tools.definition import registry

        for worker in tool_workers(client, service.ledger, registry):
            if worker.task_queue == names.TOOLS_QUEUE:
                await stack.enter_async_context(worker)
        yield service


@asynccontextmanager
async def attended(service: Service) -> AsyncIterator[None]:
    async with approvals_worker(service.client, service.ledger, service.settings):
        yield


async def signal_approval(service: Service, handle: ApprovalHandle, state: State, received_at: datetime | None) -> None:
    """A click, stamped by the door it came through, sent without waiting for a worker."""
    decision = Decision(
        approval_id=handle.id,
        kind=DecisionKind.APPROVE,
        payload_sha256=state.payload_sha256,
        actor=ME,
        event_id=uuid.uuid4().hex,
        received_at=received_at,
    )
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(names.DECIDE, decision)


async def passed(moment: datetime) -> None:
    async def is_past() -> bool | None:
        return datetime.now(UTC) > moment or None

    await until(is_past)


async def left_alone(service: Service, tmp_path: Path) -> tuple[ApprovalHandle, State, datetime]:
    """An approval that was shown, and then lost its worker."""
    async with attended(service):
        handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME, ttl=TTL)
        state = await handle.state()
    assert state.deadline is not None
    return handle, state, state.deadline


async def test_received_in_time_but_processed_late_counts(unattended: Service, tmp_path: Path) -> None:
    handle, state, deadline = await left_alone(unattended, tmp_path)
    await signal_approval(unattended, handle, state, received_at=deadline - timedelta(milliseconds=1))
    await passed(deadline + unattended.settings.grace + timedelta(milliseconds=100))
    async with attended(unattended):
        assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("stamped", [True, False])
async def test_received_late_while_no_worker_ran_is_expired(unattended: Service, tmp_path: Path, stamped: bool) -> None:
    handle, state, deadline = await left_alone(unattended, tmp_path)
    await passed(deadline + unattended.settings.grace + timedelta(milliseconds=100))
    await signal_approval(unattended, handle, state, received_at=datetime.now(UTC) if stamped else None)
    async with attended(unattended):
        assert (await handle.outcome()).status == "expired"
        assert [judged.verdict.value for judged in (await handle.state()).decisions] == ["expired"]
    assert marks(tmp_path / "marks") == 0


async def test_never_prepared_before_the_deadline_is_expired(unattended: Service, tmp_path: Path) -> None:
    handle = await unattended.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME, ttl=TTL)
    await passed(datetime.now(UTC) + TTL + unattended.settings.grace)
    async with attended(unattended):
        assert (await handle.outcome()).status == "expired"


async def test_a_click_from_the_future_counts_as_now(unattended: Service, tmp_path: Path) -> None:
    async with attended(unattended):
        handle = await unattended.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
        await signal_approval(unattended, handle, await handle.state(), datetime.now(UTC) + timedelta(days=400))
        assert (await handle.outcome()).status == "executed"
        (judged,) = (await handle.state()).decisions
    assert judged.received_at <= datetime.now(UTC)


async def test_a_click_from_before_the_delivery_counts_as_the_delivery(unattended: Service, tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(days=400)
    async with attended(unattended):
        handle = await unattended.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
        await signal_approval(unattended, handle, await handle.state(), before)
        await handle.outcome()
        (judged,) = (await handle.state()).decisions
    assert judged.received_at > before + timedelta(days=399)


async def test_click_racing_the_expiry_leaves_audit_verdict_and_outcome_agreed(
    service: Service, tmp_path: Path
) -> None:
    """A dozen clicks spread over the deadline and the grace after it: whoever wins, all records tell one story."""

    async def race(n: int) -> tuple[str, str, tuple[str, ...]]:
        path = tmp_path / f"marks-{n}"
        handle = await service.gate.request("mark", {"path": str(path)}, requester=ME, ttl=timedelta(milliseconds=700))
        state = await handle.state()
        assert state.deadline is not None
        await passed(state.deadline + timedelta(milliseconds=70 * n - 150))
        verdict = await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
        outcome = await handle.outcome()
        assert marks(path) == (1 if outcome.status == "executed" else 0)
        return outcome.status.value, verdict.kind.value, tuple(await service.events(handle.id))

    stories = await asyncio.gather(*(race(n) for n in range(12)))
    assert set(stories) <= {
        ("executed", "accepted", ("write_request", "confirm", "execute")),
        ("executed", "received", ("write_request", "confirm", "execute")),
        ("expired", "expired", ("write_request", "expire")),
        ("expired", "received", ("write_request", "expire")),
    }
    assert "expired" in {status for status, _, _ in stories}


async def test_an_hour_long_ttl_expires_on_time(service: Service, tmp_path: Path) -> None:
    skipper = TimeSkipper(service.client)
    gate = await Assent.connect(client=skipper.client)
    handle = await gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME, ttl=timedelta(hours=1))
    workflow = skipper.client.get_workflow_handle(names.approval_workflow(handle.id))
    assert (await handle.outcome()).status == "expired"
    history = await workflow.fetch_history()
    fired = [event for event in history.events if event.HasField("timer_fired_event_attributes")][-1]
    begun = history.events[fired.timer_fired_event_attributes.started_event_id - 1].timer_started_event_attributes
    assert begun.start_to_fire_timeout.ToTimedelta() <= timedelta(hours=1) + service.settings.grace
    assert fired.event_time.ToDatetime() - history.events[0].event_time.ToDatetime() >= timedelta(hours=1)


async def test_the_tool_limits_the_ttl_and_the_agent_may_only_shorten_it(service: Service) -> None:
    arguments = {"path": "x", "secret": "s"}
    for asked, granted in ((timedelta(days=3), timedelta(hours=4)), (timedelta(minutes=5), timedelta(minutes=5))):
        before = datetime.now(UTC)
        handle = await service.gate.request("guarded_mark", arguments, requester=ME, ttl=asked)
        deadline = (await handle.state()).deadline
        assert deadline is not None
        assert before - timedelta(seconds=1) <= deadline - granted <= datetime.now(UTC)
        await handle.cancel()
