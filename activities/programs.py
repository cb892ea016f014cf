"""Running a tool that is a program, and writing to it what people answer."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.asking import CallAsker, Stopwatch
from assent import names
from assent.contracts.execute import ToolCall
from assent.contracts.manifest import Program
from assent.contracts.questions import AskingCall, QuestionRequest
from assent.contracts.runs import (
    AskingRun,
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
from assent.contracts.values import Surface
from assent.errors import AssentError, InvalidRequest
from assent.programs.lines import Need, Progress, Unreadable, read_line
from assent.programs.process import ProgramProcess
from assent.programs.summaries import Summaries
from assent.temporal.runs import tell_run
from assent.tools.asking import AskInterrupted
from assent.tools.definition import ToolOutcome, ToolResult
from assent.tools.programs import filled
from ledger import Ledger, LedgerError

_log = logging.getLogger(__name__)
TO_STOP = timedelta(seconds=15)
"""How long a program that ran out of time may take to be stopped, and its end to be noted."""
_NOT_RUN = "It could not be started, so it did not run"


class ProgramLost(Exception):
    """A program ended in a way of which nobody can say what it did."""


class Programs:
    """The programs that this worker runs. It alone can write to them, and is reached on a queue of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.queue = names.run_queue(uuid.uuid4().hex)
        self._running: dict[str, _Conversation] = {}

    async def run(
        self, program: Program, arguments: dict[str, Any], call: ToolCall, asker: CallAsker, stopwatch: Stopwatch
    ) -> ToolResult:
        """Run a program to its end. Raises ProgramLost where nobody can say what it did."""
        run = Run(
            run_id=uuid.uuid4().hex,
            holder=RunHolder.WORKER,
            tool=call.tool,
            queue=self.queue,
            tool_session_id=call.approval_id,
            collab_session_id=call.thread_id,
        )
        try:
            vector = filled(program, arguments)
            plan = await self._ledger.plan(call.approval_id, call.payload_sha256)
            if plan is not None and run.collab_session_id is None:
                run = run.model_copy(update={"collab_session_id": plan.conversation})
            await self._ledger.start_run(run, call.consent, plan.asked_by if plan else None)
            process = await ProgramProcess.start(
                vector, cwd=program.cwd, env=_environment(program, run.run_id), most=program.max_output
            )
        except InvalidRequest as error:
            return ToolResult(ToolOutcome.FAILED, f"{_NOT_RUN}: {error}.")
        except (OSError, LedgerError, ValueError) as error:  # only its kind: its words may hold an argument
            return ToolResult(ToolOutcome.FAILED, f"{_NOT_RUN} ({type(error).__name__}).")
        conversation = self._running[run.run_id] = _Conversation(activity.client(), run, call, asker, process)
        conversation.task = plan.request_reason if plan else None
        try:
            return await self._to_its_end(program, run, process, conversation, call.timeout, stopwatch)
        finally:
            self._running.pop(run.run_id, None)
            conversation.close()

    async def _to_its_end(
        self,
        program: Program,
        run: Run,
        process: ProgramProcess,
        conversation: _Conversation,
        timeout: timedelta,
        stopwatch: Stopwatch,
    ) -> ToolResult:
        watching = asyncio.ensure_future(_watched(process, timeout, stopwatch))
        try:
            async for line in process.lines():
                conversation.hear(line)
        finally:
            watching.cancel()
        code = await process.end()
        why = watching.result() if watching.done() and not watching.cancelled() else None
        await self._note_end(run.run_id, code, process.output)
        await conversation.end(code)
        content: dict[str, Any] = {"run_id": run.run_id, "exit_code": code, "summary": conversation.summary}
        if program.returns_output:
            content["output"] = process.output.decode("utf-8", "replace")
        if why is None and code == 0:
            return ToolResult(content=content)
        if why is None and code in program.failure_codes:
            return ToolResult(ToolOutcome.FAILED, content)
        why = why or f"ended with the exit code {code}, which says nothing for certain"
        raise ProgramLost(f"run {run.run_id} {why}")

    async def _note_end(self, run_id: str, code: int, output: bytes) -> None:
        for pause in (0.1, 0.5, 2.0):
            try:
                await self._ledger.end_run(run_id, code, output)
                return
            except LedgerError as error:
                _log.warning("the end of run %s could not be recorded yet: %s", run_id, type(error).__name__)
            await asyncio.sleep(pause)

    @activity.defn(name=names.WRITE_LINE)
    async def write_line(self, asked: LineQuestion) -> LineReport:
        """Write what a person answered, once: the line is claimed before, and confirmed after."""
        conversation = self._running.get(asked.question_id.partition(":")[0])
        if conversation is None or conversation.process.has_ended:
            raise ApplicationError("the program has ended", type="RunNotActive", non_retryable=True)
        token = uuid.uuid4().hex
        claimed = await self._ledger.claim_line(LineClaim(question_id=asked.question_id, token=token))
        if claimed.text is None:
            return LineReport(state=LineState.CLOSED)
        try:
            written = await conversation.write(claimed.text)
        except OSError:
            raise ApplicationError("the program reads no more", type="RunNotActive", non_retryable=True) from None
        return await self._ledger.confirm_line(
            LineWritten(question_id=asked.question_id, token=token, written_bytes=written)
        )


class _Conversation:
    """What one run asks and tells, and the people it asks."""

    def __init__(self, client: Client, run: Run, call: ToolCall, asker: CallAsker, process: ProgramProcess) -> None:
        self._client = client
        self._run = run
        self._call = call
        self._asker = asker
        self.process = process
        self._need: Need | None = None
        """What it waits for."""
        self.task: str | None = None
        """Why the call was asked for, in its agent's words."""
        self._asked: set[str] = set()
        self._needs: asyncio.Queue[Need | None] = asyncio.Queue()
        """What it asks, in order; None for what nobody can be asked."""
        self._summaries = Summaries(self._tell)
        self._asking = asyncio.ensure_future(self._ask_one_after_the_other())

    @property
    def summary(self) -> str | None:
        return self._summaries.latest

    def hear(self, line: str) -> None:
        match read_line(line):
            case Need() as need:
                self._needs.put_nowait(need)
            case Progress(summary=summary):
                self._summaries.tell(summary)
            case Unreadable(problem=problem):
                _log.warning("run %s: %s", self._run.run_id, problem)
                if problem.startswith("NEED"):
                    self._needs.put_nowait(None)

    async def _ask_one_after_the_other(self) -> None:
        """Ask, until it is not answered: then it reads the end of the file, and nobody is asked any more."""
        try:
            while (need := await self._needs.get()) is not None and await self._is_answered(need):
                pass
        finally:
            self.process.close_input()

    async def _is_answered(self, need: Need) -> bool:
        """Ask, and wait until the answer is written; False where none ever will be."""
        request_id = need.interaction_request_id or f"input-{len(self._asked) + 1}"
        if request_id in self._asked:
            _log.warning("run %s asks again under an id that it has used", self._run.run_id)
            return False
        self._asked.add(request_id)
        self._need = need
        try:
            outcome = await self._asker.ask_for(self._request(need, request_id))
        except AskInterrupted:
            return False
        except (AssentError, ValueError) as error:
            _log.warning("run %s could not ask: %s", self._run.run_id, type(error).__name__)
            return False
        return outcome.is_answered

    async def write(self, line: str) -> int:
        """Write what it waits for, and tell the conversation that it was answered."""
        written = await self.process.write(line)
        if self._need is not None:
            self._summaries.tell(self._need.answered(line.removesuffix("\n")))
        return written

    def _request(self, need: Need, request_id: str) -> QuestionRequest:
        call = self._call
        asking = AskingRun(
            **self._run.model_dump(),
            interaction_request_id=request_id,
            answer_type=need.answer_type,
            summary=need.summary,
        )
        return QuestionRequest(
            question_id=asking.question_id,
            questions=(need.question(),),
            requester=call.requester,
            thread_id=call.thread_id,
            ttl=need.ttl,
            reason=self.task,
            surface=Surface.CLIENT,
            call=AskingCall(approval_id=call.approval_id, consent=call.consent, tool=call.tool, deciders=call.deciders),
            run=asking,
        )

    async def _tell(self, summary: str) -> None:
        await self._send(RunNews(summary=summary))

    async def end(self, code: int) -> None:
        self._summaries.close()
        if self.summary is not None:  # a run that said nothing has no message
            await self._send(RunNews(summary=self.summary, has_ended=True, exit_code=code))

    async def _send(self, news: RunNews) -> None:
        call = self._call
        start = RunStart(
            run_id=self._run.run_id,
            tool=call.tool,
            requester=call.requester,
            approval_id=call.approval_id,
            quiet_for=call.timeout + call.asks + TO_STOP,
        )
        await tell_run(self._client, start, news)

    def close(self) -> None:
        self._asking.cancel()
        self._summaries.close()


def _environment(program: Program, run_id: str) -> Mapping[str, str]:
    named = {name: os.environ[name] for name in program.env if name in os.environ}
    return {**named, "ASSENT_RUN_ID": run_id}


async def _watched(process: ProgramProcess, timeout: timedelta, stopwatch: Stopwatch) -> str:
    """Stop a program that takes too long or says too much; why."""
    while stopwatch.is_held or stopwatch.taken < timeout.total_seconds():
        left = timeout.total_seconds() - stopwatch.taken
        waits = stopwatch.runs() if stopwatch.is_held else asyncio.sleep(max(left, 0))
        overflow, wait = asyncio.ensure_future(process.overflow.wait()), asyncio.ensure_future(waits)
        try:
            await asyncio.wait({overflow, wait}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            overflow.cancel()
            wait.cancel()
        if process.overflow.is_set():
            await process.stop()
            return "said more than it may, and was stopped"
    await process.stop()
    return f"did not end within {timeout.total_seconds():g} seconds, and was stopped"
