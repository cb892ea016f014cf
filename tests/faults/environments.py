"""The services on which the faults are acted out: how patient each is, and on which servers it stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from tests.faults import injections
from tests.faults.servers import OwnPostgres, SmallDisk
from tests.faults.service import Stage
from tests.faults.table import TABLE, Fault, Moment, Seen
from tests.support.feishu_service import simulated
from tests.support.servers import TemporalServer
from tests.support.stepped_clock import SteppedClock

Table = dict[Fault, dict[Moment, Seen]]

_QUICK = {"heartbeat_timeout": "3", "start_within": "120"}
_HURRIED = {"heartbeat_timeout": "6", "start_within": "4"}
_PATIENT = {"heartbeat_timeout": "20", "start_within": "120"}


class NotHere(Exception):
    """This machine lacks what a fault needs; the message says what."""


@dataclass
class Ground:
    """What a house is built on: a Temporal namespace, and a directory."""

    client: Client
    address: str
    directory: Path


async def on_signals(ground: Ground) -> Table:
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _QUICK) as stage:
        return await _seen(stage, injections.killed, injections.stopped, injections.sent_away)


async def in_a_hurry(ground: Ground) -> Table:
    """Where waiting ends soon, so that giving up can be seen."""
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _HURRIED) as stage:
        return await _seen(stage, injections.abandoned, injections.hanging, injections.cut_for_long, injections.raising)


async def at_leisure(ground: Ground) -> Table:
    """Where nobody is given up on while the fault lasts."""
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _PATIENT) as stage:
        return await _seen(stage, injections.drained, injections.cut_for_a_moment)


async def among_people(ground: Ground) -> Table:
    """Where operators intervene while calls are under way."""
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _PATIENT) as stage:
        return await _seen(stage, injections.denied, injections.started_over)


async def with_a_clock(ground: Ground) -> Table:
    clock = SteppedClock(ground.directory)
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _PATIENT) as stage:
        return await _seen(stage, lambda stage: injections.clock_stepped(stage, clock))


async def beside_another_clock(ground: Ground) -> Table:
    clock = SteppedClock(ground.directory)
    async with _own_postgres() as postgres, _stage(ground, await postgres.database(), _QUICK) as stage:
        return await _seen(stage, lambda stage: injections.another_clock(stage, clock))


async def on_own_servers(ground: Ground) -> Table:
    """Where the servers themselves are struck."""
    async with (
        _own_postgres() as postgres,
        _own_temporal(ground) as (own, temporal),
        _stage(own, await postgres.database(), _PATIENT) as stage,
    ):
        return await _seen(stage, lambda stage: injections.servers_restarted(stage, temporal, postgres))


async def without_temporal(ground: Ground) -> Table:
    """Where Temporal is away for longer than workers may be silent."""
    async with (
        _own_postgres() as postgres,
        _own_temporal(ground) as (own, temporal),
        _stage(own, await postgres.database(), _QUICK) as stage,
    ):
        return await _seen(stage, lambda stage: injections.temporal_away(stage, temporal))


async def on_a_small_disk(ground: Ground) -> Table:
    disk = SmallDisk(ground.directory / "small")
    if why := disk.mount():
        raise NotHere(why)
    try:
        url = f"sqlite+aiosqlite:///{ground.directory / 'small' / 'ledger.db'}"
        async with _stage(ground, url, _PATIENT) as stage:
            return await _seen(stage, injections.disk_full)
    finally:
        disk.unmount()


House = Callable[[Ground], Awaitable[Table]]
HOUSES: tuple[House, ...] = (
    in_a_hurry,
    on_a_small_disk,
    on_signals,
    at_leisure,
    with_a_clock,
    beside_another_clock,
    among_people,
    on_own_servers,
    without_temporal,
)
SAMPLED: tuple[House, ...] = (on_signals, at_leisure, among_people)
"""Those of every run of the tests; `make faults` acts out all of them."""


@asynccontextmanager
async def _stage(ground: Ground, url: str, settings: dict[str, str]) -> AsyncIterator[Stage]:
    directory = ground.directory / "stage"
    directory.mkdir()
    async with simulated(limits=False) as chat:
        stage = Stage(ground.client, ground.address, directory, url, chat=chat, settings=settings)
        try:
            await stage.open()
            yield stage
        finally:
            await stage.close()


async def _seen(stage: Stage, *acts: Callable[[Stage], Awaitable[injections.Acted]]) -> Table:
    """Act, all at once, and look at what each fault left."""

    async def look(act: Callable[[Stage], Awaitable[injections.Acted]]) -> Table:
        found: Table = {}
        for fault, cases in (await act(stage)).items():
            expected = TABLE[fault]
            looked = await asyncio.gather(
                *(
                    stage.seen(case, wanted if isinstance(wanted := expected[case.moment], Seen) else None)
                    for case in cases
                )
            )
            found[fault] = {case.moment: seen for case, seen in zip(cases, looked, strict=True)}
        return found

    table: Table = {}
    for found in await asyncio.gather(*(look(act) for act in acts)):
        table |= found
    return table


@asynccontextmanager
async def _own_temporal(ground: Ground) -> AsyncIterator[tuple[Ground, TemporalServer]]:
    """A server on a file, that can be killed and started again."""
    temporal = TemporalServer(file=ground.directory / "temporal.db")
    temporal.start()
    try:
        yield Ground(await temporal.client(), temporal.address, ground.directory), temporal
    finally:
        temporal.kill()


@asynccontextmanager
async def _own_postgres() -> AsyncIterator[OwnPostgres]:
    """A server for one house: with a hundred connections each is busy enough."""
    postgres = await asyncio.to_thread(OwnPostgres)
    try:
        yield postgres
    finally:
        await asyncio.to_thread(postgres.stop)
