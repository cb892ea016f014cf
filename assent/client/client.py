"""Asking for calls: the client that agents use."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from assent.client.door import (
    Approval,
    AskedQuestion,
    Door,
    FrozenReview,
    ToolDescription,
    parse_questions,
    parse_request,
    parse_requests,
)
from assent.client.files import Files
from assent.client.handle import ApprovalHandle
from assent.client.policy import PolicyOverrides
from assent.client.question import QuestionHandle
from assent.client.reader import LedgerReader
from assent.contracts.answers import QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.questions import Question
from assent.contracts.request import DEFAULT_TTL, WhenPending
from assent.contracts.state import PendingItem
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.errors import InvalidRequest

if TYPE_CHECKING:
    from temporalio.client import Client


class Assent:
    """The client for agents: `gate = await Assent.connect("https://…", token=…)`."""

    def __init__(self, door: Door, *, texts: Mapping[Status, str] | None = None) -> None:
        self._door = door
        self._texts = texts or {}

    @classmethod
    async def connect(
        cls,
        url: str | None = None,
        *,
        token: str | None = None,
        client: Client | None = None,
        reader: LedgerReader | None = None,
        texts: Mapping[Status, str] | None = None,
    ) -> Self:
        """Connect to the HTTP API at *url* with a token; without an address, to Temporal itself.

        Whoever reaches Temporal is trusted with everything; an agent belongs behind the HTTP API. Temporal's own
        environment configuration says where it is, unless you pass a client that you have.

        reader: reads the ledger, if you connect to Temporal. Without one, asking for what Temporal does not hold raises
            LedgerNeeded: approvals that it has forgotten, large results, settlements, audits, tools, grants, inboxes.
        texts: sentences for the model, by status, instead of the neutral ones.
        """
        return cls(await _open_door(url, token, client, reader), texts=texts)

    @property
    def policy(self) -> PolicyOverrides:
        """What holds for tools for a while, beside the operator's file; only over Temporal."""
        return PolicyOverrides(self._door)

    async def request(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        requester: Identity,
        approval_id: str | None = None,
        tool_call_id: str | None = None,
        thread_id: str | None = None,
        when_pending: WhenPending | str = WhenPending.ALLOW,
        message_id: str | None = None,
        event_id: str | None = None,
        idempotency_scope: str | None = None,
        ttl: timedelta = DEFAULT_TTL,
        reason: str | None = None,
        chat_id: str | None = None,
        reply_to: str | None = None,
        callback_url: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> ApprovalHandle:
        """Ask a person to let a tool call run. Repeating a request under its id attaches to it.

        chat_id, reply_to: where the card goes, instead of the private chats of those who may decide.
        callback_url: where the service posts the outcome, signed, once there is one.
        """
        request = parse_request(
            approval_id=approval_id if approval_id is not None else str(uuid.uuid4()),
            tool=tool,
            arguments=arguments,
            requester=requester,
            tool_call_id=tool_call_id,
            thread_id=thread_id,
            when_pending=when_pending,
            message_id=message_id,
            event_id=event_id,
            idempotency_scope=idempotency_scope,
            ttl=ttl,
            reason=reason,
            chat_id=chat_id,
            reply_to=reply_to,
            callback_url=callback_url,
            surface=surface,
        )
        in_doubt = approval_id is not None or (thread_id is not None and request.when_pending is not WhenPending.ALLOW)
        await self._door.request(request, in_doubt=in_doubt)
        return self.approval(request.approval_id)

    async def request_many(
        self, calls: Sequence[Mapping[str, Any]], *, requester: Identity, **shared: Any
    ) -> list[ApprovalHandle]:
        """Ask for several calls together: they share one card, with a decision for each.

        calls: what `request` takes, one mapping for each call, with `tool` and `arguments`.
        shared: what `request` takes, for every call that does not say otherwise.

        Each is its own approval with its own outcome; one that is refused ends by itself and stops no other. Asking
        again under the same ids attaches to them. Raises what `request` would, before anything is asked for. If an id
        belongs to another request, or a conversation is busy, that is raised after all the others have been asked for.
        """
        requests = parse_requests(calls, requester=requester, **shared)
        await self._door.request_many(requests)
        return [self.approval(request.approval_id) for request in requests]

    async def call(self, tool: str, arguments: dict[str, Any], **asked: Any) -> Outcome:
        """Ask and wait: `request(…)` and `outcome()` in one."""
        handle = await self.request(tool, arguments, **asked)
        return await handle.outcome()

    async def ask(
        self,
        questions: Question | Mapping[str, Any] | Sequence[Question | Mapping[str, Any]],
        *,
        requester: Identity,
        people: Sequence[Identity] = (),
        members: bool = False,
        thread_id: str | None = None,
        chat_id: str | None = None,
        reply_to: str | None = None,
        ttl: timedelta = DEFAULT_TTL,
        reason: str | None = None,
        question_id: str | None = None,
        callback_url: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> QuestionHandle:
        """Ask a person one to ten questions, on one card, answered together. Asking again under its id attaches to it.

        people: who may answer, instead of the requester.
        members: whether the members of the chat may, instead.
        chat_id, reply_to: where the card goes, instead of the private chats of those who may answer.
        callback_url: where the service posts the answer, signed, once there is one.
        """
        request = parse_questions(
            questions,
            question_id=question_id if question_id is not None else str(uuid.uuid4()),
            requester=requester,
            people=tuple(people),
            members=members,
            thread_id=thread_id,
            chat_id=chat_id,
            reply_to=reply_to,
            ttl=ttl,
            reason=reason,
            callback_url=callback_url,
            surface=surface,
        )
        await self._door.questions.ask(request)
        return self.question(request.question_id)

    def question(self, question_id: str) -> QuestionHandle:
        """Attach to a question that was asked before."""
        return QuestionHandle(self._door.questions, question_id)

    async def questions(
        self, *, status: str | None = None, thread_id: str | None = None, limit: int = 100
    ) -> AsyncIterator[AskedQuestion]:
        """The questions that Temporal still knows, open ones first, then the newest."""
        if status is not None and status not in {*QuestionStatus}:
            raise InvalidRequest(f"{status!r} is no status; known are {', '.join(sorted(QuestionStatus))}")
        async for question in self._door.questions.questions(status=status, thread_id=thread_id, limit=limit):
            yield question

    def approval(self, approval_id: str) -> ApprovalHandle:
        """Attach to an approval that was asked for before."""
        return ApprovalHandle(self._door, approval_id, self._texts)

    async def approvals(
        self, *, status: str | None = None, thread_id: str | None = None, limit: int = 100
    ) -> AsyncIterator[Approval]:
        """The approvals that Temporal still knows, open ones first, then the newest; by status or phase."""
        known = {*Status, *Phase}
        if status is not None and status not in known:
            raise InvalidRequest(f"{status!r} is no status; known are {', '.join(sorted(known))}")
        async for approval in self._door.approvals(status=status, thread_id=thread_id, limit=limit):
            yield approval

    async def frozen(self, *, limit: int = 100) -> AsyncIterator[FrozenReview]:
        """The frozen calls, the newest first: nobody knows whether they took effect."""
        async for review in self._door.frozen(limit=limit):
            yield review

    async def inbox(
        self, actor: Identity, *, thread_id: str | None = None
    ) -> AsyncIterator[PendingItem | QuestionState]:
        """What waits for this person: calls to decide and results to release, then questions; the oldest first.

        A call that the members of a chat decide is listed for those who belonged to it when Feishu was last asked.

        thread_id: only what belongs to this conversation.
        """
        async for state in self._door.inbox(actor, thread_id=thread_id):
            yield state
        async for question in self._door.questions.inbox(actor, thread_id=thread_id):
            yield question

    async def grants(self) -> AsyncIterator[Grant]:
        """The decisions that were remembered, including those that expired or were revoked."""
        async for grant in self._door.grants():
            yield grant

    async def revoke(
        self, grant_id: str, *, actor: Identity, surface: Surface = Surface.CLIENT, seen_on: str | None = None
    ) -> RevokedKind:
        """Stop a remembered decision from counting: from the next call on, somebody is asked again.

        seen_on: the approval on whose card that was said, if it was on one; the card is redrawn.
        """
        return await self._door.revoke(grant_id, actor=actor, surface=surface, seen_on=seen_on)

    @property
    def files(self) -> Files:
        """What people shared with the bot."""
        return Files(self._door)

    @property
    def may_decide_anything(self) -> bool:
        """Whether it is connected to Temporal itself, where whoever asks may decide too."""
        return self._door.may_decide_anything

    async def principal(self) -> str:
        """The agent that asks through this client, as the service knows it: whose token it is. None over Temporal."""
        return await self._door.principal()

    async def tools(self) -> list[ToolDescription]:
        """The tools that can be asked for, by name."""
        return await self._door.tools()

    async def close(self) -> None:
        """Close the connections; what was asked for goes on."""
        await self._door.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _open_door(url: str | None, token: str | None, client: Client | None, reader: LedgerReader | None) -> Door:
    """The door that the arguments mean. Each brings libraries along that the other does not need."""
    if url is None:
        if token is not None:
            raise InvalidRequest("a token belongs to an address: Assent.connect(url, token=…)")
        from assent.temporal.connection import connect_temporal
        from assent.temporal.door import TemporalDoor

        return TemporalDoor(client or await connect_temporal(), reader)
    if reader is not None:
        raise InvalidRequest("the HTTP API reads the ledger by itself; a reader belongs to a connection to Temporal")
    if client is not None:
        raise InvalidRequest("connect to an address or through a Temporal client, not both")
    from assent.api.door import HttpDoor

    return HttpDoor(url, token)
