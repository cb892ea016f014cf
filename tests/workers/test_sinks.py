"""Where the audit also goes: at least once, in order, and never in anybody's way."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from tests.conftest import ME, Service
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from workers import sinks

TAKEN: list[dict[str, Any]] = []


def take(line: dict[str, Any]) -> None:
    TAKEN.append(line)


async def refuse(line: dict[str, Any]) -> None:
    raise RuntimeError("never")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_EVERY", 0.05)
    monkeypatch.setattr(sinks, "_LONGEST_PAUSE", 0.1)
    TAKEN.clear()


@asynccontextmanager
async def sinking(service: Service, *named: str) -> AsyncIterator[None]:
    await service.ledger.register_sinks(named)
    task = asyncio.create_task(sinks.keep_sinking(service.ledger, sinks.sinks_of(named)))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await service.ledger.register_sinks([])


async def lived(service: Service, path: Path) -> str:
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME, event_id="ev_1")
    assert (await service.decided(handle)).status == "executed"
    return handle.id


def of(lines: list[dict[str, Any]], approval_id: str) -> list[tuple[int, str]]:
    return [(line["seq"], line["entry"]["event"]) for line in lines if line["approval_id"] == approval_id]


async def test_a_file_an_address_and_a_function_get_every_entry_in_order(service: Service, tmp_path: Path) -> None:
    posted: list[dict[str, Any]] = []
    refusals = iter(range(2))

    async def answer(request: Request) -> Response:
        if next(refusals, None) is not None:
            return Response(status_code=503)
        posted.append(await request.json())
        assert request.headers["Idempotency-Key"] == posted[-1]["hash"]
        return Response(status_code=204)

    file = tmp_path / "audit.jsonl"
    file.write_text('{"torn": ')
    app = FastAPI()
    app.post("/sink")(answer)
    async with (
        served(app) as address,
        sinking(service, f"file:{file}", f"{address}/sink", f"{__name__}:take"),
    ):
        approval_id = await lived(service, tmp_path / "m")
        records = await service.gate.approval(approval_id).audit()
        whole = [(record.seq, record.entry.event.value) for record in records]

        async def everywhere() -> bool:
            written = [json.loads(line) for line in file.read_text().splitlines()[1:]]
            return all(of(each, approval_id) == whole for each in (written, posted, TAKEN))

        await until(everywhere)
    assert oct(file.stat().st_mode & 0o777) == "0o644", "a file that was there stays as it was"
    assert {line["entry"]["outcome"] for line in TAKEN} == {"ok"}
    assert {line["entry"]["proposal_event_id"] for line in TAKEN if line["approval_id"] == approval_id} == {"ev_1"}


async def test_no_decision_waits_where_every_sink_fails(service: Service, tmp_path: Path) -> None:
    unwritable = f"file:{tmp_path}/no/such/directory/audit.jsonl"
    async with sinking(service, unwritable, "http://127.0.0.1:9/nobody", f"{__name__}:refuse", f"{__name__}:take"):
        approval_id = await lived(service, tmp_path / "m")

        async def one_has_all() -> bool:
            return len(of(TAKEN, approval_id)) == len(await service.ledger.entries(approval_id))

        await until(one_has_all)
        kept = await service.ledger.unsent(f"{__name__}:refuse", "", 10_000)
        assert [seq for found, record in kept if found == approval_id for seq in [record.seq]] == [
            seq for seq, _ in of(TAKEN, approval_id)
        ]


async def test_one_process_at_a_time_brings_a_sink_what_it_lacks(service: Service) -> None:
    await service.ledger.register_sinks(["held"])
    assert await service.ledger.hold_sink("held", "one", sinks._HELD_FOR)
    assert not await service.ledger.hold_sink("held", "other", sinks._HELD_FOR)
    assert await service.ledger.hold_sink("held", "one", -sinks._HELD_FOR)
    assert await service.ledger.hold_sink("held", "other", sinks._HELD_FOR)
    await service.ledger.register_sinks([])


@pytest.mark.parametrize("said", ["file:", "ftp://x", "http://example.com/x", "https://a:b@c/", "no.such:thing", "os"])
def test_what_takes_nothing_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        sinks.sink_of(said)


HANGING, LET_GO = threading.Event(), threading.Event()


def hang(line: dict[str, Any]) -> None:
    HANGING.set()
    LET_GO.wait(60)
    take(line)


async def block(line: dict[str, Any]) -> None:
    hang(line)


@pytest.mark.parametrize("hanging", ["hang", "block"])
async def test_a_sink_that_hangs_hangs_alone(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    monkeypatch.setattr(sinks, "_WITHIN", 0.05)
    HANGING.clear()
    LET_GO.clear()
    file = tmp_path / "audit.jsonl"
    async with sinking(service, f"{__name__}:{hanging}", f"file:{file}"):
        ids = [await lived(service, tmp_path / "m") for _ in range(3)]
        assert await asyncio.to_thread(HANGING.wait, 60)
        whole = sum([len(await service.ledger.entries(each)) for each in ids])

        async def beside() -> bool:
            return len(file.read_text().splitlines()) >= whole if file.exists() else False

        await until(beside)
        assert sum(thread.name == "assent-sink" for thread in threading.enumerate()) == 2
        assert await asyncio.wait_for(asyncio.to_thread(lambda: True), 10), "nobody else's thread is taken"
        LET_GO.set()

        async def all_at_last() -> bool:
            return sum(len(set(of(TAKEN, each))) for each in ids) == whole

        await until(all_at_last)


async def test_what_an_address_answers_is_not_read(service: Service, tmp_path: Path) -> None:
    app, asked = FastAPI(), []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    @app.post("/")
    async def answer(request: Request) -> Response:
        asked.append(await request.json())
        return StreamingResponse(endless())

    async with served(app) as url, sinking(service, f"{url}/"):
        approval_id = await lived(service, tmp_path / "m")

        async def all_of_it() -> bool:
            return len({seq for seq, _ in of(asked, approval_id)}) == len(await service.ledger.entries(approval_id))

        await until(all_of_it)
