"""Posting an outcome, signed, to an agent that asked to be told instead of waiting."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.breaker import Lanes, TurnedAway
from assent import names
from assent.messages import Announcement

_log = logging.getLogger(__name__)
_GONE = frozenset({404, 410})
"""Answers that mean: nobody wants this."""
_WITHIN = 10.0
"""How many seconds an agent may take to answer."""
_EACH, _OVERALL = 8, 64
"""How many posts to one host, and how many altogether, may wait for their answer at the same time."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What proves that a post is ours and fresh: HMAC-SHA256 over `timestamp.body`."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


SecretsOf = Callable[[str | None], tuple[str, ...]]
"""All secrets that sign what an agent is told, by its principal."""


class AnnouncementActivities:
    """Announces outcomes."""

    def __init__(self, secrets_of: SecretsOf, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._secrets_of = secrets_of
        self._client = httpx.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
        self._lanes = Lanes(each=_EACH, overall=_OVERALL)

    async def close(self) -> None:
        await self._client.aclose()

    @activity.defn(name=names.ANNOUNCE)
    async def announce(self, announcement: Announcement) -> None:
        """Post the outcome once; anything but a 2xx is tried again later, unless it says that nobody wants it."""
        secrets = self._secrets_of(announcement.asked_by)
        if not secrets:
            raise ApplicationError("ASSENT_CALLBACK_SECRET is not set", type="Unsigned", non_retryable=True)
        body = announcement.model_dump_json(exclude={"url", "asked_by"}).encode()
        timestamp = str(int(datetime.now(UTC).timestamp()))
        headers = {
            "Content-Type": "application/json",
            "X-Assent-Timestamp": timestamp,
            "X-Assent-Signature": ",".join(f"v1={signature(secret, timestamp, body)}" for secret in secrets),
            "X-Assent-Approval": announcement.outcome.approval_id.encode("ascii", "backslashreplace").decode(),
        }
        try:
            with self._lanes.taken(urlsplit(announcement.url).netloc):
                async with asyncio.timeout(_WITHIN):
                    answer = await self._client.post(announcement.url, content=body, headers=headers)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ApplicationError(f"it did not answer: {type(error).__name__}", type="Unanswered") from None
        except TurnedAway:
            raise ApplicationError("others wait for its answer; it was not asked", type="Unanswered") from None
        if answer.status_code in _GONE:
            raise ApplicationError(f"it answered {answer.status_code}", type="Unwanted", non_retryable=True)
        if not answer.is_success:
            raise ApplicationError(f"it answered {answer.status_code}", type="Unanswered")
