"""What a call is, in one line: as its tool says it, or else by its most telling arguments."""

from __future__ import annotations

import json
import re
from string import Formatter
from typing import NamedTuple

from assent.contracts.plan import Plan
from assent.safe import one_line, shortened
from cards.arguments import Argument, arguments_of
from cards.wording import Both

_TOOL_CHARACTERS = 120
_NAME_CHARACTERS = 24
_VALUE_CHARACTERS = 40
_ABOUT_CHARACTERS = 160
_MOST_TELLING = 3
_NEEDED = (
    "to recipient recipients target customer client vendor account user email address iban payee beneficiary "
    "amount total price sum currency unit"
)
_ALWAYS = frozenset(_NEEDED.split())
"""Words in an argument's name that are never left out: whom a call reaches, how much, and of what."""
_WORDS = (
    "order path file url uri host server service repo repository branch project environment env database table "
    "channel chat title subject name id quantity command query"
)
_SALIENT = {word: rank for rank, word in enumerate(_WORDS.split())}
"""Words in an argument's name that tell what a call is about, the most telling first."""


class Headline(NamedTuple):
    """What a call is."""

    title: Both
    """What its tool is called,"""
    about: Both
    """and what it is about; may be nothing."""
    is_told: bool
    """Whether the tool itself says so."""
    is_named: bool
    """Whether its tool has a title besides its name."""

    @property
    def question(self) -> Both:
        """The title as a part of a sentence."""
        return Both(f"“{self.title.en}”", f"“{self.title.zh}”") if self.is_named else self.title

    @property
    def call(self) -> Both:
        """Both, on one line; where the tool says what its calls are, that alone."""
        if self.is_told:
            return self.about
        return Both(*(" · ".join(filter(None, pair)) for pair in zip(self.title, self.about, strict=True)))


def headline(plan: Plan) -> Headline:
    """What a call is, in one line."""
    arguments, read = arguments_of(plan), plan.presentation
    name = shortened(one_line(plan.subject), _TOOL_CHARACTERS)
    title = Both(read.title.en, read.title.zh) if read.title else Both(name, name)
    if read.summary:
        values = {each.name: _value(each) for each in arguments}
        about = Both(_filled(read.summary.en, values), _filled(read.summary.zh, values))
    else:
        about = _telling(arguments)
    return Headline(title, about, is_told=read.summary is not None, is_named=read.title is not None)


def cut(text: Both, most: int) -> Both:
    """Both languages, shortened."""
    return Both(*(shortened(each, most) for each in text))


def _filled(summary: str, values: dict[str, str]) -> str:
    """The tool's own line; an argument that has no value is a dash."""
    parts = Formatter().parse(summary)
    line = "".join(literal + (values.get(name, "–") if name else "") for literal, name, _, _ in parts)
    return shortened(one_line(line), _ABOUT_CHARACTERS)


def _telling(arguments: list[Argument]) -> Both:
    """Whom it reaches, how much and of what, and what else tells most; in the order of the signature."""
    always = [each for each in arguments if _words(each.name) & _ALWAYS and _says_something(each)]
    others = [each for each in arguments if each not in always and each.is_scalar and _says_something(each)]
    others = sorted((each for each in others if _is_short(each)), key=lambda each: _salience(each.name))
    chosen = {each.name for each in (*always, *others[: max(0, _MOST_TELLING - len(always))])}
    said = [_pair(each) for each in arguments if each.name in chosen]
    return cut(Both(" · ".join(each.en for each in said), " · ".join(each.zh for each in said)), _ABOUT_CHARACTERS)


def _pair(argument: Argument) -> Both:
    value = _value(argument)
    return Both(*(f"{shortened(one_line(label), _NAME_CHARACTERS)}: {value}" for label in argument.label))


def _value(argument: Argument) -> str:
    """An argument on one line."""
    if argument.value is None and not argument.masked:
        return "–"
    if argument.masked or argument.is_scalar:
        return shortened(one_line(argument.text), _VALUE_CHARACTERS)
    listed = argument.value if isinstance(argument.value, list) else None
    if listed and all(isinstance(each, str) for each in listed):
        return shortened(one_line(", ".join(listed)), _VALUE_CHARACTERS)
    return shortened(one_line(json.dumps(argument.value, ensure_ascii=False)), _VALUE_CHARACTERS)


def _says_something(argument: Argument) -> bool:
    return argument.masked or argument.value not in (None, "", [], {})


def _is_short(argument: Argument) -> bool:
    return "\n" not in argument.text and len(argument.text) <= 2 * _VALUE_CHARACTERS


def _words(name: str) -> frozenset[str]:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return frozenset(re.split(r"[_\W]+", parts.lower()))


def _salience(name: str) -> int:
    return min(_SALIENT.get(word, len(_SALIENT)) for word in _words(name))
