"""Programs that ask, with a worker killed at every step, on both databases."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.support.dying_worker import RUN_STEPS
from tests.support.program_deaths import killed_at
from tests.support.servers import PostgresServer, TemporalServer, connect

_DATABASES = ("sqlite", "postgres")
_WITHIN = 600.0


async def act_out(directory: Path, *, at_once: int = 3) -> int:
    """Kill a worker at every step; how many times that did not end as it should."""
    cases = [(step, database) for database in _DATABASES for step in RUN_STEPS]
    temporal, postgres = TemporalServer(namespaces=len(cases)), PostgresServer()
    temporal.start()
    os.environ["TEST_POSTGRES"] = postgres.uri
    free = asyncio.Semaphore(at_once)
    try:
        await connect(temporal.address, "n0")
        acted = (_one(free, temporal.address, f"n{n}", directory / f"run{n}", *case) for n, case in enumerate(cases))
        wrong = [each for each in await asyncio.gather(*acted) if each is not None]
    finally:
        temporal.kill()
        postgres.stop()
    print("\n".join(wrong) or f"A worker killed at {len(cases)} steps wrote no line twice.", flush=True)
    return len(wrong)


async def _one(
    free: asyncio.Semaphore, address: str, namespace: str, directory: Path, step: str, database: str
) -> str | None:
    """What went wrong, if something did."""
    async with free:
        os.mkdir(directory)
        try:
            async with asyncio.timeout(_WITHIN):
                await killed_at(step, await connect(address, namespace), address, database, directory)
        except Exception as error:
            return f"killed at {step} on {database}: {type(error).__name__}: {error}"
        return None
