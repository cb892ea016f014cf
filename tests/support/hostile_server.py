"""A server that answers in order to exhaust whoever asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Sending = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def whole(status: int, encoding: str, body: bytes, kind: str = "application/json") -> Sending:
    async def send(writer: asyncio.StreamWriter) -> None:
        head = (f"Content-Length: {len(body)}", f"Content-Encoding: {encoding}", f"Content-Type: {kind}")
        writer.write(answer(status, *head, body=body))
        await writer.drain()

    return send


def endless(head: bytes, piece: bytes, pause: float) -> Sending:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return send


PLAIN = answer(200, "Transfer-Encoding: chunked", "Content-Type: application/json")
FLOOD = b"10000\r\n" + b"9" * 0x10000 + b"\r\n"


@dataclass
class Hostile:
    """A server that answers every request as the test says, and counts those who hung up on it."""

    url: str = ""
    sending: Sending = field(default=endless(PLAIN, FLOOD, 0))
    asked: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    encodings: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"content-length: (\d+)", head.lower()):
                await reader.readexactly(int(length[1]))  # or closing would cut off what was answered
            self.encodings += [line for line in head.lower().split(b"\r\n") if line.startswith(b"accept-encoding")]
            both = {asyncio.ensure_future(self.sending(writer)), asyncio.ensure_future(_gone(reader))}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left.set()
            writer.close()


async def _gone(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass


@asynccontextmanager
async def hostile() -> AsyncIterator[Hostile]:
    own = Hostile()
    sockets = await asyncio.start_server(own.serve, "127.0.0.1", 0)
    own.url = f"http://127.0.0.1:{sockets.sockets[0].getsockname()[1]}"
    yield own
    sockets.close()
