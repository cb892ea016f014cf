"""Tools for tests. Their side effects are lines in files, counted from outside the service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assent import (
    Approvers,
    AskInterrupted,
    Identity,
    Permission,
    ProbeAnswer,
    ProbeResult,
    ToolContext,
    ToolOutcome,
    ToolResult,
    tool,
)
from assent.files import SharedFile
from assent.types import Execution, ResultReview
from tests.support import programs

PROGRAMS = programs.ALL
LI_LEI = Identity(open_id="ou_lilei", union_id="on_lilei")
HAN_MEIMEI = Identity(open_id="ou_han")


def leave_mark(path: str, line: str = "ran") -> int:
    """One side effect; returns how many there are now."""
    with Path(path).open("a") as file:
        file.write(line + "\n")
    return len(Path(path).read_text().splitlines())


def marks(path: Path | str) -> int:
    """How many side effects there were."""
    file = Path(path)
    return len(file.read_text().splitlines()) if file.exists() else 0


@tool
def mark(path: str, ctx: ToolContext, amount: Decimal = Decimal("1.00"), note: str = "none") -> dict[str, Any]:
    """Leave one mark in a file."""
    return {"marks": leave_mark(path), "amount": amount, "note": note, "key": ctx.idempotency_key}


@tool(name="mark.other")
def mark_other(path: str, amount: Decimal = Decimal("1.00"), note: str = "none") -> dict[str, Any]:
    """Another tool with the same arguments."""
    return {"other_marks": leave_mark(path)}


@tool(approvers="anyone", risk="low")
async def open_mark(path: str) -> str:
    """A mark that anyone may allow."""
    return f"mark {leave_mark(path)}"


@tool(approvers=[LI_LEI, HAN_MEIMEI], risk="high", sensitive=("secret",), max_ttl=timedelta(hours=4))
def guarded_mark(path: str, secret: str) -> int:
    """A mark that only two people may allow."""
    return leave_mark(path)


@tool(approvers=[Identity(open_id="ou_approver"), Identity(open_id="ou_operator")])
def by_two(path: str) -> int:
    """Whom either of two people may decide."""
    return leave_mark(path)


@tool
def ends_with(path: str, outcome: ToolOutcome, authorize_url: str | None = None) -> ToolResult:
    """Say how it ended."""
    return ToolResult(outcome, {"marks": leave_mark(path)}, authorize_url)


def mind(amount: int, secret: str) -> list[str]:
    """What to mind about a mark that warns."""
    if amount == 13:
        raise RuntimeError("unlucky")
    return [f"{amount} is much, and {secret} is known."] if amount > 10 else []


@tool(warnings=mind, sensitive=["secret"])
def warned_mark(path: str, amount: int = 1, secret: str = "hunter2") -> int:
    """A mark that says itself what to mind."""
    return leave_mark(path)


@tool(warnings=["It cannot be taken back."])
def solemn_mark(path: str) -> int:
    """A mark that always says what to mind."""
    return leave_mark(path)


@tool
def raises(path: str, size: int = 10, kind: str = "RuntimeError") -> None:
    """Leave a mark, then raise."""
    leave_mark(path)
    if kind == "SystemExit":
        raise SystemExit("x" * size)
    if kind == "undescribable":
        raise Undescribable
    raise RuntimeError("x" * size)


class Undescribable(Exception):
    def __str__(self) -> str:
        raise ValueError("no description")


@tool
async def raises_async(path: str, kind: str = "RuntimeError") -> None:
    """Leave a mark, then raise on the loop."""
    leave_mark(path)
    if kind == "SystemExit":
        raise SystemExit(1)
    if kind == "CancelledError":
        raise asyncio.CancelledError
    raise RuntimeError("on the loop")


@tool
def returns(path: str, what: str, size: int = 0) -> Any:
    """Leave a mark, then return something difficult."""
    leave_mark(path)
    match what:
        case "large":
            return {"text": "ö" * size}
        case "unserialisable":
            return {"lock": threading.Lock()}
        case "nul":
            return "a\x00b\ud800c"
        case "nan":
            return [float("nan"), float("inf")]
        case "generator":
            return (leave_mark(path) for _ in range(3))
        case "nothing":
            return None
        case _:
            return what


@tool(timeout=timedelta(seconds=1))
def hangs(path: str, gate: str) -> str:
    """Hang beyond the timeout, in a thread that cannot be stopped, until the gate opens."""
    leave_mark(path)
    pass_gate(gate)
    return "ended late"


@tool(timeout=timedelta(seconds=1))
async def hangs_async(path: str) -> None:
    """Hang beyond the timeout on the loop."""
    leave_mark(path)
    await asyncio.Event().wait()


@tool(timeout=timedelta(minutes=10))
def gated(path: str, gate: str, outcome: ToolOutcome = ToolOutcome.COMPLETED) -> ToolResult:
    """Leave a mark, wait for the gate, end as told."""
    count = leave_mark(path)
    pass_gate(gate)
    return ToolResult(outcome, {"marks": count})


@tool(timeout=timedelta(minutes=2), queue="another-team", approvers="anyone")
def elsewhere(path: str) -> int:
    """A tool on a queue of its own."""
    return leave_mark(path)


@tool(timeout=timedelta(minutes=2), queue="nobody")
def unserved(path: str) -> int:
    """A tool whose queue is served only where a test says so."""
    return leave_mark(path)


@tool(retry_safe=True, attempts=3, timeout=timedelta(minutes=2))
def flaky(path: str, failures: int, then: ToolOutcome, ctx: ToolContext) -> ToolResult:
    """Raise for the first attempts, with the same key each time, then end as told."""
    count = leave_mark(path, ctx.idempotency_key)
    if count <= failures:
        raise ConnectionError("lost")
    return ToolResult(then, {"attempt": ctx.attempt})


@tool(retry_safe=True, attempts=1, timeout=timedelta(minutes=2))
def once_more(path: str) -> dict[str, Any]:
    """Raise the first time, with a key that makes a second time harmless."""
    count = leave_mark(path)
    if count == 1:
        raise ConnectionError("lost")
    return {"marks": count}


@tool(retry_safe=True, attempts=2, timeout=timedelta(minutes=2))
def gated_retry_safe(path: str, gate: str) -> dict[str, Any]:
    """Wait for the gate; beginning again is harmless."""
    count = leave_mark(path)
    pass_gate(gate)
    return {"marks": count}


@tool(retry_safe=True, attempts=2, timeout=timedelta(seconds=1))
async def slow_once(path: str) -> str:
    """Hang the first time, with a key that makes a second time harmless."""
    if leave_mark(path) == 1:
        await asyncio.Event().wait()
    return "second time"


def look_up(ctx: ToolContext, path: str, finds: str) -> object:
    """A probe that says whatever the test wants it to."""
    leave_mark(path + ".probed")
    match finds:
        case "executed":
            return ProbeResult(ProbeAnswer.EXECUTED, {"found": marks(path)})
        case "raises":
            raise RuntimeError("the probe is broken")
        case "nonsense":
            return 17
        case answer:
            return answer


@tool(probe=look_up)
def probed(path: str, finds: str) -> None:
    """Leave a mark and raise; the probe knows better."""
    leave_mark(path)
    raise ConnectionError("lost")


def read_found(ctx: ToolContext, path: str, found: str, gate: str) -> object:
    """What the file says, if there is one."""
    answer = json.loads(Path(found).read_text()) if Path(found).exists() else "unknown"
    return ProbeResult(ProbeAnswer.EXECUTED, {"found": True}) if answer == "executed" else answer


@tool(probe=read_found, timeout=timedelta(seconds=1))
def found_later(path: str, found: str, gate: str = "") -> None:
    """Leave a mark, and break; behind a gate, not before it opens."""
    leave_mark(path)
    if gate:
        pass_gate(gate)
    raise ConnectionError("the line is dead")


@tool(timeout=timedelta(milliseconds=200))
def soon_over(path: str, gate: str) -> str:
    """Leave a mark, and wait for the gate far longer than is allowed."""
    leave_mark(path)
    pass_gate(gate)
    return "after all"


def pass_gate(gate: str) -> None:
    """Hold the process here until the test creates the file."""
    while not Path(gate).exists():
        time.sleep(0.01)


@tool(retry_safe=True, attempts=1)
def pays_then_cannot_connect(path: str) -> ToolResult:
    """Take effect and lose the answer; the next time, not even get through."""
    if marks(path):
        return ToolResult(ToolOutcome.FAILED, "no connection")
    leave_mark(path)
    raise ConnectionError("the answer is lost")


def count_marks(ctx: ToolContext, path: str, gate: str) -> object:
    """What is so at this moment."""
    return ProbeResult(ProbeAnswer.EXECUTED, marks(path)) if marks(path) else ProbeAnswer.NOT_EXECUTED


@tool(retry_safe=True, attempts=2, timeout=timedelta(seconds=1), probe=count_marks)
def goes_on(path: str, gate: str, ctx: ToolContext) -> int:
    """The first time wait for the gate, in a thread that goes on after its time, then take effect; else raise."""
    if ctx.attempt > 1:
        raise ConnectionError("the line is dead")
    pass_gate(gate)
    return leave_mark(path)


@tool(retry_safe=True, attempts=1)
def arrives_the_second_time(path: str, tried: str) -> None:
    """Never get there; the next time, get there and lose the answer."""
    if leave_mark(tried) > 1:
        leave_mark(path)
    raise ConnectionError("no answer")


@tool(retry_safe=True, attempts=1)
def says_for_whom(path: str, ctx: ToolContext) -> str:
    """Note of which conversation and tool call it is; the first time, lose the answer."""
    if leave_mark(path, f"{ctx.thread_id} {ctx.tool_call_id}") == 1:
        raise ConnectionError("the answer is lost")
    return "done"


@tool(retry_safe=True, attempts=2, timeout=timedelta(seconds=1), probe=count_marks)
async def goes_on_elsewhere(path: str, gate: str, ctx: ToolContext) -> int:
    """The same around a thread of its own, as authors of async code write it."""
    if ctx.attempt > 1:
        raise ConnectionError("the line is dead")
    await asyncio.to_thread(pass_gate, gate)
    return await asyncio.to_thread(leave_mark, path)


@tool(probe=count_marks, timeout=timedelta(seconds=1))
async def pays_in_a_thread(path: str, gate: str) -> int:
    """Take effect in a thread, once the gate opens."""

    def pay() -> int:
        pass_gate(gate)
        return leave_mark(path)

    return await asyncio.to_thread(pay)


@tool(probe=count_marks, in_flight=timedelta(hours=1))
def sends(path: str, gate: str) -> None:
    """Send something that may arrive within the hour, and know nothing of it."""
    Path(gate).touch()
    raise ConnectionError("the line is dead")


# Who may say yes, to what, how often

PEOPLE = tuple(Identity(open_id=f"ou_p{n}") for n in range(5))
CHIEFS = tuple(Identity(open_id=f"ou_c{n}") for n in range(2))


@tool(approvers=Approvers(kind=Approvers.Kind.PEOPLE, people=PEOPLE, threshold=3, exclude_requester=True))
def by_three(path: str, amount: int = 1) -> dict[str, int]:
    """Needs three of five, none of them who asked."""
    return {"marks": leave_mark(path), "amount": amount}


@tool(
    approvers=Approvers(
        kind="people",
        people=PEOPLE,
        threshold=2,
        exclude_requester=True,
        rejections=2,
        then=(Approvers(kind=Approvers.Kind.PEOPLE, people=CHIEFS),),
    )
)
def by_stages(path: str, amount: int = 1) -> dict[str, int]:
    """Needs two of five, then one of two."""
    return {"marks": leave_mark(path), "amount": amount}


@tool(permission=Permission(execution=Execution.AUTO))
def at_once(path: str) -> int:
    """Runs without asking."""
    return leave_mark(path)


@tool(permission="moderate", risk="low")
def ask_once(path: str, note: str = "none") -> int:
    """Asks the first time."""
    return leave_mark(path)


@tool(permission="moderate", risk="low", queue="nobody", timeout=timedelta(minutes=2))
def ask_once_unserved(path: str) -> int:
    """Asks the first time, and nobody runs it."""
    return leave_mark(path)


@tool(permission=Permission(execution=Execution.DENY))
def never(path: str) -> int:
    """May not run."""
    return leave_mark(path)


@tool(require_result_approval=True, sensitive=("secret",))
def looked_at(path: str, say: str = "hello", secret: str = "s3cret") -> dict[str, Any]:
    """Its result is looked at first."""
    return {"marks": leave_mark(path), "say": say}


@tool(permission=Permission(result=ResultReview.ON_ERROR))
def looked_at_on_error(path: str, how: str) -> ToolResult:
    """Its failures are looked at first."""
    leave_mark(path)
    if how == "raise":
        raise RuntimeError("a private matter")
    return ToolResult(ToolOutcome(how), {"said": "a private matter"})


# Tools that ask while they run

_WHERE = {"id": "where", "prompt": "Where?", "kind": "choice", "options": [{"value": "staging"}, {"value": "moon"}]}


@tool(asks=timedelta(minutes=5), approvers=[LI_LEI, HAN_MEIMEI])
def asks_where(path: str, ctx: ToolContext) -> ToolResult:
    """Asks where, then goes there."""
    outcome = ctx.ask(_WHERE)
    if not outcome.is_answered:
        return ToolResult(ToolOutcome.CANCELLED, outcome.status.value)
    return ToolResult(ToolOutcome.COMPLETED, {"where": outcome.answers["where"], "marks": leave_mark(path)})


@tool(asks=timedelta(minutes=5), timeout=timedelta(seconds=1))
async def asks_twice(path: str, ctx: ToolContext) -> dict[str, Any]:
    """Asks the same twice, of whoever asked for the call."""
    said = [await ctx.confirm("Sure?", requester=True) for _ in range(2)]
    return {"said": said, "marks": leave_mark(path)}


@tool(asks=timedelta(minutes=5), retry_safe=True, attempts=3)
def asks_and_dies(path: str, ctx: ToolContext) -> dict[str, Any]:
    """Its first attempt ends after the answer, without saying how."""
    outcome = ctx.ask(_WHERE)
    if leave_mark(path, f"attempt {ctx.attempt}") == 1:
        raise RuntimeError("gone")
    return {"where": outcome.answers["where"], "attempt": ctx.attempt}


@tool(asks=timedelta(minutes=5), retry_safe=True, attempts=1, approvers=[LI_LEI, HAN_MEIMEI])
def asks_and_freezes(path: str, ctx: ToolContext) -> dict[str, Any]:
    """Ends after its first answer without saying how; what it does when it is tried again is known."""
    outcome = ctx.ask(_WHERE)
    if leave_mark(path) == 1:
        raise RuntimeError("gone")
    return {"where": outcome.answers["where"]}


@tool(asks=timedelta(minutes=5))
async def asks_until_interrupted(path: str, ctx: ToolContext) -> ToolResult:
    """Says so when its worker leaves while it waits for an answer."""
    try:
        await ctx.ask(_WHERE)
    except AskInterrupted:
        return ToolResult(ToolOutcome.CANCELLED, "interrupted")
    return ToolResult(content={"marks": leave_mark(path)})


@tool(asks=timedelta(seconds=1))
def asks_briefly(path: str, ctx: ToolContext) -> list[str]:
    """Asks with hardly any time."""
    return [ctx.ask(_WHERE).status.value for _ in range(2)]


@tool(asks=timedelta(minutes=5))
async def asks_in_vain(path: str, ctx: ToolContext) -> str:
    """Asks, and does not wait for the answer."""
    asking = asyncio.ensure_future(ctx.ask(_WHERE))
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240 - a test writes it
        await asyncio.sleep(0.02)
    asking.cancel()
    return "done"


@tool
def asks_undeclared(path: str, ctx: ToolContext) -> ToolResult:
    """May not ask."""
    try:
        ctx.confirm("Sure?")
    except ValueError as refused:
        return ToolResult(ToolOutcome.BLOCKED, str(refused))
    return ToolResult(content="asked")


def _asking_probe(ctx: ToolContext, path: str) -> ProbeResult:
    try:
        return ProbeResult(ProbeAnswer.EXECUTED, ctx.confirm("Did it happen?"))
    except ValueError as refused:
        return ProbeResult(ProbeAnswer.EXECUTED, str(refused))


@tool(asks=timedelta(minutes=5), probe=_asking_probe)
def asks_in_its_probe(path: str) -> None:
    """Raises; its probe would ask."""
    raise RuntimeError("gone")


# Tools that take files


class Folder(BaseModel):
    """Files within something else."""

    files: list[SharedFile] = []
    cover: SharedFile | None = None


def _seen(file: SharedFile, data: bytes) -> str:
    return f"{file.name} {len(data)} {hashlib.sha256(data).hexdigest()}"


@tool
def count_bytes(path: str, file: SharedFile) -> dict[str, Any]:
    """Write down, outside, what a file holds."""
    data = file.read()
    leave_mark(path, _seen(file, data))
    return {"name": file.name, "media_type": file.media_type, "size": file.size, "sha256": file.sha256}


@tool
async def count_folder(path: str, folder: Folder) -> list[str]:
    """Write down what several files hold, by either way to read them, and where they lay."""
    places = []
    for file in [*folder.files, *([folder.cover] if folder.cover else [])]:
        data = await file.read()
        assert file.path().read_bytes() == data
        leave_mark(path, _seen(file, data))
        places.append(str(file.path()))
    return places


@tool(sensitive=("file",))
def count_hidden(path: str, file: SharedFile) -> int:
    """Write down what a file holds of which nobody sees anything."""
    return leave_mark(path, _seen(file, file.read()))


@tool(retry_safe=True, attempts=1)
def count_or_raise(path: str, file: SharedFile) -> int:
    """The first time nobody knows how it ended, and its error quotes the file."""
    data = file.read()
    if leave_mark(path, _seen(file, data)) == 1:
        raise RuntimeError(f"the line broke at {data[:120]!r}")
    return marks(path)


@tool(permission="public")
def count_unasked(path: str, file: SharedFile) -> int:
    """Write down what a file holds, without anybody being asked."""
    return leave_mark(path, _seen(file, file.read()))
