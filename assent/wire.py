"""The HTTP API as models, one for each thing that is sent or answered. Both ends use them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self
from urllib.parse import quote

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from assent.contracts import (
    DEFAULT_TTL,
    MAX_TTL,
    CallbackUrl,
    DecisionKind,
    Frozen,
    Id,
    Identity,
    Outcome,
    Phase,
    Stage,
    State,
    Status,
    Text,
    WhenPending,
)
from assent.door import Approval, ToolDescription
from assent.messages import AuditRecord
from assent.texts import with_sentence

MAX_WAIT = 60
"""The longest that one question waits for an answer, in seconds."""


def _duration(value: object) -> object:
    """Seconds as a number, or ISO 8601; the other forms that a parser might take are refused."""
    if isinstance(value, bool) or (isinstance(value, str) and not value.startswith("P")):
        raise ValueError("write seconds as a number, or an ISO 8601 duration such as PT15M")
    return value


_DURATION = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TTL.total_seconds()},
            {"type": "string", "format": "duration"},
        ],
        "default": "PT15M",
        "description": "How long a person has to decide: seconds, or an ISO 8601 duration. A tool may allow less.",
    }
)


class NewApproval(Frozen):
    """What an agent asks for. A field that is not known is refused: a misspelt one would be lost in silence."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "tool": "send_mail",
                    "arguments": {"to": "a@example.com", "subject": "Hello"},
                    "requester": {"open_id": "ou_1"},
                    "reason": "The customer asked for it.",
                }
            ]
        },
    )

    approval_id: Id | None = Field(
        None, description="The request's own id: sent again under it, the request attaches. Made up if absent."
    )
    tool: Id
    arguments: dict[str, Any] = Field(
        description="The call, exactly. Integers beyond 2^53, NaN and repeated names are refused with their path."
    )
    requester: Identity = Field(description="On whose behalf the agent asks; at least one id.")
    tool_call_id: Id | None = None
    thread_id: Id | None = Field(None, description="The conversation it belongs to.")
    when_pending: WhenPending = WhenPending.ALLOW
    message_id: Id | None = Field(None, description="The message it answers: for one message a call runs once.")
    event_id: Id | None = None
    idempotency_scope: Id | None = Field(None, description="Within one scope the same call runs at most once.")
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL), BeforeValidator(_duration), _DURATION] = DEFAULT_TTL
    reason: Text | None = Field(None, description="Why, for the person who decides.")
    chat_id: Id | None = Field(None, description="The chat whose people see the card.")
    reply_to: Id | None = Field(None, description="The message that the card answers.")
    callback_url: CallbackUrl | None = Field(None, description="Where the outcome is posted, signed.")


class NewDecision(Frozen):
    """What a person did, told by an agent that may tell it."""

    model_config = ConfigDict(extra="forbid")

    decision: DecisionKind
    payload_sha256: Id | None = Field(description="The hash of the payload that the person saw.")
    actor: Identity = Field(description="Who decided; at least one id.")
    reason: Text | None = None
    event_id: Id | None = Field(None, description="Names this decision: repeated, it counts once.")
    delivery_id: Id | None = Field(None, description="Names this sending, so that a repeated one gets its verdict.")
    stage: Stage = Stage.CALL


class NewCancellation(Frozen):
    """The wish to withdraw a request."""

    model_config = ConfigDict(extra="forbid")

    reason: Text | None = None
    actor: Identity | None = None


class Ending(Outcome):
    """How an approval ended, and what the agent gets."""

    neutral: bool = False
    """Whether `content` is a neutral sentence of ours, not the words of the tool."""

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        told = with_sentence(outcome, {})
        return cls(**told.model_dump(exclude={"is_error"}), neutral=told.content is not outcome.content)

    def outcome(self) -> Outcome:
        """The outcome without our sentence: whoever gets it may have sentences of its own."""
        fields = self.model_dump(exclude={"is_error", "neutral"})
        return Outcome(**{**fields, "content": None} if self.neutral else fields)


class ApprovalView(Frozen):
    """An approval as it stands."""

    approval_id: str
    phase: Phase
    status: Status | None = Field(None, description="How it ended, once it has.")
    state: State | None = Field(None, description="All that is known; null while no worker has looked at it.")
    outcome: Ending | None = Field(None, description="What the agent gets, once it has ended.")


class ApprovalList(Frozen):
    approvals: tuple[Approval, ...]


class ToolList(Frozen):
    tools: tuple[ToolDescription, ...]


class AuditTrail(Frozen):
    approval_id: str
    entries: tuple[AuditRecord, ...]


def path_segment(approval_id: str) -> str:
    """An id as it stands in a path: one segment, whatever characters it holds."""
    encoded = quote(approval_id, safe="")
    return encoded.replace(".", "%2E") if approval_id in (".", "..") else encoded
