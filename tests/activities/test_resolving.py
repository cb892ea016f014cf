"""Who somebody is and which chat a message is in: asked of Feishu where a plan depends on it, never taken on trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity, names
from assent.types import State
from tests.conftest import Service
from tests.support import servers
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, buttons, open_feishu_service
from tests.support.policies import rule
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import Web

BY_UNION = Identity(union_id="on_requester")
NOBODY = Identity(open_id="ou_nobody")
DENIED = rule('requesters = ["open_id:ou_requester"]', 'execution = "deny"', name="not-them")
NOT_HERE = rule('conversations = ["oc_team"]', 'execution = "deny"', name="not-here")
USERS_DOWN = {"on": "users", "kind": "5xx"}


@pytest.fixture
async def feishu(tmp_path: Path, temporal_address: str, namespaces: Iterator[str]) -> AsyncIterator[FeishuService]:
    """A service whose ledger has met nobody."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path)


async def steps(service: Service, handle: ApprovalHandle) -> Counter[str]:
    """The activities that an approval had scheduled."""
    history = await service.client.get_workflow_handle(names.approval_workflow(handle.id)).fetch_history()
    scheduled = (each.activity_task_scheduled_event_attributes for each in history.events)
    return Counter(each.activity_type.name for each in scheduled if each.activity_type.name)


async def shown(handle: ApprovalHandle) -> State:
    async def pending() -> State | None:
        state = await handle.state()
        return state if state.phase != "preparing" else None

    return await until(pending)


# Who asks


async def test_a_rule_for_a_person_holds_by_whatever_id_they_are_named(feishu: FeishuService, tmp_path: Path) -> None:
    async with feishu.service.policy(DENIED):
        first = await feishu.ask(tmp_path, requester=BY_UNION)
        outcome = await first.outcome()
        assert outcome.status == "rejected"
        assert outcome.reason == "the operator's rule 'not-them' does not allow it"
        assert await steps(feishu.service, first) == {"resolve": 1, "record_ending": 1}
        plan = await feishu.service.ledger.plan(first.id)
        assert plan is not None
        whole = {"open_id:ou_requester", "union_id:on_requester", "user_id:u_requester"}
        assert plan.requester.keys == whole
        again = await feishu.ask(tmp_path, requester=Identity(user_id="u_requester"))
        assert (await again.outcome()).status == "rejected"
        assert await steps(feishu.service, again) == {"record_ending": 1}, "Feishu is asked once for each person"
    assert await feishu.chat.messages() == []


async def test_what_depends_on_nobody_asks_nobody(feishu: FeishuService, tmp_path: Path) -> None:
    await feishu.chat.misbehave({"on": "users", "kind": "refuse"}, {"on": "message", "kind": "refuse"})
    async with feishu.service.policy(rule('tools = ["other"]', 'requesters = ["open_id:x"]', 'execution = "deny"')):
        handle = await feishu.ask(tmp_path, requester=BY_UNION, chat_id="oc_team", thread_id="t")
        await shown(handle)
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    assert await steps(feishu.service, handle) == {"record_ending": 1}


async def test_within_one_scope_a_person_is_one_by_whatever_id(feishu: FeishuService, tmp_path: Path) -> None:
    outcomes = []
    for who in (REQUESTER, BY_UNION):
        handle = await feishu.ask(tmp_path, requester=who, idempotency_scope="s")
        await shown(handle)
        outcomes.append(await feishu.service.decided(handle, actor=Identity(open_id="ou_requester")))
    assert [outcome.status for outcome in outcomes] == ["executed", "replayed"]
    assert outcomes[0].idempotency_key == outcomes[1].idempotency_key
    assert "tenant_1/open_id:ou_requester" in str(outcomes[0].idempotency_key)
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("needs", [{"message_id": "m"}, {"thread_id": "t", "when_pending": "fail"}])
async def test_somebody_whom_feishu_does_not_know_is_refused(
    feishu: FeishuService, tmp_path: Path, needs: dict[str, str]
) -> None:
    handle = await feishu.ask(tmp_path, requester=NOBODY, **needs)
    outcome = await handle.outcome()
    assert outcome.status == "failed"
    assert "who open_id:ou_nobody is could not be found out. Feishu refused (41012)" in str(outcome.reason)
    assert await feishu.chat.messages() == []
    state = await feishu.service.ledger.state(handle.id)
    assert state is not None
    assert state.reason == outcome.reason


async def test_ids_of_two_people_are_not_one_requester(feishu: FeishuService, tmp_path: Path) -> None:
    mixed = Identity(open_id="ou_requester", union_id="on_approver")
    first = await (await feishu.ask(tmp_path, requester=mixed, message_id="m")).outcome()
    assert (first.status, marks(tmp_path / "marks")) == ("failed", 0)
    assert "not all of one person" in str(first.reason)
    known = await feishu.service.ledger.person(REQUESTER.within("tenant_1"))
    assert "union_id:on_approver" not in known.keys, "what an agent says teaches nothing"


async def test_nobody_consents_for_another_under_one_of_their_ids(feishu: FeishuService, tmp_path: Path) -> None:
    mixed = Identity(open_id="ou_requester", union_id="on_approver")
    handle = await feishu.ask(tmp_path, requester=mixed, chat_id="oc_team")
    outcome = await handle.outcome()
    assert (outcome.status, marks(tmp_path / "marks")) == ("failed", 0)
    assert "not all of one person" in str(outcome.reason)
    assert await feishu.chat.messages() == []


async def test_one_known_id_does_not_prove_another(feishu: FeishuService, tmp_path: Path) -> None:
    await feishu.service.ledger.learn(Identity(open_id="ou_requester", user_id="u_requester", tenant_key="tenant_1"))
    mixed = Identity(open_id="ou_requester", union_id="on_approver")
    assert (await (await feishu.ask(tmp_path, requester=mixed)).outcome()).status == "failed"


async def test_ids_of_one_person_are_proved_once(feishu: FeishuService, tmp_path: Path) -> None:
    whole = Identity(open_id="ou_requester", union_id="on_requester")
    asked = []
    for _ in range(2):
        handle = await feishu.ask(tmp_path, requester=whole)
        assert (await feishu.decided(handle)).status == "executed"
        asked.append((await steps(feishu.service, handle))["resolve"])
    assert asked == [1, 0]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ('approvers = [{people = ["open_id:ou_approver"]}]', 0),
        ('execution = "auto"', 0),
        ('approvers = [{people = ["open_id:ou_approver"]}]\nexecution = "ask-once"', 1),
        ('requesters = ["open_id:ou_requester"]\nexecution = "auto"', 1),
        ('when = "requester.open_id != \'x\'"\nexecution = "auto"', 1),
    ],
)
async def test_several_ids_are_proved_where_something_depends_on_who_asks(
    feishu: FeishuService, tmp_path: Path, said: str, asked: int
) -> None:
    async with feishu.service.policy(rule(*said.splitlines(), name="it")):
        handle = await feishu.ask(tmp_path, requester=Identity(open_id="ou_requester", union_id="on_requester"))
        await shown(handle)
        await handle.cancel()
        await handle.outcome()
        assert (await steps(feishu.service, handle))["resolve"] == asked


async def test_an_edit_that_leaves_it_to_the_requester_asks_who_that_is(feishu: FeishuService, tmp_path: Path) -> None:
    policy = rule("when = \"arguments.note == 'mine'\"", 'approvers = [{who = "requester"}]', name="mine") + rule(
        'approvers = [{people = ["open_id:ou_approver"]}]', name="others"
    )
    async with feishu.service.policy(policy):
        handle = await feishu.ask(tmp_path, requester=Identity(open_id="ou_requester", union_id="on_approver"))
        state = await shown(handle)
        changed = {"path": str(tmp_path / "marks"), "note": "mine"}
        verdict = await handle.decide("edit", actor=APPROVER, payload_sha256=state.payload_sha256, arguments=changed)
        assert verdict.kind == "invalid"
        assert (await handle.state()).phase == "pending"


async def test_an_exclusion_knows_whom_it_excludes(feishu: FeishuService, tmp_path: Path) -> None:
    others = rule('approvers = [{who = "anyone", exclude_requester = true}]', name="others")
    async with feishu.service.policy(others):
        handle = await feishu.ask(tmp_path, requester=Identity(user_id="u_requester"), chat_id="oc_team")
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=REQUESTER) == "forbidden"
        assert await feishu.click(handle, card, who=APPROVER) == "accepted", "by its open_id alone it is somebody else"
        assert (await handle.outcome()).status == "executed"


# Feishu is down, slow, or never answers


async def test_while_feishu_is_down_an_approval_waits_and_goes_on(feishu: FeishuService, tmp_path: Path) -> None:
    await feishu.chat.misbehave(USERS_DOWN)
    handle = await feishu.ask(tmp_path, message_id="m", chat_id="oc_team")
    assert (await feishu.service.as_it_stands(handle)).phase == "preparing"
    await feishu.chat.misbehave({"on": "users", "kind": "slow", "seconds": 1})
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card) == "accepted"
    assert (await handle.outcome()).status == "executed"


async def test_a_request_can_be_withdrawn_while_feishu_is_asked(feishu: FeishuService, tmp_path: Path) -> None:
    await feishu.chat.misbehave(USERS_DOWN)
    handle = await feishu.ask(tmp_path, message_id="m", chat_id="oc_team")
    assert (await feishu.service.as_it_stands(handle)).phase == "preparing"
    await handle.cancel(reason="changed my mind")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason) == ("cancelled", "changed my mind")
    assert await feishu.service.events(handle.id) == ["write_request", "cancel"]
    assert await feishu.chat.messages() == []


async def test_what_feishu_never_says_expires(feishu: FeishuService, tmp_path: Path) -> None:
    await feishu.chat.misbehave(USERS_DOWN)
    handle = await feishu.ask(tmp_path, message_id="m", chat_id="oc_team", ttl=timedelta(seconds=3))
    outcome = await handle.outcome()
    assert outcome.status == "expired"
    assert "Feishu could not say in time" in str(outcome.reason)
    assert await feishu.service.events(handle.id) == ["write_request", "expire"]
    assert await feishu.chat.messages() == []


# Where it is asked


async def message_in(feishu: FeishuService, directory: Path, chat_id: str) -> str:
    """A message that lies in a chat."""
    handle = await feishu.ask(directory, chat_id=chat_id)
    message_id: str = (await feishu.chat.card(handle.id))["message_id"]
    return message_id


async def test_a_rule_for_a_chat_holds_for_replies_into_it(feishu: FeishuService, tmp_path: Path) -> None:
    here, there = await message_in(feishu, tmp_path, "oc_team"), await message_in(feishu, tmp_path, "oc_ops")
    async with feishu.service.policy(NOT_HERE):
        denied = await (await feishu.ask(tmp_path, reply_to=here)).outcome()
        assert (denied.status, denied.reason) == ("rejected", "the operator's rule 'not-here' does not allow it")
        elsewhere = await feishu.ask(tmp_path, reply_to=there)
        assert (await shown(elsewhere)).phase == "pending"
        plan = await feishu.service.ledger.plan(elsewhere.id)
        assert plan is not None
        assert (plan.conversation, plan.chat_is_known) == ("oc_ops", True)
        assert await steps(feishu.service, elsewhere) == {"resolve": 1}


async def test_a_chats_grant_does_not_count_for_a_reply_elsewhere(feishu: FeishuService, tmp_path: Path) -> None:
    first = await feishu.ask(tmp_path, "ask_once", chat_id="oc_team")
    card = await feishu.chat.card(first.id)
    assert await feishu.click(first, card, "approve_tool") == "accepted"
    assert (await first.outcome()).status == "executed"
    elsewhere = await message_in(feishu, tmp_path, "oc_ops")
    call = {"chat_id": "oc_team", "arguments": {"note": "another"}}
    hidden = await (await feishu.ask(tmp_path, "ask_once", reply_to=elsewhere, **call)).outcome()
    assert (hidden.status, hidden.grant_id) == ("failed", None)
    assert "not in the chat that chat_id names" in str(hidden.reason)
    answered = await feishu.ask(tmp_path, "ask_once", reply_to=card["message_id"], **call)
    assert (await answered.outcome()).grant_id is not None, "a reply in the chat itself"
    assert (await steps(feishu.service, answered))["resolve"] == 1


async def test_a_chat_that_is_not_the_messages_own_is_refused(feishu: FeishuService, tmp_path: Path) -> None:
    here = await message_in(feishu, tmp_path, "oc_team")
    before = len(await feishu.chat.messages())
    async with feishu.service.policy(NOT_HERE):
        outcome = await (await feishu.ask(tmp_path, reply_to=here, chat_id="oc_ops")).outcome()
    assert outcome.status == "failed"
    assert "not in the chat that chat_id names" in str(outcome.reason)
    assert "oc_team" not in str(outcome.reason)
    assert len(await feishu.chat.messages()) == before


async def test_a_message_that_feishu_does_not_know_is_refused(feishu: FeishuService, tmp_path: Path) -> None:
    async with feishu.service.policy(NOT_HERE):
        outcome = await (await feishu.ask(tmp_path, reply_to="om_unheard_of")).outcome()
    assert outcome.status == "failed"
    assert "which chat the message is in could not be found out" in str(outcome.reason)


async def test_an_edit_is_held_to_rules_that_depend_on_the_chat(feishu: FeishuService, tmp_path: Path) -> None:
    here = await message_in(feishu, tmp_path, "oc_team")
    large = rule(
        'conversations = ["oc_team"]',
        "when = \"has(arguments.note) && arguments.note == 'large'\"",
        'execution = "deny"',
        name="large",
    )
    async with feishu.service.policy(large):
        handle = await feishu.ask(tmp_path, reply_to=here)
        state = await shown(handle)
        assert await steps(feishu.service, handle) == {}, "nothing depended on it yet"
        arguments = {"path": str(tmp_path / "marks"), "note": "large"}
        await handle.decide("edit", actor=REQUESTER, payload_sha256=state.payload_sha256, arguments=arguments)
        outcome = await handle.outcome()
    assert (outcome.status, outcome.reason) == ("rejected", "the operator's rule 'large' does not allow it")
    assert marks(tmp_path / "marks") == 0


# A token that is bound to chats


async def test_a_reply_does_not_escape_a_tokens_chats(feishu: FeishuService, tmp_path: Path) -> None:
    here, there = await message_in(feishu, tmp_path, "oc_team"), await message_in(feishu, tmp_path, "oc_ops")
    bound = {"tools": ["*"], "on_behalf_of": ["*"], "chats": ["oc_ops"]}
    web = Web(feishu.service, tmp_path, {"bound": bound})

    async def ask(**where: str) -> dict[str, Any]:
        body = {
            "tool": "mark",
            "arguments": {"path": str(tmp_path / "marks")},
            "requester": {"open_id": "ou_requester"},
            **where,
        }
        answer = await http.post("/v1/approvals", json=body)
        found: dict[str, Any] = answer.json()
        return found if answer.status_code != 201 else await until(lambda: taken(found["approval_id"]))

    async def taken(approval_id: str) -> dict[str, Any] | None:
        answer = await http.get(f"/v1/approvals/{approval_id}")
        found: dict[str, Any] = answer.json()
        is_told = answer.status_code == 200 and (found["phase"] == "pending" or found["outcome"])
        return found if is_told else None

    async with web.http("bound") as http:
        refused = await ask(reply_to=here)
        assert (refused["status"], "say in chat_id which one it is" in refused["detail"]) == (403, True)
        assert (await ask(reply_to=here, chat_id="oc_team"))["status"] == 403
        escaped = await ask(reply_to=here, chat_id="oc_ops")
        assert (escaped["phase"], escaped["status"]) == ("closed", "failed")
        assert "not in the chat that chat_id names" in escaped["outcome"]["reason"]
        allowed = await ask(reply_to=there, chat_id="oc_ops")
        assert (allowed["phase"], allowed["status"]) == ("pending", None)
    cards = [message for message in await feishu.chat.messages("oc_team") if buttons(message["content"])]
    assert [message["message_id"] for message in cards] == [here], "no card was sent where it must not be"


# What is learned for free


async def over(feishu: FeishuService, handle: ApprovalHandle) -> None:
    """Its outcome is told as soon as it is on record, and what is learned comes after."""
    await feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id)).result()


@pytest.mark.parametrize(("proof", "is_learned"), [("feishu-signature", True), ("feishu-token", False)])
async def test_a_click_that_feishu_signed_teaches_who_is_who(
    feishu: FeishuService, tmp_path: Path, proof: str, is_learned: bool
) -> None:
    handle = await feishu.ask(tmp_path, chat_id="oc_team")
    card = await feishu.chat.card(handle.id)
    whole = Identity(open_id="ou_requester", union_id="on_requester")
    assert await feishu.click(handle, card, who=whole, proof=proof) == "accepted"
    await over(feishu, handle)
    known = await feishu.service.ledger.person(BY_UNION.within("tenant_1"))
    assert (known.standing == "open_id:ou_requester") is is_learned


async def test_what_another_door_says_of_somebody_teaches_nothing(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path)
    await shown(handle)
    both = Identity(open_id="ou_requester", union_id="on_approver")
    assert (await feishu.service.decided(handle, actor=both)).status == "executed"
    await over(feishu, handle)
    assert (await feishu.service.ledger.person(REQUESTER.within("tenant_1"))).standing is None
