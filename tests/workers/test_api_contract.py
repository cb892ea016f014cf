"""The API is what its OpenAPI says: tried by machine, and described on a page that loads nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.simulated_feishu import served
from tests.support.web import Web


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("contract")
    async with AsyncExitStack() as stack:
        yield Web(await open_service(stack, client, await new_database("sqlite", directory)), directory)


async def test_every_operation_names_its_problems(web: Web) -> None:
    async with web.http() as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    assert {
        "/v1/approvals", "/v1/approvals/{approval_id}", "/v1/approvals/{approval_id}/cancel",
        "/v1/approvals/{approval_id}/decide", "/v1/approvals/{approval_id}/content", "/v1/tools",
        "/v1/audit/{approval_id}", "/v1/frozen", "/v1/frozen/{approval_id}/settle",
        "/v1/approvals/{approval_id}/settlement", "/v1/approvals/{approval_id}/result", "/v1/inbox", "/v1/grants",
        "/v1/grants/{grant_id}",
    } <= set(paths)  # fmt: skip
    for path, methods in paths.items():
        for operation in methods.values() if path.startswith("/v1/") else ():
            assert {"400", "401", "403", "404", "413", "422", "503"} <= set(operation["responses"])
            for status, response in operation["responses"].items():
                kind = "application/json" if status < "300" else "application/problem+json"
                assert list(response["content"]) == [kind]
            assert operation["security"]


@asynccontextmanager
async def nobody_waits(web: Web) -> AsyncIterator[None]:
    """Whatever is asked is withdrawn: else who waits for the answer as long as one may would wait in vain."""

    async def withdraw() -> None:
        while True:
            async for line in web.service.gate.questions(status="pending"):
                await web.service.gate.question(line.question_id).cancel()
            await asyncio.sleep(0.3)

    withdrawing = asyncio.create_task(withdraw())
    try:
        yield
    finally:
        withdrawing.cancel()


@pytest.mark.parametrize(
    ("token", "paths"),
    [("agent", ("--exclude-path", "/readyz")), ("approver", ("--include-path-regex", "^/v1/(inbox|grants|.*/result)"))],
)
async def test_schemathesis_finds_nothing_that_the_description_does_not_say(
    web: Web, tmp_path: Path, token: str, paths: tuple[str, ...]
) -> None:
    async with served(web.app) as url, nobody_waits(web):
        command = [
            *(str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json"),
            *("--header", f"Authorization: Bearer secret-{token}"),
            *("--phases", "examples,coverage", "--generation-deterministic"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance", "--no-color"),
            *("--request-timeout", "120", *paths),
        ]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=800, cwd=tmp_path
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
