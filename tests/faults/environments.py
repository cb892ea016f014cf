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
from tests.faults.service import ServiceUnderFault
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
class Workspace:
    """What an environment is built on: a Temporal namespace, and a directory."""

    client: Client
    address: str
    directory: Path


async def on_signals(workspace: Workspace) -> Table:
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _QUICK) as service:
        return await _seen(service, injections.killed, injections.stopped, injections.sent_away)


async def in_a_hurry(workspace: Workspace) -> Table:
    """Where waiting ends soon, so that giving up can be seen."""
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _HURRIED) as service:
        return await _seen(
            service, injections.abandoned, injections.hanging, injections.cut_for_long, injections.raising
        )


async def at_leisure(workspace: Workspace) -> Table:
    """Where nobody is given up on while the fault lasts."""
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _PATIENT) as service:
        return await _seen(service, injections.drained, injections.cut_for_a_moment)


async def among_people(workspace: Workspace) -> Table:
    """Where operators intervene while calls are under way."""
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _PATIENT) as service:
        return await _seen(service, injections.denied, injections.started_over)


async def with_a_clock(workspace: Workspace) -> Table:
    clock = SteppedClock(workspace.directory)
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _PATIENT) as service:
        return await _seen(service, lambda service: injections.clock_stepped(service, clock))


async def beside_another_clock(workspace: Workspace) -> Table:
    clock = SteppedClock(workspace.directory)
    async with _own_postgres() as postgres, _service(workspace, await postgres.database(), _QUICK) as service:
        return await _seen(service, lambda service: injections.another_clock(service, clock))


async def on_own_servers(workspace: Workspace) -> Table:
    """Where the servers themselves are struck."""
    async with (
        _own_postgres() as postgres,
        _own_temporal(workspace) as (own, temporal),
        _service(own, await postgres.database(), _PATIENT) as service,
    ):
        return await _seen(service, lambda service: injections.servers_restarted(service, temporal, postgres))


async def without_temporal(workspace: Workspace) -> Table:
    """Where Temporal is away for longer than workers may be silent."""
    async with (
        _own_postgres() as postgres,
        _own_temporal(workspace) as (own, temporal),
        _service(own, await postgres.database(), _QUICK) as service,
    ):
        return await _seen(service, lambda service: injections.temporal_away(service, temporal))


async def on_a_small_disk(workspace: Workspace) -> Table:
    disk = SmallDisk(workspace.directory / "small")
    if why := disk.mount():
        raise NotHere(why)
    try:
        url = f"sqlite+aiosqlite:///{workspace.directory / 'small' / 'ledger.db'}"
        async with _service(workspace, url, _PATIENT) as service:
            return await _seen(service, injections.disk_full)
    finally:
        disk.unmount()


async def on_sqlite(workspace: Workspace) -> Table:
    url = f"sqlite+aiosqlite:///{workspace.directory / 'ledger.db'}"
    async with _service(workspace, url, _QUICK) as service:
        return await _seen(service, injections.killed_in_a_group)


Environment = Callable[[Workspace], Awaitable[Table]]
ENVIRONMENTS: tuple[Environment, ...] = (
    in_a_hurry,
    on_a_small_disk,
    on_sqlite,
    on_signals,
    at_leisure,
    with_a_clock,
    beside_another_clock,
    among_people,
    on_own_servers,
    without_temporal,
)
SAMPLED: tuple[Environment, ...] = (on_signals, at_leisure, among_people)
"""Those of every run of the tests; `make faults` acts out all of them."""


@asynccontextmanager
async def _service(workspace: Workspace, url: str, settings: dict[str, str]) -> AsyncIterator[ServiceUnderFault]:
    directory = workspace.directory / "service"
    directory.mkdir()
    async with simulated(limits=False) as chat:
        service = ServiceUnderFault(workspace.client, workspace.address, directory, url, chat=chat, settings=settings)
        try:
            await service.open()
            yield service
        finally:
            await service.close()


async def _seen(
    service: ServiceUnderFault, *acts: Callable[[ServiceUnderFault], Awaitable[injections.Struck]]
) -> Table:
    """Act, all at once, and look at what each fault left."""

    async def look(act: Callable[[ServiceUnderFault], Awaitable[injections.Struck]]) -> Table:
        found: Table = {}
        for fault, cases in (await act(service)).items():
            expected = TABLE[fault]
            looked = await asyncio.gather(
                *(
                    service.seen(case, wanted if isinstance(wanted := expected[case.moment], Seen) else None)
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
async def _own_temporal(workspace: Workspace) -> AsyncIterator[tuple[Workspace, TemporalServer]]:
    """A server on a file, that can be killed and started again."""
    temporal = TemporalServer(file=workspace.directory / "temporal.db")
    temporal.start()
    try:
        yield Workspace(await temporal.client(), temporal.address, workspace.directory), temporal
    finally:
        temporal.kill()


@asynccontextmanager
async def _own_postgres() -> AsyncIterator[OwnPostgres]:
    """A server for one environment: with a hundred connections each is busy enough."""
    postgres = await asyncio.to_thread(OwnPostgres)
    try:
        yield postgres
    finally:
        await asyncio.to_thread(postgres.stop)
