"""The channel between an agent's loop and the people it asks."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import EllipsisType
from typing import Any, Protocol

from assent.contracts.questions import Question
from assent.contracts.request import DEFAULT_TTL, MAX_TTL
from assent.errors import InvalidRequest
from assent.hitl.answers import parse_questions
from assent.hitl.events import HitlAnswerEvent, HitlEvent, HitlRequestEvent
from assent.hitl.exceptions import (
    HitlCancelled,
    HitlConcurrencyError,
    HitlControlException,
    HitlDurabilityNotGuaranteed,
    HitlTimedOut,
)
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest
from assent.hitl.running import running_tool
from assent.hitl.tracing import traced
from assent.payload import canonical_json

Timeout = float | timedelta | None | EllipsisType
"""How long a person has: seconds, None for the longest there is, `...` for the channel's own."""
DEFAULT_TIMEOUT = DEFAULT_TTL.total_seconds()
LONGEST_TIMEOUT = MAX_TTL.total_seconds()


class HitlChannel(Protocol):
    """What an agent's loop asks people through.

    A thread has one open request at most. What ends without an answer raises a `HitlControlException`.
    """

    @property
    def in_flight(self) -> HitlRequest | None:
        """The request that is waited for in this process."""

    async def confirm(self, prompt: str, *, details: Any = None, timeout: Timeout = ...) -> bool:
        """Ask for a yes or a no."""

    async def approve(
        self, tool_name: str, tool_call_id: str, args: dict[str, Any], *, details: Any = None, timeout: Timeout = ...
    ) -> ApproveAnswer:
        """Ask for consent to a call that the agent makes itself."""

    async def ask(
        self, questions: Sequence[Question | Mapping[str, Any]], *, timeout: Timeout = ...
    ) -> Mapping[str, Any]:
        """Ask questions that are answered together; the answers by the questions' ids."""

    async def answer(self, question_id: str, answer: Any) -> None:
        """The host's side: answer the open request."""

    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        """The host's side: end the open request without an answer."""


@dataclass(frozen=True)
class Asking:
    """What is to be asked."""

    kind: HitlKind
    payload: dict[str, Any]
    seconds: float
    question_id: str


class WaitingChannel(ABC):
    """A channel that waits in this process for an answer that comes from elsewhere."""

    def __init__(
        self,
        thread_id: str | None = None,
        *,
        default_timeout: float | timedelta | None = DEFAULT_TIMEOUT,
        allow_inside_custom_tool: bool = True,
    ) -> None:
        self.thread_id = thread_id
        self.allow_inside_custom_tool = allow_inside_custom_tool
        self._default = _seconds(default_timeout)
        self._in_flight: HitlRequest | None = None
        self._is_asking = False
        self._interrupted: asyncio.Future[HitlControlException] | None = None
        self._listeners: list[Callable[[HitlEvent], None]] = []

    @property
    def in_flight(self) -> HitlRequest | None:
        """The request that is waited for in this process."""
        return self._in_flight

    async def confirm(self, prompt: str, *, details: Any = None, timeout: Timeout = ...) -> bool:
        """Ask for a yes or a no."""
        payload = {"prompt": prompt, "details": details}
        answer = await self._ask(HitlKind.CONFIRM, payload, timeout)
        return bool(answer)

    async def approve(
        self, tool_name: str, tool_call_id: str, args: dict[str, Any], *, details: Any = None, timeout: Timeout = ...
    ) -> ApproveAnswer:
        """Ask for consent to a call that the agent makes itself. The same call id is the same request."""
        if not isinstance(args, dict):
            raise InvalidRequest("args: they must be a JSON object")
        payload = {"tool_name": tool_name, "tool_call_id": tool_call_id, "args": args, "details": details}
        answer = await self._ask(HitlKind.APPROVE, payload, timeout, tool_call_id)
        assert isinstance(answer, ApproveAnswer)
        return answer

    async def ask(
        self, questions: Sequence[Question | Mapping[str, Any]], *, timeout: Timeout = ...
    ) -> Mapping[str, Any]:
        """Ask questions that are answered together; the answers by the questions' ids."""
        asked = [each.model_dump(mode="json", exclude_defaults=True) for each in parse_questions(questions)]
        answers: Mapping[str, Any] = await self._ask(HitlKind.ASK, {"questions": asked}, timeout)
        return answers

    @abstractmethod
    async def answer(self, question_id: str, answer: Any) -> None:
        """The host's side: answer the open request."""

    @abstractmethod
    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        """The host's side: end the open request without an answer."""

    async def load_pending(self, *question_ids: str) -> HitlRequest | None:
        """The open request, also where nobody waits for it here.

        question_ids: the calls that it may be about, where they are known.
        """
        return self._in_flight

    def subscribe(self, listener: Callable[[HitlEvent], None]) -> Callable[[], None]:
        """Have a function told what is asked and answered; what it returns ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def interrupt(self, error: HitlControlException) -> None:
        """End the waiting in this process. The request stays as it is, and its time runs on."""
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(error)

    async def _unnamed(self, kind: HitlKind, payload: dict[str, Any]) -> str:
        """The id of what is asked outside of any tool."""
        return uuid.uuid4().hex

    @abstractmethod
    async def _open(self, asking: Asking) -> tuple[HitlRequest, bool]:
        """Ask, or attach to what was asked before; and whether that was so."""

    @abstractmethod
    async def _answer_to(self, request: HitlRequest) -> Any:
        """Wait for the answer. Raises HitlCancelled or HitlTimedOut where there is none."""

    async def _ask(
        self, kind: HitlKind, payload: dict[str, Any], timeout: Timeout, question_id: str | None = None
    ) -> Any:
        body = running_tool.get()
        if body is not None and body.begins_anew and not self.allow_inside_custom_tool:
            raise HitlDurabilityNotGuaranteed
        seconds = self._default if timeout is ... else _seconds(timeout)
        # What is asked is what was said now, whatever becomes of the objects it was said with.
        kept = json.loads(canonical_json(payload))
        if self._is_asking:
            other = f" ({self._in_flight.question_id})" if self._in_flight else ""
            raise HitlConcurrencyError(f"a request is open already{other}; a thread has one at most")
        self._is_asking = True
        try:
            chosen = question_id or (body.next_question_id() if body else await self._unnamed(kind, kept))
            asking = Asking(kind=kind, payload=kept, seconds=seconds, question_id=chosen)
            request, from_resume = await self._open(asking)
            self._in_flight = request
            self._emit(HitlRequestEvent(request=request))
            with traced(request, from_resume=from_resume) as wait:
                answer = await self._waited_for(request)
                wait.answered(answer)
            self._emit(HitlAnswerEvent(question_id=request.question_id, answer=answer))
            return answer
        finally:
            self._in_flight, self._is_asking = None, False

    async def _waited_for(self, request: HitlRequest) -> Any:
        try:
            return await self._unless_interrupted(self._answer_to(request))
        except HitlCancelled:
            self._emit(HitlAnswerEvent(question_id=request.question_id, cancelled=True))
            raise
        except HitlTimedOut:
            self._emit(HitlAnswerEvent(question_id=request.question_id, timed_out=True))
            raise

    async def _unless_interrupted(self, answering: Awaitable[Any]) -> Any:
        """Wait for an answer; one that is there counts, whoever wanted to stop waiting."""
        waiting = asyncio.ensure_future(answering)
        self._interrupted = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({waiting, self._interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise self._interrupted.result()
        finally:
            self._interrupted = None
            waiting.cancel()
            await asyncio.wait({waiting})

    def _emit(self, event: HitlEvent) -> None:
        for listener in [*self._listeners]:
            listener(event)


def _seconds(timeout: float | timedelta | EllipsisType | None) -> float:
    if timeout is None or isinstance(timeout, EllipsisType):
        return LONGEST_TIMEOUT
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise InvalidRequest("timeout: seconds, or None for the longest there is")
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise InvalidRequest(f"timeout: more than 0 seconds, and {LONGEST_TIMEOUT:g} at most; None for the longest")
    return seconds
