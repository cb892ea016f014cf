"""Calls that were asked for together, and are shown on one card."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.decision import Judged
from assent.contracts.state import Progress
from assent.contracts.values import Frozen, Id


class Member(Frozen):
    """The *news* signal of an approval to its bundle: how it stands."""

    approval_id: Id
    ended: bool = False
    """Whether nobody is asked about it, or not any more."""
    decided: Judged | None = None
    """The decision that stands, while the ledger does not know it yet."""
    progress: Progress | None = None
    reviewing: bool = False


class BundleAsked(Frozen):
    """Input of the bundle workflow: calls that were asked for together."""

    bundle_id: Id
    approval_ids: tuple[Id, ...]
    members: tuple[Member, ...] = ()
    """How those of them stand that were heard of."""
    sent_at: datetime | None = None
    """Since when their card is there."""


class SharedCalls(Frozen):
    """Input of *deliver_bundle* and *show_bundle*: the calls of one card."""

    bundle_id: str
    members: tuple[Member, ...]
    is_late: bool = False
    """Whether it is too late to send a card: sent again, it could arrive twice."""


class Carded(Frozen):
    """The *carded* signal of a bundle to an approval: the cards on which it is shown among others."""

    message_ids: tuple[Id, ...] = ()
    """None: it is to send cards of its own."""
    approval_ids: tuple[Id, ...] = ()
    """All that share a card with it."""


class SharedCard(Frozen):
    """The messages on which one approval is shown among others."""

    approval_id: str
    message_ids: tuple[str, ...]


class BundleDelivered(Frozen):
    """What became of a bundle's card. Whoever is not named is not on it."""

    shared: tuple[SharedCard, ...] = ()


class BundleShown(Frozen):
    """What a bundle's card shows now."""

    open: tuple[str, ...] = ()
    """The approvals of which it cannot show the end yet."""
    frozen: tuple[str, ...] = ()
    """Those whose calls are frozen, until they are settled."""
