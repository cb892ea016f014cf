"""A channel within one process, for a host with a screen of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from assent.errors import ApprovalConflict
from assent.hitl.answers import parse_answer
from assent.hitl.channel import Asking, WaitingChannel
from assent.hitl.exceptions import (
    HitlCancelled,
    HitlConcurrencyError,
    HitlNoPendingRequest,
    HitlStaleAnswer,
    HitlTimedOut,
)
from assent.hitl.requests import HitlRequest


@dataclass
class _Kept:
    """A request, until whoever asked has its answer."""

    request: HitlRequest
    seconds: float
    answer: asyncio.Future[Any]

    @property
    def is_open(self) -> bool:
        return not self.answer.done() and datetime.now(UTC) < self.request.deadline


class LocalChannel(WaitingChannel):
    """Requests in memory: they outlive a detach, and end with the process. `answer` and `cancel` are the host's."""

    def __init__(self, thread_id: str | None = None, **options: Any) -> None:
        super().__init__(thread_id, **options)
        self._kept: dict[str, _Kept] = {}

    async def answer(self, question_id: str, answer: Any) -> None:
        """Answer the open request. An answer that was not offered is refused, and the request stays open."""
        pending = self._pending(question_id)
        pending.answer.set_result(parse_answer(pending.request, answer))

    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        """End the open request without an answer."""
        self._pending(question_id).answer.set_result(HitlCancelled(reason))

    async def load_pending(self, *question_ids: str) -> HitlRequest | None:
        """The open request, also after a detach."""
        return next((kept.request for kept in self._kept.values() if kept.is_open), None)

    async def _open(self, asking: Asking) -> tuple[HitlRequest, bool]:
        kept = self._kept.get(asking.question_id)
        if kept is not None:
            if (kept.request.kind, kept.request.payload) != (asking.kind, asking.payload):
                raise ApprovalConflict(asking.question_id)
            return kept.request, True
        if (other := await self.load_pending()) is not None:
            raise HitlConcurrencyError(f"a request is open already ({other.question_id}); a thread has one at most")
        now = datetime.now(UTC)
        request = HitlRequest(
            question_id=asking.question_id,
            kind=asking.kind,
            thread_id=self.thread_id,
            payload=asking.payload,
            created_at=now,
            deadline=now + timedelta(seconds=asking.seconds),
        )
        answer = asyncio.get_running_loop().create_future()
        self._kept[request.question_id] = _Kept(request, asking.seconds, answer)
        return request, False

    async def _answer_to(self, request: HitlRequest) -> Any:
        kept = self._kept[request.question_id]
        left = (request.deadline - datetime.now(UTC)).total_seconds()
        await asyncio.wait({kept.answer}, timeout=max(left, 0))
        del self._kept[request.question_id]
        if not kept.answer.done():
            raise HitlTimedOut(kept.seconds)
        if isinstance(kept.answer.result(), HitlCancelled):
            raise kept.answer.result()
        return kept.answer.result()

    def _pending(self, question_id: str) -> _Kept:
        pending = next((kept for kept in self._kept.values() if kept.is_open), None)
        if pending is None:
            raise HitlNoPendingRequest
        if pending.request.question_id != question_id:
            raise HitlStaleAnswer(f"{question_id!r} is not the request that is open; it changed nothing")
        return pending
