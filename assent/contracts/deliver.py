"""Cards: what goes into *deliver* and *show*, and what comes out."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from assent.contracts.address import Address
from assent.contracts.decision import Judged
from assent.contracts.state import Progress
from assent.contracts.values import Frozen


class CardKind(StrEnum):
    """What a card asks."""

    CALL = "card"
    RESULT = "result"


class Delivery(Frozen):
    """Input of *deliver*: one card of an approval, for one address."""

    approval_id: str
    place: int = 0
    generation: int = 1
    kind: CardKind = CardKind.CALL
    address: Address | None = None
    """Where it goes; the plan's own address of that place, if nothing is said."""
    progress: Progress | None = None
    """How far the approvers have come,"""
    payload_sha256: str | None = None
    """with this payload; an edit may have made another of it before the card is there."""
    reminder: bool = False
    """Whether it is sent because nobody has decided yet."""
    deadline: datetime | None = None
    """Until when its result waits to be released."""


class Delivered(Frozen):
    """What became of a card: its message, or why it can never be delivered."""

    message_id: str | None = None
    refused: str | None = None
    shared: tuple[str, ...] = ()
    """The messages on which the approval is shown among others."""
    leaves_older: bool = False
    """Whether an older card could not be told yet that this one took its place."""


class Revision(Frozen):
    """Input of *show*: bring an approval's cards to how it stands."""

    approval_id: str
    decided: Judged | None = None
    """The decision that stands, while the ledger does not know it yet."""
    progress: Progress | None = None
    """How far the approvers have come, while they have not decided:"""
    payload_sha256: str | None = None
    """with which payload,"""
    generation: int | None = None
    """and on which cards; those that follow them say it themselves."""
    reviewing: bool = False
    """Whether the call has ended and its result waits to be released."""
    asking: bool | None = None
    """Whether its running tool waits for somebody's answer, where that has changed."""
    doubts_older: bool = False
    """Whether those of which the ledger says that newer ones took their place may say something else."""
