"""Summaries of a run on their way to its conversation: the latest at a time, at most one every two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PACE = 2.0


class Summaries:
    """Sends the latest summary; what comes faster than it may be sent is replaced by what comes later."""

    def __init__(self, send: Callable[[str], Awaitable[None]], pace: float = PACE) -> None:
        self._send = send
        self._pace = pace
        self._next: str | None = None
        self._sending: asyncio.Task[None] | None = None
        self.latest: str | None = None

    def tell(self, summary: str) -> None:
        self.latest = self._next = summary
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._keep_sending())

    async def _keep_sending(self) -> None:
        while self._next is not None:
            summary, self._next = self._next, None
            await self._send(summary)
            await asyncio.sleep(self._pace)

    def close(self) -> None:
        """Send nothing more: the end of the run carries the latest."""
        if self._sending is not None:
            self._sending.cancel()
