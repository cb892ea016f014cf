"""Whether a request comes from Feishu, for this app and this tenant."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from assent import strict_json
from cards.answers import AnswerClick
from cards.clicks import CLICK, BundleClick, Challenge, Click, Event, ForeignClick, RevokeClick, parse_event, part
from cards.rulings import RulingClick

Callback = Click | AnswerClick | RulingClick | RevokeClick | BundleClick | ForeignClick | Event
"""What Feishu tells of."""

_MAX_BODY = 1_000_000
_MAX_CHALLENGE = 1000
_MAX_UNSIGNED = 20_000
"""Bytes of an unsigned body: it can only be a challenge, and a larger one is not read."""
_FRESH_SECONDS = 300
_BLOCK = 16
_TIMESTAMP, _NONCE, _SIGNATURE = "x-lark-request-timestamp", "x-lark-request-nonce", "x-lark-signature"
SIGNED = frozenset({"feishu-signature", "feishu-connection"})
"""The proofs that Feishu itself has given, not somebody who knows a token: what they say of people is learned."""
_SEALED = "the body could not be opened"
"""The one word about everything that is wrong with an encrypted body."""


class Refused(Exception):
    """Not from Feishu, or not for us.

    Its text is the same whatever was wrong; *why* is for the log alone.
    """

    def __init__(self, why: str) -> None:
        super().__init__("refused")
        self.why = why


class Verifier:
    """Opens what was sent to the callback address, if it is what it claims to be."""

    def __init__(
        self, *, app_id: str, tenant_key: str, encrypt_key: str | None, verification_token: str | None
    ) -> None:
        if not encrypt_key and not verification_token:
            raise ValueError(
                "without an encrypt key and a verification token anyone could click; "
                "set ASSENT_FEISHU_ENCRYPT_KEY, or at least ASSENT_FEISHU_VERIFICATION_TOKEN."
            )
        if not app_id:
            raise ValueError("without an app id callbacks of other apps would count; set ASSENT_FEISHU_APP_ID.")
        if not tenant_key:
            raise ValueError("without a tenant key clicks of other companies count; set ASSENT_FEISHU_TENANT_KEY.")
        self._app_id = app_id
        self._tenant_key = tenant_key
        self._key = encrypt_key.encode() if encrypt_key else None
        self._token = verification_token or None

    def open(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Challenge | Callback:
        """What an HTTP request says. Raises Refused."""
        if len(body) > _MAX_BODY:
            raise Refused("the body is too large")
        if self._key is None:
            return self._open_plain(body)
        return self._open_sealed(self._key, {name.lower(): value for name, value in headers.items()}, body, now)

    def read(self, payload: bytes) -> Callback:
        """What came through the long connection, which has proved its sender itself. Raises Refused."""
        envelope = _parsed(payload)
        if envelope is None:
            raise Refused("the payload is no JSON object")
        return self._read(envelope, "feishu-connection")

    def _open_plain(self, body: bytes) -> Challenge | Callback:
        envelope = _parsed(body)
        if envelope is None or "encrypt" in envelope:
            raise Refused("the body is not plain JSON")
        if envelope.get("type") == "url_verification":
            return self._challenge(envelope)
        self._check_token(part(envelope, "header").get("token"))
        return self._read(envelope, "feishu-token")

    def _open_sealed(self, key: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> Challenge | Callback:
        is_signed = any(name in headers for name in (_TIMESTAMP, _NONCE, _SIGNATURE))
        if is_signed:
            _check_signature(key, headers, body, now)
        elif len(body) > _MAX_UNSIGNED:
            raise Refused(_SEALED)
        envelope = _unsealed(key, body)
        if envelope.get("type") == "url_verification" and (is_signed or self._token):
            return self._challenge(envelope)
        if not is_signed:
            raise Refused(_SEALED)  # the word of a failed decryption: only signed requests learn more
        if self._token:
            self._check_token(part(envelope, "header").get("token"))
        return self._read(envelope, "feishu-signature")

    def _challenge(self, envelope: dict[str, Any]) -> Challenge:
        if self._token:
            self._check_token(envelope.get("token"))
        challenge = envelope.get("challenge")
        if not isinstance(challenge, str) or len(challenge) > _MAX_CHALLENGE or not challenge.isprintable():
            raise Refused(_SEALED)
        return Challenge(challenge=challenge)

    def _check_token(self, given: object) -> None:
        if self._token is None or not isinstance(given, str) or not _same(given, self._token):
            raise Refused("the verification token is wrong")

    def _read(self, envelope: dict[str, Any], proof: str) -> Callback:
        header = part(envelope, "header")
        if envelope.get("schema") != "2.0":
            raise Refused("not an event of schema 2.0")
        if header.get("event_type") == f"{CLICK}_v1":
            raise Refused("a legacy card callback; subscribe to card.action.trigger instead")
        if header.get("app_id") != self._app_id:
            raise Refused("another app's event")
        self._check_tenant(envelope, header)
        try:
            return parse_event(envelope, proof=proof, tenant_key=self._tenant_key)
        except ValueError:
            raise Refused("an event without a readable id or type") from None

    def _check_tenant(self, envelope: dict[str, Any], header: dict[str, Any]) -> None:
        if header.get("tenant_key") != self._tenant_key:
            raise Refused("another tenant's event")
        operator = part(part(envelope, "event"), "operator")
        if header.get("event_type") == CLICK and operator.get("tenant_key") != self._tenant_key:
            raise Refused("a click by someone of another tenant")


def _check_signature(key: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
    """Over the raw bytes, in constant time, before anything is read of them."""
    timestamp, nonce, given = (headers.get(name, "") for name in (_TIMESTAMP, _NONCE, _SIGNATURE))
    expected = hashlib.sha256(_bytes(timestamp) + _bytes(nonce) + key + body).hexdigest()
    if not _same(given, expected):
        raise Refused("the signature is missing or wrong")
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    if not is_number or abs(now.timestamp() - int(timestamp)) > _FRESH_SECONDS:
        raise Refused("the request is too old, or from the future")


def _unsealed(key: bytes, body: bytes) -> dict[str, Any]:
    """The envelope in an encrypted body. Whatever is wrong with it, the answer and the work are the same."""
    outer = _parsed(body)
    sealed = outer.get("encrypt") if outer is not None else None
    plain = _decrypted(key, sealed) if isinstance(sealed, str) else None
    if plain is None:
        raise Refused(_SEALED)
    text, is_padded = _unpadded(plain)
    envelope = _parsed(text)  # also of a text with wrong padding, so that time does not tell
    if envelope is None or not is_padded:
        raise Refused(_SEALED)
    return envelope


def _decrypted(key: bytes, sealed: str) -> bytes | None:
    try:
        data = base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) < 2 * _BLOCK or len(data) % _BLOCK:
        return None
    decryptor = Cipher(AES(hashlib.sha256(key).digest()), CBC(data[:_BLOCK])).decryptor()
    return decryptor.update(data[_BLOCK:]) + decryptor.finalize()


def _unpadded(plain: bytes) -> tuple[bytes, bool]:
    count = min(max(plain[-1], 1), _BLOCK)
    is_padded = hmac.compare_digest(plain[-count:], bytes([count]) * count)
    return plain[:-count], is_padded


def _parsed(body: bytes) -> dict[str, Any] | None:
    """A JSON object that every reader reads alike, or nothing."""
    try:
        value = strict_json.parse(body, exact=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(_bytes(given), _bytes(expected))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
