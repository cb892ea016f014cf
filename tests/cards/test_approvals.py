"""What a card says in each state of an approval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Judged, Verdict, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.status import Status
from assent.payload import sha256
from cards import Attachment, Showing, card, overflow, toast, unreadable
from tests.support.card_rules import objects, plain_texts
from tests.support.cards import APPROVED, NOW, REJECTED, WORDING, built, buttons, plan, said


def ended(status: Status, decided: Judged | None = APPROVED, **fields: Any) -> Showing:
    outcome = Outcome(approval_id="inv-42", status=status, **fields)
    return Showing(plan=plan(), decided=decided, outcome=outcome, ended_at=NOW)


def every_showing() -> Iterator[Showing]:
    for risk in Risk:
        yield Showing(plan=plan(risk=risk))
    yield Showing(plan=plan(), replaced=True)
    yield Showing(plan=plan(), decided=APPROVED)
    yield Showing(plan=plan(), decided=REJECTED)
    for status in Status:
        yield ended(status, reason="It says why.", content={"a": "result"}, authorize_url="https://example.com/a?b=1")


@pytest.mark.parametrize("showing", list(every_showing()))
def test_every_state_makes_a_card_that_the_platform_takes(showing: Showing) -> None:
    from simulator.cards import check_card

    assert check_card(built(showing))["config"] == {
        "update_multi": True,
        "enable_forward": False,
        "summary": built(showing)["config"]["summary"],
    }


def test_a_pending_card_says_what_would_run_for_whom_and_until_when() -> None:
    shown = built(Showing(plan=plan()))
    header, text = shown["header"], said(shown)
    assert header["title"]["content"] == "Run send_invoice?"
    assert header["subtitle"]["content"] == "customer: acme · amount: 120.5"
    assert [tag["text"]["content"] for tag in header["text_tag_list"]] == ["Waiting", "Medium risk"]
    for part in ("Send an invoice to a customer.", "The customer asked for it.", "billing-agent", "120.5", "Travel"):
        assert part in text
    assert "More about it" not in text
    assert "<person id='ou_ann' show_name=true show_avatar=true style='normal'></person>" in text
    assert "<at id=ou_ben></at> <at id=u_cat></at>" in text
    at = int((NOW + timedelta(minutes=15)).timestamp() * 1000)
    assert f"<local_datetime millisecond='{at}' format_type='time'></local_datetime>" in text
    assert plan().payload_sha256[:12] in text


def test_both_languages_are_in_one_card() -> None:
    shown = built(Showing(plan=plan()))
    assert shown["header"]["title"]["i18n_content"] == {
        "zh_cn": "是否执行 send_invoice？",
        "en_us": "Run send_invoice?",
    }
    assert "审批人" in said(shown, "zh_cn")
    assert {"同意", "拒绝"} <= set(plain_texts(shown, "zh_cn"))


def test_the_push_preview_says_something() -> None:
    summary = built(Showing(plan=plan()))["config"]["summary"]
    assert summary["content"] == "Approval needed: send_invoice · customer: acme · amount: 120.5"
    assert summary["i18n_content"]["zh_cn"].startswith("待审批：send_invoice")
    assert built(ended(Status.FROZEN))["config"]["summary"]["content"].startswith("Outcome unknown: send_invoice")


def test_what_is_sensitive_stands_nowhere() -> None:
    long = {"api_key": "hunter2-" * 9000, "body": "x" * 60_000}
    file = overflow(plan(long), WORDING)
    assert file is not None
    for text in (*(card(showing, WORDING) for showing in every_showing()), card(Showing(plan=plan(long)), WORDING)):
        assert "hunter2" not in text
        assert "•••" in text
    assert "hunter2" not in file.data.decode()


def test_buttons_carry_what_a_decision_is_bound_to() -> None:
    shown = built(Showing(plan=plan()))
    found = buttons(shown)
    expected = {
        "assent": "1",
        "approval_id": "inv-42",
        "decision": "approve",
        "stage": "call",
        "payload_sha256": plan().payload_sha256,
    }
    assert found["approve"]["behaviors"] == [{"type": "callback", "value": expected}]
    assert found["reject"]["behaviors"] == [{"type": "callback", "value": {**expected, "decision": "reject"}}]
    form = next(each for each in shown["body"]["elements"] if each.get("name") == "rejection")
    reason = next(each for each in objects(form) if each.get("tag") == "input")
    assert (reason["name"], reason["max_length"], reason["required"]) == ("reason", 500, False)
    assert found["approve"] in shown["body"]["elements"]


def test_only_high_risk_asks_twice() -> None:
    asks = {risk: "confirm" in buttons(built(Showing(plan=plan(risk=risk))))["approve"] for risk in Risk}
    assert asks == {Risk.LOW: False, Risk.MEDIUM: False, Risk.HIGH: True}


def test_each_state_has_its_colour() -> None:
    pending = {risk: built(Showing(plan=plan(risk=risk)))["header"]["template"] for risk in Risk}
    assert pending == {Risk.LOW: "blue", Risk.MEDIUM: "orange", Risk.HIGH: "red"}
    colours = {status: built(ended(status))["header"]["template"] for status in Status}
    assert colours[Status.EXECUTED] == colours[Status.REPLAYED] == "green"
    assert colours[Status.FAILED] == "carmine"
    assert colours[Status.FROZEN] == "violet"
    grey = {Status.REJECTED, Status.EXPIRED, Status.SUPERSEDED, Status.CANCELLED}
    assert {status for status, colour in colours.items() if colour == "grey"} == grey


@pytest.mark.parametrize("showing", [each for each in every_showing() if each.decided or each.outcome or each.replaced])
def test_a_decided_card_has_nothing_left_to_decide(showing: Showing) -> None:
    shown = built(showing)
    assert "callback" not in json.dumps(shown)
    assert not [each for each in objects(shown) if each.get("tag") in ("form", "input")]
    assert "<at " not in json.dumps(shown)
    folded, _ = (each for each in shown["body"]["elements"] if each["tag"] == "collapsible_panel")
    assert "acme" in plain_texts(folded)


def test_a_running_card_says_who_approved_and_when() -> None:
    text = said(built(Showing(plan=plan(), decided=APPROVED)))
    assert "It is running now" in text
    assert "Approved by <person id='ou_ben'" in text
    assert str(int(NOW.timestamp() * 1000)) in text


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        (Status.EXECUTED, {"content": {"invoice": "2026-42"}}, ["Done.", '"invoice": "2026-42"']),
        (Status.REPLAYED, {"content": "sent"}, ["Nothing ran this time.", "sent"]),
        (Status.FAILED, {"reason": "mailbox full"}, ["The call failed.", "mailbox full"]),
        (Status.FROZEN, {"reason": "no answer"}, ["not known whether this happened", "do not repeat it", "no answer"]),
        (Status.EXPIRED, {}, ["Nobody decided in time.", "did not run"]),
        (Status.SUPERSEDED, {}, ["A newer request replaced this one.", "did not run"]),
        (Status.CANCELLED, {"reason": "order called off"}, ["withdrawn", "did not run", "order called off"]),
    ],
)
def test_a_final_card_says_what_came_of_it(status: Status, fields: dict[str, Any], expected: list[str]) -> None:
    text = said(built(ended(status, **fields)))
    for part in expected:
        assert part in text


def test_a_rejection_says_by_whom_and_why() -> None:
    text = said(built(ended(Status.REJECTED, REJECTED, reason="Wrong amount.")))
    assert "Rejected by <person id='ou_ben'" in text
    assert text.count("Wrong amount.") == 1


def test_an_unknown_outcome_shows_no_content() -> None:
    assert "secret result" not in card(ended(Status.FROZEN, content="secret result"), WORDING)


def test_a_long_result_is_a_preview_with_its_size() -> None:
    text = said(built(ended(Status.EXECUTED, content="r" * 4000, truncated=True, content_bytes=123_456)))
    assert "only the beginning; 123.5 KB in all" in text
    assert "r" * 4000 not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://accounts.example.com/oauth?a=1&b=/x", "Open accounts.example.com"),
        ("http://127.0.0.1:8080/grant", "Open 127.0.0.1:8080"),
        ("https://bücher.example/ü?q=ß", "Open xn--bcher-kva.example"),
        ("javascript:alert(1)", None),
        ("https://good.example@evil.example/", None),
        ("https:///nowhere", None),
        ("https://exa mple.com/", None),
        ("https://example.com/\u202egpj", None),
        ("lark://applink", None),
        ("https://example.com/" + "a" * 5000, None),
        ("https://[::1", None),
    ],
)
def test_only_plain_web_addresses_can_be_tapped(url: str, shown: str | None) -> None:
    found = buttons(built(ended(Status.FAILED, authorize_url=url)))
    if shown is None:
        assert found == {}
        assert "not a plain web address" in said(built(ended(Status.FAILED, authorize_url=url)))
    else:
        assert found["authorize"]["text"]["content"] == shown
        [behavior] = found["authorize"]["behaviors"]
        assert behavior["type"] == "open_url"
        assert behavior["default_url"].isascii()


def test_anyone_is_a_sentence_and_never_a_mention_of_all() -> None:
    text = card(Showing(plan=plan(approvers=Approvers.of("anyone"))), WORDING)
    assert "Anyone in this chat" in text
    assert "<at" not in text
    assert "<at" not in card(Showing(plan=plan(approvers=Approvers.of([Identity(open_id="all")]))), WORDING)


def test_the_requester_is_mentioned_when_only_they_may_decide() -> None:
    assert "<at id=ou_ann></at>" in card(Showing(plan=plan(approvers=Approvers())), WORDING)


def test_many_approvers_are_counted() -> None:
    crowd = Approvers.of([Identity(open_id=f"ou_{n:032}") for n in range(500)])
    text = said(built(Showing(plan=plan(approvers=crowd))))
    assert f"and {500 - text.count('<at id=')} more" in text


def test_a_replaced_card_points_to_the_newer_one() -> None:
    text = said(built(Showing(plan=plan(), replaced=True)))
    assert "There is a newer card of this approval further down" in text


def test_a_call_without_arguments_says_so() -> None:
    assert "This call takes no arguments." in said(built(Showing(plan=plan({}))))


def test_values_that_could_be_misread_are_quoted() -> None:
    texts = plain_texts(built(Showing(plan=plan({"a": "5", "b": 5, "c": "", "d": " x", "e": "null", "f": None}))))
    assert {'"5"', "5", '""', '" x"', '"null"', "null"} <= set(texts)


def test_what_fits_needs_no_file() -> None:
    assert overflow(plan(), WORDING) is None
    assert overflow(plan({"body": "x" * 12_000}), WORDING) is None
    assert "x" * 12_000 in plain_texts(built(Showing(plan=plan({"body": "x" * 12_000}))))


def test_what_does_not_fit_is_in_the_file_and_the_card_says_so() -> None:
    big = plan({"body": "line\n" * 20_000, "to": "acme"})
    file = overflow(big, WORDING)
    assert file is not None
    assert file == overflow(big, WORDING)
    text = file.data.decode()
    assert text.count("| line\n") == 20_000
    assert big.payload_sha256 in text
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data))
    shown = built(Showing(plan=big, attachment=attachment))
    assert "only in the file: body (100.0 KB)." in said(shown)
    assert attachment.sha256[:12] in said(shown)
    assert "acme" in plain_texts(shown)
    assert "approve" in buttons(shown)
    final = built(Showing(plan=big, attachment=attachment, decided=APPROVED))
    assert "only in the file: body (100.0 KB)." in said(final)


def test_nobody_approves_what_could_not_be_read() -> None:
    shown = built(Showing(plan=plan({"body": "x" * 100_000})))
    assert set(buttons(shown)) == {"reject", "delegate"}
    assert "it cannot be approved here" in said(shown)


def test_a_long_reason_is_cut_with_a_count_and_attached_whole() -> None:
    wordy = plan(request_reason="because " * 480)
    file = overflow(wordy, WORDING)
    assert file is not None
    assert "because " * 480 in file.data.decode()
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data))
    text = said(built(Showing(plan=wordy, attachment=attachment)))
    assert "more characters" in text
    assert "only in the file: the end of the reason." in text


def test_no_line_of_the_file_can_pose_as_another_argument() -> None:
    file = overflow(plan({"a": "x\n-- amount --\n| 1\n== Tool ==", "b": "x" * 60_000}), WORDING)
    assert file is not None
    headings = [line for line in file.data.decode().split("\n") if line.startswith("-- ")]
    assert headings == ["-- a --", "-- b --"]


@pytest.mark.parametrize("kind", VerdictKind)
def test_every_verdict_has_a_toast_in_both_languages(kind: VerdictKind) -> None:
    answer = toast(Verdict(kind=kind), DecisionKind.APPROVE, WORDING).answer()
    assert set(answer) == {"toast"}
    assert answer["toast"]["type"] in {"info", "success", "error", "warning"}
    assert answer["toast"]["content"] == answer["toast"]["i18n"]["en_us"]
    assert answer["toast"]["i18n"]["zh_cn"] != answer["toast"]["i18n"]["en_us"]


def test_toasts_tell_approving_from_rejecting_and_who_was_first() -> None:
    accepted = Verdict(kind=VerdictKind.ACCEPTED)
    assert "Approved" in toast(accepted, DecisionKind.APPROVE, WORDING).content
    rejected = Verdict(kind=VerdictKind.ACCEPTED, status=Status.REJECTED)
    assert "Rejected" in toast(rejected, DecisionKind.REJECT, WORDING).content
    assert "recorded" in toast(accepted, DecisionKind.REJECT, WORDING).content  # others still have to
    late = toast(
        Verdict(kind=VerdictKind.ALREADY_DECIDED, status=Status.EXECUTED), DecisionKind.APPROVE, WORDING, name="李雷"
    )
    assert late.content == "李雷 has already decided this. Its state: Executed."
    assert late.i18n["zh_cn"] == "李雷已处理该申请，当前状态：已执行"
    assert unreadable(WORDING).type == "warning"
