"""The face of an approval engine: what a program is written against that brings its own tools and its own cards.

`workers.engine.TemporalApprovalEngine` is ours; whatever else has these three methods can stand in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from assent.contracts.identity import Identity
from assent.contracts.values import ApprovalId, Frozen, Id
from assent.payload import canonical_payload, sha256

__all__ = [
    "ApprovalEngine",
    "AuditMirror",
    "EngineOutcome",
    "EngineStatus",
    "ExecutionMirror",
    "NotStarted",
    "PendingApproval",
    "payload_sha256",
]


class EngineStatus(StrEnum):
    """What became of a decision. Each is equal to its plain string."""

    EXECUTED = "executed"
    REPLAYED = "replayed"
    REJECTED = "rejected"
    TAMPERED = "tampered"
    ALREADY_DECIDED = "already_decided"
    SUPERSEDED = "superseded"
    FROZEN = "frozen"
    EXPIRED = "expired"
    MISSING = "missing"
    FAILED = "failed"
    CANCELLED = "cancelled"
    FORBIDDEN = "forbidden"
    """The decider may not decide this: the operator's policy asks others."""


class NotStarted(Exception):
    """Raised by a `dispatch` that is certain that nothing happened: the call counts as failed, not as unknown."""


class PendingApproval(Frozen):
    """A call that a person is to decide."""

    approval_id: ApprovalId
    tool_name: Id
    arguments: dict[str, Any]
    payload_sha256: Id | None = None
    """The hash of what is shown, as `payload_sha256` computes it; any other is refused."""
    idempotency_key: Id | None = None
    """One such key stands for one call of one person, which runs once; another under it is refused."""
    created_message_id: Id | None = None
    """The message that brought it: with the same arguments it brings one call, whatever its key."""
    created_event_id: Id | None = None
    """The event that brought it, in the same way."""
    requester: Identity
    """On whose behalf it is asked."""


class EngineOutcome(Frozen):
    """What became of a decision, and what the agent gets."""

    approval_id: str
    status: EngineStatus
    content: Any = None
    """The tool's result where it is executed or replayed, the same in both; else its own words, or a sentence."""
    is_error: bool = False
    authorize_url: str | None = None
    reason: str | None = None


Dispatch = Callable[..., Any]
"""Makes the call: `dispatch(tool_name, arguments)`, sync or async. What it takes fewer of, it is not given: one
parameter gets the `PendingApproval`, none gets nothing. It returns the result, or an `assent.ToolResult`."""


@runtime_checkable
class ApprovalEngine(Protocol):
    """Lets a call that a person decides run at most once."""

    async def on_request(self, approval: PendingApproval) -> None:
        """A call is to be decided. Again with the same approval, nothing happens twice."""

    async def on_cancel(self, approval_id: str) -> None:
        """It is not to be decided any more, for example since its card could not be delivered."""

    async def on_decision(
        self,
        approval_id: str,
        decision: Literal["approve", "reject"],
        *,
        expected_payload_sha256: str | None = None,
        dispatch: Dispatch,
    ) -> EngineOutcome:
        """A person has decided, seeing what has that hash. What is approved is dispatched, at most once."""


@runtime_checkable
class ExecutionMirror(Protocol):
    """Is told how calls ended. It is never consulted."""

    def get(self, lookup_key: str) -> Any: ...

    def put(
        self,
        idempotency_key: str,
        *,
        execution_status: str,
        result: Any,
        alias_lookup_keys: Iterable[str] = (),
        payload_sha256: str | None = None,
    ) -> Any: ...


@runtime_checkable
class AuditMirror(Protocol):
    """Is told what happened."""

    def append(
        self,
        event_type: str,
        *,
        key: str,
        approval: PendingApproval | None = None,
        event_id: str | None = None,
        message_id: str | None = None,
        outcome: str = "ok",
        error: str | None = None,
    ) -> None: ...


def payload_sha256(tool_name: str, arguments: dict[str, Any]) -> str:
    """The hash of what a person is shown. Raises `assent.InvalidRequest` for what cannot be hashed."""
    return sha256(canonical_payload(tool_name, arguments))
