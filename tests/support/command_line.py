"""The `assent` command as people and scripts run it: a process of its own, also on a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from assent import ApprovalHandle, Identity
from assent.cli.common import Answer
from tests.conftest import Service, new_database, open_service
from tests.support import servers
from tests.support.environment import worker_environment
from tests.support.fork_server import Started, spawn
from tests.support.simulated_feishu import served
from tests.support.web import Web

ME = Identity(open_id="ou_me")


_ASSENT = """
import os, runpy
from datetime import timedelta
from assent.client.handle import ApprovalHandle
from assent.client.question import QuestionHandle
within = timedelta(seconds=float(os.environ.get("TEST_VERDICT_WITHIN", 120)))
ApprovalHandle.submit.__kwdefaults__ = QuestionHandle.submit.__kwdefaults__ = {"answer_within": within}
runpy.run_module("assent", run_name="__main__", alter_sys=True)
"""
"""`python -m assent`, which waits for a verdict as long as a busy machine may need."""
SIDE_BY_SIDE = asyncio.Semaphore(3)
"""The machine is small: more processes at once only wait for each other."""


@dataclass(frozen=True)
class Finished:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """Runs `python -m assent` against a service."""

    service: Service
    environment: dict[str, str]

    async def __call__(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Finished:
        """Run a command to its end. None may show a traceback, and none may end by a signal."""
        async with SIDE_BY_SIDE:
            process = await self.start(*arguments, **environment)
            out, err = await asyncio.wait_for(process.communicate(stdin), 300)
        finished = Finished(process.returncode or 0, out.decode(), err.decode())
        assert "Traceback" not in finished.err, finished.err
        assert finished.code >= 0, finished
        return finished

    async def start(self, *arguments: str, **environment: str) -> Started:
        return await spawn(
            *("-c", _ASSENT, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environment, **environment},
        )

    async def pending(self, path: Path, tool: str = "mark", **arguments: Any) -> ApprovalHandle:
        """An approval that waits for a decision."""
        handle = await self.service.gate.request(tool, {"path": str(path), **arguments}, requester=ME)
        assert (await handle.state()).phase == "pending"
        return handle


async def command_line(stack: AsyncExitStack, directory: Path, address: str, namespace: str, **how: Any) -> CommandLine:
    client = await servers.connect(address, namespace)
    service = await open_service(stack, client, await new_database("sqlite", directory), **how)
    url = await stack.enter_async_context(served(Web(service, directory).app))
    environment = worker_environment(
        TEMPORAL_ADDRESS=address, TEMPORAL_NAMESPACE=namespace, ASSENT_URL=url, ASSENT_TOKEN="secret-console"
    )
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        environment.pop(name, None)
    return CommandLine(service, environment)


def call(path: Path, **more: Any) -> tuple[str, str]:
    return "--arguments", json.dumps({"path": str(path), **more})


class Terminal:
    """The other end of a terminal."""

    def __init__(self, ours: int) -> None:
        os.set_blocking(ours, False)
        self._ours = ours
        self._seen = b""

    def seen(self) -> str:
        while True:
            try:
                chunk = os.read(self._ours, 1 << 16)
            except OSError:
                return self._seen.decode(errors="replace")
            if not chunk:
                return self._seen.decode(errors="replace")
            self._seen += chunk

    def send(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())


@asynccontextmanager
async def on_terminal(assent: CommandLine, *arguments: str) -> AsyncIterator[tuple[Terminal, Started]]:
    ours, theirs = pty.openpty()
    process = await spawn(
        *("-c", _ASSENT, *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**assent.environment, "TERM": "dumb"},
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


def shown(answer: Answer) -> str:
    """The lines that a pipe gets."""
    console = Console(file=StringIO(), width=500, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(answer.shown)
    return captured.get()
