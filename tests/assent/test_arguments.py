"""A tool's arguments: parsed strictly, from the signature."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from assent import Registry, Tool, tool


def registered(function: Callable[..., Any]) -> Tool:
    return tool(registry=Registry())(function)


class Inner(BaseModel):
    count: int = 1


class Model(BaseModel):
    inner: Inner
    flag: bool = False


@dataclass
class Record:
    count: int
    inner: Inner | None = None


class Entry(TypedDict):
    count: int


def takes_everything(
    flag: bool,
    count: int,
    share: float,
    text: str,
    amount: Decimal,
    when: datetime,
    day: date,
    clock: time,
    wait: timedelta,
    uuid: UUID,
    choice: Literal["a", "b"],
    model: Model,
    record: Record,
    entry: Entry,
    many: list[Inner],
    named: dict[str, Inner],
    maybe: Inner | None,
) -> None: ...


EVERYTHING = registered(takes_everything)
GIVEN: dict[str, Any] = {
    "flag": True,
    "count": 1,
    "share": 0.5,
    "text": "1",
    "amount": "120.00",
    "when": "2026-01-01T00:00:00Z",
    "day": "2026-01-01",
    "clock": "09:00:00Z",
    "wait": "PT5M",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "choice": "a",
    "model": {"inner": {}},
    "record": {"count": 1},
    "entry": {"count": 1},
    "many": [{}],
    "named": {"x": {}},
    "maybe": None,
}


def test_arguments_arrive_typed() -> None:
    parsed = EVERYTHING.parse(json.dumps(GIVEN).encode())
    assert list(parsed) == list(GIVEN)
    assert (parsed["amount"], str(parsed["amount"])) == (Decimal("120.00"), "120.00")
    assert (parsed["uuid"], parsed["wait"]) == (UUID(GIVEN["uuid"]), timedelta(minutes=5))
    assert (parsed["model"], parsed["record"]) == (Model(inner=Inner()), Record(1))
    assert (parsed["day"], parsed["maybe"], parsed["many"]) == (date(2026, 1, 1), None, [Inner()])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("flag", value) for value in ("y", "true", "on", 1, 0, None)),
        *(("count", value) for value in ("1", True, 1.5, None, "")),
        *(("share", value) for value in ("0.5", True, None)),
        *(("text", value) for value in (1, True, None, ["1"])),
        *(("amount", value) for value in ("12 yuan", True, None, "")),
        *(("when", value) for value in ("tomorrow", True, None)),
        *(("uuid", value) for value in ("1234", 7, None)),
        *(("choice", value) for value in ("A", "c", None)),
        ("maybe", {"count": "1"}),
        ("maybe", []),
        ("maybe", ""),
        ("model", {"inner": {"count": "1"}}),
        ("model", {"inner": {}, "flag": "y"}),
        ("record", {"count": "1"}),
        ("entry", {"count": "1"}),
        ("many", {"0": {}}),
        ("many", [{"count": True}]),
    ],
)
def test_nothing_is_coerced(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        EVERYTHING.parse(json.dumps({**GIVEN, name: value}).encode())
    assert {error["loc"][0] for error in refused.value.errors()} == {name}


@pytest.mark.parametrize(
    "changed",
    [
        {"surplus": 1},
        {"model": {"inner": {}, "surplus": 1}},
        {"model": {"inner": {"surplus": 1}}},
        {"record": {"count": 1, "surplus": 1}},
        {"record": {"count": 1, "inner": {"surplus": 1}}},
        {"entry": {"count": 1, "surplus": 1}},
        {"many": [{"surplus": 1}]},
        {"named": {"x": {"surplus": 1}}},
        {"maybe": {"surplus": 1}},
    ],
)
def test_extra_argument_is_refused_at_every_level(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="surplus"):
        EVERYTHING.parse(json.dumps({**GIVEN, **changed}).encode())


def test_every_required_argument_is_missed() -> None:
    with pytest.raises(ValidationError) as refused:
        EVERYTHING.parse(b"{}")
    assert {error["loc"][0] for error in refused.value.errors()} == set(GIVEN)
