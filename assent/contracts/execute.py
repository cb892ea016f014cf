"""One consented call: what goes into *execute*, *probe* and *close_claim*, and what comes out."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from assent.contracts.audit import AuditEntry
from assent.contracts.identity import Identity
from assent.contracts.permission import Permission
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen


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
