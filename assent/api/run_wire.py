"""Runs and their interactions over HTTP as models. Both ends use them; the names are those of the bridge's wire."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints

from assent.contracts.identity import Identity
from assent.contracts.questions import MOST_OPTIONS, Option
from assent.contracts.request import MAX_TTL, CallbackUrl
from assent.contracts.runs import AnswerType, InteractionActor, InteractionAnswer, RequestId, RunId
from assent.contracts.values import Frozen, Id, Text

_LONGEST_LINE = 4100


class InteractionStatus(StrEnum):
    """How an interaction stands. From the first it becomes one of the others, and nothing afterwards."""

    PENDING = "PENDING"
    RESOLVED = "RESOLVED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class SubmissionStatus(StrEnum):
    """What became of a line that was handed in."""

    ACCEPTED = "ACCEPTED"
    NOOP_IDEMPOTENT = "NOOP_IDEMPOTENT"
    """The same event was taken before."""


class NewOption(Option):
    model_config = ConfigDict(extra="forbid")


def _option(given: object) -> object:
    return {"value": given} if isinstance(given, str) else given


class RunInteraction(Frozen):
    """What a run of a program asks, told by whoever runs it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "interaction_request_id": "where",
                    "answer_type": "choice",
                    "prompt": "Where to?",
                    "options": [{"value": "staging"}, {"value": "production"}],
                    "requester": {"open_id": "ou_1"},
                }
            ]
        },
    )

    interaction_request_id: RequestId | None = Field(
        None, description="What the run calls it: sent again under it, it attaches. Made up if absent."
    )
    answer_type: AnswerType
    prompt: Annotated[Text, StringConstraints(min_length=1, max_length=2000)]
    options: Annotated[tuple[Annotated[NewOption, BeforeValidator(_option)], ...], Field(max_length=MOST_OPTIONS)] = ()
    summary: Annotated[Text, StringConstraints(max_length=150)] | None = None
    expires_in: Annotated[float, Field(strict=True, gt=0, le=MAX_TTL.total_seconds())] | None = Field(
        None, description="Seconds."
    )
    requester: Identity = Field(description="On whose behalf it runs, and who answers if nobody else may.")
    people: Annotated[tuple[Identity, ...], Field(max_length=100)] = Field((), description="Who may answer instead.")
    members: StrictBool = Field(False, description="Whether the members of the chat may answer instead.")
    chat_id: Id | None = Field(None, description="The chat whose people see the card.")
    thread_id: Id | None = Field(None, description="The conversation it belongs to.")
    tool: Id = Field("program", description="What people read of what runs.")
    tool_session_id: Id | None = Field(None, description="The session of the tool; the run, if absent.")


class NewInteraction(RunInteraction):
    """What a run asks whose process a host owns."""

    run_id: RunId
    collab_session_id: Id | None = Field(None, description="The conversation it belongs to, like thread_id.")
    callback_url: CallbackUrl | None = Field(None, description="Where the answer is posted, signed.")


class Interaction(Frozen):
    """An interaction as it stands."""

    interaction_request_id: str
    run_id: str
    tool_session_id: str
    collab_session_id: str | None = None
    status: InteractionStatus
    answer_type: AnswerType
    prompt: str
    options: tuple[Option, ...] = ()
    summary: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    answered_by: InteractionActor | None = None
    answer: InteractionAnswer | None = Field(None, description="Once it is RESOLVED.")
    write: str | None = Field(None, description="What became of the line: written, or unknown.")
    written_bytes: int | None = None
    processed_at: datetime | None = None
    reason: str | None = Field(None, description="Why it ended without an answer.")
    is_answered: bool = Field(False, description="Whether a line waits to be claimed by whoever runs the program.")


class InteractionList(Frozen):
    interactions: tuple[Interaction, ...]


class LineSource(Frozen):
    """Where an answer came from."""

    model_config = ConfigDict(extra="forbid")

    channel: Id
    event_id: Id
    actor_id: Id = Field(description="Who answered: an open_id, or open_id:…, union_id:… or user_id:….")


class StdinSubmission(Frozen):
    """A line for a running program."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "interaction_request_id": "where",
                    "stdin_text": "staging\n",
                    "source": {"channel": "lark", "event_id": "e-1", "actor_id": "ou_1"},
                    "idempotency_key": "e-1",
                }
            ]
        },
    )

    interaction_request_id: RequestId
    stdin_text: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=_LONGEST_LINE)] = Field(
        description="The normalised answer and one line break."
    )
    source: LineSource
    idempotency_key: Id


class StdinResult(Frozen):
    status: SubmissionStatus
    run_id: str
    interaction_request_id: str
    written_bytes: int
    processed_at: datetime


class NewClaim(Frozen):
    """Whoever runs the program takes the line, to write it once."""

    model_config = ConfigDict(extra="forbid")

    token: Id = Field(description="Names this taking: repeated, it gets the same line, and no other gets it.")


class Line(Frozen):
    stdin_text: str | None = Field(None, description="What to write; null where there is nothing to be written.")


class NewWritten(Frozen):
    """The line was written."""

    model_config = ConfigDict(extra="forbid")

    token: Id
    written_bytes: Annotated[int, Field(strict=True, ge=0, le=100_000)]


class NewProgress(Frozen):
    """How far a run is, or that it has ended."""

    model_config = ConfigDict(extra="forbid")

    summary: Annotated[Text, StringConstraints(max_length=150)] | None = None
    has_ended: StrictBool = False
    exit_code: Annotated[int, Field(strict=True, ge=-255, le=255)] | None = None
    requester: Identity
    chat_id: Id | None = None
    tool: Id = "program"


class Heard(Frozen):
    heard: bool
