"""Calls of which a ledger does not know whether they ran, and what is said of them."""

from __future__ import annotations

import uuid

from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.review import Examination, FrozenCall
from assent.contracts.ruling import Ruling
from assent.contracts.status import Status
from assent.types import RulingKind
from ledger import ClaimState, Ending, Ledger
from tests.conftest import ME, OPERATOR
from tests.support.ledgers import NOW, ended, holder, propose

LOST = Ending(state=ClaimState.UNKNOWN, error="it was lost")


async def lost(ledger: Ledger, **more: object) -> Plan:
    """An approval whose call may have happened, and which ended so."""
    plan = await propose(ledger, **more)  # type: ignore[arg-type]
    call, running = ToolCall.of(plan), holder()
    await ledger.begin(call, running)
    await ledger.finish(call, running, 1, LOST)
    await ledger.conclude(ended(plan, Status.FROZEN))
    return plan


def said(plan: Plan, kind: RulingKind | None = None, report: ReportKind | None = None, **more: object) -> Examination:
    call = FrozenCall.of(plan, ToolCall.of(plan), decided_by=ME, error=None, frozen_at=NOW)
    ruling = (
        Ruling(kind=kind, operator=OPERATOR, reason="I looked", ruling_id=uuid.uuid4().hex, **more) if kind else None
    )
    return Examination(frozen=call, ruling=ruling, report=Report(kind=report) if report else None, now=NOW)
