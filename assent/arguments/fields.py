"""The arguments of a call as fields that a person can fill in, and what was filled in as arguments again.

Nothing is guessed: what cannot be read as exactly one value of the argument's kind is refused, by the field's name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any

from assent import strict_json
from assent.contracts.values import Frozen
from assent.errors import InvalidRequest, Unhashable
from assent.payload import MAX_EXACT_INTEGER, refuse_inexact

Schema = dict[str, Any]

MOST_CHARACTERS = 1000
"""What a field of a form holds; an argument that is longer has none."""
MOST_CHOICES = 50
_LONG = 80
"""Characters from which on a text is written on several lines."""
_MOST_PROBLEMS = 10
_SCALARS = {"string", "integer", "number", "boolean"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class FieldKind(StrEnum):
    """How a field is filled in."""

    LINE = "line"
    LINES = "lines"
    CHOICE = "choice"


class Choice(Frozen):
    """One of the values that an argument can have."""

    text: str
    """What is sent back when it is chosen, and what people read."""
    value: Any


class Field(Frozen):
    """An argument that can be changed in a form."""

    name: str
    kind: FieldKind
    text: str
    """The argument as it is."""
    choices: tuple[Choice, ...] = ()
    is_json: bool = False
    """Whether it is written as JSON."""
    may_be_empty: bool = False
    """Whether nothing written means null."""


def fields_of(parameters: Schema, arguments: dict[str, Any], sensitive: Iterable[str] = ()) -> list[Field]:
    """The arguments that a form can change, in the order in which the tool declares them.

    Those that are sensitive, and those that no field can hold unchanged, are not among them.
    """
    hidden = set(sensitive)
    declared: Schema = parameters.get("properties", {})
    names = [name for name in declared if name in arguments] + [name for name in arguments if name not in declared]
    found = (_Reader(parameters, name, arguments[name]).field() for name in names if name not in hidden)
    return [field for field in found if field is not None]


def typed(
    parameters: Schema, arguments: dict[str, Any], fields: dict[str, str], sensitive: Iterable[str] = ()
) -> dict[str, Any]:
    """All arguments, those that were filled in as they were written. Raises InvalidRequest naming every wrong field.

    Whether the tool takes them is not looked at here.
    """
    known = {field.name: field for field in fields_of(parameters, arguments, sensitive)}
    changed, problems = dict(arguments), []
    for name, text in fields.items():
        if name not in known:
            problems.append(f"{_named(name)}: there is no such field")
            continue
        if _same(text, known[name].text):
            continue
        try:
            changed[name] = _Reader(parameters, name, arguments[name]).value(known[name], text)
        except ValueError as error:
            problems.append(f"{_named(name)}: {error}")
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        said = "; ".join(problems[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
        raise InvalidRequest(f"invalid arguments: {said}")
    return changed


def _named(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"


def _same(text: str, shown: str) -> bool:
    """Whether a field was left as it was; a form may write its line ends in another way."""
    return text.replace("\r\n", "\n") == shown


class _Reader:
    """One argument: what its schema says of it, and how it is written."""

    def __init__(self, parameters: Schema, name: str, value: Any) -> None:
        self._parameters = parameters
        self._name = name
        self._value = value
        branches = self._branches(parameters.get("properties", {}).get(name, {}), 0)
        self._nullable = any(_is_null(branch) for branch in branches)
        self._branches_left = [branch for branch in branches if not _is_null(branch)]
        self._choices = self._all_choices()
        self._type = self._type_of_value()

    def field(self) -> Field | None:
        """The field, unless none could hold the argument as it is."""
        if self._choices:
            now = next((each.text for each in self._choices if _is_same_value(each.value, self._value)), None)
            if now is None or len(self._choices) > MOST_CHOICES:
                return None
            return Field(name=self._name, kind=FieldKind.CHOICE, text=now, choices=self._choices)
        is_json = self._type not in _SCALARS
        text = self._written(is_json)
        if len(text) > MOST_CHARACTERS or not _travels(text):
            return None
        is_long = is_json or (self._type == "string" and (len(text) > _LONG or "\n" in text))
        return Field(
            name=self._name,
            kind=FieldKind.LINES if is_long else FieldKind.LINE,
            text=text,
            is_json=is_json,
            may_be_empty=self._nullable,
        )

    def value(self, field: Field, text: str) -> Any:
        """What was written, as a value; ValueError says what is wrong with it, without a word of it."""
        if field.kind is FieldKind.CHOICE:
            for choice in field.choices:
                if choice.text == text:
                    return choice.value
            raise ValueError("choose one of the values that are offered")
        if self._nullable and not text.strip():
            return None
        if field.is_json:
            return _json(text)
        match self._type:
            case "integer":
                return _integer(text.strip())
            case "number":
                return _number(text.strip())
            case _:
                return _text(text)

    def _written(self, is_json: bool) -> str:
        if self._value is None and self._nullable:
            return ""
        if isinstance(self._value, str) and not is_json:
            return self._value
        readable = _travels(json.dumps(self._value, ensure_ascii=False))
        laid_out = json.dumps(self._value, ensure_ascii=not readable, indent=2 if is_json else None)
        return laid_out if len(laid_out) <= MOST_CHARACTERS else json.dumps(self._value, ensure_ascii=not readable)

    def _branches(self, schema: Schema, depth: int) -> list[Schema]:
        """What the argument may be: the schema itself, or each of those that it offers."""
        if depth > 8:
            return [{}]
        if reference := schema.get("$ref"):
            found = self._parameters.get("$defs", {}).get(str(reference).removeprefix("#/$defs/"), {})
            return self._branches(found, depth + 1)
        if len(whole := schema.get("allOf", ())) == 1:
            return self._branches(whole[0], depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if offered := schema.get(keyword):
                return [branch for each in offered for branch in self._branches(each, depth + 1)]
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return [{**schema, "type": kind} for kind in kinds]
        return [schema]

    def _all_choices(self) -> tuple[Choice, ...]:
        """Every value there is, where they can be counted."""
        values: list[Any] = []
        for branch in self._branches_left:
            if "const" in branch:
                values.append(branch["const"])
            elif "enum" in branch:
                values += branch["enum"]
            elif branch.get("type") == "boolean":
                values += [True, False]
            else:
                return ()
        if any(isinstance(value, dict | list) for value in values):
            return ()
        if self._nullable and values and not any(value is None for value in values):
            values.append(None)
        plain = all(isinstance(value, str) or value is None for value in values)
        plain = plain and "" not in values and not (None in values and "null" in values)
        texts = [
            value if plain and isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
        ]
        return tuple(Choice(text=text, value=value) for text, value in dict(zip(texts, values, strict=True)).items())

    def _type_of_value(self) -> str | None:
        """The kind that the argument has now, among those that it may have; None for anything but a plain value."""
        kinds = [branch.get("type") for branch in self._branches_left]
        if not kinds or not set(kinds) <= _SCALARS:
            return None
        if self._value is None:
            return str(kinds[0]) if len(set(kinds)) == 1 else None
        now = _kind_of(self._value)
        if now == "integer" and "integer" not in kinds:
            now = "number"
        return now if now in kinds else None


def _travels(text: str) -> bool:
    """Whether the way through a form leaves a text as it is: nothing unseen in it, and no blanks at either end."""
    lines = text.replace("\u3000", " ").split("\n")
    return text == text.strip() and all(line.isprintable() for line in lines)


def _is_null(branch: Schema) -> bool:
    return branch.get("type") == "null" or ("const" in branch and branch["const"] is None)


def _is_same_value(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return ""


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("write a whole number, in digits only")
    return _exact(text)


def _exact(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > MAX_EXACT_INTEGER:
        raise ValueError("a whole number beyond 2^53 is not exact in JSON")
    return int(digits)


def _number(text: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("write a number, such as 12 or 0.5")
    if _INTEGER.fullmatch(text):
        return _exact(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("the number is too large")
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError("the number has more digits than JSON carries exactly")
    return number


def _text(text: str) -> str:
    value = text.replace("\r\n", "\n")
    _refuse_inexact(value)
    return value


def _json(text: str) -> Any:
    try:
        return strict_json.parse(text, parse_float=_number)
    except Unhashable as error:
        raise ValueError(error.problem) from None


def _refuse_inexact(value: Any) -> None:
    try:
        refuse_inexact(value)
    except Unhashable as error:
        raise ValueError(error.problem) from None
