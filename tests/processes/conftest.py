"""Workers as processes of their own, on a ledger of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.worker_processes import WorkerProcesses


@pytest.fixture(params=["sqlite", "postgres"])
async def processes(
    request: pytest.FixtureRequest, tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[WorkerProcesses]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database(request.param, tmp_path), workers=False)
        processes = WorkerProcesses(service, temporal_address, tmp_path)
        stack.push_async_callback(processes.close)
        yield processes
