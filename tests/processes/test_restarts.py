"""The worker dies between any two steps of a decision, and nothing of what was said is lost or counted twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Decision, Identity
from assent.types import DecisionKind, Stage, State, Verdict
from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.tools import CHIEFS, PEOPLE, marks
from tests.support.waiting import until
from tests.support.worker_processes import Process, WorkerProcesses


class Restless:
    """Approvals workers that die after every step."""

    def __init__(self, processes: WorkerProcesses) -> None:
        self._house = processes
        self._worker: Process | None = None

    async def next_worker(self) -> None:
        if self._worker is not None:
            await self._worker.kill()
        self._worker = await self._house.start("approvals")

    async def say(self, handle: ApprovalHandle, kind: str, actor: Identity, **said: Any) -> Verdict:
        """Decide, with a worker that has never heard of this approval; then it dies."""
        state = await self.state(handle)
        sha = state.result_sha256 if said.get("stage") is Stage.RESULT else state.payload_sha256
        decision = Decision(
            approval_id=handle.id,
            kind=DecisionKind(kind),
            payload_sha256=sha,
            actor=actor,
            event_id=f"{kind}-{actor}-{sha}",
            delivery_id="once",
            **said,
        )

        async def judged() -> Verdict | None:
            verdict = await handle.submit(decision)
            return verdict if verdict.kind != "received" else None

        found = await until(judged)
        await self.next_worker()
        return found

    async def state(self, handle: ApprovalHandle, phase: str | None = None) -> State:
        async def there() -> State | None:
            state = await handle.state()
            return state if phase is None or state.phase == phase else None

        return await until(there)


@pytest.fixture
async def restless(tmp_path: Path, temporal_address: str, namespaces: Iterator[str]) -> AsyncIterator[Restless]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path)
        service = await open_service(stack, client, url, workers=False)
        processes = WorkerProcesses(service, temporal_address, tmp_path)
        stack.push_async_callback(processes.close)
        await processes.start("tools")
        found = Restless(processes)
        await found.next_worker()
        yield found


async def test_stages_edits_and_delegation_survive_a_death_after_each_step(restless: Restless, tmp_path: Path) -> None:
    gate = restless._house.gate
    arguments = {"path": str(tmp_path / "m"), "amount": 1}
    handle = await gate.request("by_stages", arguments, requester=ME)
    await restless.state(handle, "pending")
    await restless.next_worker()
    assert (await restless.say(handle, "approve", PEOPLE[0])).kind == "accepted"
    assert (await restless.say(handle, "edit", PEOPLE[1], arguments={**arguments, "amount": 5})).kind == "accepted"
    assert (await restless.say(handle, "delegate", PEOPLE[2], delegate_to=ME_TOO)).kind == "accepted"
    assert (await restless.say(handle, "approve", PEOPLE[1])).kind == "already_decided"
    assert (await restless.say(handle, "approve", ME_TOO)).kind == "accepted"
    state = await restless.state(handle, "pending")
    assert state.progress is not None
    assert (state.progress.stage, state.progress.approved) == (2, 0)
    assert (await restless.say(handle, "approve", CHIEFS[0])).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content["amount"], marks(tmp_path / "m")) == ("executed", 5, 1)
    assert outcome.approved_by == (PEOPLE[1], ME_TOO, CHIEFS[0])
    assert not await restless._house.ledger.verify()


async def test_a_grant_and_a_result_survive_a_death_after_each_step(restless: Restless, tmp_path: Path) -> None:
    gate = restless._house.gate
    first = await gate.request("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await restless.say(first, "approve", ME)).kind == "accepted"
    assert (await first.outcome()).status == "executed"
    await restless.next_worker()
    again = await gate.call("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
    assert (again.status, again.grant_id is not None, marks(tmp_path / "m")) == ("executed", True, 2)

    handle = await gate.request("looked_at", {"path": str(tmp_path / "r")}, requester=ME)
    assert (await restless.say(handle, "approve", ME)).kind == "accepted"
    await restless.state(handle, "reviewing")
    await restless.next_worker()
    assert (await restless.say(handle, "approve", ME, stage=Stage.RESULT)).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content["marks"], marks(tmp_path / "r")) == ("executed", 1, 1)


ME_TOO = Identity(open_id="ou_me_too")
