"""The plans of an approval: the one that was prepared, and what it became when people changed its arguments."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from ledger import audit
from ledger.engine import insert
from ledger.schema import approvals, revisions


async def revise(connection: AsyncConnection, plan: Plan, event_id: str) -> Plan:
    """Store what an edit made of a plan, and let it stand; the same event is the same edit."""
    await audit.lock(connection, plan.approval_id)
    mine = revisions.c.approval_id == plan.approval_id
    standing = select(approvals.c.revision).where(approvals.c.approval_id == plan.approval_id)
    stands = (await connection.execute(standing)).scalar_one_or_none()
    if stands is None:
        raise LookupError(f"the ledger holds no plan for approval {plan.approval_id!r}: there is nothing to edit")
    known = select(revisions.c.plan).where(mine, revisions.c.event_id == event_id)
    if text := (await connection.execute(known)).scalar_one_or_none():
        plan = Plan.model_validate_json(text)
    else:
        newest = (await connection.execute(select(func.max(revisions.c.revision)).where(mine))).scalar() or 0
        plan = plan.model_copy(update={"revision": newest + 1})
        row = insert(connection, revisions).values(
            approval_id=plan.approval_id,
            revision=plan.revision,
            event_id=event_id,
            payload_sha256=plan.payload_sha256,
            plan=plan.model_dump_json(),
        )
        await connection.execute(row)
    if plan.revision > stands:  # an edit that is merely told again does not undo a later one
        await _let_stand(connection, plan.approval_id, plan.revision)
    return plan


async def begin_anew(connection: AsyncConnection, approval_id: str) -> None:
    """The plan stands as it was prepared: a workflow that was reset knows of no edit, until it meets it again."""
    await _let_stand(connection, approval_id, 0)


async def plan_of(connection: AsyncConnection, approval_id: str, payload_sha256: str | None = None) -> Plan | None:
    """The plan that stands; or the newest one with that hash, whether it stands or not."""
    row = (await connection.execute(select(approvals).where(approvals.c.approval_id == approval_id))).first()
    if row is None or row.plan is None:
        return None
    if payload_sha256 is None:
        return await standing_plan(connection, row)
    return await _with_hash(connection, row, payload_sha256)


async def standing_plan(connection: AsyncConnection, approval: Row[Any]) -> Plan:
    """The plan by which an approval ended; of an open one, as it was edited last."""
    if approval.outcome is not None:
        digest = Outcome.model_validate_json(approval.outcome).payload_sha256
        if digest and (ended := await _with_hash(connection, approval, digest)):
            return ended
    text = approval.plan
    if approval.revision:
        edited = select(revisions.c.plan).where(
            revisions.c.approval_id == approval.approval_id, revisions.c.revision == approval.revision
        )
        text = (await connection.execute(edited)).scalar_one()
    return Plan.model_validate_json(text)


def with_hash(approval_id: Any, payload_sha256: Any) -> Select[Any]:
    """The text of the newest edited plan that has this hash."""
    return (
        select(revisions.c.plan)
        .where(revisions.c.approval_id == approval_id, revisions.c.payload_sha256 == payload_sha256)
        .order_by(revisions.c.revision.desc())
        .limit(1)
    )


async def edited_by(connection: AsyncConnection, plan: Plan) -> str | None:
    """The event of the edit that made this plan."""
    if not plan.revision:
        return None
    found = select(revisions.c.event_id).where(
        revisions.c.approval_id == plan.approval_id, revisions.c.revision == plan.revision
    )
    return (await connection.execute(found)).scalar_one_or_none()


async def _with_hash(connection: AsyncConnection, approval: Row[Any], payload_sha256: str) -> Plan | None:
    found = await connection.execute(with_hash(approval.approval_id, payload_sha256))
    plan = Plan.model_validate_json(found.scalar_one_or_none() or approval.plan)
    return plan if plan.payload_sha256 == payload_sha256 else None


async def _let_stand(connection: AsyncConnection, approval_id: str, revision: int) -> None:
    await connection.execute(update(approvals).where(approvals.c.approval_id == approval_id).values(revision=revision))
