"""What the ledger knows, and what waits for whom, for who is connected to Temporal and has a reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from assent.client.reader import LedgerReader, Stored, Waiting
from assent.contracts.audit import AuditRecord
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override, Policy
from assent.contracts.review import ReviewRecord
from assent.contracts.ruling import Settlement
from assent.contracts.state import PendingItem, PendingType, ResultPreview, State
from assent.contracts.status import Phase
from assent.errors import ApprovalInterrupted, ApprovalNotFound, AssentError, LedgerNeeded, Unavailable

_AT_ONCE = 16
"""How many approvals are asked at the same time how they stand."""
_PREVIEW = 2000
"""How many bytes of a result an inbox shows."""
_PAGE = 100
"""How many lines are read at once."""

_Line = TypeVar("_Line")
Asking = Callable[[str], Awaitable[State]]
"""Asks one open approval how it stands."""
_Page = Callable[[int, int], Awaitable[tuple[tuple[_Line, ...], int | None]]]


def _everything(_: Waiting) -> bool:
    return True


class TemporalLedger:
    """Questions to the ledger, by whoever has a reader; without one they say what is missing."""

    def __init__(self, reader: LedgerReader | None, ask: Asking) -> None:
        self._reader = reader
        self._ask = ask

    @property
    def reader(self) -> LedgerReader:
        if self._reader is None:
            raise LedgerNeeded
        return self._reader

    @property
    def can_read(self) -> bool:
        return self._reader is not None

    async def ended(self, approval_id: str) -> State | None:
        """An approval that is on record as ended; None of any other, also where nobody can read the record."""
        state = await self._reader.state(approval_id) if self._reader and self._reader.is_at_hand else None
        return state if state is not None and state.phase is Phase.CLOSED else None

    async def ending(self, approval_id: str) -> Outcome | None:
        """How an approval ended, if that is on record; a ledger out of reach stops nobody who waits for it."""
        if self._reader and self._reader.is_at_hand:
            with suppress(Unavailable):
                return await self._reader.outcome(approval_id)
        return None

    async def state(self, approval_id: str) -> State:
        state = await self.reader.state(approval_id)
        if state is None:
            raise ApprovalNotFound(approval_id)
        return state

    async def outcome(self, approval_id: str) -> Outcome:
        if outcome := await self.reader.outcome(approval_id):
            return outcome
        await self.state(approval_id)  # says if there is no such approval
        raise ApprovalInterrupted(approval_id, "ended and forgotten")

    async def settled(self, approval_id: str) -> Settlement | None:
        return await self.reader.settlement(approval_id)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        """What is on record of the review of its call; None where the ledger is not at hand."""
        if self._reader is None or not self._reader.is_at_hand:
            return None
        return await self._reader.review(approval_id)

    async def content(self, approval_id: str) -> Stored | None:
        """The whole result of an approval that has ended."""
        return await self.reader.content(approval_id)

    async def manifests(self) -> list[Manifest]:
        """What the tools say of themselves."""
        return [each async for each in _lines(self.reader.manifests)]

    async def records(self, approval_id: str) -> list[AuditRecord]:
        """What the audit says of one approval."""
        reader = self.reader
        return [each async for each in _lines(lambda offset, limit: reader.records(approval_id, offset, limit))]

    async def policy(self) -> Policy | None:
        """The operator's policy in force, if there is one."""
        return await self.reader.policy()

    async def overrides(self) -> tuple[Override, ...]:
        """The overrides in force."""
        return await self.reader.overrides()

    async def grants(self) -> AsyncIterator[Grant]:
        """Every decision that was remembered, also those that no longer count."""
        async for grant in _lines(self.reader.grants):
            yield grant

    # What waits for people

    async def inbox(
        self, actor: Identity, may_see: Callable[[Waiting], bool] = _everything
    ) -> AsyncIterator[PendingItem]:
        """What *actor* can decide now, the oldest first.

        may_see: of what nobody is told, nobody is asked either.
        """
        reader, answered, unanswered = self.reader, 0, 0
        lines = _lines(lambda offset, limit: reader.waiting(actor, offset, limit))
        async for batch in _batches(each.approval_id async for each in lines if may_see(each)):
            for found in await asyncio.gather(*map(self._ask, batch), return_exceptions=True):
                match found:
                    case State():
                        answered += 1
                        if found.awaits(actor):
                            yield await self._item(found, actor)
                    case ApprovalNotFound() | ApprovalInterrupted():
                        pass  # it has ended since
                    case AssentError():
                        unanswered += 1
                    case BaseException():
                        raise found
        if unanswered and not answered:
            raise Unavailable("open approvals do not say how they stand: no approvals worker answers. Try again.")

    async def _item(self, state: State, actor: Identity) -> PendingItem:
        """What waits for somebody; a result with its beginning."""
        item = PendingItem(**{name: getattr(state, name) for name in State.model_fields})
        found = await self._released_by(state, actor) if state.type is PendingType.RESULT else None
        if found is None or state.result_sha256 is None:
            return item
        start = await found.read(0, _PREVIEW)
        result = ResultPreview(
            preview=start.decode("ascii", "ignore"),
            truncated=found.size > len(start),
            size=found.size,
            sha256=state.result_sha256,
        )
        return item.model_copy(update={"result": result})

    async def result(self, approval_id: str, actor: Identity) -> Stored | None:
        """The result that waits to be released, for one who may release it; None if none waits for them."""
        try:
            state = await self._ask(approval_id)
        except (ApprovalNotFound, ApprovalInterrupted):
            return None
        return await self._released_by(state, actor)

    async def _released_by(self, state: State, actor: Identity) -> Stored | None:
        if state.phase is not Phase.REVIEWING or state.awaited is None or not state.awaits(actor):
            return None
        reader = self.reader
        is_asked = reader.is_at_hand  # else whoever answers there has looked
        if is_asked and not state.awaited.asks_member(actor, await reader.chats_of(actor)):
            return None
        return await reader.result(state.approval_id, actor=actor)


async def _lines(page: _Page[_Line]) -> AsyncIterator[_Line]:
    """Line after line, until there is no more."""
    offset: int | None = 0
    while offset is not None:
        lines, offset = await page(offset, _PAGE)
        for line in lines:
            yield line


async def _batches(ids: AsyncIterator[str]) -> AsyncIterator[list[str]]:
    batch: list[str] = []
    async for each in ids:
        batch.append(each)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
