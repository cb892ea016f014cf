"""Temporal's page of an approval shows exactly what runs: whole, or with a word about what is missing; never markup."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assent.contracts.review import Examined
from assent.contracts.ruling import Ruling
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.payload import canonical_payload
from tests.conftest import ME
from tests.support.cards import plan
from tests.support.examinations import examined, settled
from tests.support.review_cards import frozen
from workflows.details import details, review_page


def state(arguments: dict[str, Any], **more: Any) -> State:
    payload = canonical_payload("pay", arguments)
    return State(approval_id="inv-1", phase=Phase.PENDING, tool="pay", requester=ME, payload=payload, **more)


def shown(page: str) -> str:
    """All that stands in blocks of code."""
    return "".join(part for part in page.split("````")[1::2])


def test_a_call_stands_there_as_it_is() -> None:
    text = "back`ticks` ``` and\n```\nfences | pipes"
    block = shown(details(state({"text": text})))
    assert json.loads(block.removeprefix("json")) == {"text": text}


def test_of_a_long_call_it_is_said_how_much_is_missing_and_where_it_is() -> None:
    page = details(state({"script": "a" * 5000 + "rm -rf /" + "b" * 5000 + "the end"}))
    assert "the end" in shown(page)
    between = 10_000 + 15 + len('{\n  "script": ""\n}') - 8000
    assert f"**{between:,} characters of the call are not shown here**" in page
    assert "assent show inv&#45;1" in page


def test_what_fits_is_not_cut() -> None:
    page = details(state({"script": "a" * 7900 + "the end"}))
    assert "the end" in shown(page)
    assert "not shown" not in page


@pytest.mark.parametrize("attack", ["x\u202egnp.exe", "p\u0430ypal.com", "zero\u200bwidth", "a\ufe0f"])
def test_nothing_hides_on_the_page(attack: str) -> None:
    said = state({"file": attack, attack: 1}, reason=attack, warnings=(attack,))
    for page in (details(said), review_page(frozen(plan(), error=attack), examined(attack), None)):
        assert attack not in page.replace("&#46;", ".")
        assert "⟦U" in page


@pytest.mark.parametrize(
    "attack", ["**bold**", "[a](https://evil.example)", "<img src=x onerror=y>", "a | b |", "`x`", "![i](u)", "# h"]
)
def test_nothing_becomes_markup(attack: str) -> None:
    said = state({}, reason=attack, warnings=(attack,))
    for page in (details(said), review_page(frozen(plan(), error=attack), examined(attack), settled(attack))):
        assert attack not in page


def test_a_long_cell_says_what_it_leaves_out() -> None:
    page = details(state({}, reason="because " + "x" * 2000 + " the end"))
    assert "characters are not shown" in page
    assert "the end" in page


def test_a_sensitive_value_is_masked_wherever_it_is_repeated() -> None:
    secret = "hunter2-hunter2"
    page = details(state({"key": secret}, sensitive=("key",), reason=f"refused: {secret}"))
    assert secret not in page
    payload = canonical_payload("pay", {"key": secret})
    call = frozen(plan()).call.model_copy(update={"payload": payload})
    cold = frozen(plan(), call=call, error=f"no: {secret}", sensitive=("key",))
    for settlement in (None, settled(secret)):
        (seen,) = examined(f"it was {secret}").attempts
        known = Examined(attempts=(seen.model_copy(update={"worker": "w"}),))
        page = review_page(cold, known, settlement)
        assert secret not in page
        assert "•••" in page


def test_a_review_shows_the_arguments_and_what_to_do_with_the_update_ready_to_paste() -> None:
    cold = frozen(plan({"to": "acme", "amount": "120.50"}))
    page = review_page(cold, Examined(retries=2), None)
    arguments, update = (json.loads(part.removeprefix("json")) for part in page.split("````")[1::2])
    assert arguments == {"to": "acme", "amount": "120.50"}
    with pytest.raises(ValueError, match="kind"):
        Ruling.model_validate(update)  # what nobody filled in settles nothing
    ruling = Ruling.model_validate({**update, "kind": "executed"})
    assert (ruling.kind, ruling.payload_sha256, ruling.retries) == ("executed", cold.call.payload_sha256, 2)
    assert "the update `settle`" in page
    assert "it cannot be tried again" in page
    assert "add `payload_hash`" in review_page(cold, Examined(did_not_run=True), None)
    assert "What to do" not in review_page(cold, Examined(), settled("it is in the books"))
