"""The state of one question: a value that only the functions of this package make into another."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from assent.contracts.answers import Answer, Given, JudgedAnswer, QuestionStatus
from assent.contracts.asking import QuestionPlan
from assent.contracts.audit import AuditEntry
from assent.contracts.identity import Identity
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import AgentLimits
from assent.contracts.values import Frozen
from assent.core.cards import Cards
from assent.core.notes import Notes


class Ending(Frozen):
    """How a question ended."""

    status: QuestionStatus
    reason: str | None = None
    by: Identity | None = None
    """Who answered it, or withdrew it."""
    answers: dict[str, Given] | None = None
    at: datetime
    event_id: str | None = None
    """The answer that counts."""
    entries: tuple[AuditEntry, ...] = ()
    """What the audit says of it: on record together with it, never without."""


class Unopened(Frozen):
    """A question before there is a plan: what is said of it waits."""

    request: QuestionRequest
    notes: Notes[JudgedAnswer] = Notes[JudgedAnswer]()
    early: tuple[Answer, ...] = ()
    """Answers that wait for what they are judged by."""
    ending: Ending | None = None
    is_recorded: bool = False


class Opened(Frozen):
    """A question with its plan, from the moment it can be answered to its end."""

    plan: QuestionPlan
    opened_at: datetime
    notes: Notes[JudgedAnswer] = Notes[JudgedAnswer]()
    early: tuple[Answer, ...] = ()
    """Answers that wait for their card, or behind the one that is asked about."""
    asking: Answer | None = None
    """The answer whose giver may have to belong to a chat; later ones wait behind it."""
    ending: Ending | None = None
    is_recorded: bool = False
    """Whether the ledger has the ending: until then nobody is told of it."""
    cards: Cards = Cards()
    expects_cards: bool = False
    """Whether a click on a message that nobody knows may be on a card that is just arriving."""
    renewal: int = 0
    """How often the cards became others: when people were reminded."""

    @property
    def was_reminded(self) -> bool:
        return self.renewal > 0

    @property
    def messages(self) -> frozenset[str]:
        """Every message on which it can be answered."""
        return frozenset(self.cards.message_ids)


Standing = TypeVar("Standing", Unopened, Opened)
"""A question, with or without its plan."""


class Asked(Frozen):
    """Input of the question workflow."""

    request: QuestionRequest
    limits: AgentLimits = AgentLimits()
    """How much its agent may have asked, as the door knew it."""
    state: Opened | None = None
    """How it stood when a former run, whose history had grown long, left it."""
