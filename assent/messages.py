"""What workflows and activities say to each other. Persisted in history, like the contracts."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime

from assent.contracts import (
    Address,
    Approvers,
    Deciders,
    Decision,
    DecisionKind,
    Frozen,
    Grant,
    Id,
    Identity,
    Judged,
    Outcome,
    Permission,
    Plan,
    Progress,
    Remember,
    Request,
    Risk,
    Ruling,
    RulingKind,
    Settlement,
    Stage,
    Surface,
    Text,
    Verdict,
)
from assent.quotas import AgentLimits, Exceeded


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
    rule: str | None = None
    policy_sha256: str | None = None
    grant_id: str | None = None
    grant_sha256: str | None = None
    """What was remembered, where something was."""
    delegate_to: Identity | None = None
    proposed_payload_sha256: str | None = None
    """What was shown before it was edited to `payload_sha256`."""
    proposed_payload: str | None = None
    payload: str | None = None
    """What was edited, before and after: an audit of hashes alone could not say what ran."""
    settlement_sha256: str | None = None
    """What was settled of a frozen call, as the ledger keeps it beside the result."""


class AuditRecord(Frozen):
    """One line of an approval's audit, as it is chained."""

    seq: int
    entry: AuditEntry
    previous: str
    hash: str


class Unknowns(Frozen):
    """Input of *resolve*: what only Feishu can say, and the plan depends on."""

    requester: Identity | None = None
    """Whose other ids are asked for."""
    message_id: Id | None = None
    """The message whose chat is asked for."""


class Resolved(Frozen):
    """What *resolve* found out; or why it is not known."""

    requester: Identity | None = None
    """The requester, by every id that Feishu tells."""
    chat_id: str | None = None
    """The chat of the message."""
    refused: str | None = None
    """Why there is no answer, and never will be."""


class Preparation(Frozen):
    """Input of *prepare*."""

    request: Request
    now: datetime
    deadline: datetime
    resolved: Resolved | None = None
    """What Feishu said, if it was asked."""
    limits: AgentLimits = AgentLimits()


class Prepared(Frozen):
    """What *prepare* found: a plan, or why there is none."""

    plan: Plan | None = None
    refused: str | None = None
    """Why the request can never run: an unknown tool, invalid arguments."""
    busy_with: str | None = None
    """The open approval that holds the conversation."""
    conflict: bool = False
    """The id belongs to another request."""
    exceeded: Exceeded | None = None
    """The quota that it would have gone beyond; nothing was stored."""
    outcome: Outcome | None = None
    """How this very request ended, when Temporal no longer knows."""
    unknown: Unknowns | None = None
    """What Feishu must be asked first; then nothing is stored yet."""


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
    WAITING = "waiting"
    """Another consent makes the same call just now: what comes of that is the answer."""


class Report(Frozen):
    """What an execution attempt, a probe or the closing of a claim found out."""

    kind: ReportKind
    content: Any = None
    authorize_url: str | None = None
    reason: str | None = None
    truncated: bool = False
    content_bytes: int | None = None
    content_sha256: str | None = None
    sealed: bool = False
    """Whether its content, which is not here, waits for a person to release it, or was withheld."""
    idempotency_key: str | None = None
    """The key of the call that is not known, where this is one of them: it may be older than what is known of whom."""
    attempts: int | None = None
    """How many attempts a probe's "not executed" speaks for: of one that begins later it knows nothing."""


_PLANNED = (
    "approval_id",
    "tool",
    "payload",
    "payload_sha256",
    "idempotency_key",
    "scope_key",
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
    scope_key: str = ""
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
    permission: Permission = Permission()
    grant_id: str | None = None
    """The remembered decision that lets it run: it must still stand when the call begins."""
    approved_by: tuple[Identity, ...] = ()
    """Who let it run."""

    @classmethod
    def of(cls, plan: Plan, *, consent: str | None = None, **more: Any) -> Self:
        """The call that a plan consents to."""
        shared = {name: getattr(plan, name) for name in _PLANNED}
        grant_id = plan.grant.grant_id if plan.grant else None
        return cls(consent=consent or plan.approval_id, permission=plan.permission, grant_id=grant_id, **shared, **more)


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
    """Input of *record_ending*: how the approval ended, for the record."""

    outcome: Outcome
    entries: tuple[AuditEntry, ...]
    judged: tuple[Judged, ...]
    closed_at: datetime
    deciders: Deciders | None = None
    """Whose it was to decide: whoever comes later is judged by that."""


class Recorded(Frozen):
    """What *record_ending* did."""

    outcome: Outcome
    """The ending that stands."""
    cards_due: bool = False
    """Whether a card does not show it yet."""


class CardKind(StrEnum):
    """What a card asks."""

    CALL = "card"
    RESULT = "result"


class Delivery(Frozen):
    """Input of *deliver*: one card of an approval, for one address."""

    approval_id: str
    place: int = 0
    generation: int = 1
    kind: CardKind = CardKind.CALL
    address: Address | None = None
    """Where it goes; the plan's own address of that place, if nothing is said."""
    progress: Progress | None = None
    reminder: bool = False
    """Whether it is sent because nobody has decided yet."""
    deadline: datetime | None = None
    """Until when its result waits to be released."""


class Delivered(Frozen):
    """What became of a card: its message, or why it can never be delivered."""

    message_id: str | None = None
    refused: str | None = None
    shared: tuple[str, ...] = ()
    """The messages on which the approval is shown among others."""


class Revision(Frozen):
    """Input of *show*: bring an approval's cards to how it stands."""

    approval_id: str
    decided: Judged | None = None
    """The decision that stands, while the ledger does not know it yet."""
    progress: Progress | None = None
    """How far the approvers have come, while they have not decided."""
    reviewing: bool = False
    """Whether the call has ended and its result waits to be released."""


class Weighing(Frozen):
    """Input of *weigh*: what a decision, or the beginning of the call, needs to know of the world outside."""

    approval_id: str
    approvers: Approvers
    """The group whose members are meant."""
    actors: tuple[Identity, ...] = ()
    """Whose membership is asked for."""
    decision: Decision | None = None
    """The edit that is to be checked."""
    payload_sha256: str
    """The call as it stands before."""
    now: datetime


class Weighed(Frozen):
    """What *weigh* found."""

    outsiders: tuple[Identity, ...] = ()
    """Those of the actors who do not belong to the group."""
    plan: Plan | None = None
    """The plan as edited, which is stored and stands from here on, if the edit counts."""
    invalid: str | None = None
    """Why the edit cannot be."""


class Remembering(Frozen):
    """Input of *remember*: a decision that stands, to be remembered."""

    approval_id: str
    payload_sha256: str | None = None
    """What was decided about."""
    scope: Remember
    decision: DecisionKind
    actor: Identity
    reason: str | None = None
    chat_id: str | None = None
    now: datetime


class Remembered(Frozen):
    """What *remember* did."""

    grant: Grant | None = None
    """None where this cannot be remembered."""


class Release(Frozen):
    """Input of *release*: what was decided about a result."""

    approval_id: str
    consent: str
    content_sha256: str | None
    """The result that was shown."""
    released: bool
    reason: str | None = None
    entries: tuple[AuditEntry, ...] = ()


class ClosingHead(Frozen):
    """An approval's audit as it was sealed: kept elsewhere, it tells whether the audit was cut or rewritten since."""

    approval_id: Id
    entries: int
    head: str
    """The hash of the last of them, in which all before it are."""
    outcome_sha256: str | None = None
    """What stands for the outcome that was recorded."""


class Announcement(Frozen):
    """Input of *announce*: the outcome, for whoever asked to be told."""

    url: str
    outcome: Outcome
    ended_at: datetime
    asked_by: str | None = None
    """The agent that asked, whose secrets sign it."""
    audit: ClosingHead | None = None
    """How its audit was closed; known when it is posted."""


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
    """The consented call, as it was first made."""
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
    remind_every: timedelta = timedelta(days=1)
    probes: int = 0
    reminders: int = 0
    settlement: Settlement | None = None
    sensitive: tuple[str, ...] = ()
    proposed_payload: str | None = None
    """What was proposed before an edit, where some of it is nobody's to see."""

    @classmethod
    def of(cls, plan: Plan, call: ToolCall, **known: Any) -> Self:
        """A plan's call of which nobody knows whether it took effect."""
        if plan.edit is not None and plan.sensitive:
            known["proposed_payload"] = plan.edit.proposed_payload
        shared = ("queue", "risk", "has_probe", "probe_for", "heartbeat_timeout", "remind_every", "sensitive")
        known["error"] = known["error"][:2000] if known["error"] else None
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
    """What a probe found out."""
    now: datetime
    told: tuple[str, ...] = ()
    """Whose cards are to show what was settled, beside those of the call's own approval."""


class Retry(Frozen):
    """An operator's word that a frozen call is to be tried again, as it stands in the ledger."""

    consent: str
    """Under which it is made."""
    ruling: Ruling


class Examined(Frozen):
    """What the ledger knows of a frozen call."""

    sights: tuple[Sight, ...] = ()
    """Every attempt to make it, in order."""
    is_known: bool = False
    """Whether it has been found out what became of it."""
    did_not_run: bool = False
    """Whether every attempt ended and said that nothing happened."""
    waiting: int = 1
    """How many approvals get the answer."""
    joined: tuple[str, ...] = ()
    """Some of them, beside the call's own."""
    retries: int = 0
    """How often it was tried again."""
    retry: Retry | None = None
    """The retry that was promised and has not been made."""
    told: bool = False
    """Whether everybody has been told what was settled."""


class Telling(Frozen):
    """Input of *tell*: whose frozen call was settled, and how far telling those who waited has come."""

    approval_id: str
    after: str = ""


class Told(Frozen):
    """Some of those who waited, in order; none where nobody is left."""

    approval_ids: tuple[str, ...] = ()
    """Those of them who have cards."""
    after: str | None = None
    """Where the rest begins, if there may be one."""


class RecallKind(StrEnum):
    VERDICT = "verdict"
    """What a decision is told that came after the end."""
    REVOKE = "revoke"
    """End a remembered decision."""
    REVIEW = "review"
    """Which review a frozen call has, and whether it is settled."""


class LateDecision(Frozen):
    """A decision that came after the end: who decided what about which payload, without any of the words."""

    approval_id: Id
    kind: DecisionKind
    payload_sha256: Id | None = None
    actor: Identity
    event_id: Id
    delivery_id: Id | None = None
    stage: Stage = Stage.CALL
    message_id: Id | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"

    @classmethod
    def of(cls, decision: Decision) -> Self:
        return cls.model_validate({name: getattr(decision, name) for name in cls.model_fields})

    def decision(self) -> Decision:
        return Decision.model_validate(dict(self))


class Recall(Frozen):
    """A question to the ledger from a door that has no database. It lives in Temporal's history: ids and hashes only.

    What is read of the ledger is read from the ledger, never through here.
    """

    kind: RecallKind
    approval_id: str = ""
    decision: LateDecision | None = None
    grant_id: str = ""
    actor: Identity | None = None
    """Who revokes a grant."""
    surface: Surface = Surface.CLIENT


class RevokedKind(StrEnum):
    """What became of the wish to revoke a grant."""

    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"
    FORBIDDEN = "forbidden"
    MISSING = "missing"


class Policy(Frozen):
    """The operator's policy file, as it is in force."""

    n: int = 0
    """Its number: one that is put in force later has a higher one."""
    text: str
    sha256: str
    since: datetime


class FrozenStanding(Frozen):
    """Where an approval stands whose call may have happened."""

    idempotency_key: str
    """What its review is found by."""
    asked_by: tuple[str, ...] = ()
    """The agents that asked for it, or for another that gets the same answer."""


class ReviewRecord(Frozen):
    """What is on record of the review of an approval's call."""

    payload_sha256: str
    frozen: FrozenStanding | None = None
    """Where it stands, if its call may have happened, or might have until that was settled."""
    settlement: Settlement | None = None

    def without_words(self) -> Self:
        """As it may stand in Temporal's history: without the content and the operator's words."""
        if self.settlement is None:
            return self
        bare = self.settlement.model_copy(update={"content": None, "truncated": False, "reason": None})
        return self.model_copy(update={"settlement": bare})


class Recalled(Frozen):
    """What the ledger says to a door that has no database."""

    verdict: Verdict | None = None
    revoked: RevokedKind | None = None
    review: ReviewRecord | None = None


class Member(Frozen):
    """The *news* signal of an approval to its bundle: how it stands."""

    approval_id: Id
    ended: bool = False
    """Whether nobody is asked about it, or not any more."""
    decided: Judged | None = None
    """The decision that stands, while the ledger does not know it yet."""
    progress: Progress | None = None
    reviewing: bool = False


class BundleAsked(Frozen):
    """Input of the bundle workflow: calls that were asked for together."""

    bundle_id: Id
    approval_ids: tuple[Id, ...]
    members: tuple[Member, ...] = ()
    """How those of them stand that were heard of."""
    sent_at: datetime | None = None
    """Since when their card is there."""


class Sheet(Frozen):
    """Input of *deliver_bundle* and *show_bundle*: the calls of one card."""

    bundle_id: str
    members: tuple[Member, ...]


class Carded(Frozen):
    """The *carded* signal of a bundle to an approval: the cards on which it is shown among others."""

    message_ids: tuple[Id, ...] = ()
    """None: it is to send cards of its own."""
    approval_ids: tuple[Id, ...] = ()
    """All that share a card with it."""


class SharedCard(Frozen):
    """The messages on which one approval is shown among others."""

    approval_id: str
    message_ids: tuple[str, ...]


class BundleDelivered(Frozen):
    """What became of a bundle's card. Whoever is not named is not on it."""

    shared: tuple[SharedCard, ...] = ()


class BundleShown(Frozen):
    """What a bundle's card shows now."""

    open: tuple[str, ...] = ()
    """The approvals of which it cannot show the end yet."""
    frozen: tuple[str, ...] = ()
    """Those whose calls are frozen, until they are settled."""
