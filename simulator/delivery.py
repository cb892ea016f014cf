"""How an event reaches the app: sealed and signed to its webhook, or plain over a long connection.

A click gets one try and three seconds. What goes wrong is what the person who clicked is told.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from simulator.longconn import Gone, Hub
from simulator.post import NoAnswer, Poster
from simulator.settings import Settings
from simulator.state import Delivery, Simulator, compact

OVER_LONG_CONNECTION = "ws"


@dataclass(frozen=True)
class Envelope:
    """The bytes and headers of one POST."""

    body: str
    headers: dict[str, str]


def envelope(settings: Settings, event: dict[str, Any], now: float) -> Envelope:
    """An event as it is POSTed: encrypted and signed if there is a key, else as it is."""
    if not settings.encrypt_key:
        return Envelope(compact(event), {"content-type": "application/json; charset=utf-8"})
    body = compact({"encrypt": encrypt(settings.encrypt_key, compact(event).encode(), secrets.token_bytes(16))})
    timestamp, nonce = str(int(now)), str(secrets.randbelow(10**10))
    headers = {
        "content-type": "application/json; charset=utf-8",
        "X-Lark-Request-Timestamp": timestamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": signature(settings.encrypt_key, timestamp, nonce, body.encode()),
    }
    return Envelope(body, headers)


def encrypt(key: str, plain: bytes, initial: bytes) -> str:
    """AES-256-CBC under the key's SHA-256, the initial vector in front, base64."""
    padder = PKCS7(128).padder()
    padded = padder.update(plain) + padder.finalize()
    encryptor = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(initial)).encryptor()
    return base64.b64encode(initial + encryptor.update(padded) + encryptor.finalize()).decode()


def signature(key: str, timestamp: str, nonce: str, body: bytes) -> str:
    return hashlib.sha256((timestamp + nonce + key).encode() + body).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What became of one delivery: an answer that is a JSON object, or what was wrong."""

    delivery: Delivery
    answer: dict[str, Any] | None


class Courier:
    """Carries events to the app."""

    def __init__(self, simulator: Simulator, hub: Hub) -> None:
        self._simulator = simulator
        self._hub = hub
        self._poster = Poster()

    def close(self) -> None:
        self._poster.close()

    async def deliver(self, event: dict[str, Any], message_id: str | None = None, url: str = "") -> Outcome:
        """Hand over an event: to this webhook if one is named, else over a connection, else to the webhook."""
        settings = self._simulator.settings
        if not url and len(self._hub):
            sent = Envelope(compact(event), {})
            return await self._carry(event, OVER_LONG_CONNECTION, sent, message_id)
        sent = envelope(settings, event, self._simulator.clock())
        return await self._carry(event, url or settings.callback_url, sent, message_id)

    async def replay(self, delivery: Delivery, *, url: str | None, fresh: bool) -> Outcome:
        """The same event again: the very same bytes, or newly sealed and signed."""
        if fresh or (url and delivery.url == OVER_LONG_CONNECTION):
            return await self.deliver(delivery.event, delivery.message_id, url or "")
        sent = Envelope(delivery.body, delivery.headers)
        return await self._carry(delivery.event, url or delivery.url, sent, delivery.message_id)

    async def _carry(self, event: dict[str, Any], url: str, sent: Envelope, message_id: str | None) -> Outcome:
        delivery = Delivery(
            delivery_id=f"d_{secrets.token_hex(8)}",
            event_id=str(event.get("header", {}).get("event_id", "")),
            event=event,
            url=url,
            body=sent.body,
            headers=sent.headers,
            created_at=self._simulator.now_ms(),
            message_id=message_id,
        )
        answer = None
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._simulator.settings.click_timeout):
                status, text = await self._exchange(url, sent, message_id)
            delivery.status, delivery.answer = status, text
            answer = _parsed(text) if status == 200 else None
            if answer is None:
                delivery.error = "bad_answer" if status == 200 else "bad_status"
        except TimeoutError:
            delivery.error = "timeout"
        except (NoAnswer, Gone, _Nowhere) as error:
            delivery.error = "no_callback" if isinstance(error, _Nowhere) else "unreachable"
        delivery.elapsed_ms = round((time.perf_counter() - started) * 1000, 3)
        self._simulator.keep_delivery(delivery)
        return Outcome(delivery, answer)

    async def _exchange(self, url: str, sent: Envelope, message_id: str | None) -> tuple[int, str]:
        if not url:
            raise _Nowhere
        message = self._simulator.messages.get(message_id or "")
        about = {"message_id": message_id, "chat_id": message.chat_id if message else None}
        fault = self._simulator.faults.take("callback", about, _ON_THE_WAY)
        if fault is not None and fault.kind in ("refuse", "disconnect"):
            raise Gone
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(5.0 if fault.seconds is None else fault.seconds)
        if url == OVER_LONG_CONNECTION:
            connection = self._hub.one()
            if connection is None:
                raise Gone
            carried = await connection.deliver(sent.body.encode())
            status, text = carried.status, carried.text
        else:
            status, text = await self._poster.post(url, sent.body.encode(), sent.headers)
        if fault is not None and fault.kind == "lost_answer":
            raise TimeoutError
        return status, text


class _Nowhere(Exception):
    """There is neither a webhook nor a connection."""


_ON_THE_WAY = frozenset({"refuse", "disconnect", "slow", "lost_answer"})


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
