"""The ledger for those who only read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.client.reader import Stored, Subject
from assent.contracts.audit import AuditRecord
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Policy
from assent.contracts.quotas import AgentLimits, Exceeded
from assent.contracts.review import ReviewRecord
from assent.contracts.ruling import Settlement
from assent.contracts.state import State
from assent.errors import Unavailable
from ledger import approvals, audit, catalogues, grants, policies, quotas, review_records, settlements, stored
from ledger.database import Ledger
from ledger.engine import reading


class Reader:
    """Reads the ledger: `assent.LedgerReader`. It needs a role that may select, and no other right."""

    is_at_hand = True

    def __init__(self, ledger: Ledger, namespace: str | None = None) -> None:
        """namespace: the one of Temporal's whose open approvals are listed; all, if none is named."""
        self._ledger = ledger
        self._namespace = namespace

    @classmethod
    def open(cls, url: str, namespace: str | None = None) -> Reader:
        return cls(Ledger.open(url), namespace)

    async def dispose(self) -> None:
        await self._ledger.dispose()

    async def subject(self, approval_id: str) -> Subject | None:
        """What an approval is about: one statement, whether there is one or not."""
        async with self._reading() as connection:
            return await approvals.subject_of(connection, approval_id)

    async def state(self, approval_id: str) -> State | None:
        async with self._reading() as connection:
            return await approvals.state_of(connection, approval_id)

    async def outcome(self, approval_id: str) -> Outcome | None:
        async with self._reading() as connection:
            return await approvals.outcome_of(connection, approval_id)

    async def settlement(self, approval_id: str) -> Settlement | None:
        async with self._reading() as connection:
            return await settlements.settlement_of(connection, approval_id)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        async with self._reading() as connection:
            return await review_records.record_of(connection, approval_id)

    async def content(self, approval_id: str) -> Stored | None:
        async with self._reading() as connection:
            source = await stored.content(connection, approval_id)
        return self._stored(source) if source else None

    async def result(self, approval_id: str, *, actor: Identity) -> Stored | None:
        async with self._reading() as connection:
            if await approvals.outcome_of(connection, approval_id) is not None:  # then it is told, or withheld
                return None
            source = await stored.result(connection, approval_id)
        return self._stored(source) if source else None

    async def records(self, approval_id: str, offset: int, limit: int) -> tuple[tuple[AuditRecord, ...], int | None]:
        async with self._reading() as connection:
            return await audit.page(connection, approval_id, offset, limit)

    async def manifests(self, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
        async with self._reading() as connection:
            return await catalogues.page(connection, offset, limit)

    async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[str, ...], int | None]:
        async with self._reading() as connection:
            return await approvals.waiting_ids(connection, datetime.now(UTC), offset, limit, self._namespace)

    async def grants(self, offset: int, limit: int) -> tuple[tuple[Grant, ...], int | None]:
        async with self._reading() as connection:
            return await grants.page(connection, offset, limit)

    async def grant(self, grant_id: str) -> Grant | None:
        async with self._reading() as connection:
            return await grants.grant_of(connection, grant_id)

    async def exceeded(self, principal: str, limits: AgentLimits, *, size: int, more: int) -> Exceeded | None:
        """The agent's quota that so many more requests would go beyond, as far as can be said before they are made."""
        async with self._reading() as connection:
            return await quotas.of_agent(connection, principal, limits, datetime.now(UTC), size=size, more=more)

    async def policy(self) -> Policy | None:
        async with self._reading() as connection:
            return await policies.in_force(connection)

    def _stored(self, source: stored.Source) -> Stored:
        async def read(start: int, length: int) -> bytes:
            async with self._reading() as connection:
                return await stored.piece(connection, source, start, length)

        return Stored(source.size, read)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        try:
            async with reading(self._ledger.engine) as connection:
                yield connection
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            raise Unavailable(f"the ledger does not answer ({type(error).__name__}); nothing is lost") from error
