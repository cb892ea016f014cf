"""The card of a result that waits to be released: what it shows, hides, asks and finally says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Fallback
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.masking import Mask
from assent.payload import sha256
from cards import Attachment, ResultShowing, result_card, result_overflow, toast
from cards.hiding import readable
from tests.support.cards import APPROVED, NOW, REJECTED, WORDING, buttons, plan, said
from tests.support.hostile_texts import ATTACKS, asked, kept, storable
from tests.support.permission_cards import BEN, TWO, by
from tests.support.result_cards import DEADLINE, showing


def shown(of: ResultShowing) -> dict[str, Any]:
    return kept(result_card(of, WORDING))


def attached(of: ResultShowing) -> ResultShowing:
    file = result_overflow(of, WORDING)
    assert file is not None
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data))
    return of.model_copy(update={"attachment": attachment})


def test_it_says_what_ran_what_came_back_until_when_and_what_happens_then() -> None:
    of = showing({"invoice": 42})
    text = said(shown(of))
    assert "The call completed." in text
    assert '"invoice": 42' in text
    assert of.content_sha256[:12] in text
    assert plan().payload_sha256[:12] in text
    assert str(int(DEADLINE.timestamp() * 1000)) in text
    assert "If nobody decides by then, it is withheld." in text
    released = showing(plan=plan(result_fallback=Fallback.RELEASE))
    assert "the agent gets it" in said(shown(released))
    assert shown(of)["header"]["title"]["content"] == "Hand over the result? send_invoice"


def test_the_buttons_are_bound_to_the_result_and_not_to_the_call() -> None:
    of = showing()
    found = buttons(shown(of))
    bound = {"assent": "1", "approval_id": "inv-42", "stage": "result", "payload_sha256": of.content_sha256}
    assert found["release"]["behaviors"][0]["value"] == {**bound, "decision": "approve"}
    assert found["withhold"]["behaviors"][0]["value"] == {**bound, "decision": "reject"}
    assert set(found) == {"release", "withhold"}


@pytest.mark.parametrize("status", [Status.EXECUTED, Status.REPLAYED, Status.FAILED, Status.FROZEN])
def test_every_ending_is_said(status: Status) -> None:
    text = said(shown(showing(status=status, error="the bank said no")))
    assert WORDING(f"line.result_{status}").en in text
    assert "the bank said no" in text


def test_nothing_returned_is_said() -> None:
    for content in (b"null", None):
        of = showing().model_copy(update={"content": content})
        assert "It returned nothing." in said(shown(of))
        assert "release" in buttons(shown(of))
        assert result_overflow(of, WORDING) is None


def test_sensitive_values_are_hidden_wherever_they_come_back() -> None:
    content = {
        "echo": "key=hunter2-hunter2;",
        "hunter2-hunter2": ["hunter2-hunter2", {"deep": "hunter2-hunter2"}],
        "other": "acme",
    }
    text = json.dumps(shown(showing(content, error="refused hunter2-hunter2")))
    assert "hunter2" not in text
    assert "key=•••;" in said(shown(showing(content)))
    assert "acme" in text
    large = result_overflow(showing([content] * 500), WORDING)
    assert large is not None
    assert "hunter2" not in large.data.decode()


@pytest.mark.parametrize(
    ("secret", "content", "hidden", "seen"),
    [
        (123456, {"pin": 123456, "text": "pin 123456", "n": 12}, "123456", "12"),
        ("abc", {"same": "abc", "within": "abcdef"}, '"abc"', "abcdef"),
        ({"user": "root", "pass": "swordfish"}, {"log": "login swordfish"}, "swordfish", "login"),
        (['quo"te\nline'], {"a": 'quo"te\nline'}, "quo", '"a"'),
        ("", {"a": ""}, "•••", '""'),
        (None, {"a": None}, "•••", "null"),
        (True, {"a": True}, "•••", "true"),
        ("schlüssel", {"a": "der schlüssel"}, "schlüssel", "der"),
    ],
)
def test_what_counts_as_the_same_value(secret: Any, content: Any, hidden: str, seen: str) -> None:
    masked = readable(json.dumps(content).encode(), Mask.of(plan({"api_key": secret})))
    assert hidden not in masked
    assert seen in masked


def test_a_large_result_is_read_in_the_file_before_it_can_be_released() -> None:
    large = showing({"rows": [f"row-{n}" for n in range(5000)]})
    assert set(buttons(shown(large))) == {"withhold"}
    assert "cannot be released here" in said(shown(large))
    file = result_overflow(large, WORDING)
    assert file is not None
    assert "row-4999" in file.data.decode()
    assert large.content_sha256 in file.data.decode()
    text = said(shown(attached(large)))
    assert "Read the attached file" in text
    assert "only the beginning" in text
    assert "release" in buttons(shown(attached(large)))


def test_a_huge_result_is_cut_with_a_word_about_it() -> None:
    secret = "hunter2-hunter2"
    data = b'"' + b"x" * (20_000_000 - 9) + secret.encode() + b"x" * 1_000_000 + b'"'
    file = result_overflow(showing(data), WORDING)
    assert file is not None
    assert len(file.data) < 21_000_000
    assert b"hunter" not in file.data
    assert "only the beginning; 21.0 MB in all" in file.data[-200:].decode()


def test_whoever_may_decide_about_the_call_may_decide_about_the_result() -> None:
    progress = Progress(approvers=TWO.stages[1], stage=2, stages=2, approvals=(by(BEN),))
    text = said(shown(showing(plan=plan(approvers=TWO), progress=progress)))
    assert "<at id=ou_ben></at> <at id=ou_cat></at> <at id=ou_dan></at>" in text
    assert "Members of the chat oc_board" in text


@pytest.mark.parametrize(
    ("decided", "withheld", "state", "words"),
    [
        (APPROVED, False, "Released", "Released by <person id='ou_ben'"),
        (REJECTED, True, "Withheld", "Withheld by <person id='ou_ben'"),
        (None, False, "Released", "Nobody decided in time, so it was released."),
        (None, True, "Withheld", "Nobody decided in time, so it was withheld."),
    ],
)
def test_its_end_says_who_decided_and_shows_the_result_no_more(
    decided: Any, withheld: bool, state: str, words: str
) -> None:
    reason = "Wrong amount." if decided is REJECTED else "nobody decided about it in time" if withheld else None
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, withheld=withheld, withheld_reason=reason)
    final = shown(showing("the result itself", decided=decided, outcome=outcome, ended_at=NOW))
    assert final["header"]["text_tag_list"][0]["text"]["content"] == state
    assert words in said(final)
    assert "callback" not in json.dumps(final)
    assert "the result itself" not in json.dumps(final)
    assert ("Wrong amount." in said(final)) == (decided is REJECTED)
    assert "nobody decided about it" not in said(final)


def test_a_replaced_one_points_to_the_newer() -> None:
    final = shown(showing(replaced=True))
    assert "There is a newer card of this result further down" in said(final)
    assert "callback" not in json.dumps(final)


def test_a_reminder_says_so() -> None:
    assert shown(showing(reminder=True))["header"]["title"]["content"].startswith("Still waiting:")


def test_toasts_speak_of_the_result() -> None:
    accepted = Verdict(kind=VerdictKind.ACCEPTED)
    assert "Released" in toast(accepted, DecisionKind.APPROVE, WORDING, stage=Stage.RESULT).content
    assert "Withheld" in toast(accepted, DecisionKind.REJECT, WORDING, stage=Stage.RESULT).content
    assert "已放行" in toast(accepted, DecisionKind.APPROVE, WORDING, stage=Stage.RESULT).i18n["zh_cn"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: ascii(attack[:20]))
def test_whatever_comes_back_stays_text_and_fits(attack: str) -> None:
    text = storable(attack)
    hostile = asked(
        {"value": attack, attack[:3000]: "name"},
        tool=text[:200],
        approvers=Approvers.of([Identity(open_id=" ".join(text[:50].split()) or "x")] * 30),
    )
    data = json.dumps({attack: [attack], "n": 1}).encode()
    of = showing(data, plan=hostile, error=text[:2000])
    for each in (of, of.model_copy(update={"status": Status.FAILED, "reminder": True})):
        shown(each)
        if result_overflow(each, WORDING):
            shown(attached(each))
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, withheld=True, withheld_reason=text[:4000])
    shown(of.model_copy(update={"outcome": outcome, "decided": REJECTED}))
    shown(showing(text.encode(), plan=hostile))
