"""`python -m benchmarks`: complete approvals beside a bare workflow, on one Temporal server, in one run."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import psutil
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

from assent.settings import Settings
from benchmarks import measure, tables
from benchmarks.flows import Approvals, Plain, Variant
from benchmarks.workflows import BareWorkflow, ShapeWorkflow
from tests.parts import PostgresServer, TemporalServer

ROUNDS = 3
WARM_UP = 20
FLOWS = 120
"""Flows of one variant in one round."""
PACING = 80
"""Seconds after which no further round is begun: on a busy machine there are fewer."""
DECISIONS = 60
"""Decisions whose latency is measured, one at a time."""
LIMIT = 240
"""Seconds after which the run is given up."""


async def main() -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    with _directory() as directory, _temporal() as temporal, _postgres() as postgres:
        async with asyncio.timeout(LIMIT), _variants(directory, temporal, postgres) as variants:
            await _measure(variants, directory, _servers(postgres))


async def _measure(variants: Sequence[Variant], directory: Path, servers: measure.Servers) -> None:
    for variant in variants:
        await measure.pace(variant, WARM_UP, servers)
    rounds: list[dict[str, measure.Pace]] = []
    enough = time.monotonic() + PACING
    for n in range(ROUNDS):
        if rounds and time.monotonic() > enough:
            break
        tables.progress(f"round {n + 1} of {ROUNDS}: {FLOWS} flows of each, {measure.LANES} in flight")
        order = [*variants[n:], *variants[:n]]
        rounds.append({variant.name: await measure.pace(variant, FLOWS, servers) for variant in order})
    kept = [variant for variant in variants if isinstance(variant, Approvals) and variant.kept]
    for variant in kept:
        variant.stopwatch.clear()
    tables.progress(f"{DECISIONS} decisions of each, one at a time")
    latencies = await measure.latencies(variants, DECISIONS)
    steps = {variant.name: variant.stopwatch.per_flow(DECISIONS) for variant in kept}
    events = {variant.name: await measure.events(variant) for variant in variants}
    names = [variant.name for variant in variants]
    tables.show_pace(names, rounds, latencies, events)
    tables.show_processor(names, rounds)
    tables.show_ledgers(steps, measure.fsync_milliseconds(directory))


@asynccontextmanager
async def _variants(
    directory: Path, temporal: TemporalServer, postgres: PostgresServer
) -> AsyncIterator[list[Variant]]:
    """All variants with their workers running; the first is what the others are compared with."""
    clients = [await temporal.client(namespace) for namespace in ("default", "n0", "n1", "n2", "n3")]
    unused = Settings(database_url=f"sqlite+aiosqlite:///{directory}/unused/ledger.db")
    on_sqlite = Settings(database_url=f"sqlite+aiosqlite:///{directory}/sqlite/ledger.db")
    on_postgres = Settings(database_url=await _new_database(postgres))
    variants: list[Variant] = [
        Plain("bare workflow", clients[0], unused, BareWorkflow),
        Plain("an approval's events only", clients[1], unused, ShapeWorkflow),
        Approvals("approval without ledger", clients[2], unused, kept=False),
        Approvals("approval on SQLite", clients[3], on_sqlite),
        Approvals("approval on PostgreSQL", clients[4], on_postgres),
    ]
    async with AsyncExitStack() as stack:
        for variant in variants:
            await variant.open(stack)
        yield variants


def _servers(postgres: PostgresServer) -> dict[str, psutil.Process]:
    """Temporal is our child; PostgreSQL made itself nobody's, and says where it is."""
    (temporal,) = (child for child in psutil.Process().children() if child.name() == "temporal")
    pid = int((_socket_directory(postgres) / "postmaster.pid").read_text().split()[0])
    return {"Temporal": temporal, "PostgreSQL": psutil.Process(pid)}


def _socket_directory(postgres: PostgresServer) -> Path:
    return Path(postgres.uri.partition("host=")[2])


async def _new_database(postgres: PostgresServer) -> str:
    connection = await asyncpg.connect(postgres.uri)
    try:
        await connection.execute("CREATE DATABASE benchmark")
    finally:
        await connection.close()
    return f"postgresql+asyncpg://postgres@/benchmark?host={_socket_directory(postgres)}"


@contextmanager
def _directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="assent-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _temporal() -> Iterator[TemporalServer]:
    server = TemporalServer(namespaces=4)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="ERROR"))))
    code = 0
    try:
        asyncio.run(main())
    except TimeoutError:
        print(f"Given up after {LIMIT} seconds.", file=sys.stderr)
        code = 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Temporal's native runtime can crash while the interpreter tears itself down; everything is done by now.
    os._exit(code)
