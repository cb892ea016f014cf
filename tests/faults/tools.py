"""The tools that faults strike: every side effect is a line with its idempotency key, in a file of its own."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import ledger.postgresql
from assent import ProbeAnswer, ProbeResult, ToolContext, ToolOutcome, ToolResult, tool
from tests.faults import commits

QUEUE = os.environ.get("FAULTS_QUEUE", "faults")
"""Each worker of a fault serves a queue of its own, so that no other takes what is meant for it."""
ledger.postgresql.STATEMENT_SECONDS = float(os.environ.get("FAULTS_STATEMENT", "20"))
ledger.postgresql.IDLE_SECONDS = float(os.environ.get("FAULTS_IDLE", "10"))
TIMEOUT = timedelta(seconds=float(os.environ.get("FAULTS_TIMEOUT", "60")))
if "FAULTS_COMMITS" in os.environ:
    commits.gate(Path(os.environ["FAULTS_COMMITS"]))


def _take_effect(path: str, ctx: ToolContext) -> None:
    with Path(path).open("a") as file:
        file.write(ctx.idempotency_key + "\n")


def _pass(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(0.02)


@tool(name=f"{QUEUE}.effect", queue=QUEUE, timeout=TIMEOUT)
def effect(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect, and end when the gate opens."""
    _take_effect(path, ctx)
    _pass(gate)
    return "done"


@tool(name=f"{QUEUE}.safe", queue=QUEUE, timeout=TIMEOUT, retry_safe=True, attempts=3)
def safe(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect under a key that makes a second time harmless, and end when the gate opens."""
    _take_effect(path, ctx)
    _pass(gate)
    return "done"


@tool(name=f"{QUEUE}.raises", queue=QUEUE, timeout=TIMEOUT)
def raises(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect, and raise when the gate opens."""
    _take_effect(path, ctx)
    _pass(gate)
    raise ConnectionError("the line is dead")


@tool(name=f"{QUEUE}.refuses", queue=QUEUE, timeout=TIMEOUT)
def refuses(path: str, gate: str) -> ToolResult:
    """Take no effect, and say so when the gate opens."""
    Path(path + ".met").touch()
    _pass(gate)
    return ToolResult(ToolOutcome.FAILED, "refused")


def _look(ctx: ToolContext, path: str, gate: str) -> ProbeResult:
    """What the outside world says: it has taken effect, or it cannot be told."""
    happened = Path(path).exists() and ctx.idempotency_key in Path(path).read_text().splitlines()
    return ProbeResult(ProbeAnswer.EXECUTED if happened else ProbeAnswer.UNKNOWN, "found")


@tool(name=f"{QUEUE}.probed", queue=QUEUE, timeout=TIMEOUT, probe=_look)
def probed(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect where a probe can find it, and raise when the gate opens."""
    _take_effect(path, ctx)
    _pass(gate)
    raise ConnectionError("the line is dead")


@tool(name=f"{QUEUE}.lost", queue=QUEUE, timeout=TIMEOUT, retry_safe=True, attempts=1)
def lost(path: str, gate: str, ctx: ToolContext) -> ToolResult:
    """Take effect, and raise when the gate opens; whoever begins it again does not even get through."""
    if Path(path).exists():
        return ToolResult(ToolOutcome.FAILED, "no connection")
    _take_effect(path, ctx)
    _pass(gate)
    raise ConnectionError("the answer is lost")


def _count(ctx: ToolContext, path: str, gate: str) -> ProbeResult | ProbeAnswer:
    """What the outside world says at this moment: that it has happened, or that it has not."""
    found = _look(ctx, path, gate)
    return found if found.answer is ProbeAnswer.EXECUTED else ProbeAnswer.NOT_EXECUTED


@tool(name=f"{QUEUE}.outlives", queue=QUEUE, timeout=timedelta(seconds=2), retry_safe=True, attempts=2, probe=_count)
def outlives(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect when the gate opens, in a thread that goes on after its time; a second attempt raises at once."""
    if ctx.attempt > 1:
        raise ConnectionError("the line is dead")
    _pass(gate)
    _take_effect(path, ctx)
    return "done"


def _look_early(ctx: ToolContext, path: str, gate: str) -> ProbeResult | ProbeAnswer:
    """Look at once; from the second time on, answer what was so then when it is so no longer, or after a while."""
    seen, answer_by, looked = _count(ctx, path, gate), time.monotonic() + 5, Path(path + ".looked")
    if not looked.exists():
        looked.touch()
        return seen
    while not Path(path).exists() and time.monotonic() < answer_by:
        time.sleep(0.02)
    time.sleep(0.5)  # by now it is known that the body has ended
    return seen


@tool(name=f"{QUEUE}.late", queue=QUEUE, timeout=timedelta(seconds=2), probe=_look_early)
def late(path: str, gate: str, ctx: ToolContext) -> str:
    """Take effect and raise when the gate opens, in a thread that goes on after its time; its probe answers late."""
    _pass(gate)
    _take_effect(path, ctx)
    raise ConnectionError("the line is dead")
