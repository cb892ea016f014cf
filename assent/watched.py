"""A file that is read again when it changes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
_SETTLED = 2.0
"""How old a change must be, in seconds, for the file's times to tell it from the next one."""

_Held = TypeVar("_Held")


class Watched(Generic[_Held]):
    """What a file holds. A file that can no longer be read changes nothing: what was read last stays, and is logged."""

    def __init__(self, path: Path, load: Callable[[Path], _Held]) -> None:
        """Raises what *load* raises, a ValueError with a sentence."""
        self._path = path
        self._load = load
        self._sign = _sign(path)
        self._held = load(path)
        self._said = ""

    @property
    def held(self) -> _Held:
        """What the file holds now."""
        sign = _sign(self._path)
        if sign == self._sign and sign is not None:
            return self._held
        try:
            self._held, said = self._load(self._path), ""
        except ValueError as error:
            said = f"{error}; what was read before stays in force"
        if said and said != self._said:  # once for each mistake
            _log.error("%s", said)
        self._sign, self._said = sign, said
        return self._held


def _sign(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None while it may change once more without that being seen."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    is_settled = time.time() - found.st_mtime > _SETTLED
    return (found.st_mtime_ns, found.st_size, found.st_ino) if is_settled else None
