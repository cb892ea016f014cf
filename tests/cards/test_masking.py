"""A sensitive value stands on no card and in no table, whoever repeats it; a long argument hides in no panel."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, StringConstraints, ValidationError
from rich.console import Console

from assent.cli import tables
from assent.contracts.execute import ToolCall
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.review import Examined, FrozenCall
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.masking import MASK, Mask
from cards import BundledCall, ReviewShowing, Showing, bundle_card, card, overflow, review_card, settled_notice
from tests.conftest import ME
from tests.support.card_rules import check, objects, plain_texts
from tests.support.cards import APPROVED, NOW, REJECTED, WORDING, plan
from tests.support.counting import lines
from tests.support.examinations import examined, settled
from tests.support.hypothesis_settings import unhurried
from tests.support.ledgers import edited
from tests.support.review_cards import frozen
from workflows.details import details, review_page

SECRET = "hunter2/hunter2 &x"
ECHOES = [
    f"the password {SECRET} is wrong",
    {"deep": [{"echo": SECRET, SECRET: 1}]},
    json.dumps({"in": json.dumps({"json": SECRET})}),
    "https://idp.example/login?token=hunter2%2Fhunter2%20%26x",
    "https://idp.example/login?token=hunter2%2Fhunter2+%26x",
    f"cut off at {SECRET[:11]}",
    f"cut off at {SECRET[:11]}…",
]


def asked(**more: Any) -> Plan:
    return plan({"user": "acme", "password": SECRET}, sensitive=("password",), **more)


def spoken(text: str) -> None:
    """Nothing of the value stands in a text, however it was written."""
    for part in ("hunter2/h", "hunter2%2F", "hunter2\\/"):
        assert part not in text, text


@pytest.mark.parametrize("echo", ECHOES, ids=lambda echo: ascii(str(echo)[:24]))
@pytest.mark.parametrize("status", [Status.EXECUTED, Status.FAILED, Status.FROZEN, Status.REJECTED, Status.CANCELLED])
def test_no_ending_repeats_it(echo: Any, status: Status) -> None:
    words = echo if isinstance(echo, str) else json.dumps(echo)
    outcome = {"approval_id": "a", "status": status, "content": echo, "reason": words, "authorize_url": words}
    showing = Showing(
        plan=asked(request_reason=words),
        decided=(REJECTED if status is Status.REJECTED else APPROVED).model_copy(update={"reason": words}),
        outcome=Outcome(**outcome),
        ended_at=NOW,
    )
    spoken(card(showing, WORDING))
    spoken(
        str(
            bundle_card(
                "b", (BundledCall(showing=showing), BundledCall(showing=Showing(plan=asked()))), WORDING, is_new=False
            )
        )
    )
    state = State(
        approval_id="a",
        phase=Phase.CLOSED,
        tool="t",
        requester=ME,
        payload=asked().payload,
        sensitive=("password",),
        status=status,
        reason=words,
        request_reason=words,
    )
    spoken(printed(tables.approval_page(state, Outcome(**outcome), settled(words))))
    spoken(printed(tables.outcome_page(Outcome(**outcome), state)))
    spoken(printed(tables.result_page(words, state)))


@pytest.mark.parametrize("echo", ECHOES, ids=lambda echo: ascii(str(echo)[:24]))
def test_neither_operators_nor_whoever_asked_are_shown_it(echo: Any) -> None:
    words = echo if isinstance(echo, str) else json.dumps(echo)
    (seen,) = examined(words).attempts
    known = Examined(attempts=(seen.model_copy(update={"worker": "w"}),))
    for settlement in (None, settled(words), settled(words).model_copy(update={"content": echo})):
        cold = frozen(asked(), error=words)
        showing = ReviewShowing(plan=asked(request_reason=words), frozen=cold, examined=known, settlement=settlement)
        spoken(review_card(showing, WORDING))
        if settlement:
            spoken(settled_notice(settlement, asked(), WORDING))


def test_nor_does_the_file_of_a_large_call() -> None:
    large = plan({"password": SECRET, "text": "x" * 60_000}, sensitive=("password",), request_reason=ECHOES[0])
    file = overflow(large, WORDING)
    assert file is not None
    spoken(file.data.decode())


def test_what_is_no_secret_is_shown() -> None:
    mask = Mask(asked().payload, ("password",))
    assert mask.text("acme paid the hunter.") == "acme paid the hunter."
    assert mask.value({"a": [1, True, None, "x"]}) == {"a": [1, True, None, "x"]}
    assert mask.address("https://idp.example/login") == "https://idp.example/login"
    assert mask.address("https://idp.example/?t=hunter2%2Fhunter2%20%26x") == MASK


def test_a_short_value_is_masked_where_it_stands_alone() -> None:
    mask = Mask(json.dumps({"arguments": {"pin": "123", "code": 7}}), ("pin", "code"))
    assert mask.text("pin 123, code 7; room 1234, 77") == f"pin {MASK}, code {MASK}; room 1234, 77"


@pytest.mark.parametrize("value", [0, 1, 7])
def test_a_number_is_masked_like_any_other_and_a_truth_is_not(value: int) -> None:
    mask = Mask(json.dumps({"arguments": {"pin": value, "on": True}}), ("pin", "on"))
    assert mask.text(f"pin {value}; room 1{value}1; True") == f"pin {MASK}; room 1{value}1; True"
    assert mask.value([value, True, False, 5]) == [MASK, True, False, 5]


def test_the_names_within_a_sensitive_argument_are_masked_and_stay_apart() -> None:
    mask = Mask(json.dumps({"arguments": {"keys": {"sk-live-1234": True, "sk-test-99": [{"alice": 1}]}}}), ("keys",))
    assert mask.text("unknown key sk-live-1234 of alice") == f"unknown key {MASK} of {MASK}"
    assert mask.value({"sk-live-1234": "a", "sk-test-99": "b", "c": "d"}) == {MASK: "a", f"{MASK} 2": "b", "c": "d"}


def test_of_an_error_that_quotes_both_ends_of_a_value_neither_is_shown() -> None:
    secret = "sk-begins-like-this-" + "x" * 60 + "-and-ends-so"

    class Key(BaseModel):
        key: Annotated[str, StringConstraints(max_length=3)]
        count: int

    with pytest.raises(ValidationError) as raised:
        Key.model_validate({"key": secret, "count": "many"})
    told = str(raised.value)
    assert "sk-begins" in told
    mask = Mask(json.dumps({"arguments": {"key": secret}}), ("key",))
    shown = mask.text(told)
    assert "sk-begins" not in shown
    assert "ends-so" not in shown
    assert "at most 3 characters" in shown
    assert "valid integer" in shown
    cut = mask.text(told[: told.index("sk-begins") + 8])
    assert "sk-b" not in cut


def test_what_was_proposed_stays_masked_after_an_edit() -> None:
    other = edited(asked(request_reason=ECHOES[0]), {"user": "acme", "password": "correct horse"})
    words = f"neither {SECRET} nor correct horse"
    showing = Showing(plan=other, decided=APPROVED.model_copy(update={"reason": words}))
    outcome = Outcome(approval_id="a", status=Status.FROZEN, content=words, reason=words, edit=other.edit)
    state = State(
        approval_id="a",
        phase=Phase.CLOSED,
        tool="t",
        requester=ME,
        payload=other.payload,
        sensitive=other.sensitive,
        edit=other.edit,
        status=Status.FROZEN,
        reason=words,
        request_reason=words,
    )
    cold = FrozenCall.of(other, ToolCall.of(other), decided_by=ME, error=words, frozen_at=NOW)
    (seen,) = examined(words).attempts
    known = Examined(attempts=(seen.model_copy(update={"worker": "w"}),))
    for shown in (
        card(showing, WORDING),
        review_card(ReviewShowing(plan=other, frozen=cold, examined=known), WORDING),
        settled_notice(settled(words), other, WORDING),
        printed(tables.approval_page(state, outcome, settled(words))),
        printed(tables.outcome_page(outcome, state)),
        printed(tables.result_page(words, state)),
        details(state),
        review_page(cold, known, None),
    ):
        spoken(str(shown))
        assert "correct horse" not in str(shown)


letters = st.text(st.sampled_from("ab1/ …"), max_size=12)


@unhurried
@given(
    values=st.lists(letters | st.integers(0, 99_999), max_size=60),
    between=st.lists(letters, max_size=20),
    cut=st.integers(0, 200),
)
def test_whatever_is_hidden_none_of_it_can_be_read(values: list[Any], between: list[str], cut: int) -> None:
    """Held against a reader who looks for each value by itself, wherever it stands and wherever the text is cut."""
    mask = Mask(json.dumps({"arguments": {"s": values}}), ("s",))
    known = [str(value) for value in values if value not in ("", 0, 1)]
    text = "".join(part + word for part, word in zip([*between, ""], [*known, ""], strict=False))[:cut]
    shown = mask.text(text)
    rest = shown.split(MASK)
    for secret in known:
        if len(secret) >= 4:
            assert not any(secret in part for part in rest), (secret, text, shown)
        else:
            alone = re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)")
            assert not any(alone.search(part) for part in rest if part == text), (secret, text, shown)
    assert mask.text("".join(between)) == "".join(between) or any(known), "without any, nothing is hidden"
    at = 0
    for part in rest:
        at = text.index(part, at) + len(part)  # what is shown stood there, in this order


@pytest.mark.parametrize("values", [20, 10_000], ids=["few", "many"])
@pytest.mark.parametrize("like", [False, True], ids=["other texts", "texts that begin alike"])
def test_hiding_costs_what_values_and_text_weigh(values: int, like: bool) -> None:
    """Not what they weigh multiplied: that took the approvals worker minutes. Steps are counted, not timed."""
    secrets = [f"{'same' if like else ''}{n:08}{'x' * (n % 7)}" for n in range(values)]
    mask = Mask(json.dumps({"arguments": {"s": secrets}}), ("s",))
    mask.text("once")
    texts = [f"{'same' if like else ''}{n:08}y " * 4 for n in range(2000)]
    steps = lines(lambda: [mask.text(text) for text in texts])
    assert steps < 60 * sum(map(len, texts)), "some steps for each character, whatever is looked for"


def test_a_text_that_is_made_to_be_slow_is_hidden_whole() -> None:
    secrets = ["same" + "x" * n for n in range(1, 3000)]
    mask = Mask(json.dumps({"arguments": {"s": secrets}}), ("s",))
    text = "samey" * 20_000
    assert lines(lambda: mask.text(text)) < 100 * len(text)
    assert mask.text(text).endswith(MASK)


def printed(page: Any) -> str:
    console = Console(width=100_000)
    with console.capture() as captured:
        console.print(page)
    return captured.get()


# Long arguments


SCRIPT = "echo begin\n" + "\n".join(f"echo {n}" for n in range(400)) + "\nrm -rf / # the end"


def unfolded(text: str) -> str:
    """What is read on a card without pressing anything."""

    def without_panels(value: Any) -> Any:
        if isinstance(value, dict):
            folded = value.get("tag") == "collapsible_panel" and not value["expanded"]
            return {} if folded else {name: without_panels(each) for name, each in value.items()}
        return [without_panels(each) for each in value] if isinstance(value, list) else value

    return "\n".join(plain_texts(without_panels(json.loads(text))))


def test_the_ends_of_a_long_argument_stand_open_where_the_risk_is_high() -> None:
    built = card(Showing(plan=plan({"script": SCRIPT, "host": "db1"}, risk=Risk.HIGH)), WORDING)
    seen = unfolded(built)
    assert "echo begin" in seen
    assert "rm -rf / # the end" in seen
    assert f"{len(SCRIPT) - 400:,} characters in between" in seen
    assert "echo 200" not in seen
    assert any("echo 200" in text for text in plain_texts(json.loads(built))), "the whole is there to be unfolded"
    check(built)
    low = unfolded(card(Showing(plan=plan({"script": SCRIPT}, risk=Risk.LOW)), WORDING))
    assert "echo begin" not in low


def test_they_stand_open_too_where_the_whole_is_in_a_file() -> None:
    huge = plan({"script": "first words " + "x" * 60_000 + " last words"}, risk=Risk.HIGH)
    seen = unfolded(card(Showing(plan=huge), WORDING))
    assert "first words" in seen
    assert "last words" in seen
    assert "59,623 characters in between" in seen
    file = overflow(huge, WORDING)
    assert file is not None
    assert "x" * 60_000 in file.data.decode()


def test_what_is_only_just_long_stands_open_whole() -> None:
    text = "a" * 150 + "\n" + "b" * 200
    built = card(Showing(plan=plan({"text": text}, risk=Risk.HIGH)), WORDING)
    assert text in unfolded(built)
    panels = [each for each in objects(json.loads(built)) if each.get("tag") == "collapsible_panel"]
    assert text not in json.dumps(panels), "and nowhere else"


def test_many_long_arguments_still_make_a_card() -> None:
    many = {f"n{n:02}": f"start {n} " + "\u202e" * 1500 + f" end {n}" for n in range(40)}
    built = card(Showing(plan=plan(many, risk=Risk.HIGH)), WORDING)
    check(built)
    few = {f"n{n:02}": f"start {n} " + "y" * 9000 + f" end {n}" for n in range(10)}
    seen = unfolded(card(Showing(plan=plan(few, risk=Risk.HIGH)), WORDING))
    assert all(f"start {n} " in seen and f" end {n}" in seen for n in range(10))
