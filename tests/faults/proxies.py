"""Gates made from outside: rows that are locked, and proxies that hold or lose what two sides say to each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import asyncpg

from tests.faults.waiting import until

_KEY = b"K\x00\x00\x00\x0c"
"""How PostgreSQL tells a client its backend's process id."""
_COMMIT = b"COMMIT;"


class Loss(StrEnum):
    """What happens to the next commit that a connection sends."""

    REQUEST = "request"
    """It never arrives; the connection breaks."""
    ANSWER = "answer"
    """It arrives; the connection breaks before the answer does."""
    HELD = "held"
    """It arrives; the answer waits until it is released."""


class Line:
    """One connection through a proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client, self._server = client, server
        self._loss: Loss | None = None
        self._committed = False
        self._released = asyncio.Event()
        self.struck = asyncio.Event()
        """Set once the armed loss took place."""

    def arm(self, loss: Loss) -> None:
        self._loss, self._committed = loss, False
        self._released.clear()
        self.struck.clear()

    def release(self) -> None:
        self._loss = None
        self._released.set()

    def cut(self) -> None:
        for side in (self._client, self._server):
            side.transport.abort()

    def asks(self, data: bytes) -> bool:
        """Whether what the client says may pass."""
        if self._loss is None or _COMMIT not in data:
            return True
        self._committed = True
        if self._loss is not Loss.REQUEST:
            return True
        self.struck.set()
        self.cut()
        return False

    async def answers(self) -> bool:
        """Whether what the server says may pass; a held answer passes late."""
        if not self._committed:
            return True
        self.struck.set()
        if self._loss is Loss.ANSWER:
            self.cut()
            return False
        await self._released.wait()
        self._committed = False
        return True


class LedgerProxy:
    """A TCP proxy in front of PostgreSQL, which knows each connection by its backend's process id."""

    def __init__(self, host: str) -> None:
        self._socket = f"{host}/.s.PGSQL.5432"
        self._lines: dict[int, Line] = {}
        self._open: set[Line] = set()
        self._reachable = True
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def line(self, pid: int) -> Line:
        return self._lines[pid]

    def has(self, pid: int) -> bool:
        return pid in self._lines

    @property
    def pids(self) -> list[int]:
        return list(self._lines)

    def cut(self) -> None:
        """Break every connection; none can be made until it is mended."""
        self._reachable = False
        self.drop()

    def drop(self) -> None:
        """Break every connection; new ones can be made at once."""
        for line in tuple(self._open):
            line.cut()

    def mend(self) -> None:
        self._reachable = True

    async def close(self) -> None:
        self._server.close()
        self.drop()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task})  # not the task itself: the server complains of one that is cancelled

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._reachable:
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._socket)
        except OSError:
            writer.transport.abort()
            return
        line = Line(writer, to_server)
        self._open.add(line)
        try:
            await _both(self._ask(reader, to_server, line), self._answer(from_server, writer, line))
        finally:
            self._open.discard(line)
            line.cut()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Line) -> None:
        while data := await reader.read(65536):
            if not line.asks(data):
                return
            writer.write(data)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Line) -> None:
        known = False
        while data := await reader.read(65536):
            if not known and (at := data.find(_KEY)) >= 0:
                self._lines[int.from_bytes(data[at + 5 : at + 9], "big")] = line
                known = True
            if not await line.answers():
                return
            writer.write(data)
            await writer.drain()


class TemporalProxy:
    """A TCP proxy in front of Temporal that can keep what a worker says from arriving; the worker still hears."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.partition(":")
        self._port = int(port)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def silence(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def close(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task})  # not the task itself: the server complains of one that is cancelled

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        try:
            await _both(self._pipe(reader, to_server, held=True), self._pipe(from_server, writer, held=False))
        finally:
            for side in (writer, to_server):
                side.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        while data := await reader.read(65536):
            if held:
                await self._open.wait()
            writer.write(data)
            await writer.drain()


async def _both(one: Awaitable[None], other: Awaitable[None]) -> None:
    """Run both directions of a connection until either ends."""
    tasks = {asyncio.ensure_future(one), asyncio.ensure_future(other)}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*tasks, return_exceptions=True)


class HeldRow:
    """A lock on one approval's row: whoever writes of its claim is held right there."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], proxy: LedgerProxy) -> None:
        self._connect, self._proxy = connect, proxy

    async def take(self, approval_id: str) -> None:
        self._connection: asyncpg.Connection[Any] = await self._connect()
        await self._connection.execute("BEGIN")
        await self._connection.execute("SELECT 1 FROM approvals WHERE approval_id = $1 FOR UPDATE", approval_id)
        self._pid: int = await self._connection.fetchval("SELECT pg_backend_pid()")

    async def reached(self) -> Line:
        """Wait until the worker behind the proxy stands at the gate; its connection."""

        async def blocked() -> Line | None:
            await self._connection.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees no news
            rows = await self._connection.fetch(
                "SELECT pid FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", self._pid
            )
            found = [row["pid"] for row in rows if self._proxy.has(row["pid"])]
            return self._proxy.line(found[0]) if found else None

        return await until(blocked)

    async def release(self) -> None:
        self._connection.terminate()
