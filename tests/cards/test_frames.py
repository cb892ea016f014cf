"""A frame of the operator's own: it surrounds our card, and hides nothing of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from activities import card_builder
from activities.card_builder import CardBuilder
from cards import Showing, card
from cards.frames import CardFrame, in_frame
from tests.support.card_rules import objects
from tests.support.cards import WORDING, plan

LOGO = {"tag": "markdown", "content": "**Example Bank**"}
NOTE = {"tag": "div", "text": {"tag": "plain_text", "content": "Questions? Ask the desk."}}


def shown(**more: Any) -> dict[str, Any]:
    return dict(json.loads(card(Showing(plan=plan(**more)), WORDING)))


def test_a_frame_surrounds_all_that_we_show() -> None:
    ours = shown()
    frame = {
        "header": {"title": {"en": "A payment", "zh": "付款"}, "template": "purple"},
        "before": [LOGO],
        "after": [NOTE],
    }
    framed = json.loads(in_frame(json.dumps(ours), CardFrame.model_validate(frame)))
    assert framed["body"]["elements"] == [LOGO, *ours["body"]["elements"], NOTE]
    assert framed["header"]["title"]["content"] == "A payment"
    assert framed["header"]["template"] == "purple"
    assert framed["header"]["text_tag_list"] == ours["header"]["text_tag_list"], "state and risk are ours"
    assert "付款" in json.dumps(framed["header"], ensure_ascii=False)


@pytest.mark.parametrize(
    "element",
    [
        {"tag": "button", "text": {"tag": "plain_text", "content": "Approve"}},
        {"tag": "column_set", "columns": [{"tag": "column", "elements": [{"tag": "input", "name": "x"}]}]},
        {"tag": "form", "name": "x", "elements": []},
        {"tag": "markdown", "content": "x", "behaviors": [{"type": "callback", "value": {}}]},
        {"content": "no tag"},
    ],
)
def test_what_a_person_could_press_is_refused(element: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"frame|tag"):
        CardFrame.model_validate({"before": [element]})


def test_a_frame_that_does_not_fit_is_left_out() -> None:
    ours = card(Showing(plan=plan()), WORDING)
    large = CardFrame.model_validate({"after": [{"tag": "markdown", "content": "x" * 30_000}]})
    assert in_frame(ours, large) == ours


async def test_a_builder_is_told_what_people_see_and_may_fail() -> None:
    told: list[dict[str, Any]] = []
    secret = {"to": "ada", "secret": "hunter2 here"}
    showing = Showing(plan=plan(secret, sensitive=("secret",), request_reason="hunter2 here"))
    ours = card(showing, WORDING)

    def build(about: dict[str, Any]) -> dict[str, Any]:
        told.append(about)
        return {"before": [LOGO]}

    framed = json.loads(await CardBuilder(build).framed(ours, showing))
    assert framed["body"]["elements"][0] == LOGO
    assert (told[0]["state"], told[0]["tool"]) == ("pending", showing.plan.tool)
    assert "hunter2" not in json.dumps(told)
    wrongs: list[Callable[[dict[str, Any]], Any]] = [
        lambda about: 1 / 0,
        lambda about: {"bodies": []},
        lambda about: {"before": [{"tag": "button"}]},
    ]
    for wrong in wrongs:
        assert await CardBuilder(wrong).framed(ours, showing) == ours
    assert await CardBuilder(lambda about: None).framed(ours, showing) == ours
    assert [each for each in objects(framed) if each.get("tag") == "button"]


async def test_builders_that_hang_take_no_thread_from_others_and_soon_none_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(card_builder, "_WITHIN", timedelta(seconds=0.01))
    let_go, built = threading.Event(), []

    def hang(about: dict[str, Any]) -> None:
        built.append(about)
        let_go.wait(60)

    showing = Showing(plan=plan())
    ours, builder = card(showing, WORDING), CardBuilder(hang)
    try:
        for _ in range(40):
            assert await builder.framed(ours, showing) == ours
        assert len(built) == 16
        assert await asyncio.wait_for(asyncio.to_thread(lambda: True), 10)
    finally:
        let_go.set()


def test_a_builder_is_found_by_its_name() -> None:
    assert CardBuilder.load("") is None
    assert CardBuilder.load("json:dumps") is not None
    for wrong in ("no.such:thing", "json:no_such", "json:__name__"):
        with pytest.raises(ValueError, match=r"entry point|no function"):
            CardBuilder.load(wrong)
