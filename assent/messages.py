"""What workflows and activities say to each other. Persisted in history, like the contracts."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from assent.contracts import (
    Decision,
    DecisionKind,
    Frozen,
    Id,
    Identity,
    Judged,
    Manifest,
    Outcome,
    Plan,
    Request,
    Risk,
    Ruling,
    RulingKind,
    Settlement,
    State,
    Surface,
    Text,
    Verdict,
)


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
    content_sha256: str | None = None


class AuditRecord(Frozen):
    """One line of an approval's audit, as it is chained."""

    seq: int
    entry: AuditEntry
    previous: str
    hash: str


class Preparation(Frozen):
    """Input of *prepare*."""

    request: Request
    now: datetime
    deadline: datetime


class Prepared(Frozen):
    """What *prepare* found: a plan, or why there is none."""

    plan: Plan | None = None
    refused: str | None = None
    """Why the request can never run: an unknown tool, invalid arguments."""
    busy_with: str | None = None
    """The open approval that holds the conversation."""
    conflict: bool = False
    """The id belongs to another request."""
    outcome: Outcome | None = None
    """How this very request ended, when Temporal no longer knows."""


class ReportKind(StrEnum):
    """What is known of an execution."""

    EXECUTED = "executed"
    REPLAYED = "replayed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_EXECUTED = "not_executed"
    """It has not taken effect, and no longer can."""
    NOT_BEGUN = "not_begun"
    """This attempt did not begin the call; it proves nothing about another."""


class Report(Frozen):
    """What an execution attempt, a probe or the closing of a claim found out."""

    kind: ReportKind
    content: Any = None
    authorize_url: str | None = None
    reason: str | None = None
    truncated: bool = False
    content_bytes: int | None = None
    content_sha256: str | None = None


_PLANNED = (
    "approval_id",
    "tool",
    "payload",
    "payload_sha256",
    "idempotency_key",
    "manifest_sha256",
    "requester",
    "retry_safe",
    "attempts",
    "timeout",
    "start_within",
)


class ToolCall(Frozen):
    """Input of *execute* and *probe*: one consented call."""

    approval_id: str
    consent: str
    tool: str
    payload: str
    payload_sha256: str
    idempotency_key: str
    manifest_sha256: str
    requester: Identity
    retry_safe: bool
    attempts: int
    timeout: timedelta
    start_within: timedelta
    tool_call_id: str | None = None
    thread_id: str | None = None
    entries: tuple[AuditEntry, ...] = ()
    """Audit entries that belong before the call."""
    retries: str | None = None
    """The consent whose unknown call an operator wants tried again."""

    @classmethod
    def of(cls, plan: Plan, *, consent: str | None = None, **more: Any) -> Self:
        """The call that a plan consents to."""
        shared = {name: getattr(plan, name) for name in _PLANNED}
        return cls(consent=consent or plan.approval_id, **shared, **more)


class Closing(Frozen):
    """Input of *close_claim*."""

    approval_id: str
    consent: str
    idempotency_key: str
    payload_sha256: str
    now: datetime
    reason: str
    entries: tuple[AuditEntry, ...] = ()
    """Audit entries that belong before the closing."""


class AuditBatch(Frozen):
    """Input of *write_audit*."""

    approval_id: str
    entries: tuple[AuditEntry, ...]


class Conclusion(Frozen):
    """Input of *settle*: how the approval ended, for the record."""

    outcome: Outcome
    entries: tuple[AuditEntry, ...]
    judged: tuple[Judged, ...]
    closed_at: datetime


class Settled(Frozen):
    """What *settle* did."""

    outcome: Outcome
    """The ending that stands."""
    cards_due: bool = False
    """Whether a card does not show it yet."""


class Delivery(Frozen):
    """Input of *deliver*: one card of a plan, for one of its addresses."""

    approval_id: str
    place: int = 0
    generation: int = 1


class Delivered(Frozen):
    """What became of a card: its message, or why it can never be delivered."""

    message_id: str | None = None
    refused: str | None = None


class Revision(Frozen):
    """Input of *show*: bring an approval's cards to how it stands."""

    approval_id: str
    decided: Judged | None = None
    """The decision that stands, while the ledger does not know it yet."""


class Announcement(Frozen):
    """Input of *announce*: the outcome, for whoever asked to be told."""

    url: str
    outcome: Outcome
    ended_at: datetime


class Withdrawal(Frozen):
    """The *cancel* signal."""

    reason: Text | None = None
    actor: Identity | None = None
    surface: Surface = Surface.TEMPORAL


class Supersession(Frozen):
    """The *supersede* signal."""

    by: Id


class VerdictQuestion(Frozen):
    """The *verdict* query: what became of that sending of that click?"""

    event_id: str
    delivery_id: str | None


class FrozenCall(Frozen):
    """Input of the frozen review: what may have happened, and how far finding out has come."""

    call: ToolCall
    """The consented call; its consent is that of the latest attempt to make it."""
    queue: str
    risk: Risk
    has_cards: bool
    has_probe: bool
    probe_for: timedelta
    heartbeat_timeout: timedelta
    decided_by: Identity | None
    error: str | None
    seen: Any = None
    """What the worker saw of the result, if it saw any."""
    frozen_at: datetime
    joined: tuple[str, ...] = ()
    """Other approvals that wait for the same answer."""
    remind_every: timedelta = timedelta(days=1)
    probes: int = 0
    reminders: int = 0
    retries: int = 0
    settlement: Settlement | None = None

    @classmethod
    def of(cls, plan: Plan, call: ToolCall, **known: Any) -> Self:
        """A plan's call of which nobody knows whether it took effect."""
        shared = ("queue", "risk", "has_probe", "probe_for", "heartbeat_timeout", "remind_every")
        return cls(call=call, has_cards=bool(plan.addresses), **{name: getattr(plan, name) for name in shared}, **known)


class Sight(Frozen):
    """What the ledger knows of one attempt to make a frozen call."""

    consent: str
    state: str
    attempt: int
    worker: str | None
    began_at: datetime | None
    ended_at: datetime | None
    error: str | None
    body_ended: bool
    """Whether the worker saw the tool's own code end; if not, it may still go on."""
    late: tuple[LateResult, ...] = ()


class LateResult(Frozen):
    """What an attempt found out after it had been given up on."""

    state: str
    at: datetime
    worker: str | None
    content: str | None
    """The beginning of what it returned, as JSON."""
    error: str | None


class Examination(Frozen):
    """Input of *examine*, *rule* and *show_review*: the review, with what was said of it, if anything was."""

    frozen: FrozenCall
    ruling: Ruling | None = None
    report: Report | None = None
    """What a probe, or the call when it was tried again, found out."""
    now: datetime


class Examined(Frozen):
    """What the ledger knows of a frozen call."""

    sights: tuple[Sight, ...] = ()
    """Every attempt to make it, in order."""
    is_known: bool = False
    """Whether it has been found out what became of it."""
    did_not_run: bool = False
    """Whether an attempt that was given up on ended and said that nothing happened."""


class RecallKind(StrEnum):
    RECORD = "record"
    VERDICT = "verdict"
    CONTENT = "content"
    TOOLS = "tools"
    AUDIT = "audit"
    SETTLEMENT = "settlement"


class Recall(Frozen):
    """A question to the ledger, asked through Temporal by a client that has no database."""

    kind: RecallKind
    approval_id: str = ""
    decision: Decision | None = None
    offset: int = 0
    """Where to go on: a character of the content, a tool, an entry of the audit."""


class Recalled(Frozen):
    """What the ledger remembers."""

    state: State | None = None
    outcome: Outcome | None = None
    verdict: Verdict | None = None
    settlement: Settlement | None = None
    chunk: str | None = None
    manifests: tuple[Manifest, ...] = ()
    entries: tuple[AuditRecord, ...] = ()
    next_offset: int | None = None
    """Where the rest begins, if there is more."""


class Shelf(Frozen):
    """The cards of an approval, by their message ids."""

    generation: int = 0
    sent_at: datetime | None = None
    """When the newest of them were there."""
    message_ids: tuple[str, ...] = ()
    refused: str | None = None
    """Why none of them can be delivered."""
    complete: bool = True
    """Whether none is on its way."""


class Carried(Frozen):
    """What an approval takes along when it continues as new."""

    plan: Plan
    opened_at: datetime
    cards: Shelf
    judged: tuple[Judged, ...]
    unwritten: tuple[AuditEntry, ...]
    early: tuple[Decision, ...] = ()
    """Clicks on messages that nobody knows yet."""
    malformed: int


class Asked(Frozen):
    """Input of the approval workflow."""

    request: Request
    carried: Carried | None = None
