"""What a card says of several calls: all of each that can be decided there, within Feishu's limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Execution, Permission
from assent.contracts.plan import Plan
from assent.contracts.presentation import Presentation
from assent.contracts.status import Status
from cards import BundledCall, Showing, bundle_card, may_be_bundled, shares
from cards.controls import is_ticked
from tests.support.card_rules import check, markdowns, objects, plain_texts
from tests.support.cards import APPROVED, NOW, WORDING, plan, said, values
from tests.support.hostile_texts import ATTACKS

LOW: dict[str, Any] = {"risk": Risk.LOW, "approvers": Approvers(kind=Approvers.Kind.ANYONE)}


def calls(*plans: Plan, **showing: Any) -> tuple[BundledCall, ...]:
    named = (each.model_copy(update={"approval_id": f"a{n}"}) for n, each in enumerate(plans))
    return tuple(BundledCall(showing=Showing(plan=each, **showing)) for each in named)


def built(found: tuple[BundledCall, ...], *, is_new: bool = True) -> dict[str, Any]:
    text = bundle_card("b", found, WORDING, is_new=is_new)
    assert text is not None
    return check(text)


def at_once(card: dict[str, Any]) -> list[str]:
    return [each for value in values(card) for each, _ in value.get("approve", ())]


def test_each_call_shows_its_arguments_and_sends_its_own_hash() -> None:
    found = calls(plan({"to": "ann"}), plan({"to": "ben"}, risk=Risk.HIGH))
    card = built(found)
    texts = list(plain_texts(card))
    assert {"to: ann", "to: ben"} <= set(texts)
    sent = {(value["approval_id"], value["decision"], value["payload_sha256"]) for value in values(card)}
    hashes = [each.showing.plan.payload_sha256 for each in found]
    assert sent == {(f"a{n}", kind, hashes[n]) for n in range(2) for kind in ("approve", "reject")}
    assert all(any(each[:12] in text for text in texts) for each in hashes)


def test_each_call_that_is_remembered_can_be_asked_again() -> None:
    once = {"permission": Permission(execution=Execution.ASK_ONCE), "remember_for": timedelta(days=1)}
    card = built(calls(plan({"to": "ann"}, **once), plan({"to": "ben"}), plan({"to": "cy"}, **once)))
    (form,) = [each for each in objects(card["body"]) if each.get("tag") == "form"]
    assert [each["name"] for each in objects(form) if each.get("tag") == "checker"] == ["ask_again_1", "ask_again_3"]
    pressed = [each for each in objects(form) if each.get("tag") == "button"]
    assert {each["form_action_type"] for each in pressed} == {"submit"}
    sent = {(value["approval_id"], value.get("again")) for value in values(card)}
    assert sent == {("a0", "ask_again_1"), ("a1", None), ("a2", "ask_again_3")}
    ticked = {"ask_again_1": False, "ask_again_3": True}
    assert [is_ticked(ticked, box) for box in ("ask_again_1", "ask_again_3", None)] == [False, True, True]


def test_what_is_the_same_for_all_is_said_once() -> None:
    same = built(calls(plan({"to": "ann"}), plan({"to": "ben"})))
    assert list(plain_texts(same)).count("The customer asked for it.") == 1
    other = built(calls(plan({"to": "ann"}), plan({"to": "ben"}, request_reason="Another reason.")))
    assert {"The customer asked for it.", "Another reason."} <= set(plain_texts(other))


@pytest.mark.parametrize(
    "special",
    [
        {"risk": Risk.MEDIUM},
        {"risk": Risk.HIGH},
        {"warnings": ("Look twice.",)},
        {"frozen_twin": "inv-41"},
        {"another_is_frozen": True},
        {"approvers": Approvers(kind=Approvers.Kind.ANYONE, threshold=2)},
        {"approvers": Approvers(kind=Approvers.Kind.ANYONE, then=(Approvers(kind=Approvers.Kind.ANYONE),))},
    ],
    ids=lambda special: next(iter(special)),
)
def test_only_what_is_low_and_unremarkable_is_approved_at_once(special: dict[str, Any]) -> None:
    plain = plan({"to": "ann"}, **LOW)
    card = built(calls(plain, plan({"to": "ben"}, **{**LOW, **special}), plain))
    assert at_once(card) == ["a0", "a2"]
    assert len([value for value in values(card) if value.get("approval_id") == "a1"]) == 2
    assert at_once(built(calls(plain, plan({"to": "ben"}, **{**LOW, **special})))) == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_others_write_stays_text(attack: str) -> None:
    name = attack.replace("\n", " ")
    hostile = plan({"to": attack, name: 1}, tool=name[:100], description=attack, request_reason=attack)
    for found in (calls(hostile, hostile), calls(hostile, hostile, decided=APPROVED)):
        text = bundle_card("b", found, WORDING, is_new=True)
        assert text is not None or not may_be_bundled(hostile, WORDING)
        for markup in markdowns(check(text)) if text else ():
            assert "<at id=all" not in markup
            assert "evil.example" not in markup


def test_calls_that_do_not_fit_have_no_card() -> None:
    large = plan({"note": "x" * 6000})
    assert bundle_card("b", calls(*[large] * 2), WORDING, is_new=True)
    assert bundle_card("b", calls(*[large] * 4), WORDING, is_new=True) is None


def test_many_calls_share_as_many_cards_as_they_need_in_their_order() -> None:
    twelve = calls(*(plan({"amount": n, "customer": "acme", "note": "x" * 100}) for n in range(12)))
    cards = shares(twelve, WORDING)
    assert [each for card in cards for each in card] == list(twelve)
    assert [len(card) for card in cards] == [8, 4]
    for card in cards:
        check(bundle_card("b", card, WORDING, is_new=True) or "")
    large = calls(*[plan({"note": "x" * 6000})] * 5)
    assert [len(card) for card in shares(large, WORDING)] == [2, 2, 1]
    decided = large[0].model_copy(update={"showing": Showing(plan=large[0].showing.plan, decided=APPROVED)})
    assert [len(card) for card in shares((decided, *large[1:]), WORDING)] == [2, 2, 1]  # whatever became of some


def test_a_call_that_needs_a_file_is_not_for_a_shared_card() -> None:
    assert may_be_bundled(plan(), WORDING)
    assert not may_be_bundled(plan({"note": "x" * 40_000}), WORDING)
    assert not may_be_bundled(plan(request_reason="x" * 4000), WORDING)
    assert not may_be_bundled(plan(description="x" * 1000), WORDING)


@pytest.mark.parametrize("status", list(Status))
def test_a_card_that_fitted_fits_whatever_becomes_of_the_calls(status: Status) -> None:
    one = plan({"note": "x" * 3000}, request_reason="r" * 800)
    count = next(n for n in range(1, 50) if bundle_card("b", calls(*[one] * (n + 1)), WORDING, is_new=True) is None)
    many = calls(*[one] * count)
    said = "ü" * 3000
    outcome = Outcome(approval_id="a", status=status, content=said, reason=said, decided_by=Identity(open_id="ou_ben"))
    for ended in range(1, count + 1):
        past = calls(*[one] * ended, decided=APPROVED, outcome=outcome, ended_at=NOW)
        card = built((*past, *many[ended:]), is_new=False)
        assert len(values(card)) == 2 * (count - ended)


def test_a_call_with_a_card_of_its_own_is_decided_there() -> None:
    first, second = calls(plan({"to": "ann"}), plan({"to": "ben"}))
    card = built((first.model_copy(update={"apart": True}), second), is_new=False)
    assert {value["approval_id"] for value in values(card)} == {"a1"}
    assert any("card of its own" in text for text in markdowns(card))


def test_a_bundle_says_what_the_agent_runs_itself_and_which_command_a_program_is() -> None:
    own = plan({"name": "wire", "arguments": {"to": "bob"}}, tool="agent_call", is_consent_only=True)
    program = plan({"target": "a b"}, presentation=Presentation(order=("target",), command=("make", "{target}")))
    for asked, line in ((own, WORDING("line.agent_runs").en), (program, "make 'a b'")):
        assert line in said(built(calls(asked)))
