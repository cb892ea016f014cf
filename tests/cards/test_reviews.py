"""What operators read of a frozen call, and how they settle it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.review import Examined, SeenAttempt
from assent.contracts.ruling import RulingKind, Settlement
from cards import ReviewShowing, Showing, review_card
from tests.support.card_rules import objects, plain_texts
from tests.support.cards import NOW, WORDING, built, buttons, plan, said
from tests.support.review_cards import ENDED, LATE, PROBED, REFUTED, RETRIED, SEEN, SETTLED, URL, frozen, review, shown


def every_review() -> Iterator[ReviewShowing]:
    for risk in Risk:
        yield review(plan(risk=risk))
    yield review(plan(retry_safe=True))
    yield review(None, ENDED)
    yield review(None, SEEN, SEEN.model_copy(update={"late": (LATE,)}), did_not_run=True)
    yield review(plan({}), frozen=frozen(plan({}), has_probe=False, decided_by=None, error=None))
    yield review(examined=Examined(), url=None)
    yield review(replaced=True)
    for settlement in (SETTLED, REFUTED, PROBED, RETRIED):
        yield review(settlement=settlement)


def form_of(card: dict[str, Any]) -> dict[str, Any]:
    [form] = [each for each in card["body"]["elements"] if each["tag"] == "form"]
    assert isinstance(form, dict)
    return form


def inputs(card: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in objects(card) if each.get("tag") == "input"}


@pytest.mark.parametrize("showing", list(every_review()))
def test_every_review_makes_a_card_that_the_platform_takes(showing: ReviewShowing) -> None:
    assert set(shown(showing)["config"]) == {"update_multi", "enable_forward", "summary"}


def test_an_open_review_asks_whether_it_happened() -> None:
    found = shown(review())
    header = found["header"]
    assert (header["template"], header["title"]["content"]) == ("purple", "Did it happen? send_invoice")
    assert header["title"]["i18n_content"]["zh_cn"] == "请核实是否已生效：send_invoice"
    assert [tag["text"]["content"] for tag in header["text_tag_list"]] == ["Outcome unknown", "Medium risk"]
    assert found["config"]["summary"]["content"].startswith("Did it happen? send_invoice · customer: acme")


def test_an_open_review_tells_all_that_is_known() -> None:
    known = Examined(attempts=(ENDED,), waiting=3, joined=("inv-43", "inv-44"), retries=1)
    text = said(shown(review(examined=known)))
    for part in (
        *("Send an invoice to a customer.", "The customer asked for it.", "billing-agent", "acme", "Travel"),
        *("the tool did not answer within its time", "the worker went silent", "71@tools-1"),
        *("has ended", "3 × so far", "inv-43, inv-44", "Also waiting (2)", plan().payload_sha256[:12]),
    ):
        assert part in text
    for someone in ("ou_ann", "ou_ben"):
        assert f"<person id='{someone}'" in text
    for moment in (frozen(plan()).frozen_at, NOW, ENDED.ended_at):
        assert moment is not None
        assert f"millisecond='{int(moment.timestamp() * 1000)}'" in text
    assert "<at " not in text
    assert "hunter2" not in review_card(review(), WORDING)


def test_the_arguments_of_a_review_stand_open() -> None:
    [panel] = [each for each in shown(review())["body"]["elements"] if each["tag"] == "collapsible_panel"]
    assert panel["expanded"] is True
    assert {"acme", "120.5"} <= set(plain_texts(panel))


def test_the_operators_are_notified_as_long_as_it_is_open_and_can_search_for_its_key() -> None:
    operators = (Identity(open_id="ou_olga"), Identity(union_id="on_omar"))
    found = said(shown(review(operators=operators)))
    assert "<at id=ou_olga></at>" in found
    assert plan().idempotency_key in found
    for settled in (review(operators=operators, settlement=SETTLED), review(operators=operators, replaced=True)):
        assert "<at " not in said(shown(settled))


@pytest.mark.parametrize("language", ["en_us", "zh_cn"])
def test_whoever_settles_is_asked_back_about_this_call(language: str) -> None:
    found = shown(review(None, ENDED, did_not_run=True))
    for kind in ("executed", "not_executed", "retry"):
        asked = buttons(found)[kind]["confirm"]["text"]["i18n_content"][language]
        assert "send_invoice" in asked
        assert "acme" in asked


def test_what_a_review_cannot_hold_is_said_to_be_in_the_conversation() -> None:
    found = shown(review(plan({"body": "x" * 60_000, "to": "acme"})))
    assert "Not in this card: body (60.0 KB). The full payload is in the approval's conversation." in said(found)
    assert "acme" in plain_texts(found)
    assert set(buttons(found)) >= {"executed", "not_executed"}


def test_many_arguments_of_a_review_are_all_there() -> None:
    many = plan({f"argument_{n:03}": f"value-{n:03}" for n in range(150)})
    text = said(shown(review(many)))
    assert all(f"value-{n:03}" in text for n in range(150))


@pytest.mark.parametrize(
    ("seen", "warns"),
    [((SEEN,), True), ((ENDED,), False), ((SEEN, ENDED), True), ((ENDED, SEEN), True), ((ENDED, ENDED), False)],
)
def test_a_worker_that_may_live_is_warned_of(seen: tuple[SeenAttempt, ...], warns: bool) -> None:
    found = shown(review(None, *seen))
    warning = "**The worker that ran it may still be alive, so the call may still take effect.**"
    assert (warning in said(found)) == warns
    assert ("该操作仍可能生效" in said(found, "zh_cn")) == warns


def test_of_a_call_that_nobody_saw_begin_nothing_is_promised() -> None:
    assert "may still take effect" in said(shown(review(examined=Examined())))


def test_a_settled_review_warns_of_nothing() -> None:
    assert "may still take effect" not in said(shown(review(settlement=SETTLED)))


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ({}, ["It ended after all: executed", '"invoice": "2026-42"']),
        ({"content": '{"invoice": "20'}, ['{"invoice": "20']),
        ({"content": '"\\u53d1\\u7968"'}, ["发票"]),
        ({"state": "failed", "content": None, "error": "mailbox full"}, ["It ended after all: failed", "mailbox full"]),
        ({"state": "<at id=all>"}, ["It ended after all: &#60;at id&#61;all&#62;"]),
    ],
)
def test_a_late_truth_is_shown(late: dict[str, Any], expected: list[str]) -> None:
    seen = SEEN.model_copy(update={"late": (LATE.model_copy(update=late),)})
    text = said(shown(review(None, seen)))
    for part in expected:
        assert part in text
    assert f"millisecond='{int(LATE.at.timestamp() * 1000)}'" in text


def test_many_attempts_and_late_truths_are_counted() -> None:
    seen = [SEEN.model_copy(update={"attempt": n, "late": (LATE,), "error": f"error {n}"}) for n in range(1, 31)]
    text = said(shown(review(None, *seen)))
    for part in ("error 30", "Earlier attempts (29)", "error 29", "and 26 earlier ones", "and 27 earlier reports"):
        assert part in text


def test_the_form_asks_why_and_for_the_result() -> None:
    found = shown(review())
    form, fields = form_of(found), inputs(found)
    assert form["name"] == "settling"
    assert list(fields) == ["reason", "content"]
    assert (fields["reason"]["required"], fields["reason"]["max_length"]) == (True, 500)
    assert fields["reason"]["input_type"] == "multiline_text"
    assert (fields["content"]["required"], fields["content"]["max_length"]) == (False, 1000)
    assert [each["name"] for each in objects(form) if each.get("tag") == "button"] == ["executed", "not_executed"]


@pytest.mark.parametrize(("retry_safe", "did_not_run"), [(True, False), (False, True), (True, True)])
def test_trying_again_needs_the_hash(retry_safe: bool, did_not_run: bool) -> None:
    found = shown(review(plan(retry_safe=retry_safe), did_not_run=did_not_run))
    assert "first 12 characters" in inputs(found)["payload_hash"]["label"]["content"]
    assert "retry" in buttons(found)
    assert plan().payload_sha256[:12] in plain_texts(found)


def test_every_way_to_settle_is_bound_to_the_review_and_asks_back() -> None:
    found = buttons(shown(review(plan(retry_safe=True))))
    for kind in RulingKind:
        shown_call = {"payload_sha256": plan().payload_sha256, "retries": 0}
        value = {"assent": "1", "review": "inv-42", "ruling": kind.value, **shown_call}
        assert found[kind]["behaviors"] == [{"type": "callback", "value": value}]
        assert found[kind]["form_action_type"] == "submit"
    meanings = [found[kind]["confirm"]["text"]["i18n_content"] for kind in RulingKind]
    assert ["executed" in meanings[0]["en_us"], "not executed" in meanings[1]["en_us"]] == [True, True]
    assert "once more" in meanings[2]["en_us"]
    assert len({meaning["zh_cn"] for meaning in meanings}) == 3


@pytest.mark.parametrize("showing", [each for each in every_review() if each.settlement or each.replaced])
def test_a_closed_review_has_nothing_left_to_settle(showing: ReviewShowing) -> None:
    found = shown(showing)
    assert "callback" not in json.dumps(found)
    assert not [each for each in objects(found) if each.get("tag") in ("form", "input")]
    assert found["header"]["title"]["content"] == "send_invoice"


def test_a_replaced_review_points_to_the_newer_card() -> None:
    assert "There is a newer card of this review further down" in said(shown(review(replaced=True)))
    assert "newer card" not in said(shown(review(replaced=True, settlement=SETTLED)))


@pytest.mark.parametrize("url", [None, "javascript:alert(1)", "https://good.example@evil.example/", "lark://x"])
def test_only_a_plain_address_is_linked(url: str | None) -> None:
    assert buttons(shown(review(url=URL)))["temporal"]["behaviors"] == [{"type": "open_url", "default_url": URL}]
    assert "temporal" not in buttons(shown(review(url=url)))
    twin = Showing(plan=plan(frozen_twin="inv-41"), twin_url=url)
    assert "twin" not in buttons(built(twin))


@pytest.mark.parametrize(
    ("fields", "settlement", "expected"),
    [
        ({"probes": 3}, None, "3 × so far, no clear answer"),
        ({"probes": 0}, None, "Not yet"),
        ({"has_probe": False}, None, "cannot be checked automatically"),
        ({"probes": 3}, PROBED, "3 ×"),
    ],
)
def test_a_review_says_how_often_the_tool_was_asked(
    fields: dict[str, Any], settlement: Settlement | None, expected: str
) -> None:
    text = said(shown(review(frozen=frozen(plan(), **fields), settlement=settlement)))
    assert expected in text
    assert ("clear answer" in text) == ("clear answer" in expected)


def test_as_many_waiting_approvals_are_named_as_there_is_room_for() -> None:
    some = tuple(f"inv-{n:04}{'x' * 150}" for n in range(20))
    crowd = Examined(attempts=(SEEN,), waiting=100_001, joined=some)
    text = said(shown(review(examined=crowd)))
    assert "Also waiting (100000)" in text
    assert some[0] in text
    assert some[-1] not in text
    assert "Also settled (100000)" in said(shown(review(examined=crowd, settlement=SETTLED)))
