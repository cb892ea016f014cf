"""Keeping to a pace, and remembering for a while; both in bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

_SPARE = 0.1
_WINDOW = 1.0 + _SPARE
"""A second and a little more: what left at the right pace may arrive closer together."""
_MOST_WINDOWS = 10_000

Value = TypeVar("Value")


class TooLate(Exception):
    """A turn would come later than the caller is willing to wait."""

    def __init__(self, wait: float) -> None:
        super().__init__(f"a turn comes in {wait:.1f} s")
        self.wait = wait


class Window:
    """So many turns in any second, given out in the order they are asked for."""

    def __init__(self, turns: int) -> None:
        self._given: deque[float] = deque(maxlen=turns)
        self._queue = asyncio.Lock()

    def book(self, now: float, patience: float) -> float:
        """When the next turn is; `TooLate`, and nothing booked, if that is too late."""
        at = now
        if self._given:
            at = max(at, self._given[-1] + 1e-6)  # nobody overtakes
        if len(self._given) == self._given.maxlen:
            at = max(at, self._given[0] + _WINDOW)
        if at - now > patience:
            raise TooLate(at - now)
        self._given.append(at)
        return at

    def is_idle(self, now: float) -> bool:
        """Whether forgetting this window changes nothing."""
        return not self._queue.locked() and (not self._given or self._given[-1] + _WINDOW <= now)

    async def turn(self, patience: float) -> None:
        """Wait for one's turn; not at all if it would come too late."""
        at = self.book(time.monotonic(), patience)
        async with self._queue:  # timers alone do not keep the order: the loop rounds them to milliseconds
            if (left := at - time.monotonic()) > 1e-3:
                await asyncio.sleep(left)


class Pacer:
    """A window for each destination and one for all. Whoever waits for one destination holds up no other."""

    def __init__(self, *, each: int, overall: int, patience: float) -> None:
        self._each = each
        self._all = Window(overall)
        self._patience = patience
        self._windows: OrderedDict[str, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    async def turn(self, destination: str, patience: float | None = None) -> None:
        """Wait for the turn to address this destination, or raise `TooLate`."""
        began, patience = time.monotonic(), self._patience if patience is None else patience
        await self.window(destination, began).turn(patience)
        # Only now: a call that waits for its own destination takes no turn away from the others meanwhile.
        await self._all.turn(max(patience - (time.monotonic() - began), _SPARE))

    def window(self, destination: str, now: float) -> Window:
        """The window of a destination; those that have been quiet are forgotten."""
        window = self._windows.pop(destination, None) or Window(self._each)
        self._windows[destination] = window
        oldest = next(iter(self._windows))
        while oldest != destination and (len(self) > _MOST_WINDOWS or self._windows[oldest].is_idle(now)):
            del self._windows[oldest]
            oldest = next(iter(self._windows))
        return window


class Memory(Generic[Value]):
    """What was learned, each for its time, at most so many."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, key: str, value: Value, seconds: float) -> None:
        self._known.pop(key, None)
        self._known[key] = (self._clock() + seconds, value)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    def __contains__(self, key: str) -> bool:
        return key in self._known and self._known[key][0] > self._clock()

    def __getitem__(self, key: str) -> Value:
        return self._known[key][1]

    def get(self, key: str, otherwise: Value) -> Value:
        """What was learned, unless its time is over."""
        return self._known[key][1] if key in self else otherwise
