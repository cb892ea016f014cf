"""What a person did, and what became of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime

from assent.contracts.identity import Identity
from assent.contracts.status import Status
from assent.contracts.values import Frozen, Id, Surface, Text


class DecisionKind(StrEnum):
    """What a person did."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    """Approve with other arguments."""
    DELEGATE = "delegate"
    """Leave the decision to somebody else."""


class Stage(StrEnum):
    """What a decision is about: the call, or the result it returned."""

    CALL = "call"
    RESULT = "result"


class VerdictKind(StrEnum):
    """What became of one decision."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    TAMPERED = "tampered"
    ALREADY_DECIDED = "already_decided"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    MISSING = "missing"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    """What it asks for cannot be: arguments that the tool refuses, nobody to delegate to."""
    RECEIVED = "received"


class Remember(StrEnum):
    """How far a decision is remembered."""

    EXACT = "exact"
    """For this exact call."""
    TOOL = "tool"
    """For this tool in this conversation."""


class Decision(Frozen):
    """What a person did, on which approval, seeing which payload."""

    approval_id: Id
    kind: DecisionKind
    payload_sha256: Id | None = None
    actor: Identity
    event_id: Id
    """The platform's id of the click: the same id is the same click."""
    delivery_id: Id | None = None
    """Which sending of that click this is."""
    stage: Stage = Stage.CALL
    message_id: Id | None = None
    reason: Text | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"
    """What proves the actor's identity."""
    arguments: dict[str, Any] | None = None
    """All arguments of the call as edited."""
    fields: dict[str, str] | None = None
    """Or what was typed into a card's fields, by the name of the argument; the others stay as they were."""
    delegate_to: Identity | None = None
    remember: Remember | None = None
    """How far the decision is to be remembered, where the tool asks once."""
    persist_decision: bool = True
    """Whether it is to be remembered at all: False asks again next time, whatever others say."""
    dispatch_queue: Id | None = None
    """Where the call is to be made instead of at the tool's own workers; only trusted doors can say so."""
    chat_id: Id | None = None
    """The chat that the click came from, as the platform says."""


class Verdict(Frozen):
    """What became of one decision."""

    kind: VerdictKind
    status: Status | None = None
    decided_by: Identity | None = None
    reason: str | None = None
    """What was wrong, where something was."""
    approvals: int = 0
    """How many have approved so far,"""
    needed: int = 1
    """of how many that must."""


class Judged(Frozen):
    """A decision and its verdict, as the approval remembers them."""

    event_id: str
    delivery_id: str | None
    kind: DecisionKind
    actor: Identity
    verdict: VerdictKind
    received_at: datetime
    reason: str | None = None
    stage: Stage = Stage.CALL
    payload_sha256: str | None = None
    """What the decision was about."""
    problem: str | None = None
    """What was wrong with it, where something was."""
    proof: str | None = None
    """What proved the actor's identity."""

    @classmethod
    def of(cls, decision: Decision, verdict: VerdictKind, received_at: datetime, problem: str | None = None) -> Self:
        """What is remembered of a decision; of a long reason only its start, the audit has it whole."""
        return cls(
            event_id=decision.event_id,
            delivery_id=decision.delivery_id,
            kind=decision.kind,
            actor=decision.actor,
            verdict=verdict,
            received_at=received_at,
            reason=decision.reason[:200] if decision.reason else None,
            stage=decision.stage,
            payload_sha256=decision.payload_sha256,
            problem=problem[:500] if problem else None,
            proof=decision.proof,
        )
