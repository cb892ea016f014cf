"""What the ledger knows, and what waits for whom, asked through Temporal by who has no database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from assent.contracts import Grant, Identity, Manifest, Phase, State, Surface
from assent.errors import ApprovalInterrupted, ApprovalNotFound, AssentError, Unavailable
from assent.inbox import awaits
from assent.messages import AuditRecord, Policy, Recall, Recalled, RecallKind, RevokedKind

_AT_ONCE = 16
"""How many approvals are asked at the same time how they stand."""

Recalling = Callable[[Recall], Awaitable[Recalled]]
Asking = Callable[[str], Awaitable[State]]
"""Asks one open approval how it stands."""


class TemporalLedger:
    """Questions to the ledger, each answered by a worker that has one."""

    def __init__(self, recall: Recalling, ask: Asking) -> None:
        self._recall = recall
        self._ask = ask

    async def content(self, approval_id: str) -> str | None:
        """The whole result of an approval that has ended, as JSON."""
        return await self._text(RecallKind.CONTENT, approval_id=approval_id)

    async def manifests(self) -> list[Manifest]:
        """What the tools say of themselves."""
        return [each async for page in self._pages(RecallKind.TOOLS) for each in page.manifests]

    async def records(self, approval_id: str) -> list[AuditRecord]:
        """What the audit says of one approval."""
        return [each async for page in self._pages(RecallKind.AUDIT, approval_id=approval_id) for each in page.entries]

    async def policy(self) -> Policy | None:
        """The operator's policy in force, if there is one."""
        return (await self._recall(Recall(kind=RecallKind.POLICY))).policy

    # What waits for people

    async def inbox(self, actor: Identity) -> AsyncIterator[State]:
        """What *actor* can decide now, the oldest first."""
        answered, unanswered = 0, 0
        async for page in self._pages(RecallKind.WAITING):
            for start in range(0, len(page.approval_ids), _AT_ONCE):
                some = page.approval_ids[start : start + _AT_ONCE]
                for found in await asyncio.gather(*map(self._ask, some), return_exceptions=True):
                    match found:
                        case State():
                            answered += 1
                            if awaits(found, actor):
                                yield found
                        case ApprovalNotFound() | ApprovalInterrupted():
                            pass  # it has ended since
                        case AssentError():
                            unanswered += 1
                        case BaseException():
                            raise found
        if unanswered and not answered:
            raise Unavailable("open approvals do not say how they stand: no approvals worker answers. Try again.")

    async def result(self, approval_id: str, actor: Identity) -> str | None:
        """The result that waits to be released, as JSON; None if none waits, also of what was withheld."""
        try:
            if (await self._ask(approval_id)).phase is not Phase.REVIEWING:
                return None
        except (ApprovalNotFound, ApprovalInterrupted):
            return None
        return await self._text(RecallKind.RESULT, approval_id=approval_id, actor=actor)

    # What people said once for all

    async def grants(self) -> AsyncIterator[Grant]:
        """Every decision that was remembered, also those that no longer count."""
        async for page in self._pages(RecallKind.GRANTS):
            for grant in page.grants:
                yield grant

    async def revoke(self, grant_id: str, actor: Identity, surface: Surface) -> RevokedKind:
        """Let a remembered decision no longer count."""
        question = Recall(kind=RecallKind.REVOKE, grant_id=grant_id, actor=actor, surface=surface)
        revoked = (await self._recall(question)).revoked
        if revoked is None:
            raise Unavailable("the approvals worker does not know how to revoke; start a newer one and try again")
        return revoked

    async def _text(self, kind: RecallKind, **about: Any) -> str | None:
        chunks = [page.chunk async for page in self._pages(kind, **about)]
        known = [chunk for chunk in chunks if chunk is not None]
        return "".join(known) if len(known) == len(chunks) else None

    async def _pages(self, kind: RecallKind, **about: Any) -> AsyncIterator[Recalled]:
        """Answer after answer, until there is no more."""
        offset: int | None = 0
        while offset is not None:
            recalled = await self._recall(Recall(kind=kind, offset=offset, **about))
            yield recalled
            offset = recalled.next_offset
