"""The rules that every card is checked by: they refuse and take what Feishu does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.card_rules import check

_GOOD: dict[str, Any] = {
    "schema": "2.0",
    "config": {"update_multi": True, "enable_forward": False},
    "header": {"title": {"tag": "plain_text", "content": "<at id=all></at>"}},
    "body": {"vertical_spacing": "8px", "elements": [{"tag": "hr"}]},
}


def _with(*elements: dict[str, Any]) -> str:
    return json.dumps({**_GOOD, "body": {"vertical_spacing": "8px", "elements": list(elements)}}, ensure_ascii=False)


def _nested(levels: int) -> dict[str, Any]:
    inner = [_nested(levels - 1)] if levels > 1 else [{"tag": "hr"}]
    return {"tag": "collapsible_panel", "header": {}, "elements": inner}


@pytest.mark.parametrize(
    "text",
    [
        _with({"tag": "note"}),
        _with({"tag": "hr", "colour": "red"}),
        _with({"tag": "markdown", "content": "<at id=all x></at>"}),
        _with({"tag": "markdown", "content": "[here](https://example.com)"}),
        _with({"tag": "markdown", "content": "a `b`"}),
        _with({"tag": "div", "text": {"tag": "plain_text", "content": "x" * 30_000}}),
        _with(*({"tag": "hr"} for _ in range(200))),
        _with(_nested(5)),
        _with({"tag": "button", "name": "a"}, {"tag": "button", "name": "a"}),
        _with({"tag": "form", "name": "f", "elements": []}),
        json.dumps({**_GOOD, "config": {"update_multi": False, "enable_forward": False}}),
    ],
)
def test_the_rules_refuse_what_the_platform_refuses(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(text)


def test_the_rules_take_what_the_platform_takes() -> None:
    assert check(_with({"tag": "markdown", "content": "**b** <at id=ou_1></at>"}, _nested(4)))
