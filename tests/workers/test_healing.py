"""A workflow whose history no longer replays begins anew, and does nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow

from assent import ApprovalHandle, names
from assent.contracts.decision import Decision, DecisionKind, Stage
from assent.tools.definition import registry
from tests.conftest import ME, Service, accepted, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from workers.approvals import approvals_worker
from workers.healing import STUCK, heal
from workers.tools import tool_workers
from workflows.deliveries import Deliveries


@pytest.fixture
async def unattended(tmp_path: Path, temporal_address: str, namespaces: Iterator[str]) -> AsyncIterator[Service]:
    """A service whose approvals worker is to be started."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database("sqlite", tmp_path), workers=False)
        for worker in tool_workers(client, service.ledger, registry):
            await stack.enter_async_context(worker)
        yield service


async def listed_as_stuck(service: Service, handle: ApprovalHandle) -> bool:
    """Whether Temporal lists it among those whose task fails and fails."""
    wanted = names.approval_workflow(handle.id)
    return wanted in [found.id async for found in service.client.list_workflows(STUCK)]


@pytest.mark.parametrize("tool", ["mark", "looked_at"])
async def test_an_approval_that_no_longer_replays_goes_on_and_its_call_runs_once(
    unattended: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    service, path, send_first = unattended, tmp_path / "marks", Deliveries.send_first

    async def otherwise(self: Deliveries, *given: Any) -> None:
        workflow.upsert_memo({"other": "code"})
        await send_first(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Deliveries, "send_first", otherwise)
        async with approvals_worker(service.client, service.ledger, service.settings):
            handle = await service.gate.request(tool, {"path": str(path)}, requester=ME)
            state = await handle.state()
            if tool == "looked_at":  # the call is made before, and its result waits
                await accepted(handle, state)
                sealed = await until(lambda: waits_for_release(service, handle))
    async with approvals_worker(service.client, service.ledger, service.settings):
        stage, seen = (Stage.RESULT, sealed) if tool == "looked_at" else (Stage.CALL, state.payload_sha256)
        decision = Decision(
            approval_id=handle.id,
            kind=DecisionKind.APPROVE,
            payload_sha256=seen,
            actor=ME,
            event_id="said while nobody could hear",
            delivery_id="once",
            stage=stage,
        )
        assert (await handle.submit(decision, answer_within=timedelta(seconds=1))).kind == "received"
        await until(lambda: listed_as_stuck(service, handle))
        assert marks(path) == (1 if tool == "looked_at" else 0)
        await heal(service.client)
        if tool == "looked_at":
            sealed = await until(lambda: waits_for_release(service, handle))
            await handle.decide("approve", actor=ME, payload_sha256=sealed, stage="result")
        assert (await handle.outcome()).status == "executed"
    assert marks(path) == 1
    assert not await service.ledger.verify()


async def waits_for_release(service: Service, handle: ApprovalHandle) -> str | None:
    return (await service.as_it_stands(handle)).result_sha256
