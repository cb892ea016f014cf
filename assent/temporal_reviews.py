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
from assent.messages import Examined, FrozenCall, Recall, Recalled, RecallKind, ReviewRecord
from assent.temporal import NO_SERVER, no_answer, unavailable
from assent.temporal_ledger import TemporalLedger

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

    def __init__(self, client: Client, recall: Recalling, ledger: TemporalLedger) -> None:
        self._client = client
        self._recall = recall
        self._ledger = ledger

    async def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        query = f'WorkflowType = "{names.FROZEN_REVIEW}" AND ExecutionStatus = "Running"'
        try:
            async for found in self._client.list_workflows(query, limit=limit):
                yield await _listed(found)
        except RPCError as error:
            raise unavailable(error) from error

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        record = await self._record(approval_id, ruling.ruling_id)
        if ruling.payload_sha256 is not None and ruling.payload_sha256 != record.payload_sha256:
            raise RulingRefused(approval_id, "Tampered", "the ruling is about another payload than the one that froze")
        if record.settled:
            return await self._was_settled(record)
        await self._looked_at(record.review_id, approval_id)  # says if the review of this key is about other approvals
        try:
            async with asyncio.timeout(_RULED_WITHIN.total_seconds() + 0.1):
                ruled: Ruled = await self._client.get_workflow_handle(record.review_id).execute_update(
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
        record = await self._record(approval_id, ruling.ruling_id)
        if record.settled:
            return await self._was_settled(record)
        raise NotFrozen(approval_id)

    async def was_settled(self, approval_id: str) -> Settlement | None:
        """What was settled, if anything was; all of it for who can read the ledger."""
        record = await self._record(approval_id)
        return (await self._was_settled(record)).settlement if record.settled else None

    async def review(self, approval_id: str) -> Review:
        """What may have happened, as its review knows it. Raises NotFrozen where there is no question about it."""
        return await self._looked_at((await self._record(approval_id)).review_id, approval_id)

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

    async def settlement(self, approval_id: str) -> Settlement:
        """Wait until a frozen call is settled, however long."""
        while True:
            if settled := await self._ledger.settled(approval_id):
                return settled
            try:
                await self._client.get_workflow_handle(await self._review_id(approval_id)).result()
            except WorkflowFailureError as error:
                raise AssentError(f"the review of approval {approval_id!r} was ended by hand in Temporal") from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND and not await self._ledger.settled(approval_id):
                    raise NotFrozen(approval_id) from error
                if error.status is not RPCStatusCode.NOT_FOUND and error.status not in NO_SERVER:
                    raise unavailable(error) from error
                await asyncio.sleep(1)

    async def _was_settled(self, record: ReviewRecord) -> Ruled:
        """What a ruling on a settled call is told: the same as the first time, if it is the one that settled it."""
        assert record.settled is not None
        kind = RuledKind.SETTLED if record.is_this_ruling else RuledKind.ALREADY_SETTLED
        whole = await self._ledger.settled(record.settled.approval_id) if self._ledger.can_read else None
        return Ruled(kind=kind, settlement=whole or record.settled)

    async def _review_id(self, approval_id: str) -> str:
        """The review that a frozen call has: of who can read the ledger, no worker is asked for it."""
        state = await self._ledger.reader.state(approval_id)
        key = state.idempotency_key if state else None
        if key is None:
            raise NotFrozen(approval_id)
        return names.review_workflow(key)

    async def _record(self, approval_id: str, ruling_id: str | None = None) -> ReviewRecord:
        question = Recall(kind=RecallKind.REVIEW, approval_id=approval_id, ruling_id=ruling_id)
        record = (await self._recall(question)).review
        if record is None:
            raise NotFrozen(approval_id)
        return record


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
