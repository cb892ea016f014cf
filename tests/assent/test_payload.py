"""The canonical payload: one text, one hash, for one call; and no text at all for what JSON cannot carry."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from assent import InvalidRequest
from assent.contracts.identity import Identity
from assent.payload import (
    MAX_DEPTH,
    MAX_EXACT_INTEGER,
    MAX_PAYLOAD_BYTES,
    MAX_VALUES,
    canonical_json,
    canonical_payload,
    idempotency_key,
    payload_arguments,
    scope_key,
    scope_of,
    sha256,
)
from assent.persons import Person
from assent.types import Unhashable
from tests.support.hypothesis_settings import unhurried

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WITHOUT_FLOATS = st.none() | st.booleans() | st.integers(-MAX_EXACT_INTEGER, MAX_EXACT_INTEGER) | TEXT
SCALARS = WITHOUT_FLOATS | st.floats(-(2.0**53) + 1, 2.0**53 - 1, allow_nan=False)


def values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
    )


VALUES = values(SCALARS)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=5)
CALLS = st.tuples(TEXT, st.dictionaries(TEXT, values(WITHOUT_FLOATS), max_size=5))


def reordered(value: Any) -> Any:
    """The same value, with the keys of every object inserted the other way round."""
    if isinstance(value, dict):
        return {key: reordered(item) for key, item in reversed(value.items())}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@unhurried
@given(OBJECTS)
def test_order_of_keys_never_matters(arguments: dict[str, Any]) -> None:
    assert canonical_payload("t", reordered(arguments)) == canonical_payload("t", arguments)


@unhurried
@given(VALUES)
def test_canonical_text_is_canonical_already(value: Any) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


@unhurried
@given(VALUES)
@example({"\ue000": 1, "\U00010000": 2, "z": {"\uffff": [1.0, -0.0, 1e21], '\x7f\x00\u2028"\\/': "\x1f\n\ud7ff"}})
def test_however_it_is_written_it_is_what_the_standard_says(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@unhurried
@given(VALUES)
def test_canonical_text_says_what_was_given(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@unhurried
@given(st.text(min_size=1, max_size=5).filter(str.isprintable), OBJECTS)
def test_what_runs_is_what_was_hashed(tool: str, arguments: dict[str, Any]) -> None:
    payload = canonical_payload(tool, arguments)
    assert json.loads(payload_arguments(payload)) == arguments
    assert canonical_payload(tool, json.loads(payload_arguments(payload))) == payload


def in_json(value: Any) -> str:
    """Equal for the same JSON only: Python's `==` takes true for 1."""
    return json.dumps(value, sort_keys=True)


@unhurried
@given(st.lists(CALLS, min_size=2, max_size=2, unique_by=in_json))
def test_another_tool_or_other_arguments_have_another_hash(calls: list[tuple[str, dict[str, Any]]]) -> None:
    one, other = (sha256(canonical_payload(tool, arguments)) for tool, arguments in calls)
    assert one != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": None}, {}),
        ({"a": "1"}, {"a": 1}),
        ({"a": []}, {"a": {}}),
        ({"a": ["b", "c"]}, {"a": ["c", "b"]}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": "x"}, {"A": "x"}),
        ({"a": " x"}, {"a": "x"}),
        ({"a": 0.1}, {"a": 0.10000000000000002}),
        ({"a": {"b": 1}}, {"a.b": 1}),
    ],
)
def test_arguments_that_look_alike_have_different_hashes(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert sha256(canonical_payload("t", one)) != sha256(canonical_payload("t", other))


def test_payload_names_tool_arguments_and_files_and_is_hashed_as_utf8() -> None:
    payload = canonical_payload("t", {"名": "王"})
    assert payload == '{"arguments":{"名":"王"},"files":{},"tool":"t"}'
    assert sha256(payload) == hashlib.sha256(payload.encode("utf-8")).hexdigest()


# RFC 8785, appendix B: IEEE 754 bits and the ECMAScript text of the number.
RFC_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS)
def test_numbers_are_written_as_rfc_8785_writes_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == text


def test_rfc_8785_sample_object_is_written_as_published() -> None:
    published = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    text = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_json(published).decode() == text


def test_keys_are_sorted_by_utf16_units_not_by_code_points() -> None:
    published = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical_json(published))) == ordered


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem", "advice"),
    [
        (math.nan, "nan", "send it as a string"),
        (math.inf, "inf", "send it as a string"),
        (-math.inf, "-inf", "send it as a string"),
        (MAX_EXACT_INTEGER + 1, "2^53", "send it as a string"),
        (-MAX_EXACT_INTEGER - 1, "2^53", "send it as a string"),
        (10**400, "2^53", "send it as a string"),
        ("a\ud800", "lone surrogate", "base64"),
        ({"\udfff": 1}, "lone surrogate", "base64"),
        ({1: "x"}, "key 1 ", "send it as a string"),
        ({None: "x"}, "key None ", "send it as a string"),
        ((1, 2), "tuple", "list"),
        ({1, 2}, "set", "list"),
        (b"x", "bytes", "send it as a string"),
        (Decimal("1.5"), "Decimal", "send it as a string"),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime", "send it as a string"),
        (object(), "object", "send it as a string"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_its_path_and_advice(value: Any, problem: str, advice: str) -> None:
    with pytest.raises(Unhashable) as refused:
        canonical_payload("t", {"fine": 1, "list": [0, {"here": value}]})
    assert refused.value.path == "$.arguments.list[1].here"
    assert str(refused.value).startswith("$.arguments.list[1].here: ")
    assert problem in refused.value.problem
    assert advice in refused.value.problem
    assert isinstance(refused.value, InvalidRequest)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("number", [MAX_EXACT_INTEGER, -MAX_EXACT_INTEGER])
def test_largest_exact_integers_are_carried(number: int) -> None:
    assert json.loads(canonical_json({"n": number})) == {"n": number}


def test_too_deep_is_refused_with_its_path_and_advice_however_deep() -> None:
    assert canonical_json(nested(MAX_DEPTH))
    endless: list[Any] = []
    endless.append(endless)
    for value in (nested(MAX_DEPTH + 1), nested(100_000), endless):
        with pytest.raises(Unhashable, match=f"deeper than {MAX_DEPTH} levels; ") as refused:
            canonical_json({"deep": value} if value is endless else value)
        assert refused.value.path.startswith("$")
        assert refused.value.path.endswith("[0]")


class _Five(int):
    def __int__(self) -> int:
        return 5


class _Other(dict[str, Any]):
    def items(self) -> Any:
        return {"a": 1}.items()


class _Ascii(str):
    def isascii(self) -> bool:
        return True


@pytest.mark.parametrize("value", [_Five(4), _Other(b=1), {_Ascii("\U00010000"): 1, "\ue000": 2}])
def test_what_only_looks_like_plain_json_is_written_by_the_standard(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


def test_a_value_that_only_looks_ascii_is_refused() -> None:
    with pytest.raises(Unhashable, match="lone surrogate"):
        canonical_json([_Ascii("\ud800")])


def test_the_first_thing_that_is_wrong_is_named() -> None:
    with pytest.raises(Unhashable) as refused:
        canonical_json({"a": math.nan, 1: 2})
    assert refused.value.path == "$.a"


@pytest.mark.parametrize("innermost", [None, "plain", "é", 1, 1.5, True, [], {}])
def test_whatever_lies_too_deep_is_refused(innermost: Any) -> None:
    value = innermost
    for _ in range(MAX_DEPTH):
        value = [value]
    assert canonical_json(value) == rfc8785.dumps(value)
    with pytest.raises(Unhashable, match=f"deeper than {MAX_DEPTH} levels; "):
        canonical_json([value])


def test_too_large_is_refused_with_its_size_the_limit_and_advice() -> None:
    frame = len(canonical_payload("t", {"text": ""}))
    assert canonical_payload("t", {"text": "x" * (MAX_PAYLOAD_BYTES - frame)})
    with pytest.raises(InvalidRequest, match=f"{MAX_PAYLOAD_BYTES + 1} bytes.*{MAX_PAYLOAD_BYTES}.*reference"):
        canonical_payload("t", {"text": "x" * (MAX_PAYLOAD_BYTES - frame + 1)})
    with pytest.raises(InvalidRequest, match="bytes"):
        canonical_payload("t", {"text": "王" * (MAX_PAYLOAD_BYTES // 3)})


def test_too_many_values_are_refused_with_their_number_the_limit_and_advice() -> None:
    """Each is looked at some dozen times before a person sees it: a crowd would keep others waiting."""
    full = [{"a": [n, ","]} for n in range((MAX_VALUES - 1) // 4)]
    assert canonical_payload("t", {"items": full, **{f"n{n}": 0 for n in range((MAX_VALUES - 1) % 4)}})
    with pytest.raises(InvalidRequest, match=f"{MAX_VALUES + 1} values.*{MAX_VALUES}.*reference"):
        canonical_payload("t", {"items": [[]] * MAX_VALUES})
    assert canonical_payload("t", {"text": "[,]" * (MAX_VALUES + 1)})


def test_tool_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(Unhashable, match=r"\$\.tool"):
        canonical_payload("\ud800", {})


def key(namespace: str = "n", payload: str = "h", requester: str = "open_id:me", **parts: str | None) -> str:
    given = {"approval_id": "a", "message_id": None, "scope": None, **parts}
    return idempotency_key(namespace, scope_of(**given), requester, payload)  # type: ignore[arg-type]


def test_key_is_scoped_by_caller_before_message_before_approval() -> None:
    assert key() == "n:approval:a:open_id:me:h"
    assert key(message_id="m") == "n:message:m:open_id:me:h"
    assert key(message_id="m", scope="s") == "n:caller:s:open_id:me:h"
    assert key(scope="s") == "n:caller:s:open_id:me:h"


def test_two_approvals_share_a_key_only_within_one_scope() -> None:
    assert key(approval_id="a") != key(approval_id="b")
    assert key(approval_id="a", message_id="m") == key(approval_id="b", message_id="m")
    assert key(approval_id="a", scope="s", message_id="m") == key(approval_id="b", scope="s", message_id="n")


def test_two_people_share_no_key_but_what_they_have_in_common() -> None:
    assert key(scope="s", requester="open_id:a") != key(scope="s", requester="open_id:b")
    assert scope_key("n", "caller:s", "h") == "n:caller:s:h"


NAMESPACE = st.from_regex(r"^[A-Za-z0-9._-]{1,8}\Z")
SCOPED = st.tuples(
    NAMESPACE,
    st.sampled_from(["scope", "message_id", "approval_id"]),
    st.text("ab:", min_size=1, max_size=6) | st.sampled_from(["caller:a", "message:a", "approval:a", "a:open_id:b"]),
    st.builds(
        Identity,
        open_id=st.none() | st.sampled_from(["b", "b:open_id:a", "a/b", "%3A"]),
        union_id=st.sampled_from(["b", "a:b"]),
        tenant_key=st.none() | st.sampled_from(["t", "t/open_id:b", "t:a"]),
    ),
    st.sampled_from(["0" * 64, "1" * 64]),
)


@unhurried
@given(SCOPED, SCOPED)
def test_keys_are_equal_only_for_the_same_namespace_scope_requester_and_payload(
    one: tuple[str, str, str, Identity, str], other: tuple[str, str, str, Identity, str]
) -> None:
    keys = [
        key(namespace, payload, Person.of(requester).canonical, **{kind: name})
        for namespace, kind, name, requester, payload in (one, other)
    ]
    same = [
        (namespace, kind, name, requester.tenant_key, min(requester.keys), payload)
        for namespace, kind, name, requester, payload in (one, other)
    ]
    assert (keys[0] == keys[1]) == (same[0] == same[1])


def test_namespaces_are_kept_apart() -> None:
    assert key("shop", scope="s") != key("bank", scope="s")
    assert key("shop", message_id="m") != key("bank", message_id="m")
    assert key("shop") != key("bank")
