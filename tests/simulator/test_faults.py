"""The simulated platform misbehaving on demand."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from simulator import Settings
from tests.support.simulated_feishu import Feishu, Webhook, button, card, feishu, webhook


@pytest.fixture(name="hook", scope="module")
async def _hook() -> AsyncIterator[Webhook]:
    async with webhook() as running:
        yield running


@pytest.fixture(name="platform", scope="module")
async def _platform(hook: Webhook) -> AsyncIterator[Feishu]:
    async with feishu(Settings(callback_url=hook.url, limits=False)) as running:
        yield running


@pytest.fixture(autouse=True)
async def _fresh(platform: Feishu, hook: Webhook) -> None:
    await platform.http.post("/api/reset")
    await platform.renew()
    hook.received.clear()


async def messages(platform: Feishu) -> int:
    return len((await platform.http.get("/api/messages")).json()["messages"])


async def test_a_rate_limit_comes_in_both_of_its_shapes(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="429", times=1)
    assert (await platform.send(card())).status_code == 429
    await platform.misbehave(on="send", kind="ratelimit", seconds=3)
    refused = await platform.send(card())
    assert (refused.status_code, refused.json()["code"]) == (400, 99991400)
    assert refused.headers["x-ogw-ratelimit-reset"] == "3"
    assert await messages(platform) == 0


async def test_a_broken_gateway_answers_with_500_or_with_a_page(platform: Feishu) -> None:
    await platform.misbehave(on="patch", kind="5xx", code=503)
    message_id = await platform.sent(card())
    assert (await platform.patch(message_id, card())).status_code == 503
    await platform.misbehave(on="any", kind="html")
    page = await platform.patch(message_id, card())
    assert (page.status_code, page.text[:6]) == (502, "<html>")
    assert (await platform.shown(message_id))["revision"] == 0


async def test_a_lost_answer_is_a_message_nobody_was_told_of(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="lost_answer", times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await platform.send(card(), uuid="once")
    assert await messages(platform) == 1
    await platform.sent(card(), uuid="once")
    assert await messages(platform) == 1


async def test_a_refused_connection_has_no_effect(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="refuse", times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await platform.send(card())
    assert await messages(platform) == 0


async def test_a_slow_answer_is_late_but_right(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="slow", seconds=0.2)
    started = time.monotonic()
    await platform.sent(card())
    assert time.monotonic() - started >= 0.2


async def test_an_expired_token_is_expired_for_every_call(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="expired_token", times=1)
    assert (await platform.send(card())).json()["code"] == 99991663
    assert (await platform.call("GET", "/contact/v3/users/ou_approver")).json()["code"] == 99991663
    await platform.renew()
    await platform.sent(card())


async def test_any_code_can_be_had_for_one_chat_only(platform: Feishu) -> None:
    await platform.misbehave(on="send", kind="code", code=230053, match={"chat_id": "oc_p2p_requester"})
    await platform.sent(card())
    assert (await platform.send(card(), "ou_requester", kind="open_id")).json()["code"] == 230053
    await platform.misbehave(on="reply", kind="code", code=230049, match={"chat_id": "oc_team"})
    message_id = await platform.sent(card())
    body = {"msg_type": "text", "content": '{"text": "x"}'}
    assert (await platform.call("POST", f"/im/v1/messages/{message_id}/reply", json=body)).json()["code"] == 230049


async def test_a_fault_with_a_probability_strikes_sometimes_and_always_alike(platform: Feishu) -> None:
    async def struck() -> list[bool]:
        await platform.misbehave(on="users", kind="5xx", probability=0.5)
        return [(await platform.call("GET", "/contact/v3/users/ou_approver")).status_code == 500 for _ in range(20)]

    first = await struck()
    assert 0 < sum(first) < 20
    assert await struck() == first


async def test_faults_are_listed_counted_down_and_taken_back(platform: Feishu) -> None:
    await platform.misbehave(on="token", kind="5xx", times=2)
    asked = {"app_id": "cli_assent", "app_secret": "secret"}
    assert (await platform.http.post("/open-apis/auth/v3/tenant_access_token/internal", json=asked)).status_code == 500
    (fault,) = (await platform.http.get("/api/faults")).json()
    assert fault["times"] == 1
    assert (await platform.http.delete("/api/faults")).json() == []
    await platform.renew()
    unknown = await platform.http.put("/api/faults", json=[{"on": "send", "kind": "explode"}])
    assert unknown.status_code == 422


async def test_a_click_can_be_lost_on_either_way(platform: Feishu, hook: Webhook) -> None:
    message_id = await platform.sent(card(button({"a": 1})))
    await platform.misbehave(on="callback", kind="refuse", times=1)
    assert (await platform.click(message_id, value={"a": 1}))["error"] == "unreachable"
    assert hook.received == []
    await platform.misbehave(on="callback", kind="lost_answer", times=1)
    assert (await platform.click(message_id, value={"a": 1}))["error"] == "timeout"
    assert len(hook.received) == 1
