"""A question from its plan to its end: what its steps take and give."""

from __future__ import annotations

from datetime import datetime, timedelta

from assent.contracts.address import Address
from assent.contracts.answers import AcceptedAnswer, Given, JudgedAnswer, QuestionOutcome, QuestionStatus
from assent.contracts.approvers import Deciders
from assent.contracts.audit import AuditEntry
from assent.contracts.identity import Identity
from assent.contracts.prepare import Resolved, SentBefore, Unknowns
from assent.contracts.questions import Question, QuestionRequest, canonical_questions
from assent.contracts.quotas import AgentLimits, Exceeded
from assent.contracts.runs import AskingRun
from assent.contracts.values import Frozen
from assent.payload import sha256


class QuestionPlan(Frozen):
    """A question request, fixed once: what is shown and answered, by whom and until when."""

    question_id: str
    request_sha256: str
    questions: tuple[Question, ...]
    questions_sha256: str
    requester: Identity
    deciders: Deciders
    """Who may answer."""
    thread_id: str | None = None
    asked_by: str | None = None
    reason: str | None = None
    asked_at: datetime
    deadline: datetime
    grace: timedelta
    remind_at: datetime | None = None
    tenant_key: str | None = None
    addresses: tuple[Address, ...] = ()
    callback_url: str | None = None
    approval_id: str | None = None
    """The approval whose running call asks, if one does,"""
    consent: str | None = None
    tool: str | None = None
    run: AskingRun | None = None
    """The run of a program that asks, if one does."""

    @property
    def hash_is_true(self) -> bool:
        """Whether the questions still are those that were hashed."""
        return sha256(canonical_questions(self.questions)) == self.questions_sha256

    @property
    def open_until(self) -> datetime:
        """When it should have ended, whatever became of it."""
        return self.deadline + timedelta(hours=1)


class QuestionState(Frozen):
    """A question as it stands."""

    question_id: str
    status: QuestionStatus
    is_prepared: bool = True
    """Whether a worker has looked at it: until then nobody is shown it."""
    questions: tuple[Question, ...]
    questions_sha256: str
    requester: Identity
    asked_by: str | None = None
    """The agent that asks, by the name of its token."""
    reason: str | None = None
    thread_id: str | None = None
    approval_id: str | None = None
    """The approval whose running call asks, if one does,"""
    tool: str | None = None
    run: AskingRun | None = None
    """The run of a program that asks, if one does."""
    asked_at: datetime | None = None
    deadline: datetime | None = None
    deciders: Deciders | None = None
    """Who may answer."""
    answers: dict[str, Given] | None = None
    answered_by: Identity | None = None
    ended_because: str | None = None
    decisions: tuple[JudgedAnswer, ...] = ()
    """What was answered so far, and what became of it."""
    malformed: int = 0

    def awaits(self, person: Identity) -> bool:
        """Whether it waits for this person, as far as can be said without asking a chat who belongs to it."""
        is_open = self.status is QuestionStatus.PENDING and self.deciders is not None
        return is_open and self.deciders is not None and self.deciders.ask(person)


class QuestionPreparation(Frozen):
    """Input of *prepare_question*."""

    request: QuestionRequest
    now: datetime
    deadline: datetime
    resolved: Resolved | None = None
    """What Feishu said, if it was asked."""
    limits: AgentLimits = AgentLimits()


class QuestionPrepared(Frozen):
    """What *prepare_question* found: a plan, or why there is none."""

    plan: QuestionPlan | None = None
    refused: str | None = None
    """Why it can never be asked."""
    conflict: bool = False
    """The id belongs to another question."""
    exceeded: Exceeded | None = None
    outcome: QuestionOutcome | None = None
    """How this very question ended, when Temporal no longer knows;"""
    cards_due: bool = False
    """and whether a card may not show it."""
    answer: AcceptedAnswer | None = None
    """What a program was to read, as a former run of the workflow left it."""
    unknown: Unknowns | None = None
    """What Feishu must be asked first; then nothing is stored yet."""
    sent_before: SentBefore | None = None
    """What is there already of its cards, where it was prepared before."""


class QuestionDelivery(Frozen):
    """Input of *deliver_question*: one card of a question, for one address."""

    question_id: str
    place: int = 0
    generation: int = 1
    address: Address
    reminder: bool = False
    """Whether it is sent because nobody has answered yet."""


class QuestionRevision(Frozen):
    """Input of *show_question*: bring a question's cards to how it stands."""

    question_id: str


class QuestionConclusion(Frozen):
    """Input of *record_answer*: how the question ended, for the record."""

    outcome: QuestionOutcome
    ending: tuple[AuditEntry, ...] = ()
    """What the audit says of this ending, if it is the one that stands;"""
    entries: tuple[AuditEntry, ...]
    """and of all else."""
    judged: tuple[JudgedAnswer, ...]
    closed_at: datetime


class QuestionRecorded(Frozen):
    """What *record_answer* did."""

    outcome: QuestionOutcome
    """The ending that stands."""
    cards_due: bool = False
    """Whether a card does not show it yet."""


class OpenQuestions(Frozen):
    """Input of *open_questions*: the consent whose call has ended."""

    consent: str


class FoundQuestions(Frozen):
    """The questions that its tool asked, and nobody has answered."""

    question_ids: tuple[str, ...] = ()
