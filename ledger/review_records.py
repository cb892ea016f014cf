"""What is on record of the review of a call: where it stands, what was settled, and of which payload."""

from __future__ import annotations

from assent.contracts.review import ReviewRecord
from ledger import settlements
from ledger.engine import Connection
from ledger.revisions import plan_of


async def record_of(connection: Connection, approval_id: str) -> ReviewRecord | None:
    """The review of an approval's call, as far as there is one; None if there is no such approval."""
    plan = await plan_of(connection, approval_id)
    if plan is None:
        return None
    return ReviewRecord(
        payload_sha256=plan.payload_sha256,
        frozen=await settlements.frozen(connection, approval_id),
        settlement=await settlements.settlement_of(connection, approval_id),
    )
