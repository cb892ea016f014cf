"""Frozen reviews through Temporal: listing them, settling them, waiting for what was settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts import Ruled, RuledKind, Ruling, Settlement
from assent.door import FrozenReview
from assent.errors import AssentError, NotFrozen, RulingRefused, Unavailable
from assent.messages import AuditEvent, Examined, FrozenCall, Recall, Recalled, RecallKind
from assent.temporal import NO_SERVER, no_answer, unavailable

_RULED_WITHIN = timedelta(seconds=20)

Recalling = Callable[[Recall], Awaitable[Recalled]]


class Review(NamedTuple):
    """The open question of a frozen call."""

    frozen: FrozenCall
    examined: Examined
    """What the ledger knew when the review last looked."""

    @property
    def approvals(self) -> frozenset[str]:
        """All approvals that wait for the answer."""
        return frozenset({self.frozen.call.approval_id, *self.frozen.joined})

    @property
    def may_go_on(self) -> bool:
        """Whether the tool's own code is not known to have ended, so that the call may still take effect."""
        return not self.examined.sights or not all(sight.body_ended for sight in self.examined.sights)


class TemporalReviews:
    """The reviews of frozen calls."""

    def __init__(self, client: Client, recall: Recalling) -> None:
        self._client = client
        self._recall = recall

    async def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        query = f'WorkflowType = "{names.FROZEN_REVIEW}" AND ExecutionStatus = "Running"'
        try:
            async for found in self._client.list_workflows(query, limit=limit):
                yield await _listed(found)
        except RPCError as error:
            raise unavailable(error) from error

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        settled, review = await asyncio.gather(self.settled(approval_id), self._review(approval_id))
        if settled:
            return await self._was_settled(approval_id, ruling, settled)
        await self._looked_at(review, approval_id)  # says if the open review of this key is about other approvals
        try:
            async with asyncio.timeout(_RULED_WITHIN.total_seconds() + 0.1):
                ruled: Ruled = await self._client.get_workflow_handle(review).execute_update(
                    names.SETTLE_REVIEW, ruling, id=ruling.ruling_id, result_type=Ruled, rpc_timeout=_RULED_WITHIN
                )
                return ruled
        except WorkflowUpdateFailedError as error:
            raise _refusal(approval_id, error) from error
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise unavailable(error) from error
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError):
            raise no_answer() from None
        if settled := await self.settled(approval_id):
            return await self._was_settled(approval_id, ruling, settled)
        raise NotFrozen(approval_id)

    async def review(self, approval_id: str) -> Review:
        """What may have happened, as its review knows it. Raises NotFrozen where there is no question about it."""
        return await self._looked_at(await self._review(approval_id), approval_id)

    async def _looked_at(self, review_id: str, approval_id: str) -> Review:
        workflow = self._client.get_workflow_handle(review_id)
        try:
            async with asyncio.timeout(_RULED_WITHIN.total_seconds() + 0.1):
                frozen = await workflow.query(names.STATE, result_type=FrozenCall, rpc_timeout=_RULED_WITHIN)
                examined = await workflow.query(names.EXAMINED, result_type=Examined, rpc_timeout=_RULED_WITHIN)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NotFrozen(approval_id) from error
            raise unavailable(error) from error
        except WorkflowQueryFailedError as error:
            raise Unavailable(f"the review could not answer: {error}") from error
        except TimeoutError:
            raise no_answer() from None
        review = Review(frozen, examined)
        if approval_id not in review.approvals:
            raise NotFrozen(approval_id)
        return review

    async def settled(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was."""
        return (await self._recall(Recall(kind=RecallKind.SETTLEMENT, approval_id=approval_id))).settlement

    async def settlement(self, approval_id: str) -> Settlement:
        """Wait until a frozen call is settled, however long."""
        while True:
            if settled := await self.settled(approval_id):
                return settled
            try:
                await self._client.get_workflow_handle(await self._review(approval_id)).result()
            except WorkflowFailureError as error:
                raise AssentError(f"the review of approval {approval_id!r} was ended by hand in Temporal") from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND and not await self.settled(approval_id):
                    raise NotFrozen(approval_id) from error
                if error.status is not RPCStatusCode.NOT_FOUND and error.status not in NO_SERVER:
                    raise unavailable(error) from error
                await asyncio.sleep(1)

    async def _was_settled(self, approval_id: str, ruling: Ruling, settled: Settlement) -> Ruled:
        """What a ruling on a settled call is told: the same as the first time, if it is the one that settled it."""
        offset = 0 if ruling.ruling_id is not None else None
        while offset is not None:
            recalled = await self._recall(Recall(kind=RecallKind.AUDIT, approval_id=approval_id, offset=offset))
            for record in recalled.entries:
                if record.entry.event is AuditEvent.SETTLE and record.entry.event_id == ruling.ruling_id:
                    return Ruled(kind=RuledKind.SETTLED, settlement=settled)
            offset = recalled.next_offset
        return Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=settled)

    async def _review(self, approval_id: str) -> str:
        recalled = await self._recall(Recall(kind=RecallKind.RECORD, approval_id=approval_id))
        if recalled.state is None or recalled.state.idempotency_key is None:
            raise NotFrozen(approval_id)
        return names.review_workflow(recalled.state.idempotency_key)


async def _listed(found: WorkflowExecution) -> FrozenReview:
    attributes = found.typed_search_attributes
    since = await found.memo_value(names.FROZEN_AT_MEMO, "", type_hint=str)
    return FrozenReview(
        approval_id=await found.memo_value(names.APPROVAL_MEMO, "", type_hint=str),
        review_id=found.id,
        tool=attributes.get(names.TOOL),
        requester=attributes.get(names.REQUESTER),
        risk=attributes.get(names.RISK),
        frozen_at=datetime.fromisoformat(since) if since else found.start_time,
    )


def _refusal(approval_id: str, error: WorkflowUpdateFailedError) -> AssentError:
    match error.cause:
        case ApplicationError(type="NotCertain" | "WrongHash") as refused:
            return RulingRefused(approval_id, str(refused.type), refused.message)
        case cause:
            return RulingRefused(approval_id, "Refused", str(cause))
