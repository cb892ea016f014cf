"""The rules by which a decision is judged, shared by the open approval and the ledger's record of it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import Decision, Stage, VerdictKind
from assent.contracts.plan import Plan
from assent.contracts.status import Status


def objection(
    plan: Plan, decision: Decision, cards: Collection[str], *, may_decide: bool, result_sha256: str | None = None
) -> VerdictKind | None:
    """Why a decision cannot count whatever the approval's state: it is about something else, or someone else's.

    cards: the messages on which this approval was shown.
    may_decide: whether the actor is one of those who may.
    result_sha256: the result that is, or was, to be released.
    """
    shown = plan.payload_sha256 if decision.stage is Stage.CALL else result_sha256
    about_this_approval = (
        decision.approval_id == plan.approval_id
        and (decision.message_id is None or decision.message_id in cards)
        and plan.hash_is_true
        and decision.payload_sha256 is not None
    )
    former = decision.stage is Stage.CALL and decision.payload_sha256 in plan.former_sha256
    if not about_this_approval or (decision.payload_sha256 != shown and not former):
        return VerdictKind.TAMPERED
    if decision.actor.is_outside(plan.tenant_key) or not may_decide:
        return VerdictKind.FORBIDDEN
    return VerdictKind.SUPERSEDED if former else None


def after_ending(status: Status) -> VerdictKind:
    """What a decision is told when the approval has ended."""
    match status:
        case Status.EXPIRED:
            return VerdictKind.EXPIRED
        case Status.SUPERSEDED:
            return VerdictKind.SUPERSEDED
        case _:
            return VerdictKind.ALREADY_DECIDED


def audit_entry(event: AuditEvent, decision: Decision, at: datetime) -> AuditEntry:
    """What the audit says of a decision."""
    return AuditEntry(
        event=event,
        at=at,
        once=f"{event}:{decision.event_id}",
        actor=decision.actor,
        surface=decision.surface,
        proof=decision.proof,
        payload_sha256=decision.payload_sha256,
        event_id=decision.event_id,
        message_id=decision.message_id,
        decision=decision.kind,
        reason=decision.reason,
        persist_decision=None if decision.persist_decision else False,
    )


def refusal_entry(decision: Decision, verdict: VerdictKind, at: datetime) -> AuditEntry | None:
    """The audit's note of a decision that was refused for what it is, not for when it came."""
    match verdict:
        case VerdictKind.TAMPERED:
            return audit_entry(AuditEvent.TAMPER, decision, at)
        case VerdictKind.FORBIDDEN:
            return audit_entry(AuditEvent.FORBID, decision, at)
        case _:
            return None
