"""The HTTP API for frozen calls: listing them, settling them, waiting for what was settled."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import Query

from assent.api.problems import Code, problem
from assent.api.wire import MAX_WAIT, FrozenList, NewRuling, SettlementView
from assent.client.door import FrozenReview, check_ruling, invalid
from assent.contracts.ruling import Ruled, RuledKind, Ruling
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.errors import NotAllowed, NotFrozen
from workers.api_context import (
    MOST_LISTED,
    MOST_SEARCHED,
    ApiContext,
    ApprovalId,
    TheAgent,
    TheContext,
    agents_router,
    in_time,
    may_list,
    refuse_acting_for,
    refuse_unless_settling,
    sees_any,
    visible_in_any_case,
)
from workers.problems import Refusal, documented
from workers.tokens import Agent

router = agents_router()


@router.get("/frozen", tags=["frozen"])
async def listing(
    context: TheContext, agent: TheAgent, limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100
) -> FrozenList:
    """The calls of which nobody knows whether they took effect, as far as this token may see them."""
    found: list[FrozenReview] = []
    if not sees_any(agent):
        return FrozenList(frozen=())
    async for review in context.door.frozen(limit=MOST_SEARCHED):
        if may_list(agent, review):
            found.append(review)
        if len(found) == limit:
            break
    return FrozenList(frozen=tuple(found))


@router.post("/frozen/{approval_id}/settle", tags=["frozen"], responses=documented(409))
async def settle(approval_id: ApprovalId, told: NewRuling, context: TheContext, agent: TheAgent) -> Ruled:
    """Tell what an operator says of a frozen call, with a token that may. No token settles what it asked for itself."""
    refuse_unless_settling(agent)
    refuse_acting_for(agent, told.operator, "settle")
    await visible_in_any_case(context, agent, approval_id)
    await _refuse_own(context, agent, approval_id)
    try:
        ruling = Ruling(
            kind=told.ruling,
            operator=told.operator,
            reason=told.reason,
            content=told.content,
            payload_hash=told.payload_hash,
            ruling_id=told.ruling_id or str(uuid.uuid4()),
            surface=Surface.HTTP,
            proof=f"token:{agent.name}",
        )
    except ValueError as error:
        raise invalid(error) from None
    check_ruling(ruling)
    ruled = await context.door.settle(approval_id, ruling)
    if ruled.kind is RuledKind.FORBIDDEN:
        said = f"{told.operator} is no operator of this installation"
        raise Refusal(problem(Code.FORBIDDEN_OPERATOR, said, approval_id=approval_id))
    return ruled


async def _refuse_own(context: ApiContext, agent: Agent, approval_id: str) -> None:
    """Refuse a token that asked for the call, or for another one that gets the same answer."""
    if agent.principal in (await context.door.frozen_approval(approval_id)).asked_by:
        raise NotAllowed(f"the token {agent.name!r} asked for this call, so it may not settle it.")


@router.get("/approvals/{approval_id}/settlement", tags=["frozen"])
async def settlement(
    approval_id: ApprovalId,
    context: TheContext,
    agent: TheAgent,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for it, if need be.")] = 0,
) -> SettlementView:
    """What a frozen call turned out to be; with `wait`, as soon as it is settled or the wait is over."""
    state = await visible_in_any_case(context, agent, approval_id)
    settled = await context.door.settled(approval_id)
    if settled is None:
        try:
            if state.status is not Status.FROZEN:
                await context.door.frozen_approval(approval_id)
            settled = await in_time(context, context.door.settlement(approval_id), wait) if wait else None
        except NotFrozen as error:
            raise Refusal(problem(Code.NO_SETTLEMENT, str(error), approval_id=approval_id)) from None
    return SettlementView(approval_id=approval_id, settlement=settled)
