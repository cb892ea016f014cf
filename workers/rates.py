"""How much an agent may ask of one process: as much as it likes at once, as long as the time allows it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class _Bucket:
    left: float
    filled_at: float


class Rates:
    """Counts what each principal asks of this process.

    window: for how many seconds a limit is meant.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, window: float = 60) -> None:
        self._clock = clock
        self._window = window
        self._buckets: dict[str, _Bucket] = {}

    def take(self, principal: str, most: int, count: int = 1) -> int | None:
        """Count so much; or, where it is too much, in how many seconds it is worth asking again."""
        now = self._clock()
        bucket = self._buckets.setdefault(principal, _Bucket(most, now))
        bucket.left = min(most, bucket.left + (now - bucket.filled_at) * most / self._window)
        bucket.filled_at = now
        if bucket.left >= count:
            bucket.left -= count
            return None
        missing = min(count, most) - bucket.left
        return max(1, math.ceil(missing * self._window / most))

    def give_back(self, principal: str, count: int) -> None:
        """What was counted has not been used after all."""
        self._buckets[principal].left += count
