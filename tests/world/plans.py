"""What is asked for, what goes wrong, and who says what: drawn from a seed, printable, cut down to what matters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

START_WITHIN = 60.0
HEARTBEAT = 6.0
IN_FLIGHT = 300.0
TTL = 1800.0
REQUESTERS = ("me", "you", "me by another id")
_HEAVY = 600_000


@dataclass(frozen=True)
class Kind:
    """A tool, as far as it matters here."""

    name: str
    timeout: float
    retry_safe: bool = False
    has_probe: bool = False
    in_flight: float | None = None
    stoppable: bool = False
    """Whether its code ends when it is cancelled; a thread does not."""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("plain", 10),
        Kind("stoppable", 10, stoppable=True),
        Kind("slow", 150),
        Kind("probed", 10, has_probe=True),
        Kind("flying", 10, has_probe=True, in_flight=IN_FLIGHT),
        Kind("safe", 10, retry_safe=True),
        Kind("safe_probed", 10, retry_safe=True, has_probe=True),
        Kind("safe_flying", 10, retry_safe=True, has_probe=True, in_flight=IN_FLIGHT),
        Kind("safe_slow", 150, retry_safe=True, has_probe=True),
    )
}


class End(StrEnum):
    """What a body says in the end."""

    TRUTH = "says what is so"
    """It returns if it took effect, and says that it failed if it did not."""
    FAILS = "says that it failed"
    """What it says if it took no effect itself, whatever another attempt did before: it could not even connect."""
    RAISES = "raises"
    NEVER = "never ends"


@dataclass(frozen=True)
class Script:
    """What one execution of a body does."""

    lasts: float
    """How many seconds its code runs, where nothing stops it."""
    effect_at: float | None
    """After how many seconds it takes effect, None: never. Later than it lasts: what it sent was on its way."""
    end: End = End.TRUTH
    weighs: int = 0
    """How many characters more than necessary it answers with."""


@dataclass(frozen=True)
class Look:
    """What one probe does: it looks, and answers later what it saw then."""

    answer: str = "honest"
    """`honest`, `unknown` or `raises`."""
    looks_after: float = 0.1
    answers_after: float = 0.1


@dataclass(frozen=True)
class Asked:
    """One approval."""

    at: float
    decided_after: float
    decision: str = "approve"
    """`approve`, `reject`, `cancel`, `none`."""
    scope: str = "same"
    """Approvals of one scope share their key."""
    requester: str = "me"
    """Who asks: `me`, `you`, or `me by another id`, of which nobody knows whose it is."""
    thread: str | None = None
    """The conversation in which it is asked for."""
    when_pending: str = "allow"
    """`allow`, `fail` or `supersede`."""


@dataclass(frozen=True)
class Answered:
    """What somebody says to a question."""

    after: float
    says: str = "staging"
    flaw: str | None = None
    """Why it cannot count, one of FLAWS, or of RUN_FLAWS where a run asks; None: it can."""
    times: int = 1
    """How often the same is sent."""

    @property
    def can_count(self) -> bool:
        return self.flaw is None


FLAWS = ("wrong hash", "outsider", "no option")
RUN_FLAWS = (*FLAWS, "another run", "unsigned")


@dataclass(frozen=True)
class Questioned:
    """One question: where to? It is answered by the person who is asked."""

    at: float
    ttl: float
    answers: tuple[Answered, ...] = ()
    cancelled_after: float | None = None
    reset_after: float | None = None
    terminated_after: float | None = None
    is_said_again: bool = True
    """Whether what was said before a reset reaches it again."""

    @property
    def is_left_alone(self) -> bool:
        """Whether nobody meddles with it but by answering."""
        return self.cancelled_after is self.reset_after is self.terminated_after is None


@dataclass(frozen=True)
class Needed:
    """What a program asks at a prompt: where to?"""

    ttl: float
    answers: tuple[Answered, ...] = ()
    cancelled_after: float | None = None
    reset_after: float | None = None
    terminated_after: float | None = None
    dies: str | None = None
    """Where whoever holds the pipe dies: as soon as the line is `claimed`, or once it is `written`."""
    takers: int = 1
    """How many would fetch the line over HTTP."""
    is_said_again: bool = True

    @property
    def is_left_alone(self) -> bool:
        return False


HOLDERS = ("worker", "client", "host")


@dataclass(frozen=True)
class Ran:
    """One run of a program that asks one thing after the other."""

    at: float
    holder: str
    """Who holds the pipe to it: one of HOLDERS."""
    needs: tuple[Needed, ...]
    killed_after: float | None = None
    """When whoever holds the pipe is killed."""
    ends_after: float | None = None
    """When the program ends, whatever it waits for."""


class Blow(StrEnum):
    KILL = "killed"
    STOP = "stopped"
    SILENCE = "silenced"
    CUT = "cut off from the ledger"
    DRAIN = "drained"
    APPROVALS = "the approvals worker is killed"
    TERMINATE = "an approval is terminated"
    TERMINATE_REVIEW = "the review is terminated"
    RESET = "an approval is reset"
    RESET_UNSAID = "an approval is reset, and decided anew"
    RESET_REJECTED = "an approval is reset, and rejected this time"
    CUT_APPROVALS = "the approvals worker is cut off from the ledger"
    PURGE = "an approval is forgotten and asked for again"
    DENY = "the policy denies the tool"
    ALLOW = "the policy allows it again"
    CHANGE = "the policy changes, not for the tool"


@dataclass(frozen=True)
class Fault:
    at: float
    blow: Blow
    whom: int = 0
    lasts: float = 0.0


@dataclass(frozen=True)
class Said:
    """What an operator says, some time after a review was opened."""

    after: float
    kind: str
    """`executed`, `not_executed`, `retry`, or `truth`."""


@dataclass(frozen=True)
class Plan:
    seed: int
    tool: str
    asked: tuple[Asked, ...]
    scripts: tuple[Script, ...] = ()
    looks: tuple[Look, ...] = ()
    faults: tuple[Fault, ...] = ()
    said: tuple[Said, ...] = ()
    questions: tuple[Questioned, ...] = ()
    runs: tuple[Ran, ...] = ()
    wrong_clocks: tuple[float, ...] = (0.0, 0.0)
    """By how much the clock of each tools worker is wrong."""
    continues_after: int = 0
    """After how many activities a workflow is told to continue as new, 0: never."""
    sweeps: bool = True
    """Whether the sweeper runs all the time, or only in the end."""
    calm: bool = False
    """Whether every step takes no time, and every message arrives."""
    tags: tuple[str, ...] = field(default=(), compare=False)

    def smaller(self) -> Iterator[Plan]:
        """The plans with one thing less."""
        for name in ("faults", "said", "asked", "questions", "runs", "looks", "scripts"):
            things = getattr(self, name)
            for place in range(len(things)):
                if name != "asked" or len(things) > 1:
                    yield replace(self, **{name: things[:place] + things[place + 1 :]})
        if self.continues_after:
            yield replace(self, continues_after=0)
        if any(self.wrong_clocks):
            yield replace(self, wrong_clocks=(0.0, 0.0))
        if not self.calm:
            yield replace(self, calm=True)

    def __str__(self) -> str:
        lines = [f"Plan(seed={self.seed}, tool={self.tool!r}, calm={self.calm}, sweeps={self.sweeps},"]
        lines.append(f"    continues_after={self.continues_after},")
        for name in ("asked", "scripts", "looks", "faults", "said", "questions", "runs"):
            things = "".join(f"\n        {thing!r}," for thing in getattr(self, name))
            lines.append(f"    {name}=({things}\n    )," if things else f"    {name}=(),")
        return "\n".join([*lines, f"    wrong_clocks={self.wrong_clocks!r})"])


def drawn(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    draw = random.Random(seed)
    kind = draw.choice(list(KINDS.values()))
    asked = tuple(_asked(draw) for _ in range(draw.choices((1, 2, 3), (3, 4, 2))[0]))
    curious, prompting = random.Random(f"{seed}/questions"), random.Random(f"{seed}/runs")
    words, weights = ("retry", "truth", "executed", "not_executed"), (8, 2, 1, 1)
    return Plan(
        seed=seed,
        tool=kind.name,
        asked=asked,
        scripts=tuple(_script(draw, kind) for _ in range(8)),
        looks=tuple(_look(draw) for _ in range(12)) if kind.has_probe else (),
        faults=tuple(_fault(draw, len(asked)) for _ in range(draw.choices((0, 1, 2, 3, 5), (3, 5, 5, 3, 1))[0])),
        said=tuple(Said(_soon(draw), word) for word in draw.choices(words, weights, k=draw.randint(0, 4))),
        questions=tuple(_questioned(curious) for _ in range(curious.choice((0, 0, 1, 2)))),
        runs=tuple(_ran(prompting) for _ in range(prompting.choice((0, 0, 1, 2)))),
        wrong_clocks=tuple(draw.choice((0.0, 0.0, 7200.0, -7200.0, draw.uniform(-30, 30))) for _ in range(2)),
        continues_after=draw.choice((0, 0, 0, 3, 6)),
        sweeps=draw.random() < 0.8,
        calm=draw.random() < 0.3,
    )


def _soon(draw: random.Random) -> float:
    return draw.choice((0.5, draw.uniform(0, 5), draw.uniform(0, 30), draw.uniform(0, 300)))


def _asked(draw: random.Random) -> Asked:
    return Asked(
        at=draw.choice((0.0, draw.uniform(0, 20), draw.uniform(0, 60), draw.uniform(0, 600))),
        decided_after=draw.choice((0.5, draw.uniform(0, 30))),
        decision=draw.choices(("approve", "reject", "cancel", "none"), (16, 1, 1, 1))[0],
        scope=draw.choices(("same", "other"), (5, 1))[0],
        requester=draw.choices(REQUESTERS, (8, 1, 1))[0],
        thread=draw.choice((None, "one")),
        when_pending=draw.choices(("allow", "fail", "supersede"), (6, 1, 1))[0],
    )


def _questioned(draw: random.Random) -> Questioned:
    """Mostly answered, at times by several at once and near the deadline."""
    ttl = draw.choice((5.0, 60.0, 600.0))
    answers = _answers(draw, ttl, FLAWS, draw.randint(0, 4))
    withdrawn, reset, ended = (
        draw.choice((None, None, None, draw.uniform(0, 1.1 * ttl), draw.uniform(0, 3))) for _ in range(3)
    )
    return Questioned(draw.uniform(0, 300), ttl, answers, withdrawn, reset, ended, draw.random() < 0.5)


def _answers(draw: random.Random, ttl: float, flaws: tuple[str, ...], count: int) -> tuple[Answered, ...]:
    near = (0.1, draw.uniform(0, 5), draw.uniform(0, 1.2 * ttl), ttl + draw.uniform(-1, 2))
    return tuple(
        Answered(
            draw.choice(near),
            draw.choice(("staging", "production")),
            draw.choice((None, None, *flaws)),
            draw.choice((1, 1, 3)),
        )
        for _ in range(count)
    )


def _ran(draw: random.Random) -> Ran:
    needs = tuple(_needed(draw) for _ in range(draw.randint(1, 3)))
    when = (draw.choice((None, None, None, draw.uniform(0, 10), draw.uniform(0, 100))) for _ in range(2))
    return Ran(draw.uniform(0, 300), draw.choice(("worker", "worker", "client", "client", "host")), needs, *when)


def _needed(draw: random.Random) -> Needed:
    """Mostly answered at once, so that there is a line to be lost."""
    ttl = draw.choice((5.0, 60.0, 300.0))
    answers = _answers(draw, ttl, RUN_FLAWS, draw.randint(0, 3))
    if draw.random() < 0.7:
        answers = (Answered(draw.uniform(0, 2), draw.choice(("staging", "production"))), *answers)
    withdrawn, reset, ended = (
        draw.choice((*(None,) * 7, draw.uniform(0, 1.1 * ttl), draw.uniform(0, 3))) for _ in range(3)
    )
    dies = draw.choice((None, None, None, "claimed", "written"))
    takers, is_said_again = draw.choice((1, 1, 2)), draw.random() < 0.5
    return Needed(ttl, answers, withdrawn, reset, ended, dies, takers, is_said_again)


def _script(draw: random.Random, kind: Kind) -> Script:
    """Mostly near the limits: about as long as the tool may take, with an end that does not say what happened."""
    around = draw.uniform(0.5, 3) * kind.timeout
    lasts = draw.choice((draw.uniform(0, 1), draw.uniform(0, kind.timeout), around, draw.uniform(0, 6 * kind.timeout)))
    end = draw.choices(list(End), (5, 4, 5, 1))[0]
    furthest = lasts if kind.in_flight is None else lasts + draw.choice((0, kind.in_flight / 2))
    effect_at = draw.choice((None, None, 0.0, lasts * 0.99, draw.uniform(0, lasts), draw.uniform(0, furthest)))
    if effect_at is not None and effect_at > lasts:
        end = End.RAISES
    return Script(lasts, effect_at, end, weighs=_HEAVY if draw.random() < 0.05 else 0)


def _look(draw: random.Random) -> Look:
    answer = draw.choices(("honest", "unknown", "raises"), (8, 1, 1))[0]
    return Look(answer, draw.choice((0.0, draw.uniform(0, 4))), draw.choice((0.0, draw.uniform(0, 11))))


def _fault(draw: random.Random, approvals: int) -> Fault:
    lasts = draw.choice((draw.uniform(0, 5), draw.uniform(0, 60), draw.uniform(0, 900)))
    return Fault(_soon(draw), draw.choice(list(Blow)), draw.randrange(max(approvals, 2)), lasts)
