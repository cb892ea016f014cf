"""Waiting for what faults bring about: patient, and with pauses, since the proxies run in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")

PATIENCE = 150.0
"""How many seconds something is waited for before it counts as something that never comes."""


async def until(ask: Callable[[], Awaitable[Answer | None]], seconds: float = PATIENCE) -> Answer:
    """Ask again until there is an answer, at first often, then less so."""
    pause = 0.02
    async with asyncio.timeout(seconds):
        while True:
            answer = await ask()
            if answer is not None and answer is not False:
                return answer
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.3)
