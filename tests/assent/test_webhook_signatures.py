"""Signatures that the published library verifies, whatever form the secret has."""

from __future__ import annotations

import base64
import time

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook, WebhookVerificationError

from assent.settings import Settings
from assent.webhooks import signed, signing_key

KEY = bytes(range(32))
ENCODED = base64.b64encode(KEY).decode()
BODY = '{"outcome": "钱已付"}'.encode()


@pytest.mark.parametrize(
    ("secret", "theirs"),
    [
        (f"whsec_{ENCODED}", f"whsec_{ENCODED}"),
        (f"whsec_{ENCODED}", KEY),
        (f"whsec_{ENCODED.rstrip('=')}", f"whsec_{ENCODED}"),
        ("any words, 也可以", "any words, 也可以".encode()),
    ],
)
def test_the_library_verifies_what_we_sign(secret: str, theirs: str | bytes) -> None:
    headers = signed([secret], "msg_1", int(time.time()), BODY)
    assert Webhook(theirs).verify(BODY, headers) == {"outcome": "钱已付"}
    for name, value in (("webhook-id", "msg_2"), ("webhook-timestamp", str(int(time.time()) - 1))):
        with pytest.raises(WebhookVerificationError):
            Webhook(theirs).verify(BODY, {**headers, name: value})
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(theirs).verify(BODY, signed([secret], "msg_1", int(time.time()) - 400, BODY))


def test_while_a_secret_is_rotated_both_verify() -> None:
    headers = signed(["the new one", f"whsec_{ENCODED}"], "msg_1", int(time.time()), BODY)
    for theirs in (b"the new one", KEY):
        Webhook(theirs).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(b"neither").verify(BODY, headers)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_====", "whsec_not*base64", "whsec_ä", "whsec_a"])
def test_a_secret_that_cannot_sign_is_refused_when_a_process_starts(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        signing_key(secret)
    monkeypatch.setenv("ASSENT_CALLBACK_SECRET", secret)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert "input" not in str(refused.value), "the secret itself is not repeated"
