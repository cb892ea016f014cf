"""The bridge to programs that run elsewhere or here: the internal HTTP API, under `/internal`."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, Query, Response
from fastapi import Path as InPath
from pydantic import TypeAdapter

from assent.api.problems import Code
from assent.api.run_wire import (
    Interaction,
    InteractionList,
    InteractionStatus,
    NewInteraction,
    StdinResult,
    StdinSubmission,
    SubmissionStatus,
)
from assent.api.wire import MAX_WAIT, NewCancellation
from assent.contracts.answers import Answer, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.runs import (
    RUN_ENDED,
    SIGNATURE_INVALID,
    LineState,
    RunHolder,
    StoredInteraction,
    interaction_id,
    is_one_line,
)
from assent.contracts.values import Id, Surface
from assent.errors import InteractionRefused, InvalidRequest, NotAllowed, Unavailable
from workers import interactions
from workers.api_context import (
    ApiContext,
    TheAgent,
    TheContext,
    agents_router,
    refuse_acting_for,
    refuse_unless_bridging,
    unquoted,
)
from workers.interactions import RunPath
from workers.problems import documented
from workers.tokens import Agent

_ANSWER_WITHIN = timedelta(seconds=8)
_WRITTEN_WITHIN = 10.0
router = agents_router("/internal")


def _interaction_path(
    interaction_id: Annotated[
        str, InPath(description="`{run_id}:{interaction_request_id}`, or an interaction_request_id, percent-encoded.")
    ],
) -> str:
    try:
        return TypeAdapter[str](Id).validate_python(unquoted(interaction_id))
    except ValueError:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, interaction_id) from None


InteractionPath = Annotated[str, Depends(_interaction_path)]


@router.post("/tool-runs/{run_id}/stdin", tags=["bridge"], responses=documented(408, 409))
async def stdin(run_id: RunPath, line: StdinSubmission, context: TheContext, agent: TheAgent) -> StdinResult:
    """Hand a running program the line that somebody answered. It is written at most once, whatever is sent again."""
    refuse_unless_bridging(agent)
    actor = _actor(line.source.actor_id)
    refuse_acting_for(agent, actor, "answer")
    question_id = interaction_id(run_id, line.interaction_request_id)
    stored, state = await _known(context, question_id)
    if stored.asked_by == agent.principal:
        raise NotAllowed(f"the token {agent.name!r} asked this itself, so it may not answer it.")
    said = _normalised(line.stdin_text)
    if stored.event_id == line.source.event_id:
        return await _written(context, question_id, line, SubmissionStatus.NOOP_IDEMPOTENT)
    if (code := interactions.refusal_of(stored, state)) is not None:
        if code is Code.RUN_NOT_ACTIVE and state.status is QuestionStatus.PENDING:
            await interactions.withdraw(context, question_id, RUN_ENDED)
        raise InteractionRefused(code, question_id)
    answer = Answer(
        question_id=question_id,
        questions_sha256=state.questions_sha256,
        answers={state.questions[0].id: said},
        actor=actor,
        event_id=line.source.event_id,
        delivery_id=hashlib.sha256(line.source.event_id.encode()).hexdigest(),
        received_at=datetime.now(UTC),
        surface=Surface.HTTP,
        proof=f"token:{agent.name}",
    )
    verdict = await context.door.questions.answer(question_id, answer, answer_within=_ANSWER_WITHIN)
    match verdict.kind:
        case VerdictKind.ACCEPTED | VerdictKind.RECEIVED:
            return await _written(context, question_id, line, SubmissionStatus.ACCEPTED)
        case VerdictKind.DUPLICATE:
            return await _written(context, question_id, line, SubmissionStatus.NOOP_IDEMPOTENT)
        case VerdictKind.FORBIDDEN:
            raise NotAllowed(f"{actor} may not answer this.")
        case VerdictKind.INVALID:
            raise InvalidRequest(f"stdin_text: {verdict.reason or 'it is no answer to this'}")
        case VerdictKind.EXPIRED:
            raise InteractionRefused(Code.INTERACTION_EXPIRED, question_id)
        case VerdictKind.MISSING:
            raise InteractionRefused(Code.INTERACTION_NOT_FOUND, question_id)
        case VerdictKind.TAMPERED if verdict.reason == SIGNATURE_INVALID:
            raise InteractionRefused(Code.LARK_SIGNATURE_INVALID, question_id)
    stored, state = await _known(context, question_id)
    raise InteractionRefused(interactions.refusal_of(stored, state) or Code.ANSWER_ALREADY_CONSUMED, question_id)


def _actor(actor_id: str) -> Identity:
    try:
        return Identity.parse(actor_id if ":" in actor_id else f"open_id:{actor_id}")
    except ValueError:
        raise InvalidRequest("source.actor_id: an open_id, or open_id:…, union_id:… or user_id:…") from None


def _normalised(text: str) -> str:
    """The answer in a line; its one line break ends it."""
    line = text.removesuffix("\n")
    if not is_one_line(line) or not line.strip():
        raise InvalidRequest("stdin_text: one line, without control characters, and one line break at its end")
    return line


async def _known(context: ApiContext, question_id: str) -> tuple[StoredInteraction, QuestionState]:
    state = await context.reader.question(question_id)
    stored = await context.reader.interaction(question_id)  # after its state: what ended with its run is told so
    if stored is None or state is None:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, question_id)
    return stored, state


async def _written(
    context: ApiContext, question_id: str, line: StdinSubmission, status: SubmissionStatus
) -> StdinResult:
    """What became of the line, once that is on record."""
    give_up = asyncio.get_running_loop().time() + _WRITTEN_WITHIN
    while True:
        stored, state = await _known(context, question_id)
        if state.status is not QuestionStatus.PENDING or context.stopping.is_set():
            break
        if asyncio.get_running_loop().time() > give_up:
            break
        await asyncio.sleep(0.1)
    if state.status is QuestionStatus.PENDING:
        raise Unavailable("the answer is taken, and not yet written. Send the same again to learn what became of it.")
    is_this = stored.event_id == line.source.event_id
    if not is_this or stored.state is not LineState.WRITTEN or stored.written_bytes is None or stored.at is None:
        raise InteractionRefused(interactions.refusal_of(stored, state) or Code.INTERACTION_NOT_PENDING, question_id)
    return StdinResult(
        status=status,
        run_id=stored.run.run_id,
        interaction_request_id=stored.run.interaction_request_id,
        written_bytes=stored.written_bytes,
        processed_at=stored.at,
    )


@router.post("/interactions", status_code=201, tags=["bridge"], responses=interactions.ASKED)
async def ask(asked: NewInteraction, context: TheContext, agent: TheAgent, response: Response) -> Interaction:
    """Ask what a program asks whose process a host owns. The host gets the normalised answer, at `callback_url`."""
    refuse_unless_bridging(agent)
    if asked.callback_url is not None and not agent.may_be_called_back_at(asked.callback_url):
        raise NotAllowed(f"the token {agent.name!r} may not be called back at this address.")
    if None not in (asked.thread_id, asked.collab_session_id) and asked.thread_id != asked.collab_session_id:
        raise InvalidRequest("collab_session_id: it is the same as thread_id; leave one of them out")
    asked = asked.model_copy(update={"thread_id": asked.thread_id or asked.collab_session_id})
    found, is_new = await interactions.ask(
        context, agent, asked.run_id, asked, RunHolder.HOST, callback_url=asked.callback_url
    )
    response.status_code = 201 if is_new else 200
    return found


@router.get("/interactions", tags=["bridge"])
async def listing(
    context: TheContext,
    agent: TheAgent,
    run_id: Annotated[str, Query(description="The run whose interactions are meant.", max_length=80)],
    status: Annotated[InteractionStatus | None, Query(description="Only those that stand so.")] = None,
) -> InteractionList:
    """What a run has asked, in order."""
    refuse_unless_bridging(agent)
    found = []
    for stored in await context.reader.interactions(run_id):
        state = await context.reader.question(stored.question_id)
        if state is not None and _may_see(agent, stored, state):
            found.append(interactions.told(stored, state))
    return InteractionList(interactions=tuple(each for each in found if status in (None, each.status)))


@router.get("/interactions/{interaction_id}", tags=["bridge"])
async def look(
    interaction_id: InteractionPath,
    context: TheContext,
    agent: TheAgent,
    run_id: Annotated[str | None, Query(description="The run, where the path does not say.", max_length=80)] = None,
    wait: Annotated[int, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for its end, if need be.")] = 0,
) -> Interaction:
    """How an interaction stands."""
    refuse_unless_bridging(agent)
    stored = await _visible(context, agent, interaction_id, run_id)
    return await interactions.look(context, stored.question_id, wait)


@router.post("/interactions/{interaction_id}/cancel", tags=["bridge"], responses=documented(409))
async def cancel(
    interaction_id: InteractionPath,
    context: TheContext,
    agent: TheAgent,
    asked: NewCancellation | None = None,
    run_id: Annotated[str | None, Query(description="The run, where the path does not say.", max_length=80)] = None,
) -> Interaction:
    """Withdraw an interaction of a host's, while nobody has answered."""
    refuse_unless_bridging(agent)
    stored = await _visible(context, agent, interaction_id, run_id)
    if stored.asked_by != agent.principal or stored.run.holder is not RunHolder.HOST:
        raise NotAllowed("an interaction ends with its run; only whoever asked it withdraws it.")
    found = await interactions.look(context, stored.question_id)
    if found.status is InteractionStatus.PENDING:
        await interactions.withdraw(context, stored.question_id, asked.reason if asked else None)
        found = await interactions.look(context, stored.question_id, 3)
    if found.status is not InteractionStatus.CANCELLED:
        stored, state = await _known(context, stored.question_id)
        code = interactions.refusal_of(stored, state) or Code.INTERACTION_NOT_PENDING
        raise InteractionRefused(code, stored.question_id)
    return found


async def _visible(context: ApiContext, agent: Agent, named: str, run_id: str | None) -> StoredInteraction:
    """The interaction that is meant, if this token may see it; to anybody else it looks like none."""
    candidates = [await context.reader.interaction(f"{run_id}:{named}" if run_id else named)]
    if candidates == [None] and run_id is None:
        candidates = [*await context.reader.interactions_named(named)]
    found = []
    for stored in candidates:
        state = await context.reader.question(stored.question_id) if stored else None
        if stored is not None and state is not None and _may_see(agent, stored, state):
            found.append(stored)
    if len(found) != 1:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, named)
    return found[0]


def _may_see(agent: Agent, stored: StoredInteraction, state: QuestionState) -> bool:
    """Whoever asked it; of a call's program not the agent, but whoever may act for those who answer."""
    if stored.asked_by == agent.principal:
        return stored.run.holder is RunHolder.HOST
    groups = state.deciders.groups if state.deciders else ()
    people = [person for group in groups for person in group.approvers.people]
    return any(agent.speaks_for(person) for person in (state.requester, *people))
