"""So many calls at a time to each, and so many altogether."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class TurnedAway(Exception):
    """Not asked at all: the destination is silent, or too many wait already."""


class Lanes:
    """So many at a time for each key, and so many altogether. Nobody waits for one: there is one, or there is none."""

    def __init__(self, *, each: int, overall: int) -> None:
        self._each = each
        self._overall = overall
        self._taken: Counter[str] = Counter()

    def has_room(self, key: str) -> bool:
        return self._taken[key] < self._each and self._taken.total() < self._overall

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """Take a lane, or raise `TurnedAway`."""
        if not self.has_room(key):
            raise TurnedAway
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken -= Counter({key: 1})
