"""From a request to its plan: what goes into *resolve* and *prepare*, and what comes out."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field

from assent.contracts.deliver import Delivered
from assent.contracts.files import FileDigest, FilesWanted
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.quotas import AgentLimits, Exceeded
from assent.contracts.request import Request
from assent.contracts.values import Frozen, Id


class WarningQuestion(Frozen):
    """Input of *warn*: what should be known of this call before it is decided?"""

    tool: str
    queue: str
    manifest_sha256: str
    payload: str


class Warned(Frozen):
    """What *warn* found: sentences for whoever decides."""

    warnings: tuple[str, ...] = ()


class Unknowns(Frozen):
    """Input of *resolve*: what only Feishu or the tool can say, and the plan depends on."""

    requester: Identity | None = None
    """Whose other ids are asked for."""
    message_id: Id | None = None
    """The message whose chat is asked for."""
    files: FilesWanted | None = None
    """The files whose bytes are fetched and kept."""
    warnings: WarningQuestion | None = None
    """What the tool is asked."""


class Resolved(Frozen):
    """What *resolve* found out; or why it is not known."""

    requester: Identity | None = None
    """The requester, by every id that Feishu tells."""
    chat_id: str | None = None
    """The chat of the message."""
    files: tuple[FileDigest, ...] = ()
    """Which bytes were kept of the files."""
    warnings: tuple[str, ...] | None = None
    """What the tool warns of; None where it was not asked."""
    refused: str | None = None
    """Why there is no answer, and never will be."""


class Preparation(Frozen):
    """Input of *prepare*."""

    request: Request
    now: datetime
    deadline: datetime
    resolved: Resolved | None = None
    """What Feishu said, if it was asked."""
    limits: AgentLimits = AgentLimits()
    cards_within: timedelta | None = None
    """How long it may take until the plan is stored and the first cards are there; without it they are not sent."""


class SentBefore(Frozen):
    """What is there of the cards of an approval, or of a question, that was prepared before."""

    generation: int = 0
    message_ids: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Other messages on which it is shown: with other calls, or its result."""


class Prepared(Frozen):
    """What *prepare* found: a plan, or why there is none."""

    plan: Plan | None = None
    refused: str | None = None
    """Why the request can never run: an unknown tool, invalid arguments."""
    busy_with: str | None = None
    """The open approval that holds the conversation."""
    conflict: bool = False
    """The id belongs to another request."""
    exceeded: Exceeded | None = None
    """The quota that it would have gone beyond; nothing was stored."""
    outcome: Outcome | None = None
    """How this very request ended, when Temporal no longer knows;"""
    cards_due: bool = False
    """and whether a card may not show it."""
    unknown: Unknowns | None = None
    """What Feishu must be asked first; then nothing is stored yet."""
    delivered: tuple[Delivered | None, ...] | None = None
    """What became of the first cards, in the order of the core; None for one of which nobody knows yet. None
    altogether where they were not tried."""
    sent_before: SentBefore | None = None
    """What is there already of its cards, where it was prepared before."""
    is_new: bool = Field(default=False, exclude=True)
    """Whether the plan was stored just now; whoever stored it knows."""
