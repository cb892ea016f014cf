"""The HTTP API for questions: ask, wait, answer, withdraw."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, Query, Response
from fastapi import Path as InPath
from pydantic import TypeAdapter

from assent.api.question_wire import NewAnswer, NewQuestion, QuestionList, QuestionTrail, QuestionView
from assent.api.wire import MAX_WAIT, NewCancellation, path_segment
from assent.client.door import AskedQuestion, invalid, parse_questions
from assent.contracts.answers import Answer, AnswerVerdict, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.signals import Withdrawal
from assent.contracts.values import Id, Surface
from assent.errors import InvalidRequest, NotAllowed, QuestionNotFound, Unavailable
from assent.sizes import ANSWER, size
from workers.api_context import (
    MOST_LISTED,
    MOST_SEARCHED,
    STATE_WITHIN,
    ApiContext,
    TheAgent,
    TheContext,
    agents_router,
    ask_question,
    in_time,
    may_see_question,
    refuse_acting_for,
    refuse_asking,
    unquoted,
)
from workers.inbox_api import refuse_who_may_not_decide
from workers.problems import documented
from workers.tokens import Agent

_TAKEN_WITHIN = timedelta(seconds=1)
_ANSWER_WITHIN = timedelta(seconds=8)
_WITHDRAWN_WITHIN = 3.0
"""How long a withdrawal may take to be on record before the answer says how it stands."""

router = agents_router()


def _question_id(
    question_id: Annotated[
        str, InPath(description="The question's id, percent-encoded as one segment: a slash in it is %2F.")
    ],
) -> str:
    try:
        return TypeAdapter[str](Id).validate_python(unquoted(question_id))
    except ValueError:
        raise QuestionNotFound(question_id) from None


QuestionId = Annotated[str, Depends(_question_id)]


@router.post(
    "/questions",
    status_code=201,
    tags=["questions"],
    responses={
        201: {"description": "A person is asked.", "headers": {"Location": {"schema": {"type": "string"}}}},
        200: {"description": "The same was asked before; this is how it stands.", "model": QuestionView},
        **documented(409),
    },
)
async def ask(asked: NewQuestion, context: TheContext, agent: TheAgent, response: Response) -> QuestionView:
    """Ask a person one to ten questions. Repeating a request under its question id attaches to it."""
    _refuse_beyond_rights(asked, agent)
    question_id = asked.question_id or str(uuid.uuid4())
    fields = {name: getattr(asked, name) for name in NewQuestion.model_fields}
    request = parse_questions(
        fields.pop("questions"),
        **{**fields, "question_id": question_id},
        surface=Surface.HTTP,
        asked_by=agent.principal,
    )
    is_new = await ask_question(context, agent, request)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/questions/{path_segment(question_id)}"
    try:
        state = await context.door.questions.state(question_id, _TAKEN_WITHIN)
    except Unavailable:
        return QuestionView(question_id=question_id, status=QuestionStatus.PENDING)
    return await _view(context, state)


def _refuse_beyond_rights(asked: NewQuestion, agent: Agent) -> None:
    refuse_asking(agent, asked)
    if asked.reply_to is not None and agent.is_bound_to_chats:
        raise NotAllowed(f"the token {agent.name!r} may ask in certain chats alone: leave reply_to out.")
    if asked.callback_url is not None and not agent.may_be_called_back_at(asked.callback_url):
        raise NotAllowed(f"the token {agent.name!r} may not be called back at this address.")


@router.get("/questions", tags=["questions"])
async def listing(
    context: TheContext,
    agent: TheAgent,
    status: Annotated[QuestionStatus | None, Query(description="Only those that stand so.")] = None,
    thread_id: Annotated[str | None, Query(description="Only those of this conversation.", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
) -> QuestionList:
    """The questions that are still known and that this token may see, open ones first, then the newest."""
    found: list[AskedQuestion] = []
    if not agent.on_behalf_of:
        return QuestionList(questions=())
    lines = context.door.questions.questions(
        status=status, thread_id=thread_id, limit=MOST_SEARCHED, requesters=agent.people or ()
    )
    async for line in lines:
        if await _may_list(context, agent, line):
            found.append(line)
        if len(found) == limit:
            break
    return QuestionList(questions=tuple(found))


async def _may_list(context: ApiContext, agent: Agent, line: AskedQuestion) -> bool:
    if agent.people is not None and line.requester not in agent.people:
        return False
    if agent.may_decide:
        return True
    asked = await context.reader.question(line.question_id)
    return asked is not None and asked.asked_by == agent.principal


@router.get("/questions/{question_id}", tags=["questions"], responses=documented(409))
async def look(
    question_id: QuestionId,
    context: TheContext,
    agent: TheAgent,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for the end, if need be.")] = 0,
) -> QuestionView:
    """The question as it stands; with `wait`, as soon as it has ended or the wait is over."""
    return await _view(context, await _visible(context, agent, question_id), wait)


@router.post("/questions/{question_id}/answer", tags=["questions"], responses=documented(409))
async def answer(question_id: QuestionId, made: NewAnswer, context: TheContext, agent: TheAgent) -> AnswerVerdict:
    """Tell what a person answered, with a token that may decide. No token answers what it asked itself."""
    refuse_who_may_not_decide(agent, made.actor)
    state = await _visible(context, agent, question_id)
    if state.asked_by == agent.principal:
        raise NotAllowed(f"the token {agent.name!r} asked this question, so it may not answer it.")
    try:
        given = Answer(
            question_id=question_id,
            questions_sha256=made.questions_sha256,
            answers=made.answers,
            actor=made.actor,
            event_id=made.event_id or str(uuid.uuid4()),
            delivery_id=made.delivery_id or uuid.uuid4().hex,
            received_at=datetime.now(UTC),
            surface=Surface.HTTP,
            proof=f"token:{agent.name}",
        )
    except ValueError as error:
        raise invalid(error) from None
    if size(given) > ANSWER:
        raise InvalidRequest(f"answers: all of them together hold at most {ANSWER} bytes")
    return await context.door.questions.answer(question_id, given, answer_within=_ANSWER_WITHIN)


@router.post("/questions/{question_id}/cancel", tags=["questions"], responses=documented(409))
async def cancel(
    question_id: QuestionId, context: TheContext, agent: TheAgent, asked: NewCancellation | None = None
) -> QuestionView:
    """Withdraw a question. Does nothing once somebody has answered: the answer says how it stands."""
    wish = asked or NewCancellation()
    if wish.actor is not None:
        refuse_acting_for(agent, wish.actor, "withdraw")
    state = await _visible(context, agent, question_id)
    if state.approval_id is not None:
        raise NotAllowed("a question of a running tool ends with its call; only that withdraws it.")
    await context.door.questions.withdraw(
        question_id, Withdrawal(reason=wish.reason, actor=wish.actor, surface=Surface.HTTP)
    )
    state = await context.door.questions.state(question_id, STATE_WITHIN)
    return await _view(context, state, _WITHDRAWN_WITHIN if state.status is QuestionStatus.PENDING else 0)


@router.get("/questions/{question_id}/audit", tags=["audit"], responses=documented(409))
async def audit(question_id: QuestionId, context: TheContext, agent: TheAgent) -> QuestionTrail:
    """Who asked, who was shown it, and who answered on which proof; each line is chained."""
    await _visible(context, agent, question_id)
    return QuestionTrail(question_id=question_id, entries=tuple(await context.door.questions.audit(question_id)))


async def _visible(context: ApiContext, agent: Agent, question_id: str) -> QuestionState:
    """The question, if this agent may see it; to anyone else it looks like none.

    That is the agent that asked, and whoever may tell what the people say who are asked.
    """
    known = await context.reader.question(question_id)
    if known is not None and not may_see_question(
        agent, known.requester, known.asked_by, known.deciders, is_tools=known.tool is not None
    ):
        raise QuestionNotFound(question_id)
    state = await context.door.questions.state(question_id, STATE_WITHIN)
    if not _sees(agent, state):
        raise QuestionNotFound(question_id)
    return state


def _sees(agent: Agent, state: QuestionState) -> bool:
    is_tools = state.tool is not None
    return may_see_question(agent, state.requester, state.asked_by, state.deciders, is_tools=is_tools)


async def _view(context: ApiContext, state: QuestionState, wait: float = 0) -> QuestionView:
    """A question as it is told, after it has ended or the wait is over."""
    outcome = None
    is_over = state.status is not QuestionStatus.PENDING
    if wait or is_over:
        ending = context.door.questions.outcome(state.question_id)
        outcome = await in_time(context, ending, max(wait, 1.0))
        if not is_over:
            state = await context.door.questions.state(state.question_id, STATE_WITHIN)
    return QuestionView(question_id=state.question_id, status=state.status, state=state, outcome=outcome)
