"""The channel through the service: what an agent asks survives its process, and one answer counts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Assent, Identity, NotAllowed
from assent.errors import ApprovalConflict, InvalidRequest
from assent.hitl import (
    Agent,
    ApproveAnswer,
    CheckpointedChannel,
    FileCheckpointer,
    HitlCancelled,
    HitlConcurrencyError,
    HitlDetached,
    HitlNoPendingRequest,
    HitlStaleAnswer,
    HitlTimedOut,
    service_tools,
)
from tests.conftest import ME
from tests.support.agents import ScriptedModel, calling, opened
from tests.support.environment import ROOT
from tests.support.simulated_feishu import served
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import Web, web_of_its_own

SOMEBODY_ELSE = Identity(open_id="ou_else")


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    async with web_of_its_own(temporal_address, next(namespaces), tmp_path_factory.mktemp("hitl")) as web:
        yield web


@pytest.fixture(params=["temporal", "http"])
def gates(request: pytest.FixtureRequest, web: Web) -> dict[str, Any]:
    """How a channel is connected: through Temporal, which may decide, or over HTTP with a host that may."""
    if request.param == "temporal":
        return {"gate": web.service.gate}
    return {"gate": web.gate("agent"), "host": web.gate("approver")}


def channel(gates: dict[str, Any], thread_id: str | None = None, **options: Any) -> CheckpointedChannel:
    more = {"host": gates["host"]} if "host" in gates else {}
    return CheckpointedChannel(gates["gate"], thread_id or uuid.uuid4().hex, ME, **{**more, **options})


async def approval_of(asking: CheckpointedChannel, call_id: str, web: Web) -> ApprovalHandle:
    return web.service.gate.approval(await asking._ids.of(call_id))


async def detached(waiting: asyncio.Task[Any], asking: CheckpointedChannel) -> None:
    await opened(asking)
    asking.interrupt(HitlDetached())
    with pytest.raises(HitlDetached):
        await waiting


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ("approve", ("approve", None)),
        (ApproveAnswer(decision="deny", reason="no"), ("deny", "no")),
        (ApproveAnswer(decision="edit", edited_args={"cmd": "pwd"}), ("edit", None)),
    ],
)
async def test_approve_is_an_approval_that_the_host_decides(
    gates: dict[str, Any], web: Web, given: Any, got: tuple[str, str | None]
) -> None:
    asking = channel(gates)
    approving = asyncio.create_task(asking.approve("bash", "call-1", {"cmd": "ls"}, details={"why": "to look"}))
    request = await opened(asking)
    assert (request.question_id, request.thread_id) == ("call-1", asking.thread_id)
    approval = await approval_of(asking, "call-1", web)
    state = await approval.state()
    assert (state.tool, state.tool_call_id, state.thread_id) == ("agent_call", "call-1", asking.thread_id)
    assert request.deadline == state.deadline
    with pytest.raises(HitlStaleAnswer):
        await asking.answer("call-0", given)
    with pytest.raises(InvalidRequest):
        await asking.answer("call-1", ApproveAnswer(decision="edit"))
    await asking.answer("call-1", given)
    answer = await approving
    assert (answer.decision, answer.reason) == got
    assert answer.edited_args == ({"cmd": "pwd"} if answer.decision == "edit" else None)
    with pytest.raises(HitlNoPendingRequest):
        await asking.answer("call-1", "approve")
    assert (await approval.outcome()).status == ("rejected" if answer.decision == "deny" else "approved")


async def test_whoever_asks_over_http_does_not_answer(web: Web) -> None:
    asking = CheckpointedChannel(web.gate("agent"), uuid.uuid4().hex, ME)
    approving = asyncio.create_task(asking.approve("bash", "call-1", {}))
    await opened(asking)
    with pytest.raises(NotAllowed):
        await asking.answer("call-1", "approve")
    own = CheckpointedChannel(web.gate("agent"), str(asking.thread_id), ME, host=web.gate("agent"))
    with pytest.raises(NotAllowed):
        await own.answer("call-1", "approve")
    other = CheckpointedChannel(
        web.gate("agent"), str(asking.thread_id), ME, host=web.gate("approver"), actor=SOMEBODY_ELSE
    )
    with pytest.raises(NotAllowed, match="may not decide"):
        await other.answer("call-1", "approve")
    await asking.cancel("call-1", "enough")
    with pytest.raises(HitlCancelled) as ended:
        await approving
    assert ended.value.reason == "enough"


async def test_another_process_attaches_and_gets_the_one_answer(gates: dict[str, Any], web: Web) -> None:
    first = channel(gates)
    await detached(asyncio.create_task(first.approve("bash", "call-1", {"cmd": "ls"}, timeout=600)), first)
    second = channel(gates, first.thread_id)
    pending = await second.load_pending("call-1")
    assert pending is not None
    assert (pending.question_id, pending.payload["args"]) == ("call-1", {"cmd": "ls"})
    with pytest.raises(HitlConcurrencyError):
        await second.approve("bash", "call-2", {})
    with pytest.raises(ApprovalConflict):
        await second.approve("bash", "call-1", {"cmd": "rm"})
    await second.answer("call-1", "approve")
    with pytest.raises((HitlNoPendingRequest, HitlStaleAnswer)):
        await first.answer("call-1", "deny")
    for asking in (first, second):
        assert (await asking.approve("bash", "call-1", {"cmd": "ls"})).decision == "approve"
    assert await second.load_pending("call-1") is None


COLOUR = {"id": "colour", "prompt": "Which?", "kind": "choice", "options": [{"value": "red"}, {"value": "blue"}]}


async def test_questions_are_asked_through_the_service_and_answered_as_offered(gates: dict[str, Any]) -> None:
    asking = channel(gates)
    answering = asyncio.create_task(asking.ask([COLOUR]))
    request = await opened(asking)
    with pytest.raises(InvalidRequest):
        await asking.answer(request.question_id, {"colour": "green"})
    await asking.answer(request.question_id, {"colour": "red"})
    assert await answering == {"colour": "red"}
    confirming = asyncio.create_task(asking.confirm("Sure?", details="because", timeout=600))
    request = await opened(asking)
    assert (request.kind, request.payload) == ("confirm", {"prompt": "Sure?", "details": "because"})
    await asking.answer(request.question_id, False)
    assert await confirming is False
    with pytest.raises(HitlNoPendingRequest):
        await asking.answer(request.question_id, True)


async def test_a_question_survives_its_process_and_the_same_words_again_are_another(gates: dict[str, Any]) -> None:
    first = channel(gates)
    await detached(asyncio.create_task(first.confirm("Sure?")), first)
    second = channel(gates, first.thread_id)
    confirming = asyncio.create_task(second.confirm("Sure?"))
    request = await opened(second)
    pending = await until(channel(gates, first.thread_id).load_pending)
    assert (pending.question_id, pending.kind) == (request.question_id, "confirm")
    await first.answer(request.question_id, True)
    assert await confirming is True
    again = asyncio.create_task(second.confirm("Sure?"))
    other = await opened(second)
    assert other.question_id != request.question_id
    await second.cancel(other.question_id, "enough")
    with pytest.raises(HitlCancelled) as ended:
        await again
    assert ended.value.reason == "enough"


async def test_a_question_runs_out_of_time_while_nobody_waits(gates: dict[str, Any]) -> None:
    asking = channel(gates, default_timeout=5.0)
    waiting = asyncio.create_task(asking.confirm("Sure?"))
    request = await opened(asking)
    asking.interrupt(HitlDetached())
    with pytest.raises(HitlDetached):
        await waiting

    async def is_gone() -> bool:
        return await asking.load_pending(request.question_id) is None

    await until(is_gone)
    with pytest.raises(HitlNoPendingRequest):
        await asking.answer(request.question_id, True)


async def test_the_open_request_is_found_by_its_thread_alone(gates: dict[str, Any]) -> None:
    first = channel(gates)
    await detached(asyncio.create_task(first.approve("bash", "call-1", {"cmd": "ls"})), first)
    second = channel(gates, first.thread_id)
    pending = await until(second.load_pending)
    assert (pending.question_id, pending.kind) == ("call-1", "approve")
    await second.cancel("call-1")
    assert await second.load_pending("call-1") is None


async def test_a_thread_of_somebody_else_is_another_thread(gates: dict[str, Any]) -> None:
    mine = channel(gates)
    theirs = CheckpointedChannel(gates["gate"], str(mine.thread_id), SOMEBODY_ELSE)
    assert await mine._ids.of("call-1") != await theirs._ids.of("call-1")


async def test_time_runs_on_in_the_service_while_nobody_waits(gates: dict[str, Any]) -> None:
    asking = channel(gates, default_timeout=5.0)
    await detached(asyncio.create_task(asking.approve("bash", "call-1", {})), asking)
    with pytest.raises(HitlTimedOut) as ended:
        await asking.approve("bash", "call-1", {}, timeout=600)
    assert ended.value.seconds == pytest.approx(5.0, abs=0.5)


async def test_of_two_that_respond_at_once_one_runs_the_call(gates: dict[str, Any], tmp_path: Path) -> None:
    ran: list[str] = []

    async def bash(cmd: str) -> str:
        ran.append(cmd)
        return "done"

    thread, keeper = uuid.uuid4().hex, FileCheckpointer(tmp_path)

    def agent(*said: Any) -> Agent:
        return Agent(ScriptedModel(*said), [bash], channel(gates, thread), thread, keeper)

    first = agent(calling(("call-1", "bash", {"cmd": "ls"})))
    running = asyncio.create_task(first.run("look"))
    await opened(first)
    await first.detach()
    assert await running is None
    ended = await asyncio.gather(
        *(agent("done").respond(question_id="call-1", answer="approve") for _ in range(4)), return_exceptions=True
    )
    assert ran == ["ls"]
    assert sum(isinstance(each, dict) for each in ended) == 1
    assert [message["role"] for message in await keeper.load(thread)] == ["user", "assistant", "tool", "assistant"]


async def test_tools_of_the_service_run_in_the_service(gates: dict[str, Any], web: Web, tmp_path: Path) -> None:
    tools = await service_tools(gates["gate"], "mark", requester=ME)
    call = calling(("call-1", "mark", {"path": str(tmp_path / "marks")}))
    thread, keeper = uuid.uuid4().hex, FileCheckpointer(tmp_path)
    agent = Agent(ScriptedModel(call), tools, channel(gates, thread), thread, keeper)
    running = asyncio.create_task(agent.run("mark it"))
    request = await opened(agent)
    await agent.detach()
    assert await running is None
    asking = channel(gates, thread)
    again = Agent(ScriptedModel("done"), tools, asking, thread, keeper)
    pending = await again.load_pending_hitl_request()
    assert pending is not None
    assert (pending.question_id, pending.payload["tool_name"]) == (request.question_id, "mark")
    await again.respond(question_id="call-1", answer="approve")
    approval = await approval_of(asking, "call-1", web)
    assert marks(tmp_path / "marks") == 1
    assert again.messages[2]["is_error"] is False
    assert (await approval.outcome()).status == "executed"


# Processes that die

_AGENT = """
import asyncio, os, signal, sys
from assent import Assent, Identity
from assent.hitl import Agent, CheckpointedChannel, FileCheckpointer

url, folder, thread, dies = sys.argv[1:]

def bash(cmd: str) -> str:
    with open(folder + "/ran", "a") as file:
        file.write(cmd + "\\n")
    return "ran"

async def model(messages, tools):
    if messages[-1]["role"] == "user":
        return {"tool_calls": [{"id": "call-1", "name": "bash", "arguments": {"cmd": "ls"}}]}
    if dies == "resumed":
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

async def main():
    async with await Assent.connect(url, token="secret-agent") as gate:
        channel = CheckpointedChannel(gate, thread, Identity(open_id="ou_me", union_id="on_me"))
        agent = Agent(model, [bash], channel, thread, FileCheckpointer(folder))
        ended = await (agent.resume() if agent_has_begun() else agent.run("look"))
        print(ended["content"])

def agent_has_begun():
    return any(name.endswith(".jsonl") for name in os.listdir(folder))

asyncio.run(main())
"""


async def test_an_agent_killed_at_every_step_asks_once_and_runs_once(web: Web, tmp_path: Path) -> None:
    thread = uuid.uuid4().hex

    async def started(url: str, dies: str = "never") -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _AGENT, url, str(tmp_path), thread, dies),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )

    async with served(web.app) as url:
        gate = await Assent.connect(url, token="secret-agent")
        host = await Assent.connect(url, token="secret-approver")
        async with gate, host:
            channel = CheckpointedChannel(gate, thread, ME, host=host)
            asked = await started(url)
            await until(lambda: channel.load_pending("call-1"))
            asked.send_signal(signal.SIGKILL)  # asked
            await asked.wait()
            again = await started(url)  # attached
            pending = await channel.load_pending("call-1")
            again.send_signal(signal.SIGKILL)
            await again.wait()
            assert await channel.load_pending("call-1") == pending
            await channel.answer("call-1", "approve")  # answered while nobody waits
            with pytest.raises((HitlNoPendingRequest, HitlStaleAnswer)):
                await channel.answer("call-1", "deny")
            resumed = await started(url, "resumed")
            assert await resumed.wait() == -signal.SIGKILL  # after the tool, before the model
            last = await started(url)
            assert (await last.communicate())[0] == b"done\n"
            events = await web.service.events(await channel._ids.of("call-1"))
    assert (tmp_path / "ran").read_text() == "ls\n"
    assert events == ["write_request", "confirm"]
    messages = await FileCheckpointer(tmp_path).load(thread)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
