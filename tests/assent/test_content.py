"""A tool's result as it is stored and as it travels: whatever it is, it arrives."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.contrib.pydantic import pydantic_data_converter

from assent import Outcome, Status
from assent.content import MAX_ERROR_CHARACTERS, MAX_INLINE_BYTES, Content, describe
from assent.contracts.conclude import Recorded
from assent.contracts.execute import Report, ReportKind
from assent.payload import sha256
from tests.support.hypothesis_settings import unhurried


class Row(BaseModel):
    amount: Decimal


async def travelled(content: Content) -> Report:
    """The report after its way through Temporal, deep inside another message too."""
    report = content.report(ReportKind.EXECUTED)
    outcome = Outcome(approval_id="a", status=Status.EXECUTED, content=report.content)
    payloads = await pydantic_data_converter.encode([report, Recorded(outcome=outcome)])
    arrived, recalled = await pydantic_data_converter.decode(payloads, [Report, Recorded])
    assert recalled.outcome.content == arrived.content
    assert arrived == report
    assert isinstance(arrived, Report)
    return arrived


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, None),
        ({"n": 1, "list": (1, 2)}, {"n": 1, "list": [1, 2]}),
        (Row(amount=Decimal("1.50")), {"amount": "1.50"}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        ("a\x00b", "a\x00b"),
        (10**400, 10**400),
        (nested(60), nested(60)),
    ],
)
async def test_plain_results_arrive_whole(value: Any, content: Any) -> None:
    report = await travelled(Content.of(value))
    assert (report.content, report.truncated, report.reason) == (content, False, None)


@pytest.mark.parametrize(
    "value",
    [
        "half \ud800",
        {"half \ud800": 1},
        [math.nan, math.inf],
        10**5000,
        b"\xff",
        object(),
        {1: {(1, 2): 3}},
        *(nested(depth) for depth in (150, 190, 199, 200, 230, 254, 255, 256, 1500, 50_000)),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_odd_results_arrive_somehow(value: Any) -> None:
    content = Content.of(value)
    report = await travelled(content)
    assert (report.content_bytes, report.content_sha256) == (len(content.data), sha256(content.data))
    assert json.loads(content.data) is not None
    assert content.data.isascii()


async def test_result_that_is_too_deep_to_travel_is_previewed_and_kept_whole() -> None:
    content = Content.of(nested(230))
    report = await travelled(content)
    assert (report.truncated, json.loads(content.data)) == (True, nested(230))
    assert report.content == content.data.decode()[: len(report.content)]


@pytest.mark.parametrize(("size", "truncated"), [(MAX_INLINE_BYTES - 2, False), (MAX_INLINE_BYTES - 1, True)])
async def test_large_result_travels_as_a_preview(size: int, truncated: bool) -> None:
    report = await travelled(Content.of("x" * size))
    assert (report.truncated, report.content_bytes) == (truncated, size + 2)
    assert (len(report.content) < 5000) == truncated


@unhurried
@given(st.recursive(st.none() | st.floats() | st.text() | st.binary(), lambda inner: st.lists(inner, max_size=3)))
def test_anything_is_stored_as_ascii_json_and_reported(value: Any) -> None:
    content = Content.of(value)
    assert content.data.isascii()
    report = content.report(ReportKind.EXECUTED)
    assert Report.model_validate_json(report.model_dump_json()) == report


class Unspeakable:
    def __repr__(self) -> str:
        raise KeyError("no")


@pytest.mark.parametrize(
    "value",
    [Unspeakable(), "x" * 10**6, RuntimeError("a\x00\ud800" * 5000), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_description_is_bounded_and_always_text(value: object) -> None:
    text = describe(value)
    assert 0 < len(text) <= MAX_ERROR_CHARACTERS + 1
    assert text.encode().decode() == text
    assert "\x00" not in text
