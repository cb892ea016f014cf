"""`assent run`: a program of one's own asks over HTTP, its lines are written once, its exit code is passed through."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

import workflows.question
from assent import QuestionHandle
from tests.support.command_line import ME, CommandLine, command_line
from tests.support.programs import PROMPTS, lines, script
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
    await answered(assent, "input-3", "no")
    finished = await running
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
        (("run", "--", "true"), 2, "may act for several people"),
        (("run", *FOR_ME), 2, "Missing argument"),
    ],
)
async def test_what_a_program_ends_with_is_passed_through(
    assent: CommandLine, arguments: tuple[str, ...], code: int, says: str
) -> None:
    finished = await assent(*arguments)
    assert (finished.code, says in finished.err) == (code, True), finished
