"""What Temporal's lists say of an approval while its call runs, and that it costs little to say it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

import workflows.approval
from assent import ApprovalHandle, names
from tests.conftest import ME, Service
from tests.support.replaying import replays
from tests.support.tools import marks
from tests.support.waiting import until


async def ask(service: Service, directory: Path, tool: str = "mark", **arguments: Any) -> ApprovalHandle:
    return await service.gate.request(tool, {"path": str(directory / "marks"), **arguments}, requester=ME)


async def events(service: Service, handle: ApprovalHandle) -> list[HistoryEvent]:
    approval = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    return list((await approval.fetch_history()).events)


async def listed(service: Service, handle: ApprovalHandle) -> list[str]:
    """Every standing that was put into Temporal's lists, in order."""
    changes = [
        event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        for event in await events(service, handle)
        if event.HasField("upsert_workflow_search_attributes_event_attributes")
    ]
    return [change[names.STATUS_ATTRIBUTE].data.decode().strip('"') for change in changes]


async def listed_in_all(service: Service, handle: ApprovalHandle) -> list[str]:
    """The same, once it has ended: what the ledger knows is told before."""
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).result()
    return await listed(service, handle)


async def test_a_call_that_ends_at_once_is_never_listed_as_running(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows.approval, "_NOTICEABLE", timedelta(minutes=2))
    handle = await ask(service, tmp_path)
    assert (await service.decided(handle)).status == "executed"
    assert await listed_in_all(service, handle) == ["pending", "executed"]


async def test_a_call_that_runs_for_a_while_is_listed_as_running(service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await ask(service, tmp_path, "gated", gate=str(gate))
    deciding = asyncio.create_task(service.decided(handle))

    async def found() -> bool:
        return handle.id in [each.approval_id async for each in service.gate.approvals(status="executing", limit=1000)]

    await until(found)
    gate.touch()
    assert (await deciding).status == "executed"
    assert await listed_in_all(service, handle) == ["pending", "executing", "executed"]


async def test_whoever_asks_for_it_hears_at_once_that_it_runs(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows.approval, "_NOTICEABLE", timedelta(minutes=2))
    gate = tmp_path / "gate"
    handle = await ask(service, tmp_path, "gated", gate=str(gate))
    state = await handle.state()
    assert (await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)).kind == "accepted"
    assert (await handle.state()).phase == "executing"
    gate.touch()
    assert (await handle.outcome()).status == "executed"


WHILE_IT_IS_PUT_ON_RECORD = timedelta(seconds=4)
"""A moment that comes when the call has long ended, on a busy machine too, and its ending is not yet recorded."""


class SlowLedger:
    """One that takes an ending only after the moment when a call that still runs would be listed so."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        monkeypatch.setattr(workflows.approval, "_NOTICEABLE", WHILE_IT_IS_PUT_ON_RECORD)
        take = service.ledger.conclude

        async def conclude(*given: Any) -> Any:
            self.asked += 1
            await asyncio.sleep(WHILE_IT_IS_PUT_ON_RECORD.total_seconds() + 1)
            return await take(*given)

        monkeypatch.setattr(service.ledger, "conclude", conclude)


async def test_nothing_wakes_an_approval_whose_call_ran_for_a_while_as_its_ending_is_put_on_record(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does has Temporal refuse the end, and the ending recorded again."""
    ledger = SlowLedger(service, monkeypatch)
    monkeypatch.setattr(workflows.approval, "_SOON_NOTICEABLE", timedelta(0))
    handle = await ask(service, tmp_path)
    assert (await service.decided(handle)).status == "executed"
    assert ledger.asked == 1
    assert await listed_in_all(service, handle) == ["pending", "executed"]
    assert not [
        each for each in await events(service, handle) if each.HasField("workflow_task_failed_event_attributes")
    ]


async def test_a_call_that_ended_at_once_ends_once_even_if_its_ending_is_slowly_put_on_record(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SlowLedger(service, monkeypatch)
    monkeypatch.setattr(workflows.approval, "_SOON_NOTICEABLE", timedelta(minutes=2))
    handle = await ask(service, tmp_path)
    assert (await service.decided(handle)).status == "executed"
    assert ledger.asked >= 1
    assert marks(tmp_path / "marks") == 1
    assert (await listed_in_all(service, handle))[-1] == "executed"
    assert await replays(service.client, handle)


async def test_an_ending_that_the_ledger_does_not_take_is_listed_all_the_same(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows.approval, "_NOTICEABLE", WHILE_IT_IS_PUT_ON_RECORD)
    taken = service.ledger.conclude
    is_down = True

    async def conclude(*given: Any) -> Any:
        if is_down:
            raise ConnectionError("the ledger is out of reach")
        return await taken(*given)

    monkeypatch.setattr(service.ledger, "conclude", conclude)
    handle = await ask(service, tmp_path)
    assert (await service.decided(handle)).status == "executed"
    assert await listed_in_all(service, handle) == ["pending", "executed"]
    is_down = False


async def test_what_nobody_is_asked_about_is_listed_as_running_at_once(service: Service, tmp_path: Path) -> None:
    handle = await ask(service, tmp_path, "at_once")
    assert (await handle.outcome()).status == "executed"
    assert await listed_in_all(service, handle) == ["pending", "executing", "executed"]


async def test_a_result_that_waits_is_listed_so_when_the_moment_passes(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows.approval, "_NOTICEABLE", timedelta(seconds=20))
    handle = await ask(service, tmp_path, "looked_at")
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

    async def waits() -> bool:
        return (await listed(service, handle))[1:] == ["reviewing"]

    await until(waits)
    result = (await handle.state()).result_sha256
    await handle.decide("approve", actor=ME, payload_sha256=result, stage="result")
    assert (await handle.outcome()).status == "executed"
    assert await listed_in_all(service, handle) == ["pending", "reviewing", "executed"]
