"""Worker processes: what they say when they cannot start, and how they leave."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.worker_processes import Call, WorkerProcesses, is_one_sentence, run

GOOD_TOOLS = "tests.support.tools"


@pytest.fixture(scope="module")
async def bare() -> AsyncIterator[str]:
    """A Temporal server that nobody has set up."""
    server = servers.TemporalServer(bare=True)
    server.start()
    await server.client()
    yield server.address
    server.kill()


async def test_setup_makes_a_bare_server_and_an_empty_database_ready(bare: str, tmp_path: Path) -> None:
    url = await new_database("postgres", tmp_path, has_schema=False)
    environment = {"TEMPORAL_ADDRESS": bare, "ASSENT_DATABASE_URL": url, "ASSENT_TOOLS": GOOD_TOOLS}
    for module in ("workers.approvals", "workers.tools"):
        code, said = await run(module, **environment)
        assert (code, is_one_sentence(said)) == (1, True), said
        assert "AssentStatus" in said
        assert "python -m workers.setup" in said
    for _ in range(2):
        code, said = await run("workers.setup", **environment)
        assert (code, "Ready" in said) == (0, True), said
    async with AsyncExitStack() as stack:
        service = await open_service(stack, await servers.connect(bare), url, workers=False)
        processes = WorkerProcesses(service, bare, tmp_path)
        stack.push_async_callback(processes.close)
        for kind in ("approvals", "tools"):
            assert "are served" in (await processes.start(kind)).said()


@pytest.mark.parametrize("module", ["workers.setup", "workers.approvals", "workers.tools"])
async def test_unreachable_temporal_is_named(module: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{servers.free_port()}"
    url = await new_database("sqlite", tmp_path, has_schema=False)
    code, said = await run(module, TEMPORAL_ADDRESS=address, ASSENT_DATABASE_URL=url, ASSENT_TOOLS=GOOD_TOOLS)
    assert (code, is_one_sentence(said), address in said) == (1, True, True), said


async def test_unknown_namespace_is_named(temporal_address: str, tmp_path: Path) -> None:
    url = await new_database("sqlite", tmp_path, has_schema=False)
    code, said = await run(
        "workers.approvals", TEMPORAL_ADDRESS=temporal_address, TEMPORAL_NAMESPACE="nowhere", ASSENT_DATABASE_URL=url
    )
    assert (code, is_one_sentence(said), "nowhere" in said) == (1, True, True), said


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgresql+asyncpg://nobody:s3cret@127.0.0.1:9/x", "does not answer"),
        ("sqlite+aiosqlite:////proc/no/such/place/ledger.db", "ASSENT_DATABASE_URL"),
        ("mysql://localhost/x", "sqlite+aiosqlite"),
        ("nonsense", "ASSENT_DATABASE_URL"),
    ],
)
async def test_unusable_database_is_named_without_its_password(temporal_address: str, url: str, hint: str) -> None:
    code, said = await run("workers.approvals", TEMPORAL_ADDRESS=temporal_address, ASSENT_DATABASE_URL=url)
    assert (code, is_one_sentence(said), hint in said) == (1, True, True), said
    assert "s3cret" not in said


async def test_database_without_a_schema_says_what_to_run(temporal_address: str, tmp_path: Path) -> None:
    url = await new_database("sqlite", tmp_path, has_schema=False)
    code, said = await run("workers.approvals", TEMPORAL_ADDRESS=temporal_address, ASSENT_DATABASE_URL=url)
    assert (code, is_one_sentence(said), "python -m workers.setup" in said) == (1, True, True), said


@pytest.mark.parametrize("tools", ["no_such_module", "", "json", "tests.support.broken_tools"])
async def test_tool_modules_that_cannot_serve_are_named(temporal_address: str, tools: str) -> None:
    code, said = await run("workers.tools", TEMPORAL_ADDRESS=temporal_address, ASSENT_TOOLS=tools)
    assert (code, is_one_sentence(said)) == (1, True), said
    assert (tools or "ASSENT_TOOLS") in said


@pytest.mark.parametrize(("name", "value"), [("HEARTBEAT_TIMEOUT", "60"), ("NAMESPACE", "a:b"), ("GRACE", "soon")])
async def test_impossible_settings_are_named(name: str, value: str) -> None:
    code, said = await run("workers.approvals", **{f"ASSENT_{name}": value})
    assert (code, is_one_sentence(said), f"ASSENT_{name}" in said) == (1, True, True), said


@pytest.fixture
async def processes(tmp_path: Path, temporal_address: str, namespaces: Iterator[str]) -> AsyncIterator[WorkerProcesses]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database("sqlite", tmp_path), workers=False)
        processes = WorkerProcesses(service, temporal_address, tmp_path)
        stack.push_async_callback(processes.close)
        yield processes


async def test_sigterm_drains_what_was_begun_and_takes_nothing_new(processes: WorkerProcesses, tmp_path: Path) -> None:
    call, other = Call(tmp_path), Call(tmp_path / "other")
    (tmp_path / "other").mkdir()
    await processes.start("approvals")
    leaving = await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    leaving.send(signal.SIGTERM)

    async def draining() -> bool | None:
        return "draining" in leaving.said() or None

    await until(draining)
    later = await other.ask(processes)
    other.let_end()
    await processes.approve(later)
    call.let_end()
    assert await leaving.ended() == 0
    assert (await handle.outcome()).status == "executed"
    assert marks(other.path) == 0
    await processes.start("tools")
    assert (await later.outcome()).status == "executed"


async def test_a_second_sigterm_leaves_at_once_and_the_ledger_knows(processes: WorkerProcesses, tmp_path: Path) -> None:
    call = Call(tmp_path)
    await processes.start("approvals")
    leaving = await processes.start("tools")
    handle = await call.ask(processes)
    await processes.approve(handle)
    await call.begun()
    leaving.send(signal.SIGTERM)

    async def draining() -> bool | None:
        return "draining" in leaving.said() or None

    await until(draining)
    leaving.send(signal.SIGTERM)
    assert await leaving.ended() == 1
    call.let_end()
    await processes.start("tools")
    assert (await handle.outcome()).status == "frozen"
    assert marks(call.path) == 1


async def test_approvals_worker_leaves_cleanly(processes: WorkerProcesses) -> None:
    worker = await processes.start("approvals")
    handle = await processes.gate.request("mark", {"path": "x"}, requester=ME)
    assert (await handle.state()).phase == "pending"
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
