"""Reviews: what is known of a frozen call, and what was settled of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.content import Content, storable
from assent.contracts import Frozen, Plan, Ruled, RuledKind, RulingKind, Settlement, Surface
from assent.messages import AuditEntry, AuditEvent, Examination, LateResult, Report, ReportKind, Sight, ToolCall
from assent.payload import sha256
from ledger import attempts, audit
from ledger.claims import answer_entry, execution_entry
from ledger.engine import insert
from ledger.results import claim_of, content_of, is_readable, path_of, report, root_of
from ledger.revisions import with_hash
from ledger.schema import ClaimState, approvals, claims, late_results, settlements

_PREVIEW = 2000
"""How much of a late result a review shows."""
_KINDS = {ClaimState.EXECUTED: RulingKind.EXECUTED, ClaimState.FAILED: RulingKind.NOT_EXECUTED}


class Orphan(Frozen):
    """A claim that was begun long ago, and of whose end nobody knows."""

    consent: str
    plan: Plan
    began_at: datetime
    is_given_up: bool
    """Whether it is on record that nobody knows; if not, the claim still says that it runs."""


async def sights(connection: AsyncConnection, approval_id: str) -> tuple[Sight, ...]:
    """What the ledger knows of every attempt to make an approval's call, in order."""
    rows = await connection.execute(
        select(claims).where(claims.c.approval_id == approval_id).order_by(claims.c.began_at)
    )
    return tuple([await _sight(connection, row) for row in rows.all()])


async def root_sight(connection: AsyncConnection, consent: str) -> Sight | None:
    """The claim that a frozen call waits for."""
    root = await root_of(connection, consent)
    return await _sight(connection, root) if root is not None else None


async def chain_sights(connection: AsyncConnection, consent: str) -> tuple[Sight, ...]:
    """What the ledger knows of every consent under which a frozen call was begun, whosever it was; the last decides."""
    return tuple([await _sight(connection, claim) for claim in await attempts.chain_of(connection, consent)])


async def rule(connection: AsyncConnection, examination: Examination) -> Ruled:
    """Settle a frozen call by compare-and-set: of two who say something of it, the first is heard."""
    call, joined = examination.frozen.call, examination.frozen.joined
    root = await _root(connection, call)
    waiting = dict.fromkeys((call.approval_id, root.approval_id, *joined))
    await audit.lock(connection, *waiting)
    if standing := await settlement_of(connection, call.approval_id):
        return Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=standing)
    root = await _root(connection, call)
    is_heard = await _move(connection, root, examination)
    claim = await claim_of(connection, root.consent)
    assert claim is not None, "a claim is never deleted"
    kind = _KINDS.get(ClaimState(claim.state))
    if kind is None:
        return Ruled(kind=RuledKind.RETRYING)  # it is tried again just now, or has been since this was found out
    if not is_heard:  # somebody else has found it out: it is not recorded as this one's word
        examination = examination.model_copy(update={"ruling": None, "report": None})
    settlement = _settlement(examination, kind, claim)
    if await _all_may_read(connection, tuple(waiting), claim):
        settlement = _with_content(settlement, claim)
    for approval_id in waiting:  # also the one whose claim it is, which may not have come to wait for the answer
        row = insert(connection, settlements).values(
            approval_id=approval_id,
            settlement=settlement.model_dump_json(),
            settled_at=audit.stamp(examination.now),
        )
        await connection.execute(row.on_conflict_do_nothing())
        await audit.append(connection, approval_id, [_entry(settlement, claim, examination)])
    return Ruled(kind=RuledKind.SETTLED if is_heard else RuledKind.ALREADY_SETTLED, settlement=settlement)


async def _root(connection: AsyncConnection, call: ToolCall) -> Row[Any]:
    """The claim that says what became of a call; a retry that was never begun says nothing."""
    root = await root_of(connection, call.consent)
    if root is not None and root.state == ClaimState.CLOSED and call.retries is not None:
        root = await root_of(connection, call.retries)
    assert root is not None, "a frozen call has a claim"
    return root


async def resolve(connection: AsyncConnection, call: ToolCall, content: Content, now: datetime) -> Report:
    """A probe found that an unknown call did run: the claim moves from unknown to executed.

    An approval that only met this call does not say that it executed it: it replays what another one executed.
    """
    own, claim = await claim_of(connection, call.consent), await root_of(connection, call.consent)
    if claim is None:
        return Report(kind=ReportKind.UNKNOWN)
    await audit.lock(connection, claim.approval_id, call.approval_id)
    found = await connection.execute(
        update(claims)
        .where(claims.c.consent == claim.consent, claims.c.state == ClaimState.UNKNOWN)
        .values(state=ClaimState.EXECUTED, ended_at=audit.stamp(now), content=content.data, note=content.note)
    )
    claim = await claim_of(connection, claim.consent)
    assert claim is not None, "a claim is never deleted"
    if found.rowcount == 1:
        await audit.append(connection, claim.approval_id, [execution_entry(claim, now)])
    found_out = await report(connection, claim, to=own if own is not None and own.consent != claim.consent else None)
    if found_out.kind is not ReportKind.EXECUTED or claim.approval_id == call.approval_id:
        return found_out
    await audit.append(connection, call.approval_id, [answer_entry(call, AuditEvent.REPLAY, None, now)])
    return found_out.model_copy(update={"kind": ReportKind.REPLAYED})


async def settlement_of(connection: AsyncConnection, approval_id: str) -> Settlement | None:
    found = select(settlements.c.settlement).where(settlements.c.approval_id == approval_id)
    text = (await connection.execute(found)).scalar_one_or_none()
    if text is None:
        return None
    settlement, claim = Settlement.model_validate_json(text), await claim_of(connection, approval_id)
    if settlement.kind is not RulingKind.EXECUTED or settlement.content is not None or claim is None:
        return settlement
    path = await path_of(connection, claim)  # its content was left out; it may have been released since
    return _with_content(settlement, path[-1]) if is_readable(path) else settlement


async def orphans(connection: AsyncConnection, now: datetime) -> list[Orphan]:
    """Claims that should have ended by now, whatever became of them."""
    edited = with_hash(claims.c.approval_id, claims.c.payload_sha256).correlate(claims).scalar_subquery()
    rows = await connection.execute(
        select(
            claims.c.consent, claims.c.began_at, claims.c.state, func.coalesce(edited, approvals.c.plan).label("plan")
        )
        .join(approvals, approvals.c.approval_id == claims.c.approval_id)
        .outerjoin(settlements, settlements.c.approval_id == claims.c.approval_id)
        .where(claims.c.state.in_((ClaimState.STARTED, ClaimState.UNKNOWN)), settlements.c.approval_id.is_(None))
        .order_by(claims.c.began_at)
    )
    found = (
        Orphan(
            consent=row.consent,
            plan=Plan.model_validate_json(row.plan),
            began_at=datetime.fromisoformat(row.began_at),
            is_given_up=row.state == ClaimState.UNKNOWN,
        )
        for row in rows
    )
    return [orphan for orphan in found if orphan.began_at + orphan.plan.timeout + orphan.plan.heartbeat_timeout < now]


async def _move(connection: AsyncConnection, root: Row[Any], examination: Examination) -> bool:
    """Let the claim say what was found out, if it says "unknown"; tells whether it is this that it says now."""
    ruling, report = examination.ruling, examination.report
    unknown = update(claims).where(claims.c.consent == root.consent, claims.c.state == ClaimState.UNKNOWN)
    if ruling is not None and ruling.kind is RulingKind.RETRY:
        return bool(root.consent == examination.frozen.call.consent)  # what came of trying again is on record
    if ruling is not None and ruling.kind is RulingKind.EXECUTED:
        content = Content.of(ruling.content)
        found = unknown.values(state=ClaimState.EXECUTED, content=content.data, note=content.note, error=None)
    elif ruling is not None:
        found = unknown.values(state=ClaimState.FAILED, error=storable(ruling.reason))
    elif report is not None and report.kind is ReportKind.NOT_EXECUTED:
        if (await attempts.standing_of(connection, root.consent)).attempts != report.attempts:
            return False
        found = unknown.values(state=ClaimState.FAILED, error=storable(report.reason))
    else:
        return True  # the ledger knew it before
    return (await connection.execute(found)).rowcount == 1


async def _all_may_read(connection: AsyncConnection, approval_ids: tuple[str, ...], root: Row[Any]) -> bool:
    """Whether the result is sealed for none of those who wait for it."""
    for approval_id in approval_ids:
        claim = await claim_of(connection, approval_id)
        if not is_readable(await path_of(connection, claim if claim is not None else root)):
            return False
    return True


def _with_content(settlement: Settlement, claim: Row[Any]) -> Settlement:
    if claim.content is None:
        return settlement
    shown = content_of(claim).report(ReportKind.EXECUTED)
    return settlement.model_copy(update={"content": shown.content, "truncated": shown.truncated})


def _settlement(examination: Examination, kind: RulingKind, claim: Row[Any]) -> Settlement:
    frozen, ruling, report = examination.frozen, examination.ruling, examination.report
    return Settlement(
        approval_id=frozen.call.approval_id,
        kind=kind,
        settled_by=ruling.operator if ruling else None,
        surface=ruling.surface if ruling else Surface.PROBE,
        reason=ruling.reason if ruling else report.reason if report else None,
        settled_at=examination.now,
        retried=claim.consent != claim.approval_id,
        also=tuple(other for other in frozen.joined if other != frozen.call.approval_id),
    )


def _entry(settlement: Settlement, claim: Row[Any], examination: Examination) -> AuditEntry:
    ruling = examination.ruling
    return AuditEntry(
        event=AuditEvent.SETTLE,
        at=examination.now,
        once="settle",
        actor=settlement.settled_by,
        surface=settlement.surface,
        proof=ruling.proof if ruling else None,
        payload_sha256=claim.payload_sha256,
        event_id=ruling.ruling_id if ruling else None,
        ruling=settlement.kind,
        reason=settlement.reason,
        content_sha256=sha256(claim.content) if claim.content is not None else None,
    )


async def _sight(connection: AsyncConnection, claim: Row[Any]) -> Sight:
    late = await connection.execute(select(late_results).where(late_results.c.consent == claim.consent))
    begun = await attempts.of_claim(connection, claim.consent)
    return Sight(
        consent=claim.consent,
        state=claim.state,
        attempt=claim.attempt,
        worker=claim.worker,
        began_at=claim.began_at,
        ended_at=claim.ended_at,
        error=claim.error,
        body_ended=all(attempt.body_ended for attempt in begun),
        late=tuple(
            LateResult(
                state=row.state,
                at=row.at,
                worker=row.worker,
                content=bytes(row.content[:_PREVIEW]).decode("ascii") if row.content is not None else None,
                error=row.error,
            )
            for row in late
        ),
    )
