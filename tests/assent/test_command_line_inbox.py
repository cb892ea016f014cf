"""`assent inbox`, `assent grants` and every way to decide, as people and scripts run them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity
from assent.types import State
from tests.support.command_line import ME, CommandLine, Terminal, command_line, on_terminal
from tests.support.tools import LI_LEI, PEOPLE, marks
from tests.support.waiting import until

AS_ME = ("--as", "open_id:ou_me")
LI = "open_id:ou_lilei"


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("inbox"), temporal_address, next(namespaces))


async def asked(assent: CommandLine, tool: str, path: Path, requester: Identity, **more: Any) -> ApprovalHandle:
    handle = await assent.service.gate.request(tool, {"path": str(path), **more}, requester=requester)
    await handle.state()
    return handle


async def reviewing(assent: CommandLine, path: Path, requester: Identity, **more: Any) -> tuple[ApprovalHandle, State]:
    handle = await asked(assent, "looked_at", path, requester, **more)
    sha = (await handle.state()).payload_sha256
    await handle.decide("approve", actor=requester, payload_sha256=sha)

    async def waits() -> State | None:
        state = await handle.state()
        return state if state.phase == "reviewing" else None

    return handle, await until(waits)


# Deciding in a script


async def test_a_call_is_approved_with_other_arguments(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m", note="proposed")
    (tmp_path / "edited.json").write_text(json.dumps({"path": str(tmp_path / "e"), "note": "edited"}))
    done = await assent("decide", handle.id, "edit", *AS_ME, "--arguments", f"@{tmp_path}/edited.json")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Approved with the changed arguments.")
    assert (await handle.outcome()).status == "executed"
    assert (marks(tmp_path / "m"), marks(tmp_path / "e")) == (0, 1)
    people, programs = await asyncio.gather(assent("show", handle.id), assent("show", handle.id, "--json"))
    section = people.out.partition("Edited; proposed was")[2]
    assert re.search(r"^ +By +open_id:ou_me$", section, re.MULTILINE)
    assert '"proposed"' in section
    assert programs.data["outcome"]["edit"]["proposed_arguments"]["note"] == "proposed"
    assert programs.data["outcome"]["edit"]["arguments"]["note"] == programs.data["arguments"]["note"] == "edited"


async def test_an_argument_that_was_shown_masked_stays_as_it_is(assent: CommandLine, tmp_path: Path) -> None:
    handle = await asked(assent, "guarded_mark", tmp_path / "m", ME, secret="hidden")
    shown = (await assent("show", handle.id, "--json")).data["arguments"]
    assert shown["secret"] == "•••"
    arguments = json.dumps({**shown, "path": str(tmp_path / "e")})
    done = await assent("decide", handle.id, "edit", "--as", LI, "--arguments", "-", stdin=arguments.encode())
    assert done.code == 0, done.err
    outcome = await handle.outcome()
    assert outcome.edit is not None
    assert json.loads(outcome.edit.payload)["arguments"] == {"path": str(tmp_path / "e"), "secret": "hidden"}
    assert "hidden" not in (await assent("show", handle.id)).out + (await assent("show", handle.id, "--json")).out


async def test_an_edit_that_the_tool_refuses_is_told_and_the_call_still_waits(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await assent.pending(tmp_path / "m")
    refused = await assent("decide", handle.id, "edit", *AS_ME, "--arguments", '{"path": 1}')
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("Not counted: ")
    assert "path" in refused.err
    assert (await handle.state()).phase == "pending"


async def test_nobody_leaves_it_to_somebody_if_too_few_would_be_left(assent: CommandLine, tmp_path: Path) -> None:
    handle = await asked(assent, "by_three", tmp_path / "m", ME)
    for giver in PEOPLE[:2]:
        left = await assent("decide", handle.id, "delegate", "--as", str(giver), "--to", str(PEOPLE[4]))
        assert (left.code, left.err) == (0, "")
    refused = await assent("decide", handle.id, "delegate", "--as", str(PEOPLE[2]), "--to", str(PEOPLE[4]))
    assert refused.code == 1
    assert "too few people would be left who can approve" in refused.err
    shown = (await assent("show", handle.id)).out
    able = "open_id:ou_p2, open_id:ou_p3, open_id:ou_p4, not the requester"
    assert re.search(rf"^May decide +3 of {able}$", shown, re.MULTILINE)
    await handle.cancel()


async def test_approvals_are_counted_and_shown_and_one_leaves_it_to_another(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await asked(assent, "by_three", tmp_path / "m", ME)
    first = await assent("decide", handle.id, "approve", "--as", str(PEOPLE[0]))
    assert (first.code, first.out.partition(".")[0]) == (0, "Approved: 1 of 3")
    left = await assent("decide", handle.id, "delegate", "--as", str(PEOPLE[1]), "--to", "open_id:ou_new")
    assert (left.code, left.out.partition(".")[0]) == (0, "Left to somebody else")
    shown = (await assent("show", handle.id)).out
    assert re.search(r"^Progress +1 of 3 \(open_id:ou_p0\)$", shown, re.MULTILINE)
    assert re.search(r"^Delegated +open_id:ou_p1 to open_id:ou_new$", shown, re.MULTILINE)
    able = "open_id:ou_p2, open_id:ou_p3, open_id:ou_p4, open_id:ou_new, not the requester"
    assert re.search(rf"^May decide +2 more of {able}$", shown, re.MULTILINE)
    listed = await assent("inbox", "--as", "open_id:ou_new", "--json")
    assert handle.id in [each["approval_id"] for each in listed.data]
    listed = await assent("inbox", "--as", str(PEOPLE[0]), "--json")
    assert handle.id not in [each["approval_id"] for each in listed.data]
    await handle.cancel()


async def test_a_result_is_released_and_one_withheld_from_a_script(assent: CommandLine, tmp_path: Path) -> None:
    (released, _), (withheld, _) = await asyncio.gather(
        reviewing(assent, tmp_path / "r", ME, say="fine"), reviewing(assent, tmp_path / "w", ME, say="private")
    )
    on_result = (*AS_ME, "--stage", "result")
    first, second = await asyncio.gather(
        assent("decide", released.id, "approve", *on_result),
        assent("decide", withheld.id, "reject", *on_result, "--reason", "not for machines"),
    )
    assert first.out.startswith("Released: the agent gets the result.")
    assert second.out.startswith("Withheld: the agent does not get the result.")
    assert (await released.outcome()).content["say"] == "fine"
    await withheld.outcome()
    people, programs = await asyncio.gather(assent("show", withheld.id), assent("show", withheld.id, "--json"))
    assert re.search(r"^Withheld +not for machines$", people.out, re.MULTILINE)
    assert "The call ran; its result is withheld." in people.out
    assert (programs.data["outcome"]["withheld"], programs.data["outcome"]["status"]) == (True, "executed")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("edit",), "edit needs --arguments"),
        (("delegate",), "delegate needs --to"),
        (("edit", "--arguments", "[]"), "must be a JSON object"),
        (("edit", "--arguments", '{"n": NaN}'), "send it as a string"),
        (("approve", "--arguments", "{}", "--hash", "0" * 64), "would not look at"),
        (("approve", "--remember", "always"), "'always' is not one of"),
    ],
)
async def test_a_mistake_is_named_and_nothing_is_sent(assent: CommandLine, options: tuple[str, ...], said: str) -> None:
    finished = await assent("decide", "any", *options, *AS_ME)
    assert (finished.code, finished.out) == (2, "")
    assert said in finished.err


# Remembered decisions


async def test_grants_are_listed_and_revoked(assent: CommandLine, tmp_path: Path) -> None:
    assert (await assent("grants", TEMPORAL_NAMESPACE=assent.service.client.namespace)).code == 0
    handle = await asked(assent, "ask_once", tmp_path / "m", ME)
    await assent("decide", handle.id, "approve", *AS_ME, "--remember", "exact")
    await handle.outcome()
    people, programs = await asyncio.gather(assent("grants", TZ="UTC"), assent("grants", "--json"))
    (grant,) = (each for each in programs.data if each["approval_id"] == handle.id)
    assert (grant["tool"], grant["scope"], grant["state"], grant["decision"]) == (
        "ask_once",
        "exact",
        "live",
        "approve",
    )
    assert people.out.split("\n")[0].split() == [
        "ID",
        "STATE",
        "TOOL",
        "SCOPE",
        "DECISION",
        "FOR",
        "BY",
        "UNTIL",
        "(UTC)",
    ]
    (line,) = (line for line in people.out.splitlines() if grant["grant_id"] in line)
    assert "live" in line
    assert line.count("open_id:ou_me") == 2
    revoke = ("grants", "revoke", grant["grant_id"], "--as")
    forbidden = await assent(*revoke, "open_id:ou_stranger")
    assert (forbidden.code, forbidden.out) == (1, "")
    done = await assent(*revoke, "open_id:ou_me")
    assert (done.code, done.out.startswith(f"Revoked {grant['grant_id']}")) == (0, True)
    again, missing = await asyncio.gather(
        assent(*revoke, "open_id:ou_me", "--json"), assent("grants", "revoke", "none", *AS_ME)
    )
    assert (again.code, again.data["kind"]) == (1, "already_revoked")
    assert (missing.code, "is not known" in missing.err) == (4, True)


# The inbox


async def test_the_inbox_lists_what_waits_for_me_and_nothing_else(assent: CommandLine, tmp_path: Path) -> None:
    me = Identity(open_id="ou_lister")
    mine = await asked(assent, "mark", tmp_path / "m", me)
    result, _ = await reviewing(assent, tmp_path / "r", me)
    other = await assent.pending(tmp_path / "o")
    people, programs = await asyncio.gather(
        assent("inbox", "--as", str(me)), assent("inbox", "--as", str(me), "--json")
    )
    lines = [line.split() for line in people.out.splitlines()]
    assert lines[0] == ["ID", "LEFT", "WAITS", "TOOL", "CALL", "RISK", "REQUESTER"]
    assert [line[0] for line in lines[1:]] == [mine.id, result.id]
    assert [word for word in lines[1] if word in ("call", "mark", "path:")] == ["call", "mark", "path:"]
    assert [word for word in lines[2] if word in ("result", "looked_at")] == ["result", "looked_at"]
    assert [each["approval_id"] for each in programs.data] == [mine.id, result.id]
    assert other.id not in people.out
    assert (await assent("inbox", "--as", "open_id:ou_idle")).out == "Nothing waits for you.\n"


async def seen(terminal: Terminal, text: str) -> str:
    """What the terminal shows, once that is there."""

    async def there() -> str | None:
        shown = terminal.seen()
        return shown if text in shown else None

    return await until(there)


async def test_a_person_goes_through_the_inbox_at_a_prompt(assent: CommandLine, tmp_path: Path) -> None:
    me = Identity(open_id="ou_walker")
    first, second, third, fourth = [
        await asked(assent, "mark", tmp_path / str(n), me, note=f"call {n}") for n in range(1, 5)
    ]
    async with on_terminal(assent, "inbox", "--as", str(me)) as (terminal, process):
        assert "call 1" in await seen(terminal, "[q]uit: ")
        terminal.send("what")
        await seen(terminal, "one of the letters")
        terminal.send("a")
        await seen(terminal, "Approved.")
        await seen(terminal, "call 2")
        terminal.send("r too dear")
        await seen(terminal, "Rejected.")
        await seen(terminal, "call 3")
        terminal.send('e {"path": 1}')
        await seen(terminal, "Not counted: ")
        terminal.send("e")
        await seen(terminal, "as JSON on one line")
        terminal.send(json.dumps({"path": str(tmp_path / "edited")}))
        await seen(terminal, "Approved with the changed arguments.")
        await seen(terminal, "call 4")
        terminal.send("s")
        assert "Decided: 3 of 4." in await seen(terminal, "Decided: ")
        assert await asyncio.wait_for(process.wait(), 300) == 0
    outcomes = [await handle.outcome() for handle in (first, second, third)]
    assert [outcome.status for outcome in outcomes] == ["executed", "rejected", "executed"]
    assert outcomes[1].reason == "too dear"
    assert (marks(tmp_path / "1"), marks(tmp_path / "3"), marks(tmp_path / "edited")) == (1, 0, 1)
    assert (await fourth.state()).phase == "pending"
    entry = next(e for e in await assent.service.ledger.entries(first.id) if e.event == "confirm")
    assert entry.surface == "command_line"


async def test_what_is_of_high_risk_runs_only_for_who_types_its_hash(assent: CommandLine, tmp_path: Path) -> None:
    handle = await asked(assent, "guarded_mark", tmp_path / "m", LI_LEI, secret="hidden")
    sha = str((await handle.state()).payload_sha256)
    async with on_terminal(assent, "inbox", "--as", LI) as (terminal, process):
        await seen(terminal, "[q]uit: ")
        terminal.send("a")
        await seen(terminal, "type the payload's hash")
        terminal.send("000000000000")
        await seen(terminal, "nothing was decided")
        assert marks(tmp_path / "m") == 0
        terminal.send("a")
        terminal.send(sha[:12])
        shown = await seen(terminal, "Approved.")
        assert "hidden" not in shown
        assert sha[:12] in shown
        assert await asyncio.wait_for(process.wait(), 300) == 0
    assert (await handle.outcome()).status == "executed"


async def test_a_result_is_shown_whole_before_it_is_withheld(assent: CommandLine, tmp_path: Path) -> None:
    me = Identity(open_id="ou_reader")
    handle, _ = await reviewing(assent, tmp_path / "m", me, say="only for people")
    async with on_terminal(assent, "inbox", "--as", str(me)) as (terminal, process):
        assert "only for people" in await seen(terminal, "withhold")
        terminal.send("r private")
        await seen(terminal, "Withheld: ")
        assert await asyncio.wait_for(process.wait(), 300) == 0
    outcome = await handle.outcome()
    assert (outcome.withheld, outcome.withheld_reason) == (True, "private")


async def test_ctrl_c_leaves_the_inbox_and_decides_nothing(assent: CommandLine, tmp_path: Path) -> None:
    me = Identity(open_id="ou_leaver")
    handle = await asked(assent, "mark", tmp_path / "m", me)
    async with on_terminal(assent, "inbox", "--as", str(me)) as (terminal, process):
        await seen(terminal, "[q]uit: ")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 300) == 130
    assert (await handle.state()).phase == "pending"
