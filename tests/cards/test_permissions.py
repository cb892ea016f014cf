"""What cards say of permissions: warnings, rules, who has approved, edits, remembered decisions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Verdict, VerdictKind
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Edit
from assent.contracts.policy import Rule
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.payload import canonical_payload, sha256
from cards import Attachment, Showing, card, overflow, revoked_toast, toast
from cards.elements import tags, weight
from cards.framing import MOST_BYTES, MOST_TAGS
from cards.spans import span
from tests.support.card_rules import objects
from tests.support.cards import APPROVED, ARGUMENTS, NOW, REJECTED, WORDING, built, buttons, plan, said
from tests.support.permission_cards import BEN, CAT, DAN, GRANT, ONCE, SCHEMA, TWO, by

RULE = Rule(name="large invoices", policy_sha256="ab" * 32)


def form(shown: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((each for each in shown["body"]["elements"] if each.get("name") == name), None)


def edit(before: dict[str, Any], after: dict[str, Any]) -> Edit:
    one, other = (canonical_payload("send_invoice", arguments) for arguments in (before, after))
    return Edit(
        by=BEN,
        proposed_payload=one,
        proposed_payload_sha256=sha256(one),
        payload=other,
        payload_sha256=sha256(other),
    )


def test_warnings_stand_first_and_in_a_box_of_their_own() -> None:
    shown = built(Showing(plan=plan(warnings=("The amount is large. **No** <at id=all></at>", "New customer."))))
    first = shown["body"]["elements"][0]
    assert first["background_style"] == "red-50"
    assert "• The amount is large. **No** <at id=all></at>\n• New customer." in said(first)
    assert "Mind this" in said(first)


def test_warnings_that_do_not_fit_are_in_the_file() -> None:
    loud = plan(warnings=tuple(f"warning {n} " * 20 for n in range(60)))
    file = overflow(loud, WORDING)
    assert file is not None
    assert "warning 59" in file.data.decode()
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data))
    assert "only in the file: the end of the warnings." in said(built(Showing(plan=loud, attachment=attachment)))
    assert "approve" not in buttons(built(Showing(plan=loud)))


def test_the_rule_is_named_while_it_waits_and_when_it_is_over() -> None:
    for showing in (Showing(plan=plan(rule=RULE)), Showing(plan=plan(rule=RULE), decided=APPROVED)):
        assert f"large invoices · {'ab' * 6}" in said(built(showing))
    assert "Rule" not in said(built(Showing(plan=plan())))


def test_progress_says_how_many_of_how_many_and_who_is_asked_now() -> None:
    progress = Progress(
        approvers=TWO.stages[0],
        stages=2,
        approvals=(by(BEN),),
        approved=1,
        delegations=((CAT, Identity(open_id="ou_eve")),),
    )
    shown = built(Showing(plan=plan(approvers=TWO), progress=progress))
    text = said(shown)
    assert "1 of 2 · step 1 of 2" in text
    assert "<person id='ou_ben'" in text
    assert str(int(NOW.timestamp() * 1000)) in text
    assert "<at id=ou_dan></at> <at id=ou_eve></at>" in text
    assert "Whoever asked for it cannot decide." in text
    assert "It is rejected once 2 people reject it" in text
    assert "style='normal'></person> → <person id='ou_eve'" in text
    assert "已同意 1/2 · 第 1/2 级" in said(shown, "zh_cn")


def test_the_next_stage_and_those_who_are_called_in_may_decide() -> None:
    progress = Progress(approvers=TWO.stages[1], stage=2, stages=2, approvals=(by(BEN), by(CAT)), called=(DAN,))
    text = said(built(Showing(plan=plan(approvers=TWO), progress=progress)))
    assert "0 of 1 · step 2 of 2" in text
    assert "Members of the chat oc_board" in text
    assert "<at id=ou_dan></at>" in text
    alone = said(
        built(Showing(plan=plan(approvers=Approvers()), progress=Progress(approvers=Approvers(), called=(DAN,))))
    )
    assert "<at id=ou_ann></at> <at id=ou_dan></at>" in alone


def test_a_single_approver_needs_no_count() -> None:
    assert "of 1" not in said(built(Showing(plan=plan())))


def test_a_reminder_says_so_in_title_and_preview() -> None:
    shown = built(Showing(plan=plan(), reminder=True))
    assert shown["header"]["title"]["content"] == "Still waiting: run send_invoice?"
    assert shown["config"]["summary"]["content"].startswith("Still waiting for you: send_invoice")


def test_the_form_has_a_field_for_every_argument_that_is_not_sensitive() -> None:
    asked = plan({**ARGUMENTS, "urgent": False})
    shown = built(Showing(plan=asked, parameters=SCHEMA))
    editing = form(shown, "decision")
    assert editing is not None
    fields = {each["name"]: each for each in objects(editing) if each.get("name", "").startswith("arg_")}
    names = buttons(shown)["edit"]["behaviors"][0]["value"]["fields"]
    held = {
        name: fields[f"arg_{n}"].get("default_value", fields[f"arg_{n}"].get("initial_option"))
        for n, name in enumerate(names)
    }
    assert held == {
        "customer": "acme",
        "amount": "120.5",
        "lines": '[\n  {\n    "item": "Travel"\n  }\n]',
        "urgent": "false",
    }
    assert "Cannot be changed here: api_key" in said(editing)
    assert editing["elements"][0]["expanded"] is False
    value = buttons(shown)["edit"]["behaviors"][0]["value"]
    assert (value["decision"], value["stage"], value["payload_sha256"]) == ("edit", "call", asked.payload_sha256)
    assert buttons(shown)["edit"]["form_action_type"] == "submit"
    assert "hunter2" not in json.dumps(shown)


def test_without_the_schema_or_without_arguments_there_is_no_form() -> None:
    assert form(built(Showing(plan=plan())), "decision") is None
    assert form(built(Showing(plan=plan({}), parameters=SCHEMA)), "decision") is None
    assert "too large to be edited" not in said(built(Showing(plan=plan({}), parameters=SCHEMA)))


def test_a_form_that_does_not_fit_is_left_out_and_takes_nothing_else_away() -> None:
    many = {f"argument_{n:02}": "x" for n in range(20)}
    schema = {"properties": {name: {"type": "string"} for name in many}}
    shown = built(Showing(plan=plan(many), parameters=schema))
    assert form(shown, "decision") is None
    assert "too large to be edited in this card" in said(shown)
    assert all(name.replace("_", "&#95;") in said(shown) for name in many)
    assert {"approve", "reject", "delegate"} <= set(buttons(shown))
    long = {f"argument_{n}": "y" * 950 for n in range(9)}
    schema = {"properties": {name: {"type": "string"} for name in long}}
    text = card(Showing(plan=plan(long), parameters=schema), WORDING)
    assert weight(text) <= MOST_BYTES
    assert tags(text) <= MOST_TAGS
    assert all("y" * 950 in each for each in [text])


def test_what_cannot_be_read_cannot_be_edited_either() -> None:
    big = plan({"customer": "acme", "body": "x" * 60_000})
    schema = {"properties": {"customer": {"type": "string"}, "body": {"type": "string"}}}
    assert form(built(Showing(plan=big, parameters=schema)), "decision") is None
    attachment = Attachment(name="call.txt", size=1, sha256="0" * 64)
    shown = built(Showing(plan=big, parameters=schema, attachment=attachment))
    assert buttons(shown)["edit"]["behaviors"][0]["value"]["fields"] == ["customer"]


def test_high_risk_asks_back_on_every_way_to_approve() -> None:
    shown = built(Showing(plan=plan(risk=Risk.HIGH, **ONCE), parameters=SCHEMA))
    asks = {name for name, button in buttons(shown).items() if "confirm" in button}
    assert asks == {"approve", "approve_tool", "edit"}


def test_ask_once_says_how_long_it_is_remembered_and_offers_to_widen_it() -> None:
    shown = built(Showing(plan=plan(**ONCE)))
    value = buttons(shown)["approve_tool"]["behaviors"][0]["value"]
    assert (value["decision"], value["remember"]) == ("approve", "tool")
    assert "remember" not in buttons(shown)["approve"]["behaviors"][0]["value"]
    assert "For 7 days, whatever you decide also counts for exactly the same call." in said(shown)
    texts = buttons(shown)["approve_tool"]["text"]["i18n_content"]
    assert texts == {
        "en_us": "Approve, and stop asking about send_invoice in this chat for 7 days, whatever its arguments",
        "zh_cn": "同意，7 天内本群不再询问 send_invoice（任何参数）",
    }
    assert "whatever its arguments" in buttons(shown)["approve_tool"]["confirm"]["text"]["content"]
    assert "approve_tool" not in buttons(built(Showing(plan=plan())))
    nowhere = plan(**{**ONCE, "conversation": None})  # whoever asks in no chat could not be meant
    assert "approve_tool" not in buttons(built(Showing(plan=nowhere)))


@pytest.mark.parametrize(
    ("length", "en", "zh"),
    [
        (timedelta(days=1), "1 day", "1 天"),
        (timedelta(days=7), "7 days", "7 天"),
        (timedelta(hours=36), "36 hours", "36 小时"),
        (timedelta(minutes=90), "90 minutes", "90 分钟"),
        (timedelta(minutes=1), "1 minute", "1 分钟"),
        (timedelta(seconds=90), "90 seconds", "90 秒"),
        (timedelta(0), "1 second", "1 秒"),
        (timedelta(days=364, hours=5), "364 days", "364 天"),
    ],
)
def test_a_length_of_time_is_said_in_one_unit(length: timedelta, en: str, zh: str) -> None:
    assert span(length, WORDING) == (en, zh)


def test_somebody_else_can_be_chosen_to_decide() -> None:
    shown = built(Showing(plan=plan()))
    delegation = form(shown, "delegation")
    assert delegation is not None
    [picker] = [each for each in objects(delegation) if each.get("tag") == "select_person"]
    assert (picker["name"], picker["required"]) == ("delegate_to", True)
    assert buttons(shown)["delegate"]["behaviors"][0]["value"]["decision"] == "delegate"


def test_an_edited_card_says_what_was_changed_by_whom_before_it_is_approved_again() -> None:
    after = {**ARGUMENTS, "amount": 99, "api_key": "other-secret", "lines": []}
    changed = edit(ARGUMENTS, after)
    shown = built(Showing(plan=plan(after, edit=changed, revision=1)))
    text = said(shown)
    assert shown["header"]["title"]["content"] == "Changed: run send_invoice?"
    assert "<person id='ou_ben' show_name=true show_avatar=true style='normal'></person> changed the arguments" in text
    assert "120.5 → 99" in text
    assert "••• → •••" in text
    assert f"{changed.proposed_payload_sha256[:12]} → {changed.payload_sha256[:12]}" in text
    assert "secret" not in text
    assert "hunter2" not in json.dumps(shown)


def test_a_final_card_says_that_it_ran_with_changes() -> None:
    after = {**ARGUMENTS, "amount": 99}
    changed = edit(ARGUMENTS, after)
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, edit=changed)
    text = said(built(Showing(plan=plan(after), decided=by(BEN, DecisionKind.EDIT), outcome=outcome, ended_at=NOW)))
    assert "Ran with changes by <person id='ou_ben'" in text
    assert "120.5 → 99" in text
    expired = outcome.model_copy(update={"status": Status.EXPIRED})
    assert "Ran with changes" not in said(built(Showing(plan=plan(after), outcome=expired)))


def test_many_changes_are_counted() -> None:
    before = {f"a{n}": "x" * 3000 for n in range(30)}
    changed = edit(before, {name: value + "y" for name, value in before.items()})
    text = said(built(Showing(plan=plan({"a": 1}, edit=changed))))
    assert "and 24 more changes" in text


def test_everybody_who_approved_is_named() -> None:
    approvals = (by(BEN), by(CAT))
    text = said(built(Showing(plan=plan(), decided=by(CAT), approvals=approvals, outcome=None)))
    assert text.count("Approved by <person") == 2
    many = tuple(by(Identity(open_id=f"ou_{n}")) for n in range(40))
    assert "and 34 people before them" in said(built(Showing(plan=plan(), decided=many[-1], approvals=many)))
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, approved_by=(BEN, CAT))
    text = said(built(Showing(plan=plan(), outcome=outcome)))
    assert "Approved by <person id='ou_ben'" in text
    assert "<person id='ou_cat'" in text


def test_a_remembered_decision_is_named_and_can_be_revoked() -> None:
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, grant_id="grant-1")
    shown = built(Showing(plan=plan(grant=GRANT), outcome=outcome, ended_at=NOW))
    assert "Nobody was asked: <person id='ou_ben'" in said(shown)
    assert str(int(GRANT.expires_at.timestamp() * 1000)) in said(shown)
    assert buttons(shown)["revoke"]["behaviors"] == [
        {"type": "callback", "value": {"assent": "1", "revoke": "grant-1", "on": "inv-42"}}
    ]
    ended = GRANT.model_copy(update={"revoked_at": NOW, "revoked_by": BEN})
    revoked = built(Showing(plan=plan(grant=GRANT), outcome=outcome, ended_at=NOW, grant=ended))
    assert "No longer remembered:** revoked by <person id='ou_ben'" in said(revoked)
    assert "revoke" not in buttons(revoked)
    refused = GRANT.model_copy(update={"decision": DecisionKind.REJECT})
    outcome = Outcome(approval_id="inv-42", status=Status.REJECTED, reason="Never.")
    text = said(built(Showing(plan=plan(grant=refused), outcome=outcome)))
    assert "had rejected it" in text
    assert "Exactly the same call is rejected without asking until" in text


def test_a_remembered_decision_that_did_not_stand_in_is_not_named() -> None:
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, decided_by=BEN)
    shown = built(Showing(plan=plan(grant=GRANT), decided=APPROVED, outcome=outcome, ended_at=NOW))
    assert "let through" not in said(shown)
    assert "Approved by <person id='ou_ben'" in said(shown)
    assert "revoke" not in buttons(shown)


def test_what_the_policy_denies_is_not_said_to_be_anybodys_rejection() -> None:
    outcome = Outcome(approval_id="inv-42", status=Status.REJECTED, reason="Stopped until Monday.")
    shown = built(Showing(plan=plan(denied="Stopped until Monday.", rule=RULE), outcome=outcome))
    assert shown["header"]["text_tag_list"][0]["text"]["content"] == "Denied by policy"
    assert "Stopped until Monday." in said(shown)
    assert "Rejected" not in said(shown)
    rejected = Outcome(approval_id="inv-42", status=Status.REJECTED, decided_by=BEN)
    assert "Rejected." in said(built(Showing(plan=plan(), decided=REJECTED, outcome=rejected)))


def test_a_withheld_result_is_not_on_the_card() -> None:
    outcome = Outcome(
        approval_id="inv-42",
        status=Status.EXECUTED,
        content="the secret result",
        authorize_url="https://example.com/secret",
        reason="secret error",
        withheld=True,
        withheld_reason="It names a customer.",
    )
    shown = built(Showing(plan=plan(), decided=APPROVED, outcome=outcome, ended_at=NOW))
    assert "Done." in said(shown)
    assert "does not get its result" in said(shown)
    assert "It names a customer." in said(shown)
    assert "secret" not in json.dumps(shown)


@pytest.mark.parametrize("status", [Status.EXECUTED, Status.REPLAYED, Status.FAILED, Status.FROZEN])
def test_a_card_whose_result_waits_says_how_the_call_ended(status: Status) -> None:
    shown = built(Showing(plan=plan(), decided=APPROVED, reviewing=status))
    assert shown["header"]["text_tag_list"][0]["text"]["content"] == "Result waiting"
    assert WORDING(f"line.reviewing_{status}").en in said(shown)
    assert "callback" not in json.dumps(shown)


def test_a_card_whose_turn_is_over_points_nowhere() -> None:
    text = said(built(Showing(plan=plan(), replaced=True, moved=True)))
    assert "Others decide this now" in text
    assert "further down" not in text


CROWD = tuple(Identity(open_id=f"ou_{n:060}") for n in range(90))


@pytest.mark.parametrize("length", [0, 9_000, 14_000, 15_000, 16_000, 17_000, 18_000, 20_000, 24_000])
@pytest.mark.parametrize("crowded", [False, True])
def test_what_happens_while_it_waits_never_takes_the_room_of_what_is_approved(length: int, crowded: bool) -> None:
    """Whether a file is needed is decided once: no reminder, approval or delegation may make it needed later."""
    stage = Approvers(kind=Approvers.Kind.PEOPLE, people=CROWD[:50], threshold=40, rejections=3)
    approvers = stage.model_copy(update={"then": (stage,)}) if crowded else Approvers()
    asked = plan({"body": "x" * length}, approvers=approvers, escalate_to=CROWD[50:60], rule=RULE, **ONCE)
    file = overflow(asked, WORDING)
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data)) if file else None
    progress = Progress(
        approvers=approvers.stages[-1],
        stage=len(approvers.stages),
        stages=len(approvers.stages),
        approvals=tuple(map(by, CROWD[:45])) if crowded else (),
        approved=5,
        delegations=tuple(zip(CROWD[60:70], CROWD[70:80], strict=True)),
        called=asked.escalate_to,
    )
    late = Showing(
        plan=asked,
        progress=progress,
        attachment=attachment,
        reminder=True,
        parameters={"properties": {"body": {"type": "string"}}},
    )
    shown = built(late)
    assert "approve" in buttons(shown)
    assert file is not None or "x" * length in json.dumps(shown)


@pytest.mark.parametrize(
    ("verdict", "kind", "en", "zh"),
    [
        (Verdict(kind=VerdictKind.ACCEPTED, approvals=1, needed=2), DecisionKind.APPROVE, "1 of 2", "1/2"),
        (Verdict(kind=VerdictKind.ACCEPTED, approvals=2, needed=2), DecisionKind.APPROVE, "running now", "正在执行"),
        (Verdict(kind=VerdictKind.ACCEPTED, approvals=1, needed=2), DecisionKind.EDIT, "Changed. 1 of 2", "已修改"),
        (Verdict(kind=VerdictKind.ACCEPTED, approvals=1), DecisionKind.EDIT, "with your changes", "按修改后的参数"),
        (Verdict(kind=VerdictKind.ACCEPTED, needed=2), DecisionKind.APPROVE, "next group", "下一级"),
        (Verdict(kind=VerdictKind.ACCEPTED, needed=1), DecisionKind.EDIT, "next group", "下一级"),
        (Verdict(kind=VerdictKind.ACCEPTED, status=Status.EXECUTED), DecisionKind.APPROVE, "running", "正在执行"),
        (Verdict(kind=VerdictKind.ACCEPTED), DecisionKind.DELEGATE, "no longer yours", "已转交"),
        (Verdict(kind=VerdictKind.ACCEPTED, reason="2 needed"), DecisionKind.REJECT, "recorded", "已记录"),
        (Verdict(kind=VerdictKind.SUPERSEDED), DecisionKind.APPROVE, "arguments have been changed", "参数已被修改"),
        (
            Verdict(kind=VerdictKind.SUPERSEDED, status=Status.SUPERSEDED),
            DecisionKind.APPROVE,
            "newer request",
            "新的申请",
        ),
        (Verdict(kind=VerdictKind.INVALID), DecisionKind.EDIT, "cannot be done", "无法这样处理"),
        (
            Verdict(kind=VerdictKind.INVALID, reason="invalid arguments: copies: write a whole number, in digits only"),
            DecisionKind.EDIT,
            "Nothing was changed: copies: enter a whole number",
            "未做任何更改：copies：请填写整数",
        ),
    ],
)
def test_toasts_tell_what_came_of_it(verdict: Verdict, kind: DecisionKind, en: str, zh: str) -> None:
    told = toast(verdict, kind, WORDING)
    assert en in told.i18n["en_us"]
    assert zh in told.i18n["zh_cn"]


def test_a_long_problem_is_shortened_in_the_toast() -> None:
    verdict = Verdict(kind=VerdictKind.INVALID, reason="x\u202e" * 400)
    content = toast(verdict, DecisionKind.EDIT, WORDING).content
    assert len(content) < 200
    assert "\u202e" not in content


@pytest.mark.parametrize("kind", RevokedKind)
def test_revoking_is_answered_in_both_languages(kind: RevokedKind) -> None:
    told = revoked_toast(kind, WORDING)
    assert told.i18n["en_us"] != told.i18n["zh_cn"]
    assert (told.type == "success") == (kind is RevokedKind.REVOKED)
