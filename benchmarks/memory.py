"""`python -m benchmarks.memory`: how much memory real processes take while they are attacked.

Fails where one of them grew by more than it may, or did not answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from assent.settings import Settings
from benchmarks import processes, tables
from benchmarks.attacks import AT_ONCE, CALLS, CONNECTIONS, LARGE, READS, TIMES, Attacks
from benchmarks.hostile_tools import SERVER
from benchmarks.processes import Process
from benchmarks.resident import Resident, observed
from benchmarks.servers import new_database, own_directory, own_postgres, own_temporal, temporal_process
from tests.support.hostile_server import Hostile, hostile, whole
from tests.support.servers import PostgresServer, TemporalServer
from tests.support.web import write_tokens
from workers.setup import set_up

TEMPORAL = "Temporal"
LIMIT = 300
"""Seconds after which the run is given up."""
MOST = 200_000_000
"""Bytes by which an attack may make a process of ours grow, and all of them together."""
MOST_IN_TEMPORAL = 20_000_000
"""Bytes by which a large result may make Temporal grow; calls may: it keeps their histories, here in memory."""
MOST_HISTORY = 1_000_000
"""Bytes that an approval's history may hold, whatever its result."""


@dataclass(frozen=True)
class Service:
    """What runs and is looked at."""

    attacks: Attacks
    processes: dict[str, psutil.Process]
    doors: dict[str, str]


async def main() -> list[str]:
    """Attack in every way; what went beyond its bounds, in sentences."""
    flaws: list[str] = []
    with own_directory() as directory, own_temporal(namespaces=1) as temporal, own_postgres() as postgres:
        async with asyncio.timeout(LIMIT), _service(directory, temporal, postgres) as service:
            attacks = service.attacks
            texts = f"each of three small texts, {TIMES} times, {AT_ONCE} at once"
            answers = f"{CALLS} calls, {AT_ONCE} at once, meet each of three answers without measure"
            before = {name: process.memory_info().rss for name, process in service.processes.items()}
            for title, attack in (
                (f"{texts}, at the webhook, unsigned", attacks.unsigned_texts),
                (f"{texts}, at the webhook, encrypted and signed", attacks.signed_texts),
                (f"{texts}, at the API, as bodies and as arguments", attacks.texts_of_an_agent),
                (f"{answers}, of an HTTP tool's server", attacks.answers_to_a_tool),
                (f"{answers}, of a callback's receiver, with 200 and with 500", attacks.answers_to_a_callback),
            ):
                flaws += await _endure(service, title, attack)
            flaws += await _read_large_result(service)
            title = f"{CONNECTIONS} half-open connections, at the webhook and then at the API"
            flaws += await _endure(service, title, attacks.half_open_connections)
            flaws += _kept(service, before)
    return flaws


async def _endure(
    service: Service, title: str, attack: Callable[[], Awaitable[None]], in_temporal: int | None = None
) -> list[str]:
    """What is wrong with how it was endured.

    in_temporal: by how many bytes Temporal may grow.
    """
    tables.progress(title)
    async with observed(service.processes, service.doors) as seen:
        await attack()
    tables.show_memory(title, seen.of)
    most = dict.fromkeys(service.processes, MOST) | {TEMPORAL: in_temporal}
    return [f"{title}: {flaw}" for name, own in seen.of.items() for flaw in _flaws(name, own, most[name])]


def _flaws(name: str, own: Resident, most: int | None) -> list[str]:
    flaws = []
    if most is not None and own.grown > most:
        flaws.append(f"{name} grew by {own.grown:,} bytes, more than {most:,}")
    if own.health and (own.health.answered < own.health.asked or not own.health.asked):
        flaws.append(f"{name} answered {own.health.answered} of {own.health.asked} times")
    return flaws


async def _read_large_result(service: Service) -> list[str]:
    attacks, made = service.attacks, list[str]()

    async def make() -> None:
        made.append(await attacks.make_large_result())

    megabytes = LARGE // 1_000_000
    flaws = await _endure(service, f"a result of {megabytes} MB is made", make, MOST_IN_TEMPORAL)
    (approval_id,) = made
    workflows, history = await attacks.workflows(), await attacks.history_bytes(approval_id)

    async def read() -> None:
        await attacks.read_large_result(approval_id)

    flaws += await _endure(service, f"it is read {READS} times, {AT_ONCE} at once", read, MOST_IN_TEMPORAL)
    started = await attacks.workflows() - workflows
    tables.progress(f"Its approval's history holds {history:,} bytes; reading it started {started} workflows.")
    if history > MOST_HISTORY:
        flaws.append(f"the history of an approval with a large result holds {history:,} bytes")
    if started:
        flaws.append(f"reading a large result started {started} workflows")
    return flaws


def _kept(service: Service, before: dict[str, int]) -> list[str]:
    """What is left of all attacks together."""
    kept = {name: process.memory_info().rss - before[name] for name, process in service.processes.items()}
    tables.progress("Left of it all: " + ", ".join(f"{name} {each / 1e6:+.0f} MB" for name, each in kept.items()))
    return [f"{name} kept {each:,} bytes of it all" for name, each in kept.items() if name != TEMPORAL and each > MOST]


@asynccontextmanager
async def _service(directory: Path, temporal: TemporalServer, postgres: PostgresServer) -> AsyncIterator[Service]:
    """Every part a process of its own, warm from one call."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(hostile())
        client = await temporal.client("n0")
        feishu = await processes.start_simulator(directory)
        stack.push_async_callback(feishu.stop)
        said = {
            "TEMPORAL_ADDRESS": temporal.address,
            "TEMPORAL_NAMESPACE": "n0",
            "ASSENT_DATABASE_URL": await new_database(postgres, "memory"),
            "ASSENT_TOOLS": "benchmarks.hostile_tools",
            "ASSENT_TOKENS": str(_tokens(directory, server)),
            "ASSENT_CALLBACK_SECRET": "callback-secret",
            "ASSENT_FEISHU_DOMAIN": feishu.url,
            "ASSENT_PORT": "0",
            "ASSENT_REQUESTER_PENDING": "0",
            "ASSENT_CHAT_REQUESTS_PER_HOUR": "0",
            SERVER: server.url,
        } | {f"ASSENT_FEISHU_{name}": value for name, value in processes.FEISHU.items()}
        await set_up(client, Settings(database_url=said["ASSENT_DATABASE_URL"]))
        running: dict[str, Process] = {}
        for name in ("webhook", "api", "approvals", "tools"):
            running[name] = await processes.start(directory, f"workers.{name}", **said)
            stack.push_async_callback(running[name].stop)
        doors = {name: running[name].url for name in ("webhook", "api")}
        attacks = Attacks(doors["api"], doors["webhook"], "secret-agent", client, server)
        stack.push_async_callback(attacks.close)
        server.sending = whole(204, "identity", b"")
        await attacks.call("bench.ask_server", {}, callback_url=f"{server.url}/done")
        seen = {name: process.seen for name, process in running.items()} | {TEMPORAL: temporal_process()}
        yield Service(attacks, seen, doors)


def _tokens(directory: Path, server: Hostile) -> Path:
    return write_tokens(directory, {"agent": {"tools": ["*"], "on_behalf_of": ["*"], "callbacks": [f"{server.url}/"]}})


if __name__ == "__main__":
    code = 0
    try:
        for flaw in asyncio.run(main()):
            print(flaw, file=sys.stderr)
            code = 1
    except TimeoutError:
        print(f"Given up after {LIMIT} seconds.", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Temporal's native runtime can crash while the interpreter tears itself down; everything is done by now.
    os._exit(code)
