"""The words in which the card schema is written: each checks one value and complains about it, or says nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import bad_card

MALFORMED = 200621
UNSUPPORTED_TAG = 200861
OVER_LIMIT = 11310

MOST_ELEMENTS = 200
DEEPEST = 5


@dataclass
class Reading:
    """One reading of one card: what it defines itself, and what has been counted so far."""

    text_sizes: frozenset[str] = frozenset()
    colors: frozenset[str] = frozenset()
    elements: int = 0
    depth: int = 0
    element_ids: set[str] = field(default_factory=set)


Check = Callable[[Any, Reading, str], None]


def anything(value: Any, reading: Reading, path: str) -> None:
    """Whatever JSON stands here."""


def string(value: Any, reading: Reading, path: str) -> None:
    if not isinstance(value, str):
        raise bad_card(MALFORMED, f"{path} must be a string")


def boolean(value: Any, reading: Reading, path: str) -> None:
    if not isinstance(value, bool):
        raise bad_card(MALFORMED, f"{path} must be true or false")


def mapping(value: Any, reading: Reading, path: str) -> None:
    if not isinstance(value, dict):
        raise bad_card(MALFORMED, f"{path} must be an object")


def integer(least: int, most: int) -> Check:
    def check(value: Any, reading: Reading, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise bad_card(MALFORMED, f"{path} must be a whole number from {least} to {most}")

    return check


def one_of(*words: str) -> Check:
    def check(value: Any, reading: Reading, path: str) -> None:
        if value not in words:
            raise bad_card(MALFORMED, f"{path} must be one of {', '.join(words)}, not {value!r}")

    return check


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def like(pattern: str, what: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: Any, reading: Reading, path: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise bad_card(MALFORMED, f"{path} must be {what}, not {value!r}")

    return check


def array(item: Check, *, least: int = 0, most: int | None = None) -> Check:
    def check(value: Any, reading: Reading, path: str) -> None:
        if not isinstance(value, list):
            raise bad_card(MALFORMED, f"{path} must be a list")
        if len(value) < least or (most is not None and len(value) > most):
            raise bad_card(OVER_LIMIT, f"{path} has {len(value)} items")
        for index, each in enumerate(value):
            item(each, reading, f"{path}[{index}]")

    return check


def keyed(value_check: Check, key_check: Check = anything) -> Check:
    """An object whose keys the author chooses."""

    def check(value: Any, reading: Reading, path: str) -> None:
        mapping(value, reading, path)
        for key, each in value.items():
            key_check(key, reading, f"{path}.{key}")
            value_check(each, reading, f"{path}.{key}")

    return check


def struct(properties: dict[str, Check], *required: str) -> Check:
    """An object with these properties and no others."""

    def check(value: Any, reading: Reading, path: str) -> None:
        mapping(value, reading, path)
        for name in required:
            if name not in value:
                raise bad_card(MALFORMED, f"{path} lacks the property {name}")
        for name, each in value.items():
            if name not in properties:
                raise bad_card(MALFORMED, f"unknown property {name} at {path}")
            properties[name](each, reading, f"{path}.{name}")

    return check


def tagged(shapes: dict[str, Check]) -> Check:
    """An object whose tag says which shape it has. Every such object counts as an element of the card."""

    def check(value: Any, reading: Reading, path: str) -> None:
        mapping(value, reading, path)
        tag = value.get("tag")
        if tag not in shapes:
            raise bad_card(UNSUPPORTED_TAG, f"unsupported tag {tag}; ErrPath: {path}")
        reading.elements += 1
        if reading.elements > MOST_ELEMENTS:
            raise bad_card(OVER_LIMIT, f"element exceeds the limit of {MOST_ELEMENTS}")
        shapes[tag](value, reading, path)

    return check


def deeper(check_inside: Check) -> Check:
    """What stands inside a component, one level further down."""

    def check(value: Any, reading: Reading, path: str) -> None:
        reading.depth += 1
        if reading.depth > DEEPEST:
            raise bad_card(OVER_LIMIT, f"{path} is nested deeper than {DEEPEST} levels")
        check_inside(value, reading, path)
        reading.depth -= 1

    return check


def element_id(value: Any, reading: Reading, path: str) -> None:
    like("[A-Za-z][A-Za-z0-9_]{0,19}", "a letter and up to 19 letters, digits or underscores")(value, reading, path)
    if value in reading.element_ids:
        raise bad_card(MALFORMED, f"{path} repeats the element_id {value}")
    reading.element_ids.add(value)


def color(value: Any, reading: Reading, path: str) -> None:
    """A name of the palette, a name that the card defines, or nothing at all."""
    if value != "" and value not in reading.colors:
        like(r"[a-z]+(-\d{2,3})?|bg-white|rgba\([\d\s.,%]+\)|#[0-9A-Fa-f]{6}", "a colour")(value, reading, path)


_TEXT_SIZES = frozenset(
    words(
        "heading-0 heading-1 heading-2 heading-3 heading-4 heading normal notation "
        "xxxx-large xxx-large xx-large x-large large medium small x-small"
    )
)


def text_size(value: Any, reading: Reading, path: str) -> None:
    if value not in _TEXT_SIZES and value not in reading.text_sizes:
        raise bad_card(MALFORMED, f"{path} is no text size: {value!r}")


_AT_ALL = re.compile(r"<at\b[^>]*\b(?:id|ids|user_id|email)\s*=\s*[\"']?\s*all\b", re.IGNORECASE)


def mentions_everyone(text: str) -> bool:
    return _AT_ALL.search(text) is not None


def markdown_text(value: Any, reading: Reading, path: str) -> None:
    """Text in which markup counts. No chat here lets the bot mention everyone, and such a card is refused whole."""
    string(value, reading, path)
    if mentions_everyone(value):
        raise bad_card(MALFORMED, f"{path} mentions everyone, and the bot has no permission to")
