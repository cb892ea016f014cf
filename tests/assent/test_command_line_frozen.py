"""`assent frozen` and `assent settle`, as operators and scripts run them."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle
from assent.types import State
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.command_line import ME, CommandLine, Terminal, command_line, on_terminal
from tests.support.tools import marks
from tests.support.waiting import until

AS_OPERATOR = ("--as", str(OPERATOR), "--reason", "it is in the books")
IN_A_SCRIPT = (*AS_OPERATOR, "--yes")


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("cli"), temporal_address, next(namespaces))


async def frozen(assent: CommandLine, path: Path, tool: str = "raises", **arguments: Any) -> ApprovalHandle:
    handle = await assent.service.gate.request(tool, {"path": str(path), **arguments}, requester=ME)
    assert (await assent.service.decided(handle, actor=ME)).status == "frozen"
    return handle


async def test_frozen_calls_are_listed_with_their_age(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m")

    async def listed() -> bool:
        return handle.id in [review.approval_id async for review in assent.service.gate.frozen(limit=1000)]

    await until(listed)
    people, programs = await asyncio.gather(assent("frozen"), assent("frozen", "--json"))
    assert people.out.split("\n")[0].split() == ["ID", "AGE", "TOOL", "CALL", "RISK", "REQUESTER"]
    (line,) = (line for line in people.out.splitlines() if handle.id in line)
    assert re.fullmatch(rf"{handle.id} +\d+ (s|min.*) +raises +.*path: .* +medium +open_id:ou_me", line)
    (found,) = (review for review in programs.data if review["approval_id"] == handle.id)
    assert (found["tool"], found["requester"], found["risk"]) == ("raises", "open_id:ou_me", "medium")
    assert (await assent("frozen", TEMPORAL_NAMESPACE="default")).out == "Nothing is frozen.\n"


async def test_executed_settles_with_its_content_and_is_shown(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m")
    before = await assent("show", handle.id)
    todo, key = before.out.partition("Settlement")[2], (await handle.state()).idempotency_key
    assert re.search(
        rf"^ +It happened +assent settle {handle.id} executed --as … --reason … --content RESULT$", todo, re.MULTILINE
    )
    assert re.search(
        rf"^ +It did not, .* +assent settle {handle.id} not-executed --as … --reason …$", todo, re.MULTILINE
    )
    assert re.search(r"^ +Try it again +not possible: the tool is not retry_safe", todo, re.MULTILINE)
    assert re.search(rf"^ +Idempotency key +{key}$", todo, re.MULTILINE)
    settled = await assent("settle", handle.id, "executed", *IN_A_SCRIPT, "--content", '{"账": 7}')
    assert (settled.code, settled.out, settled.err) == (0, "Settled: it was executed.\n", "")
    people, programs = await asyncio.gather(assent("show", handle.id), assent("show", handle.id, "--json"))
    section = people.out.partition("Settlement")[2]
    assert re.search(r"^ +Found +it was executed$", section, re.MULTILINE)
    assert re.search(rf"^ +By +{OPERATOR}$", section, re.MULTILINE)
    assert re.search(r"^ +Reason +it is in the books$", section, re.MULTILINE)
    assert '{"账": 7}' in section
    assert programs.data["settlement"]["content"] == {"账": 7}
    entry = (await assent.service.ledger.entries(handle.id))[-1]
    assert (entry.event, entry.actor, entry.surface) == ("settle", OPERATOR, "command_line")


async def test_programs_read_what_became_of_a_ruling(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m")
    settle = ("settle", handle.id, "not-executed", *IN_A_SCRIPT, "--json")
    first, late = await assent(*settle), await assent(*settle)
    assert (first.code, first.data["kind"], first.data["approval_id"]) == (0, "settled", handle.id)
    assert (late.code, late.data["kind"]) == (1, "already_settled")
    assert late.data["settlement"] == first.data["settlement"]


async def test_what_may_still_run_is_said_before_it_is_settled(assent: CommandLine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await frozen(assent, tmp_path / "m", "hangs", gate=str(gate))
    settled = await assent("settle", handle.id, "executed", *IN_A_SCRIPT, "--content", "wire 4711, see the bank")
    gate.touch()
    assert settled.code == 0
    assert "not known to be dead" in settled.err
    assert (await handle.settlement()).content == "wire 4711, see the bank"


async def test_what_is_not_frozen_or_not_known_is_not_found(assent: CommandLine, tmp_path: Path) -> None:
    pending = await assent.pending(tmp_path / "m")
    for finished in await asyncio.gather(
        assent("settle", pending.id, "executed", *IN_A_SCRIPT),
        assent("settle", "nobody-asked", "retry", *IN_A_SCRIPT, "--hash", "0" * 12),
    ):
        assert (finished.code, finished.out) == (4, "")
        assert "is not frozen; nothing was changed" in finished.err
    unreachable = await assent(
        "settle", pending.id, "executed", *IN_A_SCRIPT, TEMPORAL_ADDRESS=f"127.0.0.1:{servers.free_port()}"
    )
    assert unreachable.code == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("done", *AS_OPERATOR), "'done' is not one of"),
        (("executed", "--as", "open_id:ou_1"), "--reason"),
        (("executed", "--reason", "so"), "--as"),
        (("executed", *AS_OPERATOR, "--content", "{"), "not JSON"),
        (("not-executed", *IN_A_SCRIPT, "--content", "1"), "--content is the result"),
        (("executed", *AS_OPERATOR), "in a script, say --yes"),
        (("retry", *AS_OPERATOR, "--hash", "0" * 12), "in a script, say --yes"),
    ],
)
async def test_a_mistake_is_named_and_nothing_is_sent(assent: CommandLine, options: tuple[str, ...], said: str) -> None:
    finished = await assent("settle", "any", *options)
    assert (finished.code, finished.out) == (2, "")
    assert said in finished.err


# Asked on a terminal


async def test_a_person_is_shown_the_call_and_asked_before_anything_is_settled(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await frozen(assent, tmp_path / "m")
    settle = ("settle", handle.id, "not-executed", *AS_OPERATOR)
    for answer, code in (("n", 1), ("yes", 0)):
        async with on_terminal(assent, *settle) as (terminal, process):
            await asked(terminal, await handle.state(), "was not executed, and no longer can be?")
            assert await assent.service.ledger.settlement(handle.id) is None
            terminal.send(answer)
            assert await asyncio.wait_for(process.wait(), 300) == code
            assert ("Nothing was settled." in terminal.seen()) == (answer == "n")
    assert (await handle.settlement()).kind == "not_executed"


# Trying again


async def test_a_script_does_not_try_again_without_the_hash_nor_without_certainty(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await frozen(assent, tmp_path / "m")
    typed = str((await handle.state()).payload_sha256)[:12]
    retry = ("settle", handle.id, "retry", *IN_A_SCRIPT)
    without, not_certain = await asyncio.gather(assent(*retry), assent(*retry, "--hash", typed))
    assert (without.code, "--hash" in without.err) == (2, True)
    assert (not_certain.code, "not certain" in not_certain.err) == (1, True)


async def test_a_person_sees_what_would_run_and_types_its_hash(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m", "once_more")
    state = await handle.state()
    async with on_terminal(assent, "settle", handle.id, "retry", *AS_OPERATOR) as (terminal, process):
        await asked(terminal, state)
        terminal.send(str(state.payload_sha256)[:12])
        assert await asyncio.wait_for(process.wait(), 300) == 0
    assert (await handle.settlement()).kind == "executed"
    assert marks(tmp_path / "m") == 2
    assert "after it was tried again" in (await assent("show", handle.id)).out


async def test_a_person_who_thinks_better_of_it_leaves_with_ctrl_c(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m", "once_more")
    async with on_terminal(assent, "settle", handle.id, "retry", *AS_OPERATOR) as (terminal, process):
        await asked(terminal, await handle.state())
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 300) == 130
    assert marks(tmp_path / "m") == 1


async def asked(terminal: Terminal, state: State, question: str = "type the payload's hash") -> None:
    """Wait until the question is there, below everything that it is about."""

    async def there() -> bool:
        return question in terminal.seen()

    await until(there)
    for shown in (state.tool, "path", str(state.payload_sha256)[:12]):
        assert shown in terminal.seen()


async def test_what_was_tried_again_meanwhile_is_not_settled_unseen(assent: CommandLine, tmp_path: Path) -> None:
    handle = await frozen(assent, tmp_path / "m", "arrives_the_second_time", tried=str(tmp_path / "tried"))
    state = await handle.state()
    async with on_terminal(assent, "settle", handle.id, "not-executed", *AS_OPERATOR) as (terminal, process):
        await asked(terminal, state, "was not executed, and no longer can be?")
        typed = str(state.payload_sha256)[:12]
        again = await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=typed)
        assert again.kind == "retrying"
        await until(lambda: tried_twice(tmp_path / "tried"))
        terminal.send("y")
        assert await asyncio.wait_for(process.wait(), 300) == 1
        assert re.search("tried again.* since you looked", terminal.seen())
    assert await assent.service.ledger.settlement(handle.id) is None


async def tried_twice(path: Path) -> bool:
    return marks(path) == 2
