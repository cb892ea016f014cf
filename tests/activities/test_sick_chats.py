"""A chat that does not answer keeps waiting whoever asked there, and nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.worker import Worker

import activities.cards
import activities.feishu.client
import simulator
import workers.approvals
import workflows.approval
import workflows.bundle
import workflows.deliveries
import workflows.waiting
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from assent import ApprovalHandle, names
from assent.tools.definition import registry
from benchmarks import sick
from cards import Wording
from simulator.people import Chat as Room
from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.feishu_service import APP, REQUESTER, Chat, FeishuService, settings_of
from tests.support.simulated_feishu import served
from tests.support.tools import marks
from tests.support.waiting import until
from workers.approvals import approvals_worker, outbound_worker
from workers.tools import tool_workers
from workflows import steps

SLOTS = 8
"""What each worker does at a time."""
SICK = 2 * SLOTS


class Hanging(httpx.AsyncBaseTransport):
    """Chats whose name begins with `oc_sick` answer once they are released, all others at once."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self.released = asyncio.Event()
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if b"oc_sick" in request.content:
            self.asked.append(json.loads(request.content)["receive_id"])
            await self.released.wait()
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


class Ward(FeishuService):
    """A service whose sick chats hang until they are released."""

    hanging: Hanging
    platform: simulator.Simulator

    async def asked_in(self, chat_id: str, directory: Path) -> ApprovalHandle:
        """Ask in a chat of this name."""
        self.platform.chats[chat_id] = Room(chat_id, chat_id, "group", (REQUESTER.open_id or "",))
        return await self.ask(directory, chat_id=chat_id)

    async def is_carded(self, handle: ApprovalHandle) -> bool:
        record = await self.service.ledger.record(handle.id)
        return record is not None and any(message.message_id for message in record.messages)

    async def carded(self, handle: ApprovalHandle) -> None:
        """Wait until its card is known to be in its chat."""
        await until(lambda: self.is_carded(handle))

    async def left_to_outbound(self, handle: ApprovalHandle) -> None:
        """Wait until its card is on its way without a workflow's task."""
        workflow = self.service.client.get_workflow_handle(names.approval_workflow(handle.id))

        async def is_left() -> bool:
            return bool((await workflow.describe()).raw_description.pending_activities)

        await until(is_left)

    async def left_its_task(self, handle: ApprovalHandle) -> bool:
        """Whether the one step that the workflow's own task waited for gave up its card by itself, at the first try."""
        workflow = self.service.client.get_workflow_handle(names.approval_workflow(handle.id))
        (marker,) = [
            event.marker_recorded_event_attributes
            for event in (await workflow.fetch_history()).events
            if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
        ]
        step, result = (json.loads(marker.details[each].payloads[0].data) for each in ("data", "result"))
        return (step["attempt"], result["delivered"]) == (1, [None])


@pytest.fixture
async def ward(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ward]:
    """Workers with few slots, and nobody who gives up waiting because of a clock."""

    def small(*given: Any, **more: Any) -> Worker:
        of_workflows = {"max_concurrent_workflow_tasks": SLOTS, "max_concurrent_local_activities": SLOTS}
        few = {"max_concurrent_activities": SLOTS} | (of_workflows if "workflows" in more else {})
        return Worker(*given, **{**more, **few})

    monkeypatch.setattr(workers.approvals, "Worker", small)
    for module in (workflows.approval, workflows.deliveries, workflows.waiting, workflows.bundle):
        monkeypatch.setattr(module, "AT_ONCE", timedelta(minutes=10))
    monkeypatch.setattr(steps, "OUTBOUND_ATTEMPT", timedelta(minutes=2))  # on a busy machine Temporal may lose one
    for name in ("_HURRIED", "_SILENT"):
        monkeypatch.setattr(activities.feishu.client, name, SLOTS // 2)
    monkeypatch.setattr(activities.cards, "_SILENCE", 0.2)
    monkeypatch.setattr(activities.cards, "_LONGEST_SILENCE", 1.0)
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        app = simulator.create_app(simulator.Settings(**APP, limits=False))
        chat = Chat(await stack.enter_async_context(served(app)))
        stack.push_async_callback(chat.http.aclose)
        url = await new_database("sqlite", tmp_path)
        service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
        hanging = Hanging()
        feishu = Feishu(
            app_id=APP["app_id"], app_secret=APP["app_secret"], domain=chat.url, transport=hanging, timeout=600
        )
        stack.push_async_callback(feishu.close)
        cards = CardActivities(service.ledger, feishu, Wording.load(None))
        for worker in (
            approvals_worker(client, service.ledger, service.settings, cards),
            outbound_worker(client, service.ledger, service.settings, cards),
            *(each for each in tool_workers(client, service.ledger, registry) if each.task_queue != "nobody"),
        ):
            await stack.enter_async_context(worker)
        ward = Ward(service, chat)
        ward.hanging, ward.platform = hanging, app.state.simulator
        try:
            yield ward
        finally:
            hanging.released.set()


async def test_healthy_approvals_end_while_no_sick_chat_has_answered(ward: Ward, tmp_path: Path) -> None:
    """Twice as many sick chats as there are slots for anything; the healthy need all kinds of slots."""
    sick = [await ward.asked_in(f"oc_sick_{n}", tmp_path) for n in range(SICK)]
    for handle in sick:
        await ward.left_to_outbound(handle)
    trouble = [{"on": "send", "kind": "5xx", "times": 1, "match": {"chat_id": f"oc_well_{n}"}} for n in (0, 1)]
    await ward.chat.misbehave(*trouble)  # the cards of these two are sent by the outbound worker
    healthy = [await ward.asked_in(f"oc_well_{n}", tmp_path) for n in range(4)]
    for handle in healthy:
        card = await ward.chat.card(handle.id)
        assert await ward.click(handle, card) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == len(healthy)
    assert not [handle.id for handle in sick if await ward.is_carded(handle)]
    for handle in sick:
        assert await ward.left_its_task(handle)

    ward.hanging.released.set()
    for handle in sick:
        await ward.carded(handle)
        assert len(await ward.chat.cards(handle.id)) == 1


async def test_a_chat_known_to_be_sick_is_not_tried_in_a_workflow_task(ward: Ward, tmp_path: Path) -> None:
    first = await ward.asked_in("oc_sick", tmp_path)
    await ward.left_to_outbound(first)
    others = [await ward.asked_in("oc_sick", tmp_path) for _ in range(SICK)]
    for handle in others:
        await ward.left_to_outbound(handle)
        outcome = await ward.decided(handle, "reject")
        assert outcome.status == "rejected"
    assert ward.hanging.asked.count("oc_sick") == 2  # in the first one's task, and by the outbound worker since


@pytest.mark.parametrize(("milliseconds", "is_wrong"), [(199.0, False), (200.0, False), (201.0, True)])
def test_the_benchmark_objects_where_healthy_chats_are_held_up(milliseconds: float, is_wrong: bool) -> None:
    without, beside = (sick.Times(to_card=[1.0] * 20, to_outcome=[each] * 20) for each in (100.0, milliseconds))
    said = sick.objection(without, beside)
    assert (said is not None) is is_wrong
    assert said is None or "× 2.01 beside them" in said
