"""`python -m workers.longconn`: takes clicks over Feishu's long connection, for who has no public address.

The official SDK has a thread and a loop of its own, and hands every event over to this process's loop, where the
work is done. It can end up alive and deaf: so it is watched from outside, and when it has not heard anything for two
pings, or has given up, this process ends with an error, for whoever supervises it to start it anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from activities.feishu.client import Feishu
from activities.feishu.errors import safe
from activities.feishu.verifier import Refused, Verifier
from assent import Assent
from assent.errors import AssentError
from assent.settings import Settings
from workers import process
from workers.callbacks import Callbacks
from workers.private_messages import PrivateMessages

if TYPE_CHECKING:
    from workers.lark import Connection

_log = logging.getLogger(__name__)
_CONNECT_WITHIN = 60.0
"""How long the first connection may take; the SDK's own second try comes within half of it."""
_PINGS_MISSED = 2
_SPARE = 1.0
_LEAVE_WITHIN = 3.5
"""A little longer than any click in hand can take."""
_QUERY = re.compile(r"\?\S+")
"""In the address of a connection it carries the right to open it."""


Answering = Callable[[bytes], Coroutine[Any, Any, dict[str, Any] | None]]


class ConnectionLost(AssentError):
    """The long connection no longer receives anything."""


async def answer(verifier: Verifier, callbacks: Callbacks, payload: bytes) -> dict[str, Any] | None:
    """Answer what came over the connection; TLS and the app's secret have proved who is at its other end."""
    try:
        sent = verifier.read(payload)
    except Refused as refused:
        _log.warning("an event was refused: %s", refused.why)
        return {}
    return await callbacks.answer(sent)


class ConnectionThread:
    """The connection in its thread, and what is known of its health."""

    def __init__(self, answer: Answering, dial: Callable[[ConnectionThread], Connection]) -> None:
        self._answer = answer
        self._dial = dial
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="lark", daemon=True)
        self._connection: Connection | None = None
        self._heard_at: float | None = None
        self._patience = _CONNECT_WITHIN
        self._end: asyncio.Future[str] = self._loop.create_future()

    def start(self) -> None:
        self._thread.start()

    async def broken(self) -> str:
        """Wait until it is certain that nothing is received any more; says why."""
        while True:
            done, _ = await asyncio.wait([self._end], timeout=min(self._patience / 8, 1.0))
            if done:
                return self._end.result()
            if not self._thread.is_alive():
                return "its thread died"
            if self._heard_at is not None and (silence := time.monotonic() - self._heard_at) > self._patience:
                return f"nothing was heard for {silence:.0f} s"

    async def close(self) -> None:
        """Let the clicks in hand be answered, then hang up."""
        connection = self._connection
        if connection is None or not self._thread.is_alive():
            return
        leaving = asyncio.run_coroutine_threadsafe(connection.hang_up(), connection.loop)
        try:
            await asyncio.wait_for(asyncio.wrap_future(leaving), _LEAVE_WITHIN)
        except Exception as error:
            _log.warning("the connection could not be closed in an orderly way: %s", type(error).__name__)

    def take(self, payload: bytes) -> concurrent.futures.Future[dict[str, Any] | None]:
        return asyncio.run_coroutine_threadsafe(self._answer(payload), self._loop)

    def connected(self) -> None:
        self._heard_at = time.monotonic()
        _log.info("clicks are served over the long connection")

    def heard(self, ping_interval: float) -> None:
        self._heard_at = time.monotonic()
        self._patience = _PINGS_MISSED * ping_interval + _SPARE

    def ended(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._note_end, safe(_QUERY.sub("?…", reason)))

    def _note_end(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_result(reason)

    def _run(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        try:
            self._connection = self._dial(self)
            self._heard_at = time.monotonic()
            self._connection.start()
        except BaseException as error:
            self.ended(f"{type(error).__name__}: {error}")
        else:
            self.ended("the SDK returned")


async def main(settings: Settings) -> None:
    if not settings.feishu_app_id or not settings.feishu_app_secret.get_secret_value():
        raise process.Misconfigured(
            "The long connection needs an app: set ASSENT_FEISHU_APP_ID and ASSENT_FEISHU_APP_SECRET."
        )
    for chatty in ("httpx", "websockets"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    wording = process.load_wording(settings)
    client = await process.open_temporal()
    gate = await Assent.connect(client=client)
    feishu = Feishu.of(settings)
    assert feishu is not None
    verifier = Verifier(
        app_id=settings.feishu_app_id,
        tenant_key=settings.feishu_tenant_key,
        encrypt_key=None,
        verification_token=secrets.token_hex(),  # here nothing is sealed or carries a token, and no other door is open
    )
    messages = PrivateMessages(client, settings.feishu_tenant_key, in_groups=settings.files_in_groups)
    answering = functools.partial(answer, verifier, Callbacks(gate, wording, feishu.name, messages))
    line = ConnectionThread(answering, functools.partial(_dial, settings))
    line.start()
    try:
        await serve(line)
    finally:
        await feishu.close()


def _dial(settings: Settings, line: ConnectionThread) -> Connection:
    """The connection, not yet open. Only the thread that runs it may make it: the SDK takes that thread's loop."""
    from workers.lark import Connection

    return Connection(
        line,
        app_id=settings.feishu_app_id,
        app_secret=settings.feishu_app_secret.get_secret_value(),
        domain=settings.feishu_domain,
    )


async def serve(line: ConnectionThread) -> None:
    """Run until SIGTERM or SIGINT, or until the line is broken; a second signal leaves at once."""
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        _log.info("leaving: clicks in hand are answered first")
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    wanted, broken = asyncio.create_task(stopping.wait()), asyncio.create_task(line.broken())
    await asyncio.wait([wanted, broken], return_when=asyncio.FIRST_COMPLETED)
    wanted.cancel()
    reason = broken.result() if broken.done() else None
    broken.cancel()
    await line.close()
    if reason is not None and not stopping.is_set():
        raise ConnectionLost(
            f"The long connection to Feishu is gone ({reason}): who clicks now is shown an error, and nothing is "
            "recorded. Start this process again; a supervisor does so by itself."
        )


if __name__ == "__main__":
    process.run(main)
