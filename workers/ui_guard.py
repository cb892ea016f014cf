"""Stands before Temporal's UI in `make dev`: it lets in who asks for it under this machine's name.

The UI asks no questions, and a page whose name a browser was told to look for on this machine could use it as its
own. `python -m workers.ui_guard PORT HOST:PORT` listens on the first and passes on to the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_NAMES = ("127.0.0.1", "localhost")
_ARRIVES_WITHIN = 20.0
_MOST_HEAD = 64 * 1024
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nRefused: %s.\n"


async def main(port: int, host: str, behind: int) -> None:
    allowed = frozenset(f"{name}:{port}" for name in _NAMES)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_ARRIVES_WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
            if why := objection(head, allowed):
                writer.write(_REFUSED % why.encode())
                await writer.drain()
            else:
                await _pass_on(_once(head), reader, writer, host, behind)
        writer.close()

    server = await asyncio.start_server(serve, _NAMES[0], port, limit=_MOST_HEAD)
    print(f"Temporal's UI is served at http://{_NAMES[0]}:{port}", flush=True)
    await server.serve_forever()


def objection(head: bytes, allowed: frozenset[str]) -> str | None:
    """Why a request is not passed on."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    fields = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    hosts = [value.lower() for name, value in fields if name == "host"]
    if len(hosts) != 1 or hosts[0] not in allowed:
        return "it was asked for under a name that is not this machine's"
    if any(value != f"http://{hosts[0]}" for name, value in fields if name == "origin"):
        return "another page asks for it"
    return None


def _once(head: bytes) -> bytes:
    """The request as the last one of its connection: the next is looked at as well."""
    start, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in (b"connection", b"keep-alive")]
    return b"\r\n".join([start, *kept, b"Connection: close", b"", b""])


async def _pass_on(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, behind: int
) -> None:
    theirs, ours = await asyncio.open_connection(host, behind)
    ours.write(head)
    sending = asyncio.create_task(_copy(reader, ours))
    try:
        await _copy(theirs, writer)
    finally:
        sending.cancel()
        ours.close()


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(64 * 1024):
            to.write(data)
            await to.drain()


if __name__ == "__main__":
    _, listening, upstream = sys.argv
    where, _, number = upstream.rpartition(":")
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main(int(listening), where, int(number)))
