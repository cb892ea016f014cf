"""The HTTP API for asking: approvals, bundles, results, tools, audits."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Annotated

from fastapi import Query, Response

from assent.api.problems import Code
from assent.api.wire import (
    MAX_WAIT,
    ApprovalList,
    ApprovalView,
    AuditTrail,
    BundleView,
    Ending,
    Me,
    NewApproval,
    NewBundle,
    NewCancellation,
    NewDecision,
    PolicyView,
    ToolList,
    path_segment,
)
from assent.client.door import Approval, check_decision, invalid, parse_request, parse_requests
from assent.contracts.decision import Decision, Verdict
from assent.contracts.signals import Withdrawal
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.errors import NotAllowed, Unavailable
from workers.api_context import (
    MOST_LISTED,
    MOST_SEARCHED,
    STATE_WITHIN,
    ApiContext,
    ApprovalId,
    TheAgent,
    TheContext,
    agents_router,
    in_time,
    may_judge,
    may_list,
    refuse_acting_for,
    refuse_hurry,
    refuse_outsider,
    refuse_too_much,
    sees_any,
    streamed,
    told,
    visible,
)
from workers.inbox_api import refuse_who_may_not_decide
from workers.problems import documented, refuse
from workers.tokens import Agent

_TAKEN_WITHIN = timedelta(seconds=1)
"""How long a new approval may take to be looked at before the answer says that it was not yet."""
_ANSWER_WITHIN = timedelta(seconds=8)
_WITHDRAWN_WITHIN = 3.0
"""How long a withdrawal may take to be on record before the answer says how it stands."""
_SETTLED_WITHIN = 1.0
"""How long an ending may take to be written down before the answer goes without the outcome."""

router = agents_router()


@router.post(
    "/approvals",
    status_code=201,
    tags=["approvals"],
    responses={
        201: {"description": "A person is asked.", "headers": {"Location": {"schema": {"type": "string"}}}},
        200: {"description": "The same request was made before; this is how it stands.", "model": ApprovalView},
        **documented(409),
    },
)
async def ask(asked: NewApproval, context: TheContext, agent: TheAgent, response: Response) -> ApprovalView:
    """Ask a person to let a tool call run. Repeating a request under its approval id attaches to it."""
    _refuse_beyond_rights(asked, agent)
    fields = {name: getattr(asked, name) for name in NewApproval.model_fields}
    approval_id = asked.approval_id or str(uuid.uuid4())
    request = parse_request(
        **{**fields, "approval_id": approval_id},
        surface=Surface.HTTP,
        asked_by=agent.principal,
        is_bound_to_chat=agent.is_bound_to_chats,
    )
    counted = await refuse_too_much(context, agent, request)
    is_new = await context.door.request(request, in_doubt=True, limits=agent.limits)
    if not is_new and counted:
        context.started.give_back(agent.principal, counted)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/approvals/{path_segment(approval_id)}"
    return await _taken(context, agent, approval_id, _TAKEN_WITHIN if is_new else STATE_WITHIN)


@router.post("/bundles", status_code=201, tags=["approvals"], responses=documented(409))
async def ask_for_many(asked: NewBundle, context: TheContext, agent: TheAgent) -> BundleView:
    """Ask for several calls together: they share one card, with a decision for each. Each is its own approval.

    Nothing is asked for if one of them may not be. Repeated under the same approval ids, they attach.
    """
    for each in asked.calls:
        _refuse_beyond_rights(each, agent)
    calls = [{name: getattr(each, name) for name in NewApproval.model_fields} for each in asked.calls]
    bound = agent.is_bound_to_chats
    requests = parse_requests(calls, asked_by=agent.principal, surface=Surface.HTTP, is_bound_to_chat=bound)
    refuse_hurry(context, agent, len(requests) - 1)  # as many as if each had come alone
    await refuse_too_much(context, agent, *requests)
    await context.door.request_many(requests, limits=agent.limits)
    return BundleView(
        approvals=tuple([await _taken(context, agent, each.approval_id, _TAKEN_WITHIN) for each in requests])
    )


async def _taken(context: ApiContext, agent: Agent, approval_id: str, within: timedelta) -> ApprovalView:
    """An approval that was asked for just now, as far as anybody has looked at it."""
    try:
        state = await context.door.state(approval_id, within)
    except Unavailable:
        return ApprovalView(approval_id=approval_id, phase=Phase.PREPARING)
    return await _view(context, agent, state)


def _refuse_beyond_rights(asked: NewApproval, agent: Agent) -> None:
    if not agent.may_ask_for(asked.tool):
        raise NotAllowed(f"the token {agent.name!r} may not ask for the tool {asked.tool!r}.")
    refuse_acting_for(agent, asked.requester, "ask")
    if asked.chat_id is not None and not agent.may_ask_in(asked.chat_id):
        raise NotAllowed(f"the token {agent.name!r} may not ask in the chat {asked.chat_id!r}.")
    if asked.reply_to is not None and asked.chat_id is None and agent.is_bound_to_chats:
        raise NotAllowed(
            f"the token {agent.name!r} may ask in certain chats alone: with reply_to, say in chat_id which one it is."
        )
    if asked.callback_url is not None and not agent.may_be_called_back_at(asked.callback_url):
        raise NotAllowed(f"the token {agent.name!r} may not be called back at this address.")


@router.get("/approvals", tags=["approvals"])
async def listing(
    context: TheContext,
    agent: TheAgent,
    status: Annotated[Status | Phase | None, Query(description="Only those that ended so, or stand so.")] = None,
    thread_id: Annotated[str | None, Query(description="Only those of this conversation.", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
) -> ApprovalList:
    """The approvals that are still known and that this token may see, open ones first, then the newest."""
    found: list[Approval] = []
    if not sees_any(agent):
        return ApprovalList(approvals=())
    lines = context.door.approvals(
        status=status, thread_id=thread_id, limit=MOST_SEARCHED, requesters=agent.people or ()
    )
    async for approval in lines:
        if may_list(agent, approval):
            found.append(approval)
        if len(found) == limit:
            break
    return ApprovalList(approvals=tuple(found))


@router.get("/approvals/{approval_id}", tags=["approvals"], responses=documented(409))
async def look(
    approval_id: ApprovalId,
    context: TheContext,
    agent: TheAgent,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for the end, if need be.")] = 0,
) -> ApprovalView:
    """The approval as it stands; with `wait`, as soon as it has ended or the wait is over."""
    return await _view(context, agent, await visible(context, agent, approval_id), wait)


@router.post("/approvals/{approval_id}/cancel", tags=["approvals"], responses=documented(409))
async def cancel(
    approval_id: ApprovalId, context: TheContext, agent: TheAgent, asked: NewCancellation | None = None
) -> ApprovalView:
    """Withdraw a request. Does nothing once somebody has decided: the answer says how it stands."""
    wish = asked or NewCancellation()
    if wish.actor is not None:
        refuse_acting_for(agent, wish.actor, "withdraw")
    await visible(context, agent, approval_id)
    withdrawal = Withdrawal(reason=wish.reason, actor=wish.actor, surface=Surface.HTTP)
    await context.door.withdraw(approval_id, withdrawal)
    state = await context.door.state(approval_id, STATE_WITHIN)
    return await _view(context, agent, state, _WITHDRAWN_WITHIN if state.phase is Phase.PENDING else 0)


@router.post("/approvals/{approval_id}/decide", tags=["approvals"], responses=documented(409))
async def decide(approval_id: ApprovalId, made: NewDecision, context: TheContext, agent: TheAgent) -> Verdict:
    """Tell what a person decided, with a token that may. No token decides what it asked for itself."""
    refuse_who_may_not_decide(agent, made.actor)
    if made.delegate_to is not None:
        refuse_outsider(agent, made.delegate_to)
    state = await visible(context, agent, approval_id)
    if state.asked_by == agent.principal:
        raise NotAllowed(f"the token {agent.name!r} asked for this approval, so it may not decide it.")
    try:
        decision = Decision(
            approval_id=approval_id,
            kind=made.decision,
            payload_sha256=made.payload_sha256,
            actor=made.actor,
            event_id=made.event_id or str(uuid.uuid4()),
            delivery_id=made.delivery_id or uuid.uuid4().hex,
            stage=made.stage,
            reason=made.reason,
            received_at=datetime.now(UTC),
            surface=Surface.HTTP,
            proof=f"token:{agent.name}",
            arguments=made.arguments,
            delegate_to=made.delegate_to,
            remember=made.remember,
            persist_decision=made.persist_decision,
        )
    except ValueError as error:
        raise invalid(error) from None
    check_decision(decision)
    return await context.door.submit(approval_id, decision, answer_within=_ANSWER_WITHIN)


@router.get(
    "/approvals/{approval_id}/content",
    tags=["approvals"],
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {}}}}, **documented(409)},
)
async def content(approval_id: ApprovalId, context: TheContext, agent: TheAgent) -> Response:
    """The whole result of an approval that has ended, however large, as the tool returned it.

    In the place of one that a person withheld stands a sentence that says so.
    """
    state = await visible(context, agent, approval_id)
    outcome = (
        await in_time(context, context.door.outcome(approval_id), MAX_WAIT / 4) if state.phase is Phase.CLOSED else None
    )
    if outcome is None:
        raise refuse(Code.NOT_ENDED, f"approval {approval_id!r} has not ended, so it has no result yet")
    if outcome.withheld:
        return Response(json.dumps(Ending.of(outcome).content), media_type="application/json")
    settled = await context.door.settled(approval_id) if outcome.status is Status.FROZEN else None
    if (settled or outcome).truncated:
        return streamed(await context.door.stored_content(approval_id))
    whole = json.dumps(settled.content if settled else Ending.of(outcome).content)
    return Response(whole, media_type="application/json")


@router.get("/tools", tags=["tools"])
async def tools(context: TheContext, agent: TheAgent) -> ToolList:
    """The tools that this token may ask for."""
    return ToolList(tools=tuple(tool for tool in await context.door.tools() if agent.may_ask_for(tool.name)))


@router.get("/me", tags=["tools"])
async def me(agent: TheAgent) -> Me:
    """Whose token this is."""
    alone = agent.on_behalf_of[0] if len(agent.on_behalf_of) == 1 and agent.people is not None else None
    return Me(name=agent.name, principal=agent.principal, person=alone)


@router.get("/policy", tags=["tools"])
async def policy(context: TheContext, agent: TheAgent) -> PolicyView:
    """The operator's policy in force, and all that the tools say of themselves, for a token that may read them."""
    if not agent.may_read_policy:
        raise NotAllowed(f"the token {agent.name!r} may not read the policy.")
    door = context.door
    return PolicyView(policy=await door.policy(), tools=tuple(await door.manifests()), overrides=await door.overrides())


@router.get("/audit/{approval_id}", tags=["audit"], responses=documented(409))
async def audit(approval_id: ApprovalId, context: TheContext, agent: TheAgent) -> AuditTrail:
    """Who asked, who was shown it, who decided what on which proof, and what came of it; each line is chained.

    Of a result that waits to be released or was withheld, only who may decide about it is told: to others the trail
    ends before it. From the hash of a short result, also one in a chain, the result could be guessed.
    """
    state = await visible(context, agent, approval_id)
    entries = tuple(await context.door.audit(approval_id))
    if not may_judge(agent, state) and await _is_sealed(context, state):
        entries = tuple(takewhile(lambda record: record.entry.content_sha256 is None, entries))
    return AuditTrail(approval_id=approval_id, entries=entries)


async def _is_sealed(context: ApiContext, state: State) -> bool:
    """Whether its result waits to be released, or is withheld."""
    if state.phase is not Phase.CLOSED:
        return True
    outcome = await in_time(context, context.door.outcome(state.approval_id), MAX_WAIT / 4)
    return outcome is None or outcome.withheld


async def _view(context: ApiContext, agent: Agent, state: State, wait: float = 0) -> ApprovalView:
    """An approval as it is told, after it has ended or the wait is over."""
    outcome = None
    is_closed = state.phase is Phase.CLOSED
    if wait or is_closed:
        within = max(wait, _SETTLED_WITHIN) if is_closed else wait
        outcome = await in_time(context, context.door.outcome(state.approval_id), within)
        if not is_closed:
            state = await context.door.state(state.approval_id, STATE_WITHIN)
    return ApprovalView(
        approval_id=state.approval_id,
        phase=state.phase,
        status=state.status,
        state=told(agent, state),
        outcome=Ending.of(outcome) if outcome else None,
        settlement=await context.door.settled(state.approval_id) if state.status is Status.FROZEN else None,
    )
