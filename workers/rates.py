"""How often an agent may ask: as much as it likes at once, as long as the minute allows it."""

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
    """Counts what each principal asks of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, principal: str, per_minute: int, count: int = 1) -> int | None:
        """Count these requests; or, where they are too many, in how many seconds they are worth making again."""
        now = self._clock()
        bucket = self._buckets.setdefault(principal, _Bucket(per_minute, now))
        bucket.left = min(per_minute, bucket.left + (now - bucket.filled_at) * per_minute / 60)
        bucket.filled_at = now
        if bucket.left >= count:
            bucket.left -= count
            return None
        missing = min(count, per_minute) - bucket.left
        return max(1, math.ceil(missing * 60 / per_minute))
