"""Questions over HTTP: for agents, with a token that names them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from assent.api.question_wire import NewAnswer, QuestionList, QuestionTrail, QuestionView
from assent.api.reading import read
from assent.api.wire import Inbox, NewCancellation, path_segment, person
from assent.client.door import AskedQuestion
from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.questions import QuestionRequest
from assent.contracts.signals import Withdrawal
from assent.errors import QuestionNotFound, Unavailable

_WAIT = 30
"""How long the service holds one question for the answer, in seconds."""
_PATIENCE = 15.0
_Answer = TypeVar("_Answer", bound=BaseModel)


class Insist(Protocol):
    """Sends until there is an answer or patience has run out."""

    def __call__(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, patience: float = ...
    ) -> Awaitable[httpx.Response]: ...


class Polled(Protocol):
    """Answer after answer to a question that the service holds for a while."""

    def __call__(self, path: str, answer: type[_Answer]) -> AsyncIterator[_Answer]: ...


class HttpQuestions:
    """Questions through the HTTP API."""

    def __init__(self, insist: Insist, polled: Polled) -> None:
        self._insist = insist
        self._polled = polled

    async def ask(self, request: QuestionRequest) -> bool:
        ours = {"surface", "asked_by", "call"}
        body = request.model_dump(mode="json", exclude=ours, exclude_none=True)
        try:
            return (await self._insist("POST", "/v1/questions", body)).status_code == 201
        except Unavailable as error:
            raise Unavailable(
                f"{error} Whether it was asked is not known: ask again as question_id={request.question_id!r}."
            ) from error

    async def outcome(self, question_id: str) -> QuestionOutcome:
        async for view in self._polled(f"{_path(question_id)}?wait={_WAIT}", QuestionView):
            if view.outcome is not None:
                return view.outcome
        raise AssertionError("polling never ends")

    async def state(self, question_id: str) -> QuestionState:
        view = read(await self._insist("GET", _path(question_id)), QuestionView)
        if view.state is None:
            raise Unavailable("no approvals worker has looked at the question yet; it is kept until one does")
        return view.state

    async def answer(self, question_id: str, answer: Answer, *, answer_within: timedelta) -> AnswerVerdict:
        if answer.question_id != question_id:
            return AnswerVerdict(kind=VerdictKind.TAMPERED)
        body = NewAnswer(
            answers=answer.answers,
            questions_sha256=answer.questions_sha256,
            actor=answer.actor,
            event_id=answer.event_id,
            delivery_id=answer.delivery_id,
        ).model_dump(mode="json")
        try:
            path, patience = f"{_path(question_id)}/answer", answer_within.total_seconds()
            return read(await self._insist("POST", path, body, patience=patience), AnswerVerdict)
        except QuestionNotFound:
            return AnswerVerdict(kind=VerdictKind.MISSING)

    async def withdraw(self, question_id: str, withdrawal: Withdrawal) -> None:
        body = NewCancellation(reason=withdrawal.reason, actor=withdrawal.actor).model_dump(mode="json")
        try:
            await self._insist("POST", f"{_path(question_id)}/cancel", body)
        except QuestionNotFound:
            return

    async def questions(self, *, status: str | None, thread_id: str | None, limit: int) -> AsyncIterator[AskedQuestion]:
        chosen = "".join(
            f"&{name}={quote(value, safe='')}"
            for name, value in (("status", status), ("thread_id", thread_id))
            if value is not None
        )
        response = await self._insist("GET", f"/v1/questions?limit={limit}{chosen}")
        for question in read(response, QuestionList).questions:
            yield question

    async def inbox(self, actor: Identity, *, thread_id: str | None = None) -> AsyncIterator[QuestionState]:
        chosen = f"&thread_id={quote(thread_id, safe='')}" if thread_id is not None else ""
        path = f"/v1/inbox?actor={person(actor)}&of=questions{chosen}"
        for state in read(await self._insist("GET", path), Inbox).questions:
            yield state

    async def audit(self, question_id: str) -> list[AuditRecord]:
        return [*read(await self._insist("GET", f"{_path(question_id)}/audit"), QuestionTrail).entries]


def _path(question_id: str) -> str:
    return f"/v1/questions/{path_segment(question_id)}"
