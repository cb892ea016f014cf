"""What a person answered, what became of it, and how a question ended."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime, Field, StrictBool, StrictStr

from assent.contracts.audit import AuditEntry
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Surface


class QuestionStatus(StrEnum):
    """How a question stands. From the first it becomes one of the others, and nothing afterwards."""

    PENDING = "pending"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


Given = StrictBool | StrictStr | tuple[StrictStr, ...]
"""One answer: yes or no, a text or the value of an option, or the values of several."""


class Answer(Frozen):
    """What a person answered, seeing which questions: the *answer* signal."""

    question_id: Id
    questions_sha256: Id | None = None
    answers: dict[str, Given]
    """By the ids of the questions."""
    numbered: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Options by their places, from 1 on: a card with very many has them typed."""
    actor: Identity
    event_id: Id
    """The platform's id of the click: the same id is the same click."""
    delivery_id: Id | None = None
    """Which sending of that click this is."""
    message_id: Id | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"
    """What proves the actor's identity."""


class FlawKind(StrEnum):
    """What is wrong with an answer."""

    UNKNOWN_QUESTION = "unknown_question"
    MISSING = "missing"
    NOT_YES_OR_NO = "not_yes_or_no"
    NOT_AN_OPTION = "not_an_option"
    NOT_ONE = "not_one"
    """One option is to be chosen, not several."""
    NOT_BOTH = "not_both"
    """An option or one's own words, not both."""
    NOT_TEXT = "not_text"
    TOO_LONG = "too_long"
    NOT_STORABLE = "not_storable"
    """It holds control characters."""
    NOT_ONE_LINE = "not_one_line"
    """It is written as one line, and holds line breaks or control characters."""


class Flaw(Frozen):
    """What is wrong with the answer to one question."""

    question: str
    kind: FlawKind
    limit: int | None = None
    """How much there may be, where it is too much."""


class JudgedAnswer(Frozen):
    """An answer and its verdict, as the question remembers them: without the words."""

    event_id: str
    delivery_id: str | None
    actor: Identity
    verdict: VerdictKind
    received_at: datetime
    questions_sha256: str | None = None
    problem: str | None = None
    """What was wrong with it, where something was;"""
    flaws: tuple[Flaw, ...] = ()
    """and question by question."""
    proof: str | None = None

    @classmethod
    def of(cls, answer: Answer, verdict: VerdictKind, received_at: datetime, **wrong: Any) -> Self:
        shared = ("event_id", "delivery_id", "actor", "questions_sha256", "proof")
        known = {name: getattr(answer, name) for name in shared}
        return cls(verdict=verdict, received_at=received_at, **known, **wrong)


class AcceptedAnswer(Frozen):
    """The answer that counts, with its words: kept before a program reads it, so that nothing else ever counts."""

    judged: JudgedAnswer
    answers: dict[str, Given]
    at: datetime
    """When it was accepted."""
    entry: AuditEntry


class AnswerVerdict(Frozen):
    """What became of one answer."""

    kind: VerdictKind
    status: QuestionStatus | None = None
    """How the question stands, once somebody has answered it or it has ended."""
    answered_by: Identity | None = None
    reason: str | None = None
    """What was wrong, where something was."""
    flaws: tuple[Flaw, ...] = ()


class QuestionOutcome(Frozen):
    """How a question ended, and what the agent gets."""

    question_id: str
    status: QuestionStatus
    answers: dict[str, Given] | None = None
    """By the ids of the questions; None unless it was answered. What was left out is not there."""
    answered_by: Identity | None = None
    reason: str | None = None
    """Why it ended without an answer."""
    questions_sha256: str | None = None
    ended_at: datetime | None = None

    @property
    def is_answered(self) -> bool:
        return self.status is QuestionStatus.RESOLVED
