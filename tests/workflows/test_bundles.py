"""Calls that were asked for together share one card; each is still its own approval, hash, verdict and outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import assent.core.delivering
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from assent import ApprovalHandle, InvalidRequest, names
from assent.contracts.identity import Identity
from assent.tools.definition import registry
from cards import BundleClick, Wording, parse_event
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.bundles import bundle_of, decide, finished, shared_card, shared_cards
from tests.support.cards import values
from tests.support.feishu_service import APP, OUTSIDER, REQUESTER, FeishuService, open_feishu_service
from tests.support.tools import marks
from tests.support.waiting import until
from workers.approvals import approvals_worker, outbound_worker
from workers.clicks import answer_bundle
from workers.tools import tool_workers

WORDING = Wording.load(None)
LOW = "open_mark"


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


def call(directory: Path, tool: str = LOW, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": {"path": str(directory / "marks"), **arguments}}


async def ask(feishu: FeishuService, *calls: dict[str, Any], **shared: Any) -> list[ApprovalHandle]:
    return await feishu.service.gate.request_many(calls, **{"requester": REQUESTER, "chat_id": "oc_team", **shared})


def decisions(card: dict[str, Any], handle: ApprovalHandle) -> set[str]:
    """What can be decided on a card about one call."""
    return {value["decision"] for value in values(card["content"]) if value.get("approval_id") == handle.id}


def everything_low(card: dict[str, Any]) -> dict[str, Any]:
    [value] = [value for value in values(card["content"]) if "bundle" in value]
    return value


def clicked(card: dict[str, Any], value: dict[str, Any], who: Identity = REQUESTER, event_id: str = "e") -> BundleClick:
    """What the webhook reads of a click."""
    envelope = {
        "header": {
            "event_id": f"{card['message_id']}:{event_id}",
            "event_type": "card.action.trigger",
            "create_time": str(int(datetime.now(UTC).timestamp() * 1000)),
        },
        "event": {
            "operator": {"open_id": who.open_id},
            "action": {"value": value, "tag": "button"},
            "context": {"open_message_id": card["message_id"], "open_chat_id": "oc_team"},
        },
    }
    found = parse_event(envelope, proof="feishu-signature", tenant_key=APP["tenant_key"])
    assert isinstance(found, BundleClick), found
    return found


async def approve_all(feishu: FeishuService, click: BundleClick) -> str:
    answer = await answer_bundle(feishu.service.gate, click, WORDING, within=60)
    text: str = answer["toast"]["content"]
    return text


async def test_calls_of_several_risks_share_one_card_and_are_decided_one_by_one(
    feishu: FeishuService, tmp_path: Path
) -> None:
    low, medium, nobody = await ask(
        feishu,
        call(tmp_path),
        call(tmp_path, "mark", note="two"),
        {"tool": "no_such_tool", "arguments": {}},
        reason="spring cleaning",
    )
    refused = await nobody.outcome()
    assert (refused.status, refused.decided_by) == ("failed", None)
    card = await shared_card(feishu, low)
    assert card["chat_id"] == "oc_team"
    assert decisions(card, low) == decisions(card, medium) == {"approve", "reject"}
    assert not any("bundle" in value for value in values(card["content"]))  # one is not many
    assert "spring cleaning" in str(card["content"])
    assert await decide(feishu, medium, card, "reject") == "accepted"
    rejected = await medium.outcome()
    assert (rejected.status, marks(tmp_path / "marks")) == ("rejected", 0)

    async def half() -> bool:
        now = await shared_card(feishu, low)
        return not decisions(now, medium) and decisions(now, low) == {"approve", "reject"}

    await until(half)
    assert await decide(feishu, low, card) == "accepted"
    executed = await low.outcome()
    assert (executed.status, marks(tmp_path / "marks")) == ("executed", 1)
    assert executed.payload_sha256 != rejected.payload_sha256
    await finished(feishu, low)
    final = await shared_card(feishu, low, "Executed")
    assert values(final["content"]) == []
    assert "Rejected" in str(final["content"])
    for handle in (low, medium):
        assert await feishu.chat.cards(handle.id) == []
        delivered = [each for each in await feishu.service.ledger.entries(handle.id) if each.event == "deliver"]
        assert [each.message_id for each in delivered] == [card["message_id"]]
    assert len(await shared_cards(feishu, low)) == 1


async def test_all_that_are_low_risk_are_approved_by_one_click_and_no_other_is(
    feishu: FeishuService, tmp_path: Path
) -> None:
    lows = [call(tmp_path / str(n)) for n in range(3)]
    for n in range(3):
        (tmp_path / str(n)).mkdir()
    *harmless, medium = await ask(feishu, *lows, call(tmp_path, "mark"))
    card = await shared_card(feishu, medium)
    value = everything_low(card)
    assert [each for each, _ in value["approve"]] == [handle.id for handle in harmless]
    click = clicked(card, value)
    assert await approve_all(feishu, click) == "All 3 approved. They are running now."
    assert [(await handle.outcome()).status for handle in harmless] == ["executed"] * 3
    assert [marks(tmp_path / str(n) / "marks") for n in range(3)] == [1, 1, 1]
    assert (await medium.state()).phase == "pending"
    assert await approve_all(feishu, click) == "This click has already been counted."
    assert "already been decided" in await approve_all(feishu, clicked(card, value, event_id="again"))
    assert [marks(tmp_path / str(n) / "marks") for n in range(3)] == [1, 1, 1]
    await medium.cancel("no longer needed")
    assert (await medium.outcome()).status == "cancelled"
    assert values((await shared_card(feishu, medium, "withdrawn"))["content"]) == []
    assert marks(tmp_path / "marks") == 0


async def test_whoever_may_not_decide_a_call_cannot_do_so_on_a_shared_card(
    feishu: FeishuService, tmp_path: Path
) -> None:
    policy = '[[rule]]\nname = "mine"\ntools = ["open_mark"]\napprovers = "requester"\n'
    async with feishu.service.policy(policy):
        handles = await ask(feishu, call(tmp_path, path=str(tmp_path / "a")), call(tmp_path, path=str(tmp_path / "b")))
        card = await shared_card(feishu, handles[0])
        value = everything_low(card)
        told = await approve_all(feishu, clicked(card, value, OUTSIDER))
        assert told == "This is not yours to decide. Nothing was changed."
        forged = {**value, "approve": [[handle.id, "0" * 64] for handle in handles]}
        assert "does not match" in await approve_all(feishu, clicked(card, forged, event_id="forged"))
        assert [(await handle.state()).phase for handle in handles] == ["pending", "pending"]
        for handle in handles:
            assert await decide(feishu, handle, card, "reject") == "accepted"


async def test_a_call_with_a_warning_is_not_approved_with_the_others(feishu: FeishuService, tmp_path: Path) -> None:
    policy = (
        '[[rule]]\nname = "mind"\ntools = ["open_mark"]\n'
        'warnings = [{when = "arguments.path.endsWith(\'/b\')", text = "That one is old."}]\n'
    )
    async with feishu.service.policy(policy):
        paths = [str(tmp_path / name) for name in "abc"]
        handles = await ask(feishu, *(call(tmp_path, path=path) for path in paths))
        card = await shared_card(feishu, handles[0])
        assert "That one is old." in str(card["content"])
        assert [each for each, _ in everything_low(card)["approve"]] == [handles[0].id, handles[2].id]
        assert decisions(card, handles[1]) == {"approve", "reject"}
        for handle in handles:
            await handle.cancel()
            await handle.outcome()


async def test_a_high_risk_is_asked_back_and_what_is_sensitive_stays_hidden(
    feishu: FeishuService, tmp_path: Path
) -> None:
    guarded, own = await ask(feishu, call(tmp_path, "guarded_mark", secret="xyzzy"), call(tmp_path))
    card = await shared_card(feishu, own)
    assert decisions(card, guarded) == {"approve", "reject"}
    assert "Approve a high-risk call?" in str(card["content"])
    assert "xyzzy" not in str(card)
    assert await decide(feishu, guarded, card) == "forbidden"
    for handle in (guarded, own):
        await handle.cancel()
        await handle.outcome()


async def test_without_a_chat_everybody_gets_one_card_of_what_is_theirs_to_decide(
    feishu: FeishuService, tmp_path: Path
) -> None:
    theirs, own = await ask(feishu, call(tmp_path, "by_two"), call(tmp_path), chat_id=None)

    async def each_has_one() -> list[dict[str, Any]] | None:
        found = await shared_cards(feishu, own)
        return found if len(found) == 3 else None

    by_chat = {card["chat_id"]: card for card in await until(each_has_one)}
    assert set(by_chat) == {"oc_p2p_approver", "oc_p2p_operator", "oc_p2p_requester"}
    assert decisions(by_chat["oc_p2p_approver"], theirs) == {"approve", "reject"}
    assert decisions(by_chat["oc_p2p_approver"], own) == decisions(by_chat["oc_p2p_requester"], theirs) == set()
    for handle in (theirs, own):
        await handle.cancel()
        await handle.outcome()
    await finished(feishu, own)
    assert all(values(card["content"]) == [] for card in await shared_cards(feishu, own))


async def test_calls_that_do_not_fit_on_one_card_share_several(feishu: FeishuService, tmp_path: Path) -> None:
    notes = [f"{n}" * 6000 for n in range(1, 6)]
    handles = await ask(feishu, *(call(tmp_path, "mark", note=note) for note in notes))

    async def shown() -> list[list[str]] | None:
        sent = await feishu.chat.messages("oc_team")
        on = [[each["message_id"] for each in sent if decisions(each, handle)] for handle in handles]
        return on if all(on) else None

    found = await until(shown)
    assert all(len(each) == 1 for each in found)  # each call is on one card,
    assert 1 < len({each[0] for each in found}) < len(handles)  # and cards hold several
    assert await feishu.chat.cards(handles[0].id) == []
    last = next(each for each in await feishu.chat.messages("oc_team") if decisions(each, handles[-1]))
    assert await decide(feishu, handles[-1], last) == "accepted"
    assert (await handles[-1].outcome()).status == "executed"
    for handle in handles[:-1]:
        await handle.cancel()
        await handle.outcome()


async def test_one_call_that_needs_a_file_goes_its_own_way(feishu: FeishuService, tmp_path: Path) -> None:
    small, other, large = await ask(
        feishu, call(tmp_path), call(tmp_path, "mark"), call(tmp_path, "mark", note="x" * 40_000)
    )
    card = await shared_card(feishu, small)
    assert decisions(card, large) == set()
    assert await feishu.click(large, await feishu.chat.card(large.id), "reject") == "accepted"
    assert await decide(feishu, small, card) == "accepted"
    assert (await small.outcome()).status == "executed"
    await other.cancel()
    await finished(feishu, small)


async def test_without_a_bundle_every_call_sends_its_own_card(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, tmp_path, workers=False)
        asking = asyncio.create_task(ask(feishu, call(tmp_path), call(tmp_path, "mark")))

        async def bundle() -> str | None:
            async for found in client.list_workflows(f'WorkflowType = "{names.BUNDLE}"', limit=1):
                return found.id
            return None

        await client.get_workflow_handle(await until(bundle)).terminate("by hand")
        handles = await asking
        await open_workers(stack, feishu)
        await open_tools(stack, feishu)
        for handle in handles:
            assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
            assert (await handle.outcome()).status == "executed"


async def test_a_bundle_ended_by_hand_after_its_card_was_sent_is_taken_up_again(
    feishu: FeishuService, tmp_path: Path
) -> None:
    first, second = await ask(feishu, call(tmp_path), call(tmp_path, "mark"))
    card = await shared_card(feishu, first)
    assert await decide(feishu, first, card, "reject") == "accepted"
    await first.outcome()
    bundle = feishu.service.client.get_workflow_handle(names.bundle_workflow(await bundle_of(feishu, first)))
    await bundle.terminate("by hand")
    assert await decide(feishu, second, card) == "accepted"
    assert (await second.outcome()).status == "executed"
    final = await shared_card(feishu, first, "Executed")
    assert values(final["content"]) == []
    assert len(await shared_cards(feishu, first)) == 1


async def test_a_bundle_that_falls_silent_holds_nobody_up(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assent.core.delivering, "HELD_FOR", timedelta(seconds=1))
    await feishu.chat.misbehave({"on": "send", "kind": "lost_answer"})
    first, second = await ask(feishu, call(tmp_path), call(tmp_path, "mark"))

    async def both_tried() -> bool:
        return bool(await feishu.chat.cards(first.id)) and bool(await feishu.chat.cards(second.id))

    await until(both_tried)
    await feishu.chat.behave()
    for handle in (first, second):
        assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
        assert (await handle.outcome()).status == "executed"
    await finished(feishu, first)
    shared = await shared_cards(feishu, first)
    assert len(shared) <= 1
    assert all(values(card["content"]) == [] for card in shared)


async def test_an_edit_gives_a_call_a_card_of_its_own(feishu: FeishuService, tmp_path: Path) -> None:
    policy = '[[rule]]\nname = "two"\ntools = ["mark"]\napprovers = {who = "anyone", threshold = 2}\n'
    async with feishu.service.policy(policy):
        edited, other = await ask(feishu, call(tmp_path, "mark"), call(tmp_path))
        card = await shared_card(feishu, edited)
        state = await edited.state()
        arguments = {"path": str(tmp_path / "marks"), "amount": "1.00", "note": "changed"}
        verdict = await edited.decide(
            "edit", actor=REQUESTER, payload_sha256=str(state.payload_sha256), arguments=arguments
        )
        assert verdict.kind == "accepted"
        own = await feishu.chat.card(edited.id)
        assert "changed" in str(own["content"])
        now = await shared_card(feishu, edited, "card of its own")
        assert decisions(now, edited) == set()
        assert await decide(feishu, edited, card) == "superseded"
        for handle in (edited, other):
            await handle.cancel()
            await handle.outcome()
        final = await shared_card(feishu, edited, "withdrawn")
        assert len(await shared_cards(feishu, edited)) == 1
        assert final["message_id"] == card["message_id"]


async def test_asked_for_again_under_the_same_ids_they_attach(feishu: FeishuService, tmp_path: Path) -> None:
    calls = [{**call(tmp_path), "approval_id": f"{tmp_path.name}-{n}"} for n in range(2)]
    again = [await ask(feishu, *calls) for _ in range(2)]
    assert [handle.id for handle in again[0]] == [handle.id for handle in again[1]]
    card = await shared_card(feishu, again[0][0])
    assert await approve_all(feishu, clicked(card, everything_low(card))) == "All 2 approved. They are running now."
    for handle in again[1]:
        assert (await handle.outcome()).status == "executed"
    await ask(feishu, *calls)
    assert len(await shared_cards(feishu, again[0][0])) == 1


async def test_calls_of_one_conversation_do_not_replace_one_another(feishu: FeishuService, tmp_path: Path) -> None:
    thread = {"thread_id": str(tmp_path), "when_pending": "supersede"}
    first, second = await ask(feishu, call(tmp_path), call(tmp_path, "mark"), **thread)
    await shared_card(feishu, first)
    assert [(await handle.state()).phase for handle in (first, second)] == ["pending", "pending"]
    third, fourth = await ask(feishu, call(tmp_path), call(tmp_path, "mark"), **thread)
    assert [(await handle.outcome()).status for handle in (first, second)] == ["superseded", "superseded"]
    assert values((await shared_card(feishu, first, "newer request"))["content"]) == []
    for handle in (third, fourth):
        await handle.cancel()
        await handle.outcome()


async def test_only_what_somebody_is_asked_about_is_on_the_card(feishu: FeishuService, tmp_path: Path) -> None:
    tools = ("mark", "at_once", "never", "open_mark")
    asked, at_once, never, other = await ask(feishu, *(call(tmp_path, tool) for tool in tools))
    assert [(await each.outcome()).status for each in (at_once, never)] == ["executed", "rejected"]
    card = await shared_card(feishu, asked)
    assert "Run these 2 calls?" in str(card["content"])
    assert not decisions(card, at_once) | decisions(card, never)
    for handle in (asked, other):
        assert await decide(feishu, handle, card, "reject") == "accepted"
    await finished(feishu, asked)


async def test_a_call_that_is_left_alone_has_a_card_of_its_own(feishu: FeishuService, tmp_path: Path) -> None:
    asked, _ = await ask(feishu, call(tmp_path, "mark"), call(tmp_path, "never"))
    assert await feishu.click(asked, await feishu.chat.card(asked.id), "reject") == "accepted"
    assert await shared_cards(feishu, asked) == []
    await finished(feishu, asked)


async def test_calls_whose_card_is_refused_end_as_any_call_that_cannot_be_shown(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handles = await ask(feishu, call(tmp_path), call(tmp_path, "mark"), chat_id="oc_elsewhere")
    for handle in handles:
        outcome = await handle.outcome()
        assert (outcome.status, "could not be delivered" in str(outcome.reason)) == ("cancelled", True)


async def test_a_frozen_call_is_followed_until_it_is_settled(feishu: FeishuService, tmp_path: Path) -> None:
    frozen, other = await ask(feishu, call(tmp_path, "raises"), call(tmp_path))
    card = await shared_card(feishu, frozen)
    for handle in (frozen, other):
        assert await decide(feishu, handle, card) == "accepted"
    assert [(await handle.outcome()).status for handle in (frozen, other)] == ["frozen", "executed"]
    assert values((await shared_card(feishu, frozen, "Outcome unknown"))["content"]) == []
    await frozen.settle("executed", operator=OPERATOR, reason="it was looked up")
    await shared_card(feishu, frozen, "It did happen.")
    await finished(feishu, frozen)


async def test_a_result_that_waits_to_be_released_has_a_card_of_its_own(feishu: FeishuService, tmp_path: Path) -> None:
    looked_at, other = await ask(feishu, call(tmp_path, "looked_at"), call(tmp_path))
    card = await shared_card(feishu, looked_at)
    assert await decide(feishu, looked_at, card) == "accepted"
    await shared_card(feishu, looked_at, "Its result waits to be released")

    async def asked() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(looked_at.id, MessageKind.RESULT)), None)

    await until(asked)
    assert decisions(await shared_card(feishu, other), other) == {"approve", "reject"}
    state = await looked_at.state()
    verdict = await looked_at.decide(
        "approve", actor=REQUESTER, payload_sha256=str(state.result_sha256), stage="result"
    )
    assert verdict.kind == "accepted"
    assert (await looked_at.outcome()).status == "executed"
    await other.cancel()
    await finished(feishu, other)


async def test_a_shared_card_outlives_the_workers_that_sent_it(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, tmp_path, workers=False)
        await open_tools(stack, feishu)
        async with AsyncExitStack() as first_workers:
            await open_workers(first_workers, feishu)
            first, second = await ask(feishu, call(tmp_path), call(tmp_path, "mark"))
            card = await shared_card(feishu, first)
        async with AsyncExitStack() as others:
            await open_workers(others, feishu)
            assert await decide(feishu, first, card) == "accepted"
            await first.outcome()
        await second.cancel()
        await open_workers(stack, feishu)
        assert (await second.outcome()).status == "cancelled"
        await finished(feishu, first)
        [final] = await shared_cards(feishu, first)
        assert (values(final["content"]), final["message_id"]) == ([], card["message_id"])
        assert await feishu.chat.cards(first.id) == await feishu.chat.cards(second.id) == []


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([], "from 1 to 50"),
        ([{"tool": "mark", "arguments": {"path": "x"}}] * 51, "from 1 to 50"),
        (["mark"], "calls\\[0\\]: a mapping"),
        ([{"tool": "mark"}], "calls\\[0\\]: arguments must be said"),
        ([{"tool": "mark", "arguments": {}, "bundle_id": "b"}], "bundle_id: there is no such field"),
        ([{"tool": "mark", "arguments": {}}, {"tool": "mark", "arguments": {"n": float("nan")}}], "n: "),
        ([{"tool": "mark", "arguments": {}, "approval_id": "same"}] * 2, "the same approval_id"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_before_anything_starts(
    feishu: FeishuService, calls: list[Any], why: str
) -> None:
    before = len(await feishu.chat.messages())
    with pytest.raises(InvalidRequest, match=why):
        await feishu.service.gate.request_many(calls, requester=REQUESTER)
    assert len(await feishu.chat.messages()) == before


async def open_workers(stack: AsyncExitStack, feishu: FeishuService) -> None:
    """Workers for a service that was opened without any: all but those of the tools."""
    service = feishu.service
    feishu_client = Feishu.of(service.settings)
    assert feishu_client is not None
    stack.push_async_callback(feishu_client.close)
    cards = CardActivities(service.ledger, feishu_client, WORDING)
    for worker in (approvals_worker, outbound_worker):
        await stack.enter_async_context(worker(service.client, service.ledger, service.settings, cards))


async def open_tools(stack: AsyncExitStack, feishu: FeishuService) -> None:
    service = feishu.service
    for worker in tool_workers(service.client, service.ledger, registry):
        if worker.task_queue != "nobody":
            await stack.enter_async_context(worker)
