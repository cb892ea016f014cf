"""The engine's face: a program written against it alone, callers that die, and mirrors that fail."""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from assent import Identity, InvalidRequest, ToolOutcome, ToolResult
from assent.contracts.decision import DecisionKind
from assent.engine import (
    ApprovalEngine,
    EngineOutcome,
    EngineStatus,
    NotStarted,
    PendingApproval,
    payload_sha256,
)
from tests.conftest import ME, OPERATOR, Service
from tests.support.deciding import STRANGER
from tests.support.tools import leave_mark, marks
from workers.engine import TemporalApprovalEngine


def pending(path: Path, **more: Any) -> PendingApproval:
    arguments = {"path": str(path), "lines": [1, 2]}
    said = {"approval_id": uuid.uuid4().hex, "tool_name": "their.tool", "arguments": arguments, "requester": ME}
    return PendingApproval(**{**said, "payload_sha256": payload_sha256("their.tool", arguments), **more})


def dispatch(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"marks": leave_mark(arguments["path"]), "tool": tool_name}


class Noting:
    """A mirror that keeps what it is told."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.told: list[tuple[str, str]] = []
        self.put_: list[tuple[str, Any]] = []

    def append(self, event_type: str, *, key: str, outcome: str = "ok", **said: Any) -> None:
        self.told.append((event_type, outcome))
        if self.fails:
            raise OSError("no room")

    def get(self, lookup_key: str) -> Any:
        raise AssertionError("a mirror is never consulted")

    def put(self, idempotency_key: str, *, execution_status: str, result: Any, **said: Any) -> None:
        self.put_.append((execution_status, result))
        if self.fails:
            raise OSError("no room")


async def test_what_is_approved_runs_once_in_the_callers_process(service: Service, tmp_path: Path) -> None:
    mirror = Noting()
    engine = TemporalApprovalEngine(service.client, service.ledger, executions=mirror, audit=mirror)
    asked = pending(tmp_path / "m", created_message_id=f"om_{tmp_path.name}", created_event_id="ev_1")
    await engine.on_request(asked)
    await engine.on_request(asked)
    other = await engine.on_decision(asked.approval_id, "approve", expected_payload_sha256="0" * 64, dispatch=dispatch)
    assert (other.status, other.is_error, marks(tmp_path / "m")) == ("tampered", True, 0)
    first = await engine.on_decision(
        asked.approval_id, "approve", expected_payload_sha256=asked.payload_sha256, dispatch=dispatch
    )
    assert (first.status, first.content, first.is_error) == ("executed", {"marks": 1, "tool": "their.tool"}, False)
    again = await engine.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    assert (again.status, again.content, marks(tmp_path / "m")) == ("replayed", first.content, 1)
    late = await engine.on_decision(asked.approval_id, "reject", dispatch=dispatch)
    assert late.status == "already_decided"
    assert mirror.told == [("write_request", "ok"), ("confirm", "ok"), ("execute", "ok"), ("replay", "ok")]
    assert mirror.put_ == [("executed", first.content)]
    entries = await service.ledger.entries(asked.approval_id)
    assert [(each.event, each.outcome) for each in entries] == [
        ("write_request", "ok"),
        ("tamper", "error"),
        ("confirm", "ok"),
        ("execute", "ok"),
    ]
    assert {(each.proposal_event_id, each.proposal_message_id) for each in entries} == {
        ("ev_1", asked.created_message_id)
    }
    assert not await service.ledger.verify()


async def test_how_a_dispatch_ends_is_how_the_call_does(service: Service, tmp_path: Path) -> None:
    engine = TemporalApprovalEngine(
        service.client, service.ledger, outcome_status={"frozen": "Nobody knows."}, audit=Noting(fails=True)
    )

    async def not_started(approval: PendingApproval) -> None:
        raise NotStarted(f"{approval.tool_name} is closed")

    def needs_login() -> ToolResult:
        return ToolResult(ToolOutcome.NEEDS_USER_AUTH, "log in", authorize_url="https://x.example")

    def is_error() -> ToolResult:
        return ToolResult(is_error=True, content="it said no")

    def raises() -> None:
        raise RuntimeError("lost")

    async def ended(by: Any) -> EngineOutcome:
        asked = pending(tmp_path / uuid.uuid4().hex)
        await engine.on_request(asked)
        return await engine.on_decision(asked.approval_id, "approve", dispatch=by)

    closed, login, refused, lost = [await ended(by) for by in (not_started, needs_login, is_error, raises)]
    assert (closed.status, closed.content) == ("failed", "their.tool is closed")
    assert (login.status, login.content, login.authorize_url) == ("failed", "log in", "https://x.example")
    assert (refused.status, refused.content) == ("failed", "it said no")
    assert (lost.status, lost.content, lost.is_error) == ("frozen", "Nobody knows.", True)


async def test_rejected_withdrawn_missing_forbidden_and_other_hashes(service: Service, tmp_path: Path) -> None:
    mirror = Noting()
    engine = TemporalApprovalEngine(service.client, service.ledger, actor=OPERATOR, audit=mirror)
    asked, dropped = pending(tmp_path / "m"), pending(tmp_path / "m")
    await engine.on_request(asked)
    requesters = TemporalApprovalEngine(service.client, service.ledger)
    foreign = await requesters.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    assert foreign.status == "forbidden", "the decider is the operator"
    rejected = await engine.on_decision(asked.approval_id, "reject", dispatch=dispatch)
    assert (rejected.status, rejected.content) == ("rejected", "The call was rejected. It did not run.")
    approved = await engine.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    assert (approved.status, marks(tmp_path / "m")) == ("already_decided", 0)
    await engine.on_request(dropped)
    await engine.on_cancel(dropped.approval_id)
    await engine.on_cancel("no such approval")
    gone = await engine.on_decision(dropped.approval_id, "approve", dispatch=dispatch)
    assert (gone.status, marks(tmp_path / "m")) == ("already_decided", 0)
    assert (await engine.on_decision("nowhere", "approve", dispatch=dispatch)).status == "missing"
    with pytest.raises(InvalidRequest, match="payload_sha256"):
        await engine.on_request(pending(tmp_path / "m", payload_sha256="f" * 64))
    assert ("cancel", "ok") in mirror.told


async def test_a_result_never_crosses_from_one_requester_to_another(service: Service, tmp_path: Path) -> None:
    engine = TemporalApprovalEngine(service.client, service.ledger)
    mine, same, theirs = (
        pending(tmp_path / "m", idempotency_key=f"key-{tmp_path.name}", requester=person)
        for person in (ME, ME, STRANGER)
    )
    for asked in (mine, same, theirs):
        await engine.on_request(asked)
    outcomes = [
        await engine.on_decision(each.approval_id, "approve", dispatch=dispatch) for each in (mine, same, theirs)
    ]
    assert [each.status for each in outcomes] == ["executed", "replayed", "failed"]
    assert (outcomes[1].content, marks(tmp_path / "m")) == (outcomes[0].content, 1)


async def test_a_call_is_one_by_its_message_its_event_and_its_key(service: Service, tmp_path: Path) -> None:
    engines = [TemporalApprovalEngine(service.client, service.ledger) for _ in range(3)]
    message, event, key = (f"{kind}-{tmp_path.name}" for kind in ("om", "ev", "key"))
    known_by = [
        {"created_message_id": message},
        {"created_message_id": message, "idempotency_key": key},
        {"idempotency_key": key, "created_event_id": event, "created_message_id": message},
    ]
    asked = [pending(tmp_path / "m", **names) for names in known_by]
    other = pending(tmp_path / "other", idempotency_key=key)
    for engine, each in zip([*engines, engines[0]], [*asked, other], strict=True):
        await engine.on_request(each)
    outcomes = await asyncio.gather(
        *(
            engine.on_decision(each.approval_id, "approve", dispatch=dispatch)
            for engine, each in zip(engines, asked, strict=True)
        )
    )
    assert sorted(each.status for each in outcomes) == ["executed", "replayed", "replayed"]
    assert ([each.content["marks"] for each in outcomes], marks(tmp_path / "m")) == ([1, 1, 1], 1)
    refused = await engines[1].on_decision(other.approval_id, "approve", dispatch=dispatch)
    assert (refused.status, refused.reason) == ("failed", "the idempotency key stands for another payload")
    assert marks(tmp_path / "other") == 0


@pytest.mark.parametrize(
    ("stage", "status", "ran"), [("before", "executed", 1), ("inside", "frozen", 1), ("after", "replayed", 1)]
)
async def test_a_caller_that_died_decides_again(
    service: Service, temporal_address: str, tmp_path: Path, stage: str, status: str, ran: int
) -> None:
    message = f"om_{tmp_path.name}"
    asked, mirror = pending(tmp_path / "m", created_message_id=message), Noting()
    also = pending(tmp_path / "m", created_message_id=message, idempotency_key=f"key_{tmp_path.name}")
    engine = TemporalApprovalEngine(service.client, service.ledger, executions=mirror)
    for each in (asked, also):
        await engine.on_request(each)
    said = service.settings.database_url, temporal_address, service.client.namespace, asked.approval_id, stage
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.engine_caller", *said, str(tmp_path / "m")
    )
    assert await caller.wait() == -9
    outcome = await engine.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    assert (outcome.status, marks(tmp_path / "m")) == (status, ran)
    assert [each for each, _ in mirror.put_] == ([] if status == "frozen" else ["executed"])
    outcome = await engine.on_decision(also.approval_id, "approve", dispatch=dispatch)
    assert (outcome.status, marks(tmp_path / "m")) == ("frozen" if status == "frozen" else "replayed", ran)


async def test_who_clicks_thrice_at_once_has_one_call_and_is_told_the_same(service: Service, tmp_path: Path) -> None:
    asked = pending(tmp_path / "m")
    engines = [TemporalApprovalEngine(service.client, service.ledger) for _ in range(2)]
    await engines[0].on_request(asked)
    outcomes = await asyncio.gather(
        *(each.on_decision(asked.approval_id, "approve", dispatch=dispatch) for each in (*engines, engines[0]))
    )
    assert sorted(each.status for each in outcomes) == ["executed", "replayed", "replayed"]
    assert {each.content["marks"] for each in outcomes} == {1}
    assert marks(tmp_path / "m") == 1


async def test_only_a_decision_that_stands_makes_the_call(service: Service, tmp_path: Path) -> None:
    """A caller died right after its decision was heard: its call waits, and whoever is refused must not make it."""
    asked = pending(tmp_path / "m")
    engine = TemporalApprovalEngine(service.client, service.ledger)
    await engine.on_request(asked)
    handle = service.gate.approval(asked.approval_id)
    made = engine._decision(await handle.state(), DecisionKind.APPROVE, asked.payload_sha256)
    assert (await handle.submit(made)).kind == "accepted"
    stranger = TemporalApprovalEngine(service.client, service.ledger, actor=STRANGER)
    for _ in range(2):
        other = await engine.on_decision(
            asked.approval_id, "approve", expected_payload_sha256="0" * 64, dispatch=dispatch
        )
        foreign = await stranger.on_decision(asked.approval_id, "approve", dispatch=dispatch)
        assert (other.status, foreign.is_error, marks(tmp_path / "m")) == ("tampered", True, 0)
    mine = await engine.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    assert (mine.status, marks(tmp_path / "m")) == ("executed", 1)


async def test_whoever_is_refused_is_told_so_each_time(service: Service, tmp_path: Path) -> None:
    asked = pending(tmp_path / "m")
    engine = TemporalApprovalEngine(service.client, service.ledger)
    stranger = TemporalApprovalEngine(service.client, service.ledger, actor=STRANGER)
    await engine.on_request(asked)
    for _ in range(2):
        for no_hash in ("0" * 64, ""):
            other = await engine.on_decision(
                asked.approval_id, "approve", expected_payload_sha256=no_hash, dispatch=dispatch
            )
            assert other.status == "tampered"
        assert (await stranger.on_decision(asked.approval_id, "reject", dispatch=dispatch)).status == "forbidden"
    assert marks(tmp_path / "m") == 0


async def test_what_is_dispatched_is_what_was_asked_whatever_became_of_the_callers_own(service: Service) -> None:
    engine = TemporalApprovalEngine(service.client, service.ledger)
    arguments = {"to": ["ada"]}
    asked = PendingApproval(approval_id=uuid.uuid4().hex, tool_name="their.tool", arguments=arguments, requester=ME)
    await engine.on_request(asked)
    arguments["to"].append("eve")
    made = await engine.on_decision(asked.approval_id, "approve", dispatch=lambda approval: approval.arguments)
    assert made.content == {"to": ["ada"]}


async def test_mirrors_are_told_the_same_by_a_process_that_was_not_asked(service: Service, tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []

    class Log:
        def append(self, event_type: str, *, key: str, approval: PendingApproval | None = None, **said: Any) -> None:
            told.append((event_type, key, said["message_id"], approval and approval.created_event_id, approval))

    first, second = (TemporalApprovalEngine(service.client, service.ledger, audit=Log()) for _ in range(2))
    ids = {"created_message_id": f"om_{tmp_path.name}", "created_event_id": "ev_1"}
    asked = pending(tmp_path / "m", idempotency_key=f"key:{tmp_path.name}", **ids)
    await first.on_request(asked)
    await second.on_decision(asked.approval_id, "approve", dispatch=dispatch)
    await second.on_cancel(asked.approval_id)
    await second.on_cancel("nowhere")
    assert [each[0] for each in told] == ["write_request", "confirm", "execute"], "what ran is not withdrawn"
    assert {each[1:4] for each in told} == {(asked.idempotency_key, asked.created_message_id, "ev_1")}
    assert all(each[4] == asked for each in told)


async def test_no_mirror_and_no_wording_keeps_anybody_from_the_outcome(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.engine._MIRRORED_WITHIN", 0.05)

    class Silent(Noting):
        async def put(self, idempotency_key: str, **said: Any) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    def unworded(status: str) -> str:
        raise KeyError(status)

    engine = TemporalApprovalEngine(
        service.client, service.ledger, executions=Silent(), audit=Noting(fails=True), outcome_status=unworded
    )
    asked, refused = pending(tmp_path / "m"), pending(tmp_path / "m")
    for each in (asked, refused):
        await engine.on_request(each)
    assert (await engine.on_decision(asked.approval_id, "approve", dispatch=dispatch)).status == "executed"
    rejected = await engine.on_decision(refused.approval_id, "reject", dispatch=dispatch)
    assert (rejected.status, rejected.content) == ("rejected", "The call was rejected. It did not run.")


async def test_what_tools_of_the_service_run_is_none_of_an_engines(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    engine = TemporalApprovalEngine(service.client, service.ledger)
    assert (await engine.on_decision(handle.id, "approve", dispatch=dispatch)).status == "missing"
    await engine.on_cancel(handle.id)
    assert (await service.decided(handle)).status == "executed"


class Simple:
    """Another engine: it remembers nothing beyond its process."""

    def __init__(self) -> None:
        self._asked: dict[str, PendingApproval] = {}
        self._made: dict[str, EngineOutcome] = {}

    async def on_request(self, approval: PendingApproval) -> None:
        self._asked[approval.approval_id] = approval

    async def on_cancel(self, approval_id: str) -> None:
        self._asked.pop(approval_id, None)

    async def on_decision(
        self, approval_id: str, decision: str, *, expected_payload_sha256: str | None = None, dispatch: Any
    ) -> EngineOutcome:
        asked = self._asked.get(approval_id)
        if asked is None:
            return EngineOutcome(approval_id=approval_id, status=EngineStatus.MISSING, is_error=True)
        if made := self._made.get(approval_id):
            return made.model_copy(update={"status": EngineStatus.REPLAYED})
        content = dispatch(asked.tool_name, asked.arguments)
        self._made[approval_id] = EngineOutcome(approval_id=approval_id, status=EngineStatus.EXECUTED, content=content)
        return self._made[approval_id]


async def program(engine: ApprovalEngine, path: Path) -> list[str]:
    """A program that knows the protocol alone."""
    asked = pending(path)
    await engine.on_request(asked)
    statuses = []
    for _ in range(2):
        outcome = await engine.on_decision(
            asked.approval_id, "approve", expected_payload_sha256=asked.payload_sha256, dispatch=dispatch
        )
        statuses.append(outcome.status)
    return [*statuses, (await engine.on_decision("nowhere", "reject", dispatch=dispatch)).status]


async def test_a_program_of_the_protocol_alone_takes_either_engine(service: Service, tmp_path: Path) -> None:
    engines: list[ApprovalEngine] = [TemporalApprovalEngine(service.client, service.ledger), Simple()]
    for number, engine in enumerate(engines):
        assert isinstance(engine, ApprovalEngine)
        assert await program(engine, tmp_path / str(number)) == ["executed", "replayed", "missing"]
        assert marks(tmp_path / str(number)) == 1


def test_people_are_needed() -> None:
    with pytest.raises(ValueError, match="requester"):
        PendingApproval(approval_id="a", tool_name="t", arguments={})  # type: ignore[call-arg]
    assert Identity(open_id="ou_1")
