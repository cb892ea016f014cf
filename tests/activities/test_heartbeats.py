"""A worker that lives is heard often enough that a moment's silence freezes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from assent import names
from tests.conftest import HEARTBEAT, ME, Service, accepted
from tests.support.waiting import until


async def test_temporal_hears_of_a_call_several_times_within_the_heartbeat_timeout(
    service: Service, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    asked = {"path": str(tmp_path / "marks"), "gate": str(gate)}
    handle = await service.gate.request("gated", asked, requester=ME)
    await accepted(handle, await handle.state())
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    heard: list[datetime] = []

    async def was_heard_often() -> bool:
        pending = (await workflow.describe()).raw_description.pending_activities
        for at in (each.last_heartbeat_time.ToDatetime() for each in pending if each.HasField("last_heartbeat_time")):
            heard.extend([at] if at not in heard else [])
        between = (after - before for before, after in pairwise(heard))
        return any(timedelta(0) < gap <= HEARTBEAT / 2 for gap in between)

    await until(was_heard_often, seconds=20 * HEARTBEAT.total_seconds())
    gate.touch()
    assert (await handle.outcome()).status == "executed"
