"""One Temporal server and one PostgreSQL for the whole run; a service on each kind of ledger for each test process."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import uvloop
from temporalio.client import Client

import activities.policy
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from activities.review_cards import ReviewCards
from assent import ApprovalHandle, Assent, Decision, Identity, Outcome, names
from assent.payload import sha256
from assent.settings import Settings
from assent.tools.definition import registry
from assent.types import DecisionKind, State
from cards import Wording
from ledger import Ledger, Reader
from tests.support import running_order, servers
from tests.support import tools as tools_for_tests
from tests.support.fork_server import ForkServer
from tests.support.patience import be_patient
from tests.support.skips import Skips
from workers.approvals import approvals_worker, outbound_worker
from workers.setup import set_up
from workers.tools import tool_workers

ME = Identity(open_id="ou_me", union_id="on_me")
OPERATOR = Identity(open_id="ou_operator")
HEARTBEAT = timedelta(seconds=3)
UNLIMITED = {"requester_pending": 0, "chat_requests_per_hour": 0}
"""Many tests share a service: none of them uses up a quota for the others."""
be_patient()

_running: dict[str, servers.TemporalServer | ForkServer | servers.PostgresServer] = {}


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    config.pluginmanager.register(Skips())
    temporal = servers.TemporalServer(namespaces=servers.NAMESPACES)
    temporal.start()
    fork_server = ForkServer()
    fork_server.start()
    postgres = servers.PostgresServer(settings=servers.SHORT_LIVED)
    _running.update(temporal=temporal, fork_server=fork_server, postgres=postgres)
    os.environ["TEST_TEMPORAL"] = temporal.address
    os.environ["TEST_POSTGRES"] = postgres.uri
    os.environ["TEST_RUN"] = tempfile.mkdtemp(prefix="assent-test-")


def pytest_unconfigure(config: pytest.Config) -> None:
    for part in _running.values():
        part.kill() if isinstance(part, servers.TemporalServer) else part.stop()
    if _running:
        shutil.rmtree(os.environ["TEST_RUN"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = running_order.arranged(items, processes)


def pytest_collection_finish() -> None:
    """What was imported stays for good: looking through it for garbage again and again finds none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that our processes run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def temporal_address() -> str:
    return os.environ["TEST_TEMPORAL"]


@pytest.fixture(scope="session")
def namespaces() -> Iterator[str]:
    """Temporal namespaces that nobody else uses: take the `next` one for a service of your own."""
    return (f"n{n}" for n in range(servers.NAMESPACES) if _taken(Path(os.environ["TEST_RUN"]) / f"n{n}"))


def _taken(name: Path) -> bool:
    """Whether this test process is the first to ask for a name."""
    try:
        name.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


_databases = itertools.count()
_templates: dict[str, str] = {}
"""By kind and server, a database that has the schema: to copy one takes a tenth of what migrating takes."""
_kept_templates = tempfile.TemporaryDirectory(prefix="assent-templates-")


async def new_database(kind: str, directory: Path, *, has_schema: bool = True) -> str:
    """The URL of an empty database, `sqlite` or `postgres`."""
    template = await _template(kind) if has_schema else None
    if kind == "sqlite":
        path = directory / f"ledger-{next(_databases)}" / "ledger.db"
        if template is not None:
            path.parent.mkdir(parents=True)
            shutil.copyfile(template, path)
        return f"sqlite+aiosqlite:///{path}"
    name = f"ledger_{os.getpid()}_{next(_databases)}"
    connection = await asyncpg.connect(os.environ["TEST_POSTGRES"])
    try:
        await connection.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
    finally:
        await connection.close()
    host = os.environ["TEST_POSTGRES"].partition("host=")[2]
    return f"postgresql+asyncpg://postgres@/{name}?host={host}"


async def _template(kind: str) -> str:
    place = kind if kind == "sqlite" else os.environ["TEST_POSTGRES"]
    if place not in _templates:
        url = await new_database(kind, Path(_kept_templates.name), has_schema=False)
        ledger = Ledger.open(url)
        await ledger.upgrade()
        await ledger.dispose()
        _templates[place] = url.partition(":///")[2] if kind == "sqlite" else url.partition("@/")[2].partition("?")[0]
    return _templates[place]


def decision(handle: ApprovalHandle, state: State, kind: str = "approve", actor: Identity = ME) -> Decision:
    """A decision on what is shown."""
    return Decision(
        approval_id=handle.id,
        kind=DecisionKind(kind),
        payload_sha256=state.payload_sha256,
        actor=actor,
        event_id=uuid.uuid4().hex,
        delivery_id=uuid.uuid4().hex,
        received_at=datetime.now(UTC),
    )


async def accepted(handle: ApprovalHandle, state: State, kind: str = "approve", actor: Identity = ME) -> None:
    """Decide on what is shown; it has to count. Nobody is told "received" here, however busy the machine is."""
    verdict = await handle.submit(decision(handle, state, kind, actor))
    assert verdict.kind == "accepted", verdict


@dataclass
class Service:
    """A whole service: Temporal namespace, ledger, workers in this process, and a client."""

    client: Client
    ledger: Ledger
    settings: Settings
    gate: Assent

    async def decided(self, handle: ApprovalHandle, kind: str = "approve", actor: Identity = ME) -> Outcome:
        """Decide on what is shown and wait for the end."""
        await accepted(handle, await handle.state(), kind, actor)
        return await handle.outcome()

    async def as_it_stands(self, handle: ApprovalHandle) -> State:
        """What its workflow says of an approval now, also while it is prepared."""
        workflow = self.client.get_workflow_handle(names.approval_workflow(handle.id))
        state: State = await workflow.query(names.STATE, result_type=State)
        return state

    @asynccontextmanager
    async def policy(self, text: str) -> AsyncIterator[None]:
        """Rules that are in force for a while."""
        await self.ledger.put_policy(text, sha256(text), datetime.now(UTC))
        try:
            yield
        finally:
            await self.ledger.put_policy("", sha256(""), datetime.now(UTC))

    async def events(self, approval_id: str) -> list[str]:
        """The audit's events of one approval."""
        return [entry.event.value for entry in await self.ledger.entries(approval_id)]


async def open_service(
    stack: AsyncExitStack, client: Client, url: str, *, workers: bool = True, **more: Any
) -> Service:
    """Set up a service on a database; with its workers in this process unless a test brings its own.

    more: further settings, for example of a Feishu app.
    """
    activities.policy.FRESH_FOR = 0.0  # tests change the policy and go on at once
    settings = Settings(
        database_url=url,
        heartbeat_timeout=HEARTBEAT,
        grace=timedelta(milliseconds=500),
        start_within=timedelta(minutes=2),
        **{"operators": (OPERATOR,), **UNLIMITED, **more},
    )
    await set_up(client, settings)
    ledger = Ledger.open(url)
    stack.push_async_callback(ledger.dispose)
    assert tools_for_tests.mark.name in registry.tools
    await ledger.publish((tool.manifest for tool in registry.tools.values()), datetime.now(UTC))
    if workers:
        cards = review_cards = None
        if feishu := Feishu.of(settings):
            stack.push_async_callback(feishu.close)
            cards = CardActivities(ledger, feishu, Wording.load(None), settings.temporal_ui)
            review_cards = ReviewCards(ledger, feishu, Wording.load(None), settings, cards)
        own = [
            approvals_worker(client, ledger, settings, cards),
            outbound_worker(client, ledger, settings, cards, review_cards),
        ]
        for worker in (*own, *tool_workers(client, ledger, registry)):
            if worker.task_queue != "nobody":
                await stack.enter_async_context(worker)
    return Service(client, ledger, settings, await Assent.connect(client=client, reader=Reader(ledger)))


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
async def service(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[Service]:
    """A service with workers in this process, on SQLite and on PostgreSQL."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database(request.param, tmp_path_factory.mktemp("service"))
        yield await open_service(stack, client, url)
