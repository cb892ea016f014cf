"""Questions to an approval in the middle of a step leave a history that replays: its next worker can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

import workflows
from activities.feishu.client import Feishu
from assent import ApprovalHandle, Identity, names
from assent.types import State
from tests.support import servers
from tests.support.feishu_service import REQUESTER, FeishuService, open_feishu_service
from tests.support.web import TENANT

MEMBERS = """
[[rule]]
name = "members"
tools = ["mark"]
approvers = {chat = "oc_team", threshold = 2}
"""


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("queries"))


@asynccontextmanager
async def asked_all_the_time(feishu: FeishuService, handle: ApprovalHandle) -> AsyncIterator[None]:
    """Many want to know how it stands, again and again."""
    workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def ask() -> None:
        while True:
            await workflow.query(names.STATE, result_type=State)

    asking = [asyncio.create_task(ask()) for _ in range(3)]
    try:
        yield
    finally:
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def slow(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What Feishu is asked takes a moment, so that questions come in between."""
    at_once = getattr(Feishu, name)

    async def later(self: Feishu, *given: Any, **more: Any) -> Any:
        await asyncio.sleep(0.05)  # not a wait for anything: this is how long it takes
        return await at_once(self, *given, **more)

    monkeypatch.setattr(Feishu, name, later)


@pytest.mark.parametrize("step", ["members", "send"])
async def test_a_history_with_questions_in_the_middle_of_a_step_replays(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    slow(monkeypatch, step)
    people = [Identity(open_id=f"ou_{name}", tenant_key=TENANT) for name in ("requester", "approver")]
    replayer = Replayer(workflows=workflows.ALL, data_converter=pydantic_data_converter)
    async with feishu.service.policy(MEMBERS):
        for _ in range(6):
            handle = await feishu.ask(tmp_path, "mark", requester=REQUESTER)
            async with asked_all_the_time(feishu, handle):
                seen = (await handle.state()).payload_sha256
                for person in people:
                    assert (await handle.decide("approve", actor=person, payload_sha256=seen)).kind == "accepted"
                assert (await handle.outcome()).status == "executed"
            workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))
            replayed = await replayer.replay_workflow(await workflow.fetch_history(), raise_on_replay_failure=False)
            assert replayed.replay_failure is None
