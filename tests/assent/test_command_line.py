"""The `assent` command as people and scripts run it: a process of its own, against a whole service."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from assent import ApprovalHandle, ApprovalNotFound, Identity
from assent.cli.main import Exit, cli
from assent.types import State, Surface
from tests.conftest import OPERATOR
from tests.support import command_line as terminals
from tests.support import servers
from tests.support.command_line import ME, CommandLine, Finished, Terminal, call, command_line
from tests.support.fork_server import spawn
from tests.support.tools import marks
from tests.support.waiting import until

AS_ME = ("--requester", "open_id:ou_me")


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("cli"), temporal_address, next(namespaces))


# request


async def test_request_shows_what_would_run_and_who_may_let_it(assent: CommandLine, tmp_path: Path) -> None:
    arguments = json.dumps({"path": str(tmp_path), "note": "给张三的报告"}, ensure_ascii=False)
    (tmp_path / "arguments.json").write_text(arguments, "utf-8-sig")
    file = f"@{tmp_path}/arguments.json"
    asked = await assent("request", "mark", "--arguments", file, *AS_ME, "--id", f"r-{tmp_path}")
    state = await assent.service.gate.approval(f"r-{tmp_path}").state()
    assert (asked.code, asked.err) == (0, "")
    rows = dict(re.findall(r"^ *(\S.*?)  +(\S.*)$", asked.out, re.MULTILINE))
    assert rows.pop("Deadline").endswith("(in 14 min)")
    assert rows == {
        "Approval": f"r-{tmp_path}",
        "Status": "pending",
        "Tool": "mark",
        "Risk": "medium",
        "Requester": "open_id:ou_me",
        "May decide": "the requester",
        "Payload": (state.payload_sha256 or "")[:12],
        "amount": "1.00",
        "note": '"给张三的报告"',
        "path": f'"{tmp_path}"',
    }


async def test_request_tells_programs_the_id_and_carries_every_option(assent: CommandLine, tmp_path: Path) -> None:
    arguments = json.dumps({"path": str(tmp_path), "note": "从管道"}, ensure_ascii=False).encode()
    options = ("--thread", "th", "--message", "om_1", "--reason", "why", "--ttl", "2h", "--when-pending", "allow")
    asked = await assent("request", "mark", "--arguments", "-", *AS_ME, *options, "--json", stdin=arguments)
    assert (asked.code, asked.err) == (0, "")
    state = await assent.service.gate.approval(asked.data["approval_id"]).state()
    assert asked.data["payload_sha256"] == state.payload_sha256
    assert asked.data["arguments"] == {"amount": "1.00", "note": "从管道", "path": str(tmp_path)}
    started = (await assent.service.client.get_workflow_handle(f"approval/{state.approval_id}").fetch_history()).events
    sent = json.loads(started[0].workflow_execution_started_event_attributes.input.payloads[0].data)["request"]
    assert (sent["thread_id"], sent["message_id"], sent["reason"], sent["ttl"]) == ("th", "om_1", "why", "PT2H")
    assert (sent["when_pending"], sent["surface"]) == ("allow", "command_line")


async def test_request_says_where_the_card_and_the_outcome_go(assent: CommandLine, tmp_path: Path) -> None:
    card = ("--chat-id", "oc_team", "--reply-to", "om_1")
    told = ("--callback-url", "https://agent.example/done", "--id", f"c-{tmp_path}")
    asked = await assent("request", "mark", *call(tmp_path), *AS_ME, *card, *told, "--json")
    assert (asked.code, asked.data["status"]) == (1, "failed"), "this service sends neither cards nor announcements"
    workflow = assent.service.client.get_workflow_handle(f"approval/c-{tmp_path}")
    started = (await workflow.fetch_history()).events[0].workflow_execution_started_event_attributes
    sent = json.loads(started.input.payloads[0].data)["request"]
    assert (sent["chat_id"], sent["reply_to"]) == ("oc_team", "om_1")
    assert sent["callback_url"] == "https://agent.example/done"


async def test_request_that_can_never_run_is_refused_with_the_reason(assent: CommandLine) -> None:
    refused = await assent("request", "no.such.tool", "--arguments", "{}", *AS_ME)
    assert refused.code == 1
    assert "no worker has published a tool named 'no.such.tool'" in refused.out


ENDINGS = [
    ("mark", "approve", 0, "executed"),
    ("mark", "reject", 1, "rejected"),
    ("raises", "approve", 3, "frozen"),
    ("mark", "cancel", 1, "cancelled"),
    ("mark", "expire", 1, "expired"),
]


async def test_waiting_ends_with_the_outcome_and_its_exit_code(assent: CommandLine, tmp_path: Path) -> None:
    async def waited(number: int, tool: str, act: str) -> Finished:
        approval_id, ttl = f"w-{number}-{tmp_path}", "1s" if act == "expire" else "1h"
        command = ("request", tool, *call(tmp_path / str(number)), *AS_ME, "--id", approval_id, "--ttl", ttl, "--wait")
        waiting = asyncio.create_task(assent(*command, *(["--json"] if number % 2 else [])))
        await end(assent.service.gate.approval(approval_id), act)
        return await waiting

    finished = await asyncio.gather(*(waited(number, *ending[:2]) for number, ending in enumerate(ENDINGS)))
    for number, (_, _, code, status) in enumerate(ENDINGS):
        one = finished[number]
        assert one.code == code, one
        assert one.err.startswith(f"Asked as w-{number}-{tmp_path}.")
        if number % 2:
            assert one.data["status"] == status
        else:
            assert re.search(rf"^Status +{status}$", one.out, re.MULTILINE)


async def end(handle: ApprovalHandle, act: str) -> None:
    """End an approval as soon as the other process has asked for it."""
    if act == "expire":
        return
    state = await until(lambda: state_of(handle))
    if act == "cancel":
        await handle.cancel()
    else:
        await handle.decide(act, actor=ME, payload_sha256=state.payload_sha256)


async def state_of(handle: ApprovalHandle) -> State | None:
    try:
        return await handle.state()
    except ApprovalNotFound:
        return None


async def test_ctrl_c_ends_the_waiting_quietly_and_the_request_stays(assent: CommandLine, tmp_path: Path) -> None:
    process = await assent.start("request", "mark", *call(tmp_path / "m"), *AS_ME, "--wait")
    assert process.stdout is not None
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), 300)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    approval_id = line.split()[2].rstrip(".")
    assert (await assent.service.gate.approval(approval_id).state()).phase == "pending"


# list


async def test_list_is_plain_and_whole_in_a_pipe_and_json_for_programs(assent: CommandLine, tmp_path: Path) -> None:
    long = Identity(open_id="ou_" + "7" * 60)
    handle = await assent.service.gate.request(
        "guarded_mark", {"path": "p", "secret": "s"}, requester=long, approval_id=f"长{'x' * 40}-{tmp_path}"
    )
    await until(lambda: listed(assent, handle.id))
    people, programs, none = await asyncio.gather(
        assent("list", "--status", "pending", COLUMNS="60", TZ="UTC"),
        assent("list", "--status", "pending", "--json"),
        assent("list", "--status", "reviewing"),
    )
    assert people.out.split("\n")[0].split() == [
        "ID",
        "STATUS",
        "TOOL",
        "CALL",
        "LEFT",
        "RISK",
        "REQUESTER",
        "REQUESTED",
        "(UTC)",
    ]
    (line,) = (line for line in people.out.splitlines() if handle.id in line)
    assert re.fullmatch(
        rf"{handle.id} +pending +guarded_mark +path: p · secret: ••• +3 h 59 min +high +{long} +[\d-]+ [\d:]+", line
    )
    assert "\x1b" not in people.out
    (found,) = (approval for approval in programs.data if approval["approval_id"] == handle.id)
    assert (found["status"], found["tool"], found["risk"]) == ("pending", "guarded_mark", "high")
    assert (none.code, none.out) == (0, "No approvals.\n")
    await handle.cancel()


async def listed(assent: CommandLine, approval_id: str) -> bool:
    return approval_id in [found.approval_id async for found in assent.service.gate.approvals(status="pending")]


async def test_tables_fit_the_terminal_tell_calls_apart_and_say_what_they_leave_out(
    assent: CommandLine, tmp_path: Path
) -> None:
    soon = await assent.service.gate.request(
        "mark", {"path": str(tmp_path / "m"), "note": "soon"}, requester=ME, ttl=timedelta(minutes=3)
    )
    later = await assent.pending(tmp_path / "m", note="later")
    await until(lambda: listed(assent, later.id))
    seen = await on_terminal(assent, 80, "list", "--status", "pending", "--limit", "2")
    assert "\x1b[" in seen
    lines = re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert re.fullmatch(r"No room for .*REQUESTED \(\w+\): widen the terminal, or say --json\.", lines[-1])
    (place,) = (n for n, line in enumerate(lines) if "note: soon" in line)
    (after,) = (n for n, line in enumerate(lines) if "note: later" in line)
    assert place < after  # less time is left
    assert re.search(r"  2 min \d+ s  ", lines[place])
    shown = await assent("show", lines[place].split()[0], "--json")
    assert shown.data["approval_id"] == soon.id


async def test_the_beginning_of_an_id_stands_for_it_as_long_as_it_is_the_only_one(
    assent: CommandLine, tmp_path: Path
) -> None:
    for name in ("pre-cise", "pre-cise-1", "pre-cise-2"):
        await assent.service.gate.request("mark", {"path": str(tmp_path)}, requester=ME, approval_id=name)
    await until(lambda: listed(assent, "pre-cise-2"))
    whole, one, several, none = await asyncio.gather(
        assent("show", "pre-cise", "--json"),
        assent("decide", "pre-cise-2", "reject", "--as", str(ME), "--json"),
        assent("decide", "pre-c", "reject", "--as", str(ME)),
        assent("show", "pre-other"),
    )
    assert (whole.data["approval_id"], one.data["approval_id"]) == ("pre-cise", "pre-cise-2")
    assert (several.code, none.code) == (2, 4)
    assert "more than one approval begins with 'pre-c'" in several.err
    assert "pre-cise-1" in several.err


async def test_a_few_letters_decide_nothing_that_nobody_was_shown(assent: CommandLine, tmp_path: Path) -> None:
    await assent.service.gate.request(
        "mark", {"path": str(tmp_path / "m"), "note": "a · b"}, requester=ME, approval_id="inv-1043"
    )
    await until(lambda: listed(assent, "inv-1043"))
    approve = ("decide", "inv-10", "approve", "--as", str(ME))
    unseen = await assent(*approve)
    assert (unseen.code, "no approval is called 'inv-10'" in unseen.err) == (2, True)
    async with terminals.on_terminal(assent, *approve) as (terminal, process):
        await until(lambda: says(terminal, "Is that the one?"))
        assert "inv-10 stands for inv-1043: mark · " in terminal.seen()
        assert 'note: "a · b"' in terminal.seen()
        terminal.send("n")
        assert await asyncio.wait_for(process.wait(), 300) == 2
    assert (await assent.service.gate.approval("inv-1043").state()).phase == "pending"


async def says(terminal: Terminal, text: str) -> bool:
    return text in terminal.seen()


async def test_tools_are_listed_with_what_they_take(assent: CommandLine) -> None:
    people, programs = await asyncio.gather(assent("tools"), assent("tools", "--json"))
    assert people.out.split("\n")[0].split() == ["TOOL", "DOES", "ARGUMENTS", "RISK", "DECIDES"]
    assert re.search(r"^guarded_mark +\S.* +path, secret +high +people$", people.out, re.MULTILINE)
    assert "guarded_mark" in [tool["name"] for tool in programs.data]
    narrow = await on_terminal(assent, 80, "tools")
    assert "guarded_mark" in narrow  # a tool is named whole
    nowhere = await assent("tools", ASSENT_URL="", ASSENT_TOKEN="")
    assert (nowhere.code, "ASSENT_URL" in nowhere.err) == (2, True)


async def on_terminal(assent: CommandLine, columns: int, *arguments: str) -> str:
    """What a terminal of that width shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = await spawn(
        *("-m", "assent", *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**assent.environment, "TERM": "xterm-256color"},
    )
    assert await asyncio.wait_for(process.wait(), 300) == 0
    os.close(theirs)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return seen


# show


async def test_show_masks_secrets_and_defuses_text_that_would_command_the_terminal(
    assent: CommandLine, tmp_path: Path
) -> None:
    dangerous = "a\x1b[2Jb\u202ec\x9b1m[red]d\x7f\n🙂"
    handle = await assent.service.gate.request("guarded_mark", {"path": dangerous, "secret": "hunter2"}, requester=ME)
    people, programs = await asyncio.gather(assent("show", handle.id), assent("show", handle.id, "--json"))
    assert re.search(r"^ +secret +•••$", people.out, re.MULTILINE)
    assert re.search(r"^May decide +open_id:ou_lilei, open_id:ou_han$", people.out, re.MULTILINE)
    assert r'"a\u001b[2Jb⟦U+202E⟧c⟦U+009B⟧1m[red]d⟦U+007F⟧\n🙂"' in people.out
    assert programs.data["arguments"] == {"path": dangerous, "secret": "•••"}
    assert programs.data["sensitive"] == ["secret"]
    assert "hunter2" not in people.out + programs.out
    assert not set("\x1b\u202e\x9b\x7f") & set(people.out + programs.out)


async def test_show_tells_the_decisions_and_the_result_of_a_closed_approval(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await assent.pending(tmp_path / "m", note="季度报告")
    state = await handle.state()
    await handle.decide("approve", actor=Identity(open_id="ou_stranger"), payload_sha256=state.payload_sha256)
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    await handle.outcome()
    people, programs = await asyncio.gather(assent("show", handle.id), assent("show", handle.id, "--json"))
    assert re.search(r"^Status +executed$", people.out, re.MULTILINE)
    assert re.search(r"approve +forbidden +open_id:ou_stranger$", people.out, re.MULTILINE)
    assert re.search(r"approve +accepted +open_id:ou_me$", people.out, re.MULTILINE)
    assert '"marks": 1' in people.out.partition("Result")[2]
    assert programs.data["outcome"]["content"]["note"] == "季度报告"
    assert programs.data["payload_sha256"] == state.payload_sha256
    assert [decision["verdict"] for decision in programs.data["decisions"]] == ["forbidden", "accepted"]


# decide and cancel


async def test_decision_counts_only_from_an_approver_and_on_the_payload_seen(
    assent: CommandLine, tmp_path: Path
) -> None:
    handle = await assent.pending(tmp_path / "m")
    seen = (await handle.state()).payload_sha256 or ""
    decide, me = ("decide", handle.id, "approve", "--as"), "open_id:ou_me"
    refused = await asyncio.gather(
        assent(*decide, "open_id:ou_stranger"),
        assent(*decide, me, "--hash", "0" * 64),
        assent(*decide, me, "--hash", "0" * 12, "--json"),
        assent(*decide, me, "--hash", seen[:11], "--json"),
    )
    assert [one.code for one in refused] == [1, 1, 1, 1]
    assert "open_id:ou_stranger may not decide" in refused[0].err
    assert "the hash is not that of the call" in refused[1].err
    assert [one.out for one in refused[:2]] == ["", ""]
    assert [one.data["kind"] for one in refused[2:]] == ["tampered", "tampered"]
    accepted = await assent(*decide, me, "--hash", seen[:12], "--reason", "好的")
    assert (accepted.code, accepted.out) == (0, f"Approved. What became of it: assent show {handle.id}\n")
    outcome = await handle.outcome()
    assert (outcome.status, marks(tmp_path / "m")) == ("executed", 1)
    (confirmed,) = (entry for entry in await assent.service.ledger.entries(handle.id) if entry.event == "confirm")
    assert (confirmed.surface, confirmed.reason) == (Surface.COMMAND_LINE, "好的")
    late = await assent(*decide, me)
    assert (late.code, late.out) == (1, "")
    assert "open_id:ou_me has already decided, and it ended as executed" in late.err


async def test_rejection_without_a_hash_is_about_the_call_as_it_stands(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m")
    rejected = await assent("decide", handle.id, "reject", "--as", "open_id:ou_me", "--reason", "no", "--json")
    assert (rejected.code, rejected.data["approval_id"], rejected.data["kind"]) == (0, handle.id, "accepted")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason, marks(tmp_path / "m")) == ("rejected", "no", 0)


async def test_whoever_decides_can_be_asked_again(assent: CommandLine, tmp_path: Path) -> None:
    asked = {"path": str(tmp_path / "m")}
    handle = await assent.service.gate.request("ask_once", asked, requester=ME)
    assert (await assent("decide", handle.id, "approve", "--as", str(ME), "--ask-again")).code == 0
    assert (await handle.outcome()).status == "executed"
    again = await assent.service.gate.request("ask_once", asked, requester=ME)
    assert (await again.state()).phase == "pending"
    await again.cancel()


async def test_permissions_are_overridden_for_a_while_and_only_operators_loosen(assent: CommandLine) -> None:
    override = ("policy", "override", "mark")
    nothing = await assent(*override)
    loosened = await assent(*override, "--execution", "auto", "--as", str(ME))
    assert (nothing.code, loosened.code) == (2, 1)
    assert "only operators" in loosened.err
    made = await assent(*override, "--execution", "deny", "--for", "2h", "--reason", "An incident.")
    assert (made.code, made.out[:35]) == (0, "For mark execution deny holds until")
    listed = await assent("policy", "overrides", "--json")
    assert [(each["tool"], each["execution"], each["reason"]) for each in listed.data] == [
        ("mark", "deny", "An incident.")
    ]
    for sooner in (("--execution", "deny", "--for", "1s"), ("--end",)):
        assert (await assent(*override, *sooner, "--as", str(ME))).code == 1
    ended = await assent(*override, "--end", "--as", str(OPERATOR))
    assert (ended.code, ended.out) == (0, "For mark nothing but the file and the tool holds.\n")
    assert (await assent("policy", "overrides")).out == "No override is in force.\n"


async def test_files_are_listed_without_what_is_in_them(assent: CommandLine) -> None:
    sender = Identity(open_id="ou_sender")
    assert (await assent("files", "--requester", str(sender))).out == "No files.\n"
    resource, message = {"key": "file_v3_secret", "name": "q3.pdf"}, {"message_id": "om_1", "chat_id": "oc_1"}
    file = await assent.service.ledger.files.register(sender, resource, message=message, ttl_seconds=0)
    listed = await assent("files", "--requester", str(sender), "--json")
    assert listed.data == [{**file.summary()}]
    assert "file_v3_secret" not in listed.out
    assert (await assent("files", "--requester", str(ME), "--json")).data == []


async def test_exit_code_is_that_of_the_decision_even_if_nobody_reads(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m")
    reader, writer = os.pipe()
    os.close(reader)
    process = await spawn(
        *("-m", "assent", "decide", handle.id, "reject", "--as", "open_id:ou_me", "--json"),
        stdout=writer,
        stderr=writer,
        env=assent.environment,
    )
    assert await asyncio.wait_for(process.wait(), 300) == 0
    os.close(writer)
    assert (await handle.outcome()).status == "rejected"


async def test_cancel_withdraws_what_nobody_has_decided(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m")
    cancelled = await assent("cancel", handle.id, "--reason", "不需要", "--as", "open_id:ou_me", "--json")
    assert (cancelled.code, cancelled.data["status"], cancelled.data["reason"]) == (0, "cancelled", "不需要")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason, outcome.decided_by) == ("cancelled", "不需要", ME)
    (entry,) = (entry for entry in await assent.service.ledger.entries(handle.id) if entry.event == "cancel")
    assert entry.surface == Surface.COMMAND_LINE


async def test_cancel_says_when_it_came_too_late(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m")
    await assent.service.decided(handle, actor=ME)
    late = await assent("cancel", handle.id)
    assert (late.code, late.out, late.err) == (1, "", f"Not cancelled: {handle.id} is executed.\n")


# Mistakes and failures

MISTAKES = [
    (("request", "mark", "--arguments", "{bad", *AS_ME), "this is not JSON"),
    (("request", "mark", "--arguments", '{"a": 1e999}', *AS_ME), "$.a: inf is not a JSON number"),
    (("request", "mark", "--arguments", "{}", "--requester", "ou_me"), "'ou_me' is not an identity"),
    (("request", "mark", "--arguments", "{}", *AS_ME, "--id", "x" * 300), "approval_id: "),
    (
        ("request", "mark", "--arguments", "{}", *AS_ME, "--callback-url", "http://a.example"),
        "goes to an https address",
    ),
    (("show", "\udcff"), "'ID'"),
    (("sing",), "No such command 'sing'"),
]


async def test_mistakes_are_answered_in_one_line(assent: CommandLine) -> None:
    finished = await asyncio.gather(*(assent(*arguments) for arguments, _ in MISTAKES))
    for (arguments, sentence), one in zip(MISTAKES, finished, strict=True):
        assert (one.code, one.out) == (2, ""), (arguments, one)
        assert one.err.startswith("assent: ")
        assert one.err.count("\n") == 1, one.err
        assert sentence in one.err


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--arguments", '{"a": NaN}', "$.a: nan is not a JSON number"),
        ("--arguments", '{"a": [-Infinity]}', "$.a[0]: -inf is not a JSON number"),
        ("--arguments", '{"a": {"b": 1, "b": 1}}', "$.a.b: this name is given twice"),
        ("--arguments", "[1]", "must be a JSON object"),
        ("--arguments", "", "this is not JSON"),
        ("--arguments", '{"a": ' + "[" * 100_000, "nested too deeply"),
        ("--arguments", "@/no/such/file", "cannot be read: No such file"),
        ("--requester", "open_id:", "at least 1 character"),
        ("--requester", "", "is not an identity"),
        ("--ttl", "90", "write 90s, 15m, 4h or 1d"),
        ("--ttl", "-1m", "write 90s, 15m, 4h or 1d"),
        ("--ttl", "9" * 30 + "d", "longer than any approval can wait"),
        ("--when-pending", "sing", "'sing' is not one of"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused_before_anything_is_sent(option: str, value: str, sentence: str) -> None:
    given = {"--arguments": "{}", "--requester": "open_id:ou_me", option: value}
    answer = CliRunner().invoke(cli, ["request", "mark", *(word for pair in given.items() for word in pair)])
    assert answer.exit_code == 2
    assert option in answer.output
    assert sentence in answer.output


async def test_unknown_approval_is_not_found(assent: CommandLine) -> None:
    decide = ("decide", "nobody-asked", "approve", "--as", "open_id:ou_me")
    for finished in await asyncio.gather(
        assent("show", "nobody-asked"),
        assent("cancel", "nobody-asked"),
        assent(*decide, "--hash", "0" * 64),
    ):
        assert (finished.code, finished.out) == (4, "")
        assert "approval 'nobody-asked' is not known." in finished.err


async def test_taken_id_and_busy_conversation_are_refused(assent: CommandLine, tmp_path: Path) -> None:
    command = ("request", "mark", *AS_ME, "--thread", f"th-{tmp_path}", "--when-pending", "fail")
    first = await assent(*command, *call(tmp_path / "m"), "--id", f"c-{tmp_path}")
    again, other, busy = await asyncio.gather(
        assent(*command, *call(tmp_path / "m"), "--id", f"c-{tmp_path}"),
        assent(*command, *call(tmp_path / "m", note="other"), "--id", f"c-{tmp_path}"),
        assent(*command, *call(tmp_path / "m")),
    )
    assert [first.code, again.code, other.code, busy.code] == [0, 0, 1, 1]
    assert again.out.splitlines()[0] == first.out.splitlines()[0]
    assert "already stands for another request; nothing was started" in other.err
    assert f"has an open request (c-{tmp_path}); nothing was asked" in busy.err


async def test_unreachable_temporal_and_unusable_settings_are_named(assent: CommandLine, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{servers.free_port()}"
    (tmp_path / "temporal.toml").write_text("not toml")
    unreachable, namespace, file = await asyncio.gather(
        assent("list", TEMPORAL_ADDRESS=nobody),
        assent("list", TEMPORAL_NAMESPACE="nowhere"),
        assent("list", TEMPORAL_CONFIG_FILE=str(tmp_path / "temporal.toml")),
    )
    assert [unreachable.code, namespace.code, file.code] == [5, 5, 2]
    assert f"Temporal does not answer at {nobody}" in unreachable.err
    assert "nowhere" in namespace.err
    assert "connection settings cannot be used" in file.err
    assert file.err.count("\n") == 1


# What only the ledger knows


FROM_THE_LEDGER = [
    ("inbox", "--as", "open_id:ou_me"),
    ("grants",),
    ("policy", "explain", "mark", "--arguments", '{"path": "m"}', "--as", "open_id:ou_me"),
    ("show", "nobody-asked"),
]


@pytest.mark.parametrize("arguments", FROM_THE_LEDGER, ids=lambda arguments: arguments[0])
async def test_what_only_the_ledger_knows_needs_an_address_and_a_token(
    assent: CommandLine, arguments: tuple[str, ...]
) -> None:
    neither, no_token, no_url = await asyncio.gather(
        assent(*arguments, ASSENT_URL="", ASSENT_TOKEN=""),
        assent(*arguments, ASSENT_TOKEN=""),
        assent(*arguments, ASSENT_URL=""),
    )
    for finished, sentence in (
        (neither, "set ASSENT_URL and ASSENT_TOKEN."),
        (no_token, "ASSENT_URL is set and ASSENT_TOKEN is not"),
        (no_url, "ASSENT_TOKEN is set and ASSENT_URL is not"),
    ):
        assert (finished.code, finished.out) == (2, ""), finished
        assert sentence in finished.err
        assert "secret-console" not in finished.err


async def test_what_temporal_knows_needs_neither(assent: CommandLine, tmp_path: Path) -> None:
    handle = await assent.pending(tmp_path / "m")
    listed, shown = await asyncio.gather(
        assent("list", ASSENT_URL="", ASSENT_TOKEN=""),
        assent("show", handle.id, ASSENT_URL="", ASSENT_TOKEN=""),
    )
    assert (listed.code, shown.code) == (0, 0), (listed, shown)
    await handle.cancel()


@pytest.mark.parametrize("token", ["secret-nothing", "guessed"])
async def test_of_the_ledger_one_is_told_what_the_token_may_read(assent: CommandLine, token: str) -> None:
    inbox, policy = await asyncio.gather(
        *(assent(*arguments, ASSENT_TOKEN=token) for arguments in (FROM_THE_LEDGER[0], FROM_THE_LEDGER[2]))
    )
    for finished in (inbox, policy):
        assert (finished.code, finished.out) == (1, ""), finished
        assert "token" in finished.err
        assert token not in finished.err


async def test_without_workers_what_is_said_is_kept_and_what_is_asked_is_unavailable(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    async with AsyncExitStack() as stack:
        assent = await command_line(stack, tmp_path, temporal_address, next(namespaces), workers=False)
        waiting = await assent.service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
        asked, decided, shown = await asyncio.gather(
            assent("request", "mark", *call(tmp_path / "m"), *AS_ME),
            assent(
                "decide",
                waiting.id,
                "approve",
                "--as",
                "open_id:ou_me",
                "--hash",
                "0" * 64,
                "--json",
                TEST_VERDICT_WITHIN="2",
            ),
            assent("show", waiting.id),
        )
        assert asked.code == 0
        assert re.fullmatch(r"Asked as [0-9a-f-]{36}\. No worker has taken it yet; .*\n", asked.out)
        assert (decided.code, decided.data["kind"]) == (0, "received")
        assert (shown.code, shown.out) == (5, "")
        assert "did not answer" in shown.err


def test_help_names_every_exit_code() -> None:
    helped = CliRunner().invoke(cli, ["--help"])
    assert re.findall(r"^  +(\d+) +\S", helped.output, re.MULTILINE) == [str(code.value) for code in Exit]


async def test_no_process_crashes_on_its_way_out(assent: CommandLine) -> None:
    finished = await asyncio.gather(*(assent("list", "--json") for _ in range(10)))
    assert [one.code for one in finished] == [0] * 10
