"""`assent run`: a program of one's own asks over HTTP, its lines are written once, its exit code is passed through."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import workflows.question
from assent import QuestionHandle, Unavailable
from assent.api.run_wire import Interaction, InteractionStatus, NewProgress, RunInteraction
from assent.api.runs import HttpRuns
from assent.cli.run import OwnRun
from assent.contracts.runs import AnswerType
from assent.programs.process import ProgramProcess
from tests.support.command_line import ME, CommandLine, command_line
from tests.support.programs import MANY, PROMPTS, lines, script
from tests.support.waiting import until

FOR_ME = ("--requester", "open_id:ou_me")


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("runs"), temporal_address, next(namespaces))


async def answered(assent: CommandLine, request_id: str, said: str) -> QuestionHandle:
    async def found() -> str | None:
        async for line in assent.service.gate.questions(status="pending"):
            if line.question_id.endswith(f":{request_id}"):
                return line.question_id
        return None

    question = assent.service.gate.question(await until(found))
    sha256 = (await question.state()).questions_sha256
    await question.respond({"answer": said}, actor=ME, questions_sha256=sha256)
    return question


async def test_three_prompts_are_answered_and_the_exit_code_is_the_programs(
    assent: CommandLine, tmp_path: Path
) -> None:
    counter = tmp_path / "read"
    path = script(tmp_path, PROMPTS + "exit 7\n")
    running = asyncio.create_task(assent("run", *FOR_ME, "--", "sh", str(path), str(counter)))
    first = await answered(assent, "where", "production")
    assert (await first.answer()).is_answered
    await answered(assent, "who", "everybody")
    last = await answered(assent, "input-3", "no")
    finished = await running
    assert (await last.answer()).is_answered, "it ends as soon as it has read the line"
    assert finished.code == 7, finished.err
    assert lines(counter) == ["production", "everybody", "no"]
    assert "done: a secret of the transcript" in finished.out
    events = await assent.service.events(f"question/{first.id}")
    assert events == ["ask", "answer", "write_input"]


async def test_a_run_that_is_killed_with_its_line_unwritten_writes_nothing(
    assent: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows.question, "_FETCHED_WITHIN", timedelta(seconds=2))
    counter = tmp_path / "read"
    process = await assent.start("run", *FOR_ME, "--", "sh", str(script(tmp_path, PROMPTS)), str(counter))

    async def found() -> str | None:
        async for line in assent.service.gate.questions(status="pending"):
            if line.question_id.endswith(":where"):
                return line.question_id
        return None

    question = assent.service.gate.question(await until(found))
    process.send_signal(signal.SIGKILL)
    await process.wait()
    sha256 = (await question.state()).questions_sha256
    answering = asyncio.ensure_future(question.respond({"answer": "staging"}, actor=ME, questions_sha256=sha256))
    outcome = await question.answer()
    await answering
    assert (outcome.status, outcome.reason) == ("cancelled", "run: not active")
    assert lines(counter) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("run", *FOR_ME, "--", "/no/such/program"), 127, "No such file or directory"),
        (("run", *FOR_ME, "--", "sh", "-c", "exit 3"), 3, ""),
        (("run", *FOR_ME, "--", "sh", "-c", "kill -15 $$"), 143, ""),
        (("run", *FOR_ME, "--", "sh", "-c", "echo 'NEED_USER_INPUT x'; read l || exit 9"), 9, "no JSON object"),
        (("run", *FOR_ME, "--chat", "a\nb", "--", "sh", "-c", "exit 3"), 2, "chat_id"),
        (("run", "--", "true"), 2, "may act for several people"),
        (("run", *FOR_ME), 2, "Missing argument"),
    ],
)
async def test_what_a_program_ends_with_is_passed_through(
    assent: CommandLine, arguments: tuple[str, ...], code: int, says: str
) -> None:
    finished = await assent(*arguments)
    assert (finished.code, says in finished.err) == (code, True), finished


class FailingRuns(HttpRuns):
    """An HTTP API that answers everything, but not always."""

    def __init__(self, *fails: str) -> None:
        self._fails = [*fails]
        self.claimed: set[str] = set()
        self.asked: list[str] = []

    def _may_fail(self, what: str) -> None:
        if what in self._fails:
            self._fails.remove(what)
            raise Unavailable(f"{what} is not heard.")

    async def ask(self, run_id: str, asked: RunInteraction) -> Interaction:
        self.asked.append(asked.interaction_request_id or "")
        return self._seen(run_id, is_answered=False)

    async def look(self, run_id: str, request_id: str) -> Interaction:
        self._may_fail("look")
        return self._seen(run_id, is_answered=True)

    async def claim(self, run_id: str, request_id: str, token: str) -> str | None:
        self.claimed.add(token)
        self._may_fail("claim")
        return f"line {len(self.claimed)}\n"

    async def written(self, run_id: str, request_id: str, token: str, written_bytes: int) -> None:
        self._may_fail("written")

    async def tell(self, run_id: str, news: NewProgress) -> None:
        self._may_fail("tell")

    def _seen(self, run_id: str, *, is_answered: bool) -> Interaction:
        return Interaction(
            interaction_request_id=self.asked[-1],
            run_id=run_id,
            tool_session_id=run_id,
            status=InteractionStatus.PENDING,
            answer_type=AnswerType.TEXT,
            prompt="?",
            is_answered=is_answered,
        )


@pytest.mark.parametrize(
    "fails", [(), ("look",), ("claim", "claim"), ("written",), ("look", "claim", "written", "tell")]
)
async def test_what_http_fails_to_carry_costs_no_line_and_writes_none_twice(
    tmp_path: Path, fails: tuple[str, ...]
) -> None:
    runs, counter = FailingRuns(*fails), tmp_path / "read"
    vector = ["sh", str(script(tmp_path, f"{MANY}exit 5\n")), str(counter), "2"]
    process = await ProgramProcess.start(vector, own_group=False)
    assert await OwnRun(runs, "r", process, NewProgress(requester=ME)).end() == 5
    assert lines(counter) == ["line 1", "line 2"]


async def on_its_own_loop(story: Coroutine[Any, Any, Any]) -> Any:
    """On the loop of `assent run`, which is asyncio's own; uvloop leaves a program a second end of its input."""
    return await asyncio.to_thread(asyncio.run, story)


async def test_a_program_that_reads_no_more_is_asked_nothing_more(tmp_path: Path) -> None:
    runs, counter = FailingRuns(), tmp_path / "read"
    text = MANY.replace("while", "exec 0<&-; while", 1).replace("|| exit 3", "") + "exit 6\n"

    async def run() -> int:
        process = await ProgramProcess.start(["sh", str(script(tmp_path, text)), str(counter), "3"], own_group=False)
        return await OwnRun(runs, "r", process, NewProgress(requester=ME)).end()

    assert await on_its_own_loop(run()) == 6
    assert len(runs.asked) <= 1


async def test_a_line_that_a_program_can_no_longer_read_is_not_called_written(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    text = 'exec 0<&-; echo > "$1"; while [ -e "$1" ]; do sleep 0.1; done\n'

    async def write() -> None:
        process = await ProgramProcess.start(["sh", str(script(tmp_path, text)), str(closed)], own_group=False)

        async def has_closed() -> bool:
            return closed.exists()

        await until(has_closed)
        try:
            await process.write("yes\n")
        finally:
            closed.unlink()
            assert await process.end() == 0

    with pytest.raises(OSError, match=r"reads no more|Connection lost"):
        await on_its_own_loop(write())
