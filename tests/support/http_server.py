"""An HTTP server for tests that answers anything, hangs, or hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Received:
    """One request, as the server read it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known.lower() == name.lower()]

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


@dataclass
class Server:
    """An HTTP server that does to each request what the test says."""

    url: str = ""
    answer: bytes | None = b""
    """The bytes to answer with before the connection is closed; None holds it open in silence."""
    received: list[Received] = field(default_factory=list)

    def answers(self, status: int, body: str = "", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body.encode())}", *headers]
        self.answer = ("\r\n".join(lines) + "\r\n\r\n" + body).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            method, target, _ = start.split(" ")
            headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            self.received.append(Received(method, target, headers, await reader.readexactly(length)))
            if self.answer is None:
                await reader.read()
            else:
                writer.write(self.answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            return  # connected, and nothing was sent
        finally:
            writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Server]:
    own = Server()
    own.answers(200, '{"ok": true}')
    sockets = await asyncio.start_server(own.serve, "127.0.0.1", 0)
    own.url = f"http://127.0.0.1:{sockets.sockets[0].getsockname()[1]}"
    yield own
    sockets.close()
