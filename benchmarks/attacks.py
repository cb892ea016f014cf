"""What a stranger, an agent or a server can send to exhaust a process: each attack bounded, on this machine only."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
from temporalio.client import Client

from assent import names
from assent.payload import MAX_PAYLOAD_BYTES, MAX_VALUES
from tests.support.hostile_server import FLOOD, Hostile, Sending, answer, endless, whole
from tests.support.slow_requests import HALVES, half_open
from tests.support.waiting import until
from tests.support.web import click_event, sealed_text, signed

TIMES = 20
"""How often each text is sent."""
AT_ONCE = 5
CALLS = 10
"""How many calls meet a hostile server."""
READS = 10
LARGE = 20_000_000
"""Bytes of the result that is read."""
CONNECTIONS = 1100
_TRIES = 2
"""How often an announcement that is refused is waited for."""
_MEGABYTE = b"0" * 1_000_000
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


# Texts


def crowd(size: int = 140_000) -> str:
    """A few long names around many values: a path for each value would be as long as half of the text."""
    half = size // 2
    name = "n" * (half // 20)
    return f'{{"{name}":' * 20 + "[" + ",".join("0" * (half // 2)) + "]" + "}" * 20


def nested(size: int = 140_000) -> str:
    """Many small lists, each some levels deep."""
    items = ",".join(["[" * 30 + "]" * 30] * (size // 61))
    return f'{{"items":[{items}]}}'


def repeated(size: int = 296_000) -> str:
    """One name over and over."""
    return "{" + ",".join(['"n":0'] * (size // 6)) + "}"


TEXTS = (crowd, nested, repeated)


def _allowed() -> dict[str, Any]:
    """As much and as many as a call may hold."""
    count = MAX_VALUES - 100
    return {f"n{n}": "x" * (MAX_PAYLOAD_BYTES // count - 12) for n in range(count)}


# Answers


def bomb(size: int = 680_000) -> bytes:
    """So much gzip, a thousand times as large inside. Its checksum is wrong: only who has inflated all of it knows."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packer.compress(_MEGABYTE)
    packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    pieces = size // len(piece)
    return _GZIP_HEAD + piece * pieces + packer.flush() + struct.pack("<II", 0, 0)


def bomb_in_bomb() -> bytes:
    """Some gigabytes, compressed twice."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(bomb(4_000_000)) + packer.flush()


def _answers(status: int) -> list[Sending]:
    head = answer(status, "Transfer-Encoding: chunked", "Content-Type: application/json")
    return [
        whole(status, "gzip", bomb()),
        whole(status, "gzip, gzip", bomb_in_bomb()),
        endless(head, FLOOD, 0),
    ]


class Attacks:
    """All attacks on a service that runs."""

    def __init__(self, api: str, webhook: str, token: str, temporal: Client, server: Hostile) -> None:
        self._webhook = webhook
        self._api = api
        self._temporal = temporal
        self._server = server
        self._agent = httpx.AsyncClient(
            base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False
        )
        self._stranger = httpx.AsyncClient(base_url=webhook, timeout=60, trust_env=False)

    async def close(self) -> None:
        await self._agent.aclose()
        await self._stranger.aclose()

    # Small texts

    async def unsigned_texts(self) -> None:
        """At the webhook, from anyone."""
        for text in TEXTS:
            await _in_lanes(TIMES, partial(self._deliver, text().encode(), 401, is_signed=False))

    async def signed_texts(self) -> None:
        """At the webhook, as Feishu would send them: in its own encryption, as what a button said."""
        for text in TEXTS:
            event = json.dumps(click_event("@", "om_1")).replace('"@"', text())
            status = 401 if text is repeated else 200
            await _in_lanes(TIMES, partial(self._deliver, sealed_text(event), status, is_signed=True))

    async def texts_of_an_agent(self) -> None:
        """At the API with a token: as a whole body, and as arguments of a call; and calls as large as they may be."""
        for text in TEXTS:
            await _in_lanes(TIMES, partial(self._ask, text(), 422))
            body = json.dumps(_request("bench.take", {"items": "@"})).replace('"@"', text())
            await _in_lanes(TIMES, partial(self._ask, body, 422))
        await _in_lanes(CALLS, partial(self.call, "bench.take", {"items": _allowed()}))

    async def _deliver(self, body: bytes, status: int, *, is_signed: bool) -> None:
        headers = signed(body) if is_signed else {"Content-Type": "application/json"}
        came = await self._stranger.post("/feishu/callback", content=body, headers=headers)
        assert came.status_code == status, (came.status_code, came.text[:500])

    # Answers without measure

    async def answers_to_a_tool(self) -> None:
        """Calls of an HTTP tool whose server sends a bomb, one inside another, and an answer without end."""
        for sending in _answers(200):
            self._server.sending = sending
            await _in_lanes(CALLS, partial(self.call, "bench.ask_server", {}))

    async def answers_to_a_callback(self) -> None:
        """Completion callbacks whose receiver sends the same, with 200, and with 500 until each came some times."""
        for status in (200, 500):
            for sending in _answers(status):
                self._server.sending, self._server.asked = sending, 0
                call = partial(self.call, "bench.take", {"items": {}}, callback_url=f"{self._server.url}/done")
                await _in_lanes(CALLS, call)
                await self._asked(CALLS if status == 200 else CALLS * _TRIES)
                self._server.sending = whole(204, "identity", b"")

    async def _asked(self, times: int) -> None:
        """Wait until the server was asked so often."""

        async def often_enough() -> bool:
            return self._server.asked >= times

        try:
            await until(often_enough, 90)
        except TimeoutError:
            raise AssertionError(f"the server was asked {self._server.asked} of {times} times") from None

    # A large result

    async def make_large_result(self) -> str:
        """The id of a call with a large result."""
        return await self.call("bench.make", {"size": LARGE})

    async def read_large_result(self, approval_id: str) -> None:
        await _in_lanes(READS, partial(self._read, approval_id))

    async def _read(self, approval_id: str) -> None:
        size = 0
        async with self._agent.stream("GET", f"/v1/approvals/{approval_id}/content") as came:
            assert came.status_code == 200
            async for chunk in came.aiter_raw():
                size += len(chunk)
        assert size >= LARGE, size

    async def workflows(self) -> int:
        """How many workflows Temporal knows."""
        return (await self._temporal.count_workflows()).count

    async def history_bytes(self, approval_id: str) -> int:
        """How many bytes an approval's history holds."""
        described = await self._temporal.get_workflow_handle(names.approval_workflow(approval_id)).describe()
        return described.raw_description.workflow_execution_info.history_size_bytes

    # Connections

    async def half_open_connections(self) -> None:
        """More than may be connected, at each door; none of their requests ever arrives."""
        with _many_files():
            for url in (self._webhook, self._api):
                opened: list[socket.socket] = []
                try:
                    for n in range(CONNECTIONS):
                        opened.append(await half_open(urlsplit(url).port or 0, HALVES[n % len(HALVES)]))
                    await asyncio.sleep(3)  # for those who are asked how they are
                finally:
                    for each in opened:
                        each.close()

    # An agent's calls

    async def call(self, tool: str, arguments: dict[str, Any], **more: str) -> str:
        """The id of a call that was executed."""
        return await self._have_executed(json.dumps(_request(tool, arguments, **more)))

    async def _have_executed(self, body: str) -> str:
        approval_id: str = (await self._ask(body, 201))["approval_id"]

        async def executed() -> bool:
            came = await self._agent.get(f"/v1/approvals/{approval_id}", params={"wait": 30})
            if came.status_code == 503:  # whoever knows is busy
                return False
            state = came.raise_for_status().json()
            assert state["status"] in (None, "executed"), state
            return state["status"] is not None

        await until(executed, 120)
        return approval_id

    async def _ask(self, body: str, status: int) -> dict[str, Any]:
        came = await self._agent.post("/v1/approvals", content=body, headers={"Content-Type": "application/json"})
        assert came.status_code == status, (came.status_code, came.text[:500])
        said: dict[str, Any] = came.json()
        return said


def _request(tool: str, arguments: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "requester": {"open_id": "ou_requester"}, **more}


async def _in_lanes(times: int, act: Callable[[], Awaitable[Any]]) -> None:
    """Act so many times, some at once."""
    left = iter(range(times))

    async def lane() -> None:
        for _ in left:
            await act()

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


@contextmanager
def _many_files() -> Iterator[None]:
    """Files enough for the other ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
