"""The HTTP API as models, one for each thing that is sent or answered. Both ends use them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self
from urllib.parse import quote

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from assent.client.door import MOST_CALLS, Approval, FrozenReview, ToolDescription
from assent.client.texts import with_sentence
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import DecisionKind, Remember, Stage
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override, Policy
from assent.contracts.request import DEFAULT_TTL, MAX_TTL, CallbackUrl, WhenPending
from assent.contracts.ruling import RulingKind, Settlement
from assent.contracts.state import PendingItem, State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Frozen, Id, Text

MAX_WAIT = 60
"""The longest that one question waits for an answer, in seconds."""


def duration(value: object) -> object:
    """Seconds as a number, or ISO 8601; the other forms that a parser might take are refused."""
    if isinstance(value, bool) or (isinstance(value, str) and not value.startswith("P")):
        raise ValueError("write seconds as a number, or an ISO 8601 duration such as PT15M")
    return value


DURATION = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TTL.total_seconds()},
            {"type": "string", "format": "duration"},
        ],
        "default": "PT15M",
        "description": "How long a person has to decide: seconds, or an ISO 8601 duration. A tool may allow less.",
    }
)


class Me(Frozen):
    """Whose token it is."""

    name: str = Field(description="The token's own name.")
    principal: str = Field(description="The agent whose token it is; two tokens of one agent have the same.")
    person: str | None = Field(None, description="The person for whom it may act, if it is exactly one.")


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
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL), BeforeValidator(duration), DURATION] = DEFAULT_TTL
    reason: Text | None = Field(None, description="Why, for the person who decides.")
    chat_id: Id | None = Field(None, description="The chat whose people see the card.")
    reply_to: Id | None = Field(None, description="The message that the card answers.")
    callback_url: CallbackUrl | None = Field(None, description="Where the outcome is posted, signed.")


class NewBundle(Frozen):
    """Calls that are asked for together: they share one card, with a decision for each."""

    model_config = ConfigDict(extra="forbid")

    calls: Annotated[tuple[NewApproval, ...], Field(min_length=1, max_length=MOST_CALLS)]


class NewDecision(Frozen):
    """What a person did, told by an agent that may tell it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "decision": "edit",
                    "payload_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                    "actor": {"open_id": "ou_approver"},
                    "arguments": {"to": "b@example.com", "subject": "Hello"},
                    "reason": "They have a new address.",
                }
            ]
        },
    )

    decision: DecisionKind = Field(
        description="approve; reject; edit, to approve with other arguments; delegate, to leave it to somebody else. "
        "Of a result, approve releases it and reject withholds it."
    )
    payload_sha256: Id | None = Field(
        description="The hash of the payload that the person saw; of a result, state.result_sha256."
    )
    actor: Identity = Field(description="Who decided; at least one id.")
    reason: Text | None = Field(None, validation_alias=AliasChoices("reason", "rejectReason"))
    event_id: Id | None = Field(None, description="Names this decision: repeated, it counts once.")
    delivery_id: Id | None = Field(None, description="Names this sending, so that a repeated one gets its verdict.")
    stage: Stage = Field(Stage.CALL, description="Whether it is about the call, or about its result.")
    arguments: dict[str, Any] | None = Field(
        None, description="Of an edit: all that the call is to run with. An edit without them is invalid."
    )
    delegate_to: Identity | None = Field(None, description="Of delegate: who is to decide instead; at least one id.")
    remember: Remember | None = Field(
        None, description="How far the decision is to be remembered, where the tool asks once."
    )
    persist_decision: bool = Field(
        True,
        description="Whether it is to be remembered at all, where the tool asks once: false asks again next time.",
        validation_alias=AliasChoices("persist_decision", "persistDecision"),
    )


class NewCancellation(Frozen):
    """The wish to withdraw a request."""

    model_config = ConfigDict(extra="forbid")

    reason: Text | None = None
    actor: Identity | None = None


class NewRuling(Frozen):
    """What an operator says of a frozen call, told by an agent that may tell it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "ruling": "executed",
                    "operator": {"open_id": "ou_operator"},
                    "reason": "The bank's statement shows the transfer.",
                    "content": {"transfer": 7},
                }
            ]
        },
    )

    ruling: RulingKind
    operator: Identity = Field(description="Who says so; at least one id.")
    reason: Annotated[Text, StringConstraints(min_length=1)] = Field(description="How it is known.")
    content: Any = Field(None, description="The result, where it was executed.")
    payload_hash: Id | None = Field(
        None, description="For a retry: the first twelve characters of the payload's hash, typed by the operator."
    )
    ruling_id: Id | None = Field(None, description="Names this ruling: repeated, it counts once.")


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
    settlement: Settlement | None = Field(None, description="What a frozen call turned out to be, once it is settled.")


class ApprovalList(Frozen):
    approvals: tuple[Approval, ...]


class BundleView(Frozen):
    """Approvals that were asked for together, in the order of the calls."""

    approvals: tuple[ApprovalView, ...]


class FrozenList(Frozen):
    frozen: tuple[FrozenReview, ...]


class SettlementView(Frozen):
    """How the review of a frozen call stands."""

    approval_id: str
    settlement: Settlement | None = Field(None, description="What was settled; null while it is open.")


class Inbox(Frozen):
    """What waits for one person."""

    waiting: tuple[PendingItem, ...]
    questions: tuple[QuestionState, ...] = Field((), description="What they are asked that is no consent.")


class FileList(Frozen):
    files: tuple[FileSummary, ...]


class GrantList(Frozen):
    grants: tuple[Grant, ...]


class Revoked(Frozen):
    """What became of the wish to revoke a grant."""

    grant_id: str
    kind: RevokedKind = Field(description="revoked, or already_revoked.")


class ToolList(Frozen):
    tools: tuple[ToolDescription, ...]


class PolicyView(Frozen):
    """The operator's policy in force, and all that the tools say of themselves."""

    policy: Policy | None
    tools: tuple[Manifest, ...]
    overrides: tuple[Override, ...] = Field((), description="What stands beside the policy's file for a while.")


class AuditTrail(Frozen):
    approval_id: str
    entries: tuple[AuditRecord, ...]


def person(identity: Identity) -> str:
    """A person as in a query: what `Identity.parse` reads."""
    tenant = {f"tenant_key:{identity.tenant_key}"} if identity.tenant_key else set()
    return quote(",".join(sorted(identity.keys | tenant)), safe="")


def path_segment(approval_id: str) -> str:
    """An id as it stands in a path: one segment, whatever characters it holds."""
    encoded = quote(approval_id, safe="")
    return encoded.replace(".", "%2E") if approval_id in (".", "..") else encoded
