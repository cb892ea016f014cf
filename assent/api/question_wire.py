"""Questions over HTTP as models, one for each thing that is sent or answered. Both ends use them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from assent.api.wire import DURATION, duration
from assent.client.door import AskedQuestion
from assent.contracts.answers import Given, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.identity import Identity
from assent.contracts.questions import MOST_OPTIONS, MOST_QUESTIONS, Option, Question
from assent.contracts.request import DEFAULT_TTL, MAX_TTL, CallbackUrl
from assent.contracts.values import Frozen, Id, Text


class NewOption(Option):
    """One of the answers that can be chosen."""

    model_config = ConfigDict(extra="forbid")


class NewOneQuestion(Question):
    """One question of a card."""

    model_config = ConfigDict(extra="forbid")

    options: Annotated[tuple[NewOption, ...], Field(max_length=MOST_OPTIONS)] = ()


class NewQuestion(Frozen):
    """What an agent asks. A field that is not known is refused: a misspelt one would be lost in silence."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "questions": [
                        {
                            "id": "where",
                            "prompt": "Where should it go?",
                            "kind": "choice",
                            "options": [{"value": "staging"}, {"value": "production", "label": "Production"}],
                        }
                    ],
                    "requester": {"open_id": "ou_1"},
                }
            ]
        },
    )

    question_id: Id | None = Field(
        None, description="The question's own id: sent again under it, it attaches. Made up if absent."
    )
    questions: Annotated[tuple[NewOneQuestion, ...], Field(min_length=1, max_length=MOST_QUESTIONS)]
    requester: Identity = Field(description="On whose behalf the agent asks, and who answers if nobody else may.")
    people: Annotated[tuple[Identity, ...], Field(max_length=100)] = Field((), description="Who may answer instead.")
    members: bool = Field(False, description="Whether the members of the chat may answer instead.")
    thread_id: Id | None = Field(None, description="The conversation it belongs to.")
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL), BeforeValidator(duration), DURATION] = DEFAULT_TTL
    reason: Text | None = Field(None, description="Why, for the person who answers.")
    chat_id: Id | None = Field(None, description="The chat whose people see the card.")
    reply_to: Id | None = Field(None, description="The message that the card answers.")
    callback_url: CallbackUrl | None = Field(None, description="Where the answer is posted, signed.")


class NewAnswer(Frozen):
    """What a person answered, told by an agent that may tell it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "answers": {"where": "staging"},
                    "questions_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                    "actor": {"open_id": "ou_1"},
                }
            ]
        },
    )

    answers: dict[str, Given] = Field(
        description="By the ids of the questions: true or false, the value of an option or a text, or a list of values."
    )
    questions_sha256: Id | None = Field(description="The hash of the questions that the person saw.")
    actor: Identity = Field(description="Who answered; at least one id.")
    event_id: Id | None = Field(None, description="Names this answer: repeated, it counts once.")
    delivery_id: Id | None = Field(None, description="Names this sending, so that a repeated one gets its verdict.")


class QuestionView(Frozen):
    """A question as it stands."""

    question_id: str
    status: QuestionStatus
    state: QuestionState | None = Field(None, description="All that is known; null while no worker has looked at it.")
    outcome: QuestionOutcome | None = Field(None, description="What the agent gets, once it has ended.")


class QuestionList(Frozen):
    questions: tuple[AskedQuestion, ...]


class QuestionTrail(Frozen):
    question_id: str
    entries: tuple[AuditRecord, ...]
