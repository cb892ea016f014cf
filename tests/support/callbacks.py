"""Callbacks as Feishu sends them: plain, sealed and signed."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from hypothesis import strategies as st

from activities.feishu.verifier import Callback, Verifier
from cards import Challenge

NOW = datetime(2026, 3, 15, 13, 42, tzinfo=UTC)


KEY, TOKEN, APP, TENANT = "test key", "verification-token", "cli_ours", "tenant_1"


VALUE = {"assent": "1", "approval_id": "inv-42", "decision": "approve", "stage": "call", "payload_sha256": "ab" * 32}


SEALED = Verifier(app_id=APP, tenant_key=TENANT, encrypt_key=KEY, verification_token=TOKEN)


PLAIN = Verifier(app_id=APP, tenant_key=TENANT, encrypt_key=None, verification_token=TOKEN)


def click(value: Any = VALUE, *, header: Mapping[str, Any] = {}, **event: Any) -> dict[str, Any]:
    return {
        "schema": "2.0",
        "header": {
            "event_id": "ev_1",
            "token": TOKEN,
            "create_time": str(int(NOW.timestamp() * 1_000_000)),
            "event_type": "card.action.trigger",
            "tenant_key": TENANT,
            "app_id": APP,
            **header,
        },
        "event": {
            "operator": {"tenant_key": TENANT, "open_id": "ou_ben", "union_id": "on_ben", "user_id": ""},
            "token": "c-update",
            "action": {"value": value, "tag": "button", "name": "approve"},
            "host": "im_message",
            "context": {"open_message_id": "om_1", "open_chat_id": "oc_1"},
            **event,
        },
    }


def encrypted(plain: bytes, key: str = KEY, iv: bytes | None = None) -> bytes:
    iv = iv or secrets.token_bytes(16)
    count = 16 - len(plain) % 16
    encryptor = Cipher(AES(hashlib.sha256(key.encode()).digest()), CBC(iv)).encryptor()
    return iv + encryptor.update(plain + bytes([count]) * count) + encryptor.finalize()


def body_of(envelope: Any, key: str = KEY) -> bytes:
    sealed = base64.b64encode(encrypted(json.dumps(envelope).encode(), key)).decode()
    return json.dumps({"encrypt": sealed}).encode()


def signed(body: bytes, *, at: datetime | str = NOW, nonce: str = "nonce", key: str = KEY) -> dict[str, str]:
    timestamp = at if isinstance(at, str) else str(int(at.timestamp()))
    return {
        "X-Lark-Request-Timestamp": timestamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": hashlib.sha256((timestamp + nonce + key).encode() + body).hexdigest(),
    }


def opened(envelope: Any) -> Challenge | Callback:
    body = body_of(envelope)
    return SEALED.open(signed(body), body, NOW)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)),
    max_leaves=8,
)
