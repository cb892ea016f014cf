"""Channels for tests: one that answers as it was told to, and one that agrees to everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from assent.contracts.questions import QuestionKind
from assent.errors import AssentError
from assent.hitl.answers import parse_answer, parse_questions
from assent.hitl.channel import Asking, WaitingChannel
from assent.hitl.exceptions import HitlNoPendingRequest
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest


class ScriptExhausted(AssentError, AssertionError):
    """More was asked than the script has answers for."""


class _AtOnce(WaitingChannel):
    """A channel whose answers are there when something is asked."""

    def __init__(self, thread_id: str | None = None, **options: Any) -> None:
        super().__init__(thread_id, **options)
        self.history: list[HitlRequest] = []
        """Everything that was asked, in order."""

    async def answer(self, question_id: str, answer: Any) -> None:
        raise HitlNoPendingRequest

    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        raise HitlNoPendingRequest

    async def _open(self, asking: Asking) -> tuple[HitlRequest, bool]:
        now = datetime.now(UTC)
        request = HitlRequest(
            question_id=asking.question_id,
            kind=asking.kind,
            thread_id=self.thread_id,
            payload=asking.payload,
            created_at=now,
            deadline=now + timedelta(seconds=asking.seconds),
        )
        self.history.append(request)
        return request, False


class ScriptedChannel(_AtOnce):
    """Answers in order. Each is looked at as a person's would be: what was not offered is refused.

    answers: what `answer` takes; an exception, which is raised; or a function from the request to one of these.
    """

    def __init__(self, answers: Iterable[Any] = (), thread_id: str | None = None, **options: Any) -> None:
        super().__init__(thread_id, **options)
        self._script = iter(tuple(answers))

    async def _answer_to(self, request: HitlRequest) -> Any:
        try:
            answer = next(self._script)
        except StopIteration:
            raise ScriptExhausted(f"the script has no answer left for {request.kind} {request.payload}") from None
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        return parse_answer(request, answer)


class NoopChannel(_AtOnce):
    """Agrees to everything: yes, approve, the first option, no words."""

    async def _answer_to(self, request: HitlRequest) -> Any:
        match request.kind:
            case HitlKind.APPROVE:
                return ApproveAnswer(decision="approve")
            case HitlKind.CONFIRM:
                return True
            case HitlKind.ASK:
                questions = parse_questions(request.payload["questions"])
                return {question.id: _agreed(question) for question in questions}


def _agreed(question: Any) -> Any:
    match question.kind:
        case QuestionKind.CONFIRM:
            return True
        case QuestionKind.CHOICE:
            first = question.options[0].value
            return [first] if question.multi_select else first
        case _:
            return ""
