"""Time that passes only when nothing is left to do, and clocks that disagree about it."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as real
import selectors
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EPOCH = real.datetime(2026, 1, 1, tzinfo=real.UTC)
offset: contextvars.ContextVar[float] = contextvars.ContextVar("offset", default=0.0)
"""By how many seconds the clock of the present process is wrong."""


class Stuck(Exception):
    """Nothing will ever happen any more."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that sleeps without waiting."""

    def __init__(self) -> None:
        self._virtual = 0.0
        self.conditions: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        """What is waited for: looked at whenever anything may have changed."""
        self._lost: list[asyncio.Future[None]] = []
        """What is waited for in vain, kept: what nobody keeps is thrown away, which goes on in it once more."""
        self.io = 0
        """How many are waiting for something real: a database over a socket."""
        self._waker = _Waker(self)
        super().__init__(self._waker)
        self.set_exception_handler(lambda _loop, _context: None)  # who was killed is never finished

    def time(self) -> float:
        return self._virtual

    def advance(self, seconds: float) -> None:
        self._virtual += seconds

    async def never(self) -> None:
        """Wait for what never comes."""
        self._lost.append(self.create_future())
        await self._lost[-1]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something has come true."""
        future: asyncio.Future[None] = self.create_future()
        self.conditions.append((is_so, future))
        await future

    def look(self) -> bool:
        """Wake whoever waits for something that has come true."""
        woken = False
        for condition in list(self.conditions):
            is_so, future = condition
            if future.done():
                self.conditions.remove(condition)
            elif is_so():
                self.conditions.remove(condition)
                future.set_result(None)
                woken = True
        return woken


class _Waker(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 or self._loop.look():
            return super().select(0) if self._loop.io else []
        if self._loop.io:
            return super().select(5)
        if timeout is None:
            raise Stuck
        self._loop.advance(timeout)
        return []


def now() -> real.datetime:
    """The true time."""
    return EPOCH + real.timedelta(seconds=asyncio.get_running_loop().time())


class _Datetime(real.datetime):
    @classmethod
    def now(cls, tz: real.tzinfo | None = None) -> Any:
        return now() + real.timedelta(seconds=offset.get())


@contextmanager
def clocks_of_processes() -> Iterator[None]:
    """Whatever asks what time it is, is told by the clock of its own process."""
    rooms = ("ledger", "activities", "workers")
    modules = [
        module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in rooms and getattr(module, "datetime", None) is real.datetime
    ]
    for module in modules:
        module.__dict__["datetime"] = _Datetime
    try:
        yield
    finally:
        for module in modules:
            module.__dict__["datetime"] = real.datetime
