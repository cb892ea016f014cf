"""How an ended approval is recorded and announced: *record_ending* and *announce*."""

from __future__ import annotations

from datetime import datetime

from assent import names
from assent.contracts.answers import QuestionOutcome
from assent.contracts.approvers import Deciders
from assent.contracts.audit import AuditEntry, ClosingHead
from assent.contracts.decision import Judged
from assent.contracts.outcome import Outcome
from assent.contracts.runs import InteractionEvent
from assent.contracts.values import Frozen


class Conclusion(Frozen):
    """Input of *record_ending*: how the approval ended, for the record."""

    outcome: Outcome
    entries: tuple[AuditEntry, ...]
    judged: tuple[Judged, ...]
    closed_at: datetime
    deciders: Deciders | None = None
    """Whose it was to decide, where others than the plan names were called in; whoever comes later is judged by it."""
    cards_later: bool = False
    """Whether something older is still on its way to the cards, and the ending comes after it."""


class Recorded(Frozen):
    """What *record_ending* did."""

    outcome: Outcome
    """The ending that stands."""
    cards_due: bool = False
    """Whether a card does not show it yet."""


class Announcement(Frozen):
    """Input of *announce*: how an approval or a question ended, for whoever asked to be told."""

    url: str
    outcome: Outcome | None = None
    question: QuestionOutcome | None = None
    """Instead of it, where a question ended."""
    interaction: InteractionEvent | None = None
    """What is posted of it instead, where a run asked it."""
    ended_at: datetime
    asked_by: str | None = None
    """The agent that asked, whose secrets sign it."""
    audit: ClosingHead | None = None
    """How its audit was closed; known when it is posted."""

    @property
    def record(self) -> str:
        """What it is called that ended, in audits."""
        if self.question is not None:
            return names.question_workflow(self.question.question_id)
        assert self.outcome is not None, "something has ended"
        return self.outcome.approval_id
