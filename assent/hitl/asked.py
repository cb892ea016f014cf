"""The questions of a channel, as the service has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from assent.client.client import Assent
from assent.contracts.answers import QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.identity import Identity
from assent.contracts.questions import Question, QuestionKind
from assent.errors import LedgerNeeded, QuestionConflict, QuestionNotFound, Unavailable
from assent.hitl.answers import parse_questions, plain
from assent.hitl.exceptions import HitlCancelled, HitlTimedOut
from assent.hitl.requests import HitlKind, HitlRequest
from assent.payload import canonical_json, sha256

CONFIRMED = "answer"
"""What the one question of a confirmation is called."""
MOST_LIKE_IT = 100
"""How often the same may be asked in a thread by a program that gives it no id."""


class AskedQuestions:
    """Asks questions under durable ids, finds them again, and waits for their answers."""

    def __init__(self, gate: Assent, thread_id: str | None) -> None:
        self._gate = gate
        self._thread_id = thread_id

    async def state(self, durable_id: str) -> QuestionState | None:
        """A question as it stands; None if nobody asked it."""
        try:
            return await self._gate.question(durable_id).state()
        except (QuestionNotFound, LedgerNeeded, Unavailable):
            return None

    async def open(
        self, durable_id: str, kind: HitlKind, payload: dict[str, Any], seconds: float, **asked: Any
    ) -> tuple[QuestionState | None, bool]:
        """Ask, or attach to what was asked before; and whether that was so."""
        wanted = questions_of(kind, payload)
        known = await self.state(durable_id)
        if known is not None:
            if known.questions != wanted:
                raise QuestionConflict(durable_id)
            return known, True
        handle = await self._gate.ask(
            wanted, question_id=durable_id, thread_id=self._thread_id, ttl=timedelta(seconds=seconds), **asked
        )
        return await self.state(handle.id), False

    async def answer_to(self, durable_id: str, request: HitlRequest) -> Any:
        """Wait for the answer. Raises HitlCancelled or HitlTimedOut where there is none."""
        outcome: QuestionOutcome = await self._gate.question(durable_id).answer()
        match outcome.status:
            case QuestionStatus.EXPIRED:
                raise HitlTimedOut((request.deadline - request.created_at).total_seconds())
            case QuestionStatus.CANCELLED:
                raise HitlCancelled(outcome.reason)
            case _:
                answers = plain(outcome.answers or {})
                return answers[CONFIRMED] if request.kind is HitlKind.CONFIRM else answers

    async def pending(self, requester: Identity) -> list[QuestionState]:
        """The open questions of the thread, as far as they are listed by now."""
        found = []
        async for asked in self._gate.questions(status=QuestionStatus.PENDING, thread_id=self._thread_id):
            state = await self.state(asked.question_id)
            if state is not None and is_open(state) and state.requester.may_be(requester):
                found.append(state)
        return found


def is_open(state: QuestionState) -> bool:
    return state.status is QuestionStatus.PENDING


def questions_of(kind: HitlKind, payload: dict[str, Any]) -> tuple[Question, ...]:
    """What is asked of a person."""
    if kind is HitlKind.CONFIRM:
        return (Question(id=CONFIRMED, kind=QuestionKind.CONFIRM, prompt=payload["prompt"]),)
    return parse_questions(payload["questions"])


def name_of(questions: tuple[Question, ...], number: int) -> str:
    """The id of what a program asks that gives it none: the same words, for the n-th time."""
    listed = [question.model_dump(mode="json", exclude_defaults=True) for question in questions]
    return f"q-{sha256(canonical_json(listed))[:16]}-{number}"


def request_of(question_id: str, state: QuestionState, thread_id: str | None) -> HitlRequest:
    """An open question as a request of its channel."""
    first = state.questions[0]
    is_one = len(state.questions) == 1 and (first.id, first.kind) == (CONFIRMED, QuestionKind.CONFIRM)
    listed = [question.model_dump(mode="json", exclude_defaults=True) for question in state.questions]
    created = state.asked_at or datetime.now(UTC)
    return HitlRequest(
        question_id=question_id,
        kind=HitlKind.CONFIRM if is_one else HitlKind.ASK,
        thread_id=thread_id,
        payload={"prompt": first.prompt, "details": state.reason} if is_one else {"questions": listed},
        created_at=created,
        deadline=state.deadline or created,
    )
