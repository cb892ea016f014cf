"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `4h` or `1d`."""
    match = re.fullmatch("([0-9]+)([smhd])", text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 90s, 15m, 4h or 1d")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise ValueError(f"{text} is longer than any approval can wait") from None
