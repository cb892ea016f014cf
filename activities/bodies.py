"""Running a tool's body: on the loop or in a thread, guarded, timed, and never lost seen of."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from activities.asking import Stopwatch
from assent.content import describe
from assent.contracts.values import Frozen
from assent.hitl.exceptions import HitlAborted, HitlCancelled, HitlTimedOut
from assent.tools.definition import ToolOutcome, ToolResult


class Raised(Frozen):
    """The body ended by raising: whether it took effect is not known."""

    error: str


class TimedOut(Frozen):
    """The body did not end in time. It may still go on."""

    error: str


class Body:
    """One running body. Whatever it does, waiting for it raises nothing of its own; nothing stops it."""

    def __init__(self, call: Callable[[], Any], said: Callable[[BaseException], str] = describe) -> None:
        """said: what is told of what it raises, found out before it has ended."""
        self._task = asyncio.ensure_future(_guarded(call, said, on_loop=inspect.iscoroutinefunction(call)))

    def then(self, do: Callable[[], None]) -> None:
        """Do something when it has ended, however long that takes."""
        self._task.add_done_callback(lambda _: do())

    async def end(self, timeout: timedelta | None = None) -> Any:
        """The value it returned, `Raised`, or `TimedOut` if it takes longer."""
        await asyncio.wait({self._task}, timeout=timeout.total_seconds() if timeout else None)
        return self._ended(timeout)

    async def end_by(self, stopwatch: Stopwatch, timeout: timedelta) -> Any:
        """The same, where the time does not count for which people are waited for."""
        while not self._task.done() and (stopwatch.is_held or stopwatch.taken < timeout.total_seconds()):
            left = None if stopwatch.is_held else timeout.total_seconds() - stopwatch.taken
            running = asyncio.ensure_future(stopwatch.runs() if stopwatch.is_held else asyncio.sleep(left or 0))
            await asyncio.wait({self._task, running}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
        return self._ended(timeout)

    def _ended(self, timeout: timedelta | None) -> Any:
        if self._task.done():
            return self._task.result()
        assert timeout is not None
        return TimedOut(error=f"the tool did not end within {timeout.total_seconds():g} seconds")


async def _guarded(call: Callable[[], Any], said: Callable[[BaseException], str], *, on_loop: bool) -> Any:
    try:
        value = await call() if on_loop else await _in_thread(call, said)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, Iterator | AsyncIterator):
            return Raised(error=f"the tool returned a {type(value).__name__}: what it would do was not done")
        return value
    except GeneratorExit:  # nobody waits for it any more
        raise
    # A tool may raise anything, SystemExit too: none of it may take the worker down.
    except BaseException as error:
        raised = error
    return await _in_thread(partial(_raised, raised, said), said)  # it may look through large files


def _raised(error: BaseException, said: Callable[[BaseException], str]) -> Raised | ToolResult:
    """What a body ended with that raised. That nobody answered it is no crash: it says that it stopped, and why."""
    if isinstance(error, HitlCancelled | HitlTimedOut | HitlAborted):
        return ToolResult(outcome=ToolOutcome.CANCELLED, content=said(error))
    return Raised(error=said(error))


def _in_thread(call: Callable[[], Any], said: Callable[[BaseException], str]) -> asyncio.Future[Any]:
    """Run in a daemon thread of its own: a body that hangs holds neither a pool nor the process's exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value: Any = None
        try:
            value = context.run(call)
        except BaseException as raised:
            value = _raised(raised, said)
        try:
            loop.call_soon_threadsafe(future.set_result, value)
        except RuntimeError:
            return  # the loop is closed: the worker is gone, and the claim says that this never ended

    threading.Thread(target=work, name="assent-tool", daemon=True).start()
    return future
