"""The measurements themselves: pace with many flows in flight, latency with one, events of a single flow."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import psutil

from benchmarks.flows import Variant, begun
from tests.support.waiting import until

Servers = Mapping[str, psutil.Process]
"""The servers that this run started, by name."""
OWN = "workers and client"
_FIRST_TASK = 4
"""Events of a workflow whose first task is done and left nothing: started, scheduled, started, completed."""
LANES = 20
"""How many decided flows are in flight at once; as many again wait for their decision."""


@dataclass(frozen=True)
class Pace:
    """How one variant went in one round."""

    rate: float
    """Complete flows per second."""
    cpu: dict[str, float]
    """Milliseconds of processor time per flow, by process."""

    @property
    def processor(self) -> float:
        """Milliseconds of processor time per flow, of all processes together."""
        return sum(self.cpu.values())


@dataclass(frozen=True)
class Latency:
    """How long something took, in milliseconds."""

    p50: float
    p99: float


class History(NamedTuple):
    """How much Temporal keeps of one flow."""

    events: int
    bytes: int


async def pace(variant: Variant, flows: int, servers: Servers) -> Pace:
    """Run flows to their end. A lane decides each after it has started the next: it was waiting, like a real one."""
    left = iter(range(flows))
    before, began = _cpu(servers), time.monotonic()
    await asyncio.gather(*(_lane(variant, left) for _ in range(LANES)))
    seconds = time.monotonic() - began
    spent = {name: used - before[name] for name, used in _cpu(servers).items()}
    return Pace(flows / seconds, {name: 1000 * used / flows for name, used in spent.items()})


class Peer:
    """The same flow on another engine, in a process of its own with that engine's packages."""

    def __init__(self, name: str, running: asyncio.subprocess.Process) -> None:
        self.name = name
        self._running = running

    @classmethod
    async def start(cls, name: str, python: Path, database_url: str) -> Peer:
        """python: the interpreter that has the engine's packages."""
        pipe = asyncio.subprocess.PIPE
        file = Path(__file__).with_name("peer.py")
        running = await asyncio.create_subprocess_exec(
            python, file, database_url, str(LANES), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        return cls(name, running)

    async def pace(self, flows: int, servers: Servers) -> Pace:
        assert self._running.stdin is not None, "it is a pipe"
        assert self._running.stdout is not None, "it is a pipe"
        before = _cpu(servers)
        self._running.stdin.write(f"{flows}\n".encode())
        took = json.loads(await self._running.stdout.readline())
        spent = {name: 1000 * (used - before[name]) / flows for name, used in _cpu(servers).items()}
        return Pace(flows / took["seconds"], spent | {OWN: 1000 * took["cpu"] / flows})

    async def stop(self) -> None:
        self._running.kill()
        await self._running.wait()


async def _lane(variant: Variant, left: Iterator[int]) -> None:
    waiting: str | None = None
    for _ in left:
        following = await variant.start()
        if waiting is not None:
            await _see_through(variant, waiting)
        waiting = following
    if waiting is not None:
        await _see_through(variant, waiting)


async def _see_through(variant: Variant, flow: str) -> None:
    await variant.decide(flow)
    await variant.end(flow)


def _cpu(servers: Servers) -> dict[str, float]:
    """Seconds of processor time so far, by process."""
    spent = {OWN: time.process_time()}
    for name, server in servers.items():
        own = server.cpu_times()  # those of its children that have ended are in its own books
        times = [own, *(child.cpu_times() for child in server.children(recursive=True))]
        ended = own.children_user + own.children_system
        spent[name] = ended + sum(used.user + used.system for used in times)
    return spent


async def latencies(variants: Sequence[Variant], flows: int) -> dict[str, Latency]:
    """Decide one flow at a time, the variants in turn, with nothing else going on."""
    waiting = {variant.name: [await _at_rest(variant) for _ in range(flows)] for variant in variants}
    seen: dict[str, list[float]] = {variant.name: [] for variant in variants}
    for n in range(flows):
        for variant in variants:
            flow = waiting[variant.name][n]
            sent = time.monotonic()
            await _see_through(variant, flow)
            seen[variant.name].append(1000 * (begun[flow] - sent))
    return _spread(seen)


async def answers(variants: Sequence[Variant], flows: int) -> dict[str, Latency]:
    """Decide one flow at a time, the variants in turn: from sending the decision until whoever asked knows of it."""
    seen: dict[str, list[float]] = {variant.name: [] for variant in variants}
    for _ in range(flows):
        for variant in variants:
            flow = await _at_rest(variant)
            sent = time.monotonic()
            await _see_through(variant, flow)
            seen[variant.name].append(1000 * (time.monotonic() - sent))
    return _spread(seen)


async def waits(variants: Sequence[Variant], flows: int) -> dict[str, Latency]:
    """Ask for one flow at a time, the variants in turn: from asking until the body begins, where nobody decides."""
    seen: dict[str, list[float]] = {variant.name: [] for variant in variants}
    for _ in range(flows):
        for variant in variants:
            asked = time.monotonic()
            flow = await variant.start()
            await variant.end(flow)
            seen[variant.name].append(1000 * (begun[flow] - asked))
    return _spread(seen)


def _spread(seen: Mapping[str, Sequence[float]]) -> dict[str, Latency]:
    return {
        name: Latency(median(values), quantiles(values, n=100, method="inclusive")[98]) for name, values in seen.items()
    }


async def history(variant: Variant) -> History:
    """What Temporal keeps of one flow that waited for its decision."""
    flow = await _at_rest(variant)
    await _see_through(variant, flow)
    return await _history(variant, flow)


async def history_of_unasked(variant: Variant) -> History:
    """What Temporal keeps of one flow that nobody was asked about."""
    flow = await variant.start()
    await variant.end(flow)
    return await _history(variant, flow)


async def _at_rest(variant: Variant) -> str:
    """A new flow, as soon as it waits for its decision: its first task has left more than its own events."""
    flow = await variant.start()
    await until(lambda: _is_waiting(variant, flow))
    return flow


async def _is_waiting(variant: Variant, flow: str) -> bool:
    return (await _history(variant, flow)).events > _FIRST_TASK


async def _history(variant: Variant, flow: str) -> History:
    seen = (await variant.client.get_workflow_handle(variant.workflow_id(flow)).describe()).raw_description
    return History(seen.workflow_execution_info.history_length, seen.workflow_execution_info.history_size_bytes)


def fsync_milliseconds(directory: Path, times: int = 50) -> float:
    """The median time of appending a page to a file and making it durable, on the disk that holds the ledgers."""
    stopwatch: list[float] = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(times):
            began = time.monotonic()
            file.write(b"\0" * 4096)
            os.fdatasync(file.fileno())
            stopwatch.append(time.monotonic() - began)
    return 1000 * median(stopwatch)
