"""Posting an outcome, signed, to an agent that asked to be told instead of waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import httpx
from pydantic import SecretStr
from temporalio import activity
from temporalio.exceptions import ApplicationError

from assent import names
from assent.bounded_http import PLAIN
from assent.messages import Announcement, ClosingHead
from assent.payload import sha256
from assent.webhooks import signed

_GONE = frozenset({404, 410})
"""Answers that mean: nobody wants this."""
_ANSWERED_WITHIN = 10.0
"""How long one post may take, all of it: a host that sends a byte now and then gets no more."""
_AT_ONCE = 4
"""Posts to one host at a time: one that hangs takes no slot from the others."""
_BUSY = timedelta(seconds=30)

ClosingHeads = Callable[[str], Awaitable[ClosingHead | None]]
"""Tells how an approval's audit was closed, once it is."""


class AnnouncementActivities:
    """Announces outcomes."""

    def __init__(
        self, secret: SecretStr, heads: ClosingHeads, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._secret = secret.get_secret_value()
        self._heads = heads
        self._posting: Counter[str] = Counter()
        self._client = httpx.AsyncClient(
            transport=transport, timeout=_ANSWERED_WITHIN, follow_redirects=False, trust_env=False
        )

    async def close(self) -> None:
        await self._client.aclose()

    @activity.defn(name=names.ANNOUNCE)
    async def announce(self, announcement: Announcement) -> None:
        """Post the outcome once; anything but a 2xx is tried again later, unless it says that nobody wants it."""
        if not self._secret:
            raise ApplicationError("ASSENT_CALLBACK_SECRET is not set", type="Unsigned", non_retryable=True)
        approval_id = announcement.outcome.approval_id
        closing = await self._heads(approval_id)
        if closing is None:
            raise ApplicationError("the ending is not in the ledger yet", type="Unrecorded")
        body = announcement.model_copy(update={"audit": closing}).model_dump_json(exclude={"url"}).encode()
        # The same with each try, so that an agent knows a repetition by it.
        message_id = f"msg_{sha256(f'{approval_id}:{closing.head}')[:32]}"
        now = int(datetime.now(UTC).timestamp())
        host = httpx.URL(announcement.url).netloc.decode()
        if self._posting[host] >= _AT_ONCE:
            raise ApplicationError("others are being posted there", type="Busy", next_retry_delay=_BUSY)
        self._posting[host] += 1
        try:
            status = await self._post(announcement.url, body, signed([self._secret], message_id, now, body))
        finally:
            self._posting[host] -= 1
            self._posting += Counter()  # forgets hosts that nothing is posted to
        if status in _GONE:
            raise ApplicationError(f"it answered {status}", type="Unwanted", non_retryable=True)
        if not 200 <= status < 300:
            raise ApplicationError(f"it answered {status}", type="Unanswered")

    async def _post(self, url: str, body: bytes, signature: dict[str, str]) -> int:
        """What was answered. Only its status is read: the rest can be of any size, and says nothing."""
        headers = {"Content-Type": "application/json", **PLAIN, **signature}
        try:
            async with (
                asyncio.timeout(_ANSWERED_WITHIN),
                self._client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                return answer.status_code
        except (httpx.HTTPError, TimeoutError) as error:
            raise ApplicationError(f"it did not answer: {type(error).__name__}", type="Unanswered") from None
