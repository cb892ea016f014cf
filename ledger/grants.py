"""Grants: decisions that are remembered, so that nobody is asked again; looked up, checked again, revoked."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, or_, select, update

from assent import reasons
from assent.contracts.approvers import Approvers
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.execute import ToolCall
from assent.contracts.grants import Grant, Remembering, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen, Surface
from assent.payload import sha256
from assent.reasons import Reason
from ledger import audit, crosscheck
from ledger.engine import Connection, inserted
from ledger.revisions import plan_of
from ledger.schema import approvals, grants
from ledger.statements import Row, Statement, insert

_MEANT = {
    DecisionKind.APPROVE: DecisionKind.APPROVE,
    DecisionKind.EDIT: DecisionKind.APPROVE,
    DecisionKind.REJECT: DecisionKind.REJECT,
}
"""What is remembered of a decision: an edit approves what it made."""

_newest_first = select(grants).order_by(grants.c.granted_at.desc(), grants.c.grant_id)
_ADD = Statement(insert(grants).on_conflict_do_nothing())
_FOR = Statement(
    _newest_first.where(
        grants.c.tool == bindparam("tool"),
        or_(grants.c.payload_sha256 == bindparam("payload_sha256"), grants.c.payload_sha256.is_(None)),
        grants.c.revoked_at.is_(None),
    )
)
_OF = Statement(select(grants).where(grants.c.grant_id == bindparam("of")))
_HELD = Statement(select(grants).where(grants.c.grant_id == bindparam("of")).with_for_update(read=True))
_PAGE = Statement(_newest_first.offset(bindparam("offset")).limit(bindparam("limit")))
_STOOD_IN = Statement(
    select(approvals.c.approval_id)
    .where(approvals.c.grant_id == bindparam("of"), approvals.c.created_at >= bindparam("since"))
    .order_by(approvals.c.created_at.desc())
    .limit(bindparam("limit"))
)
_REVOKE = Statement(update(grants).where(grants.c.grant_id == bindparam("of"), grants.c.revoked_at.is_(None)))


class Wanted(Frozen):
    """A call, in all that a grant must agree with to count for it."""

    tool: str
    payload_sha256: str
    conversation: str | None
    """The chat that it is asked for in; where a grant begins a call, only if that is known."""
    requester: Identity
    manifest_sha256: str
    risk: Risk
    approvers: Approvers


async def remember(connection: Connection, remembering: Remembering) -> Grant | None:
    """Remember a decision as long as its plan allows; the same decision is remembered once."""
    await audit.lock(connection, remembering.approval_id)
    plan = await plan_of(connection, remembering.approval_id, remembering.payload_sha256)
    meant = _MEANT.get(remembering.decision)
    if plan is None or meant is None or not plan.remember_for:
        return None
    grant = _grant(plan, meant, remembering)
    granted = grant.model_dump_json()
    row = {
        "grant_id": grant.grant_id,
        "tool": grant.tool,
        "payload_sha256": grant.payload_sha256,
        "granted": granted,
        "granted_at": audit.stamp(grant.granted_at),
    }
    if not await inserted(connection, _ADD, row):
        return await grant_of(connection, grant.grant_id)
    entry = AuditEntry(
        event=AuditEvent.GRANT,
        at=remembering.now,
        once=f"grant:{grant.grant_id}",
        actor=grant.granted_by,
        payload_sha256=plan.payload_sha256,
        decision=meant,
        reason=grant.reason,
        grant_id=grant.grant_id,
        grant_sha256=crosscheck.grant_sha256(plan.approval_id, grant.tool, grant.payload_sha256, granted),
    )
    await audit.append(connection, plan.approval_id, [entry])
    return grant


async def grant_for(connection: Connection, wanted: Wanted, now: datetime) -> Grant | None:
    """The live grant that counts for a call: one for exactly this call before one for the tool, the newest first."""
    found = await connection.execute(_FOR, {"tool": wanted.tool, "payload_sha256": wanted.payload_sha256})
    live = [grant for grant in map(_read, found) if not _ended(grant, now) and _counts(grant, wanted)]
    return next((grant for grant in live if grant.scope is Remember.EXACT), next(iter(live), None))


async def grant_of(connection: Connection, grant_id: str) -> Grant | None:
    row = (await connection.execute(_OF, {"of": grant_id})).first()
    return _read(row) if row is not None else None


async def stood_in(connection: Connection, grant_id: str, since: datetime, limit: int) -> tuple[str, ...]:
    """The approvals in which nobody was asked because of a grant, the newest first."""
    wanted = {"of": grant_id, "since": audit.stamp(since), "limit": limit}
    return tuple(row.approval_id for row in await connection.execute(_STOOD_IN, wanted))


async def grant_about(connection: Connection, plan: Plan) -> Grant | None:
    """The grant that stood in for people in an approval, or that their decision became; as it stands now."""
    if plan.grant is not None:
        return await grant_of(connection, plan.grant.grant_id)
    if plan.permission.execution is not Execution.ASK_ONCE or not plan.remember_for:
        return None
    could_be = ((Remember.TOOL, DecisionKind.APPROVE), *((Remember.EXACT, each) for each in _MEANT.values()))
    for scope, decision in dict.fromkeys(could_be):
        if (grant := await grant_of(connection, _grant_id(plan, scope, decision))) is not None:
            return grant
    return None


async def page(connection: Connection, offset: int, limit: int) -> tuple[tuple[Grant, ...], int | None]:
    """The grants from *offset* on, the newest first, ended ones too; and where the rest begins."""
    found = (await connection.execute(_PAGE, {"offset": offset, "limit": limit + 1})).all()
    return tuple(_read(row) for row in found[:limit]), offset + limit if len(found) > limit else None


async def revoke(
    connection: Connection, grant_id: str, actor: Identity, *, may_all: bool, surface: Surface, now: datetime
) -> RevokedKind:
    """End a grant, if *actor* is among those who gave it or may end all; of several who want to, one does."""
    grant = await grant_of(connection, grant_id)
    if grant is None:
        return RevokedKind.MISSING
    await audit.lock(connection, grant.approval_id)
    plan = await plan_of(connection, grant.approval_id)
    person = actor.within(plan.tenant_key if plan else None)
    if not may_all and not await _gave(connection, grant, person):
        return RevokedKind.FORBIDDEN
    end = {"revoked_at": audit.stamp(now), "revoked_by": person.model_dump_json()}
    revoked = await connection.execute(_REVOKE, {"of": grant_id, **end})
    if revoked.rowcount == 0:
        return RevokedKind.ALREADY_REVOKED
    entry = AuditEntry(
        event=AuditEvent.REVOKE,
        at=now,
        once=f"revoke:{grant_id}",
        actor=person,
        surface=surface,
        payload_sha256=grant.payload_sha256,
        decision=grant.decision,
        grant_id=grant_id,
    )
    await audit.append(connection, grant.approval_id, [entry])
    return RevokedKind.REVOKED


async def _gave(connection: Connection, grant: Grant, person: Identity) -> bool:
    """Whether somebody's decision made a grant: of several who had to approve, the last one's name stands on it."""
    if grant.granted_by.is_same_person(person):
        return True
    return any(
        entry.event is AuditEvent.CONFIRM and entry.actor is not None and entry.actor.is_same_person(person)
        for entry in await audit.entries_of(connection, grant.approval_id)
        if entry.decision is not None and _MEANT.get(entry.decision) is grant.decision
    )


async def objection(connection: Connection, call: ToolCall, now: datetime) -> str | None:
    """Why a call may not begin on the grant it names. The grant cannot be revoked until the transaction ends."""
    row = (await connection.execute(_HELD, {"of": call.grant_id})).first()
    plan = await plan_of(connection, call.approval_id, call.payload_sha256)
    if row is None or plan is None:
        return reasons.GRANT_UNKNOWN(grant=call.grant_id)
    grant = _read(row)
    if why := _ended(grant, now):
        return why(grant=call.grant_id)
    wanted = Wanted(
        tool=plan.subject,
        payload_sha256=call.payload_sha256,
        conversation=plan.conversation if plan.chat_is_known else None,
        requester=call.requester,
        manifest_sha256=call.manifest_sha256,
        risk=plan.risk,
        approvers=plan.approvers,
    )
    if grant.decision is not DecisionKind.APPROVE or not _counts(grant, wanted):
        return reasons.GRANT_DOES_NOT_COUNT(grant=call.grant_id)
    return None


def _grant(plan: Plan, decision: DecisionKind, remembering: Remembering) -> Grant:
    whole_tool = (
        remembering.scope is Remember.TOOL and decision is DecisionKind.APPROVE and remembering.chat_id is not None
    )
    scope = Remember.TOOL if whole_tool else Remember.EXACT
    return Grant(
        grant_id=_grant_id(plan, scope, decision),
        scope=scope,
        tool=plan.subject,
        payload_sha256=None if whole_tool else plan.payload_sha256,
        chat_id=remembering.chat_id if whole_tool else None,
        requester=plan.requester,
        decision=decision,
        granted_by=remembering.actor.within(plan.tenant_key),
        reason=remembering.reason,
        approval_id=plan.approval_id,
        granted_at=remembering.now,
        expires_at=remembering.now + plan.remember_for,
        manifest_sha256=plan.manifest_sha256,
        risk=plan.risk,
        approvers=plan.approvers,
    )


def _grant_id(plan: Plan, scope: Remember, decision: DecisionKind) -> str:
    return "g_" + sha256(f"{plan.approval_id}/{scope}/{decision}/{plan.payload_sha256}")[:32]


def _ended(grant: Grant, now: datetime) -> Reason | None:
    if grant.revoked_at is not None:
        return reasons.GRANT_WAS_REVOKED
    return reasons.GRANT_EXPIRED if now >= grant.expires_at else None


def _counts(grant: Grant, wanted: Wanted) -> bool:
    """Whether a grant was given for this call: the whole hash, never a short one, or the conversation."""
    if grant.scope is Remember.EXACT:
        is_meant = grant.payload_sha256 == wanted.payload_sha256
    else:
        is_meant = grant.decision is DecisionKind.APPROVE and grant.chat_id == wanted.conversation is not None
    return (
        is_meant
        and grant.tool == wanted.tool
        and grant.requester.is_same_person(wanted.requester)
        and grant.manifest_sha256 == wanted.manifest_sha256
        and grant.risk is wanted.risk
        and (grant.decision is DecisionKind.REJECT or grant.approvers == wanted.approvers)
    )


def _read(row: Row) -> Grant:
    revoked_by = Identity.model_validate_json(row.revoked_by) if row.revoked_by else None
    revoked_at = datetime.fromisoformat(row.revoked_at) if row.revoked_at else None
    return Grant.model_validate_json(row.granted).model_copy(
        update={"revoked_at": revoked_at, "revoked_by": revoked_by}
    )
