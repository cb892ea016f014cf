"""The door between the client and the approvals: what every way to them can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Protocol, Self

from pydantic import ValidationError

from assent.contracts import (
    Approvers,
    Decision,
    DecisionKind,
    Frozen,
    Grant,
    Identity,
    Manifest,
    Outcome,
    Request,
    Risk,
    Ruled,
    Ruling,
    Settlement,
    State,
    Surface,
    Verdict,
)
from assent.errors import InvalidRequest
from assent.messages import AuditRecord, RevokedKind, Withdrawal
from assent.payload import canonical_payload


class Approval(Frozen):
    """One line of a list of approvals."""

    approval_id: str
    tool: str | None
    status: str
    """The status it ended with, or the phase it is in."""
    requester: str | None
    thread_id: str | None
    risk: str | None
    requested_at: datetime
    closed_at: datetime | None


class FrozenReview(Frozen):
    """One line of a list of frozen calls."""

    approval_id: str
    review_id: str
    """The review's workflow in Temporal."""
    tool: str | None
    requester: str | None
    risk: str | None
    frozen_at: datetime


class ToolDescription(Frozen):
    """What an agent needs to know of a tool to ask for it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, closed at every level."""
    risk: Risk
    approvers: Approvers.Kind
    """Who may decide; which people exactly is not the agent's concern."""
    retry_safe: bool
    max_ttl: timedelta | None
    """The longest that the tool lets a request wait."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(
            name=manifest.name,
            description=manifest.description,
            parameters=manifest.parameters,
            risk=manifest.risk,
            approvers=manifest.approvers.kind,
            retry_safe=manifest.retry_safe,
            max_ttl=manifest.max_ttl,
        )


class Door(Protocol):
    """A way to the approvals. All raise what `assent.errors` lists, and nothing else."""

    async def request(self, request: Request, *, in_doubt: bool) -> bool:
        """Start an approval, or attach to it. Tells whether it is new.

        in_doubt: whether it may be refused once it is looked at, so that this is worth waiting for.
        """

    async def outcome(self, approval_id: str) -> Outcome:
        """Wait until the approval has ended, however long and through whatever restarts."""

    async def state(self, approval_id: str) -> State:
        """The approval as it stands."""

    async def submit(self, approval_id: str, decision: Decision, *, answer_within: timedelta) -> Verdict:
        """Hand a decision to an approval durably, and learn what became of it."""

    async def withdraw(self, approval_id: str, withdrawal: Withdrawal) -> None:
        """Withdraw a request that nobody has decided."""

    async def content(self, approval_id: str) -> str:
        """The whole result of an approval that has ended, as JSON."""

    def approvals(self, *, status: str | None, limit: int) -> AsyncIterator[Approval]:
        """The approvals that are still known, open ones first."""

    async def tools(self) -> list[ToolDescription]:
        """The tools that can be asked for."""

    async def audit(self, approval_id: str) -> list[AuditRecord]:
        """What the audit says of one approval."""

    def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        """The calls of which nobody knows whether they took effect."""

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        """Say what became of a frozen call."""

    async def settled(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was."""

    async def settlement(self, approval_id: str) -> Settlement:
        """Wait until a frozen call is settled."""

    def inbox(self, actor: Identity) -> AsyncIterator[State]:
        """What waits for this person's decision, calls and results, the oldest first."""

    async def result(self, approval_id: str, *, actor: Identity) -> str | None:
        """The result that waits to be released, as JSON, for whoever decides about it; None if none waits."""

    def grants(self) -> AsyncIterator[Grant]:
        """The decisions that were remembered, also those that no longer count."""

    async def revoke(self, grant_id: str, *, actor: Identity, surface: Surface) -> RevokedKind:
        """Let a remembered decision no longer count."""

    async def close(self) -> None:
        """Let go of connections."""


def check_decision(decision: Decision) -> None:
    """Refuse, before anything is sent, what could not be shown and hashed, or would not be looked at.

    An edit without arguments is sent: whoever judges it says that it is invalid, and it is on record.
    """
    if decision.arguments is not None:
        if decision.kind is not DecisionKind.EDIT:
            raise InvalidRequest(f"arguments: they belong to an edit; {decision.kind} would not look at them")
        canonical_payload("", decision.arguments)
    if decision.delegate_to is not None and decision.kind is not DecisionKind.DELEGATE:
        raise InvalidRequest(f"delegate_to: it belongs to delegate; {decision.kind} would not look at it")


def parse_request(**fields: Any) -> Request:
    """Refuse, before anything starts, what could not be shown, hashed or carried."""
    if not isinstance(fields["requester"], Identity):
        raise InvalidRequest("requester: say on whose behalf the agent asks, as an Identity")
    if not isinstance(fields["arguments"], dict):
        raise InvalidRequest("arguments: they must be a JSON object")
    canonical_payload(str(fields["tool"]), fields["arguments"])
    try:
        request = Request.model_validate(fields)
        request.sha256  # noqa: B018 - refuses what cannot be hashed
        return request
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValueError) -> InvalidRequest:
    """What a model objects to, as one sentence with the paths."""
    if isinstance(error, ValidationError):
        return InvalidRequest("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))
    return InvalidRequest(str(error))
