"""Processes: they can be killed, stopped, silenced and cut off, and each has a ledger that may not answer."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from ledger import Ledger, OutOfReach
from tests.world import clock
from tests.world.clock import VirtualLoop

if TYPE_CHECKING:
    from tests.world.history import History

present: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
"""The process that the present code runs in."""
begun: contextvars.ContextVar[tuple[str, float] | None] = contextvars.ContextVar("begun", default=None)
"""The consent under which the present code was given the right to run, and the true time of that."""


class Process:
    """One worker process: what it does to the world it does step by step, and at each step something may stop it."""

    def __init__(self, history: History, name: str, wrong_by: float = 0.0) -> None:
        self.history, self.name, self.wrong_by = history, name, wrong_by
        self.is_dead = self.is_leaving = False
        self.stopped_until = self.silent_until = self.cut_until = 0.0
        self.activities: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self.ledger = cast("Ledger", _Reach(self))
        self.at_work = 0
        self.own: Any = None
        """Its tools."""
        self.context = contextvars.copy_context()
        self.context.run(present.set, self)
        self.context.run(clock.offset.set, wrong_by)

    def serve(self, activities: object) -> None:
        """Take what these do."""
        for name in dir(activities):
            method = getattr(activities, name)
            if definition := getattr(method, "__temporal_activity_definition", None):
                self.activities[definition.name] = method

    @property
    def is_heard(self) -> bool:
        """Whether Temporal hears of it."""
        moment = asyncio.get_running_loop().time()
        return not self.is_dead and moment >= max(self.stopped_until, self.silent_until)

    async def step(self) -> None:
        """Go on after a while, if at all."""
        await self.sleep(self.history.latency())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        left = self.stopped_until - asyncio.get_running_loop().time()
        if left > 0 and not self.is_dead:
            await self.sleep(left)
        if self.is_dead:
            await never()


async def never() -> None:
    """Whoever waits here was killed."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await loop.never()


class _Reach:
    """The ledger as one process reaches it: slowly, not at all, or without hearing the answer."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        process, history = self._process, self._process.history
        method = getattr(history.ledger, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def ask(*args: Any, **more: Any) -> Any:
            await process.step()
            self._arrive()
            answer = await history.transaction(method, *args, **more)
            await history.oracle.asked(name, args, answer)
            if name == "begin" and answer.right == "run":
                begun.set((args[0].consent, asyncio.get_running_loop().time()))
            await process.step()
            self._arrive()
            return answer

        return ask

    def _arrive(self) -> None:
        is_cut = asyncio.get_running_loop().time() < self._process.cut_until
        if is_cut or self._process.history.chance(0.004):
            raise OutOfReach("out of reach")
