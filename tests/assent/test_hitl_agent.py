"""An agent's loop: what runs next is read from its messages, which only ever grow."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assent import tool
from assent.errors import InvalidRequest, InvalidTool
from assent.hitl import (
    Agent,
    AgentAbortedEvent,
    AgentSuspendedEvent,
    AgentTool,
    ApproveAnswer,
    FileCheckpointer,
    HitlAnswerEvent,
    HitlCancelled,
    HitlConcurrencyError,
    HitlDurabilityNotGuaranteed,
    HitlNoPendingRequest,
    HitlRequestEvent,
    HitlStaleAnswer,
    HitlTimedOut,
    LocalChannel,
    Subagent,
    ask_user,
)
from assent.hitl.testing import NoopChannel, ScriptedChannel
from assent.tools.definition import Registry
from tests.support.agents import Message, ScriptedModel, calling, opened
from tests.support.environment import ROOT

SEND = calling(("call-1", "send", {"to": "ann"}))


class Outbox:
    """A tool that says how often it took effect."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, to: str) -> str:
        """Send a mail."""
        self.sent.append(to)
        return f"sent to {to}"


def file_of(folder: Path) -> Path:
    (found,) = folder.glob("*.jsonl")
    return found


# The loop


async def test_a_call_runs_after_a_person_approved_it() -> None:
    outbox, model = Outbox(), ScriptedModel(SEND, "done")
    channel = ScriptedChannel(answers=["approve"])
    agent = Agent(model, [outbox.send], channel=channel)
    assert await agent.run("mail ann") == {"role": "assistant", "content": "done"}
    assert outbox.sent == ["ann"]
    assert [request.question_id for request in channel.history] == ["call-1"]
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "tool", "assistant"]
    assert agent.messages[2]["content"] == "sent to ann"
    assert agent.messages[2]["is_error"] is False


@pytest.mark.parametrize(
    ("answer", "sent", "told"),
    [
        (ApproveAnswer(decision="edit", edited_args={"to": "bob"}), ["bob"], "sent to bob"),
        (ApproveAnswer(decision="deny", reason="too early"), [], "too early"),
        (ApproveAnswer(decision="edit", edited_args={"to": 7}), [], "invalid"),
        (HitlCancelled("not now"), [], "not now"),
        (HitlTimedOut(5), [], "Nobody answered"),
    ],
)
async def test_the_model_is_told_what_a_person_made_of_its_call(answer: Any, sent: list[str], told: str) -> None:
    outbox = Outbox()
    agent = Agent(ScriptedModel(SEND, "done"), [outbox.send], channel=ScriptedChannel(answers=[answer]))
    await agent.run("mail ann")
    assert outbox.sent == sent
    assert told in agent.messages[2]["content"]
    assert agent.messages[2]["is_error"] is not bool(sent)


async def test_nobody_is_asked_about_what_cannot_run() -> None:
    model = ScriptedModel(calling(("1", "nothing", {}), ("2", "send", {"to": 7}), ("3", "send", {})), "done")
    channel = ScriptedChannel()
    agent = Agent(model, [Outbox().send], channel=channel)
    await agent.run("go")
    assert [message["is_error"] for message in agent.messages[2:5]] == [True] * 3
    assert channel.history == []


async def test_what_needs_no_consent_runs_unasked_and_its_errors_are_told() -> None:
    def broken() -> None:
        raise RuntimeError("it broke")

    channel = ScriptedChannel()
    agent = Agent(ScriptedModel(calling(("1", "broken", {})), "done"), [AgentTool(broken, approve=False)], channel)
    await agent.run("go")
    assert (agent.messages[2]["content"], agent.messages[2]["is_error"]) == ("RuntimeError: it broke", True)
    assert channel.history == []


async def test_consent_to_a_call_is_no_consent_to_a_later_one_of_the_same_id() -> None:
    outbox, channel = Outbox(), ScriptedChannel(answers=["approve", "deny"])
    agent = Agent(ScriptedModel(SEND, SEND, "done"), [outbox.send], channel=channel)
    await agent.run("mail ann, twice")
    assert [request.question_id for request in channel.history] == ["call-1", "call-1~2"]
    assert outbox.sent == ["ann"]


async def test_calls_in_the_form_of_functions_are_understood() -> None:
    outbox = Outbox()
    function = {"id": "c", "type": "function", "function": {"name": "send", "arguments": '{"to": "ann"}'}}
    model = ScriptedModel({"role": "assistant", "content": None, "tool_calls": [function]}, "done")
    agent = Agent(model, [outbox.send], channel=NoopChannel())
    await agent.run("mail ann")
    assert outbox.sent == ["ann"]
    assert agent.messages[1]["tool_calls"] == [function]


@pytest.mark.parametrize("said", [7, {"role": "user"}, {"tool_calls": [{"name": "send"}]}, {"content": object()}])
async def test_what_is_no_message_is_refused(said: Any) -> None:
    agent = Agent(ScriptedModel(said), [])
    with pytest.raises(InvalidRequest):
        await agent.run("go")
    assert len(agent.messages) == 1


def test_a_tool_of_the_service_does_not_run_in_a_loop() -> None:
    @tool(registry=Registry())
    def charge(amount: int) -> None:
        """Charge."""

    with pytest.raises(InvalidTool, match="service_tools"):
        Agent(ScriptedModel(), [charge])


async def test_the_model_is_told_of_its_tools_and_cannot_change_what_was_said() -> None:
    described: list[Any] = []

    async def model(messages: list[Message], tools: list[dict[str, Any]]) -> str:
        described.extend(tools)
        messages[0]["content"] = "something else"
        return "done"

    agent = Agent(model, [Outbox().send, ask_user])
    await agent.run("go")
    assert [each["name"] for each in described] == ["send", "ask_user"]
    assert described[0]["description"] == "Send a mail."
    assert described[0]["parameters"]["required"] == ["to"]
    assert agent.messages[0]["content"] == "go"


# Detach, respond, resume


async def test_between_suspend_and_resume_the_messages_only_grow_byte_for_byte(tmp_path: Path) -> None:
    outbox, channel = Outbox(), LocalChannel("t-1")
    model = ScriptedModel({**SEND, "content": "Ünïcode \u2028 and 1.10", "odd": {"b": 1, "a": [1.5e300, None]}}, "done")
    keeper = FileCheckpointer(tmp_path)
    agent = Agent(model, [outbox.send], channel=channel, thread_id="t-1", checkpointer=keeper)
    events = agent.events()
    running = asyncio.create_task(agent.run("mail ann"))
    request = await opened(agent)
    await agent.detach()
    assert await running is None
    assert [event async for event in events] == [
        HitlRequestEvent(request=request),
        AgentSuspendedEvent(pending_request=request),
    ]
    before = file_of(tmp_path).read_bytes()
    assert agent.in_flight_hitl_request is None
    assert await agent.load_pending_hitl_request() == request

    other = Agent(model, [outbox.send], channel=channel, thread_id="t-1", checkpointer=keeper)
    with pytest.raises(HitlStaleAnswer):
        await other.respond(question_id="call-0", answer="approve")
    assert await other.respond(question_id="call-1", answer="approve") == {"role": "assistant", "content": "done"}
    assert outbox.sent == ["ann"]
    after = file_of(tmp_path).read_bytes()
    assert after.startswith(before)
    assert model.seen[1][: len(model.seen[0]) + 1] == [json.loads(line) for line in before.splitlines()]
    with pytest.raises(HitlNoPendingRequest):
        await other.respond(question_id="call-1", answer="approve")


async def test_a_run_that_waits_here_goes_on_when_it_is_responded_to() -> None:
    outbox, channel = Outbox(), LocalChannel()
    agent = Agent(ScriptedModel(SEND, "done"), [outbox.send], channel=channel)
    running = asyncio.create_task(agent.run("mail ann"))
    await opened(agent)
    with pytest.raises(HitlStaleAnswer):
        await agent.respond(question_id="call-0", answer="approve")
    await agent.respond(question_id="call-1", answer="approve")
    assert (await running or {})["content"] == "done"
    assert outbox.sent == ["ann"]


async def test_a_shutdown_leaves_the_request_as_it_is(tmp_path: Path) -> None:
    outbox, channel = Outbox(), LocalChannel("t-1")
    agent = Agent(ScriptedModel(SEND, "done"), [outbox.send], channel, "t-1", FileCheckpointer(tmp_path))
    running = asyncio.create_task(agent.run("mail ann"))
    request = await opened(agent)
    before = file_of(tmp_path).read_bytes()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert await agent.load_pending_hitl_request() == request
    assert file_of(tmp_path).read_bytes() == before
    await agent.respond(question_id="call-1", answer="approve")
    assert outbox.sent == ["ann"]


async def test_time_runs_on_while_nobody_waits() -> None:
    outbox, channel = Outbox(), LocalChannel(default_timeout=2)
    agent = Agent(ScriptedModel(SEND, "done"), [outbox.send], channel=channel)
    running = asyncio.create_task(agent.run("mail ann"))
    await opened(agent)
    await agent.detach()
    assert await running is None
    await agent.resume()
    assert outbox.sent == []
    assert "Nobody answered" in agent.messages[2]["content"]


async def test_of_two_that_respond_one_runs_the_call(tmp_path: Path) -> None:
    outbox, channel, keeper = Outbox(), LocalChannel("t-1"), FileCheckpointer(tmp_path)

    def agent() -> Agent:
        return Agent(ScriptedModel("done"), [outbox.send], channel, "t-1", keeper)

    await keeper.append("t-1", [{"role": "user", "content": "mail ann"}, SEND])
    first = agent()
    running = asyncio.create_task(first.resume())
    await opened(first)
    await first.detach()
    await running
    ended = await asyncio.gather(
        *(agent().respond(question_id="call-1", answer="approve") for _ in range(5)), return_exceptions=True
    )
    assert outbox.sent == ["ann"]
    refused = [each for each in ended if isinstance(each, HitlNoPendingRequest | HitlStaleAnswer)]
    assert len(refused) == 4
    assert [message["role"] for message in await keeper.load("t-1")] == ["user", "assistant", "tool", "assistant"]


async def test_a_thread_runs_in_one_place_at_a_time(tmp_path: Path) -> None:
    channel, keeper = LocalChannel("t-1"), FileCheckpointer(tmp_path)
    agents = [Agent(ScriptedModel(SEND, "done"), [Outbox().send], channel, "t-1", keeper) for _ in range(2)]
    running = asyncio.create_task(agents[0].run("mail ann"))
    await opened(agents[0])
    with pytest.raises(HitlConcurrencyError, match="already"):
        await agents[0].resume()
    with pytest.raises(HitlConcurrencyError, match="elsewhere"):
        await agents[1].resume()
    await agents[0].detach()
    await running
    with pytest.raises(HitlConcurrencyError, match="no result"):
        await agents[1].run("something else")
    assert len(await keeper.load("t-1")) == 2


# Giving up


async def test_giving_up_rejects_the_calls_that_wait_and_asks_no_model() -> None:
    outbox, channel = Outbox(), LocalChannel()
    model = ScriptedModel(calling(("1", "send", {"to": "ann"}), ("2", "send", {"to": "bob"})))
    agent = Agent(model, [outbox.send], channel=channel)
    events = agent.events()
    running = asyncio.create_task(agent.run("mail both"))
    await opened(agent)
    await agent.abort_pending(reason="the tab was closed")
    assert await running is None
    first, second = [event async for event in events]
    assert isinstance(first, HitlRequestEvent)
    assert isinstance(second, AgentAbortedEvent)
    assert [(m["tool_call_id"], m["is_error"]) for m in agent.messages[2:]] == [("1", True), ("2", True)]
    assert "the tab was closed" in agent.messages[2]["content"]
    assert (outbox.sent, len(model.seen), await agent.load_pending_hitl_request()) == ([], 1, None)
    with pytest.raises(HitlNoPendingRequest):
        await agent.abort_pending()


async def test_giving_up_after_a_detach_is_told_too() -> None:
    channel = LocalChannel()
    agent = Agent(ScriptedModel(SEND), [Outbox().send], channel=channel)
    running = asyncio.create_task(agent.run("mail ann"))
    await opened(agent)
    await agent.detach()
    await running
    events = agent.events()
    await agent.abort_pending(reason="enough")
    assert [event async for event in events] == [AgentAbortedEvent(reason="enough")]
    with pytest.raises(HitlNoPendingRequest):
        await channel.answer("call-1", "approve")


# What tools ask


async def test_the_model_asks_a_person_under_the_id_of_its_call() -> None:
    question = {"id": "go", "prompt": "Go on?", "kind": "confirm"}
    channel = ScriptedChannel(answers=[{"go": True}])
    agent = Agent(
        ScriptedModel(calling(("call-1", "ask_user", {"questions": [question]})), "done"), [ask_user], channel
    )
    await agent.run("go")
    assert json.loads(agent.messages[2]["content"]) == {"go": True}
    assert [request.question_id for request in channel.history] == ["call-1"]


async def test_a_tool_that_asks_must_say_that_it_may_begin_anew() -> None:
    async def deploy() -> str:
        assert agent.channel is not None
        return "yes" if await agent.channel.confirm("Deploy?") else "no"

    for allowed, told in ((False, HitlDurabilityNotGuaranteed.__name__), (True, "yes")):
        channel = ScriptedChannel(answers=["approve", True], allow_inside_custom_tool=allowed)
        agent = Agent(ScriptedModel(calling(("call-1", "deploy", {})), "done"), [deploy], channel=channel)
        await agent.run("deploy")
        assert agent.messages[2]["content"].startswith(told)
    assert [request.question_id for request in channel.history] == ["call-1", "call-1:1"]


@pytest.mark.parametrize("swallows", [Exception, BaseException])
async def test_no_tool_swallows_a_detach(swallows: type[BaseException]) -> None:
    channel = LocalChannel()

    async def deploy() -> str:
        try:
            await channel.confirm("Deploy?")
        except swallows:
            return "swallowed"
        return "deployed"

    model = ScriptedModel(calling(("call-1", "deploy", {})), "done")
    agent = Agent(model, [AgentTool(deploy, approve=False)], channel=channel)
    running = asyncio.create_task(agent.run("deploy"))
    request = await opened(agent)
    await agent.detach()
    assert await running is None
    assert len(model.seen) == 1
    if swallows is Exception:
        assert await agent.load_pending_hitl_request() == request
        await channel.answer("call-1:1", True)
        await agent.resume()
        assert agent.messages[2]["content"] == "deployed"


# Agents within agents


@pytest.mark.parametrize("own", [True, False], ids=["as a tool", "in a tool"])
async def test_an_agent_within_an_agent_keeps_the_gate(own: bool) -> None:
    outbox, channel = Outbox(), ScriptedChannel(answers=["deny"])

    async def helper(task: str) -> str:
        return str(await Agent(ScriptedModel(SEND, "inner done"), [outbox.send]).run(task))

    helping = (
        Subagent("helper", "Helps.", ScriptedModel(SEND, "inner done"), [outbox.send])
        if own
        else AgentTool(helper, approve=False)
    )
    agent = Agent(ScriptedModel(calling(("call-1", "helper", {"task": "mail ann"})), "done"), [helping], channel)
    await agent.run("have ann mailed")
    assert [request.question_id for request in channel.history] == ["call-1/call-1"]
    assert outbox.sent == []
    assert "inner done" in agent.messages[2]["content"]


async def test_an_agent_within_an_agent_goes_on_after_a_detach(tmp_path: Path) -> None:
    outbox, channel, keeper = Outbox(), LocalChannel("t-1"), FileCheckpointer(tmp_path)
    inner = ScriptedModel(SEND, "inner done")

    def agent(*said: Any) -> Agent:
        helper = Subagent("helper", "Helps.", inner, [outbox.send])
        return Agent(ScriptedModel(*said), [helper], channel, "t-1", keeper)

    first = agent(calling(("outer", "helper", {"task": "mail ann"})))
    running = asyncio.create_task(first.run("have ann mailed"))
    request = await opened(first)
    assert request.question_id == "outer/call-1"
    await first.detach()
    assert await running is None
    assert await first.waiting_calls(first.messages) == ["outer", "outer/call-1"]
    await agent("done").respond(question_id="outer/call-1", answer="approve")
    assert outbox.sent == ["ann"]
    assert len(inner.seen) == 2
    assert [message["role"] for message in await keeper.load("t-1/outer")] == ["user", "assistant", "tool", "assistant"]


# A channel of somebody else's


class BareChannel:
    """What the protocol asks for, and no more."""

    def __init__(self) -> None:
        self.in_flight = None
        self.waiting: asyncio.Future[ApproveAnswer] = asyncio.get_running_loop().create_future()

    async def approve(self, *asked: Any, **options: Any) -> ApproveAnswer:
        return await asyncio.shield(self.waiting)

    confirm = ask = approve

    async def answer(self, question_id: str, answer: Any) -> None:
        self.waiting.set_result(answer)

    async def cancel(self, question_id: str, reason: str | None = None) -> None:
        self.waiting.set_exception(HitlCancelled(reason))


async def test_any_channel_will_do() -> None:
    outbox, channel = Outbox(), BareChannel()
    agent = Agent(ScriptedModel(SEND, "done"), [outbox.send], channel)  # type: ignore[arg-type]
    running = asyncio.create_task(agent.run("mail ann"))
    await opened(agent)
    await agent.detach()
    assert await running is None
    events = agent.events()
    running = asyncio.create_task(agent.resume())
    await opened(agent)
    await agent.respond(question_id="call-1", answer=ApproveAnswer(decision="approve"))
    await running
    assert outbox.sent == ["ann"]
    assert [type(event) async for event in events] == [HitlRequestEvent, HitlAnswerEvent]


# Processes that die

_DYING = """
import asyncio, os, signal, sys
from assent.hitl import Agent, AgentTool, FileCheckpointer
from assent.hitl.testing import NoopChannel

folder, dies, retry_safe = sys.argv[1], sys.argv[2], sys.argv[3] == "True"

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def send(to: str) -> str:
    with open(folder + "/sent", "a") as file:
        file.write(to + "\\n")
    if dies == "in the tool":
        die()
    return "sent"

async def model(messages, tools):
    if messages[-1]["role"] == "user":
        return {"tool_calls": [{"id": "call-1", "name": "send", "arguments": {"to": "ann"}}]}
    if dies == "after the tool":
        die()
    return "done"

async def main():
    tool = AgentTool(send, retry_safe=retry_safe)
    agent = Agent(model, [tool], NoopChannel(), "t-1", FileCheckpointer(folder))
    await (agent.run("mail ann") if dies != "never" else agent.resume())

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("dies", "retry_safe", "sent", "told"),
    [
        ("in the tool", False, 1, "not known"),
        ("in the tool", True, 2, "sent"),
        ("after the tool", False, 1, "sent"),
    ],
)
async def test_a_call_whose_process_died_is_not_repeated_unless_that_is_harmless(
    tmp_path: Path, dies: str, retry_safe: bool, sent: int, told: str
) -> None:
    for moment, code in ((dies, -signal.SIGKILL), ("never", 0)):
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", _DYING, str(tmp_path), moment, str(retry_safe)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
        )
        assert ran.returncode == code
    assert (tmp_path / "sent").read_text().splitlines() == ["ann"] * sent
    messages = await FileCheckpointer(tmp_path).load("t-1")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert told in messages[2]["content"]


async def test_a_line_that_was_never_finished_is_no_message(tmp_path: Path) -> None:
    keeper = FileCheckpointer(tmp_path)
    await keeper.append("t/1", [{"role": "user", "content": "a\nb"}])
    file = file_of(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"role": "assist')
    assert await keeper.load("t/1") == [{"role": "user", "content": "a\nb"}]
    await keeper.append("t/1", [{"role": "assistant", "content": "c"}])
    assert file.read_bytes().startswith(whole)
    assert [message["content"] for message in await keeper.load("t/1")] == ["a\nb", "c"]
    assert await keeper.load("t/2") == []
    assert oct(file.stat().st_mode)[-3:] == "600"
