"""The HTTP API for `assent run`: a program on somebody's own machine asks, and gets its lines from here."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query, Response

from assent.api.problems import Code
from assent.api.run_wire import Heard, Interaction, Line, NewClaim, NewProgress, NewWritten, RunInteraction
from assent.api.wire import MAX_WAIT
from assent.contracts.runs import (
    RUN_ENDED,
    LineClaim,
    LineReport,
    LineWritten,
    RunHolder,
    RunNews,
    RunStart,
    interaction_id,
)
from assent.errors import InteractionRefused, NotAllowed, QuestionNotFound
from assent.temporal.runs import claim_line, confirm_line, tell_run
from workers import interactions
from workers.api_context import TheAgent, TheContext, agents_router, refuse_acting_for, unquoted
from workers.interactions import RunPath
from workers.problems import documented

router = agents_router()
RequestPath = Annotated[str, InPath(description="What the run calls its interaction, percent-encoded.")]


def _id(run_id: str, request_id: str) -> str:
    try:
        return interaction_id(run_id, unquoted(request_id))
    except ValueError:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, run_id) from None


@router.post("/runs/{run_id}/interactions", status_code=201, tags=["runs"], responses=interactions.ASKED)
async def ask(
    run_id: RunPath, asked: RunInteraction, context: TheContext, agent: TheAgent, response: Response
) -> Interaction:
    """Ask what a program asks that runs where this token is. Repeating it under its id attaches to it."""
    found, is_new = await interactions.ask(context, agent, run_id, asked, RunHolder.CLIENT)
    response.status_code = 201 if is_new else 200
    return found


@router.get("/runs/{run_id}/interactions/{request_id}", tags=["runs"], responses=documented(409))
async def look(
    run_id: RunPath,
    request_id: RequestPath,
    context: TheContext,
    agent: TheAgent,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an answer, if need be.")] = 0,
) -> Interaction:
    """How an interaction stands. Once `is_answered`, its line waits to be claimed."""
    question_id = _id(run_id, request_id)
    await interactions.own(context, agent, question_id, hosts=False)
    return await interactions.look(context, question_id, wait)


@router.post("/runs/{run_id}/interactions/{request_id}/claim", tags=["runs"], responses=documented(409))
async def claim(run_id: RunPath, request_id: RequestPath, wish: NewClaim, context: TheContext, agent: TheAgent) -> Line:
    """Take the line, to write it once. Repeated with the same token, it is the same line; nobody else ever gets it."""
    question_id = _id(run_id, request_id)
    known = await interactions.own(context, agent, question_id, hosts=False)
    if not interactions.is_open(known):
        return Line()  # Temporal would repeat what it answered before
    try:
        claimed = await claim_line(context.client, LineClaim(question_id=question_id, token=wish.token))
    except QuestionNotFound:
        return Line()
    return Line(stdin_text=claimed.text)


@router.post("/runs/{run_id}/interactions/{request_id}/written", tags=["runs"], responses=documented(409))
async def written(
    run_id: RunPath, request_id: RequestPath, done: NewWritten, context: TheContext, agent: TheAgent
) -> LineReport:
    """Say that the line was written. Of one that nobody confirms in time nobody knows; it is never written again."""
    question_id = _id(run_id, request_id)
    known = await interactions.own(context, agent, question_id, hosts=False)
    said = LineWritten(question_id=question_id, token=done.token, written_bytes=done.written_bytes)
    try:
        return await confirm_line(context.client, said)
    except QuestionNotFound:
        return LineReport(state=known.state, written_bytes=known.written_bytes, at=known.at)


@router.post("/runs/{run_id}/interactions/{request_id}/cancel", tags=["runs"], responses=documented(409))
async def cancel(run_id: RunPath, request_id: RequestPath, context: TheContext, agent: TheAgent) -> Interaction:
    """Withdraw an interaction that nobody has answered."""
    question_id = _id(run_id, request_id)
    await interactions.own(context, agent, question_id, hosts=False)
    await interactions.withdraw(context, question_id, None)
    return await interactions.look(context, question_id, 3)


@router.post("/runs/{run_id}/progress", tags=["runs"])
async def progress(run_id: RunPath, news: NewProgress, context: TheContext, agent: TheAgent) -> Heard:
    """Say how far a run is, in at most 150 characters, or that it has ended; its conversation has one message of it.

    A run belongs to the token that says or asks something of it first.
    """
    refuse_acting_for(agent, news.requester, "ask")
    if not agent.may_ask_person(news.requester):
        raise NotAllowed(f"the token {agent.name!r} may not write to {news.requester}.")
    if news.chat_id is not None and not agent.may_ask_in(news.chat_id):
        raise NotAllowed(f"the token {agent.name!r} may not ask in the chat {news.chat_id!r}.")
    known = await context.reader.run(run_id)
    if known is not None and (known[1] != agent.principal or known[0].holder is not RunHolder.CLIENT):
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, run_id)
    start = RunStart(
        run_id=run_id, tool=news.tool, requester=news.requester, chat_id=news.chat_id, asked_by=agent.principal
    )
    if news.has_ended:
        for each in await context.reader.interactions(run_id):
            if interactions.is_open(each):
                await interactions.withdraw(context, each.question_id, RUN_ENDED)
    told = RunNews(summary=news.summary, has_ended=news.has_ended, exit_code=news.exit_code, told_by=agent.principal)
    return Heard(heard=await tell_run(context.client, start, told))
