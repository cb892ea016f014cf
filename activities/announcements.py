"""Posting an outcome, signed, to an agent that asked to be told instead of waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.callback_secrets import CallbackSecrets
from activities.lanes import Lanes, TurnedAway
from assent import names
from assent.contracts.audit import ClosingHead
from assent.contracts.conclude import Announcement
from assent.payload import sha256
from assent.tls import trusted
from assent.tools.bounded_http import PLAIN
from assent.webhooks import signed

_GONE = frozenset({404, 410})
"""Answers that mean: nobody wants this."""
_WITHIN = 10.0
"""How many seconds an agent may take to answer."""
_EACH, _OVERALL = 8, 64
"""How many posts to one host, and how many altogether, may wait for their answer at the same time."""

ClosingHeads = Callable[[str], Awaitable[ClosingHead | None]]
"""Tells how an approval's audit was closed, once it is."""


class AnnouncementActivities:
    """Announces outcomes."""

    def __init__(
        self, secrets: CallbackSecrets, heads: ClosingHeads, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._secrets = secrets
        self._heads = heads
        self._lanes = Lanes(each=_EACH, overall=_OVERALL)
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=_WITHIN,
            follow_redirects=False,
            trust_env=False,
            verify=trusted(trust_env=False),
        )

    async def close(self) -> None:
        await self._client.aclose()

    @activity.defn(name=names.ANNOUNCE)
    async def announce(self, announcement: Announcement) -> None:
        """Post the outcome once; anything but a 2xx is tried again later, unless it says that nobody wants it."""
        secrets = self._secrets.of(announcement.asked_by)
        if not secrets:
            raise ApplicationError("ASSENT_CALLBACK_SECRET is not set", type="Unsigned", non_retryable=True)
        record = announcement.record
        closing = await self._heads(record)
        if closing is None:
            raise ApplicationError("the ending is not in the ledger yet", type="Unrecorded")
        ours = {"url", "asked_by", "interaction", "outcome" if announcement.outcome is None else "question"}
        body = announcement.model_copy(update={"audit": closing}).model_dump_json(exclude=ours).encode()
        if announcement.interaction is not None:
            body = announcement.interaction.model_dump_json(exclude_none=True).encode()
        # The same with each try, so that an agent knows a repetition by it.
        message_id = f"msg_{sha256(f'{record}:{closing.head}')[:32]}"
        now = int(datetime.now(UTC).timestamp())
        status = await self._post(announcement.url, body, signed(secrets, message_id, now, body))
        if status in _GONE:
            raise ApplicationError(f"it answered {status}", type="Unwanted", non_retryable=True)
        if not 200 <= status < 300:
            raise ApplicationError(f"it answered {status}", type="Unanswered")

    async def _post(self, url: str, body: bytes, signature: dict[str, str]) -> int:
        """What was answered. Only its status is read: the rest can be of any size, and says nothing."""
        headers = {"Content-Type": "application/json", **PLAIN, **signature}
        try:
            with self._lanes.taken(urlsplit(url).netloc):
                async with (
                    asyncio.timeout(_WITHIN),
                    self._client.stream("POST", url, content=body, headers=headers) as answer,
                ):
                    return answer.status_code
        except (httpx.HTTPError, TimeoutError) as error:
            raise ApplicationError(f"it did not answer: {type(error).__name__}", type="Unanswered") from None
        except TurnedAway:
            raise ApplicationError("others wait for its answer; it was not asked", type="Unanswered") from None
