"""The plans of an approval: the one that was prepared, and what it became when people changed its arguments."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, bindparam, func, select, update

from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from ledger import audit
from ledger.engine import Connection
from ledger.schema import approvals, revisions
from ledger.statements import Row, Statement, insert


def with_hash(approval_id: Any, payload_sha256: Any) -> Select[Any]:
    """The text of the newest edited plan that has this hash."""
    return (
        select(revisions.c.plan)
        .where(revisions.c.approval_id == approval_id, revisions.c.payload_sha256 == payload_sha256)
        .order_by(revisions.c.revision.desc())
        .limit(1)
    )


_its_edits = revisions.c.approval_id == bindparam("of")
_APPROVAL = Statement(select(approvals).where(approvals.c.approval_id == bindparam("of")))
_STANDS = Statement(select(approvals.c.revision).where(approvals.c.approval_id == bindparam("of")))
_LET_STAND = Statement(update(approvals).where(approvals.c.approval_id == bindparam("of")))
_BY_EVENT = Statement(select(revisions.c.plan).where(_its_edits, revisions.c.event_id == bindparam("event_id")))
_NEWEST = Statement(select(func.max(revisions.c.revision)).where(_its_edits))
_ADD = Statement(insert(revisions))
_EDITED = Statement(select(revisions.c.plan).where(_its_edits, revisions.c.revision == bindparam("revision")))
_EVENT = Statement(select(revisions.c.event_id).where(_its_edits, revisions.c.revision == bindparam("revision")))
_edited = with_hash(approvals.c.approval_id, bindparam("payload_sha256")).correlate(approvals).scalar_subquery()
_WITH_HASH = Statement(
    select(func.coalesce(_edited, approvals.c.plan)).where(approvals.c.approval_id == bindparam("of"))
)


async def revise(connection: Connection, plan: Plan, event_id: str) -> Plan:
    """Store what an edit made of a plan, and let it stand; the same event is the same edit."""
    await audit.lock(connection, plan.approval_id)
    own = {"of": plan.approval_id}
    stands = (await connection.execute(_STANDS, own)).scalar_one_or_none()
    if stands is None:
        raise LookupError(f"the ledger holds no plan for approval {plan.approval_id!r}: there is nothing to edit")
    if text := (await connection.execute(_BY_EVENT, {**own, "event_id": event_id})).scalar_one_or_none():
        plan = Plan.model_validate_json(text)
    else:
        newest = (await connection.execute(_NEWEST, own)).scalar() or 0
        plan = plan.model_copy(update={"revision": newest + 1})
        edit = {
            "approval_id": plan.approval_id,
            "revision": plan.revision,
            "event_id": event_id,
            "payload_sha256": plan.payload_sha256,
            "plan": plan.model_dump_json(),
        }
        await connection.execute(_ADD, edit)
    if plan.revision > stands:  # an edit that is merely told again does not undo a later one
        # What it became may wait longer than what it was.
        longer = {"revision": plan.revision, "open_until": audit.stamp(plan.open_until)}
        await connection.execute(_LET_STAND, {"of": plan.approval_id, **longer})
    return plan


async def begin_anew(connection: Connection, approval_id: str) -> None:
    """The plan stands as it was prepared: a workflow that was reset knows of no edit, until it meets it again."""
    await connection.execute(_LET_STAND, {"of": approval_id, "revision": 0})


async def approval_of(connection: Connection, approval_id: str) -> Row | None:
    """The record of an approval."""
    return (await connection.execute(_APPROVAL, {"of": approval_id})).first()


async def plan_of(connection: Connection, approval_id: str, payload_sha256: str | None = None) -> Plan | None:
    """The plan that stands; or the newest one with that hash, whether it stands or not."""
    if payload_sha256 is not None:
        return await _with_hash(connection, approval_id, payload_sha256)
    row = await approval_of(connection, approval_id)
    return await standing_plan(connection, row) if row is not None and row.plan is not None else None


async def standing_plan(connection: Connection, approval: Row) -> Plan:
    """The plan by which an approval ended; of an open one, as it was edited last."""
    if approval.outcome is not None:
        digest = Outcome.model_validate_json(approval.outcome).payload_sha256
        if digest and (ended := await _with_hash(connection, approval.approval_id, digest)):
            return ended
    text = approval.plan
    if approval.revision:
        stands = {"of": approval.approval_id, "revision": approval.revision}
        text = (await connection.execute(_EDITED, stands)).scalar_one()
    return Plan.model_validate_json(text)


async def edited_by(connection: Connection, plan: Plan) -> str | None:
    """The event of the edit that made this plan."""
    if not plan.revision:
        return None
    event: str | None = (
        await connection.execute(_EVENT, {"of": plan.approval_id, "revision": plan.revision})
    ).scalar_one_or_none()
    return event


async def _with_hash(connection: Connection, approval_id: str, payload_sha256: str) -> Plan | None:
    text = (await connection.execute(_WITH_HASH, {"of": approval_id, "payload_sha256": payload_sha256})).scalar()
    plan = Plan.model_validate_json(text) if text is not None else None
    return plan if plan is not None and plan.payload_sha256 == payload_sha256 else None
