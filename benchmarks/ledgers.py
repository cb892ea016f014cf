"""Ledgers for measuring: a real one with a stopwatch on every step, and one that keeps nothing at all."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from assent.content import Content
from assent.contracts.conclude import Conclusion
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.policy import Override, Policy
from assent.contracts.prepare import Prepared
from assent.contracts.quotas import NO_LIMITS, Limits
from assent.contracts.request import Request
from assent.persons import Person
from ledger import Beginning, Ending, Holder, Ledger, Numbers, Right
from ledger.engine import Connection, Engine

STEPS = (
    *("tool_and_person", "policy", "register", "intend", "sent"),
    *("plan", "begin", "finish", "conclude", "record", "shows"),
)
"""What one approval asks of the ledger, in order; four of them only where there are cards. The policy is read at most
once a second, however many approvals there are."""
STATEMENT, COMMIT = "statement", "commit"

Ask = Callable[..., Awaitable[Any]]
PerFlow = dict[str, tuple[float, float]]
"""How often, and for how many milliseconds, each thing happened per flow."""


class Stopwatch:
    """Seconds and counts by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] += seconds
        self.counts[name] += 1

    def clear(self) -> None:
        self.seconds.clear()
        self.counts.clear()

    def per_flow(self, flows: int) -> PerFlow:
        names = (*STEPS, STATEMENT, COMMIT)
        return {name: (self.counts[name] / flows, 1000 * self.seconds[name] / flows) for name in names}

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - began)


class _Watched:
    """A connection with a stopwatch on each statement."""

    def __init__(self, connection: Connection, stopwatch: Stopwatch) -> None:
        self._connection, self._stopwatch = connection, stopwatch
        self.dialect, self.stream = connection.dialect, connection.stream

    async def execute(self, *asked: Any) -> Any:
        with self._stopwatch.timing(STATEMENT):
            return await self._connection.execute(*asked)


def watch(ledger: Ledger, stopwatch: Stopwatch) -> None:
    """Time each statement on this ledger's database, and each commit from its last statement until it is told."""
    engine: Any = ledger.engine
    write, read = engine.write, engine.read

    async def writing(operation: Ask, *args: Any, **kwargs: Any) -> Any:
        done = time.monotonic()

        async def watched(connection: Connection) -> Any:
            nonlocal done
            answer = await operation(_Watched(connection, stopwatch), *args, **kwargs)
            done = time.monotonic()
            return answer

        answer = await write(watched)
        stopwatch.add(COMMIT, time.monotonic() - done)
        return answer

    async def reading(operation: Ask, *args: Any, **kwargs: Any) -> Any:
        return await read(lambda connection: operation(_Watched(connection, stopwatch), *args, **kwargs))

    engine.write, engine.read = writing, reading


def timed(ledger: Ledger, stopwatch: Stopwatch) -> Ledger:
    """The ledger with a stopwatch on what one approval asks of it."""
    for step in STEPS:
        setattr(ledger, step, _timed(getattr(ledger, step), step, stopwatch))
    return ledger


def _timed(ask: Ask, step: str, stopwatch: Stopwatch) -> Ask:
    async def asked(*args: Any, **kwargs: Any) -> Any:
        with stopwatch.timing(step):
            return await ask(*args, **kwargs)

    return asked


class NoLedger(Ledger):
    """Answers like the ledger and remembers nothing: an approval without the cost of SQL, and without its guarantee."""

    def __init__(self, manifests: dict[str, Manifest]) -> None:
        super().__init__(cast("Engine", None))  # whoever asks it took a step that is not known here
        self._manifests = manifests
        self._plans: dict[str, Plan] = {}

    async def tool_and_person(self, tool: str, identity: Identity) -> tuple[Manifest | None, Person]:
        return self._manifests.get(tool), Person.of(identity)

    async def register(
        self,
        request: Request,
        plan: Plan | None,
        refused: str | None,
        *,
        now: datetime,
        open_until: datetime,
        namespace: str | None = None,
        limits: Limits = NO_LIMITS,
    ) -> Prepared:
        if plan is not None:
            self._plans[request.approval_id] = plan
        return Prepared(plan=plan, refused=refused)

    async def overrides(self) -> Mapping[str, Override]:
        return {}

    async def policy(self) -> Policy | None:
        return None

    async def person(self, identity: Identity) -> Person:
        return Person.of(identity)

    async def plan(self, approval_id: str, payload_sha256: str | None = None) -> Plan | None:
        return self._plans.get(approval_id)

    async def begin(
        self, call: ToolCall, holder: Holder, *, may_start: bool = True, policy: Numbers | None = None
    ) -> Beginning:
        return Beginning(right=Right.RUN)

    async def finish(self, call: ToolCall, holder: Holder, attempt: int, ending: Ending) -> Report:
        content = ending.content if ending.content is not None else Content.of(None)
        return content.report(ReportKind(ending.state))

    async def conclude(self, conclusion: Conclusion, denied: str | None = None) -> Outcome:
        return conclusion.outcome
