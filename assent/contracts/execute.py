"""One consented call: what goes into *execute*, *probe* and *close_claim*, and what comes out."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from assent.contracts.approvers import Deciders
from assent.contracts.audit import AuditEntry
from assent.contracts.identity import Identity
from assent.contracts.permission import Permission
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen
from assent.payload import sha256


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


class PlannedCall(Frozen):
    """Input of *execute* and *probe*: a consented call, named by its plan. The plan itself stands in the ledger."""

    approval_id: str
    consent: str
    tool: str
    payload_sha256: str
    terms_sha256: str
    """The hash of all that the plan fixes for the call: the ledger's plan must say the same."""
    idempotency_key: str
    """The plan's; or that of another call of the same person, which the consent met as unknown."""
    start_within: timedelta
    tool_call_id: str | None = None
    thread_id: str | None = None
    entries: tuple[AuditEntry, ...] = ()
    """Audit entries that belong before the call."""
    retries: str | None = None
    """The consent whose unknown call an operator wants tried again."""
    approved_by: tuple[Identity, ...] = ()
    """Who let it run."""
    deciders: Deciders | None = None
    """Who may decide it, where its tool asks: they answer."""


_TERMS = (
    "tool",
    "payload",
    "payload_sha256",
    "scope_key",
    "manifest_sha256",
    "requester",
    "retry_safe",
    "attempts",
    "timeout",
    "asks",
    "start_within",
    "permission",
)
"""What a plan fixes for its call."""
_SAID = ("consent", "idempotency_key", "tool_call_id", "thread_id", "entries", "retries", "approved_by", "deciders")
"""What stands in no plan, or may be other than there."""


class ToolCall(Frozen):
    """One consented call, with all that its plan fixes for it."""

    approval_id: str
    consent: str
    tool: str
    payload: str
    payload_sha256: str
    idempotency_key: str
    scope_key: str = ""
    aliases: tuple[str, ...] = ()
    """What else the call is known by: while it is active, no other call has any of them."""
    manifest_sha256: str
    requester: Identity
    retry_safe: bool
    attempts: int
    timeout: timedelta
    asks: timedelta = timedelta(0)
    """How long people may be waited for beside that, for the answers to the tool's questions."""
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
    deciders: Deciders | None = None
    """Who may decide it, where its tool asks: they answer."""

    @classmethod
    def of(cls, plan: Plan, *, consent: str | None = None, **more: Any) -> Self:
        """The call that a plan consents to."""
        terms = {name: getattr(plan, name) for name in ("approval_id", "idempotency_key", "aliases", *_TERMS)}
        grant_id = plan.grant.grant_id if plan.grant else None
        return cls(**{"consent": consent or plan.approval_id, "grant_id": grant_id, **terms, **more})

    @classmethod
    def planned(cls, plan: Plan, named: PlannedCall) -> Self:
        """The call that was named, as this plan has it; whether it is the plan that was meant, `by_its_plan` tells."""
        said: dict[str, Any] = {name: getattr(named, name) for name in _SAID}
        return cls.of(plan, **said, **({"grant_id": None} if named.retries else {}))

    @property
    def by_its_plan(self) -> PlannedCall:
        """The call as it is named to who makes it."""
        return PlannedCall(
            approval_id=self.approval_id,
            tool=self.tool,
            payload_sha256=self.payload_sha256,
            terms_sha256=sha256(self.model_dump_json(include={*_TERMS, *(("aliases",) if self.aliases else ())})),
            start_within=self.start_within,
            **{name: getattr(self, name) for name in _SAID},
        )


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
