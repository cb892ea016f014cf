"""What is read of the ledger, by whoever reaches it: an open approval is asked itself, an ended one is on record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from assent.contracts.answers import QuestionOutcome
from assent.contracts.approvers import Deciders
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override, Policy
from assent.contracts.review import ReviewRecord
from assent.contracts.ruling import Settlement
from assent.contracts.state import State
from assent.contracts.values import Frozen
from assent.errors import Unavailable

CHUNK = 1024 * 1024
"""How many bytes of a stored result are held at once."""


class Subject(Frozen):
    """What an approval is about, as far as it takes to say who may see it."""

    tool: str
    requester: Identity


class Waiting(Subject):
    """An approval that waits for somebody."""

    approval_id: str
    asked_by: str | None = None
    """The agent that asked, by the name of its token."""
    thread_id: str | None = None


class WaitingQuestion(Frozen):
    """A question that waits for somebody."""

    question_id: str
    requester: Identity
    asked_by: str | None = None
    thread_id: str | None = None
    deciders: Deciders | None = None
    """Who may answer."""


@dataclass(frozen=True)
class Stored:
    """A stored result, JSON in ASCII, that is read piece by piece: it may hold many megabytes."""

    size: int
    read: Callable[[int, int], Awaitable[bytes]]
    """Reads from a byte on, so many at most."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """All of it. Nothing is held or locked between two pieces: whoever takes them may be slow."""
        start = 0
        while start < self.size:
            piece = await self.read(start, CHUNK)
            if not piece:
                raise Unavailable("the stored result is no longer there; ask again")
            start += len(piece)
            yield piece

    async def text(self) -> str:
        """All of it at once."""
        return "".join([piece.decode("ascii") async for piece in self.chunks()])


class LedgerReader(Protocol):
    """Reads the ledger: `ledger.Reader` where its database is in reach. Raises Unavailable while it is not."""

    @property
    def is_at_hand(self) -> bool:
        """Whether it is the ledger itself: then what has ended is read there before Temporal is asked."""

    async def state(self, approval_id: str) -> State | None:
        """The approval as it is on record."""

    async def outcome(self, approval_id: str) -> Outcome | None:
        """How it ended, if it has."""

    async def settlement(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was."""

    async def review(self, approval_id: str) -> ReviewRecord | None:
        """What is on record of the review of its call; asked only where the ledger is at hand."""

    async def content(self, approval_id: str) -> Stored | None:
        """Its whole result; None while it has none, or it may not be told."""

    async def result(self, approval_id: str, *, actor: Identity) -> Stored | None:
        """The result that waits to be released, for whoever decides about it."""

    async def records(self, approval_id: str, offset: int, limit: int) -> tuple[tuple[AuditRecord, ...], int | None]:
        """The audit of one approval from *offset* on, and where the rest begins."""

    async def manifests(self, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
        """What the tools say of themselves, by name."""

    async def chats_of(self, actor: Identity) -> tuple[str, ...]:
        """The chats that this person is known to belong to; asked only where the ledger is at hand."""

    async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[Waiting, ...], int | None]:
        """What waits for this person, the oldest first, and where the rest begins."""

    async def question(self, question_id: str) -> QuestionState | None:
        """A question as it is on record."""

    async def answered(self, question_id: str) -> QuestionOutcome | None:
        """How a question ended, if it has."""

    async def asked(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[WaitingQuestion, ...], int | None]:
        """What is asked of this person, the oldest first, and where the rest begins."""

    async def grants(self, offset: int, limit: int) -> tuple[tuple[Grant, ...], int | None]:
        """The decisions that were remembered, the newest first."""

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        """The files that a person shared, the newest first."""

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        """One of them, if there is such a file of theirs."""

    async def policy(self) -> Policy | None:
        """The operator's policy in force."""

    async def overrides(self) -> tuple[Override, ...]:
        """The overrides of tools' permissions that are in force, by the names of their tools."""
