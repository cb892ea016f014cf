"""What waits for a person, what was remembered and what is in force, asked through Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from assent.contracts import Grant, Identity, Phase, State, Surface
from assent.errors import ApprovalInterrupted, ApprovalNotFound, AssentError, Unavailable
from assent.inbox import awaits
from assent.messages import Policy, Recall, Recalled, RecallKind, RevokedKind

_AT_ONCE = 16
"""How many approvals are asked at the same time how they stand."""

Recalling = Callable[[Recall], Awaitable[Recalled]]
Asking = Callable[[str], Awaitable[State]]
"""Asks one open approval how it stands."""


class TemporalInbox:
    """The questions that concern people rather than one approval."""

    def __init__(self, recall: Recalling, ask: Asking) -> None:
        self._recall = recall
        self._ask = ask

    async def inbox(self, actor: Identity) -> AsyncIterator[State]:
        """What *actor* can decide now, the oldest first."""
        answered, unanswered = 0, 0
        async for ids in self._waiting():
            for start in range(0, len(ids), _AT_ONCE):
                some = ids[start : start + _AT_ONCE]
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

    async def _waiting(self) -> AsyncIterator[tuple[str, ...]]:
        offset: int | None = 0
        while offset is not None:
            recalled = await self._recall(Recall(kind=RecallKind.WAITING, offset=offset))
            yield recalled.approval_ids
            offset = recalled.next_offset

    async def grants(self) -> AsyncIterator[Grant]:
        """Every decision that was remembered, also those that no longer count."""
        offset: int | None = 0
        while offset is not None:
            recalled = await self._recall(Recall(kind=RecallKind.GRANTS, offset=offset))
            for grant in recalled.grants:
                yield grant
            offset = recalled.next_offset

    async def revoke(self, grant_id: str, actor: Identity, surface: Surface) -> RevokedKind:
        """Let a remembered decision no longer count."""
        question = Recall(kind=RecallKind.REVOKE, grant_id=grant_id, actor=actor, surface=surface)
        revoked = (await self._recall(question)).revoked
        if revoked is None:
            raise Unavailable("the approvals worker does not know how to revoke; start a newer one and try again")
        return revoked

    async def result(self, approval_id: str, actor: Identity) -> str | None:
        """The result that waits to be released, as JSON; None if none waits, also of what was withheld."""
        try:
            if (await self._ask(approval_id)).phase is not Phase.REVIEWING:
                return None
        except (ApprovalNotFound, ApprovalInterrupted):
            return None
        chunks: list[str] = []
        offset: int | None = 0
        while offset is not None:
            question = Recall(kind=RecallKind.RESULT, approval_id=approval_id, actor=actor, offset=offset)
            recalled = await self._recall(question)
            if recalled.chunk is None:
                return None
            chunks.append(recalled.chunk)
            offset = recalled.next_offset
        return "".join(chunks)

    async def policy(self) -> Policy | None:
        """The operator's policy in force, if there is one."""
        return (await self._recall(Recall(kind=RecallKind.POLICY))).policy
