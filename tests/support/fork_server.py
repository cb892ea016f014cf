"""A process that has imported everything, and forks those that tests start: each begins at once.

Importing costs a process of ours more than all that it does in most tests. A forked one is a process of its own all
the same: it runs `python -m …` or `python -c …`, has its own environment, files and signals, and dies alone. What is
put before the C library (a clock) has to be there from the start: such a process is a Python of its own, and so is
every one where the system cannot hold a process by a descriptor (only Linux can).
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, TypeAlias

from temporalio.worker._worker import load_default_build_id

from tests.support.environment import ROOT

_ADDRESS = "TEST_FORK_SERVER"
_NEEDED = (
    "asyncpg",
    "alembic.command",
    "ledger.postgresql",
    "ledger.sqlite",
    "sqlalchemy.ext.asyncio",
    "temporalio.worker.workflow_sandbox",
    "uvicorn.lifespan.on",
    "uvloop",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "activities.announcements",
    "activities.approvals",
    "activities.review_cards",
    "activities.reviews",
    "activities.tools",
    "assent.cli.main",
    "assent.api.door",
    "assent.client.sync",
    "cards",
    "ledger.migrate",
    "simulator",
    "workers.approvals_api",
    "workers.clicks",
    "workers.api_context",
    "workers.docs",
    "workers.frozen_api",
    "workers.inbox_api",
    "workers.problems",
    "workers.process",
    "workers.serving",
    "workers.sweeping",
    "workers.tokens",
    "workflows",
    "lark_oapi",
)
"""What the processes import: neither what they run as `__main__`, nor the tools, which are some's only."""

Stream: TypeAlias = int | IO[bytes] | None

_FORKS = hasattr(os, "pidfd_open")


class ForkServer:
    """The one fork server of a run: whoever inherits this process' environment can `spawn`."""

    def start(self) -> None:
        if not _FORKS:
            return
        self._directory = tempfile.TemporaryDirectory(prefix="assent-fork-server-")
        address = str(Path(self._directory.name) / "socket")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen(100)
        # It ends when its standard input does, even if nobody is left to stop it.
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.support.fork_server", str(listening.fileno())),
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(),),
        )
        listening.close()
        os.environ[_ADDRESS] = address

    def stop(self) -> None:
        if not _FORKS:
            return
        del os.environ[_ADDRESS]
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._directory.cleanup()


class Forked:
    """A process that the fork server forked, to be used like one of asyncio's."""

    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None

    def __init__(self, descriptor: int, line: socket.socket) -> None:
        # Held by a descriptor: its number may soon be another's.
        self._descriptor, self._line = descriptor, line
        self.returncode: int | None = None
        self._end = asyncio.ensure_future(self._watch())

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self, said: bytes | None = None) -> tuple[bytes, bytes]:
        """Say this, hear everything, and wait for the end."""
        _, out, err = await asyncio.gather(self._tell(said), _heard(self.stdout), _heard(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError("it has ended")
        with suppress(ProcessLookupError):  # it has just ended, and nobody has heard of it yet
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def _tell(self, said: bytes | None) -> None:
        if self.stdin is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # it may not care to listen
            if said and not self.stdin.is_closing():  # one that has ended already has closed it
                self.stdin.write(said)
                await self.stdin.drain()
        self.stdin.close()

    async def _watch(self) -> int:
        code = await _read(self._line)
        self._line.close()
        os.close(self._descriptor)
        self.returncode = int(code)
        return self.returncode


Started: TypeAlias = Forked | asyncio.subprocess.Process


async def _heard(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream else b""


async def spawn(
    *command: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Stream = DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    limit: int = 1 << 16,
) -> Started:
    """Start `python COMMAND` as `asyncio.create_subprocess_exec` would: `-m module …` or `-c code …`."""
    environment = dict(os.environ if env is None else env)
    if not _FORKS or "LD_PRELOAD" in environment:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *command),
            env=environment,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            limit=limit,
        )
    loop = asyncio.get_running_loop()
    order = json.dumps({"command": command, "environment": environment, "directory": str(cwd or Path.cwd())}).encode()
    line = socket.socket(socket.AF_UNIX)
    line.setblocking(False)
    await loop.sock_connect(line, os.environ[_ADDRESS])
    with ExitStack() as lent:
        ends = [_Ends.of(number, wanted, lent) for number, wanted in enumerate((stdin, stdout, stderr))]
        theirs = [ends[1].theirs if end.theirs == STDOUT else end.theirs for end in ends]
        socket.send_fds(line, [len(order).to_bytes(8)], theirs)
        await loop.sock_sendall(line, order)
        await _readable(line)
    _, (descriptor,), _, _ = socket.recv_fds(line, 1, 1)
    forked = Forked(descriptor, line)
    forked.stdin = await _writer(ends[0].ours)
    forked.stdout = await _reader(ends[1].ours, limit)
    forked.stderr = await _reader(ends[2].ours, limit)
    return forked


class _Ends(NamedTuple):
    """The two ends of a standard stream; ours is there only if it is a pipe."""

    theirs: int
    ours: int | None

    @classmethod
    def of(cls, number: int, wanted: Stream, lent: ExitStack) -> _Ends:
        """lent: what closes their end here, once they have it."""
        if wanted is None:
            return cls(number, None)
        if wanted == DEVNULL:
            nothing = os.open(os.devnull, os.O_RDWR)
            lent.callback(os.close, nothing)
            return cls(nothing, None)
        if wanted == PIPE:
            reader, writer = os.pipe()
            theirs, ours = (reader, writer) if number == 0 else (writer, reader)
            lent.callback(os.close, theirs)
            return cls(theirs, ours)
        return cls(wanted if isinstance(wanted, int) else wanted.fileno(), None)


async def _writer(ours: int | None) -> asyncio.StreamWriter | None:
    if ours is None:
        return None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(ours, "wb"))
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _reader(ours: int | None, limit: int) -> asyncio.StreamReader | None:
    if ours is None:
        return None
    stream = asyncio.StreamReader(limit=limit)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(ours, "rb"))
    return stream


async def _readable(line: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(line, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(line)


async def _read(line: socket.socket) -> bytes:
    """All that the other side says until it closes."""
    said = b""
    while more := await asyncio.get_running_loop().sock_recv(line, 64):
        said += more
    return said


# In the fork server


class _Forker:
    """Forks one process for each line that is opened, and says on it with which code the process ended."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        self._children: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> None:
        """Serve until standard input ends. In a child it never returns, but ends as a program does."""
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    for descriptor in self._children:
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    os._exit(0)
                elif key.fd == self._listening.fileno():
                    self._fork(self._listening.accept()[0])
                else:
                    self._reap(key.fd)

    def _fork(self, line: socket.socket) -> None:
        begun, descriptors, _, _ = socket.recv_fds(line, 8, 3)
        if not begun:
            line.close()  # whoever it was has changed their mind
            return
        with line.makefile("rb") as file:
            order = json.loads(file.read(int.from_bytes(begun)))
        pid = os.fork()
        if pid == 0:
            line.close()
            self._forget()
            _run_child(order["command"], order["environment"], order["directory"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        held = os.pidfd_open(pid)
        socket.send_fds(line, [b"+"], [held])
        self._children[held] = pid, line
        self._selector.register(held, selectors.EVENT_READ)

    def _reap(self, descriptor: int) -> None:
        pid, line = self._children.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # nobody wants to know any more
            line.sendall(str(code).encode())
        line.close()

    def _forget(self) -> None:
        """A child has nothing of the fork server's."""
        self._selector.close()
        self._listening.close()
        for descriptor, (_, line) in self._children.items():
            os.close(descriptor)
            line.close()


def _run_child(command: list[str], environment: dict[str, str], directory: str, descriptors: list[int]) -> NoReturn:
    for mine, theirs in enumerate(descriptors):
        os.dup2(theirs, mine)
    for descriptor in descriptors:
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (_opened(number) for number in range(3))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    sys.path[0] = directory
    signal.signal(signal.SIGINT, signal.default_int_handler)
    how, what, *arguments = command
    if how == "-m":
        sys.argv[:] = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = ["-c", *arguments]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)
    sys.exit()


def _opened(number: int) -> io.TextIOWrapper:
    """A standard stream as the interpreter opens it where `PYTHONUNBUFFERED` is set."""
    file = os.fdopen(number, "rb" if number == 0 else "wb", -1 if number == 0 else 0, closefd=False)
    errors = "backslashreplace" if number == 2 else "strict"
    return io.TextIOWrapper(file, "utf-8", errors, write_through=number > 0)


def main() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in _NEEDED:
        importlib.import_module(module)
    # Feishu's SDK takes the event loop of whoever imports this, and every process needs its own.
    for name in [name for name in sys.modules if name.startswith("lark_oapi.ws")]:
        del sys.modules[name]
    asyncio.set_event_loop(None)
    load_default_build_id()  # Temporal's SDK hashes all code that is there, a second's work: its children inherit it
    gc.collect()
    gc.freeze()
    _Forker(listening).serve()


if __name__ == "__main__":
    main()
