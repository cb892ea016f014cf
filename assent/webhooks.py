"""Signing what is posted, the way of Standard Webhooks: existing libraries verify it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

_PREFIX = "whsec_"


def signing_key(secret: str) -> bytes:
    """The key that a secret stands for: after `whsec_` its base64, else its text. Raises ValueError."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    text = secret.removeprefix(_PREFIX).rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise ValueError("after whsec_ a secret is base64") from None
    if not key:
        raise ValueError("there is no secret after whsec_")
    return key


def signed(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that prove a post to be ours and fresh, one signature for each secret that is still good."""
    data = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(signing_key(secret), data, hashlib.sha256).digest() for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests),
    }
