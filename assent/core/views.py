"""What an approval shows of itself: its state, the verdict on one decision, whom it waits for."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.approvers import Awaited
from assent.contracts.bundles import Member
from assent.contracts.decision import Decision, DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.plan import Plan
from assent.contracts.signals import VerdictQuestion
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.contracts.weigh import Weighing
from assent.core.approval import Planned, Unplanned
from assent.core.keeping import actor_of
from assent.core.panel import Panel


def state(approval: Unplanned | Planned) -> State:
    """The approval as it stands."""
    told = approval.told_ending
    if not isinstance(approval, Planned):
        request = approval.request
        return State(
            approval_id=request.approval_id,
            phase=Phase.CLOSED if approval.is_closed else Phase.PREPARING,
            tool=request.tool,
            requester=request.requester,
            request_reason=request.reason,
            asked_by=request.asked_by,
            status=told.status if told else None,
            reason=told.reason if told else None,
            decided_by=approval.decided_by,
            decisions=approval.notes.judged,
            tool_call_id=request.tool_call_id,
            thread_id=request.thread_id,
            malformed=approval.notes.malformed,
        )
    plan = approval.plan
    waiting = approval.result if approval.phase is Phase.REVIEWING else None
    return State(
        approval_id=plan.approval_id,
        phase=approval.phase,
        tool=plan.tool,
        requester=plan.requester,
        description=plan.description,
        definition=plan.definition,
        created_at=plan.asked_at,
        request_reason=plan.request_reason,
        asked_by=plan.asked_by,
        status=told.status if told else None,
        reason=told.reason if told else None,
        payload=plan.payload,
        payload_sha256=plan.payload_sha256,
        idempotency_key=plan.idempotency_key,
        sensitive=plan.sensitive,
        risk=plan.risk,
        approvers=plan.approvers,
        deadline=plan.deadline,
        decided_by=approval.decided_by,
        decisions=approval.notes.judged,
        progress=approval.progress,
        permission=plan.permission,
        rule=plan.rule,
        warnings=plan.warnings,
        presentation=plan.presentation,
        grant_id=plan.grant.grant_id if plan.grant else None,
        edit=plan.edit,
        result_sha256=waiting.content_sha256 if waiting else None,
        result_deadline=waiting.deadline if waiting else None,
        awaited=awaited(approval),
        asked_at=plan.asked_at,
        tool_call_id=plan.tool_call_id,
        thread_id=plan.thread_id,
        malformed=approval.notes.malformed,
    )


def verdict(approval: Unplanned | Planned, question: VerdictQuestion) -> Verdict:
    """What became of one sending of one decision."""
    judged = approval.notes.verdict_on(question.event_id)
    told = approval.told_ending
    if judged is None or (approval.ending is not None and told is None):
        return Verdict(kind=VerdictKind.RECEIVED)
    kind = judged.verdict if judged.delivery_id == question.delivery_id else VerdictKind.DUPLICATE
    if kind is VerdictKind.FORBIDDEN:
        return Verdict(kind=kind)
    status = told.status if told else None
    found = Verdict(kind=kind, status=status, decided_by=approval.decided_by, reason=judged.problem)
    if not isinstance(approval, Planned):
        return found
    plan, panel = approval.plan, approval.panel
    return found.model_copy(update={"approvals": panel.approved(plan), "needed": panel.group(plan).threshold})


def awaited(approval: Planned) -> Awaited | None:
    """Whom it waits for, while it does."""
    plan, panel = approval.plan, approval.panel
    result = approval.result
    if approval.phase is Phase.REVIEWING and result is not None and result.decision is None and not result.is_over:
        return Awaited(subject=Stage.RESULT, deciders=panel.releasers(plan))
    if approval.phase is not Phase.PENDING or approval.wait_is_over or approval.needs_nobody:
        return None
    return Awaited(
        subject=Stage.CALL,
        deciders=panel.deciders(plan),
        approved_by=approval.approved_by,
        rejected_by=panel.rejected_by,
    )


def awaited_at_first(plan: Plan) -> Awaited | None:
    """Whom it waits for when it can be decided first."""
    return None if plan.needs_nobody else Awaited(subject=Stage.CALL, deciders=Panel().deciders(plan))


def member(approval: Planned) -> Member:
    """How it stands, for the card that it shares with others."""
    plan = approval.plan
    is_asked = bool(plan.addresses) and not approval.needs_nobody
    if approval.phase is Phase.CLOSED or (approval.phase is Phase.PENDING and not is_asked):
        return Member(approval_id=plan.approval_id, ended=True)
    if approval.phase is Phase.REVIEWING:
        return Member(approval_id=plan.approval_id, decided=approval.accepted, reviewing=True)
    return Member(
        approval_id=plan.approval_id,
        decided=approval.accepted if approval.is_begun else None,
        progress=approval.progress,
    )


# What is to be asked outside


def question(approval: Planned, decision: Decision, now: datetime) -> Weighing:
    """What is to be asked about a decision that waits."""
    plan, panel = approval.plan, approval.panel
    actor = actor_of(plan, decision)
    deciders = panel.releasers(plan) if decision.stage is Stage.RESULT else panel.deciders(plan)
    chats = deciders.chats_to_ask(actor)
    return Weighing(
        approval_id=plan.approval_id,
        chats=chats,
        actors=(actor,) if chats else (),
        decision=decision if decision.kind is DecisionKind.EDIT else None,
        payload_sha256=plan.payload_sha256,
        now=now,
    )


def questions_before_call(approval: Planned, now: datetime) -> tuple[Weighing, ...]:
    """What is to be asked before the call begins: do those who approved as members of a chat still belong to it?"""
    plan = approval.plan
    return tuple(
        Weighing(
            approval_id=plan.approval_id, chats=(chat,), actors=actors, payload_sha256=plan.payload_sha256, now=now
        )
        for chat, actors in approval.panel.members(plan)
    )
