"""What the audit knows of."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal, Self

from assent.contracts.approvers import Awaited
from assent.contracts.decision import DecisionKind
from assent.contracts.identity import Identity
from assent.contracts.ruling import RulingKind
from assent.contracts.values import Frozen, Id, Surface


class AuditEvent(StrEnum):
    """What the audit knows of."""

    WRITE_REQUEST = "write_request"
    DELIVER = "deliver"
    CONFIRM = "confirm"
    CANCEL = "cancel"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"
    TAMPER = "tamper"
    FORBID = "forbid"
    EXECUTE = "execute"
    REPLAY = "replay"
    EXECUTE_FAILED = "execute_failed"
    EXECUTE_UNKNOWN = "execute_unknown"
    LATE = "late"
    """An attempt that was given up on ended after all."""
    RETRY = "retry"
    SETTLE = "settle"
    DENY = "deny"
    """The operator's policy does not let it run."""
    DELEGATE = "delegate"
    REMIND = "remind"
    ESCALATE = "escalate"
    GRANT = "grant"
    """A decision was remembered, or a remembered one stood in for a person."""
    REVOKE = "revoke"
    RELEASE = "release"
    WITHHOLD = "withhold"
    ASK = "ask"
    """A person was asked something that is no consent."""
    ANSWER = "answer"
    WRITE_INPUT = "write_input"
    """An answer was written to the standard input of a running program."""


_TROUBLES = frozenset(
    (
        AuditEvent.TAMPER,
        AuditEvent.FORBID,
        AuditEvent.EXECUTE_FAILED,
        AuditEvent.EXECUTE_UNKNOWN,
    )
)


class AuditEntry(Frozen):
    """One line of an approval's audit, before it is chained."""

    event: AuditEvent
    at: datetime
    once: str
    """What makes this entry one and the same however often its writing is tried."""
    actor: Identity | None = None
    surface: Surface | None = None
    proof: str | None = None
    payload_sha256: str | None = None
    event_id: str | None = None
    message_id: str | None = None
    decision: DecisionKind | None = None
    ruling: RulingKind | None = None
    reason: str | None = None
    error: str | None = None
    outcome: Literal["ok", "error"] | None = None
    """Whether it went as it was meant to; the ledger says it of every entry."""
    proposal_event_id: str | None = None
    """The event that the agent's proposal names,"""
    proposal_message_id: str | None = None
    """and its message: the ledger repeats them on every entry."""
    content_sha256: str | None = None
    rule: str | None = None
    policy_sha256: str | None = None
    override: int | None = None
    """The number of the override that held for the tool, if one did."""
    grant_id: str | None = None
    grant_sha256: str | None = None
    """What was remembered, where something was."""
    delegate_to: Identity | None = None
    proposed_payload_sha256: str | None = None
    """What was shown before it was edited to `payload_sha256`."""
    proposed_payload: str | None = None
    payload: str | None = None
    """What was edited, before and after: an audit of hashes alone could not say what ran."""
    persist_decision: bool | None = None
    """False where whoever decided wants to be asked again."""
    settlement_sha256: str | None = None
    """What was settled of a frozen call, as the ledger keeps it beside the result."""

    def of_proposal(self, first: AuditEntry) -> Self:
        """The entry as it is written: with the ids of its proposal, and whether it went well."""
        is_one = first.event in (AuditEvent.WRITE_REQUEST, AuditEvent.ASK)
        event_id, message_id = (first.event_id, first.message_id) if is_one else (None, None)
        outcome: Literal["ok", "error"] = "error" if self.event in _TROUBLES or self.error is not None else "ok"
        said = {"outcome": outcome, "proposal_event_id": event_id, "proposal_message_id": message_id}
        return self.model_copy(update=said)


class AuditRecord(Frozen):
    """One line of an approval's audit, as it is chained."""

    seq: int
    entry: AuditEntry
    previous: str
    hash: str


class AuditBatch(Frozen):
    """Input of *write_audit*."""

    approval_id: str
    entries: tuple[AuditEntry, ...]
    is_waiting: bool = False
    """Whether it is told whom the approval waits for:"""
    awaited: Awaited | None = None
    """for these people, or for nobody."""


class ClosingHead(Frozen):
    """An approval's audit as it was sealed: kept elsewhere, it tells whether the audit was cut or rewritten since."""

    approval_id: Id
    entries: int
    head: str
    """The hash of the last of them, in which all before it are."""
    outcome_sha256: str | None = None
    """What stands for the outcome that was recorded."""
