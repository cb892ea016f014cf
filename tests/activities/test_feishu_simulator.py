"""The Feishu client against the simulator: what one sends the other must understand."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

import simulator
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from assent.contracts.address import Address, AddressKind
from assent.contracts.identity import Identity
from assent.files import SharedFile, fetch

TEAM = Address(kind=AddressKind.CHAT_ID, id="oc_team")
CARD: dict[str, Any] = {
    "schema": "2.0",
    "config": {"update_multi": True},
    "header": {"template": "blue", "title": {"tag": "plain_text", "content": "Hello"}},
    "body": {"elements": [{"tag": "div", "text": {"tag": "plain_text", "content": "there"}}]},
}


@dataclass
class Pair:
    """The client, and the simulator's own door beside it."""

    feishu: Feishu
    page: httpx.AsyncClient

    async def faults(self, *faults: dict[str, Any]) -> None:
        (await self.page.put("/api/faults", json=list(faults))).raise_for_status()

    async def message(self, message_id: str) -> Any:
        return (await self.page.get(f"/api/messages/{message_id}")).json()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    app: FastAPI = simulator.create_app(simulator.Settings())
    transport = httpx.ASGITransport(app)
    feishu = Feishu(app_id="cli_assent", app_secret="secret", domain="http://127.0.0.1", transport=transport)
    async with httpx.AsyncClient(base_url="http://127.0.0.1", transport=transport) as page:
        yield Pair(feishu, page)
    await feishu.close()


async def test_a_card_is_sent_replaced_and_answered(pair: Pair) -> None:
    sent = await pair.feishu.send(TEAM, "interactive", json.dumps(CARD), uuid="u-1")
    again = await pair.feishu.send(TEAM, "interactive", json.dumps(CARD), uuid="u-1")
    assert again == sent
    assert sent.chat_id == "oc_team"
    await pair.feishu.patch(sent.message_id, json.dumps(CARD | {"header": CARD["header"] | {"template": "green"}}))
    assert (await pair.message(sent.message_id))["content"]["header"]["template"] == "green"
    reply = await pair.feishu.send(
        TEAM.model_copy(update={"reply_to": sent.message_id}), "text", '{"text": "hi"}', uuid="u-2"
    )
    assert (await pair.message(reply.message_id))["reply_to"] == sent.message_id


async def test_a_file_goes_there_and_back(pair: Pair) -> None:
    key = await pair.feishu.upload("call.txt", b"all of it")
    sent = await pair.feishu.send(TEAM, "file", json.dumps({"file_key": key}), uuid="u-1")
    into = io.BytesIO()
    await fetch(pair.feishu, SharedFile(file_id="sf_1", message_id=sent.message_id, file_key=key), into)
    assert into.getvalue() == b"all of it"


async def test_people_and_members_are_known(pair: Pair) -> None:
    assert await pair.feishu.name(Identity(open_id="ou_approver")) == "李雷"
    assert await pair.feishu.name(Identity(open_id="ou_nobody")) is None
    assert "ou_outsider" in await pair.feishu.members("oc_team")


async def test_a_chat_without_the_bot_is_a_refusal(pair: Pair) -> None:
    with pytest.raises(FeishuRefused) as caught:
        await pair.feishu.send(Address(kind=AddressKind.CHAT_ID, id="oc_elsewhere"), "text", '{"text": "x"}', uuid="u")
    assert caught.value.code == 230002


async def test_a_card_that_is_not_valid_is_a_refusal_that_says_why(pair: Pair) -> None:
    broken = CARD | {"body": {"elements": [{"tag": "note"}]}}
    with pytest.raises(FeishuRefused, match="note") as caught:
        await pair.feishu.send(TEAM, "interactive", json.dumps(broken), uuid="u")
    assert caught.value.code in (230099, 200861)


@pytest.mark.parametrize("kind", ["429", "ratelimit", "5xx", "html"])
async def test_what_passes_is_not_final(pair: Pair, kind: str) -> None:
    await pair.faults({"on": "send", "kind": kind, "times": 1})
    with pytest.raises(FeishuUnavailable) as caught:
        await pair.feishu.send(TEAM, "text", '{"text": "x"}', uuid="u")
    assert kind != "ratelimit" or caught.value.retry_after is not None
    await pair.feishu.send(TEAM, "text", '{"text": "x"}', uuid="u")


async def test_an_expired_token_goes_unnoticed(pair: Pair) -> None:
    await pair.faults({"on": "send", "kind": "expired_token", "times": 1})
    assert (await pair.feishu.send(TEAM, "text", '{"text": "x"}', uuid="u")).message_id
