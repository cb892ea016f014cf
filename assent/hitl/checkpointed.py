"""A channel through the service: what is asked is durable, on cards, and bound to people."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from assent.client.client import Assent
from assent.client.handle import ApprovalHandle
from assent.contracts.answers import AnswerVerdict
from assent.contracts.asking import QuestionState
from assent.contracts.decision import Verdict, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.request import WhenPending
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.errors import (
    ApprovalConflict,
    ApprovalNotFound,
    ConversationBusy,
    InvalidRequest,
    LedgerNeeded,
    NotAllowed,
    Unavailable,
)
from assent.hitl import asked
from assent.hitl.answers import parse_answer, parse_approve_answer
from assent.hitl.channel import DEFAULT_TIMEOUT, Asking, WaitingChannel
from assent.hitl.durable import DurableIds
from assent.hitl.exceptions import (
    HitlCancelled,
    HitlConcurrencyError,
    HitlNoPendingRequest,
    HitlStaleAnswer,
    HitlTimedOut,
)
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest
from assent.names import AGENT_CALL
from assent.payload import argument_values, canonical_json

_DECISIONS = {"approve": "approve", "deny": "reject", "edit": "edit"}
_MOST_DETAILS = 4000
_CANCELLED_WITHIN = 5.0
"""How long a cancellation waits to be on record."""


class CheckpointedChannel(WaitingChannel):
    """Requests that survive the process: `approve` is an approval of `agent_call`, decided as any other; `confirm` and
    `ask` are questions.

    gate: the agent's own connection.
    requester: on whose behalf it asks, and who decides unless a rule says otherwise.
    host: a connection that may decide, for `answer` and `respond`; the agent's own may not, except over Temporal.
    actor: who answers through it; the requester, if nobody is named.
    chat_id, reply_to: where cards go, instead of the private chats of those who may decide.
    """

    def __init__(
        self,
        gate: Assent,
        thread_id: str,
        requester: Identity,
        *,
        host: Assent | None = None,
        actor: Identity | None = None,
        chat_id: str | None = None,
        reply_to: str | None = None,
        default_timeout: float | timedelta | None = DEFAULT_TIMEOUT,
        allow_inside_custom_tool: bool = False,
    ) -> None:
        super().__init__(thread_id, default_timeout=default_timeout, allow_inside_custom_tool=allow_inside_custom_tool)
        self._gate = gate
        self._requester = requester
        self._host = host or (gate if gate.may_decide_anything else None)
        self._actor = actor or requester
        self._chat_id, self._reply_to = chat_id, reply_to
        self._ids = DurableIds(gate, thread_id, requester)
        self._asked_questions = asked.AskedQuestions(gate, thread_id)

    # The host's side

    async def answer(self, question_id: str, answer: Any) -> None:
        """Answer as `actor`, through `host`. What was not offered is refused, and the request stays open."""
        state = await self._open_state(question_id)
        if isinstance(state, QuestionState):
            await self._answer_question(question_id, state, answer)
        else:
            await self._decide(question_id, state, parse_approve_answer(answer))

    async def _answer_question(self, question_id: str, state: QuestionState, answer: Any) -> None:
        request = asked.request_of(question_id, state, self.thread_id)
        given = parse_answer(request, answer)
        verdict = await self._deciding.question(state.question_id).respond(
            {asked.CONFIRMED: given} if request.kind is HitlKind.CONFIRM else given,
            actor=self._actor,
            questions_sha256=state.questions_sha256,
        )
        self._refuse_unless_counted(question_id, verdict)

    async def _decide(self, question_id: str, state: State, decided: ApproveAnswer) -> None:
        arguments = decided.edited_args
        if arguments is not None and state.tool == AGENT_CALL:
            arguments = {**argument_values(state.payload or "{}"), "arguments": arguments}
        verdict = await self._deciding.approval(state.approval_id).decide(
            _DECISIONS[decided.decision],
            actor=self._actor,
            payload_sha256=state.payload_sha256,
            reason=decided.reason,
            arguments=arguments,
        )
        self._refuse_unless_counted(question_id, verdict)

    @property
    def _deciding(self) -> Assent:
        if self._host is None:
            raise NotAllowed(
                "whoever asks does not answer: give the channel a host, a connection with a token that may decide."
            )
        return self._host

    def _refuse_unless_counted(self, question_id: str, verdict: Verdict | AnswerVerdict) -> None:
        match verdict.kind:
            case VerdictKind.ACCEPTED | VerdictKind.DUPLICATE | VerdictKind.RECEIVED:
                return
            case VerdictKind.FORBIDDEN:
                raise NotAllowed(f"{self._actor} may not decide this.")
            case VerdictKind.INVALID:
                raise InvalidRequest(verdict.reason or "it cannot be decided so")
            case _:
                raise HitlStaleAnswer(f"{question_id!r} was answered before, or has ended ({verdict.kind})")

    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        """Withdraw the open request."""
        state = await self._open_state(question_id)
        if isinstance(state, QuestionState):
            question = self._gate.question(state.question_id)
            await question.cancel(reason)
            ended: Awaitable[Any] = question.answer()
        else:
            approval = self._gate.approval(state.approval_id)
            await approval.cancel(reason)
            ended = approval.outcome()
        with suppress(TimeoutError):  # it is on its way, and nobody has to wait for its end
            await asyncio.wait_for(ended, _CANCELLED_WITHIN)

    async def load_pending(self, *question_ids: str) -> HitlRequest | None:
        """The open request of the thread as the service has it, whichever process asked."""
        for question_id in question_ids:
            durable_id = await self._ids.of(question_id)
            state = await self._state_of(durable_id)
            if state is not None and _is_open(state):
                return self._request(question_id, state)
            question = await self._asked_questions.state(durable_id) if state is None else None
            if question is not None and asked.is_open(question):
                return asked.request_of(question_id, question, self.thread_id)
        async for approval in self._gate.approvals(status=Phase.PENDING, thread_id=self.thread_id):
            state = await self._state_of(approval.approval_id)
            if state is None or not _is_open(state) or state.tool_call_id is None:
                continue
            if await self._ids.of(state.tool_call_id) == approval.approval_id:
                return self._request(state.tool_call_id, state)
        for question in await self._asked_questions.pending(self._requester):
            named = await self._name_of(question, question_ids)
            if named is not None:
                return asked.request_of(named, question, self.thread_id)
        return None

    async def _name_of(self, question: QuestionState, call_ids: Sequence[str]) -> str | None:
        """What a question of this channel is called here: after the call that asks it, or after its own words."""
        by_calls = (f"{call_id}:{number}" for call_id in call_ids for number in range(1, 11))
        by_words = (asked.name_of(question.questions, number) for number in range(1, asked.MOST_LIKE_IT + 1))
        for name in (*by_calls, *by_words):
            if await self._ids.of(name) == question.question_id:
                return name
        return None

    # Asking

    async def _unnamed(self, kind: HitlKind, payload: dict[str, Any]) -> str:
        """The same words once more are another question; as long as the former is open, they are that one."""
        questions = asked.questions_of(kind, payload)
        for number in range(1, asked.MOST_LIKE_IT + 1):
            name = asked.name_of(questions, number)
            state = await self._asked_questions.state(await self._ids.of(name))
            if state is None or asked.is_open(state):
                return name
        return uuid.uuid4().hex

    async def _open(self, asking: Asking) -> tuple[HitlRequest, bool]:
        other = await self.load_pending(asking.question_id)
        if other is not None and other.question_id != asking.question_id:
            raise HitlConcurrencyError(f"a request is open already ({other.question_id}); a thread has one at most")
        if asking.kind is not HitlKind.APPROVE:
            return await self._open_question(asking)
        call = {"name": asking.payload["tool_name"], "arguments": asking.payload["args"]}
        approval_id = await self._ids.of(asking.question_id)
        known = await self._state_of(approval_id)
        if known is None:
            known = await self._asked(approval_id, asking, call)
            from_resume = False
        else:
            _refuse_another(known, call)
            from_resume = True
        return self._request(asking.question_id, known, asking), from_resume

    async def _open_question(self, asking: Asking) -> tuple[HitlRequest, bool]:
        state, from_resume = await self._asked_questions.open(
            await self._ids.of(asking.question_id),
            asking.kind,
            asking.payload,
            asking.seconds,
            requester=self._requester,
            chat_id=self._chat_id,
            reply_to=self._reply_to,
            reason=_details(asking.payload.get("details")),
        )
        now = datetime.now(UTC)
        standing = asked.request_of(asking.question_id, state, self.thread_id) if state else None
        request = HitlRequest(
            question_id=asking.question_id,
            kind=asking.kind,
            thread_id=self.thread_id,
            payload=asking.payload,
            created_at=standing.created_at if standing else now,
            deadline=state.deadline if state and state.deadline else now + timedelta(seconds=asking.seconds),
        )
        return request, from_resume

    async def _asked(self, approval_id: str, asking: Asking, call: dict[str, Any]) -> State | None:
        try:
            handle = await self._gate.request(
                AGENT_CALL,
                call,
                requester=self._requester,
                approval_id=approval_id,
                tool_call_id=asking.question_id,
                thread_id=self.thread_id,
                when_pending=WhenPending.FAIL,
                ttl=timedelta(seconds=asking.seconds),
                reason=_details(asking.payload["details"]),
                chat_id=self._chat_id,
                reply_to=self._reply_to,
            )
        except ConversationBusy as error:
            raise HitlConcurrencyError(f"{error} A thread has one open request at most.") from error
        except ApprovalConflict:  # another process asked a moment ago, and gave it another time
            standing = await self._state_of(approval_id)
            if standing is None:
                raise
            _refuse_another(standing, call)
            return standing
        return await self._state_of(handle.id)

    async def _answer_to(self, request: HitlRequest) -> Any:
        durable_id = await self._ids.of(request.question_id)
        if request.kind is not HitlKind.APPROVE:
            return await self._asked_questions.answer_to(durable_id, request)
        handle: ApprovalHandle = self._gate.approval(durable_id)
        return _answer(await handle.outcome(), (request.deadline - request.created_at).total_seconds())

    # What the service knows

    async def _open_state(self, question_id: str) -> State | QuestionState:
        durable_id = await self._ids.of(question_id)
        state = await self._state_of(durable_id)
        if state is not None and _is_open(state):
            return state
        question = await self._asked_questions.state(durable_id) if state is None else None
        if question is not None and asked.is_open(question):
            return question
        other = await self.load_pending()
        if other is not None and other.question_id != question_id:
            raise HitlStaleAnswer(f"{question_id!r} is not the request that is open; it changed nothing")
        raise HitlNoPendingRequest

    async def _state_of(self, approval_id: str) -> State | None:
        try:
            return await self._gate.approval(approval_id).state()
        except (ApprovalNotFound, LedgerNeeded, Unavailable):  # asked for again, it attaches where it is known
            return None

    def _request(self, question_id: str, state: State | None, asking: Asking | None = None) -> HitlRequest:
        payload = asking.payload if asking else _payload(question_id, state)
        created = state.asked_at if state and state.asked_at else datetime.now(UTC)
        left = timedelta(seconds=asking.seconds) if asking else timedelta(0)
        return HitlRequest(
            question_id=question_id,
            kind=HitlKind.APPROVE,
            thread_id=self.thread_id,
            payload=payload,
            created_at=created,
            deadline=state.deadline if state and state.deadline else created + left,
        )


def _is_open(state: State) -> bool:
    return state.phase is Phase.PENDING and state.decided_by is None


def _payload(question_id: str, state: State | None) -> dict[str, Any]:
    arguments = argument_values(state.payload) if state and state.payload else {}
    is_own = state is not None and state.tool == AGENT_CALL
    return {
        "tool_name": arguments.get("name") if is_own else state and state.tool,
        "tool_call_id": question_id,
        "args": arguments.get("arguments") if is_own else arguments,
        "details": state.request_reason if state else None,
    }


def _refuse_another(state: State, call: dict[str, Any]) -> None:
    """Consent to a call is no consent to another one under its id."""
    proposed = state.edit.proposed_payload if state.edit else state.payload
    if proposed is not None and canonical_json(argument_values(proposed)) != canonical_json(call):
        raise ApprovalConflict(state.approval_id)


def _details(details: Any) -> str | None:
    if details is None:
        return None
    text = details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)
    return text[:_MOST_DETAILS]


def _answer(outcome: Outcome, seconds: float) -> ApproveAnswer:
    match outcome.status:
        case Status.APPROVED if outcome.edit is not None:
            return ApproveAnswer(decision="edit", edited_args=outcome.content, reason=outcome.reason)
        case Status.APPROVED:
            return ApproveAnswer(decision="approve", reason=outcome.reason)
        case Status.EXPIRED:
            raise HitlTimedOut(seconds)
        case Status.CANCELLED | Status.SUPERSEDED:
            raise HitlCancelled(outcome.reason)
        case _:
            return ApproveAnswer(decision="deny", reason=outcome.reason)
