"""HTTP tools through the whole service: asked, approved, sent at most once, and no header ever told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import Outcome, Registry, http_tool
from assent.names import approval_workflow, review_workflow
from tests.conftest import ME, Service, new_database, open_service
from tests.support import servers
from tests.support.http_server import Server, listening
from workers.approvals import approvals_worker
from workers.tools import tool_workers

SECRET = "Bearer s3cr3t-t0ken"


def no_token() -> Mapping[str, str]:
    raise RuntimeError(SECRET)


@dataclass
class Gate:
    """A service whose tools are HTTP tools against one server."""

    service: Service
    server: Server
    ledger: Path

    async def approved(self, tool: str, *, n: object = 1, **asked: Any) -> Outcome:
        handle = await self.service.gate.request(tool, {"body": {"n": n}}, requester=ME, **asked)
        return await self.service.decided(handle)

    async def told(self, outcome: Outcome) -> bytes:
        """Everything that the service says and keeps: outcome, state, histories, and the ledger down to its bytes."""
        state = await self.service.gate.approval(outcome.approval_id).state()
        entries = await self.service.ledger.entries(outcome.approval_id)
        said = [model.model_dump_json().encode() for model in (outcome, state, *entries)]
        workflows = [approval_workflow(outcome.approval_id)]
        if outcome.status == "frozen":
            workflows.append(review_workflow(outcome.idempotency_key or ""))
        histories = [await self.service.client.get_workflow_handle(name).fetch_history() for name in workflows]
        events = [event.SerializeToString() for history in histories for event in history.events]
        files = [file.read_bytes() for file in self.ledger.iterdir()]
        assert all(outcome.approval_id.encode() in b"".join(part) for part in (said, events, files))
        return b"".join([*said, *events, *files])


@pytest.fixture(scope="module")
async def gate(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Gate]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(listening())
        database = await new_database("sqlite", tmp_path_factory.mktemp("http"))
        service = await open_service(stack, client, database, workers=False)
        own = Registry()
        refused = f"http://127.0.0.1:{servers.free_port()}"
        for name, url, headers in (
            ("http.test.pay", server.url, {"Authorization": SECRET}),
            ("http.test.nobody", refused, {"Authorization": SECRET}),
            ("http.test.tokenless", server.url, no_token),
        ):
            http_tool(name, "POST", url, headers=headers, timeout=timedelta(seconds=1), registry=own)
        await service.ledger.publish((tool.manifest for tool in own.tools.values()), datetime.now(UTC))
        for worker in (
            approvals_worker(client, service.ledger, service.settings),
            *tool_workers(client, service.ledger, own),
        ):
            await stack.enter_async_context(worker)
        yield Gate(service, server, Path(database.partition("///")[2]).parent)


async def test_approved_call_is_sent_once_with_the_approvals_key(gate: Gate) -> None:
    gate.server.received.clear()
    gate.server.answers(201, '{"paid": true}')
    outcome = await gate.approved("http.test.pay")
    assert (outcome.status, outcome.content) == ("executed", {"status": 201, "body": {"paid": True}})
    (request,) = gate.server.received
    assert request.header("Idempotency-Key") == [outcome.idempotency_key]
    assert b"s3cr3t" not in await gate.told(outcome)


async def test_refused_call_is_failed_with_the_servers_words(gate: Gate) -> None:
    gate.server.received.clear()
    gate.server.answers(422, '{"error": "no such account"}')
    outcome = await gate.approved("http.test.pay")
    assert (outcome.status, outcome.content) == ("failed", {"status": 422, "body": {"error": "no such account"}})
    assert len(gate.server.received) == 1
    assert b"s3cr3t" not in await gate.told(outcome)


@pytest.mark.parametrize("what", ["503", "silence", "hung up"])
async def test_call_of_unknown_effect_is_frozen_and_sent_once(gate: Gate, what: str) -> None:
    gate.server.received.clear()
    gate.server.answers(503)
    if what != "503":
        gate.server.answer = None if what == "silence" else b""
    outcome = await gate.approved("http.test.pay", n=what)  # the very same call would not run while one is frozen
    assert (outcome.status, outcome.is_error, len(gate.server.received)) == ("frozen", True, 1)
    assert b"s3cr3t" not in await gate.told(outcome)


@pytest.mark.parametrize("tool", ["http.test.nobody", "http.test.tokenless"])
async def test_call_that_was_never_sent_is_failed_and_may_be_proposed_again(gate: Gate, tool: str) -> None:
    gate.server.received.clear()
    for _ in range(2):
        outcome = await gate.approved(tool, message_id="om_http")
        assert (outcome.status, "did not run" in outcome.content) == ("failed", True)
        assert b"s3cr3t" not in await gate.told(outcome)
    assert gate.server.received == []
