"""Programs that run: what they ask for on their standard output, and what becomes of the line that answers."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from assent.contracts.answers import AcceptedAnswer
from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Text

MOST_INTERACTIONS = 100
"""How often one run may ask."""
MOST_SUMMARY = 150
"""Characters of a summary that a conversation is shown."""
MOST_OUTPUT = 64 * 1024
"""How many bytes of a run's output are kept: the last ones."""
SIGNATURE_INVALID = "HELIOS-HITL-401-LARK_SIGNATURE_INVALID"
"""What is wrong with an answer whose callback nobody signed."""
WRITE_UNKNOWN = "write: unknown"
"""Why an interaction is cancelled whose line was taken to be written, and nobody confirmed that it was."""
RUN_ENDED = "run: not active"
"""Why one is cancelled whose process no longer reads."""

RunId = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9._-]{1,80}$")]
RequestId = Annotated[str, StringConstraints(strict=True, pattern=r"^[!-~]{1,100}$")]


def is_one_line(text: str) -> bool:
    """Whether a program that reads a line gets all of it, and nothing that a terminal would obey."""
    return all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in text)


class AnswerType(StrEnum):
    """How an interaction is answered."""

    CHOICE = "choice"
    TEXT = "text"


class RunHolder(StrEnum):
    """Who holds the pipe to a run's standard input."""

    WORKER = "worker"
    """A tools worker, which is reached on a queue of its own."""
    CLIENT = "client"
    """`assent run`, which takes the line over HTTP."""
    HOST = "host"
    """A host that owns its processes: it is sent the answer."""


class Run(Frozen):
    """One execution of a program."""

    run_id: RunId
    holder: RunHolder
    tool: Id
    """What people read of what runs."""
    queue: Id | None = None
    """Where the worker is reached that holds the pipe."""
    tool_session_id: Id
    collab_session_id: Id | None = None


class AskingRun(Run):
    """The run that asks, and what it calls its request."""

    interaction_request_id: RequestId
    answer_type: AnswerType
    summary: Annotated[Text, StringConstraints(max_length=MOST_SUMMARY)] | None = None

    @property
    def question_id(self) -> str:
        return interaction_id(self.run_id, self.interaction_request_id)


def interaction_id(run_id: str, interaction_request_id: str) -> str:
    """The durable id of an interaction, which is the id of its question."""
    return f"{run_id}:{interaction_request_id}"


class LineState(StrEnum):
    """Where the line stands that answers an interaction."""

    OPEN = "open"
    """There is none yet."""
    OFFERED = "offered"
    """It was answered; nobody has taken the line."""
    CLAIMED = "claimed"
    """Whoever holds the pipe took it, and is about to write it."""
    WRITTEN = "written"
    UNKNOWN = "unknown"
    """It was taken, and nobody confirmed that it was written. It never will be again."""
    CLOSED = "closed"
    """It was never taken, and never will be."""


class LineOffer(Frozen):
    """Input of *offer_line*: an interaction was answered, and this is the line."""

    question_id: str
    answer: AcceptedAnswer
    text: str
    """The normalised answer and one line break."""


class LineOffered(Frozen):
    """Who holds the pipe that it is for."""

    holder: RunHolder
    queue: str | None = None
    is_done: bool = False
    """Whether nothing is left to be done: the host is sent it, or what became of it is known."""
    answer: AcceptedAnswer | None = None
    """Whose line it is: the first that was kept, whichever was offered since."""


class LineClaim(Frozen):
    """The *claim_line* update, and the input of the activity of that name."""

    question_id: Id
    token: Id
    """Who takes it: the same again gets the same line."""


class ClaimedLine(Frozen):
    """The line, for whoever took it and for nobody else."""

    text: str | None = None


class LineWritten(Frozen):
    """The *confirm_line* update, and the input of the activity of that name."""

    question_id: Id
    token: Id
    written_bytes: Annotated[int, Field(ge=0, le=100_000)]


class LineQuestion(Frozen):
    """Input of *write_line* and *close_line*."""

    question_id: str


class LineReport(Frozen):
    """What is known of a line."""

    state: LineState
    written_bytes: int | None = None
    at: datetime | None = None


class InteractionActor(Frozen):
    """Who answered, as hosts are told."""

    actor_type: str = "user"
    actor_id: str

    @classmethod
    def of(cls, person: Identity) -> InteractionActor:
        return cls(actor_id=person.open_id or person.union_id or person.user_id or "")


class InteractionAnswer(Frozen):
    answer_type: AnswerType
    answer_value: str


class InteractionEvent(Frozen):
    """What the host of a process is told of an interaction that has ended."""

    event_id: str
    event_type: str
    """`interaction.answer.submitted`; or `interaction.expired`, `interaction.cancelled`."""
    occurred_at: datetime
    collab_session_id: str | None = None
    tool_session_id: str
    interaction_request_id: str
    run_id: str
    answered_by: InteractionActor | None = None
    answer: InteractionAnswer | None = None
    reason: str | None = None
    idempotency_key: str


class StoredInteraction(Frozen):
    """An interaction as the ledger has it, beside its question."""

    question_id: str
    run: AskingRun
    asked_by: str | None = None
    state: LineState
    event_id: str | None = None
    written_bytes: int | None = None
    at: datetime | None = None
    is_run_active: bool = True


class RunNews(Frozen):
    """The *progress* signal: what a run says of how far it is, or that it has ended."""

    summary: Annotated[Text, StringConstraints(max_length=MOST_SUMMARY)] | None = None
    has_ended: bool = False
    exit_code: int | None = None
    told_by: Id | None = None
    """The agent that says so over HTTP: only the run's own is heard."""


class RunStart(Frozen):
    """Input of the *Run* workflow: where the summaries of a run are shown."""

    run_id: RunId
    tool: Id
    requester: Identity
    approval_id: Id | None = None
    """The approval whose call it is: the summary goes where its card went."""
    chat_id: Id | None = None
    asked_by: Id | None = None
    quiet_for: timedelta = timedelta(days=1)
    """After so long without a word nobody is waited for."""
    news: RunNews | None = None
    """What was shown last, when a former run of the workflow, whose history had grown long, left it."""


class RunShowing(Frozen):
    """Input of *show_run*."""

    start: RunStart
    news: RunNews
