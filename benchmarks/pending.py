"""`python -m benchmarks.pending [COUNT]`: what many open approvals cost a worker: memory, idle processor, its start.

The ledger is on PostgreSQL, and nobody is sent a card. Each line is what was measured, nothing is computed beyond.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from statistics import median, quantiles

import psutil

from assent import Assent
from assent.client.handle import ApprovalHandle
from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from benchmarks import processes
from benchmarks.flows import ARGUMENTS, ME, pay, registry
from benchmarks.processes import Process
from benchmarks.servers import new_database, own_directory, own_postgres, own_temporal, temporal_process
from ledger import Ledger
from workers.setup import set_up
from workers.tools import tool_workers

COUNT = 20_000
AT_ONCE = 40
"""How many are asked for at a time."""
IDLE = 30.0
"""Seconds in which nothing happens."""
DECIDED = 50
"""How many of the oldest, which no worker has in memory, are decided then."""
TTL = timedelta(hours=12)


async def main(count: int) -> None:
    with own_directory() as directory, own_temporal() as temporal, own_postgres() as postgres:
        async with AsyncExitStack() as stack:
            client = await temporal.client("default")
            settings = Settings(database_url=await new_database(postgres, "pending"))
            await set_up(client, settings)
            ledger = Ledger.open(settings.database_url)
            stack.push_async_callback(ledger.dispose)
            await ledger.publish([pay.manifest], datetime.now(UTC))
            for worker in tool_workers(client, ledger, registry):
                await stack.enter_async_context(worker)
            said = {"TEMPORAL_ADDRESS": temporal.address, "ASSENT_DATABASE_URL": settings.database_url}
            said |= {"ASSENT_REQUESTER_PENDING": "0"}
            approvals = await processes.start(directory, "workers.approvals", **said)
            _say(0, approvals, settings, before := _resident(approvals))
            gate = Assent(TemporalDoor(client))
            handles: list[ApprovalHandle] = []
            began = time.monotonic()
            while len(handles) < count:
                asked = (gate.request(pay.name, ARGUMENTS, requester=ME, ttl=TTL) for _ in range(AT_ONCE))
                handles += await asyncio.gather(*asked)
                await handles[-1].state()  # the worker keeps up
                if len(handles) % (count // 10) < AT_ONCE:
                    _say(len(handles), approvals, settings, before)
            print(f"asked for {len(handles)} in {time.monotonic() - began:.0f} s")
            await _idle("idle", {"approvals": approvals.seen, "Temporal": temporal_process()})
            await approvals.stop()
            began = time.monotonic()
            approvals = await processes.start(directory, "workers.approvals", **said)
            stack.push_async_callback(approvals.stop)
            print(f"a worker started under them after {time.monotonic() - began:.1f} s")
            times = [await _decided(handle) for handle in handles[:DECIDED]]
            print(
                f"decision to outcome of {DECIDED} that it had to replay: p50 {1000 * median(times):.0f} ms, "
                f"p99 {1000 * quantiles(times, n=100, method='inclusive')[98]:.0f} ms"
            )
            _say(len(handles), approvals, settings, before)


def _say(pending: int, approvals: Process, settings: Settings, before: int) -> None:
    now, temporal = _resident(approvals), temporal_process().memory_info().rss
    print(
        f"{pending} pending: worker {now / 1e6:.0f} MB, {(now - before) / 1e6:+.0f} "
        f"(keeps at most {settings.cached_workflows} in memory); Temporal {temporal / 1e6:.0f} MB",
        flush=True,
    )


def _resident(process: Process) -> int:
    size: int = process.seen.memory_info().rss
    return size


async def _idle(name: str, seen: dict[str, psutil.Process]) -> None:
    before = {each: sum(process.cpu_times()[:2]) for each, process in seen.items()}
    await asyncio.sleep(IDLE)
    used = {each: sum(process.cpu_times()[:2]) - before[each] for each, process in seen.items()}
    print(
        f"{name} for {IDLE:.0f} s: "
        + ", ".join(f"{each} {100 * spent / IDLE:.1f} % of a core" for each, spent in used.items())
    )


async def _decided(handle: ApprovalHandle) -> float:
    shown = await handle.state()
    assert shown.payload_sha256 is not None, "it waits"
    began = time.monotonic()
    await handle.decide("approve", actor=ME, payload_sha256=shown.payload_sha256)
    await handle.outcome()
    return time.monotonic() - began


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
