"""What a tool says of its files when it fails, without what is in them."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

from assent.masking import MASK

_LONGEST = 16
"""From so many bytes on that a text shares with a file, it quotes the file."""
_STEP = _LONGEST // 2
_SHORTEST = 4
"""A smaller file is quoted by nothing: its bytes stand everywhere."""
_MOST_LOOKS = 100_000
"""How often a text is compared with files in vain before all of it is hidden."""


def unquoted(text: str, files: Iterable[Path]) -> str:
    """A text in which nothing stands that is longer than a word and stands in one of the files, too."""
    data = text.encode("utf-8", "replace")
    hidden = bytearray(len(data))
    try:
        for path in files:
            _mark(data, path, hidden)
    except (OSError, _TooMany):
        return MASK
    shown, place = [], 0
    while place < len(data):
        end = next((n for n in range(place, len(data)) if hidden[n] != hidden[place]), len(data))
        shown.append(MASK if hidden[place] else data[place:end].decode("utf-8", "ignore"))
        place = end
    return "".join(shown)


class _TooMany(Exception):
    """It is alike in too many places."""


def _mark(data: bytes, path: Path, hidden: bytearray) -> None:
    """Mark what a text shares with a file. Whatever is long enough holds one of the parts into which the file falls."""
    size = path.stat().st_size
    if size < _SHORTEST:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        if size < _LONGEST:
            _mark_all(data, held[:], hidden)
            return
        places: dict[bytes, list[int]] = {}
        for n in range(len(data) - _STEP + 1):
            places.setdefault(data[n : n + _STEP], []).append(n)
        looks = 0
        for start in range(0, size - _STEP + 1, _STEP):
            for n in places.get(held[start : start + _STEP], ()):
                if hidden[n] and hidden[n + _STEP - 1]:
                    continue
                looks += 1
                if looks > _MOST_LOOKS:
                    raise _TooMany
                _mark_around(data, n, held, start, hidden)


def _mark_around(data: bytes, n: int, held: mmap.mmap, start: int, hidden: bytearray) -> None:
    before, after = 0, _STEP
    while before < min(n, start) and data[n - before - 1] == held[start - before - 1]:
        before += 1
    while n + after < len(data) and start + after < len(held) and data[n + after] == held[start + after]:
        after += 1
    if before + after >= _LONGEST:
        hidden[n - before : n + after] = b"\x01" * (before + after)


def _mark_all(data: bytes, small: bytes, hidden: bytearray) -> None:
    n = data.find(small)
    while n >= 0:
        hidden[n : n + len(small)] = b"\x01" * len(small)
        n = data.find(small, n + 1)
