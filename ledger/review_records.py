"""What a review is found by, and whether it has ended: ids and hashes, no words and no content."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from assent import names
from assent.messages import AuditEntry, AuditEvent, ReviewRecord
from ledger.approvals import outcome_of
from ledger.reviews import settlement_of
from ledger.revisions import plan_of
from ledger.schema import audit


async def record_of(connection: AsyncConnection, approval_id: str, ruling_id: str | None) -> ReviewRecord | None:
    """The review that an approval's call would have, and what was settled of it; None if there is no such approval."""
    plan = await plan_of(connection, approval_id)
    if plan is None:
        return None
    outcome, settled = await outcome_of(connection, approval_id), await settlement_of(connection, approval_id)
    claimed = outcome.idempotency_key if outcome else None  # which may be another than was planned
    return ReviewRecord(
        review_id=names.review_workflow(claimed or plan.idempotency_key),
        payload_sha256=plan.payload_sha256,
        settled=settled.model_copy(update={"content": None, "truncated": False, "reason": None}) if settled else None,
        is_this_ruling=settled is not None and await _was_settled_by(connection, approval_id, ruling_id),
    )


async def _was_settled_by(connection: AsyncConnection, approval_id: str, ruling_id: str | None) -> bool:
    if ruling_id is None:
        return False
    bodies = await connection.execute(select(audit.c.body).where(audit.c.approval_id == approval_id))
    entries = (AuditEntry.model_validate_json(body) for body in bodies.scalars())
    return any(entry.event is AuditEvent.SETTLE and entry.event_id == ruling_id for entry in entries)
