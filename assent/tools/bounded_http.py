"""HTTP answers that cost no more than they may: so many bytes, nothing inflated.

Whoever reads one also limits the time that all of it takes: a server can send a byte a second for ever.
"""

from __future__ import annotations

import httpx

from assent.contracts.values import Frozen

PLAIN = {"Accept-Encoding": "identity"}
"""Asks for bytes as they are: a compressed kilobyte can stand for a megabyte."""


class Bytes(Frozen):
    """What was read of an answer's body."""

    data: bytes
    problem: str | None = None
    """Why it is not all."""


async def read(answer: httpx.Response, most: int) -> Bytes:
    """The body of a streamed answer as it was sent, up to *most* bytes; nothing of one that was sent compressed."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        return Bytes(data=b"", problem="it was sent compressed, though it was asked for as it is, and was not read")
    data = bytearray()
    async for chunk in answer.aiter_bytes():
        data += chunk
        if len(data) > most:
            del data[most:]
            return Bytes(data=bytes(data), problem=f"it is larger than {most} bytes; this is its beginning")
    return Bytes(data=bytes(data))
