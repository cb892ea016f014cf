"""What a person is asked that is no consent, and who may answer it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from assent.contracts.approvers import Deciders
from assent.contracts.identity import Identity
from assent.contracts.request import DEFAULT_TTL, MAX_TTL, CallbackUrl
from assent.contracts.runs import AskingRun, is_one_line
from assent.contracts.values import Frozen, Id, Surface, Text
from assent.payload import canonical_json, sha256

MOST_QUESTIONS = 10
"""How many questions one card asks."""
MOST_OPTIONS = 20
MOST_BYTES = 8 * 1024
"""How large all questions of one card may be together, as canonical JSON."""
MOST_CHARACTERS = 1000
"""How long a text may be: Feishu's fields take no more."""


class QuestionKind(StrEnum):
    """What is asked for."""

    CONFIRM = "confirm"
    """Yes or no."""
    CHOICE = "choice"
    """One of some options, or several of them."""
    TEXT = "text"
    """One's own words."""


Words = Annotated[Text, StringConstraints(min_length=1, max_length=2000)]


class Option(Frozen):
    """One of the answers that can be chosen."""

    value: Id
    """What the agent gets."""
    label: Words | None = None
    """What people read; the value, if nothing is said."""
    description: Words | None = None

    @property
    def text(self) -> str:
        return self.label or self.value


class Question(Frozen):
    """One question of a card."""

    id: Id = "answer"
    """What its answer is called."""
    prompt: Words
    kind: QuestionKind
    options: Annotated[tuple[Option, ...], Field(max_length=MOST_OPTIONS)] = ()
    multi_select: bool = False
    """Whether several options may be chosen."""
    allow_input: bool = False
    """Whether one's own words will do as well as an option."""
    required: bool = True
    placeholder: Annotated[Text, StringConstraints(max_length=100)] | None = None
    """What stands in an empty field."""
    max_length: Annotated[int, Field(ge=1, le=MOST_CHARACTERS)] = MOST_CHARACTERS
    """How many characters one's own words may have."""

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        is_choice = self.kind is QuestionKind.CHOICE
        if is_choice != bool(self.options):
            raise ValueError("options: a choice has some, and nothing else has any")
        if not is_choice and (self.multi_select or self.allow_input):
            raise ValueError("multi_select and allow_input belong to a choice")
        if len({option.value for option in self.options}) < len(self.options):
            raise ValueError("options: two of them have the same value")
        return self

    @property
    def takes_words(self) -> bool:
        """Whether it can be answered in one's own words."""
        return self.kind is QuestionKind.TEXT or self.allow_input

    def offers(self, value: str) -> bool:
        return any(option.value == value for option in self.options)


Questions = Annotated[tuple[Question, ...], Field(min_length=1, max_length=MOST_QUESTIONS)]


def canonical_questions(questions: tuple[Question, ...]) -> str:
    """What is shown and answered together, as canonical JSON; what stands at its default is left out."""
    listed = [question.model_dump(mode="json", exclude_defaults=True) for question in questions]
    return canonical_json({"questions": listed}).decode()


class AskingCall(Frozen):
    """The running call whose tool asks: its questions end with it."""

    approval_id: Id
    consent: Id
    tool: Id
    deciders: Deciders | None = None
    """Those who may decide the call, and so answer; None: the requester does."""


class QuestionRequest(Frozen):
    """Questions that are shown on one card and answered together, and who may answer them."""

    question_id: Id
    questions: Questions
    requester: Identity
    """On whose behalf it is asked, and who answers, where nobody else is named."""
    people: Annotated[tuple[Identity, ...], Field(max_length=100)] = ()
    """Who may answer instead."""
    members: bool = False
    """Whether the members of the chat may answer instead."""
    thread_id: Id | None = None
    chat_id: Id | None = None
    """The chat whose people see the card; without it the private chats of those who may answer."""
    reply_to: Id | None = None
    """The message that the card answers."""
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL)] = DEFAULT_TTL
    reason: Text | None = None
    """Why it is asked."""
    callback_url: CallbackUrl | None = None
    call: AskingCall | None = None
    """The call whose tool asks, if one does."""
    run: AskingRun | None = None
    """The run of a program that asks, if one does: the answer becomes a line of its standard input."""
    surface: Surface = Surface.CLIENT
    asked_by: Id | None = None
    """The name of the token that the agent showed."""

    @model_validator(mode="after")
    def _somebody_may_answer(self) -> Self:
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids):
            raise ValueError("questions: each has an id of its own")
        if len(canonical_questions(self.questions).encode()) > MOST_BYTES:
            raise ValueError(f"questions: all of them together hold at most {MOST_BYTES} bytes")
        if self.members and (self.people or not self.chat_id):
            raise ValueError("members: name the chat whose members may answer in chat_id, and no people beside them")
        if self.run is not None and (len(self.questions) > 1 or self.question_id != self.run.question_id):
            raise ValueError("run: it asks one question at a time, under its own id")
        if self.run is not None and not all(is_one_line(option.value) for option in self.questions[0].options):
            raise ValueError("options: what is written to a program is one line, without control characters")
        return self

    @property
    def sha256(self) -> str:
        """What tells this request from another one under the same id: all of it but its door."""
        own = {"surface", "asked_by", "questions", *(("ttl",) if self.call else ())}  # a later attempt has less time
        fields = self.model_dump(mode="json", exclude=own, exclude_defaults=True)
        return sha256(canonical_json({**fields, "asked": canonical_questions(self.questions)}))
