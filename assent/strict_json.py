"""JSON from outside, read strictly: what two readers could understand differently is refused, with its path.

Time and memory grow with the text and no faster; how deep it nests and how many values it holds is known before any
of them is made.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from assent.errors import Unhashable
from assent.payload import MAX_EXACT_INTEGER, Place, refuse_inexact

MOST_VALUES = 200_000
"""How many values a text may hold, the empty ones too."""
_MOST_NESTED = 200
"""How deep a text may nest to be read at all; whoever keeps what it says allows less, and says where it is too deep."""
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{][ \t\n\r]*+[\]}]|[\[\]{},]', re.DOTALL)
"""Strings whole, what is empty, and what opens, separates and closes. Nothing in it is tried again and again."""


class NotJson(ValueError):
    """The text is not JSON at all, or more of it than is read."""


class TooManyValues(NotJson):
    """The text holds more values than are read."""


class _Repeating(dict[str, Any]):
    """An object in which a name was given twice."""

    name: str


def parse(
    text: str | bytes,
    *,
    exact: bool = True,
    parse_float: Callable[[str], Any] | None = None,
    most_values: int = MOST_VALUES,
) -> Any:
    """The value of a JSON text. Raises NotJson, or Unhashable for what cannot be read in one way only.

    exact: refuse also what canonical JSON cannot carry: integers beyond 2^53, lone surrogates, depths.
    most_values: how many values it may hold, where that is fewer than any text may.
    """
    said = _decoded(text)
    measure(said, most_values)
    objects = _Objects()
    try:
        found = json.loads(
            said, object_pairs_hook=objects.made, parse_int=_integer if exact else int, parse_float=parse_float
        )
    except json.JSONDecodeError as error:
        where = f"in line {error.lineno}, column {error.colno}"
        raise NotJson(f"this is not JSON: {error.msg} {where} (character {error.pos})") from None
    except RecursionError:
        raise NotJson("the JSON is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    if objects.repeats:
        _refuse_repeats(found, [])
    if exact:
        refuse_inexact(found)
    else:
        _refuse_infinite(found, [])
    return found


class _Objects:
    """Makes objects, and notes whether a name was given twice in any."""

    def __init__(self) -> None:
        self.repeats = False

    def made(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self.repeats = True
        repeating, seen = _Repeating(found), set[str]()
        for name, _ in pairs:
            if name in seen:
                repeating.name = name
                break
            seen.add(name)
        return repeating


def parse_or_text(typed: str) -> Any:
    """What a person typed as a result: JSON if it is that, else the text itself. Raises ValueError for half of either.

    What begins like an object, a list or a string in JSON and is none was meant as JSON.
    """
    try:
        return parse(typed)
    except ValueError:
        text = typed.strip()
        if text.startswith(("{", "[", '"')) or not all(c.isprintable() or c in "\n\r\t" for c in text):
            raise
        refuse_inexact(text)
        return text


def _decoded(text: str | bytes) -> str:
    try:
        return text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise NotJson("this is not JSON: it is not UTF-8") from None


def measure(text: str, most_values: int = MOST_VALUES) -> None:
    """Refuse depths and crowds before any of their values is made."""
    opened = text.count("[") + text.count("{")
    if opened <= _MOST_NESTED and opened + text.count(",") <= most_values:
        return
    depth = values = 0
    for match in _STRUCTURE.finditer(text):
        mark = text[match.start()]
        if mark in "[{":
            is_empty = match.end() - match.start() > 1
            if depth == _MOST_NESTED:
                raise NotJson("the JSON is nested too deeply")
            if not is_empty:
                depth, values = depth + 1, values + 1
        elif mark in "]}":
            depth -= 1
        elif mark == ",":
            values += 1
        if values > most_values:
            raise TooManyValues(f"the JSON holds more than {most_values} values")


def _integer(digits: str) -> int:
    """An integer; of one with absurdly many digits only that it is too large."""
    return int(digits) if len(digits) < 20 else MAX_EXACT_INTEGER + 1


def _refuse_repeats(value: Any, place: list[Place]) -> None:
    if isinstance(value, _Repeating):
        raise Unhashable.at([*place, value.name], "this name is given twice; which one is meant?")
    for name, item in _inside(value):
        place.append(name)
        _refuse_repeats(item, place)
        place.pop()


def _refuse_infinite(value: Any, place: list[Place]) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Unhashable.at(place, f"{value} is not a JSON number")
    for name, item in _inside(value):
        place.append(name)
        _refuse_infinite(item, place)
        place.pop()


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()
