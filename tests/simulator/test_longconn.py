"""The long connection, with the official SDK as it is on the other end."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
import websockets

from simulator import Settings
from simulator.frames import CONTROL, DATA, BadFrame, Frame
from tests.support.fork_server import Started, spawn
from tests.support.simulated_feishu import Feishu, button, card, feishu, form

_SDK = """
import json, sys
import lark_oapi as lark
from lark_oapi.ws.pb.pbbp2_pb2 import Frame

ours = Frame()
ours.ParseFromString(bytes.fromhex(sys.argv[2]))
read = {
    "numbers": [ours.SeqID, ours.LogID, ours.service, ours.method],
    "headers": [[header.key, header.value] for header in ours.headers],
    "strings": [ours.payload_encoding, ours.payload_type, ours.LogIDNew],
    "payload": ours.payload.hex(),
    "written": ours.SerializeToString().hex(),
}
print(json.dumps(read), flush=True)

def clicked(data):
    action = data.event.action
    said = {"value": action.value, "form_value": action.form_value, "event_id": data.header.event_id}
    print(json.dumps(said), flush=True)
    if action.value.get("fail"):
        raise RuntimeError("as asked")
    return P2CardActionTriggerResponse({"toast": {"type": "success", "content": "over the connection"}})

from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse
handler = lark.EventDispatcherHandler.builder("", "").register_p2_card_action_trigger(clicked).build()
lark.ws.Client("cli_assent", "secret", event_handler=handler, domain=sys.argv[1]).start()
"""

FULL = Frame(
    DATA, {"type": "event", "sum": "1"}, b"\x00payload", 33554678, 300, 2**40, {6: "gzip", 7: "json", 9: "log"}
)


@dataclass
class Sdk:
    """The official client in a process of its own."""

    process: Started
    frame: dict[str, Any]
    """How it read and wrote the frame of ours."""

    async def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(300):
            while not (line := await self.process.stdout.readline()).startswith(b"{"):
                assert line, "the SDK has ended"  # else it is the SDK's own log
        said: dict[str, Any] = json.loads(line)
        return said


@pytest.fixture(name="platform", scope="module")
async def _platform() -> AsyncIterator[Feishu]:
    # The address leads nowhere: what arrives, arrived over a connection.
    async with feishu(Settings(callback_url="http://127.0.0.1:9/", limits=False, ping_seconds=1)) as running:
        yield running


@pytest.fixture(name="sdk", scope="module")
async def _sdk(platform: Feishu) -> AsyncIterator[Sdk]:
    process = await spawn(
        *("-c", _SDK, platform.url, FULL.encode().hex()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**20,
    )
    sdk = Sdk(process, {})
    sdk.frame = await sdk.said()
    await connected(platform, 1)
    yield sdk
    process.kill()
    await process.wait()


async def connected(platform: Feishu, number: int) -> None:
    async with asyncio.timeout(300):
        while True:
            if (await platform.http.get("/api/connections")).json()["open"] == number:
                return
            await asyncio.sleep(0.01)


async def test_our_frames_are_the_sdks_frames(sdk: Sdk) -> None:
    assert sdk.frame["numbers"] == [300, 2**40, 33554678, DATA]
    assert sdk.frame["headers"] == [["type", "event"], ["sum", "1"]]
    assert sdk.frame["strings"] == ["gzip", "json", "log"]
    assert bytes.fromhex(sdk.frame["payload"]) == b"\x00payload"
    assert Frame.decode(bytes.fromhex(sdk.frame["written"])) == FULL


async def test_the_unmodified_sdk_gets_a_click_and_its_toast_is_shown(platform: Feishu, sdk: Sdk) -> None:
    message_id = await platform.sent(card(button({"decision": "approve"})))
    result = await platform.click(message_id, value={"decision": "approve"})
    got = await sdk.said()
    assert (got["value"], got["event_id"]) == ({"decision": "approve"}, result["event_id"])
    assert (result["status"], result["error"]) == (200, None)
    assert result["toast"]["content"] == "over the connection"
    delivered = (await platform.http.get("/api/deliveries")).json()["deliveries"][-1]
    assert (delivered["url"], json.loads(delivered["body"])["schema"]) == ("ws", "2.0")


async def test_a_large_click_is_split_and_put_together_again(platform: Feishu, sdk: Sdk) -> None:
    fields = [{"tag": "input", "name": f"f{number}"} for number in range(20)]
    message_id = await platform.sent(card(form(*fields)))
    filled = {f"f{number}": "长" * 999 for number in range(20)}
    result = await platform.click(message_id, name="reject", form_value=filled)
    assert result["error"] is None
    assert (await sdk.said())["form_value"] == filled


async def test_an_exception_in_the_handler_shows_the_platforms_error(platform: Feishu, sdk: Sdk) -> None:
    message_id = await platform.sent(card(button({"fail": True})))
    result = await platform.click(message_id, value={"fail": True})
    await sdk.said()
    assert (result["error"], result["status"]) == ("bad_status", 500)


async def test_the_sdk_comes_back_after_a_disconnect(platform: Feishu, sdk: Sdk) -> None:
    await platform.misbehave(on="ws", kind="disconnect", times=1)
    await connected(platform, 1)
    message_id = await platform.sent(card(button({"n": 1})))
    assert (await platform.click(message_id, value={"n": 1}))["error"] is None
    await sdk.said()


async def bootstrap(platform: Feishu, secret: str = "secret") -> dict[str, Any]:
    asked = {"AppID": "cli_assent", "AppSecret": secret}
    answer: dict[str, Any] = (await platform.http.post("/callback/ws/endpoint", json=asked)).json()
    return answer


async def test_a_client_without_the_secret_or_a_ticket_is_turned_away(platform: Feishu) -> None:
    assert (await bootstrap(platform, "wrong"))["code"] == 1000040344
    url = (await bootstrap(platform))["data"]["URL"]
    async with websockets.connect(url, proxy=None):
        pass
    with pytest.raises(websockets.InvalidStatus) as used:
        await websockets.connect(url, proxy=None)
    assert used.value.response.headers["handshake-status"] == "403"


async def test_a_ping_is_answered_with_how_to_behave() -> None:
    async with feishu(Settings(ping_seconds=7)) as platform:
        url = (await bootstrap(platform))["data"]["URL"]
        async with websockets.connect(url, proxy=None) as socket:
            await socket.send(Frame(CONTROL, {"type": "ping"}, service=5).encode())
            pong = Frame.decode(await socket.recv(decode=False))
    assert (pong.method, pong.headers, pong.service) == (CONTROL, {"type": "pong"}, 5)
    assert json.loads(pong.payload)["PingInterval"] == 7


async def test_each_click_goes_to_one_of_the_connections() -> None:
    async with feishu(Settings(limits=False)) as platform:
        message_id = await platform.sent(card(button({"n": 1})))
        counts = [0, 0]

        async def answer(which: int) -> None:
            url = (await bootstrap(platform))["data"]["URL"]
            async with websockets.connect(url, proxy=None) as socket:
                async for said in socket:
                    counts[which] += 1
                    frame = Frame.decode(bytes(said))  # type: ignore[arg-type]
                    toast = {"toast": {"type": "info", "content": str(which)}}
                    data = base64.b64encode(json.dumps(toast).encode()).decode()
                    payload = json.dumps({"code": 200, "data": data}).encode()
                    await socket.send(Frame(DATA, frame.headers, payload).encode())

        clients = [asyncio.create_task(answer(which)) for which in range(2)]
        await connected(platform, 2)
        for _ in range(40):
            assert (await platform.click(message_id, value={"n": 1}))["error"] is None
        assert sum(counts) == 40
        assert all(counts)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await connected(platform, 0)


async def test_a_silent_or_dying_client_costs_the_click() -> None:
    async with feishu(Settings(click_timeout=0.2)) as platform:
        message_id = await platform.sent(card(button({"n": 1})))
        url = (await bootstrap(platform))["data"]["URL"]
        async with websockets.connect(url, proxy=None) as socket:
            await connected(platform, 1)
            assert (await platform.click(message_id, value={"n": 1}))["error"] == "timeout"
            platform.simulator.settings = replace(platform.simulator.settings, click_timeout=60)
            clicking = asyncio.create_task(platform.click(message_id, value={"n": 1}))
            await socket.recv()
            await socket.recv()
            await socket.close()
            assert (await clicking)["error"] == "unreachable"


async def test_a_long_payload_comes_in_numbered_pieces() -> None:
    async with feishu(Settings(click_timeout=0.2)) as platform:
        message_id = await platform.sent(card())
        url = (await bootstrap(platform))["data"]["URL"]
        async with websockets.connect(url, proxy=None) as socket:
            await connected(platform, 1)
            await platform.click(message_id, value={"long": "x" * 10_000}, force=True)
            pieces = [Frame.decode(await socket.recv(decode=False)) for _ in range(3)]
    assert [(piece.headers["sum"], piece.headers["seq"]) for piece in pieces] == [("3", "0"), ("3", "1"), ("3", "2")]
    assert len({piece.headers["message_id"] for piece in pieces}) == 1
    event = json.loads(b"".join(piece.payload for piece in pieces))
    assert event["event"]["action"]["value"] == {"long": "x" * 10_000}


async def test_the_fifty_first_connection_is_one_too_many() -> None:
    async with feishu() as platform:
        urls = [(await bootstrap(platform))["data"]["URL"] for _ in range(51)]
        sockets = [await websockets.connect(url, proxy=None) for url in urls[:50]]
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(urls[50], proxy=None)
        assert refused.value.response.headers["handshake-autherrcode"] == "1000040350"
        await asyncio.gather(*(socket.close() for socket in sockets))


async def test_the_way_to_the_connection_can_fail_too(platform: Feishu) -> None:
    await platform.misbehave(on="ws", kind="5xx", times=1)
    answer = await platform.http.post("/callback/ws/endpoint", json={})
    assert answer.status_code == 500
    await platform.misbehave(on="ws", kind="lost_answer", times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await bootstrap(platform)


@pytest.mark.parametrize("garbage", [b"\xff", b"\x08", b"\x2a\x05ab", b"\x0d\x00", b"\x08\x01"])
def test_bytes_that_are_no_frame_are_named_so(garbage: bytes) -> None:
    with pytest.raises(BadFrame):
        Frame.decode(garbage)
