"""Clicks over the long connection, by the official SDK, against the simulator."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from fastapi import FastAPI

import simulator
from activities.feishu.verifier import Verifier
from assent.settings import Settings
from cards import Wording
from tests.conftest import Service, new_database, open_service
from tests.support import servers
from tests.support.deployment import Told
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import APP, OUTSIDER, REQUESTER, Chat, settings_of
from tests.support.fork_server import spawn
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from tests.support.worker_processes import Process
from workers import longconn, process
from workers.callbacks import Callbacks
from workers.longconn import ConnectionLost, ConnectionThread

if TYPE_CHECKING:
    from workers.lark import Connection


# The watch over the connection


class Sdk:
    """Stands for the SDK's client: runs until it is told how to end."""

    def __init__(self) -> None:
        self.loop = asyncio.get_event_loop()
        self.failure: Exception | None = None
        self.hung_up = threading.Event()
        self._ending = asyncio.Event()

    def start(self) -> None:
        self.loop.run_until_complete(self._ending.wait())
        if self.failure:
            raise self.failure

    def end(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.loop.call_soon_threadsafe(self._ending.set)

    async def hang_up(self) -> None:
        self.hung_up.set()


@asynccontextmanager
async def line_with(answer: longconn.Answering | None = None) -> AsyncIterator[tuple[ConnectionThread, Sdk]]:
    made: list[Sdk] = []

    def dial(_: ConnectionThread) -> Connection:
        made.append(Sdk())
        return cast("Connection", made[0])

    async def nothing(_: bytes) -> None:
        return None

    line = ConnectionThread(answer or nothing, dial)
    line.start()
    await until(lambda: _true(made and made[0].loop.is_running()))
    yield line, made[0]
    made[0].end()


async def _true(condition: object) -> bool | None:
    return bool(condition) or None


async def test_silence_for_two_pings_is_noticed() -> None:
    async with line_with() as (line, _):
        line.connected()
        line.heard(0.01)
        assert "nothing was heard" in await asyncio.wait_for(line.broken(), 300)


async def test_a_connection_that_is_heard_is_left_alone() -> None:
    async with line_with() as (line, _):
        line.heard(60)
        watching = asyncio.create_task(line.broken())
        await asyncio.wait([watching], timeout=0.3)
        assert not watching.done()
        watching.cancel()


async def test_a_connection_that_gave_up_is_noticed_and_its_ticket_kept_secret() -> None:
    async with line_with() as (line, _):
        line.ended("InvalidURI: wss://example.com/?ticket=very-secret is no address\n")
        assert await asyncio.wait_for(line.broken(), 300) == "InvalidURI: wss://example.com/?… is no address"


async def test_a_thread_that_dies_is_noticed() -> None:
    async with line_with() as (line, sdk):
        sdk.end(RuntimeError("gone"))
        assert await asyncio.wait_for(line.broken(), 300) == "RuntimeError: gone"


async def test_a_broken_line_ends_the_process_with_a_sentence() -> None:
    async with line_with() as (line, sdk):
        line.ended("ClientException: 403")
        with pytest.raises(ConnectionLost, match="403"):
            await longconn.serve(line)
        assert sdk.hung_up.is_set()


async def test_without_an_app_it_does_not_start() -> None:
    with pytest.raises(process.Misconfigured, match="ASSENT_FEISHU_APP_ID"):
        await longconn.main(Settings())


# What is answered to what


@pytest.fixture
def connection() -> longconn.Answering:
    verifier = Verifier(app_id="cli_assent", tenant_key="tenant_1", encrypt_key="k", verification_token=None)
    return partial(longconn.answer, verifier, Callbacks(cast("Any", None), Wording.load()))


def envelope(event_type: str, event: dict[str, Any], **header: str) -> bytes:
    known = {"event_id": "e-1", "event_type": event_type, "app_id": "cli_assent", "tenant_key": "tenant_1"}
    return json.dumps({"schema": "2.0", "header": known | header, "event": event}).encode()


async def test_an_event_that_nobody_waits_for_is_taken_without_an_answer(connection: longconn.Answering) -> None:
    assert await connection(envelope("im.message.receive_v1", {})) is None


@pytest.mark.parametrize("payload", [b"", b"\xff", b"[]", b"{}", b"[" * 100_000, envelope("x", {}, app_id="cli_2")])
async def test_what_is_not_for_us_changes_nothing(
    connection: longconn.Answering, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert await connection(payload) == {}
    assert "refused" in caplog.text


async def test_a_click_of_another_card_is_answered(connection: longconn.Answering) -> None:
    click = {"operator": {"open_id": "ou_1", "tenant_key": "tenant_1"}, "action": {"value": "a string"}}
    answer = await connection(envelope("card.action.trigger", click))
    assert answer
    assert answer["toast"]["type"] == "warning"


# The SDK's client


class Owner:
    """Takes events and lets the test answer them."""

    def __init__(self) -> None:
        self.taken: dict[bytes, Any] = {}
        self.pings: list[float] = []

    def take(self, payload: bytes) -> Any:
        self.taken[payload] = Future()
        return self.taken[payload]

    def heard(self, ping_interval: float) -> None:
        self.pings.append(ping_interval)

    def connected(self) -> None: ...
    def ended(self, reason: str) -> None: ...


class Socket:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self) -> None: ...


async def test_a_click_that_waits_holds_up_neither_the_next_nor_the_ping() -> None:
    from lark_oapi.ws.pb.pbbp2_pb2 import Frame

    from workers.lark import Connection

    def frame(method: int, payload: bytes = b"", **headers: str) -> bytes:
        made = Frame(SeqID=0, LogID=0, service=1, method=method, payload=payload)
        for key, value in headers.items():
            made.headers.add(key=key, value=value)
        return bytes(made.SerializeToString())

    def event(payload: bytes, number: int) -> bytes:
        return frame(1, payload, type="event", message_id=str(number), trace_id="t", sum="1", seq="0")

    owner, socket = Owner(), Socket()
    connection = Connection(owner, app_id="cli_1", app_secret="s", domain="http://127.0.0.1:1")
    connection._conn, connection._service_id = socket, "1"

    first = asyncio.create_task(connection._handle_message(event(b"first", 1)))
    second = asyncio.create_task(connection._handle_message(event(b"second", 2)))
    third = asyncio.create_task(connection._handle_message(event(b"third", 3)))
    await until(lambda: _true(len(owner.taken) == 3))
    await connection._handle_message(frame(0, json.dumps({"PingInterval": 7}).encode(), type="pong"))
    owner.taken[b"second"].set_result({"toast": {"content": "好"}})
    await second
    assert not first.done()
    owner.taken[b"third"].set_exception(RuntimeError("private"))
    await third
    leaving = asyncio.create_task(connection.hang_up())
    await asyncio.sleep(0)
    assert not leaving.done()
    owner.taken[b"first"].set_result(None)
    await first
    await leaving
    await connection._handle_message(frame(0, type="pong"))

    answers = []
    for data in socket.sent:
        answered = Frame()
        answered.ParseFromString(data)
        headers = {header.key: header.value for header in answered.headers}
        assert headers["biz_rt"].isdecimal()
        answers.append((headers["message_id"], json.loads(answered.payload)))
    assert [number for number, _ in answers] == ["2", "3", "1"]
    assert answers[0][1]["code"] == 200
    assert json.loads(base64.b64decode(answers[0][1]["data"])) == {"toast": {"content": "好"}}
    assert [answer for _, answer in answers[1:]] == [{"code": 500}, {"code": 200}]
    assert owner.pings[-1] == 7
    logging.getLogger("Lark").disabled = False


# The whole process


class Town:
    """A service, a simulated Feishu that nobody calls back over HTTP, and the process between them."""

    def __init__(self, service: Service, app: FastAPI, chat: Chat, address: str, directory: Path) -> None:
        self.service = service
        self.app = app
        self.chat = chat
        self._address = address
        self._directory = directory
        self.processes: list[Process] = []

    async def start(self, **different: str) -> Process:
        environment = worker_environment(
            TEMPORAL_ADDRESS=self._address,
            TEMPORAL_NAMESPACE=self.service.client.namespace,
            ASSENT_FEISHU_APP_ID=APP["app_id"],
            ASSENT_FEISHU_TENANT_KEY=APP["tenant_key"],
            ASSENT_FEISHU_DOMAIN=self.chat.url,
            **{"ASSENT_FEISHU_APP_SECRET": APP["app_secret"], **different},
        )
        log = self._directory / f"longconn-{len(self.processes)}.log"
        running = await spawn(
            *("-m", "workers.longconn"),
            env=environment,
            cwd=ROOT,
            stdout=log.open("wb"),
            stderr=asyncio.subprocess.STDOUT,
        )
        self.processes.append(Process(running, log))
        return self.processes[-1]

    async def connected(self, process: Process) -> None:
        await process.ready()
        await until(lambda: _true(len(self.app.state.hub)))

    async def drop(self) -> None:
        """The platform closes every connection."""
        await self.app.state.hub.disconnect()


@pytest.fixture(scope="module")
async def town(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Town]:
    directory = tmp_path_factory.mktemp("town")
    client = await servers.connect(temporal_address, next(namespaces))
    known: dict[str, Any] = {**APP, "ping_seconds": 3, "limits": False, "click_timeout": 30.0}
    app = simulator.create_app(simulator.Settings(**known))
    async with AsyncExitStack() as stack:
        chat = Chat(await stack.enter_async_context(served(app)))
        stack.push_async_callback(chat.http.aclose)
        url = await new_database("sqlite", directory)
        service = await open_service(stack, client, url, **settings_of(chat.url))
        built = Town(service, app, chat, temporal_address, directory)
        yield built
        for each in built.processes:
            await each.kill()


async def test_a_click_is_counted_and_answered_also_after_a_lost_connection(town: Town, tmp_path: Path) -> None:
    running = await town.start()
    await town.connected(running)

    asked = await town.service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=REQUESTER)
    card = await town.chat.card(asked.id)
    assert Told(await town.chat.click(card, "approve", OUTSIDER)).was("forbidden", "error"), running.said()
    assert Told(await town.chat.click(card, "approve")).was("approved", "success"), running.said()
    outcome = await asked.outcome()
    assert (outcome.status, [each.open_id for each in outcome.approved_by]) == ("executed", [REQUESTER.open_id])
    await town.chat.final(asked.id)

    await town.drop()
    await until(lambda: _true(len(town.app.state.hub)))
    rejected = await town.service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=REQUESTER)
    told = Told(await town.chat.click(await town.chat.card(rejected.id), "reject", reason="not " + "so " * 300))
    assert told.was("rejected", "success"), told
    assert (await rejected.outcome()).status == "rejected"

    running.send(signal.SIGTERM)
    assert await running.ended() == 0, running.said()
    assert not any(private in running.said() for private in ("ticket=", "not so", str(tmp_path)))


async def test_a_refused_secret_ends_the_process_with_a_sentence(town: Town) -> None:
    running = await town.start(ASSENT_FEISHU_APP_SECRET="wrong-one")
    assert await running.ended() == 1
    assert "app_secret is invalid" in running.said().splitlines()[-1]
    assert "wrong-one" not in running.said()


async def test_a_refused_reconnect_ends_the_process(town: Town) -> None:
    running = await town.start()
    await town.connected(running)
    await town.chat.misbehave({"on": "ws", "kind": "refuse"})
    try:
        await town.drop()
        assert await running.ended() == 1
    finally:
        await town.chat.behave()
    assert "The long connection to Feishu is gone" in running.said().splitlines()[-1]
