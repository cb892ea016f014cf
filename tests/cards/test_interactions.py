"""The cards of running programs: section D's colours and names, a question's icon and tag, in both languages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assent.contracts.answers import AnswerVerdict, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionPlan
from assent.contracts.decision import VerdictKind
from assent.contracts.deliver import Delivered
from assent.contracts.identity import Identity
from assent.contracts.questions import Option, Question, QuestionKind, QuestionRequest
from assent.contracts.runs import (
    RUN_ENDED,
    SIGNATURE_INVALID,
    WRITE_UNKNOWN,
    AnswerType,
    AskingRun,
    RunHolder,
    RunNews,
    RunShowing,
    RunStart,
)
from assent.core import questions as core
from cards import AnswerClick, QuestionShowing, Wording, answer_toast, parse_event, question_card, run_card
from tests.support.callbacks import PLAIN, SEALED, click
from tests.support.card_rules import check
from tests.support.questions import ASKER, NOW, question_plan

WORDING = Wording.load(None)


def asked(answer_type: AnswerType, options: int = 2) -> QuestionPlan:
    run = AskingRun(
        run_id="run-1",
        holder=RunHolder.WORKER,
        tool="rebuild",
        tool_session_id="approval-1",
        interaction_request_id="where",
        answer_type=answer_type,
        summary="12 documents",
    )
    is_choice = answer_type is AnswerType.CHOICE
    question = Question(
        prompt="Where to?",
        kind=QuestionKind.CHOICE if is_choice else QuestionKind.TEXT,
        options=tuple(Option(value=f"v{n}", label=f"Label {n}") for n in range(options)) if is_choice else (),
    )
    return question_plan(question, question_id=run.question_id, run=run, tool="rebuild")


def shown(plan: QuestionPlan, **more: Any) -> dict[str, Any]:
    text = question_card(QuestionShowing(plan=plan, **more), WORDING)
    check(text)
    found: dict[str, Any] = json.loads(text)
    return found


def found(card: Any, tag: str) -> list[dict[str, Any]]:
    if isinstance(card, list):
        return [each for part in card for each in found(part, tag)]
    if not isinstance(card, dict):
        return []
    own = [card] if card.get("tag") == tag else []
    return own + [each for part in card.values() for each in found(part, tag)]


def in_chinese(text: dict[str, Any]) -> str:
    return str(text.get("i18n_content", {}).get("zh_cn", text["content"]))


@pytest.mark.parametrize("options", [2, 20])
def test_a_choice_is_blue_with_a_button_for_each_option(options: int) -> None:
    card = shown(asked(AnswerType.CHOICE, options))
    assert card["header"]["template"] == "blue"
    assert card["header"]["icon"]["token"] == "maybe_outlined"
    assert in_chinese(card["header"]["title"]) == "需要你的选择"
    assert in_chinese(card["header"]["text_tag_list"][0]["text"]) == "提问"
    for line in ("任务", "工具", "摘要"):
        assert line in json.dumps(card, ensure_ascii=False)
    buttons = found(card, "button")
    assert len(buttons) == options
    assert [each["type"] for each in buttons] == ["primary_filled", *["default"] * (options - 1)]
    value = buttons[1]["behaviors"][0]["value"]
    assert (value["interaction_request_id"], value["answer_type"], value["answer_value"]) == ("where", "choice", "v1")


def test_a_text_is_orange_with_one_field() -> None:
    card = shown(asked(AnswerType.TEXT))
    assert (card["header"]["template"], in_chinese(card["header"]["title"])) == ("orange", "需要你的回复")
    (field,), (button,) = found(card, "input"), found(card, "button")
    assert (field["name"], in_chinese(field["placeholder"])) == ("answer_text", "请输入回复")
    assert in_chinese(button["text"]) == "提交"
    assert "问题" in json.dumps(card, ensure_ascii=False)


def test_what_is_typed_or_pressed_is_read_back() -> None:
    for answer_type, form, said in ((AnswerType.CHOICE, {}, "v0"), (AnswerType.TEXT, {"answer_text": "blue"}, "blue")):
        plan = asked(answer_type)
        value = found(shown(plan), "button")[0]["behaviors"][0]["value"]
        event = {
            "header": {"event_id": "e-1", "event_type": "card.action.trigger", "create_time": "1700000000000"},
            "event": {
                "operator": {"open_id": "ou_asker"},
                "action": {"value": value, "form_value": form},
                "context": {"open_message_id": "om_1", "open_chat_id": "oc_1"},
            },
        }
        click = parse_event(event, proof="feishu-signature", tenant_key=None)
        assert isinstance(click, AnswerClick)
        assert (click.question_id, click.answers) == (plan.question_id, {"answer": said})


@pytest.mark.parametrize(("reason", "says"), [(WRITE_UNKNOWN, "nobody knows"), (RUN_ENDED, "had ended before")])
def test_a_card_says_what_became_of_its_line(reason: str, says: str) -> None:
    plan = asked(AnswerType.TEXT)
    outcome = QuestionOutcome(
        question_id=plan.question_id, status=QuestionStatus.CANCELLED, reason=reason, ended_at=NOW
    )
    card = shown(plan, outcome=outcome)
    assert says in json.dumps(card, ensure_ascii=False)
    assert found(card, "button") == []


def test_a_click_that_nobody_signed_is_refused_and_the_long_connection_is_as_good_as_a_signature() -> None:
    plan = asked(AnswerType.CHOICE)
    request = QuestionRequest(question_id=plan.question_id, questions=plan.questions, requester=plan.requester)
    question, _ = core.send(core.open_with(core.Unopened(request=request), plan, NOW))
    question = core.arrive(question, Delivered(message_id="om_1"), NOW)
    value = found(shown(plan), "button")[0]["behaviors"][0]["value"]
    body = json.dumps(click(value)).encode()
    judged = []
    for opened in (PLAIN.open({}, body, NOW), SEALED.read(body)):
        assert isinstance(opened, AnswerClick)
        said = {"event_id": opened.proof, "actor": ASKER}
        question = core.answer(question, opened.answer(delivery_id="1", now=NOW).model_copy(update=said), NOW)
        found_out = question.notes.verdict_on(opened.proof)
        assert found_out is not None
        judged.append((opened.proof, found_out.verdict, found_out.problem))
    assert judged == [
        ("feishu-token", VerdictKind.TAMPERED, SIGNATURE_INVALID),
        ("feishu-connection", VerdictKind.ACCEPTED, None),
    ]
    assert [entry.error for entry in question.notes.unwritten] == [SIGNATURE_INVALID]
    assert question.ending is not None
    assert question.ending.answers == {"answer": "v0"}


def test_whoever_clicked_is_told_of_it() -> None:
    unsigned = AnswerVerdict(kind=VerdictKind.TAMPERED, reason=SIGNATURE_INVALID)
    unwritten = AnswerVerdict(kind=VerdictKind.ACCEPTED, status=QuestionStatus.CANCELLED)
    told = json.dumps(answer_toast(unsigned, WORDING).answer())
    assert ("not signed" in told, SIGNATURE_INVALID in told) == (True, True)
    assert "not be written again" in json.dumps(answer_toast(unwritten, WORDING).answer())


@pytest.mark.parametrize("news", [RunNews(summary="x" * 150), RunNews(summary="done", has_ended=True, exit_code=3)])
def test_a_run_has_one_small_card(news: RunNews) -> None:
    start = RunStart(run_id="run-1", tool="rebuild", requester=Identity(open_id=ASKER.open_id))
    text = run_card(RunShowing(start=start, news=news), WORDING)
    check(text)
    assert news.summary is not None
    assert news.summary in text
    assert ("3" in text) == (news.exit_code == 3) or news.exit_code is None
