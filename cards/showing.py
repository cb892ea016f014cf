"""What a card is made of."""

from __future__ import annotations

from datetime import datetime

from assent.contracts import Frozen, Judged, Outcome, Plan


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
