"""What an approval is told and asked, beside decisions."""

from __future__ import annotations

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Surface, Text


class Withdrawal(Frozen):
    """The *cancel* signal."""

    reason: Text | None = None
    actor: Identity | None = None
    surface: Surface = Surface.TEMPORAL


class Supersession(Frozen):
    """The *supersede* signal."""

    by: Id


class CallAsks(Frozen):
    """The *asking* signal of a question to the approval whose running tool asks it: it is open, or no longer."""

    question_id: Id
    is_open: bool


class VerdictQuestion(Frozen):
    """The *verdict* query: what became of that sending of that click?"""

    event_id: str
    delivery_id: str | None
