"""Calls that are asked for together, through every door."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalConflict, Assent, ConversationBusy, InvalidRequest, NotAllowed, SyncAssent, names
from tests.conftest import ME
from tests.support.simulated_feishu import served
from tests.support.tools import marks
from tests.support.web import Web


def call(path: Path, tool: str = "mark", **more: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": {"path": str(path / "marks")}, **more}


async def test_each_call_has_its_own_outcome_and_nothing_lingers(gate: Assent, web: Web, tmp_path: Path) -> None:
    calls = (call(tmp_path), call(tmp_path, "open_mark", reason="its own"), call(tmp_path, "no_such_tool"))
    handles = await gate.request_many(calls, requester=ME, reason="shared")
    states = [await handle.state() for handle in handles[:2]]
    assert [(state.tool, state.request_reason) for state in states] == [("mark", "shared"), ("open_mark", "its own")]
    assert (await handles[2].outcome()).status == "failed"
    approved, rejected = (web.service.gate.approval(handle.id) for handle in handles[:2])
    assert (await web.service.decided(approved)).status == "executed"
    assert (await web.service.decided(rejected, "reject")).status == "rejected"
    assert marks(tmp_path / "marks") == 1
    plan = await web.service.ledger.plan(handles[0].id)
    assert plan is not None
    assert plan.bundle_id is not None
    await web.service.client.get_workflow_handle(names.bundle_workflow(plan.bundle_id)).result()


async def test_an_id_of_another_request_is_told_and_the_others_are_asked(gate: Assent, tmp_path: Path) -> None:
    taken, free = f"{tmp_path.name}-taken", f"{tmp_path.name}-free"
    await gate.request("mark", {"path": "elsewhere"}, requester=ME, approval_id=taken)
    calls = [call(tmp_path, approval_id=taken), call(tmp_path, approval_id=free)]
    with pytest.raises(ApprovalConflict):
        await gate.request_many(calls, requester=ME)
    assert (await gate.approval(free).state()).phase == "pending"


async def test_a_conversation_that_is_busy_with_others_is_told(gate: Assent, tmp_path: Path) -> None:
    thread: dict[str, Any] = {"requester": ME, "thread_id": str(tmp_path), "when_pending": "fail"}
    first = await gate.request_many([call(tmp_path), call(tmp_path, "open_mark")], **thread)
    assert [(await handle.state()).phase for handle in first] == ["pending", "pending"]
    with pytest.raises(ConversationBusy):
        await gate.request_many([call(tmp_path), call(tmp_path, "open_mark")], **thread)


async def test_a_token_asks_for_all_or_for_none(web: Web, tmp_path: Path) -> None:
    async with web.gate("narrow") as narrow:
        calls = [call(tmp_path, "open_mark", approval_id=f"{tmp_path.name}-a"), call(tmp_path, "mark.other")]
        with pytest.raises(NotAllowed):
            await narrow.request_many(calls, requester=ME)
    with pytest.raises(InvalidRequest):
        await web.service.gate.request_many([{**calls[0], "asked_by": "somebody"}], requester=ME)
    assert await web.service.ledger.plan(f"{tmp_path.name}-a") is None


async def test_agents_without_asyncio_ask_together_too(web: Web, tmp_path: Path) -> None:
    def work(url: str) -> list[str]:
        with SyncAssent.connect(url, token="secret-agent") as gate:
            handles = gate.request_many([call(tmp_path), call(tmp_path, "no_such_tool")], requester=ME)
            handles[0].cancel()
            return [str(handle.outcome().status) for handle in handles]

    async with served(web.another(tmp_path)) as url:
        assert await asyncio.to_thread(work, url) == ["cancelled", "failed"]


async def test_the_api_answers_with_every_approval_in_order(web: Web, tmp_path: Path) -> None:
    body = {"calls": [call(tmp_path, requester={"open_id": "ou_me"}), call(tmp_path, requester={"open_id": "ou_me"})]}
    async with web.http() as http:
        answer = await http.post("/v1/bundles", json=body)
        assert answer.status_code == 201
        found = answer.json()["approvals"]
        assert [each["phase"] for each in found] == ["pending", "pending"]
        assert [each["state"]["asked_by"] for each in found] == ["agent", "agent"]
        one = body["calls"][0]
        bad: list[dict[str, Any]] = [{"calls": []}, {"calls": [one], "bundle_id": "b"}, {"calls": [{**one, "x": 1}]}]
        for wrong in bad:
            assert (await http.post("/v1/bundles", json=wrong)).status_code == 422
