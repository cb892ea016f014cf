"""A program as a process: its lines are read, its last words kept, and lines written to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from assent.contracts.runs import MOST_OUTPUT

_MOST_LINE = 64 * 1024
"""Bytes of a line that says something to us; a longer one is output like any other."""
_CHUNK = 64 * 1024
_STOPPED_WITHIN = 5.0
"""Seconds that a program which is told to end may take."""
_DRAINED_WITHIN = 1.0
"""Seconds that output may take to arrive after the end: a child of the program's may hold the pipe for ever."""


class TooMuchOutput(Exception):
    """It said more than it may."""


class ProgramProcess:
    """One process. Whoever starts it waits for its end."""

    def __init__(self, process: asyncio.subprocess.Process, *, most: int | None, own_group: bool) -> None:
        self._process = process
        self._own_group = own_group
        self._most = most
        self._said = 0
        self._tail = bytearray()
        self.overflow = asyncio.Event()
        """Set once it said more than it may."""
        self.hears: Callable[[bytes, bool], None] | None = None
        """Gets all output as it comes, and whether it is an error's."""

    @classmethod
    async def start(
        cls,
        vector: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        most: int | None = None,
        own_group: bool = True,
    ) -> ProgramProcess:
        """Raises OSError where it cannot be started: then nothing ran."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *vector, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, start_new_session=own_group
        )
        return cls(process, most=most, own_group=own_group)

    @property
    def output(self) -> bytes:
        """The last of what it said, errors among it."""
        return bytes(self._tail)

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def lines(self) -> AsyncIterator[str]:
        """The lines of its standard output, until it has ended. What it says as errors is kept, and never read."""
        assert self._process.stdout is not None, "it has a pipe"
        assert self._process.stderr is not None, "it has a pipe"
        found: asyncio.Queue[str | None] = asyncio.Queue()
        out = asyncio.ensure_future(self._read(self._process.stdout, found, is_error=False))
        err = asyncio.ensure_future(self._read(self._process.stderr, None, is_error=True))
        ending = asyncio.ensure_future(self._ended(out, err, found))
        try:
            while (line := await found.get()) is not None:
                yield line
        finally:
            for task in (out, err, ending):
                task.cancel()

    async def _ended(self, out: asyncio.Task[None], err: asyncio.Task[None], found: asyncio.Queue[str | None]) -> None:
        await self._process.wait()
        await asyncio.wait({out, err}, timeout=_DRAINED_WITHIN)
        found.put_nowait(None)

    async def _read(
        self, stream: asyncio.StreamReader, found: asyncio.Queue[str | None] | None, *, is_error: bool
    ) -> None:
        rest, is_long = b"", False
        while chunk := await stream.read(_CHUNK):
            self._keep(chunk, is_error)
            if found is None:
                continue
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if not is_long and len(line) <= _MOST_LINE:
                    found.put_nowait(line.decode("utf-8", "replace"))
                is_long = False
            if len(rest) > _MOST_LINE:
                rest, is_long = b"", True

    def _keep(self, chunk: bytes, is_error: bool) -> None:
        self._said += len(chunk)
        self._tail += chunk
        del self._tail[:-MOST_OUTPUT]
        if self.hears is not None:
            self.hears(chunk, is_error)
        if self._most is not None and self._said > self._most:
            self.overflow.set()

    async def write(self, line: str) -> int:
        """Write one line; how many bytes that were. Raises OSError where it reads no more."""
        pipe = self._process.stdin
        if pipe is None or pipe.is_closing() or self.has_ended:
            raise BrokenPipeError("the program reads no more")
        data = line.encode()
        pipe.transport.set_write_buffer_limits(0)  # once it is drained, it is in the pipe
        pipe.write(data)
        await pipe.drain()
        if pipe.is_closing():
            raise BrokenPipeError("the program reads no more")
        return len(data)

    def close_input(self) -> None:
        """Nothing more will be written: whoever reads is told so."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self) -> int:
        """Wait for its exit code; of one that was killed by a signal, minus its number."""
        return await self._process.wait()

    async def stop(self) -> None:
        """Have it end, with all that it started."""
        self.send(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), _STOPPED_WITHIN)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._process.wait()
        self.send(signal.SIGKILL)  # what it left behind

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, and all that it started; of one that has ended, what it left behind."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._own_group:
                os.killpg(self._process.pid, number)
            elif not self.has_ended:
                self._process.send_signal(number)
