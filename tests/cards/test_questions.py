"""The card of a question: nothing on it is an approval's, all of it fits, and what was filled in is read back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from assent.contracts.answers import AnswerVerdict, Flaw, FlawKind, Given, QuestionOutcome, QuestionStatus
from assent.contracts.approvers import Approvers
from assent.contracts.asking import QuestionPlan
from assent.contracts.decision import VerdictKind
from assent.contracts.questions import MOST_BYTES, Option, Question, QuestionKind, canonical_questions
from assent.core.questions.judging import flaws_in, meant, normalised
from cards import AnswerClick, QuestionShowing, Wording, answer_toast, can_be_shown, question_card
from cards.answers import answer_click
from cards.questions import ICON
from tests.support.card_rules import check
from tests.support.hostile_texts import ATTACKS
from tests.support.questions import ALL, ASKER, GOOD, NOW, PARTS, SURE, WHERE, WHY, question_plan

WORDING = Wording.load(None)


def shown(plan: QuestionPlan, **how: Any) -> dict[str, Any]:
    text = question_card(QuestionShowing(plan=plan, **how), WORDING)
    check(text)
    found: dict[str, Any] = json.loads(text)
    return found


def ended(status: QuestionStatus, answers: dict[str, Given] | None = None) -> QuestionOutcome:
    by = ASKER if answers is not None else None
    return QuestionOutcome(question_id="q-1", status=status, answers=answers, answered_by=by, ended_at=NOW)


def parts(card: Any, tag: str) -> list[dict[str, Any]]:
    if isinstance(card, list):
        return [each for item in card for each in parts(item, tag)]
    if not isinstance(card, dict):
        return []
    own = [card] if card.get("tag") == tag else []
    return own + [each for value in card.values() for each in parts(value, tag)]


def click_on(card: dict[str, Any], form: dict[str, Any] | None = None, button: int = -1) -> AnswerClick:
    """What is read back of a press on the card's button."""
    value = parts(card, "button")[button]["behaviors"][0]["value"]
    shared = {
        "event_id": "e",
        "operator": ASKER,
        "message_id": "om_1",
        "chat_id": None,
        "occurred_at": NOW,
        "proof": "feishu-signature",
    }
    return answer_click(shared, value, form or {})


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"reminder": True},
        {"replaced": True},
        {"outcome": ended(QuestionStatus.RESOLVED, GOOD)},
        {"outcome": ended(QuestionStatus.EXPIRED)},
        {"outcome": ended(QuestionStatus.CANCELLED).model_copy(update={"reason": "the call ended"})},
    ],
)
def test_a_question_never_looks_like_an_approval(how: dict[str, Any]) -> None:
    card = shown(question_plan(asked_by="planner"), **how)
    header = card["header"]
    assert header["icon"]["token"] == ICON
    assert header["template"] in ("turquoise", "grey")
    assert next(each["text"]["i18n_content"]["zh_cn"] for each in header["text_tag_list"]) == "提问"
    assert not {"approve", "reject"} & {button["name"] for button in parts(card, "button")}
    is_open = not how.get("outcome") and not how.get("replaced")
    assert bool(parts(card, "button")) == is_open
    if is_open:
        text = json.dumps(card, ensure_ascii=False)
        assert WORDING("question.runs_nothing").zh in text
        assert WORDING("question.asked_by_agent", agent="planner").en in text


def test_one_question_with_few_options_is_answered_by_pressing_one() -> None:
    card = shown(question_plan(WHERE))
    buttons = parts(card, "button")
    assert [(each["text"]["content"], each["type"]) for each in buttons] == [
        ("Staging", "primary_filled"),
        ("production", "default"),
    ]
    assert [click_on(card, button=n).answers for n in (0, 1)] == [{"where": "staging"}, {"where": "production"}]
    yes_or_no = shown(question_plan(SURE))
    assert [click_on(yes_or_no, button=n).answers for n in (0, 1)] == [{"sure": True}, {"sure": False}]


@pytest.mark.parametrize(
    ("form", "answers"),
    [
        (
            {"s0": "staging", "c1": "yes", "t2": "soon", "m3": ["api"], "o3": ""},
            {**GOOD, "why": "soon", "parts": ("api",)},
        ),
        (
            {"s0": "staging", "c1": "no", "t2": "", "m3": ["web"], "o3": "docs"},
            {**GOOD, "sure": False, "parts": ("web", "docs")},
        ),
        ({"s0": "staging", "c1": "yes", "o3": "my own"}, {**GOOD, "parts": ("my own",)}),
    ],
)
def test_what_is_filled_in_is_read_back(form: dict[str, Any], answers: dict[str, Given]) -> None:
    plan = question_plan()
    card = shown(plan)
    names = {each["name"] for tag in ("input", "select_static", "multi_select_static") for each in parts(card, tag)}
    assert names == {"s0", "c1", "t2", "m3", "o3"}
    answer = click_on(card, {"s0": "staging", **form}).answer(delivery_id="d", now=NOW + timedelta(seconds=1))
    assert normalised(plan.questions, meant(plan.questions, answer)) == {**GOOD, **answers}
    assert (answer.questions_sha256, answer.received_at) == (plan.questions_sha256, NOW)


def test_what_is_no_field_of_ours_is_no_answer() -> None:
    clicked = click_on(shown(question_plan()), {"c1": "maybe", "m3": "web", "s0": 3, "t9": "x", "approve": True})
    assert clicked.answers == {}


_CROWD = tuple(
    Question(
        id=f"q{n}",
        prompt=f"Question {n}?",
        kind=QuestionKind.CHOICE,
        options=tuple(Option(value=f"v{n}.{m}") for m in range(20)),
        multi_select=bool(n % 2),
    )
    for n in range(10)
)


def test_more_options_than_a_card_can_list_are_chosen_by_number() -> None:
    plan = question_plan(*_CROWD)
    card = shown(plan)
    assert not parts(card, "select_static")
    form = {f"n{n}": "3, 20" if n % 2 else " 7 " for n in range(10)}
    answer = click_on(card, form).answer(delivery_id="d", now=NOW)
    found = normalised(plan.questions, meant(plan.questions, answer))
    assert found == {f"q{n}": (f"v{n}.2", f"v{n}.19") if n % 2 else f"v{n}.6" for n in range(10)}
    wrong = click_on(card, {**form, "n0": "21", "n1": "x"}).answer(delivery_id="d", now=NOW)
    flaws = flaws_in(plan.questions, meant(plan.questions, wrong))
    assert [(flaw.question, flaw.kind) for flaw in flaws] == [
        ("q0", FlawKind.NOT_AN_OPTION),
        ("q1", FlawKind.NOT_AN_OPTION),
    ]


def _filled(text: str) -> tuple[Question, ...]:
    """As large as questions may be, of this text."""
    asked = tuple(
        Question(
            id=f"q{n}",
            prompt=(text * 2000)[:150],
            kind=QuestionKind.CHOICE,
            options=tuple(Option(value=f"{n}{m}", label=(text * 9)[:8], description=(text * 9)[:8]) for m in range(9)),
        )
        for n in range(10)
    )
    while len(canonical_questions(asked).encode()) > MOST_BYTES:
        asked = asked[:-1]
    return asked


@pytest.mark.parametrize("text", ['"', "\\", "<", "字", "🙂", "\n"])
def test_the_largest_questions_fit_whatever_they_are_made_of(text: str) -> None:
    asked = _filled(text)
    assert asked
    plan = question_plan(*asked, approvers=Approvers.of([ASKER] * 50), reason=text * 2000, asked_by="agent" * 10)
    shown(plan)
    answers: dict[str, Given] = {question.id: "00" for question in asked}
    shown(plan, outcome=ended(QuestionStatus.RESOLVED, answers))


def test_what_no_card_can_hold_is_known_before_anybody_is_asked() -> None:
    assert not can_be_shown(question_plan(*_filled("\u202e")), WORDING)
    assert can_be_shown(question_plan(*_filled("字")), WORDING)


@pytest.mark.parametrize("text", [each for each in ATTACKS if len(each) < 2000])
def test_nothing_that_others_wrote_is_markup(text: str) -> None:
    kept = "".join(c for c in text if c >= " " or c in "\t\n\r")
    hostile = Question(
        id="a",
        prompt=kept,
        kind=QuestionKind.CHOICE,
        options=(Option(value="v", label=kept, description=kept),),
        allow_input=True,
        placeholder=kept[:100],
    )
    plan = question_plan(hostile, asked_by=kept[:40].replace("\n", " ") or "x", reason=kept, tool=kept[:100])
    shown(plan)
    shown(plan, outcome=ended(QuestionStatus.RESOLVED, {"a": kept}))


@pytest.mark.parametrize("kind", [*VerdictKind])
def test_every_verdict_has_its_words(kind: VerdictKind) -> None:
    toast = answer_toast(AnswerVerdict(kind=kind), WORDING)
    assert toast.i18n["en_us"]
    assert toast.i18n["zh_cn"] != toast.i18n["en_us"]


@pytest.mark.parametrize("kind", [*FlawKind])
def test_every_flaw_is_told_in_both_languages(kind: FlawKind) -> None:
    flaw = Flaw(question="where", kind=kind, limit=20 if kind is FlawKind.TOO_LONG else None)
    toast = answer_toast(AnswerVerdict(kind=VerdictKind.INVALID, flaws=(flaw,)), WORDING)
    assert "where" in toast.content
    assert toast.i18n["zh_cn"] != toast.i18n["en_us"]


def test_who_was_faster_is_named() -> None:
    verdict = AnswerVerdict(kind=VerdictKind.ALREADY_DECIDED, status=QuestionStatus.RESOLVED, answered_by=ASKER)
    assert "Li Lei" in answer_toast(verdict, WORDING, name="Li Lei").content
    assert len(ALL) == len((WHERE, SURE, WHY, PARTS))
