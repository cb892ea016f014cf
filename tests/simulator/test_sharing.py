"""What people send to the bot in the simulated chats: the message, its event, and the file behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.simulated_feishu import Feishu, feishu

PNG = b"\x89PNG and more"


@pytest.fixture(name="platform", scope="module")
async def _platform() -> AsyncIterator[Feishu]:
    async with feishu() as running:
        yield running


async def share(platform: Feishu, data: bytes = b"abc", **asked: str) -> dict[str, Any]:
    answer = await platform.http.post("/api/files", params={"open_id": "ou_requester", **asked}, content=data)
    sent: dict[str, Any] = answer.raise_for_status().json()
    return sent


async def last_event(platform: Feishu) -> dict[str, Any]:
    deliveries = (await platform.http.get("/api/deliveries", params={"limit": 1})).json()["deliveries"]
    event: dict[str, Any] = deliveries[0]["event"]
    return event


@pytest.mark.parametrize(
    ("name", "message_type", "keys"),
    [
        ("a.png", "image", {"image_key"}),
        ("a.pdf", "file", {"file_key", "file_name"}),
        ("a.mp3", "audio", {"file_key", "duration"}),
        ("a.mp4", "media", {"file_key", "file_name", "duration", "image_key"}),
    ],
)
async def test_a_file_is_told_of_as_the_platform_does(
    platform: Feishu, name: str, message_type: str, keys: set[str]
) -> None:
    sent = await share(platform, name=name)
    assert (sent["chat_id"], sent["sender"], sent["msg_type"]) == ("oc_p2p_requester", "ou_requester", message_type)
    event = await last_event(platform)
    assert event["header"]["event_type"] == "im.message.receive_v1"
    message = event["event"]["message"]
    assert (message["message_id"], message["chat_type"]) == (sent["message_id"], "p2p")
    assert set(json.loads(message["content"])) == keys
    assert event["event"]["sender"]["sender_id"]["union_id"] == "on_requester"


async def fetched(platform: Feishu, sent: dict[str, Any]) -> httpx.Response:
    key = sent["files"][0]["file_key"]
    path = f"/open-apis/im/v1/messages/{sent['message_id']}/resources/{key}?type=file"
    return await platform.http.get(path, headers={"authorization": f"Bearer {platform.simulator.token()[0]}"})


async def test_what_is_behind_it_can_be_fetched_swapped_and_deleted(platform: Feishu) -> None:
    sent = await share(platform, name="a.pdf")
    assert (await fetched(platform, sent)).content == b"abc"
    key = sent["files"][0]["file_key"]
    await platform.http.put(f"/api/files/{key}", content=b"other")
    assert (await fetched(platform, sent)).content == b"other"
    await platform.http.delete(f"/api/files/{key}")
    assert (await fetched(platform, sent)).json()["code"] == 234003
    assert (await platform.http.delete(f"/api/files/{key}")).status_code == 404


async def test_it_can_be_cut_and_sent_with_no_length_or_another(platform: Feishu) -> None:
    sent = await share(platform, b"abcdef", name="a.pdf")
    await platform.http.put("/api/faults", json=[{"on": "download", "kind": "undeclared"}])
    answer = await fetched(platform, sent)
    assert (answer.content, "content-length" in answer.headers) == (b"abcdef", False)
    large = await share(platform, bytes(2 * 1024 * 1024), name="b.pdf")
    await platform.http.put("/api/faults", json=[{"on": "download", "kind": "understated"}])
    answer = await fetched(platform, large)
    assert (len(answer.content), answer.headers["content-length"]) == (2 * 1024 * 1024, str(1024 * 1024))
    await platform.http.put("/api/faults", json=[{"on": "download", "kind": "half"}])
    with pytest.raises(httpx.HTTPError):
        await fetched(platform, sent)
    await platform.http.delete("/api/faults")


async def test_in_groups_the_bot_hears_of_mentions_alone(platform: Feishu) -> None:
    quiet = await share(platform, name="a.pdf", chat_id="oc_team")
    assert quiet["delivered"] is None
    post = await share(platform, PNG, name="a.png", chat_id="oc_team", mention="true")
    assert post["msg_type"] == "post"
    said = {"open_id": "ou_approver", "chat_id": "oc_team", "text": "this", "mention": True}
    words = await platform.http.post("/api/words", json={**said, "reply_to": quiet["message_id"]})
    assert words.raise_for_status().json()["reply_to"] == quiet["message_id"]
    message = (await last_event(platform))["event"]["message"]
    assert (message["parent_id"], message["mentions"][0]["id"]["open_id"]) == (quiet["message_id"], "ou_bot")
    for who, chat in (("ou_nobody", ""), ("ou_requester", "oc_ops"), ("ou_requester", "oc_none")):
        asked = {"open_id": who, "chat_id": chat, "name": "a.pdf"}
        assert (await platform.http.post("/api/files", params=asked, content=b"x")).status_code == 404


async def test_pictures_for_cards_are_taken_and_nothing_else(platform: Feishu) -> None:
    headers = {"authorization": f"Bearer {platform.simulator.token()[0]}"}
    for data, code in ((PNG, 0), (b"text", 234011), (b"", 234010)):
        answer = await platform.http.post(
            "/open-apis/im/v1/images", data={"image_type": "message"}, files={"image": ("a.png", data)}, headers=headers
        )
        assert answer.json()["code"] == code
    bot = await platform.http.get("/open-apis/bot/v3/info", headers=headers)
    assert bot.json()["bot"]["open_id"] == "ou_bot"
