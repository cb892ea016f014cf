"""What a decision needs to know of the world outside: what goes into *weigh*, and what comes out."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.approvers import Approvers
from assent.contracts.decision import Decision
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen


class Weighing(Frozen):
    """Input of *weigh*: what a decision, or the beginning of the call, needs to know of the world outside."""

    approval_id: str
    approvers: Approvers
    """The group whose members are meant."""
    actors: tuple[Identity, ...] = ()
    """Whose membership is asked for."""
    decision: Decision | None = None
    """The edit that is to be checked."""
    payload_sha256: str
    """The call as it stands before."""
    now: datetime


class Weighed(Frozen):
    """What *weigh* found."""

    outsiders: tuple[Identity, ...] = ()
    """Those of the actors who do not belong to the group."""
    plan: Plan | None = None
    """The plan as edited, which is stored and stands from here on, if the edit counts."""
    invalid: str | None = None
    """Why the edit cannot be."""
