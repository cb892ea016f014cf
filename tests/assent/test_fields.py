"""Arguments as fields of a form, and what was filled in as arguments again: exactly, or refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent import InvalidRequest
from assent.arguments.fields import MOST_CHARACTERS, Field, FieldKind, fields_of, typed
from assent.arguments.schema import complete
from assent.payload import canonical_json
from tests.support.form_fields import ARGUMENTS, SCHEMA
from tests.support.hypothesis_settings import unhurried


def shown(**changed: Any) -> dict[str, Field]:
    return {field.name: field for field in fields_of(SCHEMA, {**ARGUMENTS, **changed}, ["key"])}


def one(schema: dict[str, Any], value: Any, text: str) -> Any:
    parameters = {"type": "object", "properties": {"x": schema}}
    return typed(parameters, {"x": value}, {"x": text})["x"]


def test_every_kind_of_argument_has_its_field() -> None:
    kinds = {name: (field.kind.value, field.text) for name, field in shown().items()}
    assert kinds == {
        "to": ("line", "acme"),
        "day": ("line", "2026-03-15"),
        "amount": ("line", "120.00"),
        "kind": ("choice", "standard"),
        "lines": ("lines", '[\n  {\n    "item": "Travel",\n    "count": 1\n  }\n]'),
        "note": ("line", ""),
        "priority": ("choice", "null"),
        "copies": ("line", "1"),
        "weight": ("line", "1.5"),
        "urgent": ("choice", "false"),
        "limit": ("line", ""),
        "either": ("line", "3"),
    }
    assert list(kinds) == [name for name in SCHEMA["properties"] if name != "key"]
    assert [choice.text for choice in shown()["priority"].choices] == ["low", "high", "null"]
    assert shown()["lines"].is_json
    assert shown()["note"].may_be_empty


def test_what_is_sensitive_has_no_field_and_cannot_be_filled_in() -> None:
    assert "key" not in shown()
    with pytest.raises(InvalidRequest, match="key: there is no such field"):
        typed(SCHEMA, ARGUMENTS, {"key": "other"}, ["key"])


def test_a_form_sent_back_as_it_was_changes_nothing() -> None:
    fields = {name: field.text for name, field in shown().items()}
    assert typed(SCHEMA, ARGUMENTS, fields, ["key"]) == ARGUMENTS
    assert typed(SCHEMA, ARGUMENTS, {}) == ARGUMENTS


def test_what_was_filled_in_has_the_type_that_the_tool_declares() -> None:
    fields = {
        "to": "Müller & Söhne",
        "amount": "0.10",
        "kind": "express",
        "lines": '[{"item": "Hotel", "count": 2}]',
        "note": "call first",
        "priority": "high",
        "copies": " 2 ",
        "weight": "2",
        "urgent": "true",
        "limit": "7",
        "either": "4",
    }
    changed = typed(SCHEMA, ARGUMENTS, fields)
    assert changed == {
        **ARGUMENTS,
        "to": "Müller & Söhne",
        "amount": "0.10",
        "kind": "express",
        "lines": [{"item": "Hotel", "count": 2}],
        "note": "call first",
        "priority": "high",
        "copies": 2,
        "weight": 2,
        "urgent": True,
        "limit": 7,
        "either": 4,
    }
    assert complete(SCHEMA, changed) == changed


def test_nothing_written_means_null_where_null_is_allowed() -> None:
    given = {**ARGUMENTS, "note": "x", "limit": 5, "priority": "low"}
    changed = typed(SCHEMA, given, {"note": "", "limit": " ", "priority": "null", "to": ""})
    assert (changed["note"], changed["limit"], changed["priority"], changed["to"]) == (None, None, None, "")


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("copies", "two", "write a whole number"),
        ("copies", "", "write a whole number"),
        ("copies", "2.0", "write a whole number"),
        ("copies", "+2", "write a whole number"),
        ("copies", "02", "write a whole number"),
        ("copies", "1e3", "write a whole number"),
        ("copies", "１", "write a whole number"),
        ("copies", "9007199254740992", "beyond 2^53"),
        ("copies", "-9007199254740992", "beyond 2^53"),
        ("copies", "9" * 900, "beyond 2^53"),
        ("weight", "1,5", "write a number"),
        ("weight", "NaN", "write a number"),
        ("weight", "Infinity", "write a number"),
        ("weight", ".5", "write a number"),
        ("weight", "1e999", "too large"),
        ("weight", "0.12345678901234567890", "more digits"),
        ("weight", "9007199254740993", "beyond 2^53"),
        ("urgent", "y", "choose one"),
        ("urgent", "True", "choose one"),
        ("urgent", "1", "choose one"),
        ("urgent", "", "choose one"),
        ("kind", "slow", "choose one"),
        ("kind", "Standard", "choose one"),
        ("lines", "[", "this is not JSON"),
        ("lines", "", "this is not JSON"),
        ("lines", "[NaN]", "nan is not a JSON number"),
        ("lines", "[-Infinity]", "-inf is not a JSON number"),
        ("lines", '[{"item": "a", "item": "b"}]', "given twice"),
        ("lines", "[9007199254740993]", "beyond 2^53"),
        ("lines", "[1e999]", "too large"),
        ("lines", "[" * 900 + "]" * 900, "nested"),
        ("lines", '["\\ud800"]', "surrogate"),
        ("to", "\ud800", "surrogate"),
        ("nobody", "x", "there is no such field"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_name_of_its_field(field: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        typed(SCHEMA, ARGUMENTS, {field: text, "to": "fine"} if field != "to" else {field: text})
    assert f"{field}: " in str(caught.value)
    assert problem in str(caught.value)
    if len(text) > 3 and field not in ("lines",):
        assert text not in str(caught.value)


def test_every_wrong_field_is_named_and_a_flood_is_counted() -> None:
    with pytest.raises(InvalidRequest, match=r"copies: .*; urgent: .*; lines: "):
        typed(SCHEMA, ARGUMENTS, {"copies": "x", "urgent": "y", "lines": "z"})
    with pytest.raises(InvalidRequest, match="and 490 more") as caught:
        typed(SCHEMA, ARGUMENTS, {f"nobody-{n}" * 20: "" for n in range(500)})
    assert len(str(caught.value)) < 2000


def test_what_no_field_can_hold_unchanged_has_none() -> None:
    long, odd = (
        "x" * (MOST_CHARACTERS + 1),
        [" x", "x\n", "a\tb", "a\rb", "a\u00a0b", "bell\x07", "a\u202eb", "a\u200bb"],
    )
    assert "to" not in shown(to=long)
    assert all("to" not in shown(to=text) for text in odd)
    assert "lines" not in shown(lines=[{"item": long, "count": 1}])
    assert shown(to="two\nlines")["to"].kind is FieldKind.LINES
    assert shown(to="x" * 200)["to"].kind is FieldKind.LINES
    with pytest.raises(InvalidRequest, match="to: there is no such field"):
        typed(SCHEMA, {**ARGUMENTS, "to": long}, {"to": "short"})


def test_line_ends_of_the_platform_are_ours() -> None:
    given = {**ARGUMENTS, "to": "a\nb"}
    assert typed(SCHEMA, given, {"to": "a\r\nb"}) == given
    assert typed(SCHEMA, given, {"to": "a\r\nc"})["to"] == "a\nc"


@pytest.mark.parametrize(
    ("schema", "value", "text", "expected"),
    [
        ({}, {"any": 1}, '"now a text"', "now a text"),
        ({"type": ["string", "null"]}, "x", "", None),
        ({"type": ["integer", "string"]}, "5", "6", "6"),
        ({"type": ["integer", "string"]}, 5, "6", 6),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "1.00", "2.50", "2.50"),
        ({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}, None, '"2.50"', "2.50"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "x", '["y"]', ["y"]),
        ({"enum": [1, 2, "1"]}, 1, '"1"', "1"),
        ({"enum": ["", "null", "a"]}, "a", '""', ""),
        ({"enum": [True, False, None]}, True, "null", None),
        ({"const": "x"}, "x", "x", "x"),
        ({"allOf": [{"type": "integer"}]}, 1, "2", 2),
        ({"type": "object"}, {}, '{"a": [1.5, true, null]}', {"a": [1.5, True, None]}),
        ({"type": "boolean"}, True, "false", False),
        ({"enum": [{"a": 1}, {"b": 2}]}, {"a": 1}, '{"b": 2}', {"b": 2}),
    ],
)
def test_unions_enumerations_and_schemas_without_a_type(
    schema: dict[str, Any], value: Any, text: str, expected: Any
) -> None:
    found = one(schema, value, text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_schema_that_names_itself_ends() -> None:
    parameters = {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"$ref": "#/$defs/X"}}}
    assert typed(parameters, {"x": 1}, {"x": "2"}) == {"x": 2}


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)
SCHEMAS = st.sampled_from(
    [
        {},
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["string", "integer", "null"]},
        {"anyOf": [{"type": "number"}, {"type": "string"}]},
        {"enum": ["a", 1, None]},
        {"type": "array"},
    ]
)


@given(schema=SCHEMAS, value=VALUES, text=st.text(max_size=40))
@unhurried
def test_any_text_in_any_field_is_a_value_or_a_refusal(schema: dict[str, Any], value: Any, text: str) -> None:
    parameters = {"properties": {"x": schema}}
    for field in fields_of(parameters, {"x": value}):
        assert len(field.text) <= MOST_CHARACTERS
        assert typed(parameters, {"x": value}, {"x": field.text})["x"] is value
    with suppress(InvalidRequest):
        changed = typed(parameters, {"x": value}, {"x": text})
        assert canonical_json(changed)
