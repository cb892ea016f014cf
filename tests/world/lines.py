"""What must hold of runs: a program reads each answer once or never, nobody says more of it, and nothing stays open."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from assent import names
from assent.contracts.answers import QuestionOutcome, QuestionStatus
from assent.contracts.runs import RUN_ENDED, WRITE_UNKNOWN, LineState, RunHolder, RunNews
from tests.world.plans import Ran

if TYPE_CHECKING:
    from tests.world.history import History

_NEXT = {
    LineState.OPEN: {LineState.OFFERED, LineState.CLOSED, LineState.WRITTEN},
    LineState.OFFERED: {LineState.CLAIMED, LineState.CLOSED},
    LineState.CLAIMED: {LineState.WRITTEN, LineState.UNKNOWN},
}
"""What may follow what. Only a host's answer is done as soon as it is there."""
_Kept = tuple[str, str | None, str | None, str | None]


class Lines:
    """Sees every line that a program truly reads, and what the ledger says of it."""

    def __init__(self, history: History, looking: sqlite3.Connection, wrong: Callable[[str], None]) -> None:
        self._history, self._looking, self._wrong = history, looking, wrong
        self._holders: dict[str, RunHolder] = {}
        self._kept: dict[str, _Kept] = {}
        """How each interaction stands: its line's state, the line, whose answer it is, and who took it."""
        self._read: Counter[str] = Counter()
        self.outcomes: dict[str, QuestionOutcome] = {}
        self.refused: set[str] = set()
        self._said: dict[str, RunNews] = {}

    def start(self, run_id: str, ran: Ran) -> None:
        self._holders[run_id] = RunHolder(ran.holder)

    def refuse(self, question_id: str) -> bool:
        """A question was not asked; whether that is right, since it is of a run that has ended."""
        self.refused.add(question_id)
        return self.has_ended(question_id.partition(":")[0])

    # What truly happens

    def read(self, question_id: str, text: str) -> None:
        """A program has read a line."""
        self._history.note(f"LINE of {question_id}: {text.strip()}")
        self._read[question_id] += 1
        state, line, _, _ = self._kept[question_id]
        if self._read[question_id] > 1:
            self._wrong("an answer was written to a program twice")
        if text != line:
            self._wrong("a program has read what nobody answered")
        if state not in (LineState.CLAIMED, LineState.UNKNOWN):
            self._wrong(f"a line was written that is {state}")

    def said(self, run_id: str, news: RunNews) -> None:
        """A run has said how far it is; after its end nobody listens."""
        if run_id not in self._said or not self._said[run_id].has_ended:
            self._said[run_id] = news

    # What is said of it

    def told(self, outcome: QuestionOutcome) -> None:
        """A question is said to have ended; where it is a run's, it is true."""
        question_id = outcome.question_id
        if question_id not in self._kept or question_id in self.outcomes:
            return
        self.outcomes[question_id] = outcome
        self._history.note(f"{question_id} has ended: {outcome.status} ({outcome.reason})")
        self._check(question_id, outcome)

    def _check(self, question_id: str, outcome: QuestionOutcome) -> None:
        times, is_hosts = self._read[question_id], self._holder(question_id) is RunHolder.HOST
        if outcome.status is QuestionStatus.RESOLVED and times != 1 and not is_hosts:
            self._wrong("an interaction is resolved whose line nobody has read")
        never = outcome.status is QuestionStatus.EXPIRED or outcome.reason == RUN_ENDED
        if never and times:
            self._wrong(f"an interaction is {outcome.status} ({outcome.reason}), and its line was read")

    def _holder(self, question_id: str) -> RunHolder:
        return self._holders[question_id.partition(":")[0]]

    def look(self) -> None:
        """What the ledger says: nothing goes back, and what is written down stays."""
        rows = self._looking.execute("SELECT question_id, state, line, event_id, token FROM interactions")
        for question_id, *now in rows.fetchall():
            kept: _Kept = tuple(now)
            before = self._kept.get(question_id)
            self._kept[question_id] = kept
            if before is None or before == kept:
                continue
            if before[0] != kept[0] and kept[0] not in _NEXT.get(LineState(before[0]), ()):
                self._wrong(f"a line that was {before[0]} is {kept[0]}")
            if any(was is not None and was != now for was, now in zip(before[1:], kept[1:], strict=True)):
                self._wrong("a line, its answer or its taker was changed")

    def state(self, question_id: str) -> LineState | None:
        kept = self._kept.get(question_id)
        return LineState(kept[0]) if kept else None

    def has_ended(self, run_id: str) -> bool:
        """Whether the ledger has the end of a run."""
        ended = "SELECT count(*) FROM runs WHERE run_id = ? AND ended_at IS NOT NULL"
        return bool(self._looking.execute(ended, (run_id,)).fetchone()[0])

    # In the end

    def at_the_end(self) -> None:
        """Nothing is open, what was said last is shown, and what is unknown is called so."""
        for question_id, outcome in self.outcomes.items():
            self._check(question_id, outcome)
        left = "SELECT question_id FROM interactions WHERE is_over = 0"
        for (question_id,) in self._looking.execute(left):
            self._history.note(f"left: {question_id}")
            self._wrong("an interaction is open that nobody will ever answer")
        for question_id, (state, *_) in self._kept.items():
            told = self.outcomes.get(question_id)
            if told is None:
                continue
            if (state == LineState.UNKNOWN) != (told.reason == WRITE_UNKNOWN):
                self._wrong(f"a line is {state}, and its interaction {told.status} ({told.reason})")
            if (state == LineState.WRITTEN) != (told.status is QuestionStatus.RESOLVED):
                self._wrong(f"a line is {state}, and its interaction {told.status}")
        for run_id, said in self._said.items():
            if self._history.temporal.runs[names.run_workflow(run_id)].instance._shown != said:
                self._wrong("the message of a run does not say what the run said last")
