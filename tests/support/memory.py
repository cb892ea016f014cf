"""How much memory a call takes, found out in a process of its own.

Python can crash when `tracemalloc` is switched off while a thread takes memory without holding the interpreter's lock,
as the threads of Temporal's SDK do. No other thread runs in the process that is asked here.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import inspect
import os
import pickle
import signal
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context, parent_process
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
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_leave_with_the_asking_process)


def _leave_with_the_asking_process() -> None:
    """However that one ends. Elsewhere than on Linux, only if it ends well."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        asking = parent_process()
        if asking is None or os.getppid() != asking.pid:  # it ended before that
            os._exit(1)


_PR_SET_PDEATHSIG = 1


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
            came = _passed_on(error)
        return came, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _passed_on(error: Exception) -> Exception:
    """The error, or what it says where it cannot be handed from process to process: that would break the pool."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(repr(error))
    return error
