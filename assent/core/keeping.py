"""What an approval keeps of what was said: the verdict on each decision, and what the audit is told."""

from __future__ import annotations

from datetime import datetime

from assent import sizes
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import Decision, Judged, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.core.approval import Approval, Planned, Unplanned
from assent.core.judging import audit_entry, refusal_entry
from assent.core.panel import Panel

_MOST_WORDS = 24 * 1024
"""How much a decision says beside an edit's payloads: a reason, and names."""


def set_aside(approval: Approval) -> Approval:
    """A message could not be read."""
    return approval.model_copy(update={"notes": approval.notes.set_aside()})


def note(approval: Approval, event: AuditEvent, now: datetime, *, once: str, **said: object) -> Approval:
    """Have the audit told of something that is no decision."""
    if isinstance(approval, Planned):
        rule = approval.plan.rule
        said = {"payload_sha256": approval.plan.payload_sha256, "override": approval.plan.override, **said}
        if rule is not None:
            said = {"rule": rule.name, "policy_sha256": rule.policy_sha256, **said}
    return add_entry(approval, AuditEntry.model_validate({"event": event, "at": now, "once": once, **said}))


def add_entry(approval: Approval, entry: AuditEntry) -> Approval:
    return approval.model_copy(update={"notes": approval.notes.note(entry)})


def confirm(approval: Planned, decision: Decision, now: datetime) -> Planned:
    return add_entry(approval, audit_entry(AuditEvent.CONFIRM, decision, now))


def confirm_edit(approval: Planned, decision: Decision, revised: Plan, now: datetime) -> Planned:
    said: dict[str, object] = {"payload_sha256": revised.payload_sha256, "payload": revised.payload}
    if revised.edit is not None:
        said["proposed_payload_sha256"] = revised.edit.proposed_payload_sha256
        said["proposed_payload"] = revised.edit.proposed_payload
    if revised.rule is not None:
        said |= {"rule": revised.rule.name, "policy_sha256": revised.rule.policy_sha256}
    return add_entry(approval, audit_entry(AuditEvent.CONFIRM, decision, now).model_copy(update=said))


def refuse(
    approval: Approval, decision: Decision, verdict: VerdictKind, now: datetime, problem: str | None = None
) -> Approval:
    approval = remember(approval, decision, verdict, now, problem)
    entry = refusal_entry(decision, verdict, now)
    return approval.model_copy(update={"notes": approval.notes.note_refusal(entry)}) if entry else approval


def remember(
    approval: Approval, decision: Decision, verdict: VerdictKind, now: datetime, problem: str | None = None
) -> Approval:
    judged = Judged.of(decision, verdict, received_at(approval, decision, now), problem)
    panel = approval.panel if isinstance(approval, Planned) else Panel()
    counted = {one.event_id for one in panel.counted}
    return approval.model_copy(update={"notes": approval.notes.remember(judged, counted)})


def received_at(approval: Unplanned | Planned, decision: Decision, now: datetime) -> datetime:
    """When a decision counts as made: never in the future, never before it could be."""
    received = min(decision.received_at or now, now)
    return max(received, approval.opened_at) if isinstance(approval, Planned) else received


def actor_of(plan: Plan, decision: Decision) -> Identity:
    return decision.actor.within(plan.tenant_key)


def size_of_edit(revised: Plan) -> int:
    """How much the audit says of an edit."""
    proposed = revised.edit.proposed_payload if revised.edit else ""
    return sizes.text_size(revised.payload, proposed) + _MOST_WORDS
