"""The door for Feishu's callbacks: what is let in, what is refused, and what a click says."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.feishu.verifier import Refused, Verifier
from assent import strict_json
from assent.contracts.decision import DecisionKind, Stage
from assent.contracts.identity import Identity
from assent.contracts.values import Surface
from cards import Challenge, Click, Event, ForeignClick, parse_event
from tests.support.callbacks import (
    APP,
    JSON,
    KEY,
    NOW,
    PLAIN,
    SEALED,
    TENANT,
    TOKEN,
    VALUE,
    body_of,
    click,
    encrypted,
    opened,
    signed,
)
from tests.support.hypothesis_settings import unhurried


def refusal(verifier: Verifier, headers: Mapping[str, str], body: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        verifier.open(headers, body, NOW)
    assert str(caught.value) == "refused"
    return caught.value


def refused(headers: Mapping[str, str], body: bytes) -> str:
    return refusal(SEALED, headers, body).why


# What is let in


def test_a_signed_click_is_read() -> None:
    found = opened(click())
    assert found == Click(
        event_id="ev_1",
        operator=Identity(open_id="ou_ben", union_id="on_ben", tenant_key=TENANT),
        approval_id="inv-42",
        kind=DecisionKind.APPROVE,
        stage=Stage.CALL,
        payload_sha256="ab" * 32,
        message_id="om_1",
        chat_id="oc_1",
        reason=None,
        occurred_at=NOW,
        proof="feishu-signature",
    )


def test_headers_are_found_in_any_case() -> None:
    body = body_of(click())
    for change in (str.lower, str.upper, str.title):
        headers = {change(name): value for name, value in signed(body).items()}
        assert isinstance(SEALED.open(headers, body, NOW), Click)


def test_the_documented_vectors_hold() -> None:
    body = b'{"encrypt":"P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="}'
    headers = {
        "x-lark-request-timestamp": "1700000000",
        "x-lark-request-nonce": "nonce",
        "x-lark-signature": "20f0b32d8b1a0744b1608bcfcf23584190cd720f9bd706adde9047c85ffb47ee",
    }
    with pytest.raises(Refused) as caught:
        SEALED.open(headers, body, datetime.fromtimestamp(1700000000, UTC))
    assert caught.value.why == "the body could not be opened"  # the signature holds; `hello world` is no envelope
    with pytest.raises(Refused, match="refused") as late:
        SEALED.open(headers, body, NOW)
    assert "too old" in late.value.why


def test_without_a_key_the_token_proves() -> None:
    found = PLAIN.open({}, json.dumps(click()).encode(), NOW)
    assert isinstance(found, Click)
    assert found.proof == "feishu-token"


def test_a_configured_key_needs_no_token() -> None:
    verifier = Verifier(app_id=APP, tenant_key=TENANT, encrypt_key=KEY, verification_token="")
    body = body_of(click(header={"token": "whatever"}))
    assert isinstance(verifier.open(signed(body), body, NOW), Click)


def test_the_long_connection_proves_itself_but_not_app_and_tenant() -> None:
    found = SEALED.read(json.dumps(click(header={"token": ""})).encode())
    assert isinstance(found, Click)
    assert found.proof == "feishu-connection"
    for header in ({"app_id": "cli_other"}, {"tenant_key": "tenant_2"}, {"event_id": None}):
        with pytest.raises(Refused):
            SEALED.read(json.dumps(click(header=header)).encode())


def test_other_events_are_handed_on() -> None:
    header = {"event_type": "im.message.receive_v1", "event_id": "ev_9"}
    found = opened({**click(header=header), "event": {"message": {"message_id": "om_9"}}})
    assert found == Event(
        event_id="ev_9", event_type="im.message.receive_v1", event={"message": {"message_id": "om_9"}}
    )


def test_a_challenge_is_answered_encrypted_signed_or_plain() -> None:
    asked = {"challenge": "abc", "token": TOKEN, "type": "url_verification"}
    body = body_of(asked)
    assert SEALED.open(signed(body), body, NOW) == Challenge(challenge="abc")
    assert SEALED.open({}, body, NOW) == Challenge(challenge="abc")
    assert PLAIN.open({}, json.dumps(asked).encode(), NOW) == Challenge(challenge="abc")


# What is refused


def test_a_door_that_anyone_could_enter_is_not_built() -> None:
    with pytest.raises(ValueError, match="ASSENT_FEISHU_ENCRYPT_KEY"):
        Verifier(app_id=APP, tenant_key=TENANT, encrypt_key="", verification_token=None)
    with pytest.raises(ValueError, match="ASSENT_FEISHU_APP_ID"):
        Verifier(app_id="", tenant_key=TENANT, encrypt_key=KEY, verification_token=None)
    with pytest.raises(ValueError, match="ASSENT_FEISHU_TENANT_KEY"):
        Verifier(app_id=APP, tenant_key="", encrypt_key=KEY, verification_token=TOKEN)


def test_wrong_and_missing_signatures_are_refused() -> None:
    body = body_of(click())
    good = signed(body)
    assert refused({}, body) == "the body could not be opened"
    for name in good:
        assert "signature" in refused({key: value for key, value in good.items() if key != name}, body)
    for other in (good["X-Lark-Signature"].upper(), "0" * 64, "", "ü", good["X-Lark-Signature"] + " "):
        assert "signature" in refused({**good, "X-Lark-Signature": other}, body)
    assert "signature" in refused(good, body + b" ")
    assert "signature" in refused(signed(body, key="another key"), body)
    assert "signature" in refused({**good, "X-Lark-Request-Nonce": "other"}, body)


@pytest.mark.parametrize(
    "at",
    [
        NOW - timedelta(seconds=301),
        NOW + timedelta(seconds=301),
        "",
        "-1",
        "now",
        "1e9",
        "١٧٠٠",
        "9" * 12,
        "9" * 4000,
        str(int(NOW.timestamp())) + ".0",
        f" {int(NOW.timestamp())}",
        f"+{int(NOW.timestamp())}",
    ],
)
def test_only_fresh_requests_are_let_in(at: datetime | str) -> None:
    body = body_of(click())
    assert "too old" in refused(signed(body, at=at), body)


def test_four_minutes_are_still_fresh() -> None:
    body = body_of(click())
    for at in (NOW - timedelta(minutes=4), NOW + timedelta(minutes=4)):
        assert isinstance(SEALED.open(signed(body, at=at), body, NOW), Click)


def test_plaintext_is_refused_once_a_key_is_set() -> None:
    for envelope in (click(), {"challenge": "abc", "token": TOKEN, "type": "url_verification"}):
        body = json.dumps(envelope).encode()
        assert refused(signed(body), body) == refused({}, body) == "the body could not be opened"


def test_ciphertext_is_refused_without_a_key() -> None:
    body = body_of(click())
    assert refusal(PLAIN, signed(body), body).why


def test_a_wrong_token_is_refused() -> None:
    for token in ("", "another", None, 5, [TOKEN], TOKEN + "\ud800"):
        envelope = click(header={"token": token})
        body = body_of(envelope)
        assert "token" in refused(signed(body), body)
        assert "token" in refusal(PLAIN, {}, json.dumps(envelope).encode()).why
        challenge = {"challenge": "abc", "token": token, "type": "url_verification"}
        assert "token" in refused({}, body_of(challenge))
        assert "token" in refusal(PLAIN, {}, json.dumps(challenge).encode()).why


def test_of_an_unsigned_body_that_is_too_large_for_a_challenge_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    parse = strict_json.parse

    def noting(text: bytes, **how: Any) -> Any:
        read.append(text)
        return parse(text, **how)

    monkeypatch.setattr(strict_json, "parse", noting)
    longest = {"challenge": "王" * 1000, "token": TOKEN, "type": "url_verification"}
    assert SEALED.open({}, body_of(longest), NOW) == Challenge(challenge="王" * 1000)
    read.clear()
    for body in (b"[" + b"[]," * 10_000 + b"[]]", body_of({**longest, "more": "x" * 20_000})):
        assert refused({}, body) == "the body could not be opened"
    assert read == []
    body = body_of(click({"more": "x" * 20_000}))
    assert SEALED.open(signed(body), body, NOW)
    assert read


def test_an_unsigned_challenge_needs_the_token() -> None:
    tokenless = Verifier(app_id=APP, tenant_key=TENANT, encrypt_key=KEY, verification_token=None)
    body = body_of({"challenge": "abc", "token": "", "type": "url_verification"})
    assert refusal(tokenless, {}, body).why == "the body could not be opened"
    assert tokenless.open(signed(body), body, NOW) == Challenge(challenge="abc")


def test_another_app_or_tenant_is_refused() -> None:
    operator = {"tenant_key": "tenant_2", "open_id": "ou_ben"}
    for envelope in (
        click(header={"app_id": "cli_other"}),
        click(header={"app_id": None}),
        click(header={"tenant_key": "tenant_2"}),
        click(header={"tenant_key": None}),
        click(operator=operator),
        click(operator={"open_id": "ou_ben"}),
    ):
        with pytest.raises(Refused):
            opened(envelope)


def test_legacy_callbacks_are_refused() -> None:
    flat = {"open_id": "ou_ben", "open_message_id": "om_1", "tenant_key": TENANT, "token": TOKEN, "action": {}}
    for envelope in (
        flat,
        click(header={"event_type": "card.action.trigger_v1"}),
        {**click(), "schema": "1.0"},
        {**click(), "schema": 2.0},
        {"uuid": "u", "token": TOKEN, "type": "event_callback", "event": {"type": "message"}},
    ):
        with pytest.raises(Refused):
            opened(envelope)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"encrypt": 5}',
        b'{"encrypt": ""}',
        b'{"encrypt": "AAAA"}',
        b'{"encrypt": "not base64 at all!"}',
        b'{"encrypt": "\xc3\xbc"}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b'{"schema": "2.0", "header": [], "event": null}',
        b'{"type": "url_verification", "challenge": {"a": 1}, "token": "verification-token"}',
        b'{"type": "url_verification", "challenge": "a\\u0000", "token": "verification-token"}',
        b" " * 1_000_001,
    ],
    ids=lambda body: str(body[:24]),
)
def test_malformed_and_oversized_bodies_are_refused(body: bytes) -> None:
    refused(signed(body), body)
    refused({}, body)
    refusal(PLAIN, {}, body)
    sealed = json.dumps({"encrypt": base64.b64encode(encrypted(body)).decode()}).encode()
    refused(signed(sealed), sealed)


def probes(sealed: bytes) -> Iterator[bytes]:
    """The ciphertext with each byte changed in turn, and the byte that decides the padding in every way."""
    for at in range(len(sealed)):
        yield sealed[:at] + bytes([sealed[at] ^ (1 + at % 255)]) + sealed[at + 1 :]
    for change in range(1, 256):
        yield sealed[:-17] + bytes([sealed[-17] ^ change]) + sealed[-16:]


@pytest.mark.parametrize("envelope", [click(), {"challenge": "abc", "token": TOKEN, "type": "url_verification"}])
@pytest.mark.parametrize("is_signed", [True, False])
def test_probing_the_padding_tells_nothing(envelope: dict[str, Any], is_signed: bool) -> None:
    told: Counter[tuple[str, str]] = Counter()
    for probe in probes(encrypted(json.dumps(envelope).encode())):
        body = json.dumps({"encrypt": base64.b64encode(probe).decode()}).encode()
        told[_told(signed(body) if is_signed else {}, body)] += 1
    opened = told.pop(("opened", ""), 0)  # a changed byte of the first block may hit a letter that nobody reads
    assert set(told) == {("Refused", "refused")}
    assert opened < 16


def _told(headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """Everything that a sender can learn."""
    try:
        SEALED.open(headers, body, NOW)
    except Exception as error:
        return type(error).__name__, str(error)
    return "opened", ""


def test_whatever_is_wrong_with_a_ciphertext_the_log_says_the_same() -> None:
    whole = encrypted(json.dumps(click()).encode())
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    sealed = [whole[:-1], whole[:16], whole[:-16], changed, encrypted(b"[]"), encrypted(b"\xff"), b""]
    bodies = [json.dumps({"encrypt": base64.b64encode(each).decode()}).encode() for each in sealed]
    assert {refused(signed(body), body) for body in bodies} == {"the body could not be opened"}


@given(body=st.binary(max_size=300), headers=st.dictionaries(st.text(max_size=30), st.text(max_size=30)))
@unhurried
def test_noise_is_refused(body: bytes, headers: dict[str, str]) -> None:
    for verifier in (SEALED, PLAIN):
        refusal(verifier, headers, body)
    refused({**headers, **signed(body)}, body)


# What a click says


def test_a_value_may_come_as_a_string() -> None:
    assert opened(click(json.dumps(VALUE))) == opened(click(VALUE))


@pytest.mark.parametrize(
    ("given_reason", "reason"),
    [
        ("  Wrong amount. \n", "Wrong amount."),
        ("", None),
        ("   ", None),
        (None, None),
        (5, None),
        ("x" * 900, "x" * 500),
        ("null\x00 bell\x07", "null  bell"),
        ("half \ud83d", "half \ufffd"),
        ("错误的金额", "错误的金额"),
    ],
)
def test_the_reason_of_a_rejection_is_read(given_reason: Any, reason: str | None) -> None:
    action = {"value": {**VALUE, "decision": "reject"}, "name": "reject", "form_value": {"reason": given_reason}}
    found = opened(click(action=action))
    assert isinstance(found, Click)
    assert (found.kind, found.reason) == (DecisionKind.REJECT, reason)


def foreign_values() -> list[Any]:
    changed: list[dict[str, Any]] = [
        {"assent": "2"},
        {"assent": 1},
        {"assent": None},
        {"approval_id": None},
        {"approval_id": ""},
        {"approval_id": 5},
        {"approval_id": "x" * 201},
        {"approval_id": "two\nlines"},
        {"approval_id": "nul\x00"},
        {"approval_id": "half\ud800"},
        {"decision": "maybe"},
        {"decision": None},
        {"stage": "later"},
        {"stage": None},
        {"payload_sha256": None},
        {"payload_sha256": "f" * 300},
    ]
    return [None, "", "x", "[]", "5", 5, [], {}, "{", "[" * 5000, *({**VALUE, **change} for change in changed)]


@pytest.mark.parametrize("value", foreign_values(), ids=lambda value: ascii(value)[:40])
def test_a_value_that_is_not_ours_is_foreign(value: Any) -> None:
    found = opened(click(value))
    assert isinstance(found, ForeignClick)
    assert (found.event_id, found.message_id) == ("ev_1", "om_1")
    assert "inv-42" not in found.why


@pytest.mark.parametrize(
    "event",
    [
        {"operator": {"tenant_key": TENANT}},
        {"operator": {"tenant_key": TENANT, "open_id": "", "user_id": None}},
        {"operator": {"tenant_key": TENANT, "open_id": "o" * 500}},
        {"operator": {"tenant_key": TENANT, "open_id": ["ou_ben"]}},
        {"context": None},
        {"context": {"open_chat_id": "oc_1"}},
        {"context": {"open_message_id": "m" * 500}},
        {"context": {"open_message_id": "om_1", "open_chat_id": {"a": 1}}},
        {"action": None},
        {"action": []},
        {"action": {"value": VALUE, "form_value": "{"}},
    ],
)
def test_a_click_that_cannot_be_bound_is_foreign(event: dict[str, Any]) -> None:
    assert isinstance(opened(click(**event)), ForeignClick)


@pytest.mark.parametrize("event_id", [None, "", "e" * 300, 5, "two\nlines", "half\ud800"])
def test_a_click_without_a_usable_id_is_refused(event_id: Any) -> None:
    with pytest.raises(Refused):
        opened(click(header={"event_id": event_id}))


@pytest.mark.parametrize(
    ("create_time", "received_at"),
    [
        (NOW - timedelta(minutes=9), NOW - timedelta(minutes=9)),
        (NOW - timedelta(minutes=11), NOW),
        (NOW + timedelta(seconds=1), NOW),
        (str(int(NOW.timestamp() * 1000)), NOW),
        (str(int(NOW.timestamp())), NOW),
        (int(NOW.timestamp() * 1000), NOW),
        ("", NOW),
        (None, NOW),
        ("soon", NOW),
        ("9" * 400, NOW),
        ("-5", NOW),
        ({"a": 1}, NOW),
    ],
)
def test_a_decision_counts_by_the_platforms_time_where_it_can_be_believed(
    create_time: Any, received_at: datetime
) -> None:
    moment = str(int(create_time.timestamp() * 1_000_000)) if isinstance(create_time, datetime) else create_time
    found = opened(click(header={"create_time": moment}))
    assert isinstance(found, Click)
    assert found.decision(delivery_id="d1", now=NOW).received_at == received_at


def test_a_decision_says_what_was_clicked_where_and_what_proves_it() -> None:
    found = opened(click())
    assert isinstance(found, Click)
    decision = found.decision(delivery_id="d1", now=NOW)
    assert (decision.surface, decision.proof) == (Surface.FEISHU, "feishu-signature")
    assert (decision.approval_id, decision.kind, decision.stage) == ("inv-42", DecisionKind.APPROVE, Stage.CALL)
    assert (decision.event_id, decision.delivery_id, decision.message_id) == ("ev_1", "d1", "om_1")
    assert (decision.payload_sha256, decision.actor) == ("ab" * 32, found.operator)


@given(
    data=st.fixed_dictionaries({}, optional=dict.fromkeys(("operator", "action", "context", "host", "token"), JSON)),
    value=JSON,
)
@unhurried
def test_no_event_breaks_the_reader(data: dict[str, Any], value: Any) -> None:
    envelope = click(**data)
    changed = click({**VALUE, **value} if isinstance(value, dict) else value)
    for each in (envelope, changed):
        assert isinstance(parse_event(each, proof="feishu-token", tenant_key=None), Click | ForeignClick)
