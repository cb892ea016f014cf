"""A small agent loop that can stop at any moment and go on in another process.

A model is asked, its calls are made one after the other, their results are appended, and so on until it calls nothing.
What runs next is read from the messages alone: a call without a result. So nothing is replayed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from assent.content import describe
from assent.contracts.request import MAX_TTL
from assent.errors import InvalidRequest
from assent.hitl.channel import HitlChannel, WaitingChannel
from assent.hitl.checkpoints import Checkpointer, ExclusiveCheckpointer, Message
from assent.hitl.events import AgentAbortedEvent, AgentSuspendedEvent, HitlAnswerEvent, HitlEvent, HitlRequestEvent
from assent.hitl.exceptions import (
    HitlAborted,
    HitlCancelled,
    HitlConcurrencyError,
    HitlControlException,
    HitlDetached,
    HitlNoPendingRequest,
    HitlStaleAnswer,
    HitlTimedOut,
)
from assent.hitl.messages import LoopCall, assistant_message, tool_message, unresolved, user_message
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest
from assent.hitl.running import RunningTool, running_tool
from assent.hitl.tools import LoopTool, describe_tools, loop_tools

Model = Callable[[list[Message], list[dict[str, Any]]], Awaitable[Message | str]]
"""From the messages so far and the tools there are to the next assistant message."""

_UNKNOWN = (
    "This call was begun, and its process ended before it did: whether it took effect is not known. Do not repeat it "
    "before somebody has checked."
)
_PATIENCE = 5.0
"""How long giving up waits for a loop elsewhere to notice that its request is gone."""


class Agent:
    """A model, its tools and the channel to the people who consent.

    tools: functions, each of which needs consent, `AgentTool`, `ask_user`, `Subagent`, or `service_tools(…)`.
    channel: without one nobody is asked, unless the agent runs in another's tool: then it has that one's channel.
    thread_id, checkpointer: where the messages are kept; without them in memory.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[LoopTool | Callable[..., Any]] = (),
        channel: HitlChannel | None = None,
        thread_id: str | None = None,
        checkpointer: Checkpointer | None = None,
    ) -> None:
        if checkpointer is not None and thread_id is None:
            raise InvalidRequest("thread_id: say under which name the checkpointer keeps the messages")
        self.thread_id = thread_id if thread_id is not None else getattr(channel, "thread_id", None)
        self.checkpointer = checkpointer
        self._model = model
        self._tools = {tool.name: tool for tool in loop_tools(tools)}
        self._channel = channel or _channel_around()
        self._kept: list[str] = []
        self._stopped_by: HitlControlException | None = None
        self._waiting: tuple[HitlRequest, asyncio.Future[HitlControlException]] | None = None
        self._running: asyncio.Event | None = None
        self._listeners: list[AgentEvents] = []

    # What can be asked of it

    @property
    def channel(self) -> HitlChannel | None:
        """The channel to the people who consent, if there is one."""
        return self._channel or _channel_around()

    @property
    def messages(self) -> list[Message]:
        """The messages as this object knows them."""
        return [json.loads(text) for text in self._kept]

    @property
    def in_flight_hitl_request(self) -> HitlRequest | None:
        """The request that this process waits for."""
        if self._waiting is not None:
            return self._waiting[0]
        return self.channel.in_flight if self.channel is not None else None

    async def load_pending_hitl_request(self) -> HitlRequest | None:
        """The open request of the thread as it is on record, also after a detach and in another process."""
        if isinstance(self.channel, WaitingChannel):
            if self._running is None:
                await self._load()
            return await self.channel.load_pending(*await self.waiting_calls(self.messages))
        return self.in_flight_hitl_request

    async def waiting_calls(self, messages: list[Message], thread_id: str | None = None, prefix: str = "") -> list[str]:
        """The ids under which the calls without a result may be asked for, those of agents within it too."""
        thread = thread_id or self.thread_id
        ids = []
        for call in unresolved(messages):
            ids.append(prefix + call.id)
            if self.checkpointer is not None:
                within = f"{thread}/{call.id}"
                inner = await self.checkpointer.load(within)
                ids += await self.waiting_calls(inner, within, f"{prefix}{call.id}/")
        return ids

    def events(self) -> AgentEvents:
        """What happens from now on to the end of the run that goes on, or is the next."""
        listening = AgentEvents()
        self._listeners.append(listening)
        return listening

    def __aiter__(self) -> AgentEvents:
        return self.events()

    # Running

    async def run(self, *messages: str | Mapping[str, Any]) -> Message | None:
        """Say something to the model, and go on until it calls nothing more: its last message.

        None if it stopped before: detached, or given up.
        """
        async with self._held():
            if unresolved(self.messages):
                raise HitlConcurrencyError("a call of this thread has no result yet: resume(), or abort_pending()")
            await self._append([user_message(said) for said in messages])
            return await self._until_stopped()

    async def resume(self) -> Message | None:
        """Go on where the messages end: with a call that has no result, or with the model."""
        async with self._held():
            return await self._until_stopped()

    async def carry_out(self, task: str) -> str:
        """Run, or go on, within another agent's tool: the text of the last message. Stops as that one does."""
        async with self._held():
            if not self._kept:
                await self._append([user_message(task)])
            return str((await self._loop()).get("content") or "")

    async def detach(self) -> None:
        """Stop waiting in this process. The request stays open, its time runs on, and any process may go on with it.

        Does nothing if nothing is waited for.
        """
        request = self.in_flight_hitl_request
        if request is None:
            return
        self._emit(AgentSuspendedEvent(pending_request=request))
        await self._stop(HitlDetached())

    async def respond(self, *, question_id: str, answer: Any) -> Message | None:
        """Answer the open request, and go on if no process does already: the last message, as `resume` returns it."""
        channel = self._needed_channel()
        if self.in_flight_hitl_request is not None:
            await channel.answer(question_id, answer)
            return None
        pending = await self.load_pending_hitl_request()
        if pending is None:
            raise HitlNoPendingRequest("no request of this thread is open; if one was answered, resume() goes on")
        if pending.question_id != question_id:
            raise HitlStaleAnswer(f"{question_id!r} is not the request that is open; it changed nothing")
        await channel.answer(question_id, answer)
        try:
            return await self.resume()
        except HitlConcurrencyError:
            return None  # another process waits for this answer, and goes on with it

    async def abort_pending(self, *, reason: str | None = None) -> None:
        """Give the open request up: the calls without a result are rejected, and no model is asked."""
        channel = self._needed_channel()
        request = self.in_flight_hitl_request or await self.load_pending_hitl_request()
        if request is None and not unresolved(self.messages):
            raise HitlNoPendingRequest
        await self._stop(HitlAborted(reason))
        if request is not None:
            with suppress(HitlNoPendingRequest, HitlStaleAnswer):  # somebody was faster; it does not run all the same
                await channel.cancel(request.question_id, reason)
        rejected = "A person rejected this call. It did not run." + (f" Reason: {reason}" if reason else "")
        async with self._held(patience=_PATIENCE):
            await self._append([tool_message(call, rejected, is_error=True) for call in unresolved(self.messages)])
            self._emit(AgentAbortedEvent(reason=reason))

    # The loop

    async def _until_stopped(self) -> Message | None:
        try:
            return await self._loop()
        except (HitlDetached, HitlAborted):
            return None

    async def _loop(self) -> Message:
        while True:
            messages = self.messages
            if waiting := unresolved(messages):
                await self._append([await self._result_of(waiting[0])])
                self._stop_if_told()
                continue
            if messages and messages[-1].get("role") == "assistant":
                return messages[-1]
            said = await self._model(messages, describe_tools(self._tools))
            await self._append([assistant_message(said, self.messages)])

    async def _result_of(self, call: LoopCall) -> Message:
        """Have a call approved, make it, and say what came of it."""
        tool = self._tools.get(call.name)
        if tool is None:
            return tool_message(call, f"There is no tool named {call.name!r}.", is_error=True)
        try:
            arguments = _checked(tool, call.arguments)
            if tool.is_approved_first and self.channel is not None:
                decided = await self._approved(call, self.channel)
                if isinstance(decided, str):
                    return tool_message(call, decided, is_error=True)
                arguments = _checked(tool, decided)
            return await self._made(tool, call, arguments)
        except InvalidRequest as error:
            return tool_message(call, f"The arguments are invalid: {error}", is_error=True)
        except HitlCancelled as ended:
            why = f" Reason: {ended.reason}" if ended.reason else ""
            return tool_message(call, f"The request was cancelled. The call did not run.{why}", is_error=True)
        except HitlTimedOut:
            return tool_message(call, "Nobody answered in time. The call did not run.", is_error=True)

    async def _approved(self, call: LoopCall, channel: HitlChannel) -> dict[str, Any] | str:
        """The arguments as they were approved; or why they were not."""
        asked = channel.approve(call.name, _prefix() + call.id, call.arguments)
        answer = await (asked if isinstance(channel, WaitingChannel) else self._asked_elsewhere(call, asked))
        if answer.decision == "deny":
            return "A person rejected this call. It did not run." + (
                f" Reason: {answer.reason}" if answer.reason else ""
            )
        return answer.edited_args if answer.edited_args is not None else call.arguments

    async def _asked_elsewhere(self, call: LoopCall, answering: Awaitable[ApproveAnswer]) -> ApproveAnswer:
        """Wait for a channel that is none of ours, and tell what it does not."""
        now = datetime.now(UTC)
        request = HitlRequest(
            question_id=_prefix() + call.id,
            kind=HitlKind.APPROVE,
            thread_id=self.thread_id,
            payload={"tool_name": call.name, "tool_call_id": call.id, "args": call.arguments, "details": None},
            created_at=now,
            deadline=now + MAX_TTL,
        )
        self._emit(HitlRequestEvent(request=request))
        told = HitlAnswerEvent(question_id=request.question_id)
        try:
            answer: ApproveAnswer = await self.wait_outside(request, answering)
        except HitlCancelled:
            self._emit(told.model_copy(update={"cancelled": True}))
            raise
        except HitlTimedOut:
            self._emit(told.model_copy(update={"timed_out": True}))
            raise
        self._emit(told.model_copy(update={"answer": answer}))
        return answer

    async def _made(self, tool: LoopTool, call: LoopCall, arguments: dict[str, Any]) -> Message:
        """Make a call once: where it was begun before and nobody knows how it ended, it is not repeated."""
        exclusive = self.checkpointer if isinstance(self.checkpointer, ExclusiveCheckpointer) else None
        if exclusive is not None and not tool.is_repeatable:
            assert self.thread_id is not None
            if not await exclusive.begin(self.thread_id, call.id):
                return tool_message(call, _UNKNOWN, is_error=True)
        body = RunningTool(agent=self, tool_call_id=_prefix() + call.id, begins_anew=tool.begins_anew)
        within = running_tool.set(body)
        try:
            return tool_message(call, await tool.run(self, call, arguments))
        except (HitlDetached, HitlAborted):
            if exclusive is not None and self.thread_id is not None and not tool.is_repeatable:
                await exclusive.leave(self.thread_id, call.id)
            raise
        except HitlCancelled as ended:
            why = f" Reason: {ended.reason}" if ended.reason else ""
            return tool_message(call, f"What the call asked was cancelled; it stopped.{why}", is_error=True)
        except HitlTimedOut:
            return tool_message(call, "Nobody answered in time what the call asked; it stopped.", is_error=True)
        except Exception as error:
            return tool_message(call, describe(error), is_error=True)
        finally:
            running_tool.reset(within)

    # Stopping

    async def _stop(self, error: HitlControlException) -> None:
        """End what is waited for here, and wait until the loop has stopped."""
        if self._running is None:
            return
        self._stopped_by = error
        if self._waiting is not None and not self._waiting[1].done():
            self._waiting[1].set_result(error)
        if isinstance(self.channel, WaitingChannel):
            self.channel.interrupt(error)
        if self._running is not None:
            await self._running.wait()

    def _stop_if_told(self) -> None:
        """Stop after a body that let nothing through to the loop."""
        if self._stopped_by is not None:
            raise self._stopped_by

    async def wait_outside(self, request: HitlRequest, answering: Awaitable[Any]) -> Any:
        """Wait for what a person decides elsewhere, as a request of this agent's that a detach stops waiting for."""
        waiting = asyncio.ensure_future(answering)
        stopped: asyncio.Future[HitlControlException] = asyncio.get_running_loop().create_future()
        self._waiting = (request, stopped)
        try:
            await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise stopped.result()
        finally:
            self._waiting = None
            waiting.cancel()
            await asyncio.wait({waiting})

    # Keeping

    @asynccontextmanager
    async def _held(self, *, patience: float = 0) -> AsyncIterator[None]:
        """Have the thread to oneself, with the messages as they are on record."""
        if self._running is not None:
            raise HitlConcurrencyError("this agent runs already")
        self._running, self._stopped_by = asyncio.Event(), None
        try:
            async with contextlib.AsyncExitStack() as stack:
                if isinstance(self.checkpointer, ExclusiveCheckpointer) and self.thread_id is not None:
                    await _enter(stack, self.checkpointer, self.thread_id, patience)
                if isinstance(self.channel, WaitingChannel):
                    stack.callback(self.channel.subscribe(self._emit))
                await self._load()
                yield
        finally:
            self._running.set()
            self._running = None
            if not isinstance(self._stopped_by, HitlAborted):  # giving up is told when it is done
                listeners, self._listeners = self._listeners, []
                for listening in listeners:
                    listening.end()

    async def _load(self) -> None:
        if self.checkpointer is not None and self.thread_id is not None:
            self._kept = [_text(message) for message in await self.checkpointer.load(self.thread_id)]

    async def _append(self, messages: list[Message]) -> None:
        if not messages:
            return
        texts = [_text(message) for message in messages]
        if self.checkpointer is not None and self.thread_id is not None:
            await self.checkpointer.append(self.thread_id, [json.loads(text) for text in texts])
        self._kept += texts

    def _needed_channel(self) -> HitlChannel:
        if self.channel is None:
            raise HitlNoPendingRequest("this agent has no channel, so nobody is asked")
        return self.channel

    def _emit(self, event: HitlEvent) -> None:
        for listening in self._listeners:
            listening.hear(event)


class AgentEvents:
    """The events of one run, in order: `async for event in agent.events()`. It ends when the run does."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[HitlEvent | None] = asyncio.Queue()
        self._has_ended = False

    def hear(self, event: HitlEvent) -> None:
        self._heard.put_nowait(event)

    def end(self) -> None:
        self._heard.put_nowait(None)

    def __aiter__(self) -> AgentEvents:
        return self

    async def __anext__(self) -> HitlEvent:
        if self._has_ended or (event := await self._heard.get()) is None:
            self._has_ended = True
            raise StopAsyncIteration
        return event


async def _enter(
    stack: contextlib.AsyncExitStack, keeper: ExclusiveCheckpointer, thread_id: str, patience: float
) -> None:
    give_up = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await stack.enter_async_context(keeper.hold(thread_id))
            return
        except HitlConcurrencyError:
            if asyncio.get_running_loop().time() >= give_up:
                raise
        await asyncio.sleep(0.05)


def _channel_around() -> HitlChannel | None:
    """The channel of the agent whose tool runs just now: what it starts loses no gate."""
    around = running_tool.get()
    return around.agent.channel if around is not None else None


def _prefix() -> str:
    """What the calls of an agent within a tool are named after, so that they are no calls of the outer one."""
    around = running_tool.get()
    return f"{around.tool_call_id}/" if around is not None else ""


def _checked(tool: LoopTool, arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        raise InvalidRequest("they must be a JSON object")
    return tool.parse(arguments)


def _text(message: Message) -> str:
    try:
        return json.dumps(message, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"a message must be JSON: {error}") from None
