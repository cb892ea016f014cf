"""Files on their way, questions, and programs that ask, with a worker killed at every step, on both databases."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from tests.support import file_deaths, program_deaths, question_deaths
from tests.support.dying_worker import QUESTION_STEPS, RUN_STEPS, STEPS
from tests.support.servers import PostgresServer, TemporalServer, connect

_DATABASES = ("sqlite", "postgres")
_WITHIN = 600.0


@dataclass(frozen=True)
class Deaths:
    """The steps of something at which a worker may die."""

    what: str
    steps: Collection[str]
    killed_at: Callable[[str, Client, str, str, Path], Awaitable[None]]
    at_once: int
    well: str
    """What is said, with the number of cases, where all ended as they should."""


FILES = Deaths(
    "file", STEPS, file_deaths.killed_at, 4, "A worker killed at {} steps of a file's way left nothing half done."
)
QUESTIONS = Deaths(
    "question",
    QUESTION_STEPS,
    question_deaths.killed_at,
    3,
    "A worker killed at {} steps of a question lost no answer.",
)
PROGRAMS = Deaths("run", RUN_STEPS, program_deaths.killed_at, 3, "A worker killed at {} steps wrote no line twice.")


async def act_out(deaths: Deaths, directory: Path) -> int:
    """Kill a worker at every step; how many times that did not end as it should."""
    cases = [(step, database) for database in _DATABASES for step in deaths.steps]
    temporal, postgres = TemporalServer(namespaces=len(cases)), PostgresServer()
    temporal.start()
    os.environ["TEST_POSTGRES"] = postgres.uri
    free = asyncio.Semaphore(deaths.at_once)

    async def one(n: int, step: str, database: str) -> str | None:
        """What went wrong, if something did."""
        async with free:
            own = directory / f"{deaths.what}{n}"
            os.mkdir(own)
            try:
                async with asyncio.timeout(_WITHIN):
                    client = await connect(temporal.address, f"n{n}")
                    await deaths.killed_at(step, client, temporal.address, database, own)
            except Exception as error:
                return f"killed at {step} on {database}: {type(error).__name__}: {error}"
            return None

    try:
        await connect(temporal.address, "n0")
        acted = (one(n, *case) for n, case in enumerate(cases))
        wrong = [each for each in await asyncio.gather(*acted) if each is not None]
    finally:
        temporal.kill()
        postgres.stop()
    print("\n".join(wrong) or deaths.well.format(len(cases)), flush=True)
    return len(wrong)
