"""Reading what a person answered, wherever it comes from: nothing is taken that was not offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from assent.client.door import invalid
from assent.contracts.answers import Given
from assent.contracts.questions import Question, Questions
from assent.core.questions.judging import explained, flaws_in, normalised
from assent.errors import InvalidRequest
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest
from assent.payload import refuse_inexact

_questions: TypeAdapter[tuple[Question, ...]] = TypeAdapter(Questions)
_given: TypeAdapter[dict[str, Given]] = TypeAdapter(dict[str, Given])


def parse_questions(questions: Sequence[Question | Mapping[str, Any]]) -> tuple[Question, ...]:
    """The questions to ask. Raises InvalidRequest, which says what cannot be asked."""
    try:
        return _questions.validate_python([*questions])
    except (ValidationError, TypeError) as error:
        raise invalid(ValueError(str(error)) if isinstance(error, TypeError) else error) from None


def parse_answer(request: HitlRequest, answer: Any) -> Any:
    """The answer to a request, as whoever asked gets it. Raises InvalidRequest; the request then stays open."""
    match request.kind:
        case HitlKind.APPROVE:
            return parse_approve_answer(answer)
        case HitlKind.CONFIRM:
            if not isinstance(answer, bool):
                raise InvalidRequest("answer: a confirmation is answered with True or False")
            return answer
        case HitlKind.ASK:
            return _answers(parse_questions(request.payload["questions"]), answer)


def parse_approve_answer(answer: Any) -> ApproveAnswer:
    """What was decided about a call."""
    given = {"decision": answer} if isinstance(answer, str) else answer
    try:
        parsed = given if isinstance(given, ApproveAnswer) else ApproveAnswer.model_validate(given)
    except ValidationError as error:
        raise invalid(error) from None
    if (parsed.decision == "edit") != (parsed.edited_args is not None):
        raise InvalidRequest("edited_args: an edit says all arguments of the call, and nothing else has any")
    refuse_inexact(parsed.edited_args)
    return parsed


def _answers(questions: tuple[Question, ...], answer: Any) -> dict[str, Any]:
    try:
        given = _given.validate_python(answer)
    except ValidationError:
        raise InvalidRequest("answer: true or false, texts and options, by the ids of the questions") from None
    if flaws := flaws_in(questions, given):
        raise InvalidRequest(explained(flaws))
    return plain(normalised(questions, given))


def plain(answers: Mapping[str, Given]) -> dict[str, Any]:
    """Answers as JSON has them."""
    return {name: [*given] if isinstance(given, tuple) else given for name, given in answers.items()}
