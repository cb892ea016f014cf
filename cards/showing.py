"""What a card is made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from assent.contracts.decision import Judged
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.review import Examined, FrozenCall
from assent.contracts.ruling import Settlement
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.contracts.values import Frozen


class Attachment(Frozen):
    """What was sent to the conversation before the card, because the card could not hold it."""

    name: str
    size: int
    sha256: str


class File(Frozen):
    """A file that is to be sent before the card."""

    name: str
    data: bytes


class Showing(Frozen):
    """An approval as its card shows it."""

    plan: Plan
    decided: Judged | None = None
    """The decision that stands."""
    outcome: Outcome | None = None
    """How it ended."""
    ended_at: datetime | None = None
    attachment: Attachment | None = None
    replaced: bool = False
    """Whether a newer card of the same approval took this one's place,"""
    moved: bool = False
    """and whether that went to others, whose turn it is."""
    settlement: Settlement | None = None
    """What was found out of a call that was frozen."""
    twin_url: str | None = None
    """Where the frozen call that is identical to this one can be looked at."""
    progress: Progress | None = None
    """How far the approvers have come; where nothing is said, nobody has approved yet."""
    approvals: tuple[Judged, ...] = ()
    """Everybody whose approval counts, once it is decided."""
    parameters: dict[str, Any] | None = None
    """The JSON Schema of the arguments, where it is known: they can be changed then."""
    reminder: bool = False
    """Whether it is sent because nobody has decided yet."""
    reviewing: Status | None = None
    """How the call ended, while its result waits to be released."""
    grant: Grant | None = None
    """The remembered decision that stood in for people, or that theirs became; as it stands now."""
    asking: bool = False
    """Whether the running tool waits for somebody's answer."""


class ResultShowing(Frozen):
    """A result that waits to be released, as its card shows it."""

    plan: Plan
    status: Status
    """How the call ended."""
    content: bytes | None
    """The result, as JSON."""
    error: str | None = None
    """What the tool or its worker said went wrong."""
    content_sha256: str
    """What a decision about it is bound to."""
    deadline: datetime
    progress: Progress | None = None
    attachment: Attachment | None = None
    decided: Judged | None = None
    """The decision about it."""
    outcome: Outcome | None = None
    """How the approval ended."""
    ended_at: datetime | None = None
    replaced: bool = False
    """Whether a newer card of the same result took this one's place."""
    reminder: bool = False


class ReviewShowing(Frozen):
    """A frozen call as the operators' card shows it."""

    plan: Plan
    frozen: FrozenCall
    examined: Examined
    settlement: Settlement | None = None
    replaced: bool = False
    """Whether a newer card of the same review took this one's place."""
    url: str | None = None
    """Where Temporal shows the review."""
    operators: tuple[Identity, ...] = ()
    """Who may settle it."""
