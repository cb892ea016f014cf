"""Programs that ask: each is held by a process, which writes to it what people answer, and may die at any moment."""

from __future__ import annotations

import asyncio
import contextvars
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from temporalio import activity
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError

from activities.programs import Programs
from activities.runs import LineActivities, RunCards
from assent import names
from assent.contracts.questions import Question, QuestionRequest
from assent.contracts.runs import (
    RUN_ENDED,
    AnswerType,
    AskingRun,
    ClaimedLine,
    LineClaim,
    LineQuestion,
    LineReport,
    LineState,
    LineWritten,
    Run,
    RunHolder,
    RunNews,
    RunStart,
)
from assent.contracts.signals import Withdrawal
from assent.core import questions as core_questions
from assent.temporal.runs import tell_run
from ledger import OutOfReach
from tests.world import clock
from tests.world.clock import VirtualLoop
from tests.world.plans import Needed, Ran
from tests.world.processes import Process, never

if TYPE_CHECKING:
    from assent import Identity
    from tests.world.history import History

_UPDATED_WITHIN = 300.0
_TROUBLE = (RPCError, TimeoutError, ApplicationError, ActivityError)
_being_written: contextvars.ContextVar[str] = contextvars.ContextVar("question")


def served_by(history: History, process: Process) -> None:
    """What an approvals worker does for runs, and for the messages that say how far they are."""
    process.serve(LineActivities(process.ledger))
    process.serve(RunCards(process.ledger, history.settings, None, None))


class _Programs(Programs):
    """A tools worker that holds a pipe; which line it writes is seen from outside."""

    @activity.defn(name=names.WRITE_LINE)
    async def write_line(self, asked: LineQuestion) -> LineReport:
        _being_written.set(asked.question_id)
        return await super().write_line(asked)


class Pipe:
    """One run: its program, and the process that holds the pipe to it."""

    def __init__(self, history: History, run_id: str, ran: Ran, person: Identity, asked: Question) -> None:
        self._history, self._ran, self._person, self._question = history, ran, person, asked
        self._lines = history.oracle.lines
        self._process = Process(history, f"whoever holds {run_id}")
        self._has_ended = False
        self._asked: list[str] = []
        self._run = Run(run_id=run_id, holder=RunHolder(ran.holder), tool="deploy.sh", tool_session_id=run_id)

    @property
    def _is_gone(self) -> bool:
        return self._has_ended or self._process.is_dead

    async def live(self) -> None:
        """Ask one thing after the other, until something is not answered, or it ends."""
        await asyncio.sleep(self._ran.at)
        self._lines.start(self._run.run_id, self._ran)
        if self._run.holder is RunHolder.WORKER:
            await self._hold()
        if self._ran.killed_after is not None:
            self._history.spawn(self._killed(self._ran.killed_after))
        if self._ran.ends_after is not None:
            self._history.spawn(self._ends(self._ran.ends_after))
        for place, need in enumerate(self._ran.needs):
            await self._tell(RunNews(summary=f"step {place}"))
            if self._is_gone or not await self._is_answered(place, need):
                break
        await self._ends(0.0)

    async def _hold(self) -> None:
        programs = _Programs(self._process.ledger)
        self._run = self._run.model_copy(update={"queue": programs.queue})
        await self._history.transaction(self._history.ledger.own_run, self._run, None)
        programs._running[self._run.run_id] = cast("Any", SimpleNamespace(process=self, write=self._write))
        self._process.serve(programs)
        self._history.temporal.processes[programs.queue] = [self._process]

    @property
    def has_ended(self) -> bool:
        """What whoever holds the pipe sees of the program."""
        return self._has_ended

    # What it asks

    async def _is_answered(self, place: int, need: Needed) -> bool:
        history, loop = self._history, asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        run = AskingRun(
            **self._run.model_dump(), interaction_request_id=f"input-{place}", answer_type=AnswerType.CHOICE
        )
        question_id, ttl = run.question_id, timedelta(seconds=need.ttl)
        request = QuestionRequest(
            question_id=question_id, questions=(self._question,), requester=self._person, ttl=ttl, run=run
        )
        self._asked.append(question_id)
        history.oracle.questions.ask(question_id, need, clock.now() + ttl)
        history.temporal.start(
            names.QUESTION, core_questions.Asked(request=request), names.question_workflow(question_id)
        )
        history.meddle_with(question_id, need)
        if self._run.holder is RunHolder.CLIENT:
            for taker in range(need.takers):
                history.spawn(self._fetch(question_id, f"taker {taker}"))
        await loop.until(lambda: self._is_gone or self._is_over(question_id))
        outcome = self._lines.outcomes.get(question_id)
        return outcome is not None and outcome.is_answered

    def _is_over(self, question_id: str) -> bool:
        return question_id in self._lines.outcomes or question_id in self._lines.refused

    # What it reads

    async def _write(self, text: str, question_id: str | None = None) -> int:
        """Let the program read a line, as whoever holds the pipe does."""
        question_id = question_id or _being_written.get()
        dies = self._ran.needs[self._asked.index(question_id)].dies
        if dies == "claimed":
            await self._die()
        await self._process.step()
        if self._has_ended:
            raise BrokenPipeError
        self._lines.read(question_id, text)
        if dies == "written":
            await self._die()
        await self._process.step()
        return len(text.encode())

    async def _fetch(self, question_id: str, token: str) -> None:
        """What `assent run` does: take the line over HTTP, write it, and say so."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await loop.until(
            lambda: self._is_over(question_id) or self._lines.state(question_id) not in (None, LineState.OPEN)
        )
        claimed = await self._update(names.CLAIM_LINE, LineClaim(question_id=question_id, token=token))
        if not isinstance(claimed, ClaimedLine) or claimed.text is None:
            return
        try:
            written = await self._write(claimed.text, question_id)
        except BrokenPipeError:
            return
        done = LineWritten(question_id=question_id, token=token, written_bytes=written)
        await self._update(names.CONFIRM_LINE, done)

    async def _update(self, name: str, said: LineClaim | LineWritten) -> object:
        """Say something until it is heard, or too late."""
        while not self._is_over(said.question_id):
            await self._process.step()
            updating = self._history.temporal.update(names.question_workflow(said.question_id), name, said)
            try:
                return await asyncio.wait_for(updating, _UPDATED_WITHIN)
            except _TROUBLE:
                await self._process.sleep(5)
        return None

    # How it ends

    async def _killed(self, after: float) -> None:
        await asyncio.sleep(after)
        self._history.note(f"{self._process.name} is killed")
        self._process.is_dead = True
        await self._lost()

    async def _die(self) -> None:
        self._history.note(f"{self._process.name} dies")
        self._process.is_dead = True
        self._history.spawn(self._lost())
        await never()

    async def _lost(self) -> None:
        """The approval of a call notices that its worker is gone; of anybody else nobody does."""
        if self._run.holder is not RunHolder.WORKER:
            return
        await asyncio.sleep(20)
        await self._history.transaction(self._history.ledger.end_run, self._run.run_id, None)
        self._withdraw("the call that asked has ended")

    async def _ends(self, after: float) -> None:
        """The program ends, whoever holds the pipe notes it, and what it asked is withdrawn."""
        await asyncio.sleep(after)
        if self._is_gone:
            return
        self._has_ended = True
        self._history.note(f"{self._run.run_id} ends")
        await self._process.step()
        if self._run.holder is RunHolder.WORKER:
            await self._note_end()
        self._withdraw(RUN_ENDED if self._run.holder is RunHolder.CLIENT else "the call that asked has ended")
        await self._tell(RunNews(summary="the last step", has_ended=True, exit_code=0))

    async def _note_end(self) -> None:
        while True:
            try:
                await self._process.ledger.end_run(self._run.run_id, 0)
                return
            except OutOfReach:
                await self._process.sleep(5)

    def _withdraw(self, why: str) -> None:
        for question_id in self._asked:
            if not self._is_over(question_id):
                workflow_id = names.question_workflow(question_id)
                self._history.temporal.signal(workflow_id, names.CANCEL, Withdrawal(reason=why))

    async def _tell(self, news: RunNews) -> None:
        """Say how far it is: the last that is heard is what its message says."""
        if self._process.is_dead:
            return
        is_call = self._run.holder is RunHolder.WORKER
        start = RunStart(
            run_id=self._run.run_id,
            tool=self._run.tool,
            requester=self._person,
            approval_id="a call" if is_call else None,
        )
        if await tell_run(self._history.client, start, news):
            self._lines.said(self._run.run_id, news)
