"""What must hold of questions: one answer, by whom it may come; none is lost; and all who tell of it tell the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from assent import names
from assent.contracts.answers import Answer, QuestionOutcome, QuestionStatus
from tests.world.plans import Answered, Needed, Questioned

if TYPE_CHECKING:
    from tests.world.history import History

_ENDS = {"answer": QuestionStatus.RESOLVED, "expire": QuestionStatus.EXPIRED, "cancel": QuestionStatus.CANCELLED}
"""What the audit calls each ending."""


class Answers:
    """Hears every answer that reached a question, and how each question is said to have ended."""

    def __init__(self, history: History, looking: sqlite3.Connection, wrong: Callable[[str], None]) -> None:
        self._history, self._looking, self._wrong = history, looking, wrong
        self._asked: dict[str, tuple[Questioned | Needed, datetime]] = {}
        self._heard: dict[str, list[tuple[Answer, bool]]] = {}
        """The answers that can count, in the order in which they arrived in time; and whether they must.

        An answer must count once the question is open: before, nobody was shown it.
        """
        self._outcomes: dict[str, QuestionOutcome] = {}

    def ask(self, question_id: str, asked: Questioned | Needed, deadline: datetime) -> None:
        self._asked[question_id] = asked, deadline
        self._heard[question_id] = []

    def hear(self, question_id: str, said: Answered, answer: Answer, *, is_shown: bool) -> None:
        """An answer has reached a question that had not ended."""
        assert answer.received_at is not None, "it was sent at some time"
        if said.can_count and answer.received_at <= self._asked[question_id][1]:
            self._heard[question_id].append((answer, is_shown))

    def told(self, outcome: QuestionOutcome) -> None:
        """Somebody is told how a question ended."""
        question_id, before = outcome.question_id, self._outcomes.setdefault(outcome.question_id, outcome)
        if before is not outcome:
            if (before.status, before.answers) != (outcome.status, outcome.answers):
                self._wrong(f"a question was called {before.status}, then {outcome.status}")
            return
        self._history.note(f"TOLD {question_id}: {outcome.status} {dict(outcome.answers or {})}")
        if (outcome.answers is not None) != (outcome.status is QuestionStatus.RESOLVED):
            self._wrong("a question has an answer though it was not answered, or none though it was")
        said = [answer.answers for answer, _ in self._heard[question_id]]
        if outcome.answers is not None and outcome.answers not in said:
            self._wrong("a question was answered with what nobody said who may")

    def refuse(self, question_id: str) -> None:
        """It was never asked."""
        del self._asked[question_id]

    def look(self) -> Iterator[QuestionOutcome]:
        """What the ledger says of them."""
        for (text,) in self._looking.execute("SELECT outcome FROM questions WHERE outcome IS NOT NULL"):
            outcome = QuestionOutcome.model_validate_json(text)
            self.told(outcome)
            yield outcome

    def at_the_end(self) -> None:
        """All have ended, the first answer counts, and the audit says so."""
        for question_id, (asked, _) in self._asked.items():
            outcome, heard = self._outcomes.get(question_id), self._heard[question_id]
            if outcome is None:
                if asked.terminated_after is None:
                    self._wrong("a question never ended")
                continue
            if asked.is_left_alone:
                self._check_first(outcome, heard)
            self._check_audit(question_id, outcome.status)

    def _check_first(self, outcome: QuestionOutcome, heard: list[tuple[Answer, bool]]) -> None:
        """Of those that had to count the first does, or one that came before it."""
        first = next((place for place, (_, is_shown) in enumerate(heard) if is_shown), None)
        if first is not None and outcome.answers not in [answer.answers for answer, _ in heard[: first + 1]]:
            self._wrong("an answer to a question was lost")

    def _check_audit(self, question_id: str, status: QuestionStatus) -> None:
        lines = "SELECT body FROM audit WHERE approval_id = ?"
        found = self._looking.execute(lines, (names.question_workflow(question_id),)).fetchall()
        events = [json.loads(body)["event"] for (body,) in found]
        ends = [_ENDS[event] for event in events if event in _ENDS]
        unwritten = [QuestionStatus.RESOLVED, QuestionStatus.CANCELLED]  # what a program did not read was not answered
        if ends != [status] and not (status is QuestionStatus.CANCELLED and ":" in question_id and ends == unwritten):
            self._history.note(f"audit of {question_id}: {events}")
            self._wrong(f"the audit does not say of a question that it is {status}, once")
