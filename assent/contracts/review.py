"""Calls that may have happened: the input of their review, and what the ledger knows of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Self

from assent.contracts.execute import Report, ToolCall
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.contracts.ruling import Ruling, Settlement
from assent.contracts.values import Frozen


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
    order: tuple[str, ...] = ()
    """The arguments, as the tool declares them one after the other."""

    @classmethod
    def of(cls, plan: Plan, call: ToolCall, **known: Any) -> Self:
        """A plan's call of which nobody knows whether it took effect."""
        if plan.edit is not None and plan.sensitive:
            known["proposed_payload"] = plan.edit.proposed_payload
        known["order"] = plan.presentation.order
        shared = ("queue", "risk", "has_probe", "probe_for", "heartbeat_timeout", "remind_every", "sensitive")
        known["error"] = known["error"][:2000] if known["error"] else None
        return cls(call=call, has_cards=bool(plan.addresses), **{name: getattr(plan, name) for name in shared}, **known)


class SeenAttempt(Frozen):
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

    attempts: tuple[SeenAttempt, ...] = ()
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

    @property
    def may_go_on(self) -> bool:
        """Whether the tool's own code is not known to have ended, so that the call may still take effect."""
        return not self.attempts or not all(seen.body_ended for seen in self.attempts)

    def may_retry(self, frozen: FrozenCall) -> bool:
        """Whether the call may be tried again at all."""
        return frozen.call.retry_safe or self.did_not_run


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


class FrozenApproval(Frozen):
    """Where an approval stands whose call may have happened."""

    idempotency_key: str
    """What its review is found by."""
    asked_by: tuple[str, ...] = ()
    """The agents that asked for it, or for another that gets the same answer."""


class ReviewRecord(Frozen):
    """What is on record of the review of an approval's call."""

    payload_sha256: str
    frozen: FrozenApproval | None = None
    """Where it stands, if its call may have happened, or might have until that was settled."""
    settlement: Settlement | None = None

    def without_words(self) -> Self:
        """As it may stand in Temporal's history: without the content and the operator's words."""
        if self.settlement is None:
            return self
        bare = self.settlement.model_copy(update={"content": None, "truncated": False, "reason": None})
        return self.model_copy(update={"settlement": bare})
