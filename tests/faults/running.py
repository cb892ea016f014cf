"""Running many schedules at once on two services, one on each kind of ledger, and telling what was found."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from temporalio.client import Client

from tests.faults.plans import drawn
from tests.faults.schedules import Schedule
from tests.faults.servers import OwnPostgres
from tests.faults.service import ServiceUnderFault

_SETTINGS = {"heartbeat_timeout": "2", "start_within": "20", "grace": "0.5"}


async def run_seeds(
    seeds: Iterable[int],
    clients: Sequence[Client],
    address: str,
    directory: Path,
    *,
    minutes: float,
    at_once: int,
) -> int:
    """Act out the schedules of these seeds; how many of them violated something."""
    began, waiting = time.monotonic(), iter(seeds)
    ran: Counter[str] = Counter()
    failed: list[int] = []
    async with AsyncExitStack() as stack:
        postgres = await asyncio.to_thread(OwnPostgres)
        stack.callback(postgres.stop)
        urls = {
            "sqlite": f"sqlite+aiosqlite:///{directory / 'ledger' / 'ledger.db'}",
            "postgres": await postgres.database(),
        }
        services: dict[str, ServiceUnderFault] = {}
        for (ledger, url), client in zip(urls.items(), clients, strict=True):
            own = directory / ledger
            own.mkdir()
            services[ledger] = ServiceUnderFault(client, address, own, url, settings=_SETTINGS)
            stack.push_async_callback(services[ledger].close)
            await services[ledger].open()
        renewing = asyncio.Lock()

        async def work() -> None:
            for seed in waiting:
                if time.monotonic() - began > minutes * 60:
                    return
                plan = drawn(seed)
                schedule = Schedule(plan, services[plan.ledger], renewing)
                try:
                    found = await schedule.run()
                    found += await _audited(services[plan.ledger], schedule.approvals)
                except Exception:
                    found = [traceback.format_exc()]
                ran[plan.blow] += 1
                if found:
                    failed.append(seed)
                    print("\n    ".join([f"VIOLATED {plan}", *found]), flush=True)

        await asyncio.gather(*(work() for _ in range(at_once)))
    seconds = time.monotonic() - began
    print(f"{ran.total()} schedules in {seconds:.0f} s, {len(failed)} violated; replay one with: make faults SEED=…")
    for blow, number in sorted(ran.items()):
        print(f"  {number:5} {blow}")
    return len(failed)


async def _audited(service: ServiceUnderFault, approvals: list[str]) -> list[str]:
    """What the audit says of these approvals that is not so."""
    return [broken for broken in await service.ledger.verify() if any(approval in broken for approval in approvals)]
