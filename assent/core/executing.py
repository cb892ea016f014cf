"""The call is made, its result is released or withheld, and the end is put on record."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.audit import AuditBatch, AuditEntry, AuditEvent
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.grants import Remembering
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Execution, Fallback
from assent.contracts.release import UNDECIDED, Release
from assent.contracts.review import FrozenCall
from assent.contracts.signals import CallAsks
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.core.approval import Approval, Ending, Planned, SealedResult, Unplanned
from assent.core.deciding import look_again, refuse_late
from assent.core.judging import audit_entry
from assent.core.views import awaited
from assent.payload import argument_values

_STATUS_OF = {
    ReportKind.EXECUTED: Status.EXECUTED,
    ReportKind.REPLAYED: Status.REPLAYED,
    ReportKind.FAILED: Status.FAILED,
    ReportKind.UNKNOWN: Status.FROZEN,
}
_SEALED = {
    **dict.fromkeys(("content", "authorize_url", "reason", "content_sha256", "content_bytes")),
    "truncated": False,
    "withheld": True,
}
"""What an outcome says of a result that is withheld: a short one could be guessed by its hash."""


# Before the call


_MOST_QUESTIONS = 100
"""How many open questions of its tool an approval knows of."""


def to_remember(approval: Planned, now: datetime) -> Remembering | None:
    """What of the decision is kept, so that the same is not asked again."""
    plan, decision = approval.plan, approval.decision
    if decision is None or plan.permission.execution is not Execution.ASK_ONCE or not plan.remember_for:
        return None
    rejected = decision.kind is DecisionKind.REJECT
    if not approval.panel.may_be_remembered(rejected=rejected):
        return None
    return Remembering(
        approval_id=plan.approval_id,
        payload_sha256=plan.payload_sha256,
        scope=Remember.EXACT if rejected else approval.panel.remember,
        decision=DecisionKind.REJECT if rejected else DecisionKind.APPROVE,
        actor=decision.actor,
        reason=decision.reason,
        chat_id=decision.chat_id,
        now=now,
    )


def begin(approval: Planned) -> Planned:
    """The call is handed to a worker."""
    return approval.model_copy(update={"phase": Phase.EXECUTING, "is_begun": True})


def consent(approval: Planned) -> Planned:
    """The agent may make the call itself: that is how it ends, once the ledger has it."""
    return approval.model_copy(update={"ending": Ending(status=Status.APPROVED, by=approval.decided_by)})


def consented(approval: Planned) -> Outcome:
    """The outcome of a call that the agent makes itself: its arguments, as they were approved."""
    arguments = argument_values(approval.plan.payload)["arguments"]
    return outcome_of(approval, Status.APPROVED).model_copy(update={"content": arguments})


def call(approval: Planned, *, tool_call_id: str | None, thread_id: str | None) -> ToolCall:
    """The call that was consented to, with what the audit is to be told before it."""
    return ToolCall.of(
        approval.plan,
        tool_call_id=tool_call_id,
        thread_id=thread_id,
        entries=approval.notes.next_entries,
        approved_by=approval.approved_by,
        deciders=approval.panel.releasers(approval.plan) if approval.plan.asks else None,
    )


def hear_of_question(approval: Approval, asks: CallAsks, now: datetime) -> Approval:
    """Its running tool asks something, or no longer does."""
    if not isinstance(approval, Planned):
        return approval
    others: tuple[str, ...] = tuple(each for each in approval.questions if each != asks.question_id)
    known = (*others, asks.question_id)[-_MOST_QUESTIONS:] if asks.is_open else others
    return approval.model_copy(update={"questions": known})


# After it


def report(approval: Planned, found: Report, now: datetime) -> tuple[Planned, Outcome]:
    """It is known what became of the call, or that nobody knows; a sealed result waits to be released."""
    outcome = concluded(outcome_of(approval, Status.FROZEN), found)
    ending = Ending(status=outcome.status, reason=outcome.reason, by=approval.decided_by)
    approval = approval.model_copy(update={"ending": ending})
    if not found.sealed:
        return approval, outcome
    if found.kind is ReportKind.REPLAYED:
        return approval, withheld(outcome, "nobody has released it for this approval")
    result = SealedResult(
        outcome=outcome, content_sha256=found.content_sha256 or "", deadline=now + approval.plan.result_ttl
    )
    result = result.model_copy(
        update={"cards": result.cards.model_copy(update={"renewal": approval.renewal, "news": approval.news})}
    )
    return approval.model_copy(update={"phase": Phase.REVIEWING, "result": result, "is_indexed": False}), outcome


def frozen_call(approval: Planned, frozen: ToolCall, found: Report, now: datetime, *, probes: int) -> FrozenCall:
    """What its review begins with."""
    key = found.idempotency_key or approval.plan.idempotency_key
    return FrozenCall.of(
        approval.plan,
        frozen.model_copy(update={"entries": (), "idempotency_key": key}),
        decided_by=approval.decided_by,
        error=found.reason,
        seen=found.content,
        frozen_at=now,
        probes=probes,
    )


def release(approval: Planned, result: SealedResult, now: datetime) -> tuple[Planned, Release]:
    """What was decided about a result, or follows from nobody having decided; whoever comes now is too late."""
    plan, decision = approval.plan, result.decision
    if decision is not None:
        released = decision.kind is DecisionKind.APPROVE
    else:  # whoever waits to be judged has decided, and nobody can say whether it was theirs to decide
        released = plan.result_fallback is Fallback.RELEASE and approval.asking is None
    reason = decision.reason if decision else UNDECIDED
    event = AuditEvent.RELEASE if released else AuditEvent.WITHHOLD
    if decision is None:
        entry = AuditEntry(event=event, at=now, once=str(event), surface=Surface.POLICY, reason=reason)
    else:
        entry = audit_entry(event, decision, now)
    entry = entry.model_copy(update={"payload_sha256": None, "content_sha256": result.content_sha256})
    asked, approval = (
        approval.asking,
        approval.model_copy(update={"asking": None, "result": result.model_copy(update={"is_over": True})}),
    )
    if asked is not None:
        approval = refuse_late(approval, asked, now)
    approval = look_again(approval, now)
    question = Release(
        approval_id=plan.approval_id,
        consent=plan.approval_id,
        content_sha256=result.content_sha256,
        released=released,
        reason=reason,
        entries=(*approval.notes.next_entries, entry),
    )
    return approval, question


def released(result: SealedResult, asked: Release, found: Report) -> Outcome:
    """The outcome with the result, or without."""
    if found.sealed:
        return withheld(result.outcome, asked.reason)
    return concluded(result.outcome, found).model_copy(update={"status": result.outcome.status})


def withheld(outcome: Outcome, reason: str | None) -> Outcome:
    """The outcome without its result."""
    return outcome.model_copy(update={**_SEALED, "withheld_reason": reason})


def concluded(outcome: Outcome, found: Report) -> Outcome:
    """The outcome that a report of the execution makes; of an unknown call no content is told."""
    status = _STATUS_OF[found.kind]
    known = Report(kind=found.kind) if status is Status.FROZEN else found
    return outcome.model_copy(
        update={
            "status": status,
            "reason": found.reason,
            "content": known.content,
            "authorize_url": known.authorize_url,
            "truncated": known.truncated,
            "content_bytes": None if found.sealed else known.content_bytes,
            "content_sha256": None if found.sealed else known.content_sha256,
            "withheld": found.sealed,
            "idempotency_key": found.idempotency_key or outcome.idempotency_key,
        }
    )


# The end


def outcome_of(approval: Unplanned | Planned, status: Status) -> Outcome:
    """How it ended, as far as the approval knows."""
    reason = approval.ending.reason if approval.ending else None
    if not isinstance(approval, Planned):
        asked = approval.request.approval_id
        return Outcome(approval_id=asked, status=status, reason=reason, decided_by=approval.decided_by)
    plan = approval.plan
    return Outcome(
        approval_id=plan.approval_id,
        status=status,
        decided_by=approval.decided_by,
        reason=reason,
        payload_sha256=plan.payload_sha256,
        idempotency_key=plan.idempotency_key,
        approved_by=approval.approved_by,
        edit=plan.edit,
        rule=plan.rule,
        grant_id=plan.grant.grant_id if plan.grant else None,
    )


def conclude(approval: Unplanned | Planned, outcome: Outcome, now: datetime) -> Conclusion:
    """What the ledger is to keep of the end, as much as one message carries."""
    deciders = None
    if isinstance(approval, Planned) and (approval.panel.delegations or approval.panel.escalated):
        deciders = approval.panel.releasers(approval.plan)
    return Conclusion(
        outcome=outcome,
        entries=approval.notes.next_entries,
        judged=approval.notes.judged,
        closed_at=now,
        deciders=deciders,
    )


def batch(approval: Planned) -> AuditBatch:
    """What the ledger is to know of an approval that waits: what happened, and whom it waits for."""
    return AuditBatch(
        approval_id=approval.plan.approval_id,
        entries=approval.notes.next_entries,
        is_waiting=True,
        awaited=awaited(approval),
    )


def has_news(approval: Planned) -> bool:
    """Whether the ledger is to be told something."""
    return bool(approval.notes.unwritten) or not approval.is_indexed


def write_batch(approval: Planned, written: AuditBatch, now: datetime) -> Planned:
    """The ledger has that."""
    approval = write(approval, written.entries, now)
    return approval.model_copy(update={"is_indexed": awaited(approval) == written.awaited})


def write(approval: Approval, entries: tuple[AuditEntry, ...], now: datetime) -> Approval:
    """The ledger has these audit entries."""
    return approval.model_copy(update={"notes": approval.notes.written(entries, now)})


def close(approval: Approval, outcome: Outcome | None = None) -> Approval:
    """It is over; with the outcome that the ledger has, if it has one by now."""
    closed: dict[str, object] = {"phase": Phase.CLOSED} if isinstance(approval, Planned) else {"is_closed": True}
    if outcome is not None:
        by = approval.decided_by if isinstance(approval, Planned) else outcome.decided_by
        ending = Ending(status=outcome.status, reason=outcome.reason, by=by)
        closed |= {"ending": ending, "is_recorded": True}
    return approval.model_copy(update=closed)
