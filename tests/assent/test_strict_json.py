"""JSON from outside costs what it weighs: steps and memory are counted, not timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from assent import strict_json
from assent.arguments.fields import _json as typed_in_a_form
from assent.cli import typed
from assent.errors import Unhashable
from assent.payload import MAX_DEPTH, canonical_json
from tests.support.counting import calls
from tests.support.memory import peak

MOST_PER_BYTE = 120
"""Bytes of memory that a byte of JSON may cost: an empty object is two characters and 72 bytes."""


def long_names(size: int) -> str:
    """A few long names around many values: a path for each value would be as long as half of the text."""
    half = size // 2
    name = "n" * (half // 20)
    return f'{{"{name}":' * 20 + "[" + ",".join("0" * (half // 2)) + "]" + "}" * 20


def deep(size: int) -> str:
    return ",".join(["[" * 60 + "]" * 60] * (size // 121)).join("[]")


def empty_objects(size: int) -> str:
    return ",".join(["{}"] * min(size // 3, strict_json.MOST_VALUES // 2)).join("[]")


def many_names(size: int) -> str:
    return json.dumps({f"n{n:08}": 0 for n in range(size // 14)})


def a_repeated_name(size: int) -> str:
    """All names but the last are given once, so that looking for it by counting each would be quadratic."""
    return many_names(size)[:-1] + f', "n{size // 14 - 1:08}": 0}}'


def escapes(size: int) -> str:
    return json.dumps(["\\" * (size // 4), '"' * (size // 4)])


def a_string_without_end(size: int) -> str:
    return '["' + "\\\\a" * (size // 3)


def only_open(size: int) -> str:
    return "[" * size


SHAPES = [long_names, deep, empty_objects, many_names, a_repeated_name, escapes, a_string_without_end, only_open]


def _read(text: str, exact: bool) -> Any:
    try:
        return strict_json.parse(text.encode(), exact=exact)
    except ValueError:
        return None


def _cost(text: str, exact: bool) -> int:
    return peak(_read, text, exact)[1]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_text_costs_twice_as_much(shape: Callable[[int], str], exact: bool) -> None:
    small, large = shape(30_000), shape(60_000)
    by = len(large) / len(small)
    once, again = calls(lambda: _read(small, exact)), calls(lambda: _read(large, exact))
    assert again <= 1.3 * by * once + 100
    little, more = _cost(small, exact), _cost(large, exact)
    assert more <= 1.6 * by * little + 10_000  # dictionaries double
    assert more <= MOST_PER_BYTE * len(large)


@pytest.mark.parametrize("exact", [True, False])
def test_a_body_of_the_size_that_took_two_gigabytes_takes_megabytes(exact: bool) -> None:
    body = long_names(140_000)
    assert _cost(body, exact) < 20 * len(body)


class _Watched(str):
    """A name that notices when it is written into a path."""

    written = 0

    def __format__(self, spec: str) -> str:
        _Watched.written += 1
        return super().__format__(spec)

    def __getitem__(self, at: Any) -> str:
        return _Watched(super().__getitem__(at))


def test_paths_are_written_for_errors_only() -> None:
    _Watched.written = 0
    canonical_json({_Watched("a"): [{_Watched("b"): n} for n in range(100)]})
    assert _Watched.written == 0
    with pytest.raises(Unhashable) as refused:
        canonical_json({_Watched("a"): [{_Watched("b"): n} for n in range(100)] + [{"c": 2**60}]})
    assert refused.value.path == "$.a[100].c"


def test_a_crowd_is_refused_before_any_of_it_is_made() -> None:
    body = ",".join(["{}"] * (strict_json.MOST_VALUES + 1)).join("[]")
    assert _cost(body, True) < 4 * len(body)
    with pytest.raises(strict_json.NotJson, match="more than 200000 values"):
        strict_json.parse(body)
    with pytest.raises(strict_json.NotJson, match="more than 200000 values"):
        strict_json.parse(",".join("1" * (strict_json.MOST_VALUES + 2)).join("[]"))
    commas = json.dumps([",[{" * strict_json.MOST_VALUES, '\\",'])
    assert strict_json.parse(commas) == json.loads(commas)  # in a text they are only text


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ('{"a": {"b": [1, {"c": 1, "d": 2, "c": 3}]}}', "$.a.b[1].c", "given twice"),
        ('{"a": 1, "\\u0061": 2}', "$.a", "given twice"),
        ('{"a": [NaN]}', "$.a[0]", "nan is not a JSON number"),
        ('{"a": -1e999}', "$.a", "-inf is not a JSON number"),
    ],
)
def test_every_reader_refuses_what_can_be_read_in_two_ways(text: str, path: str, problem: str) -> None:
    for exact in (True, False):
        with pytest.raises(Unhashable, match=problem) as refused:
            strict_json.parse(text, exact=exact)
        assert refused.value.path == path
    with pytest.raises(ValueError, match=problem):
        typed.value(text)
    with pytest.raises(ValueError, match=r"given twice|not a JSON number|number is too large"):
        typed_in_a_form(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 9007199254740992}', "$.a"),
        ('["\\ud800"]', "$[0]"),
        ('{"a": ' + "9" * 5000 + "}", "$.a"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "$" + "[0]" * (MAX_DEPTH + 1)),
    ],
)
def test_only_what_is_kept_has_to_be_exact(text: str, path: str) -> None:
    with pytest.raises(Unhashable) as refused:
        strict_json.parse(text)
    assert refused.value.path == path
    if "99" not in text:
        assert strict_json.parse(text, exact=False) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "[", "{,}", "[1] 2", "'a'", b"\xff", b"\xfe\xff[", "[" * 100_000, '{"a" 1}', "[01]"]
)
def test_what_is_no_json_is_not_quoted(text: str | bytes) -> None:
    for exact in (True, False):
        with pytest.raises(strict_json.NotJson) as refused:
            strict_json.parse(text, exact=exact)
        assert len(str(refused.value)) < 200


def test_an_error_repeats_only_the_beginning_of_a_long_path() -> None:
    with pytest.raises(Unhashable) as refused:
        strict_json.parse(json.dumps({"n" * 10_000: {"m" * 10_000: 2**60}}))
    assert refused.value.path.startswith("$.nnn")
    assert len(str(refused.value)) < 1000
