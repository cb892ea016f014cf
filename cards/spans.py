"""A length of time as people say it."""

from __future__ import annotations

from datetime import timedelta

from cards.wording import Both, Wording

_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}


def span(length: timedelta, wording: Wording) -> Both:
    """The length in the largest unit that tells it exactly enough: 7 days, 36 hours, 90 minutes."""
    seconds = max(1, round(length.total_seconds()))
    unit, size = next((unit, size) for unit, size in _UNITS.items() if seconds % size == 0 or seconds >= 3 * size)
    count = round(seconds / size)
    return wording(f"span.{unit}") if count == 1 else wording(f"span.{unit}s", count=str(count))
