"""Those who connect and say little: they keep nobody out, and cost little."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest
import uvicorn

from tests.support.environment import worker_environment
from tests.support.slow_requests import HALVES, door, half_open
from tests.support.waiting import until
from workers import edge


@pytest.fixture
def files() -> Iterator[None]:
    """Files enough for the other ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("allowed", [1024, 400])
async def test_more_than_a_thousand_half_open_connections_keep_nobody_out(files: None, allowed: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.slow_requests", str(allowed)),
        env=worker_environment(),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    opened: list[socket.socket] = []
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert (await client.get("/healthz")).status_code == 200
            before = psutil.Process(process.pid).memory_info().rss
            for n in range(1100):
                opened.append(await half_open(port, HALVES[n % len(HALVES)]))
                if n % 100 == 99:
                    assert (await client.get("/healthz")).status_code == 200, f"after {n + 1} connections"
        for _ in range(5):
            async with httpx.AsyncClient(base_url=url, timeout=60) as newcomer:
                assert (await newcomer.get("/healthz")).status_code == 200
                assert (await newcomer.post("/feishu/callback", content=b"x" * 900_000)).json() == 900_000
        grown = psutil.Process(process.pid).memory_info().rss - before
        assert grown < 120_000_000, f"it grew by {grown:,} bytes"
    finally:
        for each in opened:
            each.close()
        process.kill()
        await process.wait()


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(edge.server_config(door()))
    serving = asyncio.create_task(server._serve([listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


@pytest.mark.parametrize("half", HALVES, ids=lambda half: ascii(half[:20]))
async def test_a_request_that_does_not_arrive_is_ended(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "ARRIVES_WITHIN", 0.3)
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(half)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_byte_now_and_then_gains_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "ARRIVES_WITHIN", 0.5)
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        dripping = asyncio.create_task(_drip(writer))
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"G")
        await asyncio.sleep(0.05)


async def test_the_next_request_on_a_connection_has_its_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "ARRIVES_WITHIN", 0.5)
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"alive")
        writer.write(b"GET /hea")
        rest = await reader.read()
        assert b"HTTP/1.1 408 " in rest


async def test_an_answer_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "TAKEN_WITHIN", 0.3)
    async with served() as port:
        own = socket.create_connection(("127.0.0.1", port))
        own.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")

        async def hung_up() -> bool:
            ours = [each for each in psutil.Process().net_connections("tcp") if each.laddr and each.laddr.port == port]
            return not any(each.status == psutil.CONN_ESTABLISHED for each in ours)

        await until(hung_up)
        own.close()


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent() -> None:
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /feishu/callback HTTP/1.1\r\nHost: a\r\nContent-Length: 1000001\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()


HALF = b"POST /feishu/callback HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n" + b"x" * 800_000


async def test_all_bodies_together_are_bounded_and_the_oldest_half_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "MOST_HELD", 2_000_000)
    async with served() as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        halves = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF)
            await writer.drain()
            halves.append((reader, writer))
        answer = (await halves[0][0].readuntil(b"}")).decode()
        assert answer.startswith("HTTP/1.1 503 ")
        assert "too much is being sent at once" in answer
        for _ in range(3):
            assert (await client.post("/feishu/callback", content=b"{}")).status_code == 200
        assert (await client.post("/feishu/callback", content=b"x" * 900_000)).json() == 900_000
        assert (await halves[1][0].readline()).startswith(b"HTTP/1.1 503 ")
        halves[2][1].write(b"x" * 100_000)
        assert (await halves[2][0].readuntil(b"900000")).startswith(b"HTTP/1.1 200 ")
        for _, writer in halves:
            writer.close()


async def test_a_body_that_alone_is_more_than_there_is_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "MOST_HELD", 100_000)
    async with served() as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        assert (await client.post("/feishu/callback", content=b"x" * 900_000)).status_code == 503
        assert (await client.post("/feishu/callback", content=b"{}")).status_code == 200


async def test_whoever_waits_for_an_answer_gives_way_to_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request is there, and takes no room that anybody else could have."""
    monkeypatch.setattr(edge, "MOST_HELD", 1_000_000)
    async with served() as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        async with client.stream("POST", "/streamed", content=b"x" * 1000) as answer:
            parts = answer.aiter_text()
            assert await anext(parts) == "begun"
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF)
            await writer.drain()
            assert (await client.post("/feishu/callback", content=b"x" * 900_000)).json() == 900_000
            assert (await client.post("/release", content=b"")).status_code == 200
            assert "".join([part async for part in parts]) == "ended"
        writer.close()


async def test_when_all_are_busy_a_newcomer_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "MOST_CONNECTIONS", 2)
    async with served() as port:
        busy = []
        for _ in range(2):
            own = socket.create_connection(("127.0.0.1", port))
            own.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            own.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(own, 10)
            busy.append(own)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        writer.close()
        for own in busy:
            own.close()
