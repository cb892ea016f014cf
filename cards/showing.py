"""What a card is made of."""

from __future__ import annotations

from datetime import datetime

from assent.contracts import Frozen, Judged, Outcome, Plan, Settlement
from assent.messages import Examined, FrozenCall


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
    """Whether a newer card of the same approval took this one's place."""
    settlement: Settlement | None = None
    """What was found out of a call that was frozen."""
    twin_url: str | None = None
    """Where the frozen call that is identical to this one can be looked at."""


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
