"""Workers killed while a file is on its way; `make faults` kills them at every step, here at some."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.dying_worker import STEPS
from tests.support.feishu_service import FeishuService, settings_of, simulated
from tests.support.file_deaths import killed_at, running_worker
from tests.support.shared_files import Sharing


@pytest.mark.parametrize(
    ("step", "database"),
    [("ledger.pins.put after", "sqlite"), ("OpenedFiles._copy after", "postgres"), ("Ledger.begin after", "sqlite")],
)
async def test_a_worker_that_is_killed_leaves_nothing_half_done(
    step: str, database: str, tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    assert step in STEPS
    client = await servers.connect(temporal_address, next(namespaces))
    await killed_at(step, client, temporal_address, database, tmp_path)
    assert (tmp_path / "died").exists()


async def test_temporal_s_database_and_the_workers_logs_hold_no_byte_of_a_file(tmp_path: Path) -> None:
    marker = b"a-marker-that-stands-in-the-file-alone"
    held = marker * 5000
    database = tmp_path / "temporal.db"
    server = servers.TemporalServer(file=database)
    server.start()
    try:
        client = await server.client()
        async with AsyncExitStack() as stack:
            chat = await stack.enter_async_context(simulated(limits=False))
            url = await new_database("sqlite", tmp_path)
            service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
            feishu, logs = FeishuService(service, chat), tmp_path / "logs"
            for kind in ("approvals", "tools"):
                stack.callback(running_worker(kind, feishu, server.address, logs).cancel)
            file_id = await Sharing(feishu).share(held, "visible-name.txt")
            handle = await feishu.ask(tmp_path, "count_bytes", arguments={"file": file_id})
            await feishu.chat.card(handle.id)
            outcome = await feishu.decided(handle)
        assert outcome.status == "executed"
    finally:
        server.kill()
    kept = _read(tmp_path, "temporal.db*")
    assert b"visible-name.txt" in kept
    said = _read(logs, "*.log")
    assert b"are served" in said
    for form in (marker, base64.b64encode(held)[10:60], base64.b64encode(held[1:])[10:60], marker.hex().encode()):
        assert form not in kept
        assert form not in said


def _read(directory: Path, names: str) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob(names))
