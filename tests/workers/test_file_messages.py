"""Files that people send to the bot: who is heard, what becomes of it however it arrives, and who may know of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from activities.feishu.resources import resources_of
from activities.feishu.verifier import Verifier
from assent import Identity
from assent.contracts.files import ReceivedFile, SharedResource
from assent.errors import NotAllowed
from cards import Event, Wording
from cards.elements import weight
from cards.framing import MOST_BYTES
from cards.shared_files import received_card
from tests.support import servers
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, open_feishu_service
from tests.support.shared_files import Sharing
from tests.support.stepwise import reading
from tests.support.waiting import until
from tests.support.web import TENANT, Web, is_problem, sealed, signed
from workers import longconn
from workers.callbacks import Callbacks
from workers.private_messages import PrivateMessages, files_of
from workers.sweeping import keep_sweeping

ME = REQUESTER.within(TENANT)
WORDING = Wording.load()


def told(message: dict[str, Any], **sender: Any) -> Event:
    person = {"sender_id": {"open_id": "ou_1"}, "sender_type": "user", "tenant_key": TENANT, **sender}
    message = {"message_id": "om_1", "chat_id": "oc_1", "chat_type": "p2p", **message}
    return Event(event_id="e", event_type="im.message.receive_v1", event={"sender": person, "message": message})


@pytest.mark.parametrize(
    ("message_type", "content", "found"),
    [
        ("image", {"image_key": "img_1"}, [("image", "img_1", None)]),
        ("file", {"file_key": "file_1", "file_name": "q3.pdf"}, [("file", "file_1", "q3.pdf")]),
        ("audio", {"file_key": "file_1", "duration": 1000}, [("audio", "file_1", None)]),
        (
            "media",
            {"file_key": "file_1", "image_key": "img_1", "file_name": "a.mp4", "duration": 1},
            [("video", "file_1", "a.mp4")],
        ),
        (
            "post",
            {
                "title": "",
                "content": [[{"tag": "text", "text": "x"}, {"tag": "img", "image_key": "img_1"}], "odd", [7]],
            },
            [("image", "img_1", None)],
        ),
        ("text", {"text": "file_key"}, []),
        ("file", {"file_key": ""}, []),
        ("file", {"file_key": 7}, []),
        ("file", ["file_key"], []),
        ("image", None, []),
    ],
)
def test_the_files_of_a_message(message_type: str, content: object, found: list[tuple[str, str, str | None]]) -> None:
    resources = resources_of(message_type, json.dumps(content) if content is not None else "{")
    assert [(each.kind, each.key, each.name) for each in resources] == found


def test_only_people_of_this_company_are_heard_and_groups_only_where_it_is_set() -> None:
    sent = {"message_type": "image", "content": '{"image_key": "img_1"}'}
    found = files_of(told(sent), TENANT)
    assert found is not None
    assert found.resources == (SharedResource(key="img_1", kind="image"),)
    assert found.sender == Identity(open_id="ou_1", tenant_key=TENANT)
    mentions = {**sent, "chat_type": "group", "mentions": [{"id": {"open_id": "ou_bot"}}, "odd", {"id": 7}]}
    assert files_of(told(mentions), TENANT) is None
    in_group = files_of(told(mentions), TENANT, in_groups=True)
    assert in_group is not None
    assert (in_group.in_group, in_group.mentioned) == (True, ("ou_bot",))
    for event in (
        told(sent, sender_type="app"),
        told(sent, tenant_key="another"),
        told(sent, sender_id={"open_id": ""}),
        told({**sent, "message_id": ""}),
        told({"message_type": "text", "content": '{"text": "hello"}'}),
        told({**sent, "chat_type": "group"}),
    ):
        assert files_of(event, TENANT, in_groups=True) is None


def test_the_card_says_what_it_is_and_until_when_and_fits() -> None:
    card = received_card([ReceivedFile(name="**q3**<at id=all></at>.pdf", kind="file")], WORDING)
    assert all(text in card for text in ("File received", "已收到文件", "长期有效"))
    image = received_card([ReceivedFile(name="image", kind="image")], WORDING)
    assert "图片" in image
    assert weight(received_card([ReceivedFile(name="长" * 4000, kind="file")] * 20, WORDING)) <= MOST_BYTES


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def web(feishu: FeishuService, tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(feishu.service, tmp_path_factory.mktemp("web"))


@pytest.fixture
def sharing(feishu: FeishuService) -> Sharing:
    return Sharing(feishu)


async def replies(feishu: FeishuService, message_id: str) -> list[dict[str, Any]]:
    return [message for message in await feishu.chat.messages() if message.get("reply_to") == message_id]


async def test_a_file_is_taken_once_however_often_and_by_whichever_way_it_is_told_of(
    feishu: FeishuService, web: Web, sharing: Sharing
) -> None:
    message = await sharing.send(b"three", "q3.pdf")
    event = message["event"]
    again = {**event, "header": {**event["header"], "event_id": "again"}}
    verifier = Verifier(app_id="cli_assent", tenant_key=TENANT, encrypt_key=None, verification_token="x")
    messages = PrivateMessages(feishu.service.client, TENANT)
    connection = partial(longconn.answer, verifier, Callbacks(feishu.service.gate, WORDING, messages=messages))

    async def to(hook: Any, sent: dict[str, Any]) -> int:
        body = sealed(sent)
        async with web.http(None, hook) as http:
            return (await http.post("/feishu/callback", content=body, headers=signed(body))).status_code

    another = web.another_hook()
    statuses = await asyncio.gather(
        to(web.hook, event), to(another, event), to(web.hook, again), connection(json.dumps(event).encode())
    )
    assert statuses[:3] == [200, 200, 200]
    await sharing.dealt_with(message["message_id"])
    (file,) = await feishu.service.ledger.files.recent(ME)
    assert (file.name, file.kind, file.size, file.media_type) == ("q3.pdf", "file", None, None)
    (answer,) = await replies(feishu, message["message_id"])
    assert "q3.pdf" in json.dumps(answer["content"])
    assert file.expires_at - file.created_at == 7 * 86400
    by_union = Identity(union_id="on_requester", tenant_key=TENANT)
    assert await feishu.service.ledger.files.get(by_union, file.file_id) is not None


async def test_it_is_the_same_file_when_temporal_has_forgotten_the_first_telling(
    feishu: FeishuService, sharing: Sharing
) -> None:
    message = await sharing.send(b"\x89PNG", "photo.png")
    await sharing.take(message["event"])
    first = (await feishu.service.ledger.files.recent(ME, limit=1))[0]
    told_again = dict(message["event"]["event"]["message"])
    forgotten = await feishu.service.ledger.files.register(
        ME, {"key": json.loads(told_again["content"])["image_key"], "kind": "image"}, message=told_again, ttl_seconds=9
    )
    assert forgotten == first
    assert (first.kind, first.resource_type, first.name) == ("image", "image", "image")


async def test_what_has_expired_is_purged_by_itself(feishu: FeishuService, sharing: Sharing) -> None:
    ledger, client = feishu.service.ledger, feishu.service.client
    short = await ledger.files.register(ME, {"key": "k"}, message={"message_id": "om_short"}, ttl_seconds=1e-6)
    often = feishu.service.settings.model_copy(update={"sweep_every": timedelta(milliseconds=50)})
    sweeping = asyncio.create_task(keep_sweeping(client, ledger, often))

    async def is_purged() -> bool | None:
        async with reading(ledger.engine) as connection:
            left = await connection.execute(
                text("SELECT count(*) FROM shared_files WHERE file_id = :id"), {"id": short.file_id}
            )
            return left.scalar_one() == 0 or None

    assert await until(is_purged)
    sweeping.cancel()


async def test_in_a_group_only_a_mention_of_the_bot_is_meant_for_it(feishu: FeishuService, sharing: Sharing) -> None:
    files = feishu.service.ledger.files
    post = await sharing.send(b"\x89PNG", "a.png", APPROVER, chat_id="oc_team", mention=True)
    await sharing.take(post["event"], in_groups=True)
    approver = APPROVER.within(TENANT)
    (shown,) = await files.recent(approver)
    assert shown.chat_id == "oc_team"
    quiet = await sharing.send(b"quiet", "plan.txt", APPROVER, chat_id="oc_team")
    assert quiet["event"] is None
    said = {"open_id": "ou_outsider", "chat_id": "oc_team", "text": "take this", "mention": True}
    await feishu.chat.http.post("/api/words", json={**said, "reply_to": quiet["message_id"]})
    event = (await feishu.chat.http.get("/api/deliveries", params={"limit": 1})).json()["deliveries"][0]["event"]
    mentioned = event["event"]["message"]["mentions"]
    elsewhere = json.loads(json.dumps(event))
    elsewhere["event"]["message"] |= {"message_id": "om_other", "mentions": [{"id": {"open_id": "ou_approver"}}]}
    await sharing.take(elsewhere, in_groups=True)
    outsider = Identity(open_id="ou_outsider", tenant_key=TENANT)
    assert await files.recent(outsider) == []
    assert mentioned[0]["id"]["open_id"] == "ou_bot"
    await sharing.take(event, in_groups=True)
    (replied,) = await files.recent(outsider)
    assert (replied.name, replied.message_id) == ("plan.txt", quiet["message_id"])


async def test_agents_see_the_summary_alone_of_those_for_whom_they_act(
    feishu: FeishuService, web: Web, sharing: Sharing, tmp_path: Path
) -> None:
    mine = await sharing.share(b"mine", "mine.txt")
    theirs = await sharing.share(b"theirs", "theirs.txt", APPROVER)
    gate = web.gate("reader")
    found = await gate.files.recent(REQUESTER)
    assert found[0].file_id == mine
    assert set(found[0].model_dump()) == {
        *("file_id", "name", "media_type", "kind", "size", "received_at", "expires_at")
    }
    assert await gate.files.recent(REQUESTER, limit=1) == found[:1]
    assert await gate.files.get(REQUESTER, mine) == found[0]
    for file_id in (theirs, "sf_invented", "no id at all"):
        assert await gate.files.get(REQUESTER, file_id) is None
    for token, person in (("reader", APPROVER), ("approver", REQUESTER), ("nothing", REQUESTER)):
        with pytest.raises(NotAllowed):
            await web.gate(token).files.recent(person)
        with pytest.raises(NotAllowed):
            await web.gate(token).files.get(person, mine)
    assert (await web.gate("console").files.recent(APPROVER))[0].file_id == theirs
    assert await feishu.service.gate.files.get(ME, mine) == found[0]
    async with web.http("reader") as http:
        assert is_problem(await http.get("/v1/files?requester=nobody"), 422, "invalid_request")
        assert is_problem(await http.get(f"/v1/files/{theirs}?requester=open_id:ou_requester"), 404, "file_not_found")
        answers = {
            (await http.get(f"/v1/files/{each}?requester=open_id:ou_requester")).text.replace(each, "")
            for each in (theirs, "sf_invented")
        }
        assert len(answers) == 1
