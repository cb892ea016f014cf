"""What both doors of runs share: asking what a run asks, and telling how it stands."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Path as InPath
from pydantic import ValidationError

from assent.api.problems import Code
from assent.api.run_wire import Interaction, InteractionStatus, RunInteraction
from assent.client.door import invalid
from assent.contracts.answers import QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.questions import Question, QuestionKind, QuestionRequest
from assent.contracts.request import DEFAULT_TTL
from assent.contracts.runs import (
    RUN_ENDED,
    AnswerType,
    AskingRun,
    InteractionActor,
    InteractionAnswer,
    LineState,
    RunHolder,
    StoredInteraction,
)
from assent.contracts.signals import Withdrawal
from assent.contracts.values import Surface
from assent.errors import InteractionRefused, Unavailable
from workers.api_context import ApiContext, ask_question, in_time, refuse_asking
from workers.problems import documented
from workers.tokens import Agent

_ON_RECORD_WITHIN = timedelta(seconds=5)
_LOOKED_AT_WITHIN = timedelta(seconds=1)
_PAUSE = 0.05
ASKED: dict[int | str, dict[str, Any]] = {
    201: {"description": "A person is asked."},
    200: {"description": "The same was asked before; this is how it stands.", "model": Interaction},
    **documented(409),
}
RunPath = Annotated[str, InPath(description="The run.", pattern=r"^[A-Za-z0-9._-]{1,80}$")]


async def ask(
    context: ApiContext, agent: Agent, run_id: str, asked: RunInteraction, holder: RunHolder, **more: Any
) -> tuple[Interaction, bool]:
    """Ask what a run asks, or attach to it; whether it is new."""
    refuse_asking(agent, asked)
    try:
        run = AskingRun(
            run_id=run_id,
            holder=holder,
            tool=asked.tool,
            tool_session_id=asked.tool_session_id or run_id,
            collab_session_id=asked.thread_id or asked.chat_id,
            interaction_request_id=asked.interaction_request_id or uuid.uuid4().hex,
            answer_type=asked.answer_type,
            summary=asked.summary,
        )
        kind = QuestionKind.CHOICE if asked.answer_type is AnswerType.CHOICE else QuestionKind.TEXT
        request = QuestionRequest(
            question_id=run.question_id,
            questions=(Question(prompt=asked.prompt, kind=kind, options=asked.options),),
            requester=asked.requester,
            people=asked.people,
            members=asked.members,
            thread_id=asked.thread_id,
            chat_id=asked.chat_id,
            ttl=DEFAULT_TTL if asked.expires_in is None else timedelta(seconds=asked.expires_in),
            run=run,
            surface=Surface.HTTP,
            asked_by=agent.principal,
            **more,
        )
        request.sha256  # noqa: B018 - says where it cannot be hashed
    except ValidationError as error:
        raise invalid(error) from None
    is_new = await ask_question(context, agent, request)
    found = await in_time(context, _on_record(context, run.question_id), _ON_RECORD_WITHIN.total_seconds())
    if found is None:
        with contextlib.suppress(Unavailable):
            await context.door.questions.state(run.question_id, _LOOKED_AT_WITHIN)  # says if it was ended by hand
        known_as = f"interaction_request_id={run.interaction_request_id!r}"
        raise Unavailable(f"it is asked, and not yet on record: send the same again, with {known_as}")
    return found, is_new


async def look(context: ApiContext, question_id: str, wait: float = 0) -> Interaction:
    """An interaction as it stands; with *wait*, as soon as it was answered, has ended, or the wait is over."""

    async def news() -> Interaction:
        while True:
            found = await _seen(context, question_id)
            if found is not None and (found.is_answered or found.status is not InteractionStatus.PENDING):
                return found
            await asyncio.sleep(_PAUSE * 6)

    found = await in_time(context, news(), wait) if wait else None
    found = found or await _seen(context, question_id)
    if found is None:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, question_id)
    return found


async def _on_record(context: ApiContext, question_id: str) -> Interaction:
    while True:
        if (found := await _seen(context, question_id)) is not None:
            return found
        await asyncio.sleep(_PAUSE)


async def _seen(context: ApiContext, question_id: str) -> Interaction | None:
    stored = await context.reader.interaction(question_id)
    state = await context.reader.question(question_id) if stored else None
    return told(stored, state) if stored and state else None


def told(stored: StoredInteraction, state: QuestionState) -> Interaction:
    """An interaction on the wire. What was answered and not yet written is PENDING."""
    run, said = stored.run, (state.answers or {}).get(state.questions[0].id)
    write = {LineState.WRITTEN: "written", LineState.UNKNOWN: "unknown"}.get(stored.state)
    return Interaction(
        interaction_request_id=run.interaction_request_id,
        run_id=run.run_id,
        tool_session_id=run.tool_session_id,
        collab_session_id=run.collab_session_id,
        status=InteractionStatus(state.status.value.upper()),
        answer_type=run.answer_type,
        prompt=state.questions[0].prompt,
        options=state.questions[0].options,
        summary=run.summary,
        created_at=state.asked_at,
        expires_at=state.deadline,
        answered_by=InteractionActor.of(state.answered_by) if state.answered_by else None,
        answer=InteractionAnswer(answer_type=run.answer_type, answer_value=said) if isinstance(said, str) else None,
        write=write if state.status is not QuestionStatus.PENDING else None,
        written_bytes=stored.written_bytes if state.status is QuestionStatus.RESOLVED else None,
        processed_at=stored.at if state.status is QuestionStatus.RESOLVED else None,
        reason=state.ended_because,
        is_answered=stored.state is LineState.OFFERED and run.holder is RunHolder.CLIENT,
    )


def refusal_of(stored: StoredInteraction, state: QuestionState) -> Code | None:
    """Why no other answer is taken, if none is."""
    match state.status:
        case QuestionStatus.EXPIRED:
            return Code.INTERACTION_EXPIRED
        case QuestionStatus.CANCELLED if stored.state is LineState.UNKNOWN:
            return Code.INTERACTION_NOT_PENDING
        case QuestionStatus.CANCELLED if not stored.is_run_active or state.ended_because == RUN_ENDED:
            return Code.RUN_NOT_ACTIVE
        case QuestionStatus.CANCELLED:
            return Code.INTERACTION_NOT_PENDING
        case QuestionStatus.RESOLVED:
            return Code.ANSWER_ALREADY_CONSUMED
        case QuestionStatus.PENDING if stored.event_id is not None:
            return Code.ANSWER_ALREADY_CONSUMED
        case QuestionStatus.PENDING if not stored.is_run_active:
            return Code.RUN_NOT_ACTIVE
    return None


def is_open(stored: StoredInteraction) -> bool:
    """Whether its line may still be written."""
    return stored.state in (LineState.OPEN, LineState.OFFERED, LineState.CLAIMED)


async def withdraw(context: ApiContext, question_id: str, reason: str | None) -> None:
    await context.door.questions.withdraw(question_id, Withdrawal(reason=reason, surface=Surface.HTTP))


async def own(context: ApiContext, agent: Agent, question_id: str, *, hosts: bool) -> StoredInteraction:
    """An interaction that this agent's run has asked; to anybody else it looks like none."""
    found = await context.reader.interaction(question_id)
    holder = RunHolder.HOST if hosts else RunHolder.CLIENT
    if found is None or found.asked_by != agent.principal or found.run.holder is not holder:
        raise InteractionRefused(Code.INTERACTION_NOT_FOUND, question_id)
    return found
