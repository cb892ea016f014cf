"""What Feishu shows of a frozen call: to the operators while it is open, to everyone once it is settled."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from assent import ApprovalHandle, names
from assent.contracts.execute import ToolCall
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.feishu_service import FeishuService, buttons, open_feishu_service
from tests.support.ledgers import closing
from tests.support.tools import marks
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        directory = tmp_path_factory.mktemp("feishu")
        yield await open_feishu_service(stack, client, directory, temporal_ui="http://127.0.0.1:8233")


@pytest.fixture(autouse=True)
async def well_behaved(feishu: FeishuService) -> AsyncIterator[None]:
    yield
    await feishu.chat.behave()


async def frozen(feishu: FeishuService, directory: Path, tool: str = "raises", **asked: Any) -> ApprovalHandle:
    handle = await feishu.ask(directory, tool, **asked)
    assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
    assert (await handle.outcome()).status == "frozen"
    return handle


async def reviews(feishu: FeishuService, handle: ApprovalHandle) -> list[dict[str, Any]]:
    return await feishu.chat.cards(handle.id, MessageKind.REVIEW)


async def review(feishu: FeishuService, handle: ApprovalHandle, *, open_: bool) -> dict[str, Any]:
    """The operators' card, once it has its buttons or once it has none."""

    async def there() -> dict[str, Any] | None:
        found = await reviews(feishu, handle)
        return found[-1] if found and bool(buttons(found[-1]["content"])) is open_ else None

    return await until(there)


async def test_operators_see_it_and_everyone_learns_what_was_settled(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await frozen(feishu, tmp_path)
    shown = await review(feishu, handle, open_=True)
    assert shown["chat_id"] == "oc_ops"
    assert set(buttons(shown["content"])) == {"executed", "not_executed"}  # it cannot be tried again
    assert "127.0.0.1:8233" in str(shown["content"])
    approval_card = await feishu.chat.final(handle.id)
    ruled = await handle.settle("executed", operator=OPERATOR, reason="the bank shows it", content={"id": 7})
    assert ruled.kind == "settled"
    settled = await review(feishu, handle, open_=False)
    assert settled["message_id"] == shown["message_id"]

    async def revised() -> dict[str, Any] | None:
        now = await feishu.chat.card(handle.id)
        return now if now["content"] != approval_card["content"] else None

    assert "the bank shows it" in str((await until(revised))["content"])

    async def told() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.NOTICE)), None)

    notice = await until(told)
    assert notice["reply_to"] == approval_card["message_id"]
    assert not buttons(notice["content"])
    assert len(await feishu.chat.cards(handle.id)) == 1


async def test_a_tool_that_bears_it_can_be_tried_again_from_the_card(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await frozen(feishu, tmp_path, "flaky", arguments={"failures": 3, "then": "completed"})
    shown = await review(feishu, handle, open_=True)
    assert set(buttons(shown["content"])) == {"executed", "not_executed", "retry"}
    await handle.settle("not_executed", operator=OPERATOR, reason="nothing arrived")
    await review(feishu, handle, open_=False)


async def test_a_review_that_stays_open_is_shown_again_and_the_older_card_loses_its_buttons(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, tmp_path, remind_every=timedelta(seconds=2))
        handle = await frozen(feishu, tmp_path)

        async def reminded() -> list[dict[str, Any]] | None:
            found = await reviews(feishu, handle)
            *older, last = [bool(buttons(card["content"])) for card in found] or [False]
            return found if older and last and not any(older) else None

        await until(reminded)
        await handle.settle("executed", operator=OPERATOR, reason="it did")

        async def all_quiet() -> bool:
            return not any(buttons(card["content"]) for card in await reviews(feishu, handle))

        await until(all_quiet)


async def test_feishu_down_as_it_is_settled_delays_the_cards_and_not_the_settlement(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await frozen(feishu, tmp_path)
    await review(feishu, handle, open_=True)
    await feishu.chat.misbehave({"on": "any", "kind": "5xx"})
    assert (await handle.settle("executed", operator=OPERATOR, reason="it did")).kind == "settled"
    assert (await handle.settlement()).kind == "executed"
    await feishu.chat.behave()
    await review(feishu, handle, open_=False)


async def test_trouble_in_the_operators_chat_keeps_nobody_from_learning_what_was_settled(
    feishu: FeishuService, tmp_path: Path
) -> None:
    handle = await frozen(feishu, tmp_path)
    await review(feishu, handle, open_=True)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"chat_id": "oc_ops"}})
    await handle.settle("executed", operator=OPERATOR, reason="it did")

    async def told() -> bool:
        return bool(await feishu.chat.cards(handle.id, MessageKind.NOTICE))

    await until(told)
    assert buttons((await reviews(feishu, handle))[-1]["content"])  # that one is still in trouble
    await feishu.chat.behave()
    await review(feishu, handle, open_=False)


async def test_who_freezes_while_feishu_holds_up_the_settled_review_gets_its_answer(
    feishu: FeishuService, tmp_path: Path
) -> None:
    """The ruling is committed, and the review still open: it waits for Feishu, and looks at nothing any more."""
    while not await _joined_in_between(feishu, tmp_path, uuid.uuid4().hex):
        await feishu.chat.behave()  # a loaded machine was too slow


async def _joined_in_between(feishu: FeishuService, directory: Path, name: str) -> bool:
    """Whether the second one froze while the review that was settled was still open."""
    service = feishu.service
    asked: dict[str, Any] = {"message_id": name, "arguments": {"path": str(directory / name)}}
    first = await frozen(feishu, directory, **asked)
    await review(feishu, first, open_=True)
    second = await feishu.ask(directory, "raises", **asked)
    await feishu.chat.card(second.id)
    plan = await service.ledger.plan(second.id)
    assert plan is not None
    assert (await service.ledger.close(closing(ToolCall.of(plan)))).kind == "unknown", "it has met the call by now"
    await feishu.chat.misbehave({"on": "patch", "kind": "slow", "seconds": 60, "match": {"chat_id": "oc_ops"}})
    assert (await first.settle("not_executed", operator=OPERATOR, reason="nothing arrived")).kind == "settled"
    assert (await feishu.decided(second)).status == "frozen"
    settlement = await second.settlement()
    assert (settlement.kind, settlement.settled_by, settlement.reason) == ("not_executed", OPERATOR, "nothing arrived")
    assert (await service.events(second.id)).count("settle") == 1
    assert (await service.events(second.id))[-1] == "settle"
    assert "nothing arrived" in str(await feishu.chat.final(second.id, "nothing arrived"))
    review_id = names.review_workflow(plan.idempotency_key)
    latest = service.client.get_workflow_handle(review_id)

    async def closed() -> bool:
        return (await latest.describe()).status == WorkflowExecutionStatus.COMPLETED

    await until(closed)
    await feishu.chat.behave()
    await review(feishu, first, open_=False)
    assert not await reviews(feishu, second), "it is one review"
    assert marks(directory / name) == 1
    seen = [
        event.workflow_execution_signaled_event_attributes.signal_name
        async for event in latest.fetch_history_events()
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    return names.JOIN in seen


async def test_a_new_proposal_of_a_frozen_call_says_so_on_its_card(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await frozen(feishu, tmp_path)
    twin = await feishu.ask(tmp_path, "raises")
    card = await feishu.chat.card(twin.id)
    assert handle.id in str(card["content"])
    assert "127.0.0.1:8233" in str(card["content"])
    await twin.cancel()
    await handle.settle("executed", operator=OPERATOR, reason="it did")
