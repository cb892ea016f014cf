"""How a tool asks a person while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from assent.contracts.answers import QuestionOutcome
from assent.contracts.questions import Question
from assent.errors import InvalidRequest

_Found = TypeVar("_Found")
Asked = Question | Mapping[str, Any] | Sequence[Question | Mapping[str, Any]]
"""One question, or several that are answered together."""

_UNDECLARED = "this tool may not ask: say how long all its questions together may take, with @tool(asks=…)"


class AskInterrupted(BaseException):
    """The worker is about to leave, and waits for no answer any more. Nothing is certain but that nobody answered here.

    A `retry_safe` tool lets it pass: its next attempt gets the answer, from whoever gave it meanwhile. Of any other
    tool it is not known what became of the call, unless it catches this and returns how it ended.
    """


class Asker(Protocol):
    """Asks people on behalf of one attempt of one call."""

    loop: asyncio.AbstractEventLoop
    """Where it does so."""

    def ask(self, questions: Asked, *, requester: bool) -> Coroutine[Any, Any, QuestionOutcome]:
        """Ask, and wait for the end. Raises AskInterrupted, InvalidRequest."""


class Asking:
    """The part of a tool's context by which it asks; where it may not, it says why."""

    def __init__(self, asker: Asker | None = None, why_not: str = _UNDECLARED) -> None:
        self._asker = asker
        self._why_not = why_not

    def ask(self, questions: Asked, *, requester: bool) -> Any:
        """The outcome; on an event loop, something to be awaited for it."""
        return self._run(self._ask(questions, requester=requester))

    def confirm(self, prompt: str, *, requester: bool) -> Any:
        """Whether somebody said yes; on an event loop, something to be awaited for that."""
        return self._run(self._confirm(prompt, requester=requester))

    async def _ask(self, questions: Asked, *, requester: bool) -> QuestionOutcome:
        if self._asker is None:
            raise InvalidRequest(self._why_not)
        return await self._asker.ask(questions, requester=requester)

    async def _confirm(self, prompt: str, *, requester: bool) -> bool:
        outcome = await self._ask({"prompt": prompt, "kind": "confirm"}, requester=requester)
        return outcome.answers is not None and outcome.answers.get("answer") is True

    def _run(self, asking: Coroutine[Any, Any, _Found]) -> _Found | Awaitable[_Found]:
        """A body in a thread waits here; one on a loop, whichever, awaits what it gets."""
        loop = self._asker.loop if self._asker else None
        running = _running_loop()
        if loop is None:
            return asking if running else asyncio.run(asking)
        if running is loop:
            return asking
        future = asyncio.run_coroutine_threadsafe(_carried(asking), loop)
        return _unpacked(asyncio.wrap_future(future)) if running else _raised(future.result())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _carried(asking: Coroutine[Any, Any, _Found]) -> Callable[[], _Found]:
    """What came of it, as something to be called: what is no `Exception` would end the loop it is raised on."""
    try:
        found = await asking
    except AskInterrupted as interrupted:
        raised = interrupted

        def again() -> _Found:
            raise raised

        return again
    return lambda: found


def _raised(found: Callable[[], _Found]) -> _Found:
    return found()


async def _unpacked(found: Awaitable[Callable[[], _Found]]) -> _Found:
    return (await found)()
