"""Arguments checked and completed from a tool's schema alone: what is shown is all that would run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from assent import InvalidRequest, Registry, tool
from assent.arguments.schema import complete
from assent.payload import canonical_payload, payload_arguments
from tests.support.hypothesis_settings import unhurried


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    quantity: int = 1
    price: Decimal = Decimal("0.10")
    tags: list[str] = ["new"]
    colour: Colour = Colour.RED


class Pickup(BaseModel):
    kind: Literal["pickup"] = "pickup"
    shop: str = "main"


class Delivery(BaseModel):
    kind: Literal["delivery"] = "delivery"
    street: str
    express: bool = False


class Express(BaseModel):
    street: str
    express: bool = True
    note: str | None = None


@dataclass
class Note:
    text: str = "none"
    line: Line | None = None


class Place(NamedTuple):
    row: int
    seat: int = 7


class Tree(BaseModel):
    name: str = "root"
    children: list[Tree] = []


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
PICKUP = Pickup()
ZERO = UUID(int=0)


def order(
    lines: list[Line],
    way: Pickup | Delivery = PICKUP,
    tagged: Annotated[Pickup | Delivery, Field(discriminator="kind")] = PICKUP,
    overlapping: Delivery | Express | None = None,
    first: Line | None = None,
    notes: dict[str, Note] = {},  # noqa: B006
    coded: dict[Annotated[str, Field(pattern="^[a-c]+$")], Note] = {},  # noqa: B006
    pair: tuple[Line, Note] | None = None,
    place: Place | None = None,
    tree: Tree | None = None,
    when: datetime = NEW_YEAR,
    uuid: UUID = ZERO,
    wait: timedelta = timedelta(minutes=5),
    amount: Decimal = Decimal("1.00"),
    colour: Colour = Colour.BLUE,
    share: float = 0.5,
) -> None: ...


ORDER = tool(registry=Registry())(order)
SCHEMA = ORDER.manifest.parameters
TEXT = st.text("ab", max_size=3)
LINE = st.fixed_dictionaries(
    {"sku": TEXT},
    optional={
        "quantity": st.integers(-5, 5),
        "price": st.sampled_from(["1.50", "0"]),
        "tags": st.lists(TEXT, max_size=2),
        "colour": st.sampled_from(["red", "blue"]),
    },
)
PICKUPS = st.fixed_dictionaries({}, optional={"kind": st.just("pickup"), "shop": TEXT})
DELIVERIES = st.fixed_dictionaries({"street": TEXT}, optional={"kind": st.just("delivery"), "express": st.booleans()})
EXPRESSES = st.fixed_dictionaries({"street": TEXT}, optional={"express": st.booleans(), "note": st.none() | TEXT})
NOTE = st.fixed_dictionaries({}, optional={"text": TEXT, "line": st.none() | LINE})
TREE = st.recursive(
    st.fixed_dictionaries({}, optional={"name": TEXT}),
    lambda inner: st.fixed_dictionaries({}, optional={"name": TEXT, "children": st.lists(inner, max_size=2)}),
    max_leaves=4,
)
ORDERS = st.fixed_dictionaries(
    {"lines": st.lists(LINE, max_size=2)},
    optional={
        "way": PICKUPS | DELIVERIES,
        "tagged": (PICKUPS | DELIVERIES).filter(lambda chosen: "kind" in chosen),
        "overlapping": st.none() | DELIVERIES | EXPRESSES,
        "first": st.none() | LINE,
        "notes": st.dictionaries(TEXT, NOTE, max_size=2),
        "coded": st.dictionaries(st.text("abc", min_size=1, max_size=3), NOTE, max_size=2),
        "pair": st.none() | st.tuples(LINE, NOTE).map(list),
        "place": st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=2),
        "tree": st.none() | TREE,
        "when": st.sampled_from(["2026-02-01T09:00:00Z", "2026-02-01T09:00:00.5+08:00"]),
        "share": st.sampled_from([0, 1, 0.25]),
    },
)


@unhurried
@given(ORDERS)
def test_completed_arguments_run_as_pydantics_own_defaults_would(arguments: dict[str, Any]) -> None:
    asked = json.dumps(arguments)
    completed = complete(SCHEMA, arguments)
    assert ORDER.parse(payload_arguments(canonical_payload("order", completed))) == ORDER.parse(asked.encode())
    assert json.dumps(arguments) == asked, "what was asked is left as it was"


@unhurried
@given(ORDERS)
def test_completing_twice_changes_nothing(arguments: dict[str, Any]) -> None:
    completed = complete(SCHEMA, arguments)
    assert complete(SCHEMA, completed) == completed
    assert set(completed) == set(SCHEMA["properties"])


def test_defaults_are_filled_in_at_every_level() -> None:
    line = {"sku": "x", "quantity": 1, "price": "0.10", "tags": ["new"], "colour": "red"}
    note = {"text": "none", "line": None}
    completed = complete(
        SCHEMA,
        {
            "lines": [{"sku": "x"}],
            "way": {"street": "s"},
            "overlapping": {"street": "s", "note": None},
            "first": {"sku": "x"},
            "notes": {"n": {"line": {"sku": "x"}}},
            "coded": {"abc": {}},
            "pair": [{"sku": "x"}, {}],
            "place": [3],
            "tree": {"children": [{}]},
        },
    )
    assert completed == {
        "lines": [line],
        "way": {"kind": "delivery", "street": "s", "express": False},
        "tagged": {"kind": "pickup", "shop": "main"},
        "overlapping": {"street": "s", "express": True, "note": None},
        "first": line,
        "notes": {"n": {"text": "none", "line": line}},
        "coded": {"abc": note},
        "pair": [line, note],
        "place": [3, 7],
        "tree": {"name": "root", "children": [{"name": "root", "children": []}]},
        "when": "2026-01-01T00:00:00Z",
        "uuid": "00000000-0000-0000-0000-000000000000",
        "wait": "PT5M",
        "amount": "1.00",
        "colour": "blue",
        "share": 0.5,
    }


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"lines": None}, "$.lines"),
        ({"lines": [{}]}, "$.lines[0]"),
        ({"lines": [{"sku": 1}]}, "$.lines[0].sku"),
        ({"lines": [{"sku": "x", "quantity": "1"}]}, "$.lines[0].quantity"),
        ({"lines": [{"sku": "x", "quantity": True}]}, "$.lines[0].quantity"),
        ({"lines": [{"sku": "x", "surplus": 1}]}, "$.lines[0]"),
        ({"way": {"shop": "x", "surplus": 1}}, "$.way"),
        ({"tagged": {"kind": "pickup", "street": "x"}}, "$.tagged"),
        ({"first": {"sku": "x", "surplus": 1}}, "$.first"),
        ({"notes": {"n": {"surplus": 1}}}, "$.notes.n"),
        ({"coded": {"xyz": {}}}, "$.coded"),
        ({"coded": {"abc": {"surplus": 1}}}, "$.coded.abc"),
        ({"pair": [{"sku": "x"}]}, "$.pair"),
        ({"place": [1, 2, 3]}, "$.place"),
        ({"tree": {"children": [{"surplus": 1}]}}, "$.tree"),
        ({"when": "tomorrow"}, "$.when"),
        ({"when": "2026-13-01T00:00:00Z"}, "$.when"),
        ({"when": "2026-01-01T09:00:00"}, "$.when"),
        ({"when": 1767225600}, "$.when"),
        ({"uuid": "1234"}, "$.uuid"),
        ({"wait": "5 minutes"}, "$.wait"),
        ({"amount": "12 yuan"}, "$.amount"),
        ({"amount": True}, "$.amount"),
        ({"colour": "green"}, "$.colour"),
        ({"share": "0.5"}, "$.share"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_invalid_arguments_are_refused_with_their_path(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        complete(SCHEMA, {"lines": [], **changed})
    assert str(refused.value).startswith("invalid arguments: ")
    assert path in str(refused.value)


def test_refusal_names_each_problem_but_never_a_value() -> None:
    arguments = {"lines": [{"sku": 7, "colour": "hunter2"}], "uuid": "hunter2", "way": "hunter2", "amount": "hunter2"}
    with pytest.raises(InvalidRequest) as refused:
        complete(SCHEMA, arguments)
    for path in ("$.lines[0].sku", "$.lines[0].colour", "$.uuid", "$.way", "$.amount"):
        assert path in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_refusal_stays_readable_however_much_is_wrong() -> None:
    with pytest.raises(InvalidRequest) as refused:
        complete(SCHEMA, {"lines": [{"sku": 1}] * 1000})
    assert len(str(refused.value)) < 2100


def test_schema_is_closed_and_without_decoration() -> None:
    def objects(part: Any) -> list[dict[str, Any]]:
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        own = [part] if isinstance(part, dict) and part.get("type") == "object" else []
        return own + [found for item in inside for found in objects(item)]

    declared = [found for found in objects(SCHEMA) if "properties" in found or "patternProperties" in found]
    assert len(declared) == 8
    assert all(found["additionalProperties"] is False for found in declared)
    assert "title" not in json.dumps(SCHEMA)


def test_parameter_named_title_is_kept() -> None:
    def write(title: str, default: str, properties: str = "x", required: bool = False) -> None: ...

    parameters = tool(registry=Registry())(write).manifest.parameters
    assert complete(parameters, {"title": "t", "default": "d"}) == {
        "title": "t",
        "default": "d",
        "properties": "x",
        "required": False,
    }


def test_large_call_does_not_hold_up_the_worker() -> None:
    arguments = {"lines": [{"sku": "x"}] * 3000, "notes": {str(n): {"line": {"sku": "x"}} for n in range(2000)}}
    started = time.process_time()  # its own time, however busy the machine is
    assert complete(SCHEMA, arguments)["notes"]["1999"]["line"]["quantity"] == 1
    assert time.process_time() - started < 2
