"""A small HTTP client that asks once. The usual ones cost more than the rest of a click together."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import h11

from simulator.settings import require_loopback

_IDLE_SECONDS = 2.0
"""A connection is used again for this long: less than a server waits before it closes an idle one."""
_MOST_BYTES = 1024 * 1024


class NoAnswer(Exception):
    """Nobody is there, or they left in the middle."""


class Answered(NamedTuple):
    status: int
    text: str


class _Idle(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since: float


class Poster:
    """POSTs to addresses on this machine, each time once, over connections that it keeps."""

    def __init__(self) -> None:
        self._idle: dict[str, list[_Idle]] = defaultdict(list)

    async def get(self, url: str, headers: dict[str, str]) -> Answered:
        return await self.post(url, b"", headers, method="GET")

    async def post(self, url: str, body: bytes, headers: dict[str, str], *, method: str = "POST") -> Answered:
        require_loopback(url, "an address to POST to")
        address = urlsplit(url)
        reader, writer = await self._connection(address)
        whole = False
        try:
            answer, whole = await _exchange(reader, writer, address, method, body, headers)
        except (OSError, h11.RemoteProtocolError) as error:
            raise NoAnswer(str(error)) from error
        finally:
            if whole:
                self._idle[address.netloc].append(_Idle(reader, writer, time.monotonic()))
            else:
                writer.close()
        return answer

    async def _connection(self, address: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        idle = self._idle[address.netloc]
        while idle:
            reader, writer, since = idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            return await asyncio.open_connection(address.hostname, address.port or 80)
        except OSError as error:
            raise NoAnswer(str(error)) from error

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    address: SplitResult,
    method: str,
    body: bytes,
    headers: dict[str, str],
) -> tuple[Answered, bool]:
    """The answer, and whether another request may follow on this connection."""
    http = h11.Connection(h11.CLIENT)
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    sent = {"host": address.netloc, "content-length": str(len(body)), **headers}
    request = h11.Request(method=method, target=target, headers=list(sent.items()))
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(http.send(event) or b"")
    status, answer = 0, b""
    while True:
        got = http.next_event()
        if got is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(got, h11.Response):
            status = got.status_code
        elif isinstance(got, h11.Data):
            answer += got.data
            if len(answer) > _MOST_BYTES:
                raise NoAnswer("the answer does not end")
        elif isinstance(got, h11.EndOfMessage):
            return Answered(status, answer.decode("utf-8", "replace")), http.their_state is h11.DONE
        elif isinstance(got, h11.ConnectionClosed):
            raise NoAnswer("the connection was closed")
