"""What a user of the command line typed, read strictly, or refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from assent import strict_json
from assent.contracts.identity import Identity

_Parsed = TypeVar("_Parsed")


def read(parse: Callable[[str], _Parsed]) -> Callable[[click.Context, click.Parameter, str | None], _Parsed | None]:
    """A click callback that parses a value, or says in one sentence why it cannot."""

    def callback(context: click.Context, parameter: click.Parameter, value: str | None) -> _Parsed | None:
        try:
            return parse(value) if value is not None else None
        except ValidationError as error:
            raise click.BadParameter(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def arguments(given: str) -> dict[str, Any]:
    """A JSON object."""
    found = value(given)
    if not isinstance(found, dict):
        raise ValueError('the arguments must be a JSON object, such as {"name": "value"}')
    return found


def value(given: str) -> Any:
    """JSON, strictly: what two readers could understand differently is refused."""
    return strict_json.parse(_text_of(given))


def result(given: str) -> Any:
    """JSON, or a plain text."""
    return strict_json.parse_or_text(_text_of(given))


def _text_of(given: str) -> str:
    """The text itself, or what `-` (standard input) or `@file` stands for."""
    if given == "-":
        return sys.stdin.buffer.read().decode("utf-8-sig")
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{given[1:]!r} cannot be read: {error.strerror}") from None


def person(text: str) -> str:
    """Somebody, or `*` for anyone."""
    if text != "*":
        Identity.parse(text)
    return text


def asked(text: str) -> str:
    """Somebody, `*` for anyone, or `chat:…` for the members of a chat."""
    return text if text.startswith("chat:") and text != "chat:" else person(text)
