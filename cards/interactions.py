"""The card of a running program's question: in colours of its own, with a question's icon and tag."""

from __future__ import annotations

from assent.contracts.asking import QuestionPlan
from assent.contracts.runs import AnswerType, AskingRun
from assent.safe import one_line, shortened, visible
from cards.controls import button, submits
from cards.elements import Element, box, div, plain, row
from cards.framing import Style
from cards.wording import Wording

REPLY_FIELD = "answer_text"
STYLES = {
    AnswerType.CHOICE: Style("blue", "blue", "maybe_outlined"),
    AnswerType.TEXT: Style("orange", "orange", "maybe_outlined"),
}
TITLES = {AnswerType.CHOICE: "run.choice_title", AnswerType.TEXT: "run.text_title"}
LONGEST_BUTTON = 60
_NAME_CHARACTERS = 120


def lines(plan: QuestionPlan, run: AskingRun, wording: Wording) -> list[Element]:
    """What asks, and what it asks."""
    tool = shortened(one_line(run.tool), _NAME_CHARACTERS)
    asker = [div(wording("run.asks", tool=tool)), div(wording("run.gets_line"), text_color="grey")]
    task = shortened(one_line(plan.reason or run.tool_session_id), _NAME_CHARACTERS)
    found = [
        box(asker, "turquoise-50"),
        row(wording("run.task"), div(task)),
        row(wording("run.tool"), div(tool)),
    ]
    if run.summary:
        found.append(row(wording("run.summary"), div(one_line(run.summary))))
    return [*found, row(wording("run.question"), div(visible(plan.questions[0].prompt), text_size="heading"))]


def fields(plan: QuestionPlan, run: AskingRun, bound: Element, wording: Wording) -> list[Element]:
    """A button for each option, or a field for one line.

    bound: what every button sends back.
    """
    value: Element = {
        **bound,
        "run_id": run.run_id,
        "interaction_request_id": run.interaction_request_id,
        "answer_type": run.answer_type.value,
    }
    question = plan.questions[0]
    if run.answer_type is AnswerType.CHOICE:
        return [
            {
                **button(
                    f"answer_{place}",
                    "default" if place else "primary_filled",
                    {**value, "given": option.value, "answer_value": option.value},
                    wording("run.submit"),
                ),
                "text": plain(shortened(one_line(option.text), LONGEST_BUTTON)),
            }
            for place, option in enumerate(question.options)
        ]
    reply: Element = {
        "tag": "input",
        "name": REPLY_FIELD,
        "width": "fill",
        "required": False,
        "max_length": 1000,
        "placeholder": plain(wording("run.reply_hint")),
    }
    return [
        {
            "tag": "form",
            "name": "answers",
            "elements": [reply, submits(button("answer", "primary_filled", value, wording("run.submit")))],
        }
    ]
