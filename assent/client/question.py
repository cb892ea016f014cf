"""One question, seen by its client: wait for its answer, look at it, answer it, withdraw it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from assent.client.door import Questions, invalid
from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.identity import Identity
from assent.contracts.signals import Withdrawal
from assent.contracts.values import Surface
from assent.errors import InvalidRequest
from assent.sizes import ANSWER, size

_ANSWER_WITHIN = timedelta(seconds=8)
"""How long an answer waits to learn what became of it."""


class QuestionHandle:
    """One question: wait for its answer, look at it, answer it, withdraw it."""

    def __init__(self, questions: Questions, question_id: str) -> None:
        self.id = question_id
        self._questions = questions

    async def answer(self) -> QuestionOutcome:
        """Wait until the question has ended, through restarts of the server and of the workers."""
        return await self._questions.outcome(self.id)

    async def state(self) -> QuestionState:
        """The question's current state."""
        return await self._questions.state(self.id)

    async def cancel(
        self, reason: str | None = None, *, actor: Identity | None = None, surface: Surface = Surface.CLIENT
    ) -> None:
        """Withdraw the question. Does nothing once somebody has answered, or if there is no such question."""
        try:
            withdrawal = Withdrawal(reason=reason, actor=actor, surface=surface)
        except ValueError as error:
            raise invalid(error) from None
        await self._questions.withdraw(self.id, withdrawal)

    async def respond(
        self,
        answers: Mapping[str, Any],
        *,
        actor: Identity,
        questions_sha256: str | None,
        event_id: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> AnswerVerdict:
        """Answer exactly the questions with that hash, as *actor*: for a program that has a screen of its own.

        answers: by the ids of the questions; true or false, the value of an option or a text, or a list of values.

        Repeating an event id answers nothing twice.
        """
        try:
            answer = Answer(
                question_id=self.id,
                questions_sha256=questions_sha256,
                answers={name: tuple(each) if isinstance(each, list) else each for name, each in answers.items()},
                actor=actor,
                event_id=event_id if event_id is not None else str(uuid.uuid4()),
                delivery_id=uuid.uuid4().hex,
                received_at=datetime.now(UTC),
                surface=surface,
            )
        except ValueError as error:
            raise invalid(error) from None
        return await self.submit(answer)

    async def submit(self, answer: Answer, *, answer_within: timedelta = _ANSWER_WITHIN) -> AnswerVerdict:
        """Hand an answer over durably, then learn what became of it, all within the time given.

        `received` means that it is recorded and its verdict not known yet. `Unavailable` means that nobody confirmed
        that it is recorded: submit it again, under the same event id it counts once.
        """
        if size(answer) > ANSWER:
            raise InvalidRequest(f"answers: all of them together hold at most {ANSWER} bytes")
        return await self._questions.answer(self.id, answer, answer_within=answer_within)

    async def audit(self) -> list[AuditRecord]:
        """What the audit says of this question, each line chained to the one before."""
        return await self._questions.audit(self.id)
