"""`make histories`: lives every path of the workflows on a real server and records it for the replay tests.

Histories are persisted behaviour: a recorded one is replaced only when the design changes, in a commit that says why.
`python -m tests.recording.histories NAME …` records only those paths; without names, only what is missing.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from sqlalchemy import text
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from assent import ApprovalConflict, ApprovalHandle, ConversationBusy, Decision, Identity, names
from assent.contracts.request import Request
from assent.core import Asked
from assent.payload import canonical_payload, sha256
from assent.temporal import search
from assent.types import DecisionKind
from tests.conftest import ME, OPERATOR, Service, new_database, open_service
from tests.recording.bundle_histories import BUNDLE_PATHS
from tests.recording.card_histories import CARD_PATHS
from tests.recording.consent_histories import CONSENT_PATHS
from tests.recording.question_histories import QUESTION_PATHS
from tests.recording.run_histories import RUN_PATHS
from tests.support import servers
from tests.support.feishu_service import open_feishu_service
from tests.support.stepwise import writing
from tests.support.temporal_operations import purge
from tests.support.waiting import until

HISTORIES = Path(__file__).parents[1] / "histories"
LONG_HISTORY = 100_000
"""Bytes after which the recording server suggests to continue as new, so that such a path is short enough to keep."""

Path_ = Callable[[Service, str], Awaitable[str]]
PATHS: dict[str, Path_] = {}
"""Each path lives one approval (or what belongs to it) and returns the workflow id, or id#run, that tells of it."""


def path(live: Path_) -> Path_:
    PATHS[live.__name__] = live
    return live


async def ask(service: Service, directory: str, tool: str = "mark", **asked: object) -> ApprovalHandle:
    arguments = {"path": f"{directory}/marks", **dict(asked.pop("arguments", {}))}  # type: ignore[call-overload]
    return await service.gate.request(tool, arguments, requester=ME, **asked)  # type: ignore[arg-type]


@path
async def executed(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    assert (await service.decided(handle)).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def rejected(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    assert (await service.decided(handle, "reject")).status == "rejected"
    return names.approval_workflow(handle.id)


@path
async def expired(service: Service, directory: str) -> str:
    handle = await ask(service, directory, ttl=timedelta(milliseconds=300))
    assert (await handle.outcome()).status == "expired"
    return names.approval_workflow(handle.id)


@path
async def cancelled(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    await handle.state()
    await handle.cancel("no longer needed", actor=ME)
    assert (await handle.outcome()).status == "cancelled"
    return names.approval_workflow(handle.id)


@path
async def cancelled_in_temporal(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    await handle.state()
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).cancel()
    assert (await handle.outcome()).status == "cancelled"
    return names.approval_workflow(handle.id)


@path
async def superseded(service: Service, directory: str) -> str:
    old = await ask(service, directory, thread_id=directory)
    await old.state()
    new = await ask(service, directory, thread_id=directory, when_pending="supersede", arguments={"note": "new"})
    assert (await old.outcome()).status == "superseded"
    await new.cancel()
    return names.approval_workflow(old.id)


@path
async def superseding(service: Service, directory: str) -> str:
    old = await ask(service, directory, thread_id=directory)
    await old.state()
    new = await ask(service, directory, thread_id=directory, when_pending="supersede", arguments={"note": "new"})
    await old.outcome()
    assert (await service.decided(new)).status == "executed"
    return names.approval_workflow(new.id)


@path
async def busy(service: Service, directory: str) -> str:
    holding = await ask(service, directory, thread_id=directory)
    await holding.state()
    try:
        await ask(service, directory, thread_id=directory, when_pending="fail", approval_id=f"busy{directory}")
    except ConversationBusy:
        return names.approval_workflow(f"busy{directory}")
    raise AssertionError("the conversation was not busy")


@path
async def replayed(service: Service, directory: str) -> str:
    for status in ("executed", "replayed"):
        handle = await ask(service, directory, message_id=directory)
        assert (await service.decided(handle)).status == status
    return names.approval_workflow(handle.id)


@path
async def failed_by_the_tool(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "ends_with", arguments={"outcome": "needs_user_auth"})
    assert (await service.decided(handle)).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def failed_unasked(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "no.such.tool")
    assert (await handle.outcome()).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def failed_unbegun(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    state = await handle.state()
    async with writing(service.ledger._engine) as connection:
        await connection.execute("UPDATE approvals SET plan = replace(plan, 'none', 'evil')")
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    assert (await handle.outcome()).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def frozen(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "raises")
    assert (await service.decided(handle)).status == "frozen"
    return names.approval_workflow(handle.id)


@path
async def frozen_review(service: Service, directory: str) -> str:
    for _ in range(2):
        handle = await ask(service, directory, "raises", message_id=directory)
        outcome = await service.decided(handle)
    return names.review_workflow(str(outcome.idempotency_key))


async def settled(service: Service, directory: str, tool: str, kind: str, **asked: object) -> str:
    """The review of a frozen call, seen to its end."""
    handle = await ask(service, directory, tool, **asked)
    outcome = await service.decided(handle)
    assert outcome.status == "frozen"
    if kind:
        hash_ = str(outcome.payload_sha256)[:12]
        await handle.settle(kind, operator=OPERATOR, reason="it was looked up", payload_hash=hash_)
    await handle.settlement()
    return names.review_workflow(str(outcome.idempotency_key))


@path
async def review_executed(service: Service, directory: str) -> str:
    return await settled(service, directory, "raises", "executed")


@path
async def review_not_executed(service: Service, directory: str) -> str:
    return await settled(service, directory, "raises", "not_executed")


@path
async def review_tried_again(service: Service, directory: str) -> str:
    return await settled(service, directory, "flaky", "retry", arguments={"failures": 3, "then": "completed"})


@path
async def review_probed(service: Service, directory: str) -> str:
    found = Path(directory) / "found"
    found.write_text('"not_executed"')
    return await settled(service, directory, "found_later", "", arguments={"found": str(found)})


@path
async def frozen_joining(service: Service, directory: str) -> str:
    for _ in range(2):
        handle = await ask(service, directory, "raises", message_id=directory)
        assert (await service.decided(handle)).status == "frozen"
    return names.approval_workflow(handle.id)


@path
async def probed_executed(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "probed", arguments={"finds": "executed"})
    assert (await service.decided(handle)).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def probed_unknown(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "probed", arguments={"finds": "unknown"})
    assert (await service.decided(handle)).status == "frozen"
    return names.approval_workflow(handle.id)


@path
async def retried(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "flaky", arguments={"failures": 1, "then": "completed"})
    assert (await service.decided(handle)).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def refused_clicks(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    state = await handle.state()
    stranger = Identity(open_id="ou_stranger")
    assert (await handle.decide("approve", actor=stranger, payload_sha256=state.payload_sha256)).kind == "forbidden"
    assert (await handle.decide("approve", actor=ME, payload_sha256="0" * 64)).kind == "tampered"
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(names.DECIDE, "nonsense")
    assert (await service.decided(handle)).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def large_result(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "returns", arguments={"what": "large", "size": 20_000})
    assert (await service.decided(handle)).truncated
    return names.approval_workflow(handle.id)


@path
async def recalled_after_retention(service: Service, directory: str) -> str:
    handle = await ask(service, directory, approval_id=f"recalled{directory}")
    await service.decided(handle)
    await purge(service, handle.id)
    again = await ask(service, directory, approval_id=handle.id)
    assert (await again.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def conflict_after_retention(service: Service, directory: str) -> str:
    handle = await ask(service, directory, approval_id=f"conflict{directory}")
    await service.decided(handle)
    await purge(service, handle.id)
    try:
        await ask(service, directory, "mark.other", approval_id=handle.id)
    except ApprovalConflict:
        return names.approval_workflow(handle.id)
    raise AssertionError("there was no conflict")


@path
async def recall(service: Service, directory: str) -> str:
    handle = await ask(service, directory)
    await service.decided(handle)
    await handle.decide("approve", actor=ME, payload_sha256="0" * 64)
    async for found in service.client.list_workflows(f'WorkflowType = "{names.RECALL}"', limit=1):
        return found.id
    raise AssertionError("nothing was recalled")


async def grown_long(service: Service, directory: str) -> tuple[ApprovalHandle, str]:
    """An approval with enough noise to make it start over; and the id of its first run."""
    handle = await ask(service, directory)
    await handle.state()
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    first = (await workflow.describe()).run_id
    for _ in range(4):
        await workflow.signal(names.DECIDE, "x" * (LONG_HISTORY // 3))
        await handle.state()

    async def continued() -> bool | None:
        return (await workflow.describe()).run_id != first or None

    await until(continued)
    return handle, first


@path
async def continuing_as_new(service: Service, directory: str) -> str:
    handle, first_run = await grown_long(service, directory)
    await handle.cancel()
    return f"{names.approval_workflow(handle.id)}#{first_run}"


@path
async def continued_as_new(service: Service, directory: str) -> str:
    handle, _ = await grown_long(service, directory)
    assert (await service.decided(handle)).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def early_decision(service: Service, directory: str) -> str:
    """Decided before any worker has prepared it: the workflow is started and signalled in one breath."""
    payload_sha256 = sha256(canonical_payload("open_mark", {"path": f"{directory}/marks"}))
    request = Request(
        approval_id=f"early{directory}", tool="open_mark", arguments={"path": f"{directory}/marks"}, requester=ME
    )
    decision = Decision(
        approval_id=request.approval_id,
        kind=DecisionKind.APPROVE,
        payload_sha256=payload_sha256,
        actor=ME,
        event_id="evt_early",
    )
    await service.client.start_workflow(
        names.APPROVAL,
        Asked(request=request),
        id=names.approval_workflow(request.approval_id),
        task_queue=names.APPROVALS_QUEUE,
        start_signal=names.DECIDE,
        start_signal_args=[decision],
    )
    assert (await service.gate.approval(request.approval_id).outcome()).status == "executed"
    return names.approval_workflow(request.approval_id)


# Where a call is listed as running once it has done so for a moment: those above were recorded when it was at once.


@path
async def executed_listed_late(service: Service, directory: str) -> str:
    return await executed(service, directory)


@path
async def running_listed_late(service: Service, directory: str) -> str:
    gate = Path(directory) / "gate"
    handle = await ask(service, directory, "gated", arguments={"gate": str(gate)})
    deciding = asyncio.create_task(service.decided(handle))
    approval = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def listed() -> bool:
        return (await approval.describe()).typed_search_attributes.get(search.STATUS) == "executing"

    await until(listed)
    gate.touch()
    assert (await deciding).status == "executed"
    return approval.id


@path
async def probed_listed_late(service: Service, directory: str) -> str:
    return await probed_executed(service, directory)


async def _run(service: Service, statement: str) -> None:
    async with writing(service.ledger._engine) as connection:
        await connection.execute(text(statement))


async def handed_over(service: Service, directory: str) -> tuple[str, str]:
    """After the execution the ledger takes no ending, for longer than an outcome waits for it."""
    handle = await ask(service, directory)
    await _run(service, "CREATE TRIGGER full BEFORE UPDATE OF outcome ON approvals BEGIN SELECT RAISE(ABORT, ''); END")
    try:
        assert (await service.decided(handle)).status == "executed"
    finally:
        await _run(service, "DROP TRIGGER full")
    async for child in service.client.list_workflows(f'WorkflowType = "{names.RECORDING}"', limit=1):
        await service.client.get_workflow_handle(child.id).result()
        return handle.id, child.id
    raise AssertionError("nothing was handed over")


@path
async def settling_handed_over(service: Service, directory: str) -> str:
    return names.approval_workflow((await handed_over(service, directory))[0])


@path
async def settling(service: Service, directory: str) -> str:
    return (await handed_over(service, directory))[1]


PATHS.update(CONSENT_PATHS)
CARD_PATHS.update(BUNDLE_PATHS)
CARD_PATHS.update(QUESTION_PATHS)
CARD_PATHS.update(RUN_PATHS)
ALL_PATHS = [*PATHS, *CARD_PATHS]


async def record(wanted: list[str]) -> None:
    server = servers.TemporalServer(settings=[f"limit.historySize.suggestContinueAsNew={LONG_HISTORY}"], namespaces=1)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as directory:
            async with AsyncExitStack() as stack:
                service = await open_service(
                    stack, await _recorder(server, "default"), await new_database("sqlite", Path(directory))
                )
                feishu = await open_feishu_service(stack, await _recorder(server, "n0"), Path(directory))
                for name in wanted:
                    own = Path(directory) / name
                    own.mkdir()
                    client = feishu.service.client if name in CARD_PATHS else service.client
                    told = CARD_PATHS[name](feishu, own) if name in CARD_PATHS else PATHS[name](service, str(own))
                    workflow_id, _, run_id = (await told).partition("#")
                    history = await client.get_workflow_handle(workflow_id, run_id=run_id or None).fetch_history()
                    written = json.dumps(json.loads(history.to_json()), separators=(",", ":"))
                    (HISTORIES / f"{name}.json").write_text(written.replace(directory, "/tmp/histories") + "\n")
                    print(f"{name}: {len(history.events)} events")
    finally:
        server.kill()


async def _recorder(server: servers.TemporalServer, namespace: str) -> Client:
    await servers.connect(server.address, namespace)
    return await Client.connect(
        server.address, namespace=namespace, data_converter=pydantic_data_converter, identity="recorder"
    )


if __name__ == "__main__":
    HISTORIES.mkdir(exist_ok=True)
    missing = [name for name in ALL_PATHS if not (HISTORIES / f"{name}.json").exists()]
    asyncio.run(record(sys.argv[1:] or missing))
