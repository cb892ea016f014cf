"""The doors as processes: what it says when it cannot start, and how it leaves."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from assent import Assent
from tests.conftest import ME, Service, new_database, open_service
from tests.support import servers
from tests.support.environment import ROOT, worker_environment
from tests.support.fork_server import spawn
from tests.support.web import write_tokens
from tests.support.worker_processes import Process, is_one_sentence, run


@pytest.fixture(scope="module")
async def own(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Service]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path_factory.mktemp("process"))
        yield await open_service(stack, client, url)


@asynccontextmanager
async def api(service: Service, address: str, directory: Path) -> AsyncIterator[tuple[Process, str]]:
    """A process of the API, and where it serves."""
    log = directory / "api.log"
    running = await spawn(
        *("-m", "workers.api"),
        env=worker_environment(
            TEMPORAL_ADDRESS=address,
            TEMPORAL_NAMESPACE=service.client.namespace,
            ASSENT_DATABASE_URL=service.settings.database_url,
            ASSENT_TOKENS=str(write_tokens(directory)),
            ASSENT_PORT="0",
        ),
        cwd=ROOT,
        stdout=log.open("wb"),
        stderr=asyncio.subprocess.STDOUT,
    )
    process = Process(running, log)
    try:
        await process.ready()
        found = re.search(r"http://127\.0\.0\.1:\d+", process.said())
        assert found, process.said()
        yield process, found[0]
    finally:
        await process.kill()


async def test_sigterm_tells_whoever_waits_how_it_stands_and_leaves_soon(
    own: Service, temporal_address: str, tmp_path: Path
) -> None:
    async with (
        api(own, temporal_address, tmp_path) as (process, url),
        httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer secret-agent"}, timeout=90) as http,
    ):
        gate = await Assent.connect(url, token="secret-agent")
        handle = await gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
        waiting = asyncio.create_task(http.get(f"/v1/approvals/{handle.id}?wait=60&private=1"))
        answer = await http.get("/healthz")
        assert "server" not in answer.headers
        await asyncio.sleep(0.3)  # the wait has begun; there is nothing that shows it from outside
        began = time.monotonic()
        process.send(signal.SIGTERM)
        stands = await waiting
        assert (stands.status_code, stands.json()["phase"], stands.json()["outcome"]) == (200, "pending", None)
        assert await process.ended() == 0
        assert time.monotonic() - began < 30  # who waits asked to wait for a minute
        assert "private" not in process.said()
        assert "Traceback" not in process.said()
        await gate.close()


async def test_a_mistake_of_the_operator_is_one_sentence(own: Service, temporal_address: str) -> None:
    known = {"TEMPORAL_ADDRESS": temporal_address, "TEMPORAL_NAMESPACE": own.client.namespace}
    for door, variable in (("webhook", "ASSENT_FEISHU_APP_ID"), ("api", "ASSENT_TOKENS")):
        code, said = await run(f"workers.{door}", ASSENT_DATABASE_URL=own.settings.database_url, **known)
        assert (code, is_one_sentence(said)) == (1, True), said
        assert variable in said


@pytest.mark.parametrize("process", ["webhook", "approvals", "longconn", "tools", "setup"])
async def test_an_app_without_its_company_starts_nothing(process: str) -> None:
    code, said = await run(f"workers.{process}", ASSENT_FEISHU_APP_ID="cli_assent", ASSENT_FEISHU_ENCRYPT_KEY="k")
    assert (code, is_one_sentence(said)) == (1, True), said
    assert "ASSENT_FEISHU_TENANT_KEY: say which company this app belongs to" in said


async def test_a_busy_port_is_named_with_the_way_out(own: Service, temporal_address: str, tmp_path: Path) -> None:
    async with api(own, temporal_address, tmp_path) as (_, url):
        port = url.rpartition(":")[2]
        code, said = await run(
            "workers.api",
            ASSENT_DATABASE_URL=own.settings.database_url,
            TEMPORAL_ADDRESS=temporal_address,
            TEMPORAL_NAMESPACE=own.client.namespace,
            ASSENT_TOKENS=str(write_tokens(tmp_path)),
            ASSENT_PORT=port,
        )
    assert (code, is_one_sentence(said)) == (1, True), said
    assert port in said
    assert "ASSENT_PORT" in said
