"""The ledger as the HTTP API tells of it, for who is connected to Temporal and has no database: the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from assent import names
from assent.api.door import HttpDoor
from assent.client.reader import Stored, Waiting, WaitingQuestion
from assent.contracts.answers import QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override, Policy
from assent.contracts.review import ReviewRecord
from assent.contracts.ruling import Settlement
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.errors import ApprovalNotFound, QuestionNotFound

_Line = TypeVar("_Line")


class HttpReader:
    """`assent.LedgerReader` over HTTP, as far as the token reaches."""

    is_at_hand = False  # who answers there would ask Temporal in turn

    def __init__(self, door: HttpDoor) -> None:
        self._door = door

    async def state(self, approval_id: str) -> State | None:
        try:
            return await self._door.state(approval_id)
        except ApprovalNotFound:
            return None

    async def outcome(self, approval_id: str) -> Outcome | None:
        state = await self.state(approval_id)
        return await self._door.outcome(approval_id) if state and state.phase is Phase.CLOSED else None

    async def settlement(self, approval_id: str) -> Settlement | None:
        return await self._door.settled(approval_id)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        return None

    async def content(self, approval_id: str) -> Stored | None:
        return _stored(await self._door.content(approval_id))

    async def result(self, approval_id: str, *, actor: Identity) -> Stored | None:
        found = await self._door.result(approval_id, actor=actor)
        return _stored(found) if found is not None else None

    async def records(self, approval_id: str, offset: int, limit: int) -> tuple[tuple[AuditRecord, ...], int | None]:
        question_id = names.question_of(approval_id)
        if question_id is not None:
            return _page(await self._door.questions.audit(question_id), offset, limit)
        return _page(await self._door.audit(approval_id), offset, limit)

    async def manifests(self, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
        return _page((await self._door.rules()).tools, offset, limit)

    async def chats_of(self, actor: Identity) -> tuple[str, ...]:
        return ()

    async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[Waiting, ...], int | None]:
        found = [
            Waiting(approval_id=state.approval_id, tool=state.tool, requester=state.requester, asked_by=state.asked_by)
            async for state in self._door.inbox(actor)
        ]
        return _page(found, offset, limit)

    async def question(self, question_id: str) -> QuestionState | None:
        try:
            return await self._door.questions.state(question_id)
        except QuestionNotFound:
            return None

    async def answered(self, question_id: str) -> QuestionOutcome | None:
        state = await self.question(question_id)
        is_over = state is not None and state.status is not QuestionStatus.PENDING
        return await self._door.questions.outcome(question_id) if is_over else None

    async def asked(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[WaitingQuestion, ...], int | None]:
        shared = ("question_id", "requester", "asked_by", "thread_id")
        found = [
            WaitingQuestion(**{name: getattr(state, name) for name in shared})
            async for state in self._door.questions.inbox(actor)
        ]
        return _page(found, offset, limit)

    async def grants(self, offset: int, limit: int) -> tuple[tuple[Grant, ...], int | None]:
        return _page([grant async for grant in self._door.grants()], offset, limit)

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        return await self._door.files(requester, limit)

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        return await self._door.file(requester, file_id)

    async def policy(self) -> Policy | None:
        return (await self._door.rules()).policy

    async def overrides(self) -> tuple[Override, ...]:
        return (await self._door.rules()).overrides


def _page(lines: Sequence[_Line], offset: int, limit: int) -> tuple[tuple[_Line, ...], int | None]:
    end = offset + limit
    return tuple(lines[offset:end]), end if end < len(lines) else None


def _stored(text: str) -> Stored:
    data = text.encode("ascii")

    async def read(start: int, length: int) -> bytes:
        return data[start : start + length]

    return Stored(len(data), read)
