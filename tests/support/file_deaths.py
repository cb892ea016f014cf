"""A file on its way from a chat to a tool, with a worker that is killed on the way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from assent import Outcome, Unavailable
from assent.types import State
from tests.conftest import HEARTBEAT, new_database, open_service
from tests.support.dying_worker import STEPS
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import APP, REQUESTER, FeishuService, settings_of, simulated
from tests.support.fork_server import Started, spawn
from tests.support.shared_files import PNG, Sharing, seen
from tests.support.waiting import until
from tests.support.web import TENANT

_ONE_BY_ONE = asyncio.Lock()


async def killed_at(name: str, client: Client, address: str, database: str, directory: Path) -> None:
    """Share a file, ask for a call with it and approve, while a worker dies at a step and another comes after it.

    What ran is counted outside: once, with exactly these bytes; or not at all, and then nobody calls it done.
    """
    step, marks = STEPS[name], directory / "marks"
    async with dying_service(name, client, address, database, directory) as feishu:
        service = feishu.service
        file_id = await Sharing(feishu).share(PNG, "receipt.png")
        handle = await service.gate.request("count_bytes", {"path": str(marks), "file": file_id}, requester=REQUESTER)

        async def pending() -> State | None:
            try:
                state = await handle.state()
            except Unavailable:
                return None  # nobody lives just now who could tell
            return state if state.phase == "pending" else None

        shown = (await until(pending)).payload_sha256

        async def approved() -> bool:
            try:
                await handle.decide("approve", actor=REQUESTER.within(TENANT), payload_sha256=shown, event_id="click")
            except Unavailable:
                return False  # the same click may come twice
            return True

        await until(approved)
        outcome = await handle.outcome()
        _check(name, outcome, marks, is_frozen=step.freezes)
        assert len(await service.ledger.files.recent(REQUESTER.within(TENANT))) == 1


@asynccontextmanager
async def dying_service(
    step: str, client: Client, address: str, database: str, directory: Path
) -> AsyncIterator[FeishuService]:
    """A service of which a worker is killed at a step, once, and replaced; somebody has to have died by its end."""
    once = directory / "died"
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        async with _ONE_BY_ONE:  # migrations know one database at a time
            url = await new_database(database, directory)
            service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
        feishu = FeishuService(service, chat)
        for kind in ("approvals", "tools"):
            command = ("tests.support.dying_worker", kind, step, str(once))
            stack.callback(running_worker(kind, feishu, address, directory, command).cancel)
        yield feishu
        assert once.exists(), f"nobody died at {step}"


def _check(name: str, outcome: Outcome, marks: Path, *, is_frozen: bool) -> None:
    written = marks.read_text().splitlines() if marks.exists() else []
    assert outcome.status == ("frozen" if is_frozen else "executed"), (name, outcome)
    assert written in ([], [seen("image.png", PNG)]) if is_frozen else written == [seen("image.png", PNG)], name


def running_worker(
    kind: str, feishu: FeishuService, address: str, directory: Path, command: tuple[str, ...] | None = None
) -> asyncio.Task[None]:
    """A worker in a process of its own, and after its death another, until this is cancelled."""
    directory.mkdir(exist_ok=True)
    return asyncio.create_task(_kept_running(kind, command or (f"workers.{kind}",), feishu, address, directory))


async def _kept_running(
    kind: str, command: tuple[str, ...], feishu: FeishuService, address: str, directory: Path
) -> None:
    service = feishu.service
    environment = worker_environment(
        TEMPORAL_ADDRESS=address,
        TEMPORAL_NAMESPACE=service.client.namespace,
        ASSENT_DATABASE_URL=service.settings.database_url,
        ASSENT_TOOLS="tests.support.tools",
        ASSENT_HEARTBEAT_TIMEOUT=str(HEARTBEAT.total_seconds()),
        ASSENT_GRACE="0.5",
        ASSENT_FEISHU_DOMAIN=feishu.chat.url,
        TMPDIR=str(directory),
        **{f"ASSENT_FEISHU_{key.upper()}": value for key, value in APP.items()},
    )
    running: Started | None = None
    try:
        while True:
            log = os.open(directory / f"{kind}.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            running = await spawn(
                "-m", *command, env=environment, cwd=ROOT, stdout=log, stderr=asyncio.subprocess.STDOUT
            )
            os.close(log)
            await running.wait()
    finally:
        if running is not None and running.returncode is None:
            running.kill()
