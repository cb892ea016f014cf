"""What a click on a review's card says, and which rulings it can make."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruling, RulingKind
from assent.contracts.values import Surface
from cards import Click, ForeignClick, RulingClick, UnfitRuling, parse_event
from tests.support.callbacks import JSON, NOW, PLAIN, SEALED, TENANT, VALUE, click, opened
from tests.support.hypothesis_settings import unhurried

REVIEW = {"assent": "1", "review": "inv-42", "ruling": "executed", "payload_sha256": "ab" * 32}
FORM = {"reason": "It is in the outbox.", "content": '{"invoice": "2026-42"}', "payload_hash": ""}


def event(value: Any = REVIEW, form: Any = FORM) -> dict[str, Any]:
    return click(action={"value": value, "tag": "button", "name": "executed", "form_value": form})


def pressed(kind: RulingKind = RulingKind.EXECUTED, **form: Any) -> RulingClick:
    found = opened(event({**REVIEW, "ruling": kind.value}, {"reason": "I looked.", **form}))
    assert isinstance(found, RulingClick)
    return found


def unfit(found: RulingClick) -> str:
    with pytest.raises(UnfitRuling) as caught:
        found.ruling()
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) > 20
    return caught.value.why


def test_a_signed_click_on_a_review_is_read() -> None:
    assert opened(event()) == RulingClick(
        event_id="ev_1",
        operator=Identity(open_id="ou_ben", union_id="on_ben", tenant_key=TENANT),
        approval_id="inv-42",
        kind=RulingKind.EXECUTED,
        reason="It is in the outbox.",
        content_text='{"invoice": "2026-42"}',
        payload_hash=None,
        payload_sha256="ab" * 32,
        message_id="om_1",
        chat_id="oc_1",
        occurred_at=NOW,
        proof="feishu-signature",
    )


def test_every_door_reads_it_and_says_what_proves_it() -> None:
    plain, connected = PLAIN.open({}, json.dumps(event()).encode(), NOW), SEALED.read(json.dumps(event()).encode())
    assert isinstance(plain, RulingClick)
    assert isinstance(connected, RulingClick)
    assert (plain.proof, connected.proof) == ("feishu-token", "feishu-connection")


def test_a_value_and_a_form_may_come_as_strings() -> None:
    assert opened(event(json.dumps(REVIEW), json.dumps(FORM))) == opened(event())


def test_a_ruling_says_what_was_settled_by_whom_and_what_proves_it() -> None:
    found = opened(event())
    assert isinstance(found, RulingClick)
    assert found.ruling() == Ruling(
        kind=RulingKind.EXECUTED,
        operator=found.operator,
        reason="It is in the outbox.",
        content={"invoice": "2026-42"},
        payload_sha256="ab" * 32,
        ruling_id="ev_1",
        surface=Surface.FEISHU,
        proof="feishu-signature",
    )


def test_trying_again_carries_the_typed_hash() -> None:
    assert pressed(RulingKind.RETRY, payload_hash=" AB12cd34ef56 \n").ruling().payload_hash == "AB12cd34ef56"
    assert unfit(pressed(RulingKind.RETRY, payload_hash="行" * 500)) == "wrong_hash"
    assert pressed(RulingKind.RETRY, payload_hash="a" * 9000).ruling().payload_hash == "a" * 64


@pytest.mark.parametrize("reason", [None, "", "  \n ", 5, ["x"], "\x00\x07"])
def test_a_ruling_needs_a_reason(reason: Any) -> None:
    assert unfit(pressed(reason=reason)) == "no_reason"


@pytest.mark.parametrize("form", [None, "", {}, "{}"])
def test_an_empty_form_is_no_ruling(form: Any) -> None:
    found = opened(event(REVIEW, form))
    assert isinstance(found, RulingClick)
    assert unfit(found) == "no_reason"


@pytest.mark.parametrize(
    ("typed", "content"),
    [
        ("", None),
        ("  \n", None),
        (None, None),
        ("null", None),
        ("0", 0),
        ("false", False),
        ('"sent"', "sent"),
        (' {"a": [1.5, null]}\n', {"a": [1.5, None]}),
        ('"发票"', "发票"),
        ("sent", "sent"),
        (" 已汇出，流水号 12 34\n", "已汇出，流水号 12 34"),
        (str(2**60), str(2**60)),  # no number that canonical JSON carries: it stays what was typed
        ("NaN", "NaN"),
    ],
)
def test_the_result_is_read_as_json_or_as_text(typed: Any, content: Any) -> None:
    assert pressed(content=typed).ruling().content == content


@pytest.mark.parametrize(
    "typed",
    [
        *("{", "{'a': 1}", '"half', '{"a": 1, "a": 2}', "a\u202eb"),
        *("[" * 3000, "[" * 80 + "]" * 80, '"\\ud800"', '{"\\udfff": 1}', '"bell\x07"', "\x00"),
    ],
)
def test_a_result_that_begins_like_json_and_is_none_is_refused(typed: str) -> None:
    assert unfit(pressed(content=typed)) == "bad_content"


@pytest.mark.parametrize("kind", [RulingKind.NOT_EXECUTED, RulingKind.RETRY])
@pytest.mark.parametrize("typed", ["{}", "null", "sent"])
def test_a_result_of_what_did_not_happen_is_a_mistake(kind: RulingKind, typed: str) -> None:
    assert unfit(pressed(kind, content=typed)) == "not_a_result"
    assert pressed(kind, content=" ").ruling().content is None


def foreign() -> list[Any]:
    changed: list[dict[str, Any]] = [
        *({"assent": each} for each in ("2", 1, None)),
        *({"review": each} for each in (None, "", 5, "x" * 201, "two\nlines", "nul\x00", "half\ud800", {"a": 1})),
        *({"ruling": each} for each in ("maybe", "", None, 1, ["executed"], "EXECUTED")),
        *({"payload_sha256": each} for each in (None, "", 7, "f" * 300)),
        {"approval_id": "inv-41"},
        VALUE,
    ]
    return [{**REVIEW, **change} for change in changed]


@pytest.mark.parametrize("value", foreign(), ids=lambda value: ascii(value)[:60])
def test_a_value_that_is_not_a_reviews_is_foreign(value: Any) -> None:
    found = opened(event(value))
    assert isinstance(found, ForeignClick)
    assert "inv-42" not in found.why


@pytest.mark.parametrize("content", [5, {"a": 1}, ["x"], "x" * 4001, "half \ud83d"])
def test_a_result_that_no_client_sends_is_foreign(content: Any) -> None:
    assert isinstance(opened(event(REVIEW, {**FORM, "content": content})), ForeignClick)


def test_a_click_on_an_approval_is_no_ruling() -> None:
    assert isinstance(opened(event(VALUE, FORM)), Click)


@given(value=st.dictionaries(st.sampled_from([*REVIEW, *VALUE]), JSON), form=JSON, typed=st.text(max_size=60))
@unhurried
def test_no_click_on_a_review_breaks_the_reader(value: dict[str, Any], form: Any, typed: str) -> None:
    forms = (form, dict.fromkeys(FORM, form), {**FORM, "content": typed}, {**FORM, "payload_hash": typed})
    for envelope in (event({**REVIEW, **value}), *(event(REVIEW, each) for each in forms)):
        found = parse_event(envelope, proof="feishu-token", tenant_key=None)
        assert isinstance(found, Click | RulingClick | ForeignClick)
        if isinstance(found, RulingClick):
            with contextlib.suppress(UnfitRuling):
                assert found.ruling().reason
