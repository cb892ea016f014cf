"""What is read out of a click on a card: edits, delegations, remembering, results, revoking; or nothing at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.feishu.verifier import Callback
from assent.arguments.fields import typed
from assent.contracts.decision import Decision, DecisionKind, Remember, Stage
from assent.contracts.identity import Identity
from cards import (
    Click,
    ForeignClick,
    RevokeClick,
    Showing,
    card,
    parse_event,
    result_card,
)
from cards.clicks import BundleClick
from tests.support.card_rules import objects
from tests.support.cards import ARGUMENTS, WORDING, buttons, plan
from tests.support.hostile_texts import TEXT
from tests.support.hypothesis_settings import unhurried
from tests.support.permission_cards import ONCE, SCHEMA
from tests.support.result_cards import showing

NOW = datetime(2026, 3, 15, 13, 42, tzinfo=UTC)


def read(value: Any, form: Any = None) -> Callback:
    action = {"tag": "button", "value": value} | ({"form_value": form} if form is not None else {})
    envelope = {
        "schema": "2.0",
        "header": {"event_id": "e1", "event_type": "card.action.trigger", "create_time": "1773582120000000"},
        "event": {
            "operator": {"open_id": "ou_ben", "union_id": "on_ben", "user_id": "", "tenant_key": "forged"},
            "action": action,
            "context": {"open_message_id": "om_1", "open_chat_id": "oc_1"},
        },
    }
    return parse_event(envelope, proof="feishu-signature", tenant_key="tenant_1")


def decided(value: Any, form: Any = None) -> Decision:
    click = read(value, form)
    assert isinstance(click, Click), click
    return click.decision(delivery_id="d1", now=NOW)


def pressed(name: str, **fields: Any) -> dict[str, Any]:
    """What a button of a pending card sends."""
    shown = json.loads(card(Showing(plan=plan(**fields), parameters=SCHEMA), WORDING))
    value: dict[str, Any] = buttons(shown)[name]["behaviors"][0]["value"]
    return value


def test_an_edit_carries_what_was_typed_by_the_name_of_its_argument() -> None:
    value = pressed("edit")
    assert value["fields"] == ["customer", "amount", "lines"]
    decision = decided(value, {"arg_0": " acme \r\n", "arg_1": "99", "arg_2": "[]", "reason": "no"})
    assert decision.kind is DecisionKind.EDIT
    assert decision.fields == {"customer": " acme \r\n", "amount": "99", "lines": "[]"}
    assert decision.arguments is None
    assert decision.payload_sha256 == plan().payload_sha256
    assert typed(SCHEMA, ARGUMENTS, decision.fields, ["api_key"])["amount"] == 99


@pytest.mark.parametrize("button", ["approve", "approve_tool"])
def test_approving_as_proposed_carries_along_what_was_changed_and_nothing_else(button: str) -> None:
    value = pressed(button, **ONCE)
    as_it_was = {"arg_0": "acme", "arg_1": "120.5", "arg_2": '[\r\n  {\r\n    "item": "Travel"\r\n  }\r\n]'}
    for untouched in ({}, as_it_was):
        assert decided(value, {**untouched, "reason": ""}).fields is None
    emptied = {name: text for name, text in as_it_was.items() if name != "arg_0"}  # or so it may be
    assert decided(value, emptied).fields == {"customer": ""}
    for typed_in in ("12.5", "120.50", "", " 120.5"):
        decision = decided(value, {**as_it_was, "arg_1": typed_in})
        assert (decision.kind, decision.fields) == (DecisionKind.APPROVE, {"amount": typed_in})


def test_fields_that_the_platform_leaves_out_stay_as_they_were() -> None:
    assert decided(pressed("edit"), {"arg_1": "99"}).fields == {"amount": "99"}
    assert decided(pressed("edit"), {}).fields == {}


@pytest.mark.parametrize(
    "name", ["", "arg_1", "reason", "<at id=all>", "名字", "a" * 3000, '"quoted"\n', "delegate_to"]
)
def test_any_name_of_an_argument_comes_back_as_it_is(name: str) -> None:
    arguments = {name: "x", "zz": "y"}
    schema = {"properties": {each: {"type": "string"} for each in arguments}}
    shown = json.loads(card(Showing(plan=plan(arguments, sensitive=()), parameters=schema), WORDING))
    value = buttons(shown)["edit"]["behaviors"][0]["value"]
    decision = decided(value, {"arg_0": "changed", "arg_1": "y"})
    assert decision.fields == {name: "changed", "zz": "y"}


def test_remembering_for_the_whole_tool_is_read_with_the_chat_of_the_click() -> None:
    decision = decided(pressed("approve_tool", **ONCE))
    assert (decision.kind, decision.remember, decision.chat_id) == (DecisionKind.APPROVE, Remember.TOOL, "oc_1")
    assert decided(pressed("approve", **ONCE)).remember is None


@pytest.mark.parametrize(("ticked", "remembered"), [(True, False), (False, True)])
def test_all_at_once_are_not_remembered_where_a_box_is_ticked(ticked: bool, remembered: bool) -> None:
    value = {"assent": "1", "bundle": "b", "approve": [["a1", "h1"], ["a2", "h2"]]}
    click = read(value, {"ask_again_1": False, "ask_again_2": ticked})
    assert isinstance(click, BundleClick), click
    assert [each.persist_decision for each in click.clicks()] == [remembered] * 2


@pytest.mark.parametrize("button", ["approve", "approve_tool", "reject"])
def test_who_ticks_to_be_asked_again_is_not_remembered(button: str) -> None:
    shown = json.loads(card(Showing(plan=plan(**ONCE)), WORDING))
    (box,) = [each for each in objects(shown["body"]) if each.get("tag") == "checker"]
    assert decided(pressed(button, **ONCE), {box["name"]: True}).persist_decision is False
    assert decided(pressed(button, **ONCE), {box["name"]: False}).persist_decision is True
    assert decided(pressed(button, **ONCE)).persist_decision is True
    odds: list[Any] = ["true", 1, {}]
    for odd in odds:
        assert decided(pressed(button, **ONCE), {box["name"]: odd}).persist_decision is False, "in doubt one is asked"


def test_somebody_else_is_chosen_within_the_tenant_that_is_known() -> None:
    decision = decided(pressed("delegate"), {"delegate_to": "ou_eve"})
    assert decision.kind is DecisionKind.DELEGATE
    assert decision.delegate_to == Identity(open_id="ou_eve", tenant_key="tenant_1")
    assert decision.actor.tenant_key == "tenant_1"


def test_delegating_to_nobody_is_a_decision_that_can_only_be_invalid() -> None:
    for form in ({}, {"delegate_to": ""}, {"delegate_to": None}):
        assert decided(pressed("delegate"), form).delegate_to is None


def test_a_decision_about_a_result_names_its_stage_its_hash_and_the_reason() -> None:
    of = showing()
    found = buttons(json.loads(result_card(of, WORDING)))
    release = decided(found["release"]["behaviors"][0]["value"])
    assert (release.kind, release.stage, release.payload_sha256) == ("approve", Stage.RESULT, of.content_sha256)
    withhold = decided(found["withhold"]["behaviors"][0]["value"], {"reason": " private "})
    assert (withhold.kind, withhold.stage, withhold.reason) == ("reject", Stage.RESULT, "private")


def test_revoking_names_the_grant_and_who_wants_it() -> None:
    click = read({"assent": "1", "revoke": "grant-1"})
    assert isinstance(click, RevokeClick)
    assert (click.grant_id, click.operator.open_id, click.chat_id) == ("grant-1", "ou_ben", "oc_1")
    assert click.operator.tenant_key == "tenant_1"


EDIT = {
    "assent": "1",
    "approval_id": "a-1",
    "decision": "edit",
    "stage": "call",
    "payload_sha256": "0" * 64,
    "fields": ["a"],
}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({**EDIT, "fields": None}, {}),
        ({**EDIT, "decision": "approve"}, {"arg_0": "x"}),
        ({**EDIT, "decision": "approve", "shown": []}, {"arg_0": "x"}),
        ({**EDIT, "fields": "a"}, {"arg_0": "x"}),
        ({**EDIT, "fields": [1]}, {"arg_0": "x"}),
        ({**EDIT, "fields": ["\ud800"]}, {"arg_0": "x"}),
        (EDIT, {"arg_0": 1}),
        (EDIT, {"arg_0": ["x"]}),
        (EDIT, {"arg_0": True}),
        (EDIT, {"arg_0": "\ud800"}),
        (EDIT, {"arg_0": "x" * 1001}),
        (EDIT, "[]"),
        ({**EDIT, "remember": "forever"}, {}),
        ({**EDIT, "remember": True}, {}),
        ({**EDIT, "stage": "both"}, {}),
        ({**EDIT, "decision": "delegate"}, {"delegate_to": 7}),
        ({**EDIT, "decision": "delegate"}, {"delegate_to": ["ou_1"]}),
        ({**EDIT, "decision": "delegate"}, {"delegate_to": "a\x00b"}),
        ({**EDIT, "decision": "delegate"}, {"delegate_to": "x" * 500}),
        ({**EDIT, "decision": "grant"}, {}),
        ({**EDIT, "assent": "2"}, {}),
        ({**EDIT, "revoke": "grant-1"}, {}),
        ({"assent": "1", "revoke": "grant-1", "review": "a-1"}, {}),
        ({"assent": "1", "revoke": ""}, {}),
        ({"assent": "1", "revoke": None}, {}),
        ({"assent": "1", "revoke": ["grant-1"]}, {}),
        ({"assent": "1", "revoke": "x" * 500}, {}),
        ({"revoke": "grant-1"}, {}),
    ],
)
def test_what_cannot_be_read_is_nobodys_decision(value: Any, form: Any) -> None:
    found = read(value, form)
    assert isinstance(found, ForeignClick)
    assert found.message_id == "om_1"


@given(
    value=st.dictionaries(
        st.sampled_from([*EDIT, "revoke", "review", "remember", "ruling"]), st.one_of(TEXT, st.none())
    ),
    form=st.dictionaries(
        st.sampled_from(["arg_0", "reason", "delegate_to", "content"]), st.one_of(TEXT, st.integers())
    ),
)
@unhurried
def test_any_value_and_any_form_is_a_click_or_foreign(value: dict[str, Any], form: dict[str, Any]) -> None:
    assert read({**value, "assent": "1"}, form) is not None
    found = read({**EDIT, **value}, form)
    if isinstance(found, Click):
        assert Decision.model_validate_json(found.decision(delivery_id="d", now=NOW).model_dump_json())
