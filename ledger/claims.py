"""Claims: the durable right to run once. Two constraints carry it, a consent's key and an active claim per key."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, select, update

from assent.content import Content, storable
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.execute import Closing, Report, ReportKind, ToolCall
from assent.contracts.permission import Permission
from assent.contracts.status import Status
from assent.contracts.values import Frozen
from assent.payload import sha256
from ledger import aliases, attempts, audit, grants, overrides, policies, requesters
from ledger.attempts import Holder, held
from ledger.clock import STAMP
from ledger.engine import Connection, inserted
from ledger.policies import Numbers
from ledger.results import claim_of, report, result_of, root_of
from ledger.revisions import plan_of
from ledger.schema import IS_ACTIVE, ClaimState, approvals, claims, late_results
from ledger.statements import Row, Statement, insert

_ENDS = {
    ClaimState.EXECUTED: Status.EXECUTED,
    ClaimState.FAILED: Status.FAILED,
    ClaimState.UNKNOWN: Status.FROZEN,
}
BEGUN_WITH = ("approved_by", "thread_id", "tool_call_id")
"""What a call is begun with that stands in no plan."""
_TOO_LATE = "it could not begin in time"
_NOT_ENDED = "an attempt began and its end was never recorded"
_EARLIER = "another attempt of the same call may have taken effect"
_NOT_CERTAIN = "it is not certain that the call did not run, and the tool is not retry_safe"
_NOTHING_TO_RETRY = "it is settled that the call did not run: there is nothing to try again"

_its_consent = claims.c.consent == bindparam("of")
_late = insert(late_results)
_newer = {name: _late.excluded[name] for name in ("state", "at", "content", "note", "authorize_url", "error")}
_CLAIM = Statement(insert(claims).on_conflict_do_nothing())
_WHILE_STARTED = Statement(update(claims).where(_its_consent, claims.c.state == ClaimState.STARTED))
_WHILE_UNKNOWN = Statement(update(claims).where(_its_consent, claims.c.state == ClaimState.UNKNOWN))
_WHILE_HELD = Statement(
    update(claims)
    .where(_its_consent, claims.c.state == ClaimState.STARTED)
    .where(claims.c.holder == bindparam("held_by"), claims.c.attempt == bindparam("in_attempt"))
    .returning(*claims.c)
)
_AFTER = Statement(
    update(claims)
    .where(_its_consent, claims.c.state == ClaimState.STARTED)
    .where(claims.c.attempt == bindparam("in_attempt"))
)
_active_of_key = select(claims).where(claims.c.idempotency_key == bindparam("key"), IS_ACTIVE)
_ACTIVE = Statement(_active_of_key)
_IN_THE_WAY = Statement(
    select(
        STAMP.label("now"),
        policies.NUMBER.label("policy"),
        overrides.LAST_OF_TOOL.label("override"),
        _active_of_key.exists().label("is_held"),
        requesters.FROZEN.exists().label("has_twin"),
    )
)
"""All that can keep a call from being begun, as it is at one moment."""
_KEEP_LATE = Statement(_late.on_conflict_do_update(index_elements=["holder"], set_=_newer))
_STATUS = Statement(select(approvals.c.status).where(approvals.c.approval_id == bindparam("of")))


class Right(StrEnum):
    """What an attempt that wants to begin is told."""

    RUN = "run"
    WAIT = "wait"
    """Another consent runs the same key just now."""
    YIELD = "yield"
    """A later attempt of the same consent runs just now: nothing is to be run, and nothing is to be said."""
    LOOK_AGAIN = "look again"
    """Another policy is in force than the one that was looked at: the rules are to be applied anew."""
    REPORT = "report"
    """Nothing is to be run: the report says what is known."""


class Beginning(Frozen):
    right: Right
    attempt: int = 1
    report: Report | None = None


class Ending(Frozen):
    """How a body ended, as the wrapper saw it."""

    state: ClaimState
    content: Content | None = None
    authorize_url: str | None = None
    error: str | None = None
    body_ended: bool = True
    """Whether the tool's own code has ended; one that ran out of time may still go on."""


async def begin(
    connection: Connection,
    call: ToolCall,
    holder: Holder,
    now: datetime,
    *,
    may_start: bool = True,
    policy: Numbers | None = None,
) -> Beginning:
    """Take the right to run, or learn why there is none. Asking again with the same token answers the same.

    now: since when the approval's row is held (`audit.hold`).
    may_start: whether it is still early enough to begin a call that no attempt has begun.
    policy: the numbers of the policy and of the tool's override that let it run, if they were looked at.
    """
    own = await claim_of(connection, call.consent)
    if own is not None:
        return await _begin_again(connection, own, call, holder, now, policy)
    met = await requesters.meet(connection, call)
    if isinstance(met, requesters.Refusal):
        return _not_begun(met.reason)
    call = met
    if may_start:
        seen = await _in_the_way(connection, call, policy)
        if hindrance := await _hindrance(connection, call, now, policy, seen):
            return hindrance
        if call.retries:
            await _step_aside(connection, call)
        elif seen.is_held:
            # A key that has become free since may have a twin that froze since: that one waits, and looks anew.
            return await _meet_another(connection, call, now, may_start)
        if not await aliases.take(connection, call.aliases, call.consent):
            return Beginning(right=Right.WAIT)  # of several that it is known as one ended just now, another did not
        sealed = _seal(call.permission, Status.FROZEN)  # so that it stays sealed if its end is never recorded
        if await _claimed(connection, call, ClaimState.STARTED, attempt=1, sealed=sealed, **held(holder, now)):
            await attempts.began(connection, call.consent, 1, holder)
            await audit.append(connection, call.approval_id, call.entries, is_held=True)
            return Beginning(right=Right.RUN)
    return await _meet_another(connection, call, now, may_start)


async def _hindrance(
    connection: Connection, call: ToolCall, now: datetime, policy: Numbers | None, seen: Row
) -> Beginning | None:
    """What keeps a call from being begun that nobody has begun yet, and that it is not too late for.

    Where another consent holds its key, that one decides what becomes of it.
    """
    if policy is not None and _numbers(seen) != policy:
        return Beginning(right=Right.LOOK_AGAIN)
    stops_for_twin = seen.has_twin and not seen.is_held and not call.retry_safe
    if stops_for_twin and (twin := await requesters.frozen_twin(connection, call)):
        return _not_begun(twin.reason)
    if call.retries is not None:
        return await _refused_retry(connection, call, call.retries)
    # An operator's word needs no grant.
    why = await grants.objection(connection, call, now) if call.grant_id is not None and not seen.is_held else None
    return _not_begun(why) if why is not None else None


async def _in_the_way(connection: Connection, call: ToolCall, policy: Numbers | None) -> Row:
    """What may keep a call from being begun. If a policy was looked at, none is put in force until this ends."""
    if policy is not None:
        await policies.hold_policies(connection, alone=False)
    its = {"key": call.idempotency_key, "payload_sha256": call.payload_sha256, "tool": call.tool}
    return (await connection.execute(_IN_THE_WAY, its)).one()


def _numbers(seen: Row) -> Numbers:
    """What is in force, by the database's clock."""
    return seen.policy, overrides.number(seen.override, datetime.fromisoformat(seen.now))


def _not_begun(reason: str) -> Beginning:
    return Beginning(right=Right.REPORT, report=Report(kind=ReportKind.NOT_BEGUN, reason=reason))


async def _refused_retry(connection: Connection, call: ToolCall, retried: str) -> Beginning | None:
    """What a call is told that an operator wants tried again, and that has been settled or tried since."""
    root = await root_of(connection, retried)
    if root is None or root.state in (ClaimState.FAILED, ClaimState.CLOSED):
        return _not_begun(_NOTHING_TO_RETRY)
    if root.state == ClaimState.UNKNOWN and not call.retry_safe:
        standing = await attempts.begun_of(connection, retried)
        return None if standing.nothing_happened else _not_begun(_NOT_CERTAIN)
    return None


async def _step_aside(connection: Connection, call: ToolCall) -> None:
    """The unknown claim makes room for the one that tries again; of itself it goes on saying that nobody knows."""
    assert call.retries is not None
    root = await root_of(connection, call.retries)
    if root is not None:
        aside = {"state": ClaimState.CLOSED, "answer": ReportKind.UNKNOWN, "answered_by": call.consent}
        await connection.execute(_WHILE_UNKNOWN, {"of": root.consent, **aside})


async def finish(
    connection: Connection, call: ToolCall, holder: Holder, attempt: int, ending: Ending, now: datetime
) -> Report:
    """Record how the body ended. An attempt that was given up on is kept beside the claim, never over it.

    now: since when the approval's row is held (`audit.hold`).
    """
    is_news = await attempts.said(connection, holder, ending.state, ending.body_ended, now)
    known = await _with_the_others(connection, call, ending)
    end = {
        "state": known.state,
        "ended_at": audit.stamp(now),
        "sealed": _seal(call.permission, Status.FROZEN if call.retries else _ENDS[known.state]),
        **_stored(known),
    }
    own = {"of": call.consent, "held_by": holder.token, "in_attempt": attempt}
    recorded = (await connection.execute(_WHILE_HELD, {**own, **end})).first()
    if recorded is not None:
        await audit.append(connection, call.approval_id, [execution_entry(recorded, now)], is_held=True)
        return await report(connection, recorded)
    claim = await claim_of(connection, call.consent)
    assert claim is not None, "a claim is never deleted"
    if is_news:
        await _keep_late(connection, claim, holder, ending, now)
    return await report(connection, claim)


async def _keep_late(connection: Connection, claim: Row, holder: Holder, ending: Ending, now: datetime) -> None:
    """Put what an attempt says after it was given up on beside the claim; what it knows in the end counts."""
    late = {
        "holder": holder.token,
        "consent": claim.consent,
        "state": ending.state,
        "at": audit.stamp(now),
        "worker": holder.worker,
        **_stored(ending),
    }
    await connection.execute(_KEEP_LATE, late)
    entry = AuditEntry(
        event=AuditEvent.LATE,
        at=now,
        once=f"late:{ending.state}:{holder.token}",
        payload_sha256=claim.payload_sha256,
        error=None if claim.sealed else ending.error,
        content_sha256=sha256(ending.content.data) if ending.content else None,
    )
    await audit.append(connection, claim.approval_id, [entry])


async def _with_the_others(connection: Connection, call: ToolCall, ending: Ending) -> Ending:
    """What an attempt's end says of the call: "it failed" only if no other attempt may have taken effect."""
    if ending.state is not ClaimState.FAILED:
        return ending
    standing = await attempts.begun_of(connection, call.consent)
    if standing.nothing_happened:
        return ending
    error = storable(f"{ending.error}; {_EARLIER}" if ending.error else _EARLIER)
    return ending.model_copy(update={"state": ClaimState.UNKNOWN, "error": error})


async def close(connection: Connection, closing: Closing) -> Report:
    """Say for good what became of a consent whose activity ended without a word."""
    await audit.lock(connection, closing.approval_id)
    await audit.append(connection, closing.approval_id, closing.entries, is_held=True)
    if await claim_of(connection, closing.consent) is None:
        closing = await requesters.meet_late(connection, closing)
        other = await _active(connection, closing.idempotency_key)
        if other is not None and other.payload_sha256 == closing.payload_sha256:
            if other.state == ClaimState.STARTED:
                return Report(kind=ReportKind.WAITING, reason=f"approval {other.approval_id} runs the same call")
            return await _take_answer(connection, closing, other, closing.now)
    if known := await shut(connection, closing):
        return known
    claim = await claim_of(connection, closing.consent)
    assert claim is not None, "it is shut"
    did_not_run = AuditEntry(
        event=AuditEvent.EXECUTE_FAILED,
        at=closing.now,
        once=f"execute_failed:{closing.consent}",
        payload_sha256=closing.payload_sha256,
        error=claim.error,
    )
    await audit.append(connection, closing.approval_id, [did_not_run], is_held=True)
    return Report(kind=ReportKind.FAILED, reason=claim.error)


async def shut(connection: Connection, closing: Closing) -> Report | None:
    """Make sure that a consent which nobody claimed never will be; else what is known of its claim."""
    ended = {"ended_at": audit.stamp(closing.now), "error": storable(closing.reason)}
    if await _claimed(connection, closing, ClaimState.CLOSED, attempt=0, **ended):
        return None
    await _give_up(connection, closing.consent, closing.approval_id, f"{_NOT_ENDED}; {closing.reason}", closing.now)
    claim = await claim_of(connection, closing.consent)
    assert claim is not None, "a claim is never deleted"
    known = await _known(connection, claim)
    return None if known.kind is ReportKind.NOT_BEGUN else known


async def _known(connection: Connection, own: Row) -> Report:
    """What a consent is told of its own claim. Who met an unknown call and ended with its result stays with that."""
    known = await report(connection, own)
    root = await root_of(connection, own.consent) if known.kind is ReportKind.UNKNOWN else None
    if root is None or root.consent == own.consent or root.state != ClaimState.EXECUTED:
        return known
    ended = await connection.execute(_STATUS, {"of": own.approval_id})
    if ended.scalar_one_or_none() != Status.REPLAYED:
        return known
    return (await report(connection, root, to=own)).model_copy(update={"kind": ReportKind.REPLAYED})


async def _begin_again(
    connection: Connection, own: Row, call: ToolCall, holder: Holder, now: datetime, policy: Numbers | None
) -> Beginning:
    """The consent was claimed before: by this very attempt, by one that ended, or by one that did not."""
    await audit.append(connection, call.approval_id, call.entries, is_held=True)
    if own.state == ClaimState.STARTED and own.holder == holder.token:
        return Beginning(right=Right.RUN, attempt=own.attempt)
    same = own.payload_sha256 == call.payload_sha256  # a reset approval may come back with what was edited since
    if own.state == ClaimState.STARTED and same and holder.is_older_than(own):
        return Beginning(right=Right.YIELD)
    if own.state == ClaimState.STARTED and same and call.retry_safe and own.attempt < call.attempts:
        if policy is not None and _numbers(await _in_the_way(connection, call, policy)) != policy:
            return Beginning(right=Right.LOOK_AGAIN)
        number = own.attempt + 1
        mine = {"of": call.consent, "in_attempt": own.attempt}
        again = await connection.execute(_AFTER, {**mine, "attempt": number, **held(holder, now)})
        if again.rowcount == 0:
            return Beginning(right=Right.WAIT)
        await attempts.began(connection, call.consent, number, holder)
        return Beginning(right=Right.RUN, attempt=number)
    if own.state == ClaimState.STARTED:
        await _give_up(connection, call.consent, call.approval_id, _NOT_ENDED, now)
        own = await claim_of(connection, call.consent) or own
    return Beginning(right=Right.REPORT, report=await _known(connection, own))


async def _meet_another(connection: Connection, call: ToolCall, now: datetime, may_start: bool) -> Beginning:
    """Another consent holds the key, or has just let go of it."""
    other = await _active(connection, call.idempotency_key)
    if other is None:
        return Beginning(right=Right.WAIT) if may_start else _not_begun(_TOO_LATE)
    return await _meet(connection, call, other, now)


async def _meet(connection: Connection, call: ToolCall, other: Row, now: datetime) -> Beginning:
    """Wait for the one that holds the key, take its result, or freeze with it."""
    if other.payload_sha256 != call.payload_sha256:
        return _not_begun(requesters.ANOTHER_PAYLOAD)
    if other.state == ClaimState.STARTED:
        return Beginning(right=Right.WAIT)
    await audit.append(connection, call.approval_id, call.entries, is_held=True)
    return Beginning(right=Right.REPORT, report=await _take_answer(connection, call, other, now))


async def _take_answer(connection: Connection, asking: ToolCall | Closing, other: Row, now: datetime) -> Report:
    """Use up a consent with what is known of another one's call: its result, or that nothing is known."""
    replayed = other.state == ClaimState.EXECUTED
    error = None if replayed else f"approval {other.approval_id} began the same call, and its outcome is not known"
    answer = ReportKind.REPLAYED if replayed else ReportKind.UNKNOWN
    sealed = _seal(await _permission(connection, asking), Status.REPLAYED if replayed else Status.FROZEN)
    ended = {"ended_at": audit.stamp(now), "answer": answer, "answered_by": other.consent, "error": error}
    if await _claimed(connection, asking, ClaimState.CLOSED, attempt=0, sealed=sealed, **ended):
        event = AuditEvent.REPLAY if replayed else AuditEvent.EXECUTE_UNKNOWN
        await audit.append(connection, asking.approval_id, [answer_entry(asking, event, error, now)], is_held=True)
    claim = await claim_of(connection, asking.consent)
    assert claim is not None, "it was inserted above"
    return await report(connection, claim)


async def _permission(connection: Connection, asking: ToolCall | Closing) -> Permission:
    if isinstance(asking, ToolCall):
        return asking.permission
    plan = await plan_of(connection, asking.approval_id, asking.payload_sha256)
    return plan.permission if plan else Permission()


def _seal(permission: Permission, status: Status) -> int:
    """Whether a result is kept back until a person has seen it."""
    return int(permission.result.covers(status))


async def _claimed(connection: Connection, asking: ToolCall | Closing, state: ClaimState, **known: Any) -> bool:
    """Write a consent's one claim; False where a constraint says that it, or its key, is taken."""
    claim = {
        "consent": asking.consent,
        "idempotency_key": asking.idempotency_key,
        "approval_id": asking.approval_id,
        "payload_sha256": asking.payload_sha256,
        "state": state,
        **(_asked_for(asking) if isinstance(asking, ToolCall) else {}),
        **known,
    }
    return await inserted(connection, _CLAIM, claim)


def _asked_for(call: ToolCall) -> dict[str, Any]:
    requester = call.requester.model_dump_json(exclude_none=True)
    begun_with = call.model_dump_json(include=set(BEGUN_WITH))
    return {"scope_key": call.scope_key or call.idempotency_key, "requester": requester, "begun_with": begun_with}


async def _active(connection: Connection, idempotency_key: str) -> Row | None:
    return (await connection.execute(_ACTIVE, {"key": idempotency_key})).first()


async def _give_up(connection: Connection, consent: str, approval_id: str, error: str, now: datetime) -> None:
    unknown = {"state": ClaimState.UNKNOWN, "ended_at": audit.stamp(now), "error": storable(error)}
    given_up = await connection.execute(_WHILE_STARTED, {"of": consent, **unknown})
    claim = await claim_of(connection, consent)
    if given_up.rowcount == 1 and claim is not None:
        await audit.append(connection, approval_id, [execution_entry(claim, now)], is_held=True)


def _stored(ending: Ending) -> dict[str, Any]:
    return {
        "content": ending.content.data if ending.content else None,
        "note": ending.content.note if ending.content else None,
        "authorize_url": ending.authorize_url,
        "error": ending.error,
    }


def answer_entry(asking: ToolCall | Closing, event: AuditEvent, error: str | None, now: datetime) -> AuditEntry:
    """The audit's note of a consent that was answered with what is known of another one's call."""
    once = f"{event}:{asking.consent}"
    return AuditEntry(event=event, at=now, once=once, payload_sha256=asking.payload_sha256, error=error)


def execution_entry(claim: Row, now: datetime) -> AuditEntry:
    """How a call ended, for the audit: many may read that, so of a sealed end it has the hash alone."""
    event = {
        ClaimState.EXECUTED: AuditEvent.EXECUTE,
        ClaimState.FAILED: AuditEvent.EXECUTE_FAILED,
        ClaimState.UNKNOWN: AuditEvent.EXECUTE_UNKNOWN,
    }[ClaimState(claim.state)]
    return AuditEntry(
        event=event,
        at=now,
        once=f"{event}:{claim.consent}",
        payload_sha256=claim.payload_sha256,
        error=None if claim.sealed else claim.error,
        content_sha256=sha256(result_of(claim)) if claim.sealed or claim.content is not None else None,
    )
