"""Cards go out once, come to say how the approval stands, and no trouble of Feishu's holds up an approval."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import TimeSkipper

from assent import ApprovalHandle, Assent, Outcome
from assent.contracts.audit import ClosingHead
from ledger import MessageKind
from tests.conftest import Service
from tests.recording.card_histories import announced_as_before, carded_as_before
from tests.recording.question_histories import question_announced_as_before, question_shown_as_before
from tests.support import servers
from tests.support.feishu_service import (
    APPROVER,
    OUTSIDER,
    REQUESTER,
    Agent,
    FeishuService,
    buttons,
    open_feishu_service,
)
from tests.support.simulated_feishu import served
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("feishu"))


@pytest.fixture(autouse=True)
async def well_behaved(feishu: FeishuService) -> AsyncIterator[None]:
    yield
    await feishu.chat.behave()


def marks(directory: Path) -> int:
    file = directory / "marks"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def test_the_requester_is_asked_in_private_and_the_card_ends_without_buttons(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await feishu.ask(tmp_path, reason="because")
    card = await feishu.chat.card(handle.id)
    assert card["chat_id"] == "oc_p2p_requester"
    assert set(buttons(card["content"])) == {"approve", "reject", "edit", "delegate"}
    assert await feishu.click(handle, card) == "accepted"
    assert (await handle.outcome()).status == "executed"
    final = await feishu.chat.final(handle.id)
    assert final["message_id"] == card["message_id"]
    assert len(await feishu.chat.cards(handle.id)) == 1
    events = await feishu.service.events(handle.id)
    assert events == ["write_request", "deliver", "confirm", "execute"]
    delivered = (await feishu.service.ledger.entries(handle.id))[1]
    assert delivered.message_id == card["message_id"]


@pytest.mark.parametrize("ending", ["rejected", "expired", "cancelled", "superseded", "failed", "frozen", "replayed"])
async def test_every_ending_takes_the_buttons_away(feishu: FeishuService, tmp_path: Path, ending: str) -> None:
    tool, arguments = {
        "failed": ("ends_with", {"outcome": "blocked"}),
        "frozen": ("raises", {}),
    }.get(ending, ("mark", {}))
    ttl = timedelta(seconds=4) if ending == "expired" else timedelta(minutes=5)
    thread = str(tmp_path)
    handle = await feishu.ask(tmp_path, tool, arguments=arguments, ttl=ttl, thread_id=thread, message_id=thread)
    card = await feishu.chat.card(handle.id)
    match ending:
        case "rejected":
            assert await feishu.click(handle, card, "reject") == "accepted"
        case "cancelled":
            await handle.cancel("no longer needed")
        case "superseded":
            newer = await feishu.ask(tmp_path, arguments={"note": "2"}, thread_id=thread, when_pending="supersede")
            await newer.cancel()
        case "expired":
            pass
        case _:
            assert await feishu.click(handle, card) == "accepted"
    if ending == "replayed":
        await handle.outcome()
        handle = await feishu.ask(tmp_path, message_id=thread)
        assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
    assert (await handle.outcome()).status == ending
    await feishu.chat.final(handle.id)
    assert len(await feishu.chat.cards(handle.id)) == 1


async def test_a_card_goes_to_the_chat_or_message_that_the_agent_names(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, chat_id="oc_team")
    card = await feishu.chat.card(handle.id)
    assert (card["chat_id"], card["reply_to"]) == ("oc_team", None)
    answering = await feishu.ask(tmp_path, reply_to=card["message_id"])
    reply = await feishu.chat.card(answering.id)
    assert (reply["chat_id"], reply["reply_to"]) == ("oc_team", card["message_id"])
    for each in (handle, answering):
        await each.cancel()


async def test_named_approvers_are_each_asked_and_both_see_the_end(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, "by_two")

    async def both() -> list[dict[str, Any]] | None:
        cards = await feishu.chat.cards(handle.id)
        return cards if len(cards) == 2 else None

    cards = await until(both)
    assert {card["chat_id"] for card in cards} == {"oc_p2p_approver", "oc_p2p_operator"}
    (theirs,) = [card for card in cards if card["chat_id"] == "oc_p2p_approver"]
    assert await feishu.click(handle, theirs, who=OUTSIDER) == "forbidden"
    assert await feishu.click(handle, theirs, who=APPROVER) == "accepted"
    assert (await handle.outcome()).status == "executed"

    async def neither_has_buttons() -> bool:
        return not any(buttons(card["content"]) for card in await feishu.chat.cards(handle.id))

    await until(neither_has_buttons)


async def test_undeliverable_card_cancels_the_approval_and_says_why(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, chat_id="oc_elsewhere")
    outcome = await handle.outcome()
    assert outcome.status == "cancelled"
    assert "the bot is not in the chat" in (outcome.reason or "")
    assert await feishu.chat.cards(handle.id) == []
    assert await feishu.service.events(handle.id) == ["write_request", "cancel"]


async def test_large_arguments_are_attached_as_a_file_before_the_card(feishu: FeishuService, tmp_path: Path) -> None:
    text = "很长的说明 " * 8000
    handle = await feishu.ask(tmp_path, arguments={"note": text})
    card = await feishu.chat.card(handle.id)
    (attached,) = await feishu.chat.cards(handle.id, MessageKind.FILE)
    assert attached["created_at"] <= card["created_at"]
    data = (await feishu.chat.http.get(f"/api/files/{attached['content']['file_key']}")).content
    assert text in data.decode()
    assert f"{len(data):,}" in str(card["content"])
    await handle.cancel()
    await feishu.chat.final(handle.id)
    assert len(await feishu.chat.cards(handle.id, MessageKind.FILE)) == 1


async def test_a_lost_answer_leads_to_one_card_that_can_be_clicked_meanwhile(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "lost_answer"})
    handle = await feishu.ask(tmp_path)
    card = await feishu.chat.card(handle.id)
    soon = timedelta(seconds=5)
    assert await feishu.click(handle, card, patience=soon) == "received"  # nobody knows yet that this is its card
    await feishu.chat.behave()
    assert (await handle.outcome()).status == "executed"
    await feishu.chat.final(handle.id)
    assert len(await feishu.chat.cards(handle.id)) == 1
    assert marks(tmp_path) == 1


async def test_decided_elsewhere_while_the_card_was_on_its_way_leaves_no_live_buttons(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "lost_answer"})
    handle = await feishu.ask(tmp_path)
    await feishu.chat.card(handle.id)
    outcome = await feishu.decided(handle)
    assert outcome.status == "executed"
    assert buttons((await feishu.chat.card(handle.id))["content"])
    await feishu.chat.behave()
    await feishu.chat.final(handle.id)
    assert len(await feishu.chat.cards(handle.id)) == 1


async def test_while_feishu_is_down_an_approval_can_be_decided_and_its_end_is_not_shown_as_open(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await feishu.chat.misbehave({"on": "any", "kind": "5xx"})
    handle = await feishu.ask(tmp_path)
    assert (await feishu.decided(handle)).status == "executed"
    await feishu.chat.behave()

    async def settled() -> bool:
        return not await settling(feishu, handle)

    await until(settled)
    assert not any(buttons(card["content"]) for card in await feishu.chat.cards(handle.id))


async def settling(feishu: FeishuService, handle: ApprovalHandle) -> bool:
    """Whether a workflow still tries to show how this approval ended."""
    query = (
        f'WorkflowType = "Settling" AND ExecutionStatus = "Running" AND WorkflowId STARTS_WITH "settling/{handle.id}/"'
    )
    return bool((await feishu.service.client.count_workflows(query)).count)


async def test_feishu_down_all_the_time_lets_the_approval_expire_and_says_so(
    feishu: FeishuService, tmp_path: Path
) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "html"})
    handle = await feishu.ask(tmp_path, ttl=timedelta(seconds=3))
    outcome = await handle.outcome()
    assert outcome.status == "expired"
    assert outcome.reason == "its card could not be delivered before the deadline"


async def test_feishu_down_at_the_end_delays_the_card_and_not_the_outcome(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await feishu.ask(tmp_path)
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx"})
    assert await feishu.click(handle, card) == "accepted"
    assert (await asyncio.wait_for(handle.outcome(), 300)).status == "executed"
    assert buttons((await feishu.chat.card(handle.id))["content"])
    await feishu.chat.behave()
    await feishu.chat.final(handle.id)


async def test_a_call_that_takes_its_time_is_shown_running(feishu: FeishuService, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await feishu.ask(tmp_path, "gated", arguments={"gate": str(gate)})
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card) == "accepted"
    running = await feishu.chat.final(handle.id)
    assert (await handle.state()).phase == "executing"
    gate.touch()
    assert (await handle.outcome()).status == "executed"

    async def changed() -> dict[str, Any] | None:
        now = await feishu.chat.card(handle.id)
        return now if now["content"] != running["content"] else None

    assert not buttons((await until(changed))["content"])


async def test_a_click_counts_only_on_a_card_of_its_own_approval(feishu: FeishuService, tmp_path: Path) -> None:
    one, other = [await feishu.ask(tmp_path, arguments={"note": note}) for note in "12"]
    cards = {handle: await feishu.chat.card(handle.id) for handle in (one, other)}
    borrowed = cards[one] | {"message_id": cards[other]["message_id"]}
    assert await feishu.click(one, borrowed) == "tampered"
    assert (await one.state()).phase == "pending"
    assert await feishu.click(one, cards[one]) == "accepted"
    assert (await one.outcome()).status == "executed"
    assert await feishu.click(one, borrowed | {"content": cards[one]["content"]}, "reject") == "tampered"
    assert await feishu.click(one, cards[one], "reject") == "already_decided"
    await other.cancel()


async def test_people_of_another_tenant_are_other_people(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path)
    state = await handle.state()
    foreign = REQUESTER.within("tenant_2")
    verdict = await handle.decide("approve", actor=foreign, payload_sha256=state.payload_sha256)
    assert verdict.kind == "forbidden"
    assert (await feishu.decided(handle)).status == "executed"


async def test_a_card_that_was_withdrawn_holds_up_nothing(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path)
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "code", "code": 230011})
    assert await feishu.click(handle, card) == "accepted"
    assert (await handle.outcome()).status == "executed"
    assert not await settling(feishu, handle)


async def test_a_card_that_grows_old_is_sent_afresh_and_the_older_ones_lose_their_buttons(
    feishu: FeishuService, tmp_path: Path
) -> None:
    gate = await Assent.connect(client=TimeSkipper(feishu.service.client).client)
    arguments = {"path": str(tmp_path / "marks")}
    handle = await gate.request("mark", arguments, requester=REQUESTER, ttl=timedelta(days=30))
    assert (await handle.outcome()).status == "expired"

    async def all_said() -> list[dict[str, Any]] | None:
        cards = await feishu.chat.cards(handle.id)
        return cards if cards and not any(buttons(card["content"]) for card in cards) else None

    cards = await until(all_said)
    assert len(cards) == 3  # at once, after 13 and after 26 days
    assert await feishu.service.events(handle.id) == ["write_request", "deliver", "deliver", "deliver", "expire"]


async def test_a_card_too_old_to_change_is_followed_by_one_that_tells_the_end(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await feishu.ask(tmp_path)
    card = await feishu.chat.card(handle.id)
    await feishu.chat.http.post(f"/api/messages/{card['message_id']}/age", json={"days": 14})
    assert (await feishu.decided(handle)).status == "executed"

    async def followed() -> list[dict[str, Any]] | None:
        cards = await feishu.chat.cards(handle.id)
        return cards if len(cards) == 2 else None

    _, told = await until(followed)
    assert not buttons(told["content"])


async def test_an_agent_that_asked_for_it_is_told_of_the_outcome_signed_until_it_takes_it(
    feishu: FeishuService, tmp_path: Path
) -> None:
    agent = Agent(500, 503)
    async with served(agent.app) as url:
        handle = await feishu.ask(tmp_path, callback_url=f"{url}/hook")
        outcome = await feishu.decided(handle)

        async def taken() -> bool:
            return len(agent.told) == 3

        await until(taken)
    for headers, body in agent.told:
        assert Outcome.model_validate(json.loads(body)["outcome"]) == outcome
        assert Webhook(b"callback-secret").verify(body, dict(headers)) == json.loads(body)
        head = ClosingHead.model_validate(json.loads(body)["audit"])
        assert head == await feishu.service.ledger.closing_head(handle.id)
        assert await feishu.service.ledger.verify(kept=[head]) == []
    assert len({headers["webhook-id"] for headers, _ in agent.told}) == 1, "a repetition is known by its id"


async def test_announcements_need_a_secret_to_be_signed_with(service: Service, tmp_path: Path) -> None:
    asked = {"path": str(tmp_path / "marks")}
    handle = await service.gate.request("mark", asked, requester=REQUESTER, callback_url="https://agent.example/hook")
    outcome = await handle.outcome()
    assert outcome.status == "failed"
    assert "ASSENT_CALLBACK_SECRET" in (outcome.reason or "")


async def test_a_chat_needs_an_app_to_be_reached_with(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path)}, requester=REQUESTER, chat_id="oc_team")
    outcome = await handle.outcome()
    assert outcome.status == "failed"
    assert "ASSENT_FEISHU_APP_ID" in (outcome.reason or "")


@pytest.mark.parametrize(
    "live", [carded_as_before, announced_as_before, question_shown_as_before, question_announced_as_before]
)
async def test_what_ended_before_anybody_was_told_is_shown_and_told_when_it_is_asked_for_again(
    feishu: FeishuService, tmp_path: Path, live: Callable[[FeishuService, Path], Awaitable[str]]
) -> None:
    """The same is true of one that is reset to its first task; each path says by itself what must be seen."""
    workflow_id = await live(feishu, tmp_path)
    workflow = feishu.service.client.get_workflow_handle(workflow_id)

    async def has_ended() -> bool:  # what the ledger knows is told before
        return (await workflow.describe()).status is not WorkflowExecutionStatus.RUNNING

    await until(has_ended)
    assert (await workflow.describe()).status is WorkflowExecutionStatus.COMPLETED
