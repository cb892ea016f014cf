"""What every question to the API passes: who asks, what about, and whether it may be seen by whoever asks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from temporalio.client import Client

from assent import strict_json
from assent.api.problems import Code, problem_of
from assent.api.question_wire import NewQuestion
from assent.api.run_wire import RunInteraction
from assent.client.door import Approval, FrozenReview
from assent.client.reader import Stored
from assent.contracts.approvers import Deciders
from assent.contracts.decision import Stage
from assent.contracts.identity import Identity
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import DAY, Exceeded, Quota
from assent.contracts.request import Request as Asking
from assent.contracts.state import State
from assent.contracts.values import Id
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    ConversationBusy,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
    Unhashable,
)
from assent.payload import MAX_VALUES
from assent.temporal.door import TemporalDoor
from assent.watched import Watched
from ledger import Reader
from workers.problems import Refusal, documented, refuse
from workers.rates import Rates
from workers.tokens import Agent, Tokens

STATE_WITHIN = timedelta(seconds=5)
MOST_LISTED = 1000
MOST_SEARCHED = 20_000
"""How many lines are looked through for those that a token may see."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class ApiContext:
    """What the API works with."""

    door: TemporalDoor
    reader: Reader
    tokens: Watched[Tokens]
    client: Client
    rates: Rates = field(default_factory=Rates)
    started: Rates = field(default_factory=lambda: Rates(window=DAY.total_seconds()))
    """The bytes that were started with: Temporal keeps them, also of what is refused when it is prepared."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process is to end: nobody is kept waiting any longer."""


_AROUND = 100
"""How many values stand around the arguments of a call, at most."""
_MOST_TOLD = MAX_VALUES + _AROUND
_MOST_QUESTIONING = 2000
"""How many values there are in what asks ten questions with twenty options each, and around it."""
MOST_IN_BUNDLE = 5 * MAX_VALUES
"""How many values all calls of a bundle may hold together: each is looked at before anybody else's turn comes."""


def _refuse_unless_asking(agent: Agent) -> None:
    if not agent.tools:
        raise NotAllowed(f"the token {agent.name!r} may not ask for any tool.")
    if not agent.on_behalf_of:
        raise NotAllowed(f"the token {agent.name!r} may not ask on behalf of anybody.")


def _refuse_unless_questioning(agent: Agent) -> None:
    if not agent.asks or not agent.on_behalf_of:
        raise NotAllowed(f"the token {agent.name!r} may not ask anybody questions.")


def refuse_unless_deciding(agent: Agent) -> None:
    """Refuse a token that may not tell what people decide."""
    if not agent.may_decide:
        raise NotAllowed(f"the token {agent.name!r} may not decide.")


def refuse_unless_settling(agent: Agent) -> None:
    """Refuse a token that may not tell what operators found out."""
    if not agent.may_settle:
        raise NotAllowed(f"the token {agent.name!r} may not settle.")


def refuse_unless_bridging(agent: Agent) -> None:
    """Refuse a token that may not speak for running programs."""
    if not agent.may_bridge:
        raise NotAllowed(f"the token {agent.name!r} may not bridge.")


_BEFORE_READING: dict[str, tuple[Callable[[Agent], None], int]] = {
    "/v1/approvals": (_refuse_unless_asking, _MOST_TOLD),
    "/v1/bundles": (_refuse_unless_asking, MOST_IN_BUNDLE),
    "/v1/questions": (_refuse_unless_questioning, _MOST_QUESTIONING),
    "/v1/questions/{question_id}/answer": (refuse_unless_deciding, _MOST_QUESTIONING),
    "/v1/approvals/{approval_id}/decide": (refuse_unless_deciding, _MOST_TOLD),
    "/v1/runs/{run_id}/interactions": (_refuse_unless_questioning, _MOST_QUESTIONING),
    "/internal/interactions": (refuse_unless_bridging, _MOST_QUESTIONING),
    "/internal/tool-runs/{run_id}/stdin": (refuse_unless_bridging, _AROUND),
    "/v1/frozen/{approval_id}/settle": (refuse_unless_settling, strict_json.MOST_VALUES),
}
"""Which tokens are refused whatever the body says, and how many values of it are read at most."""


class _AgentRequest(Request):
    """A request whose JSON is read strictly."""

    most_values = _AROUND

    async def json(self) -> Any:
        try:
            return strict_json.parse(await self.body(), most_values=self.most_values)
        except strict_json.TooManyValues:
            crowded = InvalidRequest(
                f"the body holds more than {self.most_values} values, of which a call may hold {MAX_VALUES}; "
                "store the large part elsewhere and pass a reference to it, or send it as a string."
            )
            raise Refusal(problem_of(crowded)) from None
        except strict_json.NotJson as error:
            raise refuse(Code.MALFORMED, str(error)) from None
        except Unhashable as error:
            raise Refusal(problem_of(error)) from None


class _AgentRoute(APIRoute):
    """A route that reads nothing of a request before it knows the agent."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def known(request: Request) -> Response:
            agent = request.state.agent = _authenticated(request)
            refuse_hurry(_context(request), agent)
            strict = _AgentRequest(request.scope, request.receive)
            if self.body_field is not None:
                _expect_json(request)
                if self.path in _BEFORE_READING:
                    check, strict.most_values = _BEFORE_READING[self.path]
                    check(agent)
            return await handle(strict)

        return known


def _authenticated(request: Request) -> Agent:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    agent = _context(request).tokens.held.find(token.strip()) if scheme.lower() == "bearer" else None
    challenge = {"WWW-Authenticate": 'Bearer realm="assent"'}
    if agent is None:
        raise refuse(Code.UNAUTHENTICATED, "no token of this installation was shown", challenge)
    if agent.has_expired(datetime.now(UTC)):
        raise refuse(Code.UNAUTHENTICATED, f"the token {agent.name!r} has expired", challenge)
    return agent


def refuse_hurry(context: ApiContext, agent: Agent, count: int = 1) -> None:
    """Refuse an agent that asks more often than it may."""
    wait = context.rates.take(agent.principal, agent.requests_per_minute, count)
    if wait is not None:
        raise QuotaExceeded(Quota.REQUESTS, agent.requests_per_minute, wait)


async def _attach(context: ApiContext, requests: Iterable[Asking | QuestionRequest]) -> bool:
    """Whether all of them were made before: they store nothing."""
    known = [
        await context.reader.question(request.question_id)
        if isinstance(request, QuestionRequest)
        else await context.reader.subject(request.approval_id)
        for request in requests
    ]
    return None not in known


async def refuse_too_much(context: ApiContext, agent: Agent, *requests: Asking | QuestionRequest) -> int:
    """Refuse an agent that has asked for too much already, before anything is started; the bytes that were counted.

    Whoever is as fast as another of its requests is refused when it is prepared, where they are counted one by one.
    """
    size = sum(len(request.model_dump_json()) for request in requests)
    over = await context.reader.exceeded(agent.principal, agent.limits, size=size, more=len(requests))
    if over is None and (wait := context.started.take(agent.principal, agent.bytes_per_day, size)):
        over = Exceeded(quota=Quota.BYTES, limit=agent.bytes_per_day, retry_after=wait)
    if over is not None and not await _attach(context, requests):
        raise QuotaExceeded(over.quota, over.limit, over.retry_after)
    return size if over is None else 0


def refuse_acting_for(agent: Agent, person: Identity, what: str) -> None:
    """Refuse a token that may not do this for *person*, and whoever is said to be of another company."""
    refuse_outsider(agent, person)
    if not agent.may_act_for(person):
        raise NotAllowed(f"the token {agent.name!r} may not {what} on behalf of {person}, by all ids given.")


def refuse_asking(agent: Agent, asked: NewQuestion | RunInteraction) -> None:
    """Refuse a token that may not ask on behalf of this person, or not those who would answer, or not there."""
    refuse_acting_for(agent, asked.requester, "ask")
    for person in asked.people:
        refuse_outsider(agent, person)
    answering = asked.people if asked.people or asked.members else (asked.requester,)
    for person in answering:
        if not agent.may_ask_person(person):
            raise NotAllowed(f"the token {agent.name!r} may not ask {person} questions, by all ids given.")
    if asked.members and asked.chat_id is not None and not agent.may_ask_members(asked.chat_id):
        raise NotAllowed(f"the token {agent.name!r} may not ask the members of the chat {asked.chat_id!r}.")
    if asked.chat_id is not None and not agent.may_ask_in(asked.chat_id):
        raise NotAllowed(f"the token {agent.name!r} may not ask in the chat {asked.chat_id!r}.")


async def ask_question(context: ApiContext, agent: Agent, request: QuestionRequest) -> bool:
    """Ask, within what the agent may ask for; whether it is new."""
    counted = await refuse_too_much(context, agent, request)
    is_new = await context.door.questions.ask(request, agent.limits)
    if not is_new and counted:
        context.started.give_back(agent.principal, counted)
    return is_new


def refuse_outsider(agent: Agent, person: Identity) -> None:
    """Refuse a tenant that is not the installation's: under its name, a person would be another one."""
    if person.is_outside(agent.tenant_key):
        raise InvalidRequest("tenant_key: this is not the tenant of this installation; leave it out")


def _expect_json(request: Request) -> None:
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise refuse(Code.MALFORMED, "the body must be JSON: send the header Content-Type: application/json")


def _context(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    return context


def _agent(request: Request) -> Agent:
    agent: Agent = request.state.agent
    return agent


def _approval_id(
    approval_id: Annotated[
        str, InPath(description="The approval's id, percent-encoded as one segment: a slash in it is %2F.")
    ],
) -> str:
    """The id, which reaches us as it was sent: only so a slash in an id can be told from one in the path."""
    try:
        return TypeAdapter[str](Id).validate_python(unquoted(approval_id))
    except ValueError:
        raise ApprovalNotFound(approval_id) from None


def unquoted(segment: str) -> str:
    """A segment of a path as it was meant. Raises ValueError where that is no text."""
    return unquote(segment, errors="strict")


TheContext = Annotated[ApiContext, Depends(_context)]
TheAgent = Annotated[Agent, Depends(_agent)]
ApprovalId = Annotated[str, Depends(_approval_id)]


def agents_router(prefix: str = "/v1") -> APIRouter:
    """Paths for whoever shows a token."""
    return APIRouter(
        prefix=prefix,
        route_class=_AgentRoute,
        dependencies=[Security(HTTPBearer(auto_error=False, description="A token from the operator."))],
        responses=documented(400, 401, 403, 404, 413, 422, 429, 503),
    )


def sees_any(agent: Agent) -> bool:
    """Whether there can be anything that it may see: where not, nothing is looked through."""
    return bool(agent.tools and agent.on_behalf_of)


def may_list(agent: Agent, line: Approval | FrozenReview) -> bool:
    """Whether a line may be seen. It names the requester by one id only, which must be one that the token names."""
    if line.tool is None or not agent.may_ask_for(line.tool):
        return False
    return agent.people is None or line.requester in agent.people


async def visible(context: ApiContext, agent: Agent, approval_id: str) -> State:
    """The approval, if this agent may see it; to anyone else it looks like none.

    Whoever may not see it costs the same statements as an id that nobody has: how long it takes tells nothing.
    """
    subject = await context.reader.subject(approval_id)
    if subject is not None and not agent.may_see(subject.tool, subject.requester):
        subject, asked = None, uuid.uuid4().hex
    else:
        asked = approval_id
    try:
        state = await context.door.state(asked, STATE_WITHIN)
    except ApprovalNotFound:
        raise ApprovalNotFound(approval_id) from None
    except (ApprovalInterrupted, ApprovalConflict, ConversationBusy):
        if subject is None:
            raise ApprovalNotFound(approval_id) from None
        raise
    if not agent.may_see(state.tool, state.requester):
        raise ApprovalNotFound(approval_id)
    return state


async def visible_in_any_case(context: ApiContext, agent: Agent, approval_id: str) -> State:
    """The approval, if this agent may see it, also one that was ended by hand: its call may have frozen."""
    try:
        return await visible(context, agent, approval_id)
    except (ApprovalInterrupted, ApprovalConflict, ConversationBusy):
        return await context.door.recorded_state(approval_id)


async def in_time(context: ApiContext, asked: Coroutine[Any, Any, _Answer], within: float) -> _Answer | None:
    """The answer, if it is there in time and the process goes on."""
    answering = asyncio.ensure_future(asked)
    stopping = asyncio.ensure_future(context.stopping.wait())
    try:
        await asyncio.wait({answering, stopping}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        answering.cancel()
        stopping.cancel()


def may_judge(agent: Agent, state: State) -> bool:
    """Whether this agent may tell what people decide about it; never about what it asked for itself."""
    return agent.may_decide and state.asked_by != agent.principal


def may_see_question(
    agent: Agent,
    requester: Identity,
    asked_by: str | None,
    deciders: Deciders | None,
    *,
    is_tools: bool = False,
) -> bool:
    """Whether a question is this agent's own, or one that it may tell the answer of.

    is_tools: whether the tool asks of a call that the agent asked for: then the answer is the tool's alone.
    """
    if asked_by == agent.principal:
        return not is_tools and agent.speaks_for(requester)
    if not agent.may_decide:
        return False
    people = [person for group in deciders.groups for person in group.approvers.people] if deciders else []
    return any(agent.speaks_for(person) for person in (requester, *people))


def told(agent: Agent, state: State) -> State:
    """The approval as this agent may know it: of a result that waits, its hash is for those who decide about it.

    From the hash of a short result the result can be guessed.
    """
    if may_judge(agent, state):
        return state
    decisions = tuple(
        judged.model_copy(update={"payload_sha256": None}) if judged.stage is Stage.RESULT else judged
        for judged in state.decisions
    )
    return state.model_copy(update={"result_sha256": None, "decisions": decisions})


def streamed(found: Stored) -> StreamingResponse:
    """A stored result on its way, a piece at a time: no process holds the whole of it."""
    headers = {"Content-Length": str(found.size)}
    return StreamingResponse(found.chunks(), headers=headers, media_type="application/json")
