"""Bodies of requests, read strictly: what two readers could understand differently is refused, with its path."""

from __future__ import annotations

import json
from typing import Any

from assent.errors import Unhashable
from assent.payload import MAX_EXACT_INTEGER, canonical_json


class NotJson(ValueError):
    """The body is not JSON at all."""


class _Repeating(dict[str, Any]):
    """An object in which a name was given twice."""

    name: str


def parse(body: bytes) -> Any:
    """The JSON of a body. Raises NotJson, or Unhashable for what could not be carried exactly."""
    try:
        found = json.loads(body.decode(), object_pairs_hook=_object, parse_int=_integer)
    except ValueError as error:  # neither UTF-8 nor JSON; the text of a decoding error quotes the body
        where = f" at character {error.pos}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        raise NotJson(f"the body is not JSON in UTF-8{where}") from None
    except RecursionError:
        raise NotJson("the JSON is nested too deeply") from None
    _refuse_repeats(found, "$")
    canonical_json(found)  # refuses NaN, infinities, large integers, lone surrogates and depth, with their path
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    repeating = _Repeating(found)
    repeating.name = next(name for name in names if names.count(name) > 1)
    return repeating


def _integer(digits: str) -> int:
    """An integer; of one with absurdly many digits only that it is too large."""
    return int(digits) if len(digits) < 20 else MAX_EXACT_INTEGER + 1


def _refuse_repeats(value: Any, path: str) -> None:
    level = [(value, path)]
    while level:
        found, where = level.pop()
        match found:
            case _Repeating():
                raise Unhashable(f"{where}.{found.name}", "this name is given twice; which one is meant?")
            case dict():
                level.extend((item, f"{where}.{name}") for name, item in found.items())
            case list():
                level.extend((item, f"{where}[{n}]") for n, item in enumerate(found))
