"""The HTTP API for those who decide: what waits for them, results to release, decisions that are remembered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal, TypeVar

from fastapi import Depends, Query, Response
from pydantic import TypeAdapter

from assent.api.problems import Code, problem
from assent.api.wire import GrantList, Inbox, Revoked
from assent.client.door import invalid
from assent.client.reader import Waiting, WaitingQuestion
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.values import Id, Surface
from assent.errors import ApprovalNotFound, NotAllowed
from workers.api_context import (
    MOST_LISTED,
    ApiContext,
    ApprovalId,
    TheAgent,
    TheContext,
    agents_router,
    may_see_question,
    refuse_acting_for,
    refuse_unless_deciding,
    streamed,
    unquoted,
    visible,
)
from workers.problems import Refusal, documented, refuse
from workers.tokens import Agent

router = agents_router()
_Line = TypeVar("_Line")


def _actor(
    actor: Annotated[
        str, Query(description="Who decides: open_id:…, union_id:… or user_id:…, or several with commas.")
    ],
) -> Identity:
    try:
        return Identity.parse(actor)
    except ValueError as error:
        raise invalid(error) from None


def _grant_id(grant_id: str) -> str:
    try:
        return TypeAdapter[str](Id).validate_python(unquoted(grant_id))
    except ValueError:
        raise refuse(Code.GRANT_NOT_FOUND, "no grant has such an id") from None


TheActor = Annotated[Identity, Depends(_actor)]
GrantId = Annotated[str, Depends(_grant_id)]


@router.get("/inbox", tags=["deciding"])
async def inbox(
    actor: TheActor,
    context: TheContext,
    agent: TheAgent,
    thread_id: Annotated[str | None, Query(description="Only what belongs to it.", max_length=200)] = None,
    of: Annotated[Literal["approvals", "questions"] | None, Query(description="Only these; both, if absent.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
) -> Inbox:
    """What waits for a person: calls to decide, results to release and questions, as far as this token may."""
    refuse_who_may_not_decide(agent, actor)

    def may_decide(waiting: Waiting) -> bool:
        is_mine = waiting.asked_by == agent.principal or thread_id not in (None, waiting.thread_id)
        return agent.may_see(waiting.tool, waiting.requester) and not is_mine

    def may_answer(waiting: WaitingQuestion) -> bool:
        return waiting.asked_by != agent.principal and may_see_question(
            agent, waiting.requester, waiting.asked_by, waiting.deciders
        )

    door = context.door
    questions = door.questions.inbox(actor, thread_id=thread_id, may_see=may_answer)
    return Inbox(
        waiting=await _first(limit, door.visible_inbox(actor, may_decide)) if of != "questions" else (),
        questions=await _first(limit, questions) if of != "approvals" else (),
    )


async def _first(limit: int, lines: AsyncIterator[_Line]) -> tuple[_Line, ...]:
    found: list[_Line] = []
    async for line in lines:
        found.append(line)
        if len(found) == limit:
            break
    return tuple(found)


@router.get(
    "/approvals/{approval_id}/result",
    tags=["deciding"],
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {}}}}, **documented(409)},
)
async def result(approval_id: ApprovalId, actor: TheActor, context: TheContext, agent: TheAgent) -> Response:
    """The result that waits to be released, for a person who may release it; never for the token that asked for it."""
    refuse_who_may_not_decide(agent, actor)
    state = await visible(context, agent, approval_id)
    if state.asked_by == agent.principal:
        raise NotAllowed(f"the token {agent.name!r} asked for this approval, so it may not see what is to be released.")
    found = (
        await context.door.stored_result(approval_id, actor) if state.awaits(actor) and state.result_sha256 else None
    )
    if found is None:
        said = f"approval {approval_id!r} has no result that waits for {actor} to be released"
        raise Refusal(problem(Code.NO_RESULT, said, approval_id=approval_id))
    return streamed(found)


@router.get("/grants", tags=["deciding"])
async def grants(context: TheContext, agent: TheAgent) -> GrantList:
    """The decisions that were remembered, as far as this token may see what they are about."""
    refuse_unless_deciding(agent)
    return GrantList(
        grants=tuple([grant async for grant in context.door.grants() if _sees(agent, grant)][:MOST_LISTED])
    )


@router.delete("/grants/{grant_id}", tags=["deciding"])
async def revoke(grant_id: GrantId, actor: TheActor, context: TheContext, agent: TheAgent) -> Revoked:
    """Let a remembered decision no longer count. No token revokes what was decided about its own request."""
    refuse_who_may_not_decide(agent, actor)
    found = await _visible_grant(context, agent, grant_id)
    if found is None:
        raise refuse(Code.GRANT_NOT_FOUND, f"grant {grant_id!r} is not known")
    if await _asked_by(context, found) == agent.principal:
        raise NotAllowed(f"the token {agent.name!r} asked for what was decided there, so it may not revoke it.")
    match await context.door.revoke(grant_id, actor=actor, surface=Surface.HTTP):
        case RevokedKind.MISSING:
            raise refuse(Code.GRANT_NOT_FOUND, f"grant {grant_id!r} is not known")
        case RevokedKind.FORBIDDEN:
            raise refuse(Code.FORBIDDEN_GRANT, f"grant {grant_id!r} is not for {actor} to revoke")
        case kind:
            return Revoked(grant_id=grant_id, kind=kind)


def refuse_who_may_not_decide(agent: Agent, actor: Identity) -> None:
    """Refuse a token that may not tell what this person decides."""
    refuse_unless_deciding(agent)
    refuse_acting_for(agent, actor, "decide")


def _sees(agent: Agent, grant: Grant) -> bool:
    return agent.may_see(grant.tool, grant.requester)


async def _visible_grant(context: ApiContext, agent: Agent, grant_id: str) -> Grant | None:
    grant = await context.reader.grant(grant_id)
    return grant if grant is not None and _sees(agent, grant) else None


async def _asked_by(context: ApiContext, grant: Grant) -> str | None:
    try:
        return (await context.door.recorded_state(grant.approval_id)).asked_by
    except ApprovalNotFound:
        return None
