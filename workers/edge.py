"""The edge of every HTTP door: how many may be connected, how long a request may take to arrive, how much is read.

Whoever connects and says nothing, or a byte now and then, must not keep others out. So a request has a limited time
to arrive whole; and when all places are taken, or all the room for bodies, whoever has been waited for longest gives
way to the newcomer.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assent.api.problems import Code, problem
from workers import problems

MAX_BODY = 1_000_000
"""The largest body that is read, in bytes."""
MOST_HELD = 64_000_000
"""How many bytes of bodies all requests together may hold."""
MOST_CONNECTIONS = 800
"""How many may be connected at once."""
_SPARE_FILES = 150
"""Files that the process needs for itself."""
ARRIVES_WITHIN = 20.0
"""Seconds that a request may take to arrive, from its connection or its first byte on."""
TAKEN_WITHIN = 30.0
"""Seconds that whoever asked may leave an answer unread."""
_BACKLOG = 128
"""How many are let in between two looks at those who are there."""
_HEADER_BYTES = 16 * 1024
_KEPT_OPEN = 15
"""Seconds that a connection waits for the next request."""
_DRAIN_SECONDS = 4

_AS_SENT = ("/v1/", "/internal/")
"""Where paths hold ids, each encoded as one segment."""

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def server_config(app: ASGIApp) -> uvicorn.Config:
    """How a door is served."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        backlog=_BACKLOG,
        timeout_keep_alive=_KEPT_OPEN,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )


def most_connections() -> int:
    """How many may be connected, with the files that this process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _SPARE_FILES
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(MOST_CONNECTIONS, soft - _SPARE_FILES))


class Connection(H11Protocol):
    """A connection whose requests arrive in time, or not at all."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._arriving: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._most = most_connections()
        self._waited_for_since: float | None = None
        """Since when a request is to arrive; None while there is one."""

    @property
    def is_arriving(self) -> bool:
        """Whether its request is not there yet, or not all of it."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def _has_sent_all(self) -> bool:
        return self.transport.get_write_buffer_size() == 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self._make_room():
            self._end(_FULL)
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._arriving is None and self.is_arriving:  # the next request on a connection that was kept open
            self._await_request()
        super().data_received(data)
        if not self.is_arriving:
            self._has_arrived()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(TAKEN_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._waited_for_since = self.loop.time()

    def _await_request(self) -> None:
        self._waited_for_since = self.loop.time()
        self._arriving = self.loop.call_later(ARRIVES_WITHIN, self._too_slow)

    def _make_room(self) -> bool:
        """Send away whom has been waited for longest, half a request or none; tells whether there was such a one."""
        waited_for = [
            (each._waited_for_since, each)
            for each in self.connections
            if isinstance(each, Connection) and each._waited_for_since is not None and each._has_sent_all
        ]
        if not waited_for:
            return False
        min(waited_for, key=lambda pair: pair[0])[1]._end(_FULL)
        return True

    def _too_slow(self) -> None:
        self._end(_TOO_SLOW)

    def _end(self, said: bytes) -> None:
        """Say why, where nothing was said yet, and hang up at once: whoever is slow is not waited for."""
        self._forget()
        self.connections.discard(self)
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(said)
        self.transport.close() if self._has_sent_all else self.transport.abort()

    def _forget(self) -> None:
        self._has_arrived()
        self._is_read()

    def _has_arrived(self) -> None:
        self._waited_for_since = None
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class _Body:
    """What one request has sent so far."""

    def __init__(self) -> None:
        self.size = 0
        self.is_there = False
        """Whether all of it has arrived; what comes then is only that whoever sent it has left."""
        self.gives_way = False
        self._patience: asyncio.Timeout | None = None

    async def next_part(self, receive: Receive) -> Message:
        """What comes next of it, unless it has to give way before."""
        if self.gives_way:
            raise _too_much()
        try:
            async with asyncio.timeout(None) as self._patience:
                return await receive()
        except TimeoutError:
            raise _too_much() from None
        finally:
            self._patience = None

    def give_way(self) -> None:
        self.gives_way = True
        if self._patience is not None:
            self._patience.reschedule(0)


class _Room:
    """The room that all bodies share. Those that are still arriving stand in the order in which they began."""

    def __init__(self) -> None:
        self._held = 0
        self._arriving: dict[_Body, None] = {}

    def begin(self, body: _Body) -> None:
        self._arriving.setdefault(body)

    def arrived(self, body: _Body) -> None:
        body.is_there = True
        self._arriving.pop(body, None)

    def leave(self, body: _Body) -> None:
        self._arriving.pop(body, None)
        self._held -= body.size
        body.size = 0

    def take(self, body: _Body, size: int) -> None:
        """Make room for a part of a body. Those that have been arriving for longest give way, the body itself too."""
        body.size += size
        self._held += size
        while self._held > MOST_HELD and self._arriving:
            oldest = next(iter(self._arriving))
            self.leave(oldest)
            oldest.give_way()
        if self._held > MOST_HELD or body.gives_way:
            raise _too_much()


class Edge:
    """What is done with every request before it is looked at: its path stays as sent, its body stays bounded."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(map(str.lower, hosts))
        self._room = _Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._hosts and _host(scope) not in self._hosts:
            refused = problem(Code.FORBIDDEN, "this service does not answer under the name that it was asked by")
            await problems.answer(refused)(scope, receive, send)
            return
        declared = _declared(scope)
        body = _Body()

        async def bounded() -> Message:
            if body.is_there:
                return await receive()
            if declared > MAX_BODY:  # not a byte of it is read
                raise _too_large()
            self._room.begin(body)
            message = await body.next_part(receive)
            part = len(message.get("body", b""))
            if body.size + part > MAX_BODY:
                raise _too_large()
            if not message.get("more_body", False):
                self._room.arrived(body)
            self._room.take(body, part)
            return message

        # Decoded, a slash inside an approval's id could not be told from one between two parts of the path.
        sent = scope["raw_path"].decode("latin-1")
        try:
            await self._app({**scope, "path": sent} if sent.startswith(_AS_SENT) else scope, bounded, send)
        finally:
            self._room.leave(body)


def _host(scope: Scope) -> str | None:
    """The name that was asked for, without its port."""
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return urlsplit(f"//{named[0]}").hostname if len(named) == 1 else None


def _declared(scope: Scope) -> int:
    """How long a body says that it is; the server has refused what is no number."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def _too_large() -> problems.Refusal:
    return problems.refuse(Code.TOO_LARGE, f"a body holds at most {MAX_BODY} bytes")


def _too_much() -> problems.Refusal:
    return problems.refuse(Code.UNAVAILABLE, "too much is being sent at once")
