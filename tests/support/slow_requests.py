"""A door as the service has it, without the service: for those who connect and say little."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from workers import problems
from workers.edge import Edge, server_config

HALVES = [
    b"",
    b"GET /heal",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-",
    b"POST /feishu/callback HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n" + b"x" * 80_000,
    b"POST /feishu/callback HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
]
"""Requests that never arrive."""


def door() -> FastAPI:
    app = FastAPI()
    problems.install(app)
    app.add_middleware(Edge)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.post("/feishu/callback")
    async def callback(request: Request) -> int:
        return len(await request.body())

    released = asyncio.Event()

    @app.post("/streamed")
    async def streamed(request: Request) -> StreamingResponse:
        await request.body()

        async def parts() -> AsyncIterator[str]:
            yield "begun"
            await released.wait()
            yield "ended"

        return StreamingResponse(parts())

    @app.post("/release")
    async def release() -> None:
        released.set()

    @app.get("/large")
    async def large() -> str:
        return "x" * 20_000_000

    return app


async def half_open(port: int, said: bytes) -> socket.socket:
    """A connection that said this and says no more."""
    own = socket.socket()
    own.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(own, ("127.0.0.1", port))
    with suppress(OSError):  # somebody newer took its place
        await loop.sock_sendall(own, said)
    return own


async def main() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(server_config(door())).serve([listener])


if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    asyncio.run(main())
