"""The record of each approval: its plan, its outcome, its decisions, and its place in a conversation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text, bindparam, select, true, tuple_, update

from assent.client.reader import Subject
from assent.content import storable
from assent.contracts.approvers import Deciders
from assent.contracts.audit import AuditBatch, AuditEntry, AuditEvent
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import Decision, Judged, Stage, Verdict, VerdictKind
from assent.contracts.execute import Closing, ReportKind, ToolCall
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.prepare import Prepared
from assent.contracts.quotas import NO_LIMITS, Limits
from assent.contracts.request import Request, WhenPending
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Frozen, Surface
from assent.core.executing import concluded
from assent.core.judging import after_ending, objection, refusal_entry
from assent.core.panel import Panel
from assent.core.views import awaited_at_first
from assent.payload import argument_values, sha256
from ledger import audit, awaited, claims, grants, persons, quotas, requesters, results, settlements
from ledger.clock import STAMP
from ledger.engine import Connection, inserted
from ledger.messages import MessageKind, are_behind, judged_of, messages_of
from ledger.open_approvals import IS_OPEN, LIVES_IN, OLDEST_FIRST
from ledger.results import claim_of, report
from ledger.revisions import approval_of, begin_anew, plan_of, standing_plan
from ledger.schema import ClaimState, approvals, conversations, decisions
from ledger.schema import claims as claims_table
from ledger.statements import Row, Statement, insert

_conversation = insert(conversations)
_ADD = Statement(insert(approvals).on_conflict_do_nothing())
_asked_now = select(bindparam("of", type_=Text).label("its")).subquery()
_known = persons.KNOWN.subquery()
_BEFORE = Statement(
    select(approvals, requesters.FROZEN.exists().label("has_twin"), _known)
    .select_from(_asked_now.outerjoin(approvals, approvals.c.approval_id == _asked_now.c.its))
    .outerjoin(_known, true())
)
"""What stands already, whether an identical call is frozen, and who the requester is: in each row one of their ids."""
_HELD = Statement(select(approvals).where(approvals.c.approval_id == bindparam("of")).with_for_update())
_claimed = select(claims_table.c.payload_sha256).where(claims_table.c.consent == bindparam("of")).scalar_subquery()
_CLOSE = Statement(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of"))
    .values(unsealed_since=STAMP)
    .returning(_claimed.label("claimed"))
)
"""The end of an approval; tells the hash of what it claimed. Nothing is read of the result, which may be large."""
_OUTCOME = Statement(select(approvals.c.outcome).where(approvals.c.approval_id == bindparam("of")))
_WAITING = Statement(
    select(approvals)
    .where(*IS_OPEN, LIVES_IN)
    .order_by(*OLDEST_FIRST)
    .offset(bindparam("offset"))
    .limit(bindparam("limit"))
)
_DECIDERS = Statement(select(approvals.c.deciders).where(approvals.c.approval_id == bindparam("of")))
_SUBJECT = Statement(select(approvals.c.tool, approvals.c.requester).where(approvals.c.approval_id == bindparam("of")))
_OPEN = Statement(
    select(approvals.c.approval_id, approvals.c.created_at, approvals.c.open_until)
    .where(approvals.c.status.is_(None), LIVES_IN)
    .where(
        tuple_(*OLDEST_FIRST)
        > tuple_(bindparam("after_created_at", type_=Text), bindparam("after_approval_id", type_=Text))
    )
    .order_by(*OLDEST_FIRST)
    .limit(bindparam("limit"))
)
_TAKE_CONVERSATION = Statement(
    _conversation.on_conflict_do_update(
        index_elements=["thread_id"], set_={"thread_id": _conversation.excluded.thread_id}
    )
)
_IN_CONVERSATION = Statement(
    select(approvals.c.plan)
    .where(approvals.c.thread_id == bindparam("thread_id"), *IS_OPEN)
    .where(approvals.c.approval_id != bindparam("but"))
    .where(approvals.c.asked_by.is_not_distinct_from(bindparam("asked_by", type_=Text)), LIVES_IN)
    .order_by(approvals.c.created_at)
)
_ADD_DECISION = Statement(insert(decisions).on_conflict_do_nothing())
_DECISION = Statement(
    select(decisions.c.judged).where(
        decisions.c.approval_id == bindparam("of"), decisions.c.event_id == bindparam("event_id")
    )
)


async def register(
    connection: Connection,
    request: Request,
    plan: Plan | None,
    refused: str | None,
    now: datetime,
    open_until: datetime,
    namespace: str | None = None,
    limits: Limits = NO_LIMITS,
) -> Prepared:
    """Store the plan if there is none yet, and return the one that stands."""
    request_sha256, refused = request.sha256, storable(refused)
    requester = plan.requester if plan else request.requester
    its = {"of": request.approval_id, "payload_sha256": plan.payload_sha256 if plan else None}
    before = (await connection.execute(_BEFORE, {**its, **persons.named_by(requester)})).all()
    if before[0].approval_id is not None:
        return await _stands(connection, before[0], request_sha256)
    place = await quotas.place_of(connection, request, plan, persons.known_as(requester, before))
    if exceeded := await quotas.exceeded(connection, place, limits, now):
        return Prepared(exceeded=exceeded)
    others = await _take_slot(connection, request, plan, now, namespace) if plan else ()
    if others and request.when_pending is WhenPending.FAIL:
        return Prepared(busy_with=others[0])
    if plan:
        plan = plan.model_copy(update={"supersedes": others})
    if plan and before[0].has_twin:
        plan = plan.model_copy(update=requesters.told_of_twin(await requesters.frozen_twin(connection, plan)))
    waits_for = awaited_at_first(plan) if plan else None
    row = {
        "approval_id": request.approval_id,
        "request_sha256": request_sha256,
        "tool": request.tool,
        "thread_id": request.thread_id,
        "requester": request.requester.model_dump_json(exclude_none=True),
        "plan": plan.model_dump_json() if plan else None,
        "refused": refused,
        "created_at": audit.stamp(now),
        "open_until": audit.stamp(open_until),
        **place.model_dump(),
        "temporal_namespace": namespace,
        "awaited": waits_for.model_dump_json() if waits_for else None,
        "grant_id": plan.grant.grant_id if plan and plan.grant else None,
    }
    if not await inserted(connection, _ADD, row):
        standing = await stored(connection, request.approval_id, request_sha256)
        assert standing is not None, "a record is never deleted"
        return standing
    await awaited.add(connection, request.approval_id, waits_for.deciders if waits_for else None)
    asked = AuditEntry(
        event=AuditEvent.WRITE_REQUEST,
        at=now,
        once="write_request",
        actor=request.requester,
        surface=request.surface,
        proof=f"token:{request.asked_by}" if request.asked_by else None,
        payload_sha256=plan.payload_sha256 if plan else None,
        event_id=request.event_id,
        message_id=request.message_id,
        reason=request.reason,
        error=refused,
        rule=plan.rule.name if plan and plan.rule else None,
        policy_sha256=plan.rule.policy_sha256 if plan and plan.rule else None,
    )
    await audit.append(connection, request.approval_id, [asked], is_held=True)
    return Prepared(plan=plan, refused=refused, is_new=True)


async def conclude(connection: Connection, conclusion: Conclusion, denied: str | None = None) -> Outcome:
    """Record how an approval ended, and return the ending that stands: the first one, whatever is said later.

    An ending without an execution closes the claim, so that it stays true; where there is a claim already, the claim
    knows better than the ending.
    """
    outcome = conclusion.outcome
    row = (await connection.execute(_HELD, {"of": outcome.approval_id})).first()
    if conclusion.judged:
        decided = [_said(outcome.approval_id, judged, place) for place, judged in enumerate(conclusion.judged)]
        await connection.execute(_ADD_DECISION, decided)
    if row is None or row.outcome is not None:
        await audit.append(connection, outcome.approval_id, conclusion.entries)
        return Outcome.model_validate_json(row.outcome) if row else outcome
    is_in_doubt = outcome.status is Status.APPROVED or outcome.status in _NOT_RUN
    plan = await _concluded_plan(connection, row, outcome) if is_in_doubt and row.plan is not None else None
    if outcome.status is Status.APPROVED and (why := denied or await _no_consent(connection, plan, conclusion)):
        conclusion = _refused(conclusion, why)
        outcome = conclusion.outcome
    if outcome.status in _NOT_RUN and plan is not None and not plan.is_consent_only:
        closing = Closing(
            approval_id=plan.approval_id,
            consent=plan.approval_id,
            idempotency_key=plan.idempotency_key,
            payload_sha256=plan.payload_sha256,
            now=conclusion.closed_at,
            reason=f"the approval ended {outcome.status}",
        )
        if known := await claims.shut(connection, closing):
            outcome = concluded(outcome, known)
    await audit.append(connection, outcome.approval_id, conclusion.entries, is_held=True)
    outcome = await _close(connection, outcome, conclusion)
    await awaited.remove(connection, outcome.approval_id)
    if outcome.status is Status.FROZEN:
        await settlements.note(connection, outcome.approval_id)
    return outcome


async def _close(connection: Connection, outcome: Outcome, conclusion: Conclusion) -> Outcome:
    """Write an ending; and once more, with the payload that ran, where the claim has another than the outcome."""
    end = {
        "status": outcome.status,
        "outcome": outcome.model_dump_json(),
        "closed_at": audit.stamp(conclusion.closed_at),
        "awaited": None,
        "deciders": conclusion.deciders.model_dump_json() if conclusion.deciders else None,
    }
    claimed = (await connection.execute(_CLOSE, {"of": outcome.approval_id, **end})).scalar_one()
    if claimed is None or outcome.payload_sha256 in (None, claimed):
        return outcome
    ran = await _as_claimed(connection, outcome, claimed)
    return outcome if ran == outcome else await _close(connection, ran, conclusion)


async def _concluded_plan(connection: Connection, row: Row, outcome: Outcome) -> Plan:
    found = await plan_of(connection, outcome.approval_id, outcome.payload_sha256)
    return found or Plan.model_validate_json(row.plan)


async def _no_consent(connection: Connection, plan: Plan | None, conclusion: Conclusion) -> str | None:
    """Why the agent may not make a call itself that is said to be approved; None if it may."""
    outcome = conclusion.outcome
    if plan is None or not plan.is_consent_only or not plan.hash_is_true:
        return "the ledger holds no plan for what was approved"
    if plan.payload_sha256 != outcome.payload_sha256 or argument_values(plan.payload)["arguments"] != outcome.content:
        return "what was approved is not what was asked for"
    needed = 0 if plan.asks_nobody else sum(stage.threshold for stage in plan.approvers.stages)
    if len(outcome.approved_by) < needed:
        return f"{len(outcome.approved_by)} of {needed} have approved it"
    if plan.grant is None or outcome.approved_by:
        return None
    return await grants.objection(connection, ToolCall.of(plan), conclusion.closed_at)


def _refused(conclusion: Conclusion, why: str) -> Conclusion:
    """The conclusion that consent does not stand."""
    outcome = conclusion.outcome.model_copy(update={"status": Status.FAILED, "content": None, "reason": why})
    entry = AuditEntry(
        event=AuditEvent.DENY,
        at=conclusion.closed_at,
        once="deny:consent",
        surface=Surface.POLICY,
        payload_sha256=outcome.payload_sha256,
        reason=why,
    )
    return conclusion.model_copy(update={"outcome": outcome, "entries": (*conclusion.entries, entry)})


async def note(connection: Connection, batch: AuditBatch) -> None:
    """Write into the audit of an approval what happened while it waits, and whom it waits for since."""
    await audit.append(connection, batch.approval_id, batch.entries)
    if batch.is_waiting:
        await awaited.change(connection, batch.approval_id, batch.awaited)


async def _as_claimed(connection: Connection, outcome: Outcome, claimed: str) -> Outcome:
    """The outcome with the payload that ran: an approval that was reset may end with another than it had claimed."""
    claim = await claim_of(connection, outcome.approval_id)
    assert claim is not None, "a claim is never deleted"
    plan = await plan_of(connection, outcome.approval_id, claimed)
    known = await report(connection, claim)
    if plan is None or known.kind is ReportKind.NOT_BEGUN:
        return outcome
    ran = {"payload_sha256": plan.payload_sha256, "idempotency_key": plan.idempotency_key, "edit": plan.edit}
    return outcome.model_copy(update=ran)


async def outcome_of(connection: Connection, approval_id: str) -> Outcome | None:
    text = (await connection.execute(_OUTCOME, {"of": approval_id})).scalar_one_or_none()
    return Outcome.model_validate_json(text) if text else None


async def waiting(
    connection: Connection, now: datetime, offset: int, limit: int, namespace: str | None = None
) -> tuple[tuple[Plan, ...], int | None]:
    """The plans of open approvals from *offset* on, the oldest first, and where the rest begins."""
    page = {"now": audit.stamp(now), "namespace": namespace, "offset": offset, "limit": limit + 1}
    rows = (await connection.execute(_WAITING, page)).all()
    plans = tuple([await standing_plan(connection, row) for row in rows[:limit]])
    return plans, offset + limit if len(rows) > limit else None


async def subject_of(connection: Connection, approval_id: str) -> Subject | None:
    """What an approval is about, in one statement, and no more where there is none."""
    row = (await connection.execute(_SUBJECT, {"of": approval_id})).first()
    return Subject(tool=row.tool, requester=Identity.model_validate_json(row.requester)) if row else None


class Open(Frozen):
    """An approval that has not ended, as far as the ledger knows."""

    approval_id: str
    created_at: str
    is_overdue: bool
    """Whether it should have ended by now, whatever became of it."""


async def open_ones(
    connection: Connection, namespace: str, now: datetime, after: Open | None, limit: int
) -> list[Open]:
    """Approvals of this namespace that have not ended, the oldest first, from one on."""
    since = {
        "after_created_at": after.created_at if after else "",
        "after_approval_id": after.approval_id if after else "",
    }
    rows = await connection.execute(_OPEN, {"namespace": namespace, "limit": limit, **since})
    overdue = audit.stamp(now)
    return [
        Open(approval_id=row.approval_id, created_at=row.created_at, is_overdue=row.open_until < overdue)
        for row in rows
    ]


async def end_gone(connection: Connection, approval_id: str, why: str, now: datetime) -> Outcome | None:
    """End an approval whose workflow is gone, as its claim says; None while its call may still run.

    A call that was begun and not ended is given up when its time is over, and its review is opened; then it is frozen.
    """
    await audit.lock(connection, approval_id)
    row = await approval_of(connection, approval_id)
    claim = await claim_of(connection, approval_id)
    if row is None or row.outcome is not None or (claim is not None and claim.state == ClaimState.STARTED):
        return None
    plan = await standing_plan(connection, row) if row.plan else None
    outcome = Outcome(
        approval_id=approval_id,
        status=Status.CANCELLED if plan else Status.FAILED,
        reason=why if plan else row.refused,
        payload_sha256=plan.payload_sha256 if plan else None,
        idempotency_key=plan.idempotency_key if plan else None,
        edit=plan.edit if plan else None,
        rule=plan.rule if plan else None,
    )
    ended = await conclude(connection, Conclusion(outcome=outcome, entries=(), judged=(), closed_at=now))
    if ended.status in (Status.CANCELLED, Status.FAILED):
        entry = AuditEntry(
            event=AuditEvent.CANCEL,
            at=now,
            once="cancel:gone",
            surface=Surface.TEMPORAL,
            payload_sha256=outcome.payload_sha256,
            reason=why,
        )
        await audit.append(connection, approval_id, [entry])
    return ended


async def state_of(connection: Connection, approval_id: str) -> State | None:
    """An approval as the ledger remembers it."""
    row = await approval_of(connection, approval_id)
    if row is None:
        return None
    plan = await standing_plan(connection, row) if row.plan else None
    outcome = Outcome.model_validate_json(row.outcome) if row.outcome else None
    return State(
        approval_id=approval_id,
        phase=Phase.CLOSED if outcome else Phase.PENDING if plan else Phase.PREPARING,
        tool=row.tool,
        requester=plan.requester if plan else Identity.model_validate_json(row.requester),
        status=outcome.status if outcome else None,
        reason=outcome.reason if outcome else None,
        decided_by=outcome.decided_by if outcome else None,
        decisions=tuple(await judged_of(connection, approval_id, _MOST_SHOWN)),
        grant_id=plan.grant.grant_id if plan and plan.grant else None,
        idempotency_key=(outcome.idempotency_key if outcome else None) or (plan.idempotency_key if plan else None),
        created_at=plan.asked_at if plan else None,
        **({name: getattr(plan, name) for name in _SHOWN} if plan else {}),
    )


_MOST_SHOWN = 150
"""How many decisions one answer carries."""
_NOT_RUN = frozenset({Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.SUPERSEDED})
_SHOWN_ON = {Stage.CALL: (MessageKind.CARD, MessageKind.BUNDLE), Stage.RESULT: (MessageKind.RESULT,)}
"""The messages that people decide on."""
_SHOWN = (
    *("request_reason", "asked_by", "payload", "payload_sha256", "description", "definition"),
    *("sensitive", "risk", "approvers", "deadline", "permission", "rule", "warnings", "edit"),
    *("asked_at", "tool_call_id", "thread_id"),
)


async def judge_late(connection: Connection, decision: Decision, now: datetime) -> Verdict:
    """The verdict on a decision that reached an approval after its end."""
    outcome = await outcome_of(connection, decision.approval_id)
    plan = await plan_of(connection, decision.approval_id)
    if outcome is None:
        return Verdict(kind=VerdictKind.MISSING)
    sent = await messages_of(connection, decision.approval_id)
    shown_on = _SHOWN_ON[decision.stage]
    cards = {
        message.message_id
        for message in sent
        if message.slot.kind in shown_on and message.slot.generation and message.message_id
    }
    result = await results.result(connection, decision.approval_id) if decision.stage is Stage.RESULT else None
    digest = sha256(result) if result is not None else None
    deciders = (await connection.execute(_DECIDERS, {"of": decision.approval_id})).scalar_one_or_none()
    refused = _objection(plan, deciders, decision, cards, digest) if plan else None
    kind = refused or after_ending(outcome.status)
    judged = Judged.of(decision, kind, decision.received_at or now)
    if not await inserted(connection, _ADD_DECISION, _said(decision.approval_id, judged)):
        first = await _judged(connection, decision.approval_id, decision.event_id)
        kind = first.verdict if first.delivery_id == decision.delivery_id else VerdictKind.DUPLICATE
    elif entry := refusal_entry(decision, kind, now):
        await audit.append(connection, decision.approval_id, [entry])
    if kind is VerdictKind.FORBIDDEN:
        return Verdict(kind=kind)
    return Verdict(kind=kind, status=outcome.status, decided_by=outcome.decided_by)


def _objection(
    plan: Plan, deciders: str | None, decision: Decision, cards: set[str], result_sha256: str | None
) -> VerdictKind | None:
    known = Deciders.model_validate_json(deciders) if deciders else Panel().releasers(plan)
    may_decide = known.include(decision.actor.within(plan.tenant_key))
    return objection(plan, decision, cards, may_decide=may_decide, result_sha256=result_sha256)


async def stored(connection: Connection, approval_id: str, request_sha256: str) -> Prepared | None:
    """What was prepared before, as it was then: edits since belong to a run that was reset."""
    row = await approval_of(connection, approval_id)
    return await _stands(connection, row, request_sha256) if row is not None else None


async def _stands(connection: Connection, row: Row, request_sha256: str) -> Prepared:
    approval_id: str = row.approval_id
    if row.request_sha256 != request_sha256:
        return Prepared(conflict=True)
    if row.revision and row.outcome is None:
        await begin_anew(connection, approval_id)
    if row.plan and row.outcome is None:
        await awaited.change(connection, approval_id, awaited_at_first(Plan.model_validate_json(row.plan)))
    return Prepared(
        plan=Plan.model_validate_json(row.plan) if row.plan else None,
        refused=row.refused,
        outcome=Outcome.model_validate_json(row.outcome) if row.outcome else None,
        cards_due=bool(row.outcome) and await are_behind(connection, approval_id),
    )


async def _take_slot(
    connection: Connection, request: Request, plan: Plan, now: datetime, namespace: str | None
) -> tuple[str, ...]:
    """The open approvals of the requester's conversation with one agent, which is locked: their number cannot grow.

    Whatever else is open under that name is none of their business.
    """
    if request.thread_id is None or request.when_pending is WhenPending.ALLOW:
        return ()
    await connection.execute(_TAKE_CONVERSATION, {"thread_id": request.thread_id})
    others = {
        "thread_id": request.thread_id,
        "but": request.approval_id,
        "now": audit.stamp(now),
        "asked_by": request.asked_by,
        "namespace": namespace,
    }
    open_ones = await connection.execute(_IN_CONVERSATION, others)
    found = [Plan.model_validate_json(text) for text in open_ones.scalars()]
    mine = await requesters.of_one_person(connection, plan.requester, found)
    together = request.bundle_id  # calls that were asked for together do not replace one another
    return tuple(each.approval_id for each in mine if together is None or each.bundle_id != together)


def _said(approval_id: str, judged: Judged, place: int = _MOST_SHOWN) -> dict[str, Any]:
    said = {"event_id": judged.event_id, "judged": judged.model_dump_json(), "place": place}
    return {"approval_id": approval_id, **said}


async def _judged(connection: Connection, approval_id: str, event_id: str) -> Judged:
    found = await connection.execute(_DECISION, {"of": approval_id, "event_id": event_id})
    return Judged.model_validate_json(found.scalar_one())
