"""The card of a question: never like that of an approval, always within Feishu's limits."""

from __future__ import annotations

from assent.contracts.answers import Given, QuestionOutcome, QuestionStatus
from assent.contracts.approvers import Approvers
from assent.contracts.asking import QuestionPlan
from assent.contracts.identity import Identity
from assent.contracts.questions import Question, QuestionKind
from assent.contracts.runs import RUN_ENDED, WRITE_UNKNOWN
from assent.contracts.values import Frozen
from assent.payload import short_hash
from assent.safe import one_line, shortened, visible
from cards import interactions
from cards.controls import VALUE_VERSION, button, submits
from cards.elements import Element, box, div, local_time, markdown, plain, row, tags, to_json, weight
from cards.framing import MOST_BYTES, MOST_TAGS, Style, framed
from cards.paragraphs import paragraph
from cards.people import mentioned, named
from cards.safe import fitting
from cards.wording import Both, Wording

ICON = "maybe_outlined"
"""A question mark: no card of an approval has it."""
_STYLES = {
    "pending": Style("turquoise", "turquoise", ICON),
    "resolved": Style("turquoise", "green", ICON),
    "expired": Style("grey", "neutral", ICON),
    "cancelled": Style("grey", "neutral", ICON),
    "replaced": Style("grey", "neutral", ICON),
}
_UNWRITTEN = {WRITE_UNKNOWN: "question.write_unknown", RUN_ENDED: "question.run_ended"}
_MOST_BUTTONS = 5
"""Options that are buttons, where they are all there is to choose from."""
_LONGEST_BUTTON = 40
_LONG_TEXT = 100
"""Characters from which on a text gets several lines."""
_REASON_BYTES = 1200
_ANSWER_BYTES = 400
_MOST_PEOPLE = 20
_NAME_CHARACTERS = 120


class QuestionShowing(Frozen):
    """A question as its card shows it."""

    plan: QuestionPlan
    outcome: QuestionOutcome | None = None
    replaced: bool = False
    """Whether a newer card of the same question took this one's place."""
    reminder: bool = False
    """Whether it is sent because nobody has answered yet."""


def question_card(showing: QuestionShowing, wording: Wording) -> str:
    """The card of a question as it stands, as card JSON 2.0."""
    text = to_json(_card(showing, wording, by_number=False))
    return text if _fits(text) else to_json(_card(showing, wording, by_number=True))


def can_be_shown(plan: QuestionPlan, wording: Wording) -> bool:
    """Whether a card can hold all of it: characters that cannot be seen are written out, and take room."""
    return _fits(question_card(QuestionShowing(plan=plan, reminder=True), wording))


def _fits(text: str) -> bool:
    return weight(text) <= MOST_BYTES and tags(text) <= MOST_TAGS


def _card(showing: QuestionShowing, wording: Wording, *, by_number: bool) -> Element:
    state = _state(showing)
    first = shortened(one_line(showing.plan.questions[0].prompt), 80)
    style, said = _STYLES[state], wording(f"question.{state}")
    title = wording("question.title_reminder" if showing.reminder and state == "pending" else "question.title")
    if (run := showing.plan.run) is not None:
        title = wording(interactions.TITLES[run.answer_type])
        style = interactions.STYLES[run.answer_type] if state == "pending" else style
    header: Element = {
        "template": style.template,
        "icon": {"tag": "standard_icon", "token": style.icon},
        "title": plain(title),
        "subtitle": plain(first),
        "text_tag_list": [_tag(wording("question.tag"), "turquoise"), _tag(said, style.tag)],
    }
    if state == "pending":
        body = _open_body(showing.plan, wording, by_number=by_number)
    else:
        body = _closed_body(showing, state, wording)
    return framed(wording("question.preview", question=first, state=said), header, body)


def _state(showing: QuestionShowing) -> str:
    if showing.outcome is not None:
        return showing.outcome.status.value
    return "replaced" if showing.replaced else "pending"


def _tag(text: Both, color: str) -> Element:
    return {"tag": "text_tag", "text": plain(text), "color": color}


# While it waits


def _open_body(plan: QuestionPlan, wording: Wording, *, by_number: bool) -> list[Element]:
    if plan.run is not None and not by_number:
        asked = [*interactions.lines(plan, plan.run, wording), *_options(plan.questions[0])]
        answered = interactions.fields(plan, plan.run, bound(plan), wording)
    else:
        asked = _asker(plan, wording)
        answered = _pressed(plan, wording) or [_form(plan, wording, by_number=by_number)]
    return [
        *asked,
        {"tag": "hr"},
        *answered,
        {"tag": "hr"},
        _answerers(plan, wording),
        row(wording("question.deadline"), markdown(local_time(plan.deadline))),
        row(wording("question.hash"), div(short_hash(plan.questions_sha256), text_color="grey")),
    ]


def _asker(plan: QuestionPlan, wording: Wording) -> list[Element]:
    """Who asks, and that answering runs nothing."""
    if plan.tool is not None:
        who = wording("question.asked_by_tool", tool=_name(plan.tool))
    elif plan.asked_by is not None:
        who = wording("question.asked_by_agent", agent=_name(plan.asked_by))
    else:
        who = wording("question.asked")
    elements = [
        box([div(who), div(wording("question.runs_nothing"), text_color="grey")], "turquoise-50"),
        row(wording("question.for"), markdown(named(plan.requester))),
    ]
    if plan.reason:
        first, *more = paragraph(plan.reason, _REASON_BYTES, wording).elements
        elements += [row(wording("card.reason"), first), *more]
    return elements


def _name(text: str) -> str:
    return shortened(one_line(text), _NAME_CHARACTERS)


def _answerers(plan: QuestionPlan, wording: Wording) -> Element:
    """Who may answer, mentioned so that they are notified; never everyone at once."""
    people: list[Identity] = []
    values: list[Element] = []
    for group in plan.deciders.groups:
        approvers = group.approvers
        if approvers.kind is Approvers.Kind.CHAT:
            values.append(div(wording("card.members", chat=one_line(fitting(approvers.chat_id or "", 200)))))
        elif approvers.kind is Approvers.Kind.ANYONE:
            values.append(div(wording("card.anyone")))
        own = (plan.deciders.requester,) if approvers.kind is Approvers.Kind.REQUESTER else approvers.people
        people += [*own, *group.called, *(taker for _, taker in group.passed)]
    known = [each for each in dict.fromkeys(people) if plan.deciders.include(each)]
    if known:
        values.append(markdown(" ".join(mentioned(each) for each in known[:_MOST_PEOPLE])))
    if more := len(known) - _MOST_PEOPLE:
        values += [div(wording("card.more_people", count=str(more)), text_color="grey")] if more > 0 else []
    return row(wording("question.may_answer"), *values)


def _pressed(plan: QuestionPlan, wording: Wording) -> list[Element]:
    """The buttons of a card whose one question is answered by pressing one of few."""
    question = plan.questions[0]
    if len(plan.questions) > 1 or not question.required or question.takes_words or question.multi_select:
        return []
    if question.kind is QuestionKind.CONFIRM:
        choices: list[tuple[Given, str | Both]] = [(True, wording("question.yes")), (False, wording("question.no"))]
    else:
        choices = [(option.value, one_line(option.text)) for option in question.options]
    if len(choices) > _MOST_BUTTONS or any(
        isinstance(said, str) and len(said) > _LONGEST_BUTTON for _, said in choices
    ):
        return []
    buttons = [
        {
            **button(
                f"answer_{place}", "default" if place else "primary_filled", bound(plan, given), wording("question.yes")
            ),
            "text": plain(said),
        }
        for place, (given, said) in enumerate(choices)
    ]
    return [*_prompt(question, wording), *buttons]


def _form(plan: QuestionPlan, wording: Wording, *, by_number: bool) -> Element:
    """A field for each question. Whether an answer will do is said where it is judged, not here."""
    fields: list[Element] = []
    for place, question in enumerate(plan.questions):
        fields += [*_prompt(question, wording, numbered=by_number), *_fields(place, question, wording, by_number)]
    submit = submits(button("answer", "primary_filled", bound(plan), wording("question.submit")))
    return {"tag": "form", "name": "answers", "elements": [*fields, submit]}


def _options(question: Question) -> list[Element]:
    """Options of which a button does not say all."""
    told = [each for each in question.options if each.description or len(each.text) > interactions.LONGEST_BUTTON]
    listed = "\n".join(_described(option.text, option.description) for option in told)
    return [div(listed, text_color="grey")] if told else []


def _prompt(question: Question, wording: Wording, *, numbered: bool = False) -> list[Element]:
    lines = [div(visible(question.prompt), text_size="heading")]
    described = [option for option in question.options if option.description] if not numbered else question.options
    if described:
        listed = (
            f"{place}. {_described(option.text, option.description)}"
            if numbered
            else _described(option.text, option.description)
            for place, option in enumerate(described, 1)
        )
        lines.append(div("\n".join(listed), text_color="grey"))
    if not question.required:
        lines.append(div(wording("question.optional"), text_color="grey", text_size="notation"))
    return lines


def _described(label: str, description: str | None) -> str:
    return one_line(label) + (f" — {one_line(description)}" if description else "")


def _fields(place: int, question: Question, wording: Wording, by_number: bool) -> list[Element]:
    """What it is answered in; a field's name says of what kind the answer is, and to which question."""
    if question.kind is QuestionKind.TEXT:
        return [_input(f"t{place}", question, wording("question.text_hint"))]
    own = [_input(f"o{place}", question, wording("question.own_hint"))] if question.allow_input else []
    if question.kind is QuestionKind.CONFIRM:
        options = [{"text": plain(wording(f"question.{each}")), "value": each} for each in ("yes", "no")]
        return [_select(f"c{place}", "select_static", options, wording)]
    if by_number:
        key = "question.numbers_hint" if question.multi_select else "question.number_hint"
        return [_input(f"n{place}", question.model_copy(update={"placeholder": None}), wording(key)), *own]
    options = [{"text": plain(one_line(option.text)), "value": option.value} for option in question.options]
    if question.multi_select:
        return [_select(f"m{place}", "multi_select_static", options, wording), *own]
    return [_select(f"s{place}", "select_static", options, wording), *own]


def _select(name: str, tag: str, options: list[Element], wording: Wording) -> Element:
    hint = plain(wording("question.choose_hint"))
    return {"tag": tag, "name": name, "width": "fill", "required": False, "placeholder": hint, "options": options}


def _input(name: str, question: Question, hint: Both) -> Element:
    field: Element = {
        "tag": "input",
        "name": name,
        "width": "fill",
        "required": False,
        "max_length": 1000,
        "placeholder": plain(one_line(question.placeholder) if question.placeholder else hint),
    }
    if question.max_length > _LONG_TEXT:
        field |= {"input_type": "multiline_text", "rows": 2, "auto_resize": True, "max_rows": 8}
    return field


def bound(plan: QuestionPlan, given: Given | None = None) -> Element:
    """What a button sends back: an answer to exactly these questions."""
    value: Element = {
        "assent": VALUE_VERSION,
        "question": plan.question_id,
        "questions_sha256": plan.questions_sha256,
        "ids": [question.id for question in plan.questions],
    }
    return value if given is None else {**value, "given": given}


# Once it is over


def _closed_body(showing: QuestionShowing, state: str, wording: Wording) -> list[Element]:
    plan, outcome = showing.plan, showing.outcome
    elements: list[Element] = []
    if outcome is None:
        elements.append(div(wording("question.replaced_by"), text_color="grey"))
    elif outcome.status is QuestionStatus.RESOLVED and outcome.answered_by is not None:
        at = f" · {local_time(outcome.ended_at)}" if outcome.ended_at else ""
        said = wording("question.answered_by", who=named(outcome.answered_by) + at)
        elements.append(box([markdown(said)], "green-50"))
    else:
        elements.append(box([div(wording(f"question.{state}_line"))], "grey-50"))
        if outcome.reason in _UNWRITTEN:
            elements.append(div(wording(_UNWRITTEN[outcome.reason])))
        elif outcome.reason:
            first, *more = paragraph(outcome.reason, _REASON_BYTES, wording).elements
            elements += [row(wording("card.reason"), first), *more]
    for question in plan.questions:
        elements.append(div(shortened(visible(question.prompt), 300)))
        if outcome is not None and outcome.answers is not None:
            elements.append(_answered(question, outcome.answers.get(question.id), wording))
    elements.append(row(wording("question.for"), markdown(named(plan.requester))))
    return elements


def _answered(question: Question, given: Given | None, wording: Wording) -> Element:
    if given is None:
        return div(wording("question.unanswered"), text_color="grey")
    if isinstance(given, bool):
        return div(wording("question.yes" if given else "question.no"), text_color="green")
    labels = {option.value: option.text for option in question.options}
    chosen = (given,) if isinstance(given, str) else given
    text = " · ".join(one_line(labels.get(each, each)) for each in chosen)
    return div(shortened(text, _ANSWER_BYTES), text_color="green")
