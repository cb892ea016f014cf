"""Random schedules: what is asked for, what breaks and when, all of it drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.faults.table import Moment


class Blow(StrEnum):
    """What strikes while calls are at their moments."""

    NONE = "none"
    KILL = "SIGKILL of the tool worker"
    STOP = "SIGSTOP past the heartbeat, then SIGCONT"
    DRAIN = "SIGTERM"
    LEAVE = "SIGTERM twice"
    DROP = "every connection to the ledger broken"
    CUT = "the ledger out of reach until the next worker is there"
    SILENCE = "Temporal hears nothing until the heartbeat is missed"
    APPROVALS = "SIGKILL of the approvals worker"
    RESET = "the workflow is reset"
    TERMINATE = "the workflow is terminated"
    DENY = "the policy denies the tools until everything has ended"


LINGERING = ("outlives", "late")
"""The tools whose code may go on after its time."""
POSTGRES_ONLY = (Blow.DROP, Blow.CUT)
ON_SQLITE = (Moment.TOOL, Moment.REPORT)
"""The moments at which a call can be held on SQLite without holding every other call, too."""


@dataclass(frozen=True)
class Asked:
    """One approval: which tool, and where the call is when the blow falls. None: wherever it happens to be."""

    tool: str
    moment: Moment | None
    twin_of: int | None = None
    """The earlier approval with the same key, None where it has one of its own."""


@dataclass(frozen=True)
class Plan:
    seed: int
    ledger: str
    asked: tuple[Asked, ...]
    blow: Blow
    delay: float
    """Where nothing holds a call, how long after the approval the blow falls."""
    open_first: bool
    """Whether the tools may end before the next worker is there."""
    settles: str
    """What the operator says of a frozen call: the truth, or to try again."""
    lingers: float
    """For how many seconds what may outlive its time is left to do so."""
    reset_at_end: bool
    purged_at_end: bool
    """Whether Temporal forgets the approvals in the end, and they are asked for again."""
    hours_ahead: int
    """By how much the clock of whichever worker comes to help is wrong."""
    ends_reviews: bool
    """Whether somebody ends the reviews by hand, before the operator speaks and after a retry was promised."""

    def __str__(self) -> str:
        calls = ", ".join(
            f"{one.tool} {one.moment or 'anywhere'}" + (f" (key of {one.twin_of})" if one.twin_of is not None else "")
            for one in self.asked
        )
        wrong = f"; a clock {self.hours_ahead:+d} h" if self.hours_ahead else ""
        wrong += "; reviews are ended by hand" if self.ends_reviews else ""
        wrong += "; reset in the end" if self.reset_at_end else ""
        wrong += "; purged in the end" if self.purged_at_end else ""
        return f"seed {self.seed}: {self.ledger}; {calls}; {self.blow}; operator: {self.settles}{wrong}"


def drawn(seed: int) -> Plan:
    """The schedule of a seed, always the same."""
    draw = random.Random(seed)
    ledger = draw.choice(("sqlite", "postgres"))
    blow = draw.choice([blow for blow in Blow if ledger == "postgres" or blow not in POSTGRES_ONLY])
    moments = tuple(Moment) if ledger == "postgres" else ON_SQLITE
    asked: list[Asked] = []
    for number in range(draw.randint(1, 3)):
        if number and draw.random() < 0.4:
            asked.append(Asked(asked[0].tool, None, twin_of=0))
            continue
        tools = ("effect", "safe", "raises", "refuses", "probed", "lost", "outlives", "late")
        tool = draw.choices(tools, (6, 3, 1, 1, 1, 2, 2, 2))[0]
        asked.append(Asked(tool, draw.choice((None, *moments)) if tool in ("effect", "safe") else None))
    return Plan(
        seed=seed,
        ledger=ledger,
        asked=tuple(asked),
        blow=blow,
        delay=draw.random() * 0.4,
        open_first=draw.random() < 0.5,
        settles=draw.choice(("truth", "retry")),
        # The first probe of a review comes five seconds after a call that has two was given up.
        lingers=draw.choice((0.0, draw.uniform(2, 6), draw.uniform(8, 12))),
        reset_at_end=draw.random() < 0.3,
        purged_at_end=draw.random() < 0.2,
        # SQLite's clock is the machine's: no process on it can have another one.
        hours_ahead=draw.choice((0, 0, 2, -2)) if ledger == "postgres" else 0,
        ends_reviews=draw.random() < 0.3,
    )
