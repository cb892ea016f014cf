"""The state of one approval: a value that only the functions of this package make into another."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from assent.contracts.audit import AuditEvent
from assent.contracts.bundles import Carded
from assent.contracts.decision import Decision, Judged
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.quotas import AgentLimits
from assent.contracts.request import Request
from assent.contracts.state import Progress
from assent.contracts.status import Phase, Status
from assent.contracts.values import Frozen, Surface
from assent.core.cards import Cards
from assent.core.notes import Notes
from assent.core.panel import Panel


class Ending(Frozen):
    """How an approval ended."""

    status: Status
    reason: str | None = None
    by: Identity | None = None
    """Whoever ended it, where somebody did."""


class Interruption(Frozen):
    """What ends an approval without a decision: a withdrawal, a newer request, the policy, the deadline."""

    status: Status
    event: AuditEvent
    reason: str | None = None
    by: Identity | None = None
    """Whom the outcome names,"""
    actor: Identity | None = None
    """and whom the audit does."""
    surface: Surface | None = None
    grant_id: str | None = None


class Unplanned(Frozen):
    """An approval before there is a plan: what is said of it waits."""

    request: Request
    notes: Notes[Judged] = Notes[Judged]()
    early: tuple[Decision, ...] = ()
    """Decisions that wait for what they are judged by."""
    carded: Carded | None = None
    """The card of its bundle, where that came first."""
    ending: Ending | None = None
    is_recorded: bool = False
    """Whether the ledger has the ending."""
    is_closed: bool = False

    @property
    def decided_by(self) -> Identity | None:
        return self.ending.by if self.ending else None

    @property
    def told_ending(self) -> Ending | None:
        """How it ended, once the ledger has it."""
        return self.ending if self.is_recorded else None


class SealedResult(Frozen):
    """A result that waits to be released."""

    outcome: Outcome
    """How the call ended, without what is sealed."""
    content_sha256: str
    deadline: datetime
    cards: Cards = Cards()
    decision: Decision | None = None
    """What was decided about it."""
    is_over: bool = False
    """Whether nobody is waited for any more."""


class Planned(Frozen):
    """An approval with its plan, from the moment it can be decided to its end."""

    plan: Plan
    opened_at: datetime
    phase: Phase = Phase.PENDING
    is_begun: bool = False
    """Whether the call was handed to a worker: from then on it can be neither cancelled nor superseded."""
    notes: Notes[Judged] = Notes[Judged]()
    panel: Panel = Panel()
    early: tuple[Decision, ...] = ()
    """Decisions that wait for their card, or behind the one that is asked about."""
    asking: Decision | None = None
    """The decision that waits for an answer from outside; later ones wait behind it."""
    decision: Decision | None = None
    """The one that was enough."""
    ending: Ending | None = None
    put_off: Interruption | None = None
    """What came while those who had decided were looked at once more: it counts if they do not."""
    is_recorded: bool = False
    """Whether the ledger has the ending. Until then one without an execution may turn out to be another."""
    cards: Cards = Cards()
    shared: Carded | None = None
    """The card on which it is shown among others."""
    other_messages: tuple[str, ...] = ()
    """Messages on which it is shown that are no cards of its own."""
    expects_cards: bool = False
    """Whether a click on a message that nobody knows may be on a card that is just arriving."""
    renewal: int = 0
    """How often the cards became others: an edit, the next stage, somebody called in, a reminder."""
    is_reminding: bool = False
    """Whether that was because nobody decides."""
    news: int = 0
    """How often something changed that the cards should say."""
    is_heard_again: bool = False
    """Whether what was said of it may be heard once more, because it was reset or its worker died."""
    result: SealedResult | None = None
    questions: tuple[str, ...] = ()
    """What its running tool asks, while it does."""
    is_indexed: bool = True
    """Whether the ledger knows whom it waits for."""

    @property
    def wait_is_over(self) -> bool:
        """Whether nobody is waited for any more before the call."""
        return self.decision is not None or self.ending is not None or self.is_begun

    @property
    def needs_nobody(self) -> bool:
        """Whether it runs, or is refused, without asking."""
        return self.plan.needs_nobody

    @property
    def queue(self) -> str:
        """Where the call is made: at the tool's own workers, or where whoever decided through a trusted door says."""
        decision = self.decision
        if decision is None or decision.surface in (Surface.FEISHU, Surface.HTTP):
            return self.plan.queue
        return decision.dispatch_queue or self.plan.queue

    @property
    def decided_by(self) -> Identity | None:
        if self.decision is not None:
            return self.decision.actor
        if self.ending is not None:
            return self.ending.by
        return self.plan.grant.granted_by if self.plan.grant else None

    @property
    def approved_by(self) -> tuple[Identity, ...]:
        """Everybody whose approval counted."""
        return tuple(one.actor for one in self.panel.counted)

    @property
    def progress(self) -> Progress:
        """How far the approvers have come."""
        return self.panel.progress(self.plan, self.notes.judged)

    @property
    def accepted(self) -> Judged | None:
        """The decision that stands, as it is remembered."""
        return self.notes.verdict_on(self.decision.event_id) if self.decision else None

    @property
    def told_ending(self) -> Ending | None:
        """How it ended, once that can be told: after an execution its claim knows it, otherwise the ledger has to."""
        return self.ending if self.is_begun or self.is_recorded else None

    @property
    def messages(self) -> frozenset[str]:
        """Every message on which it can be decided."""
        shared = self.shared.message_ids if self.shared else ()
        released = self.result.cards.message_ids if self.result else ()
        return frozenset((*self.cards.message_ids, *shared, *self.other_messages, *released))


Approval = TypeVar("Approval", Unplanned, Planned)
"""An approval, with or without its plan."""


class Asked(Frozen):
    """Input of the approval workflow."""

    request: Request
    limits: AgentLimits = AgentLimits()
    """How much its agent may have asked for, as the door knew it."""
    state: Planned | None = None
    """How it stood when a former run, whose history had grown long, left it."""
