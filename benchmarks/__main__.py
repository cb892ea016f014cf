"""`python -m benchmarks`: approvals beside bare workflows and beside sick chats, questions beside approvals, callbacks
beside a bare endpoint."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import uvloop
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig

import simulator
from assent import Assent
from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from benchmarks import callbacks, footprints, measure, processes, sick, tables
from benchmarks.callbacks import Bare, Clicks, Durable, SetAside, Target
from benchmarks.flows import Approvals, OnceAsked, Plain, Questions, Unasked, Variant, pay, registry
from benchmarks.processes import Process
from benchmarks.servers import (
    new_database,
    own_directory,
    own_postgres,
    own_temporal,
    socket_directory,
    temporal_process,
)
from benchmarks.workflows import BareWorkflow, PlainWorkflow, ShapeWorkflow
from ledger import Ledger
from tests.support.servers import PostgresServer, TemporalServer
from tests.support.simulated_feishu import served
from workers.setup import set_up
from workers.tools import tool_workers

PEER = Path(__file__).parents[1] / ".venv/peer/bin/python"
"""An interpreter with the packages of what approvals are compared with; without it, they are not."""
ROUNDS = 5
WARM_UP = 10
FLOWS = 60
"""Flows of one variant in one round."""
PACING = 90
"""Seconds that the rounds may take: on a busy machine there are fewer."""
UNASKED_ROUNDS, UNASKED_FLOWS = 6, 30
"""Calls that nobody is asked about cost almost alike: more and shorter rounds tell them apart."""
UNASKED_PACING = 30
"""Seconds that those rounds may take."""
QUESTIONING = 40
"""Seconds that the rounds of questions may take."""
DECISIONS = 20
"""Decisions whose latency is measured, one at a time."""
BARE_CALLS, CLICKS = 1000, 100
"""Callbacks of one kind in one round."""
CLICKING = 30
"""Seconds that the rounds of callbacks may take."""
SICKNESS = 150
"""Seconds that approvals beside sick chats may take."""
LIMIT = 600
"""Seconds after which the run is given up."""


async def main() -> str | None:
    """Measure and show all of it. What is wrong with it, if anything is."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    with own_directory() as directory, own_temporal(namespaces=15) as temporal, own_postgres() as postgres:
        async with asyncio.timeout(LIMIT), AsyncExitStack() as stack:
            feishu = await _started(stack, processes.start_simulator(directory))
            async with _variants(directory, temporal, postgres, feishu) as variants:
                peers = [await _peer(stack, postgres)] if PEER.exists() else []
                await _measure_flows(variants, peers, directory, _servers(postgres) | {"simulator": feishu.seen})
            async with _unasked(directory, temporal) as variants:
                await _measure_unasked(variants, {"Temporal": temporal_process()})
            async with _questions(directory, temporal, postgres, feishu) as variants:
                await _measure_questions(variants, _servers(postgres) | {"simulator": feishu.seen})
            await _measure_callbacks(directory, temporal, feishu)
            objection = await _measure_sick(directory, temporal, postgres)
            tables.progress(f"imports, {footprints.REPETITIONS} times each")
            tables.show_footprints(await footprints.footprints())
    return objection


async def _peer(stack: AsyncExitStack, postgres: PostgresServer) -> measure.Peer:
    url = (await new_database(postgres, "peer")).replace("+asyncpg", "+psycopg")
    peer = await measure.Peer.start("the same on DBOS, PostgreSQL", PEER, url)
    stack.push_async_callback(peer.stop)
    return peer


async def _measure_flows(
    variants: Sequence[Variant], peers: Sequence[measure.Peer], directory: Path, servers: measure.Servers
) -> None:
    rounds = await _rounds(variants, servers, ROUNDS, FLOWS, PACING, peers)
    kept = [variant for variant in variants if isinstance(variant, Approvals) and variant.kept]
    for variant in kept:
        variant.stopwatch.clear()
    tables.progress(f"{DECISIONS} decisions of each, one at a time")
    latencies = await measure.latencies(variants, DECISIONS)
    steps = {variant.name: variant.stopwatch.per_flow(DECISIONS) for variant in kept}
    histories = {variant.name: await measure.history(variant) for variant in variants}
    over = {variant.name: variant.over for variant in variants} | {peer.name: variants[0].name for peer in peers}
    tables.show_pace(over, rounds, latencies, histories)
    tables.show_processor(list(over), rounds)
    tables.show_ledgers(steps, measure.fsync_milliseconds(directory))


async def _rounds(
    variants: Sequence[Variant],
    servers: measure.Servers,
    most: int,
    flows: int,
    seconds: float,
    peers: Sequence[measure.Peer] = (),
) -> tables.Rounds:
    """Run them all in turn, each round in another order, after they have warmed up."""
    for variant in variants:
        await measure.pace(variant, WARM_UP, servers)
    for peer in peers:
        await peer.pace(WARM_UP, servers)
    rounds: list[dict[str, measure.Pace]] = []
    began = time.monotonic()
    for n in range(most):
        if rounds and (time.monotonic() - began) * (n + 1) / n > seconds:
            break
        tables.progress(f"round {n + 1} of {most}: {flows} flows of each, {measure.LANES} in flight")
        first = n % len(variants)
        order = [*variants[first:], *variants[:first]]
        rounds.append({variant.name: await measure.pace(variant, flows, servers) for variant in order})
        rounds[-1] |= {peer.name: await peer.pace(flows, servers) for peer in peers}
    return rounds


async def _measure_unasked(variants: Sequence[Variant], servers: measure.Servers) -> None:
    rounds = await _rounds(variants, servers, UNASKED_ROUNDS, UNASKED_FLOWS, UNASKED_PACING)
    tables.progress(f"{DECISIONS} calls of each, one at a time")
    waits = await measure.waits(variants, DECISIONS)
    histories = {variant.name: await measure.history_of_unasked(variant) for variant in variants}
    over = {variant.name: variant.over for variant in variants}
    tables.show_beside("calls that nobody is asked about", "request to body", over, rounds, waits, histories)
    tables.show_processor([variant.name for variant in variants], rounds)


async def _measure_questions(variants: Sequence[Variant], servers: measure.Servers) -> None:
    rounds = await _rounds(variants, servers, ROUNDS, FLOWS, QUESTIONING)
    tables.progress(f"{DECISIONS} answers of each, one at a time")
    waits = await measure.answers(variants, DECISIONS)
    histories = {variant.name: await measure.history(variant) for variant in variants}
    over = {variant.name: variant.over for variant in variants}
    tables.show_beside("questions beside approvals", "click to answer", over, rounds, waits, histories)
    tables.show_processor([variant.name for variant in variants], rounds)


@asynccontextmanager
async def _questions(
    directory: Path, temporal: TemporalServer, postgres: PostgresServer, feishu: Process
) -> AsyncIterator[list[Variant]]:
    """Questions that take a yes or a no, beside approvals; all but the last have cards."""
    clients = [await temporal.client(namespace) for namespace in ("n11", "n12", "n13", "n14")]
    asked, clicked = (
        Settings(database_url=_sqlite(directory, name), **_feishu_settings(feishu.url)) for name in ("asked", "clicked")
    )
    kept = Settings(database_url=await new_database(postgres, "questions"), **_feishu_settings(feishu.url))
    cardless = Settings(database_url=_sqlite(directory, "cardless"))
    approval, question = "approval, SQLite, card", "question, SQLite, card"
    variants: list[Variant] = [
        Approvals(approval, clients[0], asked, ""),
        Questions(question, clients[1], clicked, approval),
        Questions("question, PostgreSQL, card", clients[2], kept, question),
        Questions("question, SQLite, no card", clients[3], cardless, question),
    ]
    async with AsyncExitStack() as stack:
        for variant in variants:
            await variant.open(stack)
        yield variants


@asynccontextmanager
async def _unasked(directory: Path, temporal: TemporalServer) -> AsyncIterator[list[Variant]]:
    """Calls that nobody is asked about, beside one activity of a workflow that is not ours."""
    clients = [await temporal.client(namespace) for namespace in ("n7", "n8", "n9")]
    unused, auto, once = (Settings(database_url=_sqlite(directory, name)) for name in ("plain", "auto", "once"))
    plain, unasked = "plain activity", "auto"
    variants: list[Variant] = [
        Plain(plain, clients[0], unused, PlainWorkflow),
        Unasked(unasked, clients[1], auto, plain),
        OnceAsked("ask-once, remembered", clients[2], once, unasked),
    ]
    async with AsyncExitStack() as stack:
        for variant in variants:
            await variant.open(stack)
        yield variants


@asynccontextmanager
async def _variants(
    directory: Path, temporal: TemporalServer, postgres: PostgresServer, feishu: Process
) -> AsyncIterator[list[Variant]]:
    """All variants with their workers running; the first is what the others are compared with."""
    clients = [await temporal.client(namespace) for namespace in ("default", "n0", "n1", "n2", "n3", "n4")]
    unused = Settings(database_url=_sqlite(directory, "unused"))
    with_cards = Settings(database_url=_sqlite(directory, "cards"), **_feishu_settings(feishu.url))
    bare, shape, unkept, kept = "bare workflow", "an approval's events only", "approval without ledger", "on SQLite"
    variants: list[Variant] = [
        Plain(bare, clients[0], unused, BareWorkflow),
        Plain(shape, clients[1], unused, ShapeWorkflow, bare),
        Approvals(unkept, clients[2], unused, shape, kept=False),
        Approvals(kept, clients[3], Settings(database_url=_sqlite(directory, "sqlite")), unkept),
        Approvals("on SQLite with cards", clients[4], with_cards, kept),
        Approvals("on PostgreSQL", clients[5], Settings(database_url=await new_database(postgres)), unkept),
    ]
    async with AsyncExitStack() as stack:
        for variant in variants:
            await variant.open(stack)
        yield variants


async def _measure_callbacks(directory: Path, temporal: TemporalServer, feishu: Process) -> None:
    """The webhook and what it is compared with, all in processes of their own, over two namespaces."""
    async with AsyncExitStack() as stack:
        bare, ours = await temporal.client("n5"), await temporal.client("n6")
        settings = Settings(database_url=_sqlite(directory, "webhook"), **_feishu_settings(feishu.url))
        await set_up(ours, settings)
        ledger = Ledger.open(settings.database_url)
        await ledger.publish([pay.manifest], datetime.now(UTC))
        await ledger.dispose()
        plain = {"TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": "n5", "ASSENT_PORT": "0"}
        said = plain | {"TEMPORAL_NAMESPACE": "n6", "ASSENT_DATABASE_URL": settings.database_url}
        said |= {f"ASSENT_{name.upper()}": value for name, value in _feishu_settings(feishu.url).items()}
        endpoint = await _started(stack, processes.start(directory, "benchmarks.bare", "endpoint", **plain))
        await _started(stack, processes.start(directory, "benchmarks.bare", "worker", **plain))
        webhook = await _started(stack, processes.start(directory, "workers.webhook", **said))
        approvals = await _started(stack, processes.start(directory, "workers.approvals", **said))
        callback = f"{webhook.url}/feishu/callback"
        targets: list[Target] = [
            Bare("bare endpoint", f"{endpoint.url}/bare", BARE_CALLS),
            SetAside("webhook, other event", callback, BARE_CALLS),
            Durable("bare signal and query", f"{endpoint.url}/durable", CLICKS, bare),
            Clicks("webhook, accepted click", callback, CLICKS, Assent(TemporalDoor(ours)), feishu.url),
        ]
        tables.progress(f"{callbacks.CLICKERS} clickers, {CLICKS} clicks or {BARE_CALLS} other callbacks in a round")
        busy = {"endpoint": endpoint.seen, "webhook": webhook.seen, "approvals": approvals.seen}
        busy |= {"Temporal": temporal_process()}
        rounds = await callbacks.bursts(targets, ROUNDS, CLICKING, busy)
        tables.show_callbacks([target.name for target in targets], rounds)


async def _measure_sick(directory: Path, temporal: TemporalServer, postgres: PostgresServer) -> str | None:
    """Healthy approvals without and with sick chats beside them, one after the other in the same processes.

    What is wrong where the sick ones hold the healthy ones up.
    """
    async with asyncio.timeout(SICKNESS), AsyncExitStack() as stack:
        client = await temporal.client("n10")
        platform = simulator.create_app(simulator.Settings.from_environment(processes.PLATFORM))
        domain = await stack.enter_async_context(served(platform))
        app = _feishu_settings(domain)
        settings = Settings(database_url=await new_database(postgres, "sick"), **app)
        await set_up(client, settings)
        ledger = Ledger.open(settings.database_url)
        stack.push_async_callback(ledger.dispose)
        await ledger.publish([pay.manifest], datetime.now(UTC))
        for worker in tool_workers(client, ledger, registry):
            await stack.enter_async_context(worker)
        said = {"TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": "n10"}
        said |= {"ASSENT_DATABASE_URL": settings.database_url}
        said |= {f"ASSENT_{name.upper()}": value for name, value in app.items()}
        await _started(stack, processes.start(directory, "workers.approvals", **said))
        ward = sick.Ward(client, platform.state.simulator)
        await ward.measure(rounds=1, count=WARM_UP)
        tables.progress(
            f"{sick.HEALTHY} healthy approvals, {sick.PEOPLE} people clicking; then beside {sick.SICK} sick"
        )
        without = await ward.measure()
        await ward.fall_sick()
        beside = await ward.measure()
        tables.show_sick(without, beside)
        return sick.objection(without, beside)


async def _started(stack: AsyncExitStack, starting: Awaitable[Process]) -> Process:
    process = await starting
    stack.push_async_callback(process.stop)
    return process


def _feishu_settings(domain: str) -> dict[str, Any]:
    app = {f"feishu_{name.lower()}": value for name, value in processes.FEISHU.items()}
    return {**app, "feishu_domain": domain, "chat_requests_per_hour": "0", "requester_pending": "0"}


def _sqlite(directory: Path, name: str) -> str:
    return f"sqlite+aiosqlite:///{directory}/{name}/ledger.db"


def _servers(postgres: PostgresServer) -> dict[str, psutil.Process]:
    """Temporal is our child; PostgreSQL made itself nobody's, and says where it is."""
    pid = int((socket_directory(postgres) / "postmaster.pid").read_text().split()[0])
    return {"Temporal": temporal_process(), "PostgreSQL": psutil.Process(pid)}


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="ERROR"))))
    code = 0
    try:
        if wrong := uvloop.run(main()):  # as every process of ours does
            print(wrong, file=sys.stderr)
            code = 1
    except TimeoutError:
        print(f"Given up: {LIMIT} seconds are over, or what is awaited never came.", file=sys.stderr)
        code = 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Temporal's native runtime can crash while the interpreter tears itself down; everything is done by now.
    os._exit(code)
