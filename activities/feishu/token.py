"""The app's access token: fetched once for all who need it, renewed before it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from assent.contracts.values import Frozen

_log = logging.getLogger(__name__)
_AHEAD = 20 * 60.0
"""How long before its end a token is renewed: in its last half hour Feishu gives out the next one."""
_AGAIN = 10.0
"""How long after a failure to renew ahead of time it is tried again."""


class Granted(Frozen):
    """A token as Feishu hands it out."""

    tenant_access_token: str
    expire: float
    """For how many seconds."""

    def __repr__(self) -> str:
        return f"Granted(expire={self.expire})"

    __str__ = __repr__


class Token:
    """The token that is good now. However many callers need a new one, it is fetched once."""

    def __init__(self, fetch: Callable[[], Awaitable[Granted]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._value: str | None = None
        self._ends = 0.0
        self._renew_at = 0.0
        self._fetching: asyncio.Task[str] | None = None

    async def get(self, *, refused: str | None = None) -> str:
        """A token; another one than *refused*, if Feishu has another."""
        now = self._clock()
        if self._value is not None and self._value != refused and now < self._ends:
            if now >= self._renew_at:
                self._start().add_done_callback(self._note_failure)  # nobody waits: the present one is still good
            return self._value
        return await asyncio.shield(self._start())  # one caller that gives up takes nothing from the others

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    def _start(self) -> asyncio.Task[str]:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._renew())
            self._fetching.add_done_callback(self._done)
        return self._fetching

    def _done(self, task: asyncio.Task[str]) -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # whoever waits for it is told; that nobody waits is no error

    def _note_failure(self, task: asyncio.Task[str]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._renew_at = self._clock() + _AGAIN
            _log.warning("the access token could not be renewed ahead of time: %s", task.exception())

    async def _renew(self) -> str:
        began = self._clock()
        granted = await self._fetch()
        self._value = granted.tenant_access_token
        self._ends = began + granted.expire
        self._renew_at = began + granted.expire - min(_AHEAD, granted.expire / 2)
        return self._value
