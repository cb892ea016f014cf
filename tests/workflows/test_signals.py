"""Whatever is signalled, the approval stays decidable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assent import Unavailable, names
from tests.conftest import ME, Service
from tests.support.tools import marks
from tests.support.waiting import until

MALFORMED: list[list[Any]] = [
    [],
    [1, 2, 3],
    ["approve"],
    [None],
    [[]],
    [{}],
    [{"kind": "approve"}],
    [{"approval_id": "x", "kind": "maybe", "actor": {"open_id": "ou_me"}, "event_id": "e"}],
    [{"approval_id": "x", "kind": "approve", "actor": {}, "event_id": "e"}],
    [{"approval_id": "x", "kind": "approve", "actor": {"open_id": "a\x00b"}, "event_id": "e"}],
    [{"approval_id": "x", "kind": "approve", "actor": {"open_id": "ou"}, "event_id": "e" * 100_000}],
    [{"approval_id": "x", "kind": "approve", "actor": {"open_id": "ou"}, "event_id": "e", "received_at": "noon"}],
    ["x" * 500_000],
]


async def test_malformed_decisions_are_set_aside(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    for arguments in MALFORMED:
        await workflow.signal(names.DECIDE, args=arguments)
        await workflow.signal(names.SUPERSEDE, args=arguments)
    await workflow.signal("no such signal", 1)
    state = await handle.state()
    assert (state.phase, state.malformed) == ("pending", 2 * len(MALFORMED))
    assert (await service.decided(handle)).status == "executed"
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("arguments", [[], [None], ["now"], [1, 2], [{"reason": 5}], [{"reason": "x" * 100_000}]])
async def test_a_cancel_in_any_form_cancels(service: Service, tmp_path: Path, arguments: list[Any]) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(names.CANCEL, args=arguments)
    assert (await handle.outcome()).status == "cancelled"


async def test_a_thousand_bad_signals_leave_the_approval_decidable(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    flood = "x" * 10_000
    for _ in range(50):  # the server refuses more at a time, where it is busy
        await asyncio.gather(*(workflow.signal(names.DECIDE, {"kind": flood, "n": n}) for n in range(20)))
    described = await workflow.describe()
    assert described.status is not None
    assert described.status.name == "RUNNING"

    async def all_were_set_aside() -> bool:
        try:
            return (await handle.state()).malformed == 1000
        except Unavailable:  # where the machine is busy, so many take longer than Temporal gives a task: it tries again
            return False

    await until(all_were_set_aside)
    assert (await service.decided(handle)).status == "executed"
    assert marks(tmp_path / "marks") == 1


async def test_a_long_history_continues_as_new_and_remembers(service: Service, tmp_path: Path) -> None:
    """More than four megabytes of clicks by strangers: the approval starts a new run and forgets nobody's click."""
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    digest = (await handle.state()).payload_sha256
    first = await handle.decide("approve", actor=ME, payload_sha256="0" * 64, event_id="evt_early")
    assert first.kind == "tampered"
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    first_run = (await workflow.describe()).run_id
    sent = 14
    await asyncio.gather(*(workflow.signal(names.DECIDE, "x" * 400_000) for _ in range(sent)))

    async def continued() -> bool | None:
        nonlocal sent  # what came in one burst is known to be long only with the next task: something must follow it
        await workflow.signal(names.DECIDE, "x")
        sent += 1
        return (await workflow.describe()).run_id != first_run or None

    await until(continued)
    again = await handle.decide("approve", actor=ME, payload_sha256=digest, event_id="evt_early")
    assert again.kind == "duplicate"
    assert (await handle.state()).malformed == sent
    assert (await service.decided(handle)).status == "executed"
    assert await service.events(handle.id) == ["write_request", "tamper", "confirm", "execute"]


async def test_temporal_cancellation_withdraws_while_pending(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    await handle.state()
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).cancel()
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason) == ("cancelled", "cancelled in Temporal")


async def test_an_executing_call_can_be_neither_cancelled_nor_superseded(service: Service, tmp_path: Path) -> None:
    path, gate, thread = tmp_path / "marks", tmp_path / "gate", str(tmp_path)
    arguments = {"path": str(path), "gate": str(gate)}
    handle = await service.gate.request("gated", arguments, requester=ME, thread_id=thread)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

    async def begun() -> bool | None:
        return marks(path) == 1 or None

    from tests.support.waiting import until

    await until(begun)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    await workflow.cancel()
    await handle.cancel("too late")
    newer = await service.gate.request(
        "mark", {"path": str(path)}, requester=ME, thread_id=thread, when_pending="supersede"
    )
    assert (await handle.state()).phase == "executing"
    gate.touch()
    assert (await handle.outcome()).status == "executed"
    assert (await newer.state()).phase == "pending"
    assert marks(path) == 1
    await newer.cancel()
