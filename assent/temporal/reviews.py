"""Frozen reviews through Temporal: listing them, settling them, waiting for what was settled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.client.door import FrozenReview
from assent.contracts.recall import Recall, Recalled, RecallKind
from assent.contracts.review import Examined, FrozenApproval, FrozenCall, ReviewRecord
from assent.contracts.ruling import Ruled, RuledKind, Ruling, Settlement
from assent.errors import AssentError, NotFrozen, RulingRefused, Unavailable
from assent.temporal import search
from assent.temporal.connection import NO_SERVER, no_answer, unavailable
from assent.temporal.ledger import TemporalLedger

_RULED_WITHIN = timedelta(seconds=20)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""How many seconds pass before the ledger is asked again about a call whose review is not open."""
_LONGEST_WAIT = 600.0
"""How many seconds an open review is waited for before the ledger is asked all the same."""
_NOT_OPEN = "the call is frozen, and its review is not open just now: it will be within a minute or so; try again then"

Recalling = Callable[[Recall], Awaitable[Recalled]]


class Review(NamedTuple):
    """The open question of a frozen call."""

    frozen: FrozenCall
    examined: Examined
    """What the ledger knew when the review last looked."""

    @property
    def may_go_on(self) -> bool:
        """Whether the tool's own code is not known to have ended, so that the call may still take effect."""
        return self.examined.may_go_on


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
        known = await self._known(approval_id)
        if ruling.payload_sha256 not in (None, known.payload_sha256):
            raise RulingRefused(approval_id, "Tampered", "the ruling is about another payload than the one that froze")
        if known.settlement is not None:
            return _was_settled(ruling, await self._whole(known.settlement, approval_id))
        if known.frozen is None:
            raise NotFrozen(approval_id)
        try:
            async with asyncio.timeout(_RULED_WITHIN.total_seconds() + 0.1):
                ruled: Ruled = await self._workflow(known.frozen).execute_update(
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
        if settled := await self.was_settled(approval_id):
            return _was_settled(ruling, settled)
        raise Unavailable(_NOT_OPEN)

    async def review(self, approval_id: str) -> Review:
        """What may have happened, as its review knows it. Raises NotFrozen where there is no question about it."""
        workflow = self._workflow(await self.standing(approval_id))
        try:
            async with asyncio.timeout(_RULED_WITHIN.total_seconds() + 0.1):
                frozen = await workflow.query(names.STATE, result_type=FrozenCall, rpc_timeout=_RULED_WITHIN)
                examined = await workflow.query(names.EXAMINED, result_type=Examined, rpc_timeout=_RULED_WITHIN)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise Unavailable(_NOT_OPEN) from error
            raise unavailable(error) from error
        except WorkflowQueryFailedError as error:
            raise Unavailable(f"the review could not answer: {error}") from error
        except TimeoutError:
            raise no_answer() from None
        return Review(frozen, examined)

    async def was_settled(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was; all of it for who can read the ledger."""
        settlement = (await self._known(approval_id)).settlement
        return await self._whole(settlement, approval_id) if settlement else None

    async def _whole(self, settlement: Settlement, approval_id: str) -> Settlement:
        return await self._ledger.settled(approval_id) or settlement if self._ledger.can_read else settlement

    async def standing(self, approval_id: str) -> FrozenApproval:
        """Where an approval stands whose call may have happened. Raises NotFrozen where there is no such question."""
        if standing := (await self._known(approval_id)).frozen:
            return standing
        raise NotFrozen(approval_id)

    async def settlement(self, approval_id: str) -> Settlement:
        """Wait until a frozen call is settled, however long, also while its review is not open.

        What is settled stands in the ledger. Its review's end is only the sign to look there: one that ended without
        a settlement is opened again by the sweeper, so the ledger is asked ever less often meanwhile.
        """
        self._ledger.reader  # noqa: B018 - says if there is none
        clock, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
        known = await self._known(approval_id)
        while known.settlement is None:
            if known.frozen is None:
                raise NotFrozen(approval_id)
            began = clock()
            await self._review_ends(known.frozen)
            if clock() - began >= pause:
                pause = _FIRST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            with contextlib.suppress(Unavailable):  # restarts are waited out
                known = await self._known(approval_id)
        return await self._whole(known.settlement, approval_id)

    async def _review_ends(self, standing: FrozenApproval) -> None:
        """Wait for the end of a review, or for a while; where there is none to wait for, not at all."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._workflow(standing).result()
        except (WorkflowFailureError, TimeoutError):
            return
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND and error.status not in NO_SERVER:
                raise unavailable(error) from error

    async def _known(self, approval_id: str) -> ReviewRecord:
        """What is on record of it: who has the ledger at hand reads it there, any other asks a worker for the ids."""
        found = await self._ledger.review(approval_id)
        if found is None:
            found = (await self._recall(Recall(kind=RecallKind.REVIEW, approval_id=approval_id))).review
        if found is None:
            raise NotFrozen(approval_id)
        return found

    def _workflow(self, standing: FrozenApproval) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(names.review_workflow(standing.idempotency_key))


def _was_settled(ruling: Ruling, settled: Settlement) -> Ruled:
    """What a ruling on a settled call is told: the same as the first time, if it is the one that settled it."""
    heard = ruling.ruling_id is not None and ruling.ruling_id == settled.ruling_id
    return Ruled(kind=RuledKind.SETTLED if heard else RuledKind.ALREADY_SETTLED, settlement=settled)


async def _listed(found: WorkflowExecution) -> FrozenReview:
    attributes = found.typed_search_attributes
    since = await found.memo_value(names.FROZEN_AT_MEMO, "", type_hint=str)
    return FrozenReview(
        approval_id=await found.memo_value(names.APPROVAL_MEMO, "", type_hint=str),
        review_id=found.id,
        tool=attributes.get(search.TOOL),
        requester=attributes.get(search.REQUESTER),
        risk=attributes.get(search.RISK),
        frozen_at=datetime.fromisoformat(since) if since else found.start_time,
    )


def _refusal(approval_id: str, error: WorkflowUpdateFailedError) -> AssentError:
    match error.cause:
        case ApplicationError(type="NotCertain" | "WrongHash" | "TooLarge" | "TriedAgain") as refused:
            return RulingRefused(approval_id, str(refused.type), refused.message)
        case cause:
            return RulingRefused(approval_id, "Refused", str(cause))
