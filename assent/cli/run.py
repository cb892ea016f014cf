"""`assent run`: a program of one's own, whose prompts are answered on a card."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import uuid
from typing import NoReturn

import click
from pydantic import ValidationError

from assent.api.door import HttpDoor
from assent.api.run_wire import InteractionStatus, NewProgress, RunInteraction
from assent.api.runs import HttpRuns
from assent.cli import common
from assent.client.door import invalid
from assent.contracts.identity import Identity
from assent.errors import AssentError, InvalidRequest, Unavailable
from assent.programs.lines import Need, Progress, Unreadable, read_line
from assent.programs.process import ProgramProcess
from assent.programs.summaries import Summaries
from assent.safe import one_line

_NOT_FOUND, _NOT_EXECUTABLE, _BY_SIGNAL = 127, 126, 128
_GRACE = 120.0
"""Seconds beyond the deadline for which somebody who does not answer is asked how it ended."""


@common.cli.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--chat", "chat_id", metavar="CHAT", help="The chat that gets the cards.  [default: the requester's]")
@common.identity(
    "--requester",
    help="On whose behalf, and who answers: open_id:…, union_id:… or user_id:…  [default: the token's one person]",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def _run(chat_id: str | None, requester: Identity | None, command: tuple[str, ...]) -> NoReturn:
    """Run a program. People answer on cards what it asks with NEED_USER_INPUT. Ends with the program's exit code.

    It goes over the HTTP API, at ASSENT_URL with ASSENT_TOKEN. docs/programs.md has what a program says.
    """
    code = asyncio.run(_to_its_end(list(command), requester, chat_id))
    click.get_current_context().exit(code)


async def _to_its_end(vector: list[str], requester: Identity | None, chat_id: str | None) -> int:
    async with common.over_http() as api:
        run_id, person = uuid.uuid4().hex, requester or await _own_person(api)
        about = _about(vector[0], person, chat_id)
        try:
            environment = {**os.environ, "ASSENT_RUN_ID": run_id}
            process = await ProgramProcess.start(vector, env=environment, own_group=False)
        except OSError as error:
            _say(f"{vector[0]}: {error.strerror}")
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        process.hears = _pass_on
        _hand_on_signals(process)
        return await OwnRun(api.runs, run_id, process, about).end()


def _about(program: str, person: Identity, chat_id: str | None) -> NewProgress:
    """What is said of it with every word, read before it starts: then nothing of it is refused."""
    try:
        return NewProgress(requester=person, chat_id=chat_id, tool=one_line(os.path.basename(program))[:40])
    except ValidationError as error:
        raise invalid(error) from None


async def _own_person(api: HttpDoor) -> Identity:
    person = (await api.me()).person
    if person is None:
        raise InvalidRequest("this token may act for several people: say for whom, with --requester")
    return Identity.parse(person)


class OwnRun:
    """One execution of a program on this machine."""

    def __init__(self, runs: HttpRuns, run_id: str, process: ProgramProcess, about: NewProgress) -> None:
        self._runs = runs
        self.run_id = run_id
        self._process = process
        self._about = about
        self._asked = 0
        self._needs: asyncio.Queue[Need | None] = asyncio.Queue()
        """What it asks, in order; None for what nobody can be asked."""
        self._summaries = Summaries(self._tell)
        self._confirming: asyncio.Task[None] | None = None

    async def end(self) -> int:
        """Hear what it says until it has ended; its exit code."""
        asking = asyncio.ensure_future(self._ask_one_after_the_other())
        try:
            async for line in self._process.lines():
                self._hear(line)
            code = await self._process.end()
        finally:
            asking.cancel()
            self._summaries.close()
        if self._confirming is not None:  # it may have ended because of the line
            await self._confirming
        if self._asked or self._summaries.latest is not None:
            with contextlib.suppress(AssentError):
                await self._send(self._summaries.latest, has_ended=True, exit_code=code)
        return code if code >= 0 else _BY_SIGNAL - code

    def _hear(self, line: str) -> None:
        match read_line(line):
            case Need() as need:
                self._needs.put_nowait(need)
            case Progress(summary=summary):
                self._summaries.tell(summary)
            case Unreadable(problem=problem):
                _say(problem)
                if problem.startswith("NEED"):
                    self._needs.put_nowait(None)

    async def _ask_one_after_the_other(self) -> None:
        """Ask, until it is not answered: then it reads the end of the file, and nobody is asked any more."""
        try:
            while (need := await self._needs.get()) is not None and await self._is_answered(need):
                pass
        except (AssentError, ValueError, OSError) as error:
            _say(str(error))
        finally:
            self._process.close_input()

    async def _is_answered(self, need: Need) -> bool:
        """Ask, and write the answer, once; False where there never will be one."""
        self._asked += 1
        request_id = need.interaction_request_id or f"input-{self._asked}"
        about = self._about.model_dump(include={"requester", "chat_id", "tool"})
        asked = RunInteraction.model_validate({**need.model_dump(), **about, "interaction_request_id": request_id})
        give_up = time.monotonic() + need.ttl.total_seconds() + _GRACE
        found, token = await self._runs.ask(self.run_id, asked), uuid.uuid4().hex
        _say("it waits for an answer; a card was sent")
        while found.status is InteractionStatus.PENDING:
            try:
                if found.is_answered and await self._is_written(need, request_id, token):
                    return True
                found = await self._runs.look(self.run_id, request_id)
            except Unavailable as error:
                if time.monotonic() > give_up:
                    raise
                _say(f"{error} It is asked again.")
        _say(f"nobody's answer is written: {found.status.value}" + (f" ({found.reason})" if found.reason else ""))
        return False

    async def _is_written(self, need: Need, request_id: str, token: str) -> bool:
        """Claim the line, write it, and say so. What was claimed and not confirmed is never written again."""
        line = await self._runs.claim(self.run_id, request_id, token)
        if line is None:
            return False
        written = await self._process.write(line)
        self._summaries.tell(need.answered(line.removesuffix("\n")))
        self._confirming = asyncio.ensure_future(self._confirm(request_id, token, written))
        await asyncio.shield(self._confirming)
        return True

    async def _confirm(self, request_id: str, token: str, written: int) -> None:
        try:
            await self._runs.written(self.run_id, request_id, token, written)
        except AssentError as error:
            _say(f"the line is written, and that could not be said: {error}")

    async def _tell(self, summary: str) -> None:
        with contextlib.suppress(AssentError):  # the next one says more
            await self._send(summary)

    async def _send(self, summary: str | None, *, has_ended: bool = False, exit_code: int | None = None) -> None:
        said = {"summary": summary, "has_ended": has_ended, "exit_code": exit_code}
        await self._runs.tell(self.run_id, self._about.model_copy(update=said))


def _pass_on(chunk: bytes, is_error: bool) -> None:
    """What the program says is said here as it comes."""
    stream = sys.stderr.buffer if is_error else sys.stdout.buffer
    with contextlib.suppress(OSError, ValueError):
        stream.write(chunk)
        stream.flush()


def _hand_on_signals(process: ProgramProcess) -> None:
    """A terminal's Ctrl-C reaches the program by itself: it decides, and is waited for."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, lambda: process.send(signal.SIGTERM))


def _say(text: str) -> None:
    click.echo(f"assent: {text}", err=True)
