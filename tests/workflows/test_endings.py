"""An ending without an execution is told once the ledger has it, however long that takes, and by nobody before."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.common import RetryPolicy

import workflows.approval
import workflows.steps
from assent import names
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import Decision, DecisionKind
from assent.contracts.outcome import Outcome
from assent.contracts.signals import Supersession, VerdictQuestion, Withdrawal
from assent.contracts.status import Status
from assent.temporal import search
from tests.conftest import ME, Service
from tests.support.temporal_operations import reset
from tests.support.tools import marks
from tests.support.waiting import until

HELD_BACK = timedelta(seconds=1)
"""For how long an execution's outcome is held back here."""
LONGER_THAN_EVER = 7
"""So many vain attempts take more than that."""


class OutOfReach:
    """A ledger that records no ending for now."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._settle = service.ledger.conclude
        self._tried: Counter[tuple[str, Status]] = Counter()
        self._of: set[str] = set()
        monkeypatch.setattr(service.ledger, "conclude", self._refuse)
        monkeypatch.setattr(workflows.approval, "SOON", HELD_BACK)

    def hide_from(self, approval_id: str) -> None:
        self._of.add(approval_id)

    def be_there(self) -> None:
        self._of.clear()

    async def tried(self, approval_id: str, status: Status) -> bool:
        return self._tried[approval_id, status] >= LONGER_THAN_EVER

    async def _refuse(self, conclusion: Conclusion, *more: Any) -> Outcome:
        approval_id = conclusion.outcome.approval_id
        if approval_id in self._of:
            self._tried[approval_id, conclusion.outcome.status] += 1
            raise ConnectionError("the ledger is out of reach")
        return await self._settle(conclusion, *more)


_ENDINGS = (Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.SUPERSEDED)
TTL = timedelta(seconds=20)
"""How long the one is waited for that expires: long enough to be approved and executed before."""


@pytest.mark.parametrize(
    ("ending", "was_executed"),
    [(Status.REJECTED, False), *((ending, True) for ending in _ENDINGS)],
)
async def test_an_ending_is_told_by_nobody_before_the_ledger_has_it(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: Status, was_executed: bool
) -> None:
    more: dict[str, Any] = {"ttl": TTL} if ending is Status.EXPIRED else {}
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **more)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    ledger = OutOfReach(service, monkeypatch)
    if was_executed:
        ledger.hide_from(handle.id)  # its ending is not recorded, its claim is
        assert (await service.decided(handle)).status == "executed"
        await reset(service, handle, nth_task=0, keep_signals=False)
    monkeypatch.setattr(workflows.steps, "_PATIENT", RetryPolicy(timedelta(seconds=0.2), backoff_coefficient=1))
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
    match ending:
        case Status.REJECTED:
            await workflow.signal(names.DECIDE, decision)
        case Status.CANCELLED:
            await workflow.signal(names.CANCEL, Withdrawal(reason="never mind", actor=ME))
        case Status.SUPERSEDED:
            await workflow.signal(names.SUPERSEDE, Supersession(by="a-newer-one"))
    await until(lambda: ledger.tried(handle.id, ending))
    assert not ended.done()
    shown = await handle.state()
    assert (shown.phase, shown.status, shown.reason) == ("pending", None, None)
    question = VerdictQuestion(event_id=decision.event_id, delivery_id=None)
    assert (await workflow.query(names.VERDICT, question))["kind"] == "received"
    described = await workflow.describe()
    assert described.typed_search_attributes.get(search.STATUS) == "pending"
    assert await service.ledger.outcome(handle.id) is None
    ledger.be_there()
    status = "executed" if was_executed else "rejected"
    assert (await handle.outcome()).status == status
    recorded = await service.ledger.outcome(handle.id)
    assert recorded is not None
    assert recorded.status == status
    assert (await handle.state()).status == status
    if ending is Status.REJECTED:
        assert (await workflow.query(names.VERDICT, question))["kind"] == "accepted"
    assert marks(tmp_path / "m") == int(was_executed)
    await ended
