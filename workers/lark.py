"""The official SDK's long connection, as it is, with three things watched and one done differently.

Import this module only in the thread that is to run the connection: the SDK keeps one event loop for all, the one of
the thread that imports it first, and takes seconds to import.

Seen in lark-oapi 1.7.5: each frame is handled in a task of its own, but the event handler is called inside that task
as a plain function whose result is sent back at once. A handler that waits therefore holds up every other click and
the ping. So ours does not return: it raises past the SDK, and the task answers when the answer is there.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import logging
import re
import time
from typing import Any, NoReturn, Protocol

from lark_oapi.core.enum import LogLevel
from lark_oapi.core.json import JSON
from lark_oapi.ws import client as sdk
from lark_oapi.ws.const import HEADER_BIZ_RT
from lark_oapi.ws.model import Response

_log = logging.getLogger(__name__)
_sdk_log = logging.getLogger("Lark")
ANSWER_WITHIN = 2.6
"""The platform waits three seconds."""
_QUERY = re.compile(r"\?\S+")

Answer = concurrent.futures.Future[dict[str, Any] | None]


class Owner(Protocol):
    """Who is told of what happens here. All of it is called in the SDK's thread."""

    def take(self, payload: bytes) -> Answer:
        """Take an event on, at once."""

    def connected(self) -> None: ...

    def heard(self, ping_interval: float) -> None:
        """Something came from the platform, which wants to be pinged so often."""

    def ended(self, reason: str) -> None:
        """The connection is gone, and nobody tries to get it back."""


class Connection(sdk.Client):  # type: ignore[misc]
    """The SDK's client, which waits for answers without holding anything up and tells when it has given up."""

    def __init__(self, owner: Owner, *, app_id: str, app_secret: str, domain: str) -> None:
        super().__init__(app_id, app_secret, log_level=LogLevel.WARNING, event_handler=_Handler(owner), domain=domain)
        _sdk_log.handlers.clear()  # it prints to standard output by itself
        _sdk_log.addFilter(_hide_tickets)
        self._owner = owner
        self._leaving = False
        self._in_hand = 0
        self._nothing_in_hand = asyncio.Event()
        self._nothing_in_hand.set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = sdk.loop
        return loop

    async def hang_up(self) -> None:
        """Answer what is in hand, then close the connection for good."""
        self._leaving = True
        _sdk_log.disabled = True  # it would report our own leaving as an error
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._nothing_in_hand.wait(), ANSWER_WITHIN)
        await self._disconnect()

    async def _connect(self) -> None:
        await super()._connect()
        self._owner.connected()

    async def _handle_message(self, msg: bytes) -> None:
        self._owner.heard(float(self._ping_interval))
        await super()._handle_message(msg)

    async def _receive_message_loop(self) -> None:
        try:
            await super()._receive_message_loop()
        except Exception as error:  # it could not reconnect; the SDK would live on and receive nothing
            if not self._leaving:
                self._owner.ended(f"{type(error).__name__}: {error}")

    async def _reconnect(self) -> None:
        if not self._leaving:
            await super()._reconnect()

    async def _handle_data_frame(self, frame: Any) -> None:
        try:
            await super()._handle_data_frame(frame)
        except _Taken as taken:
            self._in_hand += 1
            self._nothing_in_hand.clear()
            try:
                await self._answer(frame, taken.answer)
            finally:
                self._in_hand -= 1
                if not self._in_hand:
                    self._nothing_in_hand.set()

    async def _answer(self, frame: Any, answer: Answer) -> None:
        """Answer an event as the SDK does, when its answer is there."""
        began = time.monotonic()
        response = Response(code=200)
        try:
            result = await asyncio.wait_for(asyncio.wrap_future(answer), ANSWER_WITHIN)
            if result is not None:
                response.data = base64.b64encode(JSON.marshal(result).encode())
        except Exception as error:
            _log.error("an event was not answered: %s", type(error).__name__)
            response = Response(code=500)
        frame.headers.add(key=HEADER_BIZ_RT, value=str(round((time.monotonic() - began) * 1000)))
        frame.payload = JSON.marshal(response).encode()
        await self._write_message(frame.SerializeToString())


class _Taken(BaseException):
    """Carries the future answer past the SDK, which catches every `Exception` and would answer with an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class _Handler:
    """Stands where the SDK expects its event dispatcher, and gets the payload as it came: the SDK's own one fails on
    a click whose value is a string."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def _do_without_validation(self, payload: bytes) -> NoReturn:
        raise _Taken(self._owner.take(payload))


def _hide_tickets(record: logging.LogRecord) -> bool:
    """The address of a connection carries the right to open it."""
    record.msg, record.args = _QUERY.sub("?…", record.getMessage()), ()
    return True
