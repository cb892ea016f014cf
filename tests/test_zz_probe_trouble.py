from __future__ import annotations
import asyncio
from contextlib import AsyncExitStack
import pytest
from tests import parts
from tests.feishu import *
from tests.parts import until
from assent import names
import workflows
from activities.cards import CardActivities
from activities.feishu import Feishu
from cards import Wording
from workers.approvals import approvals_worker, outbound_worker
from temporalio.worker import Replayer
from temporalio.contrib.pydantic import pydantic_data_converter

async def test_two(tmp_path, temporal_address, namespaces):
    client = await parts.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        url = await new_database("sqlite", tmp_path)
        service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
        feishu = Feishu.of(service.settings)
        cards = CardActivities(service.ledger, feishu, Wording.load(None))
        office = Office(service, chat)
        await chat.misbehave({"on": "send", "kind": "5xx"})
        async with approvals_worker(client, service.ledger, service.settings, cards):
            handle = await office.ask(tmp_path, "by_two")
            wf = client.get_workflow_handle(names.approval_workflow(handle.id))
            async def pending():
                return len((await wf.describe()).raw_description.pending_activities) == 2
            await until(pending)
        await chat.behave()
        async with outbound_worker(client, service.settings, cards):
            async def none():
                return len((await wf.describe()).raw_description.pending_activities) == 0
            await until(none)
            async with approvals_worker(client, service.ledger, service.settings, cards):
                got = await chat.cards(handle.id)
                assert len(got) == 2
                assert await office.click(handle, got[0], who=OUTSIDER) == "forbidden"
                await asyncio.sleep(1)
                assert len(await office.chat.cards(handle.id)) == 2
        await feishu.close()
