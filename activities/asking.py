"""Asking people on behalf of a running tool, and holding its time meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

from temporalio import activity

from assent.client.door import parse_questions
from assent.contracts.answers import QuestionOutcome, QuestionStatus
from assent.contracts.execute import ToolCall
from assent.contracts.questions import AskingCall, QuestionRequest, canonical_questions
from assent.contracts.values import Surface
from assent.payload import sha256
from assent.temporal.questions import TemporalQuestions
from assent.temporal.talking import Talking
from assent.tools.asking import Asked, AskInterrupted

_USED_UP = "the time that this tool has for its questions is used up"
_LEAVING = "this worker is leaving; what was asked stays open for the next attempt, if there is one"


class Stopwatch:
    """The time a body has taken by itself: it does not run while people are waited for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._waiting = 0
        self._waited = 0.0
        self._since = 0.0
        self._running = asyncio.Event()
        self._running.set()

    @property
    def waited(self) -> float:
        """How many seconds people were waited for."""
        return self._waited + (self._loop.time() - self._since if self._waiting else 0.0)

    @property
    def taken(self) -> float:
        """How many seconds the body itself has taken."""
        return self._loop.time() - self._began - self.waited

    @property
    def is_held(self) -> bool:
        return self._waiting > 0

    async def runs(self) -> None:
        """Wait until nobody is waited for."""
        await self._running.wait()

    def __enter__(self) -> None:
        if not self._waiting:
            self._since = self._loop.time()
            self._running.clear()
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._waited += self._loop.time() - self._since
            self._running.set()


class CallAsker:
    """Asks on behalf of one attempt. The same question of a later attempt of the same consent is the same question."""

    def __init__(self, call: ToolCall, stopwatch: Stopwatch) -> None:
        self.loop = asyncio.get_running_loop()
        self._call = call
        self._stopwatch = stopwatch
        self._asked: Counter[str] = Counter()
        self._questions = TemporalQuestions(Talking(activity.client()), None)
        self._leaving = asyncio.ensure_future(activity.wait_for_worker_shutdown())

    def close(self) -> None:
        self._leaving.cancel()

    async def ask(self, questions: Asked, *, requester: bool) -> QuestionOutcome:
        """Ask, and wait for the end."""
        request = self._request(questions, requester=requester)
        left = self._call.asks.total_seconds() - self._stopwatch.waited
        if left <= 0:
            return QuestionOutcome(question_id=request.question_id, status=QuestionStatus.EXPIRED, reason=_USED_UP)
        request = request.model_copy(update={"ttl": timedelta(seconds=left)})
        with self._stopwatch:
            return await self._answered(request)

    async def _answered(self, request: QuestionRequest) -> QuestionOutcome:
        waiting = asyncio.ensure_future(self._outcome(request))
        try:
            await asyncio.wait({waiting, self._leaving}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise AskInterrupted(_LEAVING)
        finally:
            waiting.cancel()

    async def _outcome(self, request: QuestionRequest) -> QuestionOutcome:
        await self._questions.ask(request)
        return await self._questions.outcome(request.question_id)

    async def ask_for(self, request: QuestionRequest) -> QuestionOutcome:
        """Ask what the call's program asks, for as long as it says and there is time. Raises AskInterrupted."""
        left = timedelta(seconds=self._call.asks.total_seconds() - self._stopwatch.waited)
        if left <= timedelta(0):
            return QuestionOutcome(question_id=request.question_id, status=QuestionStatus.EXPIRED, reason=_USED_UP)
        with self._stopwatch:
            return await self._answered(request.model_copy(update={"ttl": min(request.ttl, left)}))

    def _request(self, questions: Asked, *, requester: bool) -> QuestionRequest:
        call = self._call
        asking = AskingCall(
            approval_id=call.approval_id,
            consent=call.consent,
            tool=call.tool,
            deciders=None if requester else call.deciders,
        )
        known: dict[str, Any] = {
            "question_id": "-",
            "requester": call.requester,
            "thread_id": call.thread_id,
            "surface": Surface.CLIENT,
            "call": asking,
        }
        request = parse_questions(questions, **known)
        shown = sha256(canonical_questions(request.questions))
        self._asked[shown] += 1
        question_id = sha256(f"{call.consent}\n{self._asked[shown]}\n{shown}")
        return request.model_copy(update={"question_id": question_id})
