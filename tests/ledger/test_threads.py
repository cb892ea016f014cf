"""Threads of agent loops in the ledger: messages only grow, a call begins once, and one place runs a thread."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from assent.hitl import Agent, HitlConcurrencyError, HitlNoPendingRequest, HitlStaleAnswer, LocalChannel
from ledger import Ledger, LedgerCheckpointer, threads
from tests.conftest import new_database
from tests.support.agents import ScriptedModel, calling, opened


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    made = await new_database(request.param, tmp_path_factory.mktemp("threads"))
    ledger = Ledger.open(made)
    await ledger.upgrade()
    await ledger.dispose()
    return made


@pytest.fixture
async def keepers(url: str) -> AsyncIterator[list[LedgerCheckpointer]]:
    """Two processes' checkpointers on one ledger."""
    made = [LedgerCheckpointer.open(url) for _ in range(2)]
    yield made
    for keeper in made:
        await keeper.dispose()


@pytest.fixture
def thread() -> str:
    return f"thread/{uuid.uuid4().hex}"


async def test_messages_come_back_in_order_and_as_they_were(keepers: list[LedgerCheckpointer], thread: str) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "ä\u2028\n"},
        {"role": "assistant", "n": 1.10, "b": None, "a": [1]},
    ]
    assert await keepers[0].load(thread) == []
    await keepers[0].append(thread, said[:1])
    await keepers[1].append(thread, said[1:])
    assert await keepers[1].load(thread) == said
    assert [list(message) for message in await keepers[1].load(thread)] == [list(message) for message in said]


async def test_a_thread_runs_in_one_place_until_that_has_been_silent(
    keepers: list[LedgerCheckpointer], thread: str
) -> None:
    first, second = keepers
    async with first.hold(thread):
        with pytest.raises(HitlConcurrencyError):
            async with second.hold(thread):
                pass
        for refused in (second.append(thread, [{}]), second.begin(thread, "call-1")):
            with pytest.raises(HitlConcurrencyError):
                await refused
        await first.append(thread, [{"role": "user"}])
    async with second.hold(thread):
        await second.append(thread, [{"role": "assistant"}])
    await first._engine.write(threads._hold, thread, "somebody", timedelta(0))  # and its process dies
    first._holders[thread] = "somebody"
    async with second.hold(thread):
        with pytest.raises(HitlConcurrencyError):
            await first.append(thread, [{"role": "user"}])
    assert len(await second.load(thread)) == 2


async def test_a_call_begins_once_unless_it_was_left(keepers: list[LedgerCheckpointer], thread: str) -> None:
    begun = await asyncio.gather(*(keeper.begin(thread, "call-1") for keeper in keepers * 3))
    assert begun.count(True) == 1
    await keepers[0].leave(thread, "call-1")
    begun = await asyncio.gather(*(keeper.begin(thread, "call-1") for keeper in keepers * 3))
    assert begun.count(True) == 1


async def test_of_two_that_respond_one_runs_the_call(keepers: list[LedgerCheckpointer], thread: str) -> None:
    ran: list[str] = []

    async def bash(cmd: str) -> str:
        ran.append(cmd)
        return "done"

    channel = LocalChannel(thread)

    def agent(keeper: LedgerCheckpointer, *said: object) -> Agent:
        return Agent(ScriptedModel(*said), [bash], channel, thread, keeper)  # type: ignore[arg-type]

    first = agent(keepers[0], calling(("call-1", "bash", {"cmd": "ls"})))
    running = asyncio.create_task(first.run("look"))
    await opened(first)
    await first.detach()
    await running
    ended = await asyncio.gather(
        *(agent(keeper, "done").respond(question_id="call-1", answer="approve") for keeper in keepers),
        return_exceptions=True,
    )
    assert ran == ["ls"]
    assert [isinstance(each, HitlNoPendingRequest | HitlStaleAnswer) for each in ended].count(True) == 1
    assert [message["role"] for message in await keepers[1].load(thread)] == ["user", "assistant", "tool", "assistant"]
