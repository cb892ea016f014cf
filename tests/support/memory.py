"""How much memory a call takes, found out in a process of its own.

Python can crash when `tracemalloc` is switched off while a thread takes memory without holding the interpreter's lock,
as the threads of Temporal's SDK do. No other thread runs in the process that is asked here.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any


def peak(call: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What a function came to, its result or its error, and how many bytes it took on the way."""
    return _asked(call, arguments).result()


async def awaited_peak(call: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """The same, while the caller's loop goes on."""
    return await asyncio.wrap_future(_asked(call, arguments))


def _asked(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[tuple[Any, int]]:
    return _process().submit(_measured, call, arguments)


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _measured(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, int]:
    return asyncio.run(_weighed(call, arguments))


async def _weighed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, int]:
    gc.collect()
    tracemalloc.start()
    try:
        try:
            came = call(*arguments)
            if inspect.isawaitable(came):
                came = await came
        except Exception as error:
            came = error
        return came, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
