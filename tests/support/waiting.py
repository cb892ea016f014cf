"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")


async def until(ask: Callable[[], Awaitable[Answer | None]], seconds: float = 300) -> Answer:
    """Ask again until there is an answer, at first often, then less so; a test that waits in vain fails loudly."""
    pause = 0.02
    async with asyncio.timeout(seconds):
        while True:
            answer = await ask()
            if answer is not None and answer is not False:
                return answer
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, 0.15)
