"""The simulated platform's endpoints, as an app calls them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simulator import Settings
from tests.support.simulated_feishu import Feishu, card, feishu, text


@pytest.fixture(name="platform", scope="module")
async def _platform() -> AsyncIterator[Feishu]:
    async with feishu() as running:
        yield running


@pytest.fixture(autouse=True)
async def _fresh(platform: Feishu) -> None:
    await platform.http.post("/api/reset")


class Clock:
    """A clock that stands still until it is set."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
async def _clock(platform: Feishu) -> AsyncIterator[Clock]:
    real, clock = platform.simulator.clock, Clock()
    platform.simulator.clock = clock
    await platform.renew()
    yield clock
    platform.simulator.clock = real
    await platform.renew()


def business_code(answer: Any) -> int:
    return int(answer.json()["code"])


async def test_a_token_is_given_for_the_right_secret_only(platform: Feishu) -> None:
    async def ask(**asked: str) -> dict[str, Any]:
        answer = await platform.http.post("/open-apis/auth/v3/tenant_access_token/internal", json=asked)
        given: dict[str, Any] = answer.json()
        return given

    given = await ask(app_id="cli_assent", app_secret="secret")
    assert given["tenant_access_token"].startswith("t-")
    assert 0 < given["expire"] <= 7200
    assert (await ask(app_id="cli_assent", app_secret="wrong"))["code"] == 10014
    assert (await ask(app_id="cli_other", app_secret="secret"))["code"] == 10003


async def test_a_call_needs_a_token_that_is_still_good(platform: Feishu) -> None:
    bare = await platform.http.get("/open-apis/contact/v3/users/ou_approver")
    assert (bare.status_code, business_code(bare)) == (400, 99991661)

    assert business_code(await platform.call("GET", "/contact/v3/users/ou_approver")) == 0
    await platform.http.post("/api/expire_tokens")
    refused = await platform.call("GET", "/contact/v3/users/ou_approver")
    assert (refused.status_code, business_code(refused)) == (400, 99991663)
    await platform.renew()
    assert business_code(await platform.call("GET", "/contact/v3/users/ou_approver")) == 0


async def test_a_card_is_sent_and_seen(platform: Feishu) -> None:
    answer = await platform.send(card(), uuid="one")
    data = answer.json()["data"]
    assert answer.headers["x-tt-logid"]
    assert data["message_id"].startswith("om_")
    assert (data["chat_id"], data["msg_type"], data["updated"]) == ("oc_team", "interactive", False)
    assert data["create_time"].isdigit()
    assert data["sender"]["id"] == "cli_assent"

    (message,) = (await platform.http.get("/api/messages?chat_id=oc_team")).json()["messages"]
    assert message["content"] == card()
    assert (message["revision"], message["uuid"], message["reply_to"]) == (0, "one", None)


@pytest.mark.parametrize(("kind", "identifier"), [("open_id", "ou_"), ("union_id", "on_"), ("user_id", "u_")])
async def test_a_person_is_reached_in_their_private_chat(platform: Feishu, kind: str, identifier: str) -> None:
    answer = await platform.send(card(), f"{identifier}requester", kind=kind)
    assert answer.json()["data"]["chat_id"] == "oc_p2p_requester"
    chats = (await platform.http.get("/api/chats")).json()
    assert ["ou_requester"] in [chat["members"] for chat in chats if chat["kind"] == "p2p"]


@pytest.mark.parametrize(
    ("kind", "identifier", "code"),
    [
        ("chat_id", "oc_elsewhere", 230002),
        ("chat_id", "oc_nowhere", 230001),
        ("open_id", "ou_nobody", 230001),
        ("", "oc_team", 99992402),
    ],
)
async def test_a_recipient_that_cannot_be_reached_is_refused(
    platform: Feishu, kind: str, identifier: str, code: int
) -> None:
    answer = await platform.send(card(), identifier, kind=kind)
    assert (answer.status_code, business_code(answer)) == (400, code)
    assert (await platform.http.get("/api/messages")).json()["messages"] == []


async def test_content_that_is_not_json_is_refused(platform: Feishu) -> None:
    body = {"receive_id": "oc_team", "msg_type": "interactive", "content": "{"}
    answer = await platform.call("POST", "/im/v1/messages?receive_id_type=chat_id", json=body)
    assert business_code(answer) == 230001


async def test_the_same_uuid_sends_once_within_the_hour(platform: Feishu) -> None:
    first = (await platform.send(card(), uuid="u" * 50)).json()["data"]
    again = await platform.send(card(), uuid="u" * 50)
    assert (again.status_code, again.json()["data"]["message_id"]) == (200, first["message_id"])
    assert len((await platform.http.get("/api/messages")).json()["messages"]) == 1

    await platform.http.post(f"/api/messages/{first['message_id']}/age", json={"days": 1 / 24})
    assert (await platform.send(card(), uuid="u" * 50)).json()["data"]["message_id"] != first["message_id"]
    assert business_code(await platform.send(card(), uuid="u" * 51)) == 230001


async def test_a_reply_hangs_on_what_it_answers_and_dedupes_too(platform: Feishu) -> None:
    first = await platform.sent({"text": "hi"}, msg_type="text")
    body = {"msg_type": "interactive", "content": json.dumps(card()), "uuid": "reply"}
    answers = [await platform.call("POST", f"/im/v1/messages/{first}/reply", json=body) for _ in range(2)]
    data = [answer.json()["data"] for answer in answers]
    assert data[0]["message_id"] == data[1]["message_id"] != first
    assert (data[0]["parent_id"], data[0]["root_id"], data[0]["chat_id"]) == (first, first, "oc_team")
    assert (await platform.shown(data[0]["message_id"]))["reply_to"] == first
    missing = await platform.call("POST", "/im/v1/messages/om_none/reply", json=body)
    assert business_code(missing) == 230001


async def test_a_patch_makes_a_new_revision(platform: Feishu) -> None:
    message_id = await platform.sent(card())
    decided = card({"tag": "markdown", "content": "done"})
    assert (await platform.patch(message_id, decided)).json() == {"code": 0, "msg": "success", "data": {}}
    message = await platform.shown(message_id)
    assert (message["revision"], message["content"], message["revisions"]) == (1, decided, [card(), decided])
    told = (await platform.call("GET", f"/im/v1/messages/{message_id}")).json()["data"]["items"][0]
    assert told["updated"] is True


async def test_a_card_is_patched_only_while_it_says_that_it_is_shared(platform: Feishu) -> None:
    quiet = card()
    del quiet["config"]
    before = await platform.sent(quiet)
    assert business_code(await platform.patch(before, card())) == 230099
    after = await platform.sent(card())
    assert business_code(await platform.patch(after, quiet)) == 230099
    assert (await platform.shown(after))["revision"] == 0


async def test_what_is_too_old_or_no_card_is_not_patched(platform: Feishu) -> None:
    message_id = await platform.sent(card())
    await platform.http.post(f"/api/messages/{message_id}/age", json={"days": 13.9})
    assert business_code(await platform.patch(message_id, card())) == 0
    await platform.http.post(f"/api/messages/{message_id}/age", json={"days": 0.1})
    assert business_code(await platform.patch(message_id, card())) == 230031
    words = await platform.sent({"text": "hi"}, msg_type="text")
    assert business_code(await platform.patch(words, card())) == 230001
    foreign = await platform.sent(card())
    platform.simulator.messages[foreign].sender = "cli_other"
    assert business_code(await platform.patch(foreign, card())) == 230071


async def test_a_request_over_thirty_kilobytes_is_refused(platform: Feishu) -> None:
    def of(size: int) -> dict[str, Any]:
        return card({"tag": "div", "text": text("x" * size)})

    assert business_code(await platform.send(of(30_000))) == 0
    assert business_code(await platform.send(of(30_720))) == 230025


async def test_a_file_is_uploaded_sent_and_fetched_again(platform: Feishu) -> None:
    form = {"file_type": "stream", "file_name": "参数.json"}
    uploaded = await platform.call("POST", "/im/v1/files", data=form, files={"file": ("x", b"{}")})
    file_key = uploaded.json()["data"]["file_key"]
    message_id = await platform.sent({"file_key": file_key}, msg_type="file")

    path = f"/im/v1/messages/{message_id}/resources"
    fetched = await platform.call("GET", f"{path}/{file_key}?type=file")
    assert fetched.content == b"{}"
    assert (await platform.http.get(f"/api/files/{file_key}")).content == b"{}"
    shown = await platform.shown(message_id)
    assert shown["files"] == [{"file_key": file_key, "file_name": "参数.json", "size": 2}]

    assert business_code(await platform.call("GET", f"{path}/file_none?type=file")) == 234003
    assert business_code(await platform.send({"file_key": "file_none"}, msg_type="file")) == 230001
    empty = await platform.call("POST", "/im/v1/files", data=form, files={"file": ("x", b"")})
    assert business_code(empty) == 234010
    unknown = await platform.call(
        "POST", "/im/v1/files", data={**form, "file_type": "exe"}, files={"file": ("x", b"1")}
    )
    assert business_code(unknown) == 234001


async def test_people_are_found_by_each_of_their_ids(platform: Feishu) -> None:
    for kind, identifier in (("open_id", "ou_approver"), ("union_id", "on_approver"), ("user_id", "u_approver")):
        answer = await platform.call("GET", f"/contact/v3/users/{identifier}?user_id_type={kind}")
        assert answer.json()["data"]["user"]["name"] == "李雷"
    assert business_code(await platform.call("GET", "/contact/v3/users/ou_nobody")) == 41012


async def test_members_come_in_pages_and_without_the_bot(platform: Feishu) -> None:
    names: list[str] = []
    token, pages = "", 0
    while True:
        path = f"/im/v1/chats/oc_team/members?page_size=3&page_token={token}&member_id_type=union_id"
        data = (await platform.call("GET", path)).json()["data"]
        names += [item["member_id"] for item in data["items"]]
        token, pages = data["page_token"], pages + 1
        if not data["has_more"]:
            break
    assert (names, pages) == (["on_requester", "on_approver", "on_outsider", "on_operator"], 2)
    assert business_code(await platform.call("GET", "/im/v1/chats/oc_elsewhere/members")) == 232011
    assert business_code(await platform.call("GET", "/im/v1/chats/oc_none/members")) == 232006
    chat = (await platform.call("GET", "/im/v1/chats/oc_ops")).json()["data"]
    assert (chat["name"], chat["chat_mode"], chat["user_count"]) == ("值班 · Operators", "group", "2")


async def test_what_the_platform_does_not_have_is_not_found(platform: Feishu) -> None:
    assert (await platform.call("POST", "/im/v1/pins")).status_code == 404
    assert (await platform.http.get("/nothing.html")).status_code == 404


async def test_everyone_cannot_be_mentioned_in_a_text_either(platform: Feishu) -> None:
    loud = {"text": '<at user_id="all">all</at> hello'}
    assert business_code(await platform.send(loud, msg_type="text")) == 230027


async def test_one_chat_gets_five_messages_a_second(platform: Feishu, clock: Clock) -> None:
    codes = [business_code(await platform.send(card(), uuid=f"n{number}")) for number in range(6)]
    assert codes == [0, 0, 0, 0, 0, 230020]
    assert business_code(await platform.send(card(), "oc_ops")) == 0
    assert business_code(await platform.send(card(), uuid="n0")) == 0  # sends nothing, so counts for nothing
    clock.now += 1.0
    assert business_code(await platform.send(card())) == 0


async def test_one_card_is_patched_five_times_a_second(platform: Feishu, clock: Clock) -> None:
    message_id = await platform.sent(card())
    codes = [business_code(await platform.patch(message_id, card())) for _ in range(6)]
    assert codes == [0, 0, 0, 0, 0, 230020]


async def test_the_app_is_told_how_long_to_wait(platform: Feishu, clock: Clock) -> None:
    for _ in range(50):
        assert business_code(await platform.call("GET", "/contact/v3/users/ou_approver")) == 0
    refused = await platform.call("GET", "/contact/v3/users/ou_approver")
    assert (refused.status_code, business_code(refused)) == (429, 99991400)
    clock.now += int(refused.headers["x-ogw-ratelimit-reset"])
    assert business_code(await platform.call("GET", "/contact/v3/users/ou_approver")) == 0


async def test_benchmarks_can_do_without_limits() -> None:
    async with feishu(Settings(limits=False)) as unlimited:
        assert {business_code(await unlimited.send(card())) for _ in range(60)} == {0}


async def test_members_of_a_group_can_change_until_the_next_reset(platform: Feishu) -> None:
    async def members() -> set[str]:
        answer = await platform.call("GET", "/im/v1/chats/oc_ops/members?member_id_type=open_id")
        return {item["member_id"] for item in answer.json()["data"]["items"]}

    changed = await platform.http.put("/api/chats/oc_ops/members", json={"members": ["ou_outsider", "ou_outsider"]})
    assert changed.json() == {"chat_id": "oc_ops", "members": ["ou_outsider"]}
    assert await members() == {"ou_outsider"}
    for chat, given, status in (
        ("oc_none", ["ou_outsider"], 404),
        ("oc_p2p_requester", ["ou_outsider"], 404),
        ("oc_ops", ["ou_nobody"], 422),
        ("oc_ops", [], 422),
    ):
        refused = await platform.http.put(f"/api/chats/{chat}/members", json={"members": given})
        assert refused.status_code == status
    await platform.http.post("/api/reset")
    assert await members() == {"ou_operator", "ou_approver"}
