"""A click that answers a question, and what whoever clicked is told."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from pydantic import StrictBool

from assent.contracts.answers import Answer, AnswerVerdict, Flaw, Given, QuestionStatus
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.runs import SIGNATURE_INVALID
from assent.contracts.values import Frozen, Id, Surface
from assent.safe import one_line, shortened
from cards.interactions import REPLY_FIELD
from cards.toasts import TYPES, Toast
from cards.wording import Both, Wording

_TRUSTED_AGE = timedelta(minutes=10)
"""How old the platform's own time of a click may be and still count as when it was received."""
_MOST_IDS = 10
_REASON_CHARACTERS = 160


class AnswerClick(Frozen):
    """A person answered a question on its card."""

    event_id: Id
    operator: Identity
    question_id: Id
    questions_sha256: Id
    answers: dict[str, StrictBool | str | tuple[str, ...]]
    numbered: dict[str, tuple[int, ...]]
    message_id: Id
    chat_id: Id | None
    occurred_at: datetime
    """When the platform says it happened; 1970 if it does not say."""
    proof: Id

    def answer(self, *, delivery_id: str, now: datetime) -> Answer:
        """The answer that this click gives."""
        is_recent = timedelta(0) <= now - self.occurred_at <= _TRUSTED_AGE
        return Answer(
            question_id=self.question_id,
            questions_sha256=self.questions_sha256,
            answers=self.answers,
            numbered=self.numbered,
            actor=self.operator,
            event_id=self.event_id,
            delivery_id=delivery_id,
            message_id=self.message_id,
            received_at=self.occurred_at if is_recent else now,
            surface=Surface.FEISHU,
            proof=self.proof,
        )


def answer_click(shared: dict[str, Any], value: dict[str, Any], form: dict[str, Any]) -> AnswerClick:
    """Read a click on a question's button. Raises ValueError where it cannot be one."""
    ids = value.get("ids")
    if not isinstance(ids, list) or not 0 < len(ids) <= _MOST_IDS or not all(isinstance(each, str) for each in ids):
        raise ValueError("the button does not say which questions it answers")
    answers: dict[str, Given] = {}
    numbered: dict[str, tuple[int, ...]] = {}
    if "given" in value:
        answers[ids[0]] = value["given"]
    for place, name in enumerate(ids):
        given = _filled_in(place, form)
        if given is not None:
            answers[name] = given
        if isinstance(typed := form.get(f"n{place}"), str) and typed.strip():
            numbered[name] = tuple(int(each) for each in re.findall(r"\d{1,3}", typed)) or (0,)
    said = {
        "question_id": value.get("question"),
        "questions_sha256": value.get("questions_sha256"),
        "answers": answers,
        "numbered": numbered,
    }
    return AnswerClick.model_validate({**shared, **said})


def _filled_in(place: int, form: dict[str, Any]) -> Given | None:
    """What a form's fields say of one question; what is none of our fields' says nothing."""
    confirmed = {"yes": True, "no": False}.get(str(form.get(f"c{place}")))
    if confirmed is not None:
        return confirmed
    if isinstance(text := form.get(f"t{place}"), str):
        return text
    if place == 0 and isinstance(reply := form.get(REPLY_FIELD), str):
        return reply
    several = form.get(f"m{place}")
    chosen = [each for each in several if isinstance(each, str)] if isinstance(several, list) else []
    chosen += [
        each for each in (form.get(f"s{place}"), form.get(f"o{place}")) if isinstance(each, str) and each.strip()
    ]
    return tuple(chosen) or None


# The answer to it


def answer_toast(verdict: AnswerVerdict, wording: Wording, *, name: str | None = None) -> Toast:
    """What became of an answer.

    name: who answered, where somebody else did and the name is known.
    """
    return Toast.of(TYPES[verdict.kind], _text(verdict, wording, name))


def _text(verdict: AnswerVerdict, wording: Wording, name: str | None) -> Both:
    match verdict.kind:
        case VerdictKind.ACCEPTED if verdict.status is QuestionStatus.CANCELLED:
            return wording("question.not_written")
        case VerdictKind.TAMPERED if verdict.reason == SIGNATURE_INVALID:
            return wording("question.unsigned", code=SIGNATURE_INVALID)
        case VerdictKind.ACCEPTED:
            return wording("question.thanks")
        case VerdictKind.INVALID if verdict.flaws:
            said = _flaw(verdict.flaws[0], wording)
            return wording("question.flawed", problem=said)
        case VerdictKind.INVALID:
            reason = shortened(one_line(verdict.reason or ""), _REASON_CHARACTERS)
            return wording("toast.invalid_because", reason=reason) if reason else wording("toast.invalid")
        case VerdictKind.ALREADY_DECIDED if verdict.status is QuestionStatus.CANCELLED:
            return wording("question.withdrawn_already")
        case VerdictKind.ALREADY_DECIDED:
            known = shortened(one_line(name.strip()), 40) if name and name.strip() else None
            return (
                wording("question.answered_already_by", name=known) if known else wording("question.answered_already")
            )
        case VerdictKind.EXPIRED:
            return wording("question.too_late")
        case VerdictKind.MISSING:
            return wording("question.missing")
        case VerdictKind.FORBIDDEN:
            return wording("question.forbidden")
        case VerdictKind.TAMPERED:
            return wording("toast.tampered")
        case VerdictKind.DUPLICATE:
            return wording("toast.duplicate")
        case _:
            return wording("toast.received")


def _flaw(flaw: Flaw, wording: Wording) -> Both:
    limit = {"limit": str(flaw.limit)} if flaw.limit is not None else {}
    return wording("question.flaw", question=shortened(one_line(flaw.question), 60)) + wording(
        f"flaw.{flaw.kind.value}", **limit
    )
