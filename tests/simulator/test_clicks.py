"""Clicks, as the simulated platform sends them and as the person sees what comes of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from simulator import Settings
from simulator.delivery import encrypt, signature
from tests.support.simulated_feishu import Feishu, Webhook, button, card, feishu, form, text, webhook

APPROVE = {"approval_id": "a1", "decision": "approve"}
_REASON = {"tag": "input", "name": "reason", "max_length": 10}


@pytest.fixture(name="hook", scope="module")
async def _hook() -> AsyncIterator[Webhook]:
    async with webhook() as running:
        yield running


@pytest.fixture(name="platform", scope="module")
async def _platform(hook: Webhook) -> AsyncIterator[Feishu]:
    async with feishu(Settings(callback_url=hook.url, limits=False, click_timeout=30)) as running:
        yield running


@pytest.fixture(autouse=True)
async def _fresh(platform: Feishu, hook: Webhook) -> None:
    await platform.http.post("/api/reset")
    hook.received.clear()
    hook.answer = None


async def refused(platform: Feishu, **click: Any) -> httpx.Response:
    return await platform.http.post("/api/clicks", json={"open_id": "ou_approver", **click})


def test_sealing_and_signing_agree_with_the_published_vectors() -> None:
    published = "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="
    assert encrypt("test key", b"hello world", base64.b64decode(published)[:16]) == published
    body = f'{{"encrypt":"{published}"}}'.encode()
    expected = "20f0b32d8b1a0744b1608bcfcf23584190cd720f9bd706adde9047c85ffb47ee"
    assert signature("test key", "1700000000", "nonce", body) == expected


async def test_a_click_arrives_sealed_signed_and_complete(platform: Feishu, hook: Webhook) -> None:
    hook.answers({"toast": {"type": "success", "content": "Approved", "i18n": {"zh_cn": "已批准"}}})
    message_id = await platform.sent(card(button(APPROVE, name="approve")))
    result = await platform.click(message_id, value=APPROVE)

    assert (result["delivered"], result["status"], result["error"]) == (True, 200, None)
    assert result["toast"] == {"type": "success", "content": "Approved", "i18n": {"zh_cn": "已批准"}}
    ((headers, body),) = hook.received
    signed = headers["x-lark-request-timestamp"] + headers["x-lark-request-nonce"] + "encrypt-key"
    assert headers["x-lark-signature"] == hashlib.sha256(signed.encode() + body).hexdigest()

    event = hook.opened()
    assert event["schema"] == "2.0"
    header = event["header"]
    assert len(header.pop("create_time")) == 16  # microseconds
    assert header == {
        "event_id": result["event_id"],
        "token": "verification-token",
        "event_type": "card.action.trigger",
        "tenant_key": "tenant_1",
        "app_id": "cli_assent",
    }
    inner = event["event"]
    assert inner.pop("token").startswith("c-")
    assert inner == {
        "operator": {
            "tenant_key": "tenant_1",
            "open_id": "ou_approver",
            "union_id": "on_approver",
            "user_id": "u_approver",
        },
        "action": {"value": APPROVE, "tag": "button", "name": "approve", "timezone": "Asia/Shanghai"},
        "host": "im_message",
        "context": {"open_message_id": message_id, "open_chat_id": "oc_team"},
    }


async def test_without_a_key_a_click_is_plain_and_unsigned(hook: Webhook) -> None:
    async with feishu(Settings(callback_url=hook.url, encrypt_key="")) as plain:
        message_id = await plain.sent(card(button(APPROVE)))
        await plain.click(message_id, value=APPROVE)
    headers, body = hook.received[-1]
    assert json.loads(body)["header"]["token"] == "verification-token"
    assert not any(name.startswith("x-lark") for name in headers)


async def test_a_form_is_submitted_with_what_was_typed(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(form(_REASON, {"tag": "input", "name": "note"})))
    await platform.click(message_id, name="reject", form_value={"reason": "too much"})
    action = hook.opened()["event"]["action"]
    assert action == {
        "value": {"decision": "reject"},
        "tag": "button",
        "name": "reject",
        "form_value": {"reason": "too much", "note": ""},
        "timezone": "Asia/Shanghai",
    }


async def test_nobody_clicks_what_is_not_there(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(button(APPROVE, name="approve"), button({"no": 1}, disabled=True)))
    assert (await refused(platform, message_id="om_none", value=APPROVE)).status_code == 404
    assert (await refused(platform, message_id=message_id, value=APPROVE, open_id="ou_nobody")).status_code == 404
    for impossible in (
        {"value": {**APPROVE, "approval_id": "a2"}},
        {"name": "other"},
        {},
        {"value": {"no": 1}},
        {"value": APPROVE, "form_value": {"reason": "x"}},
    ):
        assert (await refused(platform, message_id=message_id, **impossible)).status_code == 409, impossible
    await platform.patch(message_id, card())
    assert (await refused(platform, message_id=message_id, value=APPROVE)).status_code == 409
    private = await platform.sent(card(button(APPROVE)), "ou_requester", kind="open_id")
    assert (await refused(platform, message_id=private, value=APPROVE)).status_code == 409
    assert hook.received == []


async def test_the_client_holds_back_a_form_that_is_not_filled_in(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(form({**_REASON, "required": True})))
    for filled in ({}, {"reason": ""}, {"reason": "longer than ten"}, {"reason": "x", "other": "y"}):
        assert (await refused(platform, message_id=message_id, name="reject", form_value=filled)).status_code == 409
    assert hook.received == []
    await platform.click(message_id, name="reject", form_value={"reason": "no"})
    assert len(hook.received) == 1


async def test_a_forged_client_can_send_anything(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(), "oc_ops")
    forged = {"approval_id": "other", "decision": "approve"}
    result = await platform.click(message_id, "ou_outsider", value=forged, form_value={"x": 1}, force=True)
    assert result["delivered"]
    assert hook.opened()["event"]["action"]["value"] == forged
    assert hook.opened()["event"]["action"]["form_value"] == {"x": 1}


async def test_the_answered_card_takes_the_place_of_the_old_one(platform: Feishu, hook: Webhook) -> None:
    decided = card({"tag": "markdown", "content": "Approved"})
    hook.answers({"card": {"type": "raw", "data": decided}})
    message_id = await platform.sent(card(button(APPROVE)))
    result = await platform.click(message_id, value=APPROVE)
    assert (result["card_applied"], result["toast"]) == (True, None)
    message = await platform.shown(message_id)
    assert (message["revision"], message["content"]) == (1, decided)


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        ({"card": {"type": "raw", "data": card({"tag": "action"})}}, "bad_card", 200673),
        ({"card": {"type": "raw", "data": card({"tag": "div", "text": text("x" * 40_000)})}}, "bad_card", 200673),
        ({"card": {"data": card()}}, "bad_answer", 200672),
        ({"toast": {"type": "loud", "content": "x"}}, "bad_answer", 200672),
        ({"toast": {"type": "info"}}, "bad_answer", 200672),
        ({"toast": "hello"}, "bad_answer", 200672),
        ([], "bad_answer", 200672),
    ],
)
async def test_an_answer_that_is_wrong_shows_the_platforms_error(
    platform: Feishu, hook: Webhook, answer: Any, error: str, code: int
) -> None:
    hook.answers(answer)
    message_id = await platform.sent(card(button(APPROVE)))
    result = await platform.click(message_id, value=APPROVE)
    assert (result["error"], result["notice"]["code"], result["toast"]) == (error, code, None)
    assert (await platform.shown(message_id))["revision"] == 0


async def test_an_error_status_and_a_page_are_errors(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(button(APPROVE)))
    hook.answers({"toast": {"type": "info", "content": "x"}}, status=500)
    result = await platform.click(message_id, value=APPROVE)
    assert (result["error"], result["status"], result["toast"]) == ("bad_status", 500, None)

    async def page(_: Request) -> Response:
        return Response("<html>")

    hook.answer = page
    assert (await platform.click(message_id, value=APPROVE))["error"] == "bad_answer"


async def test_a_slow_answer_is_an_error_and_the_click_is_not_repeated(hook: Webhook) -> None:
    gate = asyncio.Event()

    async def late(_: Request) -> Response:
        await gate.wait()
        return Response("{}")

    hook.answer = late
    async with feishu(Settings(callback_url=hook.url, click_timeout=0.5)) as hasty:
        message_id = await hasty.sent(card(button(APPROVE)))
        result = await hasty.click(message_id, value=APPROVE)
    gate.set()
    assert (result["error"], result["delivered"], result["status"]) == ("timeout", True, None)
    assert result["elapsed_ms"] > 400  # a timer of the loop may be a hair early
    assert len(hook.received) == 1


def test_the_platforms_patience_is_three_seconds() -> None:
    assert Settings().click_timeout == 3.0


async def test_nobody_listening_is_an_error_at_once() -> None:
    async with feishu(Settings(callback_url="http://127.0.0.1:9/callback")) as alone:
        message_id = await alone.sent(card(button(APPROVE)))
        result = await alone.click(message_id, value=APPROVE)
        assert (result["error"], result["delivered"]) == ("unreachable", False)
    async with feishu() as nowhere:
        message_id = await nowhere.sent(card(button(APPROVE)))
        assert (await nowhere.click(message_id, value=APPROVE))["error"] == "no_callback"


async def test_a_webhook_may_restart_between_two_clicks() -> None:
    async with webhook() as first:
        url = first.url
    port = httpx.URL(url).port or 0
    async with feishu(Settings(callback_url=url)) as platform:
        message_id = await platform.sent(card(button(APPROVE)))
        for _ in range(2):
            async with webhook(port) as hook:
                assert (await platform.click(message_id, value=APPROVE))["error"] is None
                assert len(hook.received) == 1
            assert (await platform.click(message_id, value=APPROVE))["error"] == "unreachable"


async def test_an_answer_may_come_in_pieces_and_end_the_connection(platform: Feishu, hook: Webhook) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"toast": {"type": "info", '
        yield b'"content": "whole"}}'

    async def answer(_: Request) -> Response:
        return StreamingResponse(pieces(), headers={"connection": "close"})

    hook.answer = answer
    message_id = await platform.sent(card(button(APPROVE)))
    for _ in range(2):
        assert (await platform.click(message_id, value=APPROVE))["toast"]["content"] == "whole"


async def test_a_card_of_fourteen_days_cannot_be_clicked(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(button(APPROVE)))
    await platform.http.post(f"/api/messages/{message_id}/age", json={"days": 14})
    assert (await platform.click(message_id, value=APPROVE))["error"] == "expired"
    assert hook.received == []


async def test_a_delivery_is_replayed_byte_for_byte_or_newly_sealed(platform: Feishu, hook: Webhook) -> None:
    hook.answers({"toast": {"type": "info", "content": "again"}})
    message_id = await platform.sent(card(button(APPROVE)))
    delivery_id = (await platform.click(message_id, value=APPROVE))["delivery_id"]
    path = f"/api/deliveries/{delivery_id}/replay"

    result = (await platform.http.post(path)).json()
    assert result["toast"]["content"] == "again"
    first, second = hook.received
    assert first[1] == second[1]
    assert first[0]["x-lark-signature"] == second[0]["x-lark-signature"]

    await platform.http.post(path, json={"fresh": True})
    assert hook.received[2][1] != first[1]
    assert hook.opened(index=2) == hook.opened(index=0)

    async with webhook() as other:
        await platform.http.post(path, json={"url": other.url})
        assert other.received[0][1] == first[1]
    assert (await platform.http.post(path, json={"url": "http://192.0.2.1/"})).status_code == 422

    kept = (await platform.http.get("/api/deliveries")).json()["deliveries"]
    assert len(kept) == 4
    assert {delivery["message_id"] for delivery in kept} == {message_id}
    assert kept[0]["body"].encode() == first[1]


async def test_a_duplicated_click_arrives_twice_as_one_event(platform: Feishu, hook: Webhook) -> None:
    await platform.misbehave(on="callback", kind="duplicate_click", times=1)
    message_id = await platform.sent(card(button(APPROVE)))
    await platform.click(message_id, value=APPROVE)
    assert hook.opened(index=0) == hook.opened(index=1)
    await platform.click(message_id, value=APPROVE)
    assert len(hook.received) == 3


async def test_a_plain_event_is_repeated_until_it_is_taken(platform: Feishu, hook: Webhook) -> None:
    hook.answers({}, status=500)
    event = {"event_type": "im.message.receive_v1", "event": {"message": {"message_id": "om_1"}}, "attempts": 3}
    result = (await platform.http.post("/api/events", json=event)).json()
    assert (result["delivered"], len(result["attempts"])) == (False, 3)
    assert len({hook.opened(index=index)["header"]["event_id"] for index in range(3)}) == 1
    assert len(hook.opened()["header"]["create_time"]) == 13  # milliseconds
    hook.answers({})
    result = (await platform.http.post("/api/events", json=event)).json()
    assert (result["delivered"], len(result["attempts"])) == (True, 1)


async def test_a_challenge_must_come_back(platform: Feishu, hook: Webhook) -> None:
    assert (await platform.http.post("/api/url_verification")).json()["verified"] is False

    async def echo(_: Request) -> Response:
        return Response(json.dumps({"challenge": hook.opened()["challenge"]}))

    hook.answer = echo
    assert (await platform.http.post("/api/url_verification")).json()["verified"] is True
    assert hook.opened()["token"] == "verification-token"


async def test_watchers_are_told_of_messages_patches_clicks_and_resets(platform: Feishu) -> None:
    told: list[dict[str, Any]] = []
    async with platform.http.stream("GET", "/api/stream") as stream:
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith(":")
        message_id = await platform.sent(card(button(APPROVE)))
        await platform.click(message_id, value=APPROVE)
        await platform.patch(message_id, card())
        await platform.http.post("/api/reset")
        async for line in lines:
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
            if told and told[-1]["kind"] == "reset":
                break
    assert [event["kind"] for event in told] == ["message", "click", "patched", "reset"]
    assert {event["message_id"] for event in told[:3]} == {message_id}
    assert told[2]["message"]["revision"] == 1


async def test_a_shortcut_posts_its_body_with_the_blanks_filled_in(hook: Webhook) -> None:
    shortcut = {
        "label": {"zh": "提交", "en": "Ask"},
        "description": {"zh": "…", "en": "…"},
        "url": hook.url,
        "headers": {"authorization": "Bearer abc"},
        "body": {"requester": "open_id:{open_id}", "to": ["{chat_id}"], "id": "try-{uuid}", "n": 1},
    }
    async with feishu(Settings(shortcuts=(shortcut,))) as platform:
        assert (await platform.http.get("/api/shortcuts")).json() == [
            {"label": shortcut["label"], "description": shortcut["description"]}
        ]
        pressed = await platform.http.post("/api/shortcuts/0", json={"open_id": "ou_requester", "chat_id": "oc_team"})
        assert (pressed.json()["status"], pressed.json()["body"]) == (200, {})
        assert (await platform.http.post("/api/shortcuts/1", json={})).status_code == 404
    headers, body = hook.received[-1]
    sent = json.loads(body)
    assert headers["authorization"] == "Bearer abc"
    assert (sent["requester"], sent["to"], sent["n"]) == ("open_id:ou_requester", ["oc_team"], 1)
    assert sent["id"] == f"try-{pressed.json()['uuid']}"


async def test_any_call_is_asked_for_with_what_was_filled_in(hook: Webhook) -> None:
    catalogue = {
        "list": hook.url,
        "url": hook.url,
        "body": {"tool": "{tool}", "arguments": "{arguments}", "for": "{open_id}"},
    }
    filled = {"order": "A-7 {open_id}", "lines": [{"n": 1}]}
    async with feishu(Settings(catalogue=catalogue)) as platform:
        asked = {"tool": "refund", "arguments": filled, "open_id": "ou_requester", "chat_id": "oc_team"}
        assert (await platform.http.post("/api/tools", json=asked)).json()["status"] == 200
    assert json.loads(hook.received[-1][1]) == {"tool": "refund", "arguments": filled, "for": "ou_requester"}
    async with feishu(Settings()) as platform:
        assert (await platform.http.get("/api/tools")).json() == []
        assert (await platform.http.post("/api/tools", json=asked)).status_code == 404


async def test_what_a_person_writes_to_the_bot_is_in_their_chat_and_told_to_the_app(hook: Webhook) -> None:
    async with feishu(Settings(callback_url=hook.url, encrypt_key="")) as platform:
        said = await platform.http.post("/api/say", json={"open_id": "ou_approver", "text": "what waits for me?"})
        assert said.json()["delivered"] is True
        (message,) = (await platform.http.get("/api/messages")).json()["messages"]
        assert (await platform.http.post("/api/say", json={"open_id": "ou_x", "text": "hi"})).status_code == 404
    assert (message["sender"], message["chat_id"]) == ("ou_approver", "oc_p2p_approver")
    told = json.loads(hook.received[-1][1])
    assert told["header"]["event_type"] == "im.message.receive_v1"
    assert told["event"]["sender"]["sender_id"]["open_id"] == "ou_approver"
    assert (told["event"]["message"]["message_id"], told["event"]["message"]["chat_type"]) == (
        message["message_id"],
        "p2p",
    )


_KIND = {
    "tag": "select_static",
    "name": "kind",
    "initial_option": "a",
    "options": [{"text": text("A"), "value": "a"}, {"text": text("B"), "value": "b"}],
}
_WHO = {"tag": "select_person", "name": "who", "required": True}


async def test_a_choice_that_nobody_changed_is_sent_along(platform: Feishu, hook: Webhook) -> None:
    note = {"tag": "input", "name": "note", "default_value": "kept"}
    agreed = {"tag": "checker", "name": "agreed", "text": text("Agreed")}
    message_id = await platform.sent(card(form(_KIND, _WHO, note, agreed)))
    await platform.click(message_id, name="reject", form_value={"who": "ou_operator"})
    sent = hook.opened()["event"]["action"]["form_value"]
    assert sent == {"kind": "a", "who": "ou_operator", "note": "kept", "agreed": False}


async def test_nobody_can_choose_what_is_not_offered(platform: Feishu) -> None:
    message_id = await platform.sent(card(form(_KIND, _WHO)))
    for filled, why in (
        ({"kind": "c", "who": "ou_operator"}, "does not offer this"),
        ({"who": "ou_nobody"}, "does not offer this"),
        ({"kind": "b"}, "is required"),
    ):
        answer = await refused(platform, message_id=message_id, name="reject", form_value=filled)
        assert answer.status_code == 409
        assert why in answer.json()["detail"]
