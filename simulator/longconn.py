"""The long connection: events go out in frames, answers come back in frames."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import random
import secrets
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from simulator.faults import EVERY_KIND
from simulator.frames import CONTROL, DATA, BadFrame, Frame
from simulator.state import Simulator
from simulator.wire import Call, endpoint

_MOST_CONNECTIONS = 50
_PIECE = 4096
"""A payload longer than this is split over several frames."""
_SERVICE = 33554678

_FORBIDDEN = 403
_AUTH_FAILED = 514
_NO_CREDENTIAL = 1000040344
_TOO_MANY = 1000040350


@dataclass(frozen=True)
class Answer:
    """What came back over a connection: a status as of HTTP, and the JSON text inside."""

    status: int
    text: str


class Gone(Exception):
    """The connection broke before there was an answer."""


class Connection:
    """One client."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._waiting: dict[str, asyncio.Future[Answer]] = {}

    async def deliver(self, payload: bytes) -> Answer:
        """Send an event and wait for what is answered to it."""
        message_id = secrets.token_hex(16)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = answer
        pieces = max(1, math.ceil(len(payload) / _PIECE))
        try:
            for number in range(pieces):
                headers = {
                    "type": "event",
                    "message_id": message_id,
                    "trace_id": message_id,
                    "sum": str(pieces),
                    "seq": str(number),
                }
                piece = payload[number * _PIECE : (number + 1) * _PIECE]
                await self._send(Frame(DATA, headers, piece, service=_SERVICE))
            return await answer
        except (WebSocketDisconnect, RuntimeError) as error:
            raise Gone from error
        finally:
            del self._waiting[message_id]

    async def listen(self, simulator: Simulator) -> None:
        """Take frames until the client leaves."""
        while True:
            try:
                frame = Frame.decode(await self._socket.receive_bytes())
            except (BadFrame, KeyError):
                continue
            if frame.method == CONTROL and frame.headers.get("type") == "ping":
                config = json.dumps(client_config(simulator)).encode()
                await self._send(Frame(CONTROL, {"type": "pong"}, config, service=frame.service))
            elif frame.method == DATA:
                waiting = self._waiting.get(frame.headers.get("message_id", ""))
                if waiting is not None and not waiting.done():
                    waiting.set_result(_answer(frame.payload))

    async def close(self) -> None:
        await self._socket.close()

    def lose(self) -> None:
        """Nobody will answer any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Gone())

    async def _send(self, frame: Frame) -> None:
        await self._socket.send_bytes(frame.encode())


class Hub:
    """The open connections of the app, and the tickets for new ones."""

    def __init__(self) -> None:
        self._connections: set[Connection] = set()
        self._tickets: set[str] = set()

    def __len__(self) -> int:
        return len(self._connections)

    def ticket(self) -> str:
        ticket = secrets.token_hex(16)
        self._tickets.add(ticket)
        return ticket

    def take_ticket(self, ticket: str) -> bool:
        """Whether this ticket was given out; it is good once."""
        known = ticket in self._tickets
        self._tickets.discard(ticket)
        return known

    def one(self) -> Connection | None:
        """Any of the open connections."""
        return random.choice(list(self._connections)) if self._connections else None

    def add(self, connection: Connection) -> None:
        self._connections.add(connection)

    def remove(self, connection: Connection) -> None:
        self._connections.discard(connection)
        connection.lose()

    async def disconnect(self) -> int:
        """Close every connection, as a platform does that is being updated. How many there were."""
        connections = list(self._connections)
        for connection in connections:
            self.remove(connection)
            await connection.close()
        return len(connections)


def client_config(simulator: Simulator) -> dict[str, int]:
    """How a client behaves. The platform lets it reconnect within 30 s and ping every 120 s; here nobody waits."""
    ping = simulator.settings.ping_seconds
    return {"ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 0, "PingInterval": ping}


def _answer(payload: bytes) -> Answer:
    try:
        said: Any = json.loads(payload)
        data = said.get("data")
        return Answer(int(said["code"]), base64.b64decode(data, validate=True).decode() if data else "{}")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        return Answer(200, payload.decode("utf-8", "replace"))


def bootstrap(call: Call) -> Response:
    """Where to connect to."""
    asked, settings = call.json(), call.simulator.settings
    if (asked.get("AppID"), asked.get("AppSecret")) != (settings.app_id, settings.app_secret):
        return JSONResponse({"code": _NO_CREDENTIAL, "msg": "app_id or app_secret is invalid"})
    hub: Hub = call.request.app.state.hub
    address = f"ws://{call.request.url.netloc}/ws/v2"
    query = f"device_id={secrets.randbelow(10**18)}&service_id={_SERVICE}&ticket={hub.ticket()}"
    data = {"URL": f"{address}?{query}", "ClientConfig": client_config(call.simulator)}
    return JSONResponse({"code": 0, "msg": "", "data": data})


async def connect(socket: WebSocket) -> None:
    hub: Hub = socket.app.state.hub
    simulator: Simulator = socket.app.state.simulator
    fault = simulator.faults.take("ws", {}, _ON_SOCKET)
    refused = fault is not None and fault.kind == "refuse"
    if refused or not hub.take_ticket(socket.query_params.get("ticket", "")):
        await _deny(socket, _FORBIDDEN, "forbidden", 0)
        return
    if len(hub) >= _MOST_CONNECTIONS:
        await _deny(socket, _AUTH_FAILED, "the number of connections exceeded the limit", _TOO_MANY)
        return
    await socket.accept()
    if fault is not None:
        await socket.close()
        return
    connection = Connection(socket)
    hub.add(connection)
    try:
        await connection.listen(simulator)
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        hub.remove(connection)


async def _deny(socket: WebSocket, status: int, message: str, code: int) -> None:
    headers = {
        "handshake-status": str(status),
        "handshake-msg": message,
        "handshake-autherrcode": str(code),
    }
    await socket.send_denial_response(Response(status_code=403, headers=headers))


_ON_SOCKET = frozenset({"refuse", "disconnect"})
"""Faults of the connection itself; the others happen to the call that asks where to connect to."""

router = APIRouter()
router.add_route(
    "/callback/ws/endpoint", endpoint("ws", bootstrap, public=True, kinds=EVERY_KIND - _ON_SOCKET), ["POST"]
)
router.add_api_websocket_route("/ws/v2", connect)
