"""Rate limits: how often something may happen within a span of time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    times: int
    seconds: float


PER_RECIPIENT = (Limit(5, 1),)
"""Messages to one chat or person."""
PER_MESSAGE = (Limit(5, 1),)
"""Updates of one card."""
PER_APP = (Limit(50, 1), Limit(1000, 60))
"""Calls of one endpoint."""


class Limits:
    """Remembers when things happened. What was refused does not count."""

    def __init__(self) -> None:
        self._happened: dict[str, deque[float]] = {}

    def wait(self, key: str, limits: tuple[Limit, ...], now: float) -> float:
        """How many seconds until `key` may happen again: 0 if it may now, and then it is counted."""
        happened = self._happened.setdefault(key, deque())
        longest = max(limit.seconds for limit in limits)
        while happened and happened[0] <= now - longest:
            happened.popleft()
        for limit in limits:
            if len(happened) >= limit.times:
                frees_up = happened[-limit.times] + limit.seconds
                if frees_up > now:
                    return frees_up - now
        happened.append(now)
        return 0.0

    def clear(self) -> None:
        self._happened.clear()
