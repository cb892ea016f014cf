"""What an approval begins with, and takes along when it continues as new."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.audit import AuditEntry
from assent.contracts.bundles import Carded
from assent.contracts.decision import Decision, Judged, Remember
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.quotas import AgentLimits
from assent.contracts.request import Request
from assent.contracts.values import Frozen


class Shelf(Frozen):
    """The cards of an approval, by their message ids."""

    generation: int = 0
    sent_at: datetime | None = None
    """When the newest of them were there."""
    message_ids: tuple[str, ...] = ()
    refused: str | None = None
    """Why none of them can be delivered."""
    complete: bool = True
    """Whether none is on its way."""
    due: bool = False
    """Whether others are to take their place."""
    held_until: datetime | None = None
    """Until when they are held back, because one that is shared with others may come."""
    shared: Carded | None = None
    """The card that is shared with others."""


class Carried(Frozen):
    """What an approval takes along when it continues as new."""

    plan: Plan
    opened_at: datetime
    cards: Shelf
    judged: tuple[Judged, ...]
    unwritten: tuple[AuditEntry, ...]
    early: tuple[Decision, ...] = ()
    """Clicks on messages that nobody knows yet."""
    malformed: int
    unnoted: int = 0
    """Refusals that found no room to be recorded in."""
    bench: Bench | None = None
    """How far the approvers have come."""
    reviewing: Reviewing | None = None
    """The result that waits to be released, if it has come that far."""


class Reviewing(Frozen):
    """A result that waits to be released."""

    outcome: Outcome
    """How the call ended, without what is sealed."""
    content_sha256: str
    deadline: datetime
    cards: Shelf = Shelf()


class Counted(Frozen):
    """An approval that counts."""

    stage: int
    event_id: str
    actor: Identity
    is_member: bool = False
    """Whether it counts only because its actor belongs to a chat."""
    remember: Remember | None = None


class Bench(Frozen):
    """Who has approved, who may besides those whom the plan names, and who no longer."""

    stage: int = 0
    counted: tuple[Counted, ...] = ()
    rejected_by: tuple[Identity, ...] = ()
    delegations: tuple[tuple[Identity, Identity], ...] = ()
    delegated_in: tuple[int, ...] = ()
    """In which stage each of them was made, and counts."""
    reminded: bool = False
    escalated: bool = False


class Asked(Frozen):
    """Input of the approval workflow."""

    request: Request
    carried: Carried | None = None
    limits: AgentLimits = AgentLimits()
    """How much its agent may have asked for, as the door knew it."""
