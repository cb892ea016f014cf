"""A call as people read it: its values as text, and what it is about in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, NamedTuple

from assent.contracts.presentation import Presentation, placeholders
from assent.masking import MASK
from assent.safe import one_line, shortened

_LABEL_CHARACTERS = 24
_VALUE_CHARACTERS = (40, 32, 24, 18, 12, 8)
"""How much of a value stands in the line: as much as leaves room for all the others."""
_LOOKED_AT = 1000
"""Characters behind the beginning of a value that can matter for how it is read."""
_BETWEEN = " · "
_NOTHING = "–"
_MOST_TELLING = 3
_DEEPEST = 3
_NEEDED = (
    "to cc bcc recipient receiver target destination dest customer client vendor account user member assignee email "
    "phone address iban payer payee beneficiary amount total price sum cost fee discount percent currency ccy unit "
    "quantity qty"
)
_ALWAYS = frozenset(_NEEDED.split())
"""Words in an argument's name that are never left out: whom a call reaches, how much, and of what."""
_WORDS = (
    "order path file url uri host server service repo repository branch project environment env database table "
    "channel chat title subject name id command query"
)
_SALIENT = {word: rank for rank, word in enumerate(_WORDS.split())}
"""Words in an argument's name that tell what a call is about, the most telling first."""
_LIKE_ANOTHER_VALUE = re.compile(rf'true|false|null|{_NOTHING}|{re.escape(MASK)}|-?[0-9][0-9.eE+-]*|".*|', re.DOTALL)
"""Strings that without quotation marks would look like a number, a constant, something hidden or nothing at all."""
_DECIMAL = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "《": "》"}


def written(value: Any, *, is_decimal: bool = False) -> str:
    """A value as text: strings as they are, unless that could be misread, everything else as JSON.

    is_decimal: whether a text of digits can be nothing but a decimal number.
    """
    if isinstance(value, str):
        if is_decimal and _DECIMAL.fullmatch(value):
            return value
        misread = _LIKE_ANOTHER_VALUE.fullmatch(value) or ("\n" not in value and value != value.strip())
        return _quoted(value) if misread else value
    laid_out, compact = (json.dumps(value, ensure_ascii=False, indent=indent) for indent in (2, None))
    return laid_out if len(laid_out) <= 3 * len(compact) + 200 else compact  # depth is mostly indentation


class Spoken(NamedTuple):
    """An argument as it is named in a line."""

    name: str
    label: str
    """What people call it."""
    value: Any
    text: str
    """The whole value."""
    masked: bool = False

    @classmethod
    def all_of(cls, values: Mapping[str, Any], read: Presentation, sensitive: Sequence[str]) -> tuple[Spoken, ...]:
        """The arguments of a call by their names, as their tool declares them one after the other."""
        return tuple(
            cls(name, name, MASK, MASK, masked=True)
            if name in sensitive
            else cls(name, name, values[name], written(values[name], is_decimal=name in read.decimals))
            for name in read.sorted(values)
        )

    def said(self, most: int) -> str:
        """Its value on one line, at most so long."""
        if self.masked:
            return MASK
        if self.value is None:
            return _NOTHING
        if isinstance(self.value, list) and self.value and all(isinstance(each, str) for each in self.value):
            return _listed(self.value, most)
        if isinstance(self.value, dict | list):
            return shortened(one_line(json.dumps(self.value, ensure_ascii=False)[: _LOOKED_AT + most]), most)
        said = shortened(one_line(self.text[: _LOOKED_AT + most]), most)
        # What parts two arguments cannot stand in one of them: it would pass for another.
        return _quoted(said) if isinstance(self.value, str) and "·" in said else said

    def pair(self, most: int) -> str:
        """What it is called, and its value."""
        return f"{shortened(one_line(self.label), _LABEL_CHARACTERS)}: {self.said(most)}"

    def leaves(self, depth: int = 0) -> Iterator[Spoken]:
        """It, or what it is made of."""
        if self.masked or not isinstance(self.value, dict) or not self.value or depth == _DEEPEST:
            yield self
            return
        for key, value in self.value.items():
            inner = Spoken(f"{self.name}.{key}", f"{self.label}.{key}", value, written(value))
            yield from inner.leaves(depth + 1)

    @property
    def says_something(self) -> bool:
        return self.masked or self.value not in (None, "", [], {})

    @property
    def is_short(self) -> bool:
        return "\n" not in self.text and len(self.text) <= 2 * _VALUE_CHARACTERS[0]

    @property
    def is_scalar(self) -> bool:
        return not self.masked and not isinstance(self.value, dict | list)


@dataclass(frozen=True)
class Line:
    """What a call is about: as its tool says it, or else by its most telling arguments."""

    summary: str | None
    arguments: tuple[Spoken, ...]

    def within(self, most: int) -> str:
        """It in some *most* characters. What is long is shortened, so that nothing that matters is left out."""
        if self.summary is None:
            return self._telling(most)
        told = next((line for line in self._told() if len(line) <= most), None)
        told = told if told is not None else [*self._told()][-1]
        if placeholders(self.summary):
            return told
        return _BETWEEN.join(filter(None, (told, self._telling(max(0, most - len(told) - len(_BETWEEN))))))

    def _told(self) -> Iterator[str]:
        """The tool's own line, with ever less of long values."""
        parts = [*Formatter().parse(self.summary or "")]
        known = {each.name: each for each in self.arguments}
        for cap in _VALUE_CHARACTERS:
            line = ""
            for n, (literal, name, _, _) in enumerate(parts):
                line += literal
                if name:
                    after = parts[n + 1][0] if n + 1 < len(parts) else ""
                    line += _within_words(known[name], cap, literal, after) if name in known else _NOTHING
            yield one_line(line)

    def _telling(self, most: int) -> str:
        """Whom it reaches, how much and of what, and what else tells most; in the order of the signature."""
        leaves = [each for argument in self.arguments for each in argument.leaves() if each.says_something]
        always = [each for each in leaves if _words(each.name) & _ALWAYS]
        others = [each for each in leaves if each not in always and each.is_scalar and each.is_short]
        others = sorted(others, key=lambda each: _salience(each.name))
        named = {each.name for each in (*always, *others[: max(0, _MOST_TELLING - len(always))])}
        chosen = [each for each in leaves if each.name in named]
        for cap in _VALUE_CHARACTERS:
            line = _BETWEEN.join(each.pair(cap) for each in chosen)
            if len(line) <= most:
                return line
        return _counted([each.pair(_VALUE_CHARACTERS[-1]) for each in chosen], _BETWEEN, most)


def _within_words(argument: Spoken, most: int, before: str, after: str) -> str:
    """A value in the midst of the tool's own words, of which none of it can pass for one."""
    said = argument.said(most)
    if not isinstance(argument.value, str) or argument.masked:
        return said
    closing = _QUOTES.get(before[-1:])
    if closing is not None and after[:1] == closing:
        return said.replace(closing, f"\\{closing}")
    return _quoted(said) if any(map(str.isspace, said)) and not said.startswith('"') else said


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _listed(texts: Sequence[str], most: int) -> str:
    """Texts one after the other, and how many there are besides."""
    return _counted([_quoted(one_line(each)) if "," in each else one_line(each) for each in texts], ", ", most)


def _counted(parts: Sequence[str], between: str, most: int) -> str:
    """As many of the parts as fit, at least the beginning of one, and how many there are besides."""
    whole = between.join(parts)
    if len(whole) <= most:
        return whole
    for count in range(len(parts) - 1, 0, -1):
        line = f"{between.join(parts[:count])} (+{len(parts) - count})"
        if len(line) <= most or count == 1:
            break
    if len(line) <= most:
        return line
    more = f" (+{len(parts) - 1})" if len(parts) > 1 else ""
    return shortened(parts[0], max(1, most - len(more))) + more


def _words(name: str) -> frozenset[str]:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    found = re.split(r"[_\W]+", parts.lower())
    singular = (word[: -len(end)] for word in found for end in ("s", "es") if word.endswith(end))
    return frozenset((*found, *singular))


def _salience(name: str) -> int:
    return min(_SALIENT.get(word, len(_SALIENT)) for word in _words(name))
