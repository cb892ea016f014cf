"""The ledger for those who only read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Concatenate

from assent.client.reader import Stored, Subject, Waiting, WaitingQuestion
from assent.contracts.answers import QuestionOutcome
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override, Policy
from assent.contracts.quotas import AgentLimits, Exceeded
from assent.contracts.review import ReviewRecord
from assent.contracts.ruling import Settlement
from assent.contracts.runs import Run, StoredInteraction
from assent.contracts.state import State
from assent.errors import Unavailable
from ledger import (
    approvals,
    audit,
    awaited,
    catalogues,
    grants,
    memberships,
    overrides,
    policies,
    questions,
    quotas,
    review_records,
    runs,
    settlements,
    shared_files,
    stored,
)
from ledger.database import Ledger
from ledger.engine import Connection, Given, Result
from ledger.errors import LedgerError


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
        return await self._read(approvals.subject_of, approval_id)

    async def state(self, approval_id: str) -> State | None:
        return await self._read(approvals.state_of, approval_id)

    async def outcome(self, approval_id: str) -> Outcome | None:
        return await self._read(approvals.outcome_of, approval_id)

    async def settlement(self, approval_id: str) -> Settlement | None:
        return await self._read(settlements.settlement_of, approval_id)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        return await self._read(review_records.record_of, approval_id)

    async def content(self, approval_id: str) -> Stored | None:
        source = await self._read(stored.content, approval_id)
        return self._stored(source) if source else None

    async def result(self, approval_id: str, *, actor: Identity) -> Stored | None:
        source = await self._read(_undecided, approval_id)
        return self._stored(source) if source else None

    async def records(self, approval_id: str, offset: int, limit: int) -> tuple[tuple[AuditRecord, ...], int | None]:
        return await self._read(audit.page, approval_id, offset, limit)

    async def manifests(self, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
        return await self._read(catalogues.page, offset, limit)

    async def chats_of(self, actor: Identity) -> tuple[str, ...]:
        return await self._read(memberships.chats_of, actor, datetime.now(UTC))

    async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[Waiting, ...], int | None]:
        return await self._read(awaited.found_by, actor, datetime.now(UTC), offset, limit, self._namespace)

    async def question(self, question_id: str) -> QuestionState | None:
        return await self._read(questions.state_of, question_id)

    async def answered(self, question_id: str) -> QuestionOutcome | None:
        return await self._read(questions.outcome_of, question_id)

    async def asked(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[WaitingQuestion, ...], int | None]:
        return await self._read(questions.found_by, actor, datetime.now(UTC), offset, limit, self._namespace)

    async def run(self, run_id: str) -> tuple[Run, str | None, bool] | None:
        """A run, the agent whose it is, and whether its process may still read."""
        return await self._read(runs.run_of, run_id)

    async def interaction(self, question_id: str) -> StoredInteraction | None:
        return await self._read(runs.interaction, question_id)

    async def interactions(self, run_id: str) -> tuple[StoredInteraction, ...]:
        return await self._read(runs.interactions_of, run_id)

    async def interactions_named(self, request_id: str) -> tuple[StoredInteraction, ...]:
        return await self._read(runs.interactions_named, request_id)

    async def grants(self, offset: int, limit: int) -> tuple[tuple[Grant, ...], int | None]:
        return await self._read(grants.page, offset, limit)

    async def grant(self, grant_id: str) -> Grant | None:
        return await self._read(grants.grant_of, grant_id)

    async def exceeded(self, principal: str, limits: AgentLimits, *, size: int, more: int) -> Exceeded | None:
        """The agent's quota that so many more requests would go beyond, as far as can be said before they are made."""
        return await self._read(quotas.of_agent, principal, limits, datetime.now(UTC), size=size, more=more)

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        found = await self._read(shared_files.recent, requester, limit)
        return [FileSummary.model_validate(file.summary()) for file in found]

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        found = await self._read(shared_files.get, requester, file_id)
        return FileSummary.model_validate(found.summary()) if found else None

    async def policy(self) -> Policy | None:
        return await self._read(policies.in_force)

    async def overrides(self) -> tuple[Override, ...]:
        return await self._read(overrides.listed)

    def _stored(self, source: stored.Source) -> Stored:
        async def read(start: int, length: int) -> bytes:
            return await self._read(stored.piece, source, start, length)

        return Stored(source.size, read)

    async def _read(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        try:
            return await self._ledger.engine.read(operation, *args, **kwargs)
        except LedgerError as error:
            raise Unavailable(f"the ledger does not answer ({type(error).__name__}); nothing is lost") from error


async def _undecided(connection: Connection, approval_id: str) -> stored.Source | None:
    """A result that is being decided about; once the approval has ended, it is told or withheld."""
    if await approvals.outcome_of(connection, approval_id) is not None:
        return None
    return await stored.result(connection, approval_id)
