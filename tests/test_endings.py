"""An ending without an execution is told once the ledger has it, however long that takes, and by nobody before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assent import names
from assent.contracts import Decision, DecisionKind, Outcome
from assent.messages import Conclusion, VerdictQuestion
from tests.conftest import ME, Service
from tests.parts import until
from tests.test_resets import reset
from tests.tools import marks

LONGER_THAN_EVER = 7
"""So many vain attempts take more than the ten seconds for which an execution's outcome is held back."""


class OutOfReach:
    """A ledger that records no ending for now."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._settle = service.ledger.settle
        self._tried: dict[str, int] = {}
        self._of: set[str] = set()
        monkeypatch.setattr(service.ledger, "settle", self._refuse)

    def hide_from(self, approval_id: str) -> None:
        self._of.add(approval_id)

    def be_there(self) -> None:
        self._of.clear()

    async def tried(self, approval_id: str) -> bool:
        return self._tried.get(approval_id, 0) >= LONGER_THAN_EVER

    async def _refuse(self, conclusion: Conclusion) -> Outcome:
        approval_id = conclusion.outcome.approval_id
        if approval_id in self._of:
            self._tried[approval_id] = self._tried.get(approval_id, 0) + 1
            raise ConnectionError("the ledger is out of reach")
        return await self._settle(conclusion)


@pytest.mark.parametrize("was_executed", [False, True])
async def test_a_rejection_is_told_by_nobody_before_the_ledger_has_it(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_executed: bool
) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    ledger = OutOfReach(service, monkeypatch)
    if was_executed:
        ledger.hide_from(handle.id)  # its ending is not recorded, its claim is
        assert (await service.decided(handle)).status == "executed"
        await reset(service, handle, nth_task=0, keep_signals=False)
    state = await handle.state()
    ledger.hide_from(handle.id)
    decision = Decision(
        approval_id=handle.id,
        kind=DecisionKind.REJECT,
        payload_sha256=state.payload_sha256,
        actor=ME,
        event_id=f"reject-{handle.id}",
    )
    ended: asyncio.Task[Any] = asyncio.create_task(workflow.result())
    await workflow.signal(names.DECIDE, decision)
    await until(lambda: ledger.tried(handle.id))
    assert not ended.done()
    shown = await handle.state()
    assert (shown.phase, shown.status, shown.reason) == ("pending", None, None)
    question = VerdictQuestion(event_id=decision.event_id, delivery_id=None)
    assert (await workflow.query(names.VERDICT, question))["kind"] == "received"
    described = await workflow.describe()
    assert described.typed_search_attributes.get(names.STATUS) == "pending"
    assert await service.ledger.outcome(handle.id) is None
    ledger.be_there()
    status = "executed" if was_executed else "rejected"
    assert (await handle.outcome()).status == status
    recorded = await service.ledger.outcome(handle.id)
    assert recorded is not None
    assert recorded.status == status
    assert (await handle.state()).status == status
    assert (await workflow.query(names.VERDICT, question))["kind"] == "accepted"
    assert marks(tmp_path / "m") == int(was_executed)
    await ended
