"""What was ended by hand in Temporal is ended in the ledger too, as far as its own namespace goes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from temporalio.client import Client
from temporalio.service import RPCError

from assent import ApprovalHandle, ConversationBusy, names
from assent.client.door import parse_request
from assent.contracts.request import Request
from assent.temporal.door import TemporalDoor
from ledger import Orphan, Untold
from tests.conftest import ME, OPERATOR, Service, accepted, new_database, open_service
from tests.support import servers
from tests.support.feishu_service import REQUESTER, Agent, buttons, open_feishu_service
from tests.support.frozen_calls import frozen
from tests.support.simulated_feishu import served
from tests.support.temporal_operations import purge
from tests.support.tools import marks
from tests.support.waiting import until
from workers import sweeping
from workers.sweeping import end_gone, sweep


async def terminate(service: Service, handle: ApprovalHandle) -> None:
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).terminate("by hand")


async def swept(service: Service) -> None:
    """Look at every open approval once."""
    after = await end_gone(service.client, service.ledger)
    while after is not None:
        after = await end_gone(service.client, service.ledger, after)


async def test_a_terminated_approval_frees_its_conversation(service: Service, tmp_path: Path) -> None:
    thread = uuid.uuid4().hex
    asked: dict[str, Any] = {"thread_id": thread, "when_pending": "fail", "ttl": timedelta(days=30)}
    first = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **asked)
    await first.state()
    await swept(service)
    assert await service.ledger.outcome(first.id) is None, "it waits"
    await terminate(service, first)
    with pytest.raises(ConversationBusy):
        await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **asked)
    await swept(service)
    outcome = await service.ledger.outcome(first.id)
    assert outcome is not None
    assert (outcome.status, outcome.reason) == (
        "cancelled",
        "its workflow was terminated in Temporal before it had ended",
    )
    assert (await service.events(first.id))[-1] == "cancel"
    second = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **asked)
    assert (await service.decided(second)).status == "executed"
    assert marks(tmp_path / "m") == 1
    assert await service.ledger.verify() == []


async def test_a_refused_request_that_a_stopped_worker_records_later_frees_its_conversation(
    service: Service, tmp_path: Path
) -> None:
    thread, late = uuid.uuid4().hex, uuid.uuid4().hex
    asked: dict[str, Any] = {"thread_id": thread, "when_pending": "fail"}
    first = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **asked)
    await first.state()
    plan = await service.ledger.plan(first.id)
    assert plan is not None
    with pytest.raises(ConversationBusy):
        await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, approval_id=late, **asked)
    assert (await service.decided(first)).status == "executed"
    request = Request(
        approval_id=late, tool="mark", arguments={"path": str(tmp_path / "m")}, requester=ME, thread_id=thread
    )
    belated = plan.model_copy(update={"approval_id": late, "request_sha256": request.sha256})
    now = datetime.now(UTC)
    await service.ledger.register(
        request, belated, None, now=now, open_until=belated.open_until, namespace=service.client.namespace
    )
    await swept(service)
    outcome = await service.ledger.outcome(late)
    assert outcome is not None
    assert (outcome.status, outcome.reason) == ("cancelled", "it was refused, and whoever asked was told so")
    next_one = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, **asked)
    assert (await next_one.state()).phase == "pending"


async def test_of_a_call_that_ran_the_claim_is_believed(service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await service.gate.request("gated", {"path": str(tmp_path / "m"), "gate": str(gate)}, requester=ME)
    await accepted(handle, await handle.state())

    async def begun() -> bool:
        return marks(tmp_path / "m") == 1

    await until(begun)
    await terminate(service, handle)
    await swept(service)
    assert await service.ledger.outcome(handle.id) is None, "it runs, and its end is not known"
    gate.touch()

    async def recorded() -> bool:
        return "execute" in await service.events(handle.id)

    await until(recorded)
    await swept(service)
    outcome = await service.ledger.outcome(handle.id)
    assert outcome is not None
    assert (outcome.status, outcome.content) == ("executed", {"marks": 1})
    assert "cancel" not in await service.events(handle.id)


async def test_the_cards_of_a_terminated_approval_lose_their_buttons(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, tmp_path)
        handle = await feishu.ask(tmp_path)
        assert buttons((await feishu.chat.card(handle.id))["content"])
        await terminate(feishu.service, handle)
        await swept(feishu.service)
        card = await feishu.chat.final(handle.id)
        assert buttons(card["content"]) == {}


async def test_the_agent_of_a_terminated_approval_is_told_signed_with_its_own_secret(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    secrets = tmp_path / "callbacks.toml"
    secrets.write_text('[[callback]]\nprincipal = "billing"\nsecrets = ["its-own"]\n')
    client = await servers.connect(temporal_address, next(namespaces))
    agent = Agent()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(agent.app))
        feishu = await open_feishu_service(stack, client, tmp_path, callback_secrets=secrets)
        asked = parse_request(
            approval_id=uuid.uuid4().hex,
            tool="mark",
            arguments={"path": str(tmp_path / "marks")},
            requester=REQUESTER,
            callback_url=f"{url}/hook",
            asked_by="billing",
        )
        await TemporalDoor(client).request(asked, in_doubt=False)
        handle = feishu.service.gate.approval(asked.approval_id)
        await handle.state()
        await terminate(feishu.service, handle)
        await swept(feishu.service)

        async def told() -> bool:
            return bool(agent.told)

        await until(told)
    ((headers, body),) = agent.told
    assert Webhook(b"its-own").verify(body, dict(headers))["outcome"]["status"] == "cancelled"


async def test_what_temporal_has_never_heard_of_is_left_alone_until_it_is_overdue(
    service: Service, tmp_path: Path
) -> None:
    """The sweeper may be connected to another server than the one that holds the approvals."""
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    await handle.state()
    await terminate(service, handle)
    await purge(service, handle.id)
    await swept(service)
    assert await service.ledger.outcome(handle.id) is None


_STRICTER = """
[[rule]]
name = "by name"
tools = ["says_for_whom"]
approvers = [{ people = ["open_id:ou_me", "open_id:ou_another"] }]
"""


async def test_a_reopened_review_knows_who_approved_and_of_which_conversation_the_call_is(
    service: Service, tmp_path: Path
) -> None:
    path = tmp_path / "m"
    asked: dict[str, Any] = {"thread_id": uuid.uuid4().hex, "tool_call_id": "call-7"}
    handle = await service.gate.request("says_for_whom", {"path": str(path)}, requester=ME, **asked)
    assert (await service.decided(handle)).status == "frozen"
    review = names.review_workflow(str((await handle.outcome()).idempotency_key))
    await service.client.get_workflow_handle(review).terminate("by hand")
    assert await sweep(service.client, service.ledger) >= 1
    shown = str((await handle.state()).payload_sha256)[:12]
    async with service.policy(_STRICTER):  # and who approved is one of those who may
        ruled = await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=shown)
        assert ruled.kind == "retrying"
        assert (await handle.settlement()).kind == "executed"
    first, second = path.read_text().splitlines()
    assert first == second
    assert first.endswith("call-7")


async def test_one_that_cannot_be_dealt_with_keeps_nobody_from_the_others(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = [await frozen(service, tmp_path / name) for name in ("bad", "good")]
    for handle in (bad, good):
        review = names.review_workflow(str((await handle.outcome()).idempotency_key))
        await service.client.get_workflow_handle(review).terminate("by hand")
    opened = sweeping._open_review

    async def fails(client: Client, found: Orphan | Untold, why: str) -> None:
        if found.plan.approval_id == bad.id:
            raise ValueError("it cannot be written")
        await opened(client, found, why)

    monkeypatch.setattr(sweeping, "_open_review", fails)
    assert await sweep(service.client, service.ledger) >= 1
    assert (await good.settle("executed", operator=OPERATOR, reason="it did")).kind == "settled"
    monkeypatch.undo()
    assert await sweep(service.client, service.ledger) >= 1
    assert (await bad.settle("executed", operator=OPERATOR, reason="it did")).kind == "settled"


async def test_two_namespaces_on_one_ledger_look_after_their_own(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    url = await new_database("sqlite", tmp_path)
    async with AsyncExitStack() as stack:
        here, there = [
            await open_service(stack, await servers.connect(temporal_address, next(namespaces)), url) for _ in range(2)
        ]
        handle = await frozen(here, tmp_path / "m")
        review = names.review_workflow(str((await handle.outcome()).idempotency_key))
        await here.client.get_workflow_handle(review).terminate("by hand")
        waiting = await here.gate.request("mark", {"path": str(tmp_path / "w")}, requester=ME, thread_id="t")
        await waiting.state()
        assert await sweep(there.client, there.ledger) == 0
        with pytest.raises(RPCError):
            await there.client.get_workflow_handle(review).describe()
        await swept(there)
        assert await there.ledger.outcome(waiting.id) is None
        assert (await there.ledger.open_plans(0, 10, there.client.namespace))[0] == ()
        assert [plan.approval_id for plan in (await here.ledger.open_plans(0, 10, here.client.namespace))[0]] == [
            waiting.id
        ]
        free = await there.gate.request(
            "mark", {"path": str(tmp_path / "o")}, requester=ME, thread_id="t", when_pending="fail"
        )
        assert (await there.decided(free)).status == "executed", "another installation's conversation is another one"
        assert await sweep(here.client, here.ledger) == 1
