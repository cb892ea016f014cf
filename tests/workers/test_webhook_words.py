"""What people write to the bot, and remembered decisions that they revoke on a card."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.feishu.verifier import Verifier
from activities.inbox import InboxActivities
from activities.links import chat_url
from activities.memberships import learn_members
from assent import Assent, Unavailable
from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Stage
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.names import inbox_reply_workflow
from assent.settings import Settings
from cards import Event, RevokeClick, Wording
from cards.controls import VALUE_VERSION
from cards.elements import tags, weight
from cards.framing import MOST_BYTES, MOST_TAGS
from cards.inbox import MOST_LISTED, Place, Waiting, inbox_card
from ledger import Ledger
from tests.conftest import new_database
from tests.support import servers
from tests.support.cards import plan
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, open_feishu_service
from tests.support.ledgers import propose
from tests.support.patience import PATIENCE
from tests.support.questions import WHERE
from tests.support.waiting import until
from tests.support.web import TENANT, Web, click_event, sealed, signed
from workers import callbacks, longconn
from workers.callbacks import Callbacks
from workers.clicks import answer_revoke
from workers.private_messages import PrivateMessages, enquiry_of

WORDING = Wording.load()


def written(
    message_id: str, open_id: str = "ou_requester", *, chat_type: str = "p2p", sender: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A message to the bot, as the platform tells of it."""
    event = click_event({}, message_id, event_type="im.message.receive_v1")
    event["event"] = {
        "sender": {
            "sender_id": {"open_id": open_id, "union_id": "", "user_id": None},
            "sender_type": "user",
            "tenant_key": TENANT,
            **(sender or {}),
        },
        "message": {
            "message_id": message_id,
            "chat_id": "oc_p2p",
            "chat_type": chat_type,
            "message_type": "text",
            "content": json.dumps({"text": "我的待办"}),
        },
    }
    return event


def event_of(told: dict[str, Any]) -> Event:
    header = told["header"]
    return Event(event_id=header["event_id"], event_type=header["event_type"], event=told["event"])


# Who is heard


def test_a_private_message_is_an_enquiry() -> None:
    found = enquiry_of(event_of(written("om_1")), TENANT)
    assert found is not None
    assert (found.message_id, found.sender) == ("om_1", Identity(open_id="ou_requester", tenant_key=TENANT))


@pytest.mark.parametrize(
    "told",
    [
        written("om_1", chat_type="group"),
        written("om_1", sender={"sender_type": "app"}),
        written("om_1", sender={"tenant_key": "another"}),
        written("om_1", sender={"sender_id": {"open_id": ""}}),
        written("om_1", sender={"sender_id": "ou_requester"}),
        written(""),
        {"header": {"event_id": "e", "event_type": "im.chat.updated_v1"}, "event": written("om_1")["event"]},
        {"header": {"event_id": "e", "event_type": "im.message.receive_v1"}, "event": {"message": []}},
    ],
)
def test_groups_bots_strangers_and_nonsense_are_not_answered(told: dict[str, Any]) -> None:
    assert enquiry_of(event_of(told), TENANT) is None


async def test_what_cannot_be_recorded_is_told_again_by_the_platform() -> None:
    class Gone:
        async def start_workflow(self, *_: object, **__: object) -> None:
            raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")

    with pytest.raises(Unavailable):
        await PrivateMessages(cast("Client", Gone()), TENANT).take(event_of(written("om_1")))


# The card


def test_the_card_lists_what_waits_and_says_how_much_more() -> None:
    waiting = [Waiting(plan(), Stage.CALL), Waiting(plan(), Stage.RESULT)]
    card = inbox_card(waiting, 3, WORDING)
    assert all(text in card for text in ("5 waiting for you", "有 5 项等待你处理", "send_invoice", "and 3 more"))
    assert "The result of send_invoice" in card
    assert "behaviors" not in card
    assert "Nothing is waiting for you" in inbox_card([], 0, WORDING)


def test_the_card_names_the_chat_of_each_and_leads_there() -> None:
    url = chat_url("https://open.feishu.cn", "oc_1")
    card = inbox_card([Waiting(plan(), Stage.CALL, Place("Payments", url))], 0, WORDING)
    assert all(text in card for text in ("In the chat [Payments]", "会话：[Payments]"))
    assert "https://applink.feishu.cn/client/chat/open?openChatId=oc_1" in card
    assert "](" not in inbox_card([Waiting(plan(), Stage.CALL, Place("Payments](x", None))], 0, WORDING)
    assert chat_url("https://open.larksuite.com", "oc/1") == (
        "https://applink.larksuite.com/client/chat/open?openChatId=oc%2F1"
    )
    assert chat_url("https://feishu.example.com", "oc_1") is None


def test_the_longest_card_fits() -> None:
    place = Place("群" * 200, chat_url("https://open.feishu.cn", "oc_" + "x" * 32))
    card = inbox_card([Waiting(plan(tool="长" * 200), Stage.CALL, place)] * MOST_LISTED, 10_000, WORDING)
    assert weight(card) <= MOST_BYTES
    assert tags(card) <= MOST_TAGS


# The answer


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def web(feishu: FeishuService, tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(feishu.service, tmp_path_factory.mktemp("web"))


async def send(web: Web, told: dict[str, Any]) -> int:
    body = sealed(told)
    async with web.http(None, web.hook) as http:
        answer = await http.post("/feishu/callback", content=body, headers=signed(body))
    return answer.status_code


async def a_message(feishu: FeishuService, open_id: str) -> str:
    """A message in a private chat; the platform lets only existing ones be answered."""
    feishu_client = Feishu.of(feishu.service.settings)
    assert feishu_client is not None
    try:
        to = Address(kind=AddressKind.OPEN_ID, id=open_id)
        return (await feishu_client.send(to, "text", json.dumps({"text": "hello"}), uuid=uuid.uuid4().hex)).message_id
    finally:
        await feishu_client.close()


async def answers(feishu: FeishuService, message_id: str) -> list[dict[str, Any]]:
    """What was answered to a message, once the answering is over."""
    workflow = feishu.service.client.get_workflow_handle(inbox_reply_workflow(message_id))
    await workflow.result()
    return [message for message in await feishu.chat.messages() if message.get("reply_to") == message_id]


async def test_a_private_message_is_answered_once_with_what_waits(
    feishu: FeishuService, web: Web, tmp_path: Path
) -> None:
    mine = await feishu.ask(tmp_path, reason="mine", chat_id="oc_team")
    theirs = await feishu.ask(tmp_path, "by_two", requester=REQUESTER)
    for handle in (mine, theirs):
        await handle.state()
    message_id = await a_message(feishu, "ou_requester")
    told = written(message_id)
    assert [await send(web, told), await send(web, {**told, "header": {**told["header"], "event_id": "again"}})] == [
        200,
        200,
    ]
    (answer,) = await answers(feishu, message_id)
    text = json.dumps(answer["content"], ensure_ascii=False)
    assert answer["chat_id"] == "oc_p2p_requester"
    assert "mark" in text
    assert "by_two" not in text
    assert "付款审批 · Payments" in text
    assert "/?chat=oc_team" in text
    at_approver = await a_message(feishu, "ou_approver")
    await send(web, written(at_approver, "ou_approver"))
    (answer,) = await answers(feishu, at_approver)
    assert "by_two" in json.dumps(answer["content"], ensure_ascii=False)
    for handle in (mine, theirs):
        await handle.cancel()
        await handle.outcome()


async def test_what_is_decided_or_was_approved_by_me_waits_for_me_no_longer(
    feishu: FeishuService, tmp_path: Path
) -> None:
    verifier = Verifier(app_id="cli_assent", tenant_key=TENANT, encrypt_key=None, verification_token="x")
    messages = PrivateMessages(feishu.service.client, TENANT)
    connection = partial(longconn.answer, verifier, Callbacks(feishu.service.gate, WORDING, messages=messages))

    async def waits(person: Identity) -> str:
        message_id = await a_message(feishu, str(person.open_id))
        assert await connection(json.dumps(written(message_id, str(person.open_id))).encode()) is None
        (answer,) = await answers(feishu, message_id)
        return json.dumps(answer["content"], ensure_ascii=False)

    assert "Nothing is waiting for you" in await waits(APPROVER)
    handle = await feishu.ask(tmp_path, "looked_at", requester=APPROVER)
    await handle.state()
    assert "looked_at" in await waits(APPROVER)
    sha = (await handle.state()).payload_sha256
    await handle.decide("approve", actor=APPROVER.within(TENANT), payload_sha256=sha)

    async def reviewing() -> str | None:
        state = await handle.state()
        return state.result_sha256 if state.phase == "reviewing" else None

    async def result_waits() -> bool | None:
        """The ledger is told whom it waits for right after the approval knows."""
        return "The result of looked_at" in await waits(APPROVER) or None

    result = await until(reviewing)
    await until(result_waits)
    await handle.decide("approve", actor=APPROVER.within(TENANT), payload_sha256=result, stage="result")
    await handle.outcome()
    assert "Nothing is waiting for you" in await waits(APPROVER)


async def test_questions_are_in_every_inbox(feishu: FeishuService, web: Web) -> None:
    person = Identity(open_id="ou_approver", tenant_key=TENANT)
    handle = await feishu.service.gate.ask(WHERE, requester=REQUESTER, people=[person], thread_id="thread-q")
    message_id = await a_message(feishu, "ou_approver")
    await send(web, written(message_id, "ou_approver"))
    (answer,) = await answers(feishu, message_id)
    assert WHERE.prompt in json.dumps(answer["content"], ensure_ascii=False)
    states = [state async for state in feishu.service.gate.inbox(person, thread_id="thread-q")]
    assert [getattr(state, "question_id", None) for state in states] == [handle.id]
    async with web.http("approver") as http:
        for thread, expected in (("thread-q", [handle.id]), ("another", [])):
            shown = await http.get("/v1/inbox", params={"actor": "open_id:ou_approver", "thread_id": thread})
            assert [state["question_id"] for state in shown.json()["questions"]] == expected
    await handle.cancel()
    await handle.answer()
    assert [state async for state in feishu.service.gate.inbox(person, thread_id="thread-q")] == []


TWO_OF_THREE = """
[[rule]]
name = "two of three"
tools = ["mark"]
approvers = {people = ["open_id:ou_requester", "open_id:ou_approver", "open_id:ou_outsider"], threshold = 2}
"""


async def test_every_inbox_lists_what_waits_for_whom(feishu: FeishuService, web: Web, tmp_path: Path) -> None:
    """Two of three must approve, and one has: the bot, the HTTP API, the client and the command line agree."""
    people = [Identity(open_id=f"ou_{name}", tenant_key=TENANT) for name in ("requester", "approver", "outsider")]
    async with feishu.service.policy(TWO_OF_THREE):
        handle = await feishu.ask(tmp_path, "mark", requester=REQUESTER)
        await handle.state()
    seen = (await handle.state()).payload_sha256

    async def listed(person: Identity) -> set[str]:
        """Where it is listed for this person."""
        found: set[str] = set()
        message_id = await a_message(feishu, str(person.open_id))
        await send(web, written(message_id, str(person.open_id)))
        (answer,) = await answers(feishu, message_id)
        if "mark" in json.dumps(answer["content"]):
            found.add("bot")
        if handle.id in {state.approval_id async for state in feishu.service.gate.inbox(person)}:
            found.add("client")
        async with web.http("approver") as http:
            shown = await http.get("/v1/inbox", params={"actor": f"open_id:{person.open_id}"})
        if handle.id in {state["approval_id"] for state in shown.json()["waiting"]}:
            found.add("http")
        return found

    async def are_listed(*expected: tuple[Identity, bool]) -> None:
        """The ledger is told right after the approval knows: only the bot, which asks nobody else, may lag behind."""
        for person, waits in expected:
            found = await listed(person)
            assert found - {"bot"} == ({"client", "http"} if waits else set())

            async def so(person: Identity = person, waits: bool = waits) -> bool | None:
                return ("bot" in await listed(person)) is waits or None

            await until(so)

    await are_listed(*((person, True) for person in people))
    first = await handle.decide("approve", actor=people[0], payload_sha256=seen)
    assert (first.kind, first.approvals, first.needed) == ("accepted", 1, 2)
    await are_listed(*zip(people, (False, True, True), strict=True))
    delegate = Identity(open_id="ou_operator", tenant_key=TENANT)
    await handle.decide("delegate", actor=people[1], payload_sha256=seen, delegate_to=delegate)
    await are_listed(*zip((*people, delegate), (False, False, True, True), strict=True))
    await handle.cancel()
    await handle.outcome()


SEALED = """
[[rule]]
name = "members"
tools = ["mark"]
approvers = {chat = "oc_ops"}
result = "always"
"""


async def test_who_does_not_belong_to_the_chat_is_shown_neither_the_call_nor_its_result(
    feishu: FeishuService, web: Web, tmp_path: Path
) -> None:
    """Nor while Feishu does not say who does; and looking starts no workflow."""
    member, outsider = (Identity(open_id=f"ou_{name}", tenant_key=TENANT) for name in ("approver", "outsider"))
    async with feishu.service.policy(SEALED):
        handle = await feishu.ask(tmp_path, "mark", requester=REQUESTER)
        seen = (await handle.state()).payload_sha256

        async def listed(person: Identity) -> bool:
            async with web.http("approver") as http:
                shown = (await http.get("/v1/inbox", params={"actor": f"open_id:{person.open_id}"})).json()
            return handle.id in {state["approval_id"] for state in shown["waiting"]}

        async def result(person: Identity) -> int:
            async with web.http("approver") as http:
                found = await http.get(
                    f"/v1/approvals/{handle.id}/result", params={"actor": f"open_id:{person.open_id}"}
                )
            return found.status_code

        assert not await listed(member), "nobody has asked yet who belongs to the chat"
        client = Feishu.of(feishu.service.settings)
        assert client is not None
        await learn_members(feishu.service.ledger, client)
        await client.close()
        assert (await listed(member), await listed(outsider)) == (True, False)
        await handle.decide("approve", actor=member, payload_sha256=seen)

        async def reviewing() -> bool | None:
            return (await handle.state()).phase == "reviewing" or None

        await until(reviewing)
        assert (await result(member), await result(outsider)) == (200, 404)
        assert await handle.result(actor=member) is not None
        assert await handle.result(actor=outsider) is None
        recalls = [each async for each in feishu.service.client.list_workflows('WorkflowType = "Recall"')]
        assert recalls == []
        await handle.decide("reject", actor=member, payload_sha256=(await handle.state()).result_sha256, stage="result")
        await handle.outcome()


async def test_only_members_are_told_what_a_chat_decides(tmp_path: Path) -> None:
    class Platform:
        sent: tuple[str, ...] = ()

        async def members(self, chat_id: str, *, fresh: bool) -> frozenset[str]:
            if chat_id == "oc_left":
                raise FeishuRefused(232011, "the bot is not in the chat")
            if chat_id == "oc_silent":
                raise FeishuUnavailable("too many questions")
            return frozenset({"ou_member"})

        async def send(self, _: Address, __: str, content: str, *, uuid: str) -> None:
            self.sent = (*self.sent, content)

    ledger = Ledger.open(await new_database("sqlite", tmp_path))
    await ledger.upgrade()
    for chat in ("oc_1", "oc_left", "oc_silent"):
        await propose(ledger, {"in": chat}, approvers=Approvers(kind=Approvers.Kind.CHAT, chat_id=chat))

    platform = Platform()
    asked = InboxActivities(ledger, cast("Feishu", platform), WORDING, Settings())
    for open_id in ("ou_member", "ou_stranger"):
        enquiry = Enquiry(sender=Identity(open_id=open_id), message_id="om_1")
        await ActivityEnvironment().run(asked.reply_inbox, enquiry)
    to_member, to_stranger = platform.sent
    assert "1 waiting for you" in to_member
    assert "oc_1" in to_member
    assert not any(chat in to_member for chat in ("oc_left", "oc_silent")), "what may be another's is told to nobody"
    assert "Nothing is waiting for you" in to_stranger
    await ledger.dispose()


# Revoking on a card


@pytest.mark.parametrize("kind", [*RevokedKind])
async def test_who_revokes_is_told_what_became_of_it(kind: RevokedKind, web: Web) -> None:
    class Gate:
        said: tuple[Any, ...] = ()

        async def revoke(self, grant_id: str, *, actor: Identity, surface: str, seen_on: str | None) -> RevokedKind:
            assert seen_on is None
            self.said = (grant_id, actor.open_id, surface)
            return kind

    gate = Gate()
    verifier = Verifier(app_id="cli_assent", tenant_key=TENANT, encrypt_key=None, verification_token="x")
    click = click_event({"assent": VALUE_VERSION, "revoke": "g-1"}, "om_1")
    answer = await longconn.answer(verifier, Callbacks(cast("Assent", gate), WORDING), json.dumps(click).encode())
    assert answer is not None
    assert set(answer) == {"toast"}
    assert answer["toast"]["type"] in ("success", "info", "error", "warning")
    assert gate.said == ("g-1", "ou_requester", "feishu")


async def test_a_revocation_that_hangs_is_given_up_in_time(web: Web) -> None:
    class Hanging:
        async def revoke(self, *_: object, **__: object) -> RevokedKind:
            await asyncio.Event().wait()
            raise AssertionError

    click = RevokeClick.model_validate(
        {
            "event_id": "e",
            "operator": {"open_id": "ou_1"},
            "grant_id": "g",
            "message_id": "om_1",
            "chat_id": None,
            "occurred_at": 0,
            "proof": "p",
        }
    )
    answer = await asyncio.wait_for(answer_revoke(cast("Assent", Hanging()), click, WORDING, within=0.1), 300)
    assert answer["toast"]["type"] == "error"


async def test_a_grant_is_revoked_by_a_click_through_the_webhook(
    feishu: FeishuService, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "_ANSWER_WITHIN", PATIENCE.total_seconds())
    handle = await feishu.ask(tmp_path, "ask_once")
    sha = (await handle.state()).payload_sha256
    me = REQUESTER.within(TENANT)
    await handle.decide("approve", actor=me, payload_sha256=sha, remember="exact")
    await handle.outcome()
    (grant,) = [each async for each in feishu.service.gate.grants() if each.approval_id == handle.id]
    body = sealed(click_event({"assent": VALUE_VERSION, "revoke": grant.grant_id}, "om_1"))
    async with web.http(None, web.hook) as http:
        answer = await http.post("/feishu/callback", content=body, headers=signed(body))
    assert answer.json()["toast"]["type"] == "success"
    assert await feishu.service.gate.revoke(grant.grant_id, actor=me) == "already_revoked"
