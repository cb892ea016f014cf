"""The rules by which an answer is judged, shared by the open question and the ledger's record of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from assent.contracts.answers import Answer, Flaw, FlawKind, Given, QuestionStatus
from assent.contracts.asking import QuestionPlan
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import VerdictKind
from assent.contracts.questions import Question, QuestionKind
from assent.contracts.runs import SIGNATURE_INVALID, is_one_line
from assent.payload import canonical_json, sha256

_SAID = {
    FlawKind.UNKNOWN_QUESTION: "there is no such question",
    FlawKind.MISSING: "an answer is needed",
    FlawKind.NOT_YES_OR_NO: "answer true or false",
    FlawKind.NOT_AN_OPTION: "that is not one of the options",
    FlawKind.NOT_ONE: "choose one option",
    FlawKind.NOT_BOTH: "choose one option or write your own words, not both",
    FlawKind.NOT_TEXT: "answer with a text",
    FlawKind.TOO_LONG: "it is longer than {limit} characters",
    FlawKind.NOT_STORABLE: "control characters cannot be kept",
    FlawKind.NOT_ONE_LINE: "it is written as one line: no line breaks, no control characters",
}


def objection(plan: QuestionPlan, answer: Answer, cards: Collection[str], *, may_answer: bool) -> VerdictKind | None:
    """Why an answer cannot count whatever the question's state: it is about something else, or someone else's.

    cards: the messages on which this question was shown.
    may_answer: whether the actor is one of those who may.
    """
    about_this_question = (
        answer.question_id == plan.question_id
        and (answer.message_id is None or answer.message_id in cards)
        and plan.hash_is_true
        and answer.questions_sha256 == plan.questions_sha256
    )
    if not about_this_question or is_unsigned(plan, answer):
        return VerdictKind.TAMPERED
    if answer.actor.is_outside(plan.tenant_key) or not may_answer:
        return VerdictKind.FORBIDDEN
    return None


def is_unsigned(plan: QuestionPlan, answer: Answer) -> bool:
    """Whether it came by a callback that nobody signed: good enough for words, not for what a program reads."""
    return plan.run is not None and answer.proof == "feishu-token"


def wrong_with(plan: QuestionPlan, answer: Answer) -> str | None:
    """What is told of an answer that was refused for how it came."""
    return SIGNATURE_INVALID if is_unsigned(plan, answer) else None


def after_ending(status: QuestionStatus) -> VerdictKind:
    """What an answer is told when the question has ended."""
    return VerdictKind.EXPIRED if status is QuestionStatus.EXPIRED else VerdictKind.ALREADY_DECIDED


# What is wrong with an answer


def meant(questions: Collection[Question], answer: Answer) -> dict[str, Given]:
    """The answers, with the values of options that were named by their places; a place that is none stays a number."""
    found: dict[str, Given] = {**answer.answers}
    for question in questions:
        values = [option.value for option in question.options]
        places = answer.numbered.get(question.id, ())
        named = tuple(values[place - 1] if 0 < place <= len(values) else f"#{place}" for place in places)
        said = found.get(question.id, ())
        if named and not isinstance(said, bool):
            found[question.id] = (*named, *((said,) if isinstance(said, str) else said))
    return found


def flaws_in(questions: Collection[Question], given: Mapping[str, Given]) -> tuple[Flaw, ...]:
    """What is wrong, question by question; nothing, if these are answers to all that must be answered."""
    known = {question.id for question in questions}
    strays = [Flaw(question=name[:200], kind=FlawKind.UNKNOWN_QUESTION) for name in given if name not in known]
    flaws = [_flaw(question, given.get(question.id)) for question in questions]
    return (*strays[:1], *(flaw for flaw in flaws if flaw is not None))


def flaws_in_line(questions: Collection[Question], given: Mapping[str, Given]) -> tuple[Flaw, ...]:
    """What is wrong with an answer that becomes one line of a program's input, as it was said."""
    return tuple(
        Flaw(question=question.id, kind=FlawKind.NOT_ONE_LINE)
        for question in questions
        if not all(map(is_one_line, _texts(given.get(question.id))))
    )


def _texts(given: Given | None) -> tuple[str, ...]:
    return given if isinstance(given, tuple) else (given,) if isinstance(given, str) else ()


def normalised(questions: Collection[Question], given: Mapping[str, Given]) -> dict[str, Given]:
    """Answers without a flaw, each in its one form: what was left out is not there."""
    found = ((question.id, _normal(question, given.get(question.id))) for question in questions)
    return {name: answer for name, answer in found if answer is not None}


def _flaw(question: Question, given: Given | None) -> Flaw | None:
    answer = _normal(question, given)
    if answer is None:
        return Flaw(question=question.id, kind=FlawKind.MISSING) if question.required else None
    match question.kind:
        case QuestionKind.CONFIRM:
            kind = None if isinstance(answer, bool) else FlawKind.NOT_YES_OR_NO
        case QuestionKind.TEXT:
            kind = _wrong_words(question, answer) if isinstance(answer, str) else FlawKind.NOT_TEXT
        case QuestionKind.CHOICE:
            kind = _wrong_choice(question, answer)
    if kind is None:
        return None
    return Flaw(question=question.id, kind=kind, limit=question.max_length if kind is FlawKind.TOO_LONG else None)


def _wrong_choice(question: Question, answer: Given) -> FlawKind | None:
    if isinstance(answer, bool):
        return FlawKind.NOT_AN_OPTION
    chosen = (answer,) if isinstance(answer, str) else answer
    own = [each for each in chosen if not question.offers(each)]
    if own and not question.allow_input:
        return FlawKind.NOT_AN_OPTION
    if not question.multi_select and len(chosen) > 1:
        return FlawKind.NOT_BOTH if own else FlawKind.NOT_ONE
    if len(own) > 1:
        return FlawKind.NOT_AN_OPTION
    return _wrong_words(question, own[0]) if own else None


def _wrong_words(question: Question, words: str) -> FlawKind | None:
    if not is_storable(words):
        return FlawKind.NOT_STORABLE
    return FlawKind.TOO_LONG if len(words) > question.max_length else None


def is_storable(words: str) -> bool:
    """Whether every database can keep a text."""
    return all((c >= " " or c in "\t\n\r") and not "\ud800" <= c <= "\udfff" for c in words)


def _normal(question: Question, given: Given | None) -> Given | None:
    """An answer in its one form; None where nothing was answered."""
    if given is None or isinstance(given, bool):
        return given
    if question.kind is not QuestionKind.CHOICE:
        return given if isinstance(given, tuple) else given.strip() or None
    said = [each if question.offers(each) else each.strip() for each in _texts(given)]
    chosen = [each for each in dict.fromkeys(said) if each]
    order = {option.value: place for place, option in enumerate(question.options)}
    chosen.sort(key=lambda each: order.get(each, len(order)))
    if not chosen:
        return None
    return tuple(chosen) if question.multi_select or len(chosen) > 1 else chosen[0]


def explained(flaws: Collection[Flaw]) -> str:
    """What is wrong, in one line."""
    return "; ".join(f"{flaw.question}: {_SAID[flaw.kind].format(limit=flaw.limit)}" for flaw in flaws)[:500]


# The audit


def answers_sha256(answers: Mapping[str, Given]) -> str:
    """What stands for answers in the audit, which keeps none of their words."""
    listed = {name: [*given] if isinstance(given, tuple) else given for name, given in answers.items()}
    return sha256(canonical_json(listed))


def audit_entry(event: AuditEvent, answer: Answer, at: datetime) -> AuditEntry:
    """What the audit says of an answer."""
    return AuditEntry(
        event=event,
        at=at,
        once=f"{event}:{answer.event_id}",
        actor=answer.actor,
        surface=answer.surface,
        proof=answer.proof,
        payload_sha256=answer.questions_sha256,
        event_id=answer.event_id,
        message_id=answer.message_id,
    )


def refusal_entry(answer: Answer, verdict: VerdictKind, at: datetime, why: str | None = None) -> AuditEntry | None:
    """The audit's note of an answer that was refused for what it is, not for when it came."""
    match verdict:
        case VerdictKind.TAMPERED:
            return audit_entry(AuditEvent.TAMPER, answer, at).model_copy(update={"error": why})
        case VerdictKind.FORBIDDEN:
            return audit_entry(AuditEvent.FORBID, answer, at)
        case _:
            return None
