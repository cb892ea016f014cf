"""Waiting for answers so that those who never get one hold up nobody else.

Whoever answers does so within a second. A destination that does not is *silent*: from then on it is asked by one call
at a time, and all silent ones together by a few, until it answers. Whoever is in a hurry does not ask it at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from activities.feishu.pacing import Memory
from activities.lanes import Lanes, TurnedAway

_SILENT_FOR = 120.0
"""How long a destination of which nothing more is heard counts as silent: more than the longest pause between tries."""
_MOST_SILENT = 10_000
_WORTH_ASKING = 0.1
"""The share of its time that somebody in a hurry must have left to begin with another call."""
_TELLING = 0.5
"""The share of its time that a call must have had before its end says something about the destination."""


class NoAnswer(Exception):
    """Asked, and not answered in time: whether it happened is not known."""


@dataclass
class _Hurry:
    """The time of one who is in a hurry: it begins with the first call."""

    until: float | None = None


_hurry: ContextVar[_Hurry | None] = ContextVar("hurry", default=None)


@contextmanager
def hurried() -> Iterator[None]:
    """Give everything that is asked in here a second altogether: a workflow's task waits for it."""
    before = _hurry.set(_Hurry())
    try:
        yield
    finally:
        _hurry.reset(before)


def is_hurried() -> bool:
    return _hurry.get() is not None


class Breaker:
    """Keeps apart those who answer and those who do not."""

    def __init__(self, *, soon: float, hurried: int, silent: int) -> None:
        """Make one.

        soon: the seconds in which whoever is well answers.
        hurried: how many calls in a hurry may wait at the same time.
        silent: how many calls may wait for longer than that at the same time.
        """
        self._soon = soon
        self._hurried = Lanes(each=hurried, overall=hurried)
        self._patient = Lanes(each=1, overall=silent)
        self._silent: Memory[None] = Memory(_MOST_SILENT)

    def check(self, destination: str) -> None:
        """Raise `TurnedAway` if a call would be turned away just now: whatever prepares it can be spared."""
        hurry = _hurry.get()
        if destination in self._silent and (hurry or not self._patient.has_room(destination)):
            raise TurnedAway
        if hurry and not self._hurried.has_room(destination):
            raise TurnedAway

    @asynccontextmanager
    async def answered(self, destination: str, longest: float) -> AsyncIterator[None]:
        """Wait for an answer, for as long as the destination's health and one's own hurry allow."""
        self.check(destination)
        hurry = _hurry.get()
        waiting = self._in_a_hurry(destination, hurry) if hurry else self._patiently(destination, longest)
        async with waiting:
            yield
        self._silent.forget(destination)

    @asynccontextmanager
    async def _in_a_hurry(self, destination: str, hurry: _Hurry) -> AsyncIterator[None]:
        now = time.monotonic()
        hurry.until = hurry.until or now + self._soon
        left = hurry.until - now
        if left < self._soon * _WORTH_ASKING:
            raise TurnedAway
        with self._hurried.taken(destination):
            try:
                async with asyncio.timeout(left):
                    yield
            except TimeoutError:
                if left >= self._soon * _TELLING:
                    self._silent.keep(destination, None, _SILENT_FOR)
                raise NoAnswer from None

    @asynccontextmanager
    async def _patiently(self, destination: str, longest: float) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        with ExitStack() as lane:

            def fall_silent() -> None:
                self._silent.keep(destination, None, _SILENT_FOR)
                try:
                    lane.enter_context(self._patient.taken(destination))
                except TurnedAway:
                    limit.reschedule(loop.time())

            if destination in self._silent:
                lane.enter_context(self._patient.taken(destination))
            alarm = None if destination in self._silent else loop.call_later(self._soon, fall_silent)
            try:
                async with asyncio.timeout(longest) as limit:
                    yield
            except TimeoutError:
                self._silent.keep(destination, None, _SILENT_FOR)
                raise NoAnswer from None
            finally:
                if alarm is not None:
                    alarm.cancel()
