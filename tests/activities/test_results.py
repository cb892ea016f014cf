"""Results that are large, odd or impossible: it ran, so nothing runs again and nothing known is lost."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.tools import ToolActivities
from assent import ApprovalHandle
from assent.content import Content
from assent.contracts.execute import ToolCall
from assent.tools.definition import registry
from ledger import ClaimState, Ending, Holder, Right
from tests.conftest import ME, Service
from tests.support.stepwise import writing
from tests.support.tools import marks
from tests.support.waiting import until


async def returned(service: Service, tmp_path: Path, what: str, size: int = 0) -> ApprovalHandle:
    arguments = {"path": str(tmp_path / "marks"), "what": what, "size": size}
    handle = await service.gate.request("returns", arguments, requester=ME, message_id=f"om_{tmp_path}")
    await service.decided(handle)
    assert marks(tmp_path / "marks") == 1
    return handle


async def test_three_megabytes_are_executed_previewed_and_read_whole_through_the_client(
    service: Service, tmp_path: Path
) -> None:
    handle = await returned(service, tmp_path, "large", 1_500_000)
    outcome = await handle.outcome()
    assert (outcome.status, outcome.truncated) == ("executed", True)
    assert isinstance(outcome.content, str)
    assert len(outcome.content) < 10_000
    assert outcome.content_bytes is not None
    assert outcome.content_bytes > 3_000_000
    assert await service.gate.approval(handle.id).content() == {"text": "ö" * 1_500_000}


async def test_a_replayed_large_result_is_read_whole_too(service: Service, tmp_path: Path) -> None:
    await returned(service, tmp_path, "large", 100_000)
    again = await returned(service, tmp_path, "large", 100_000)
    assert (await again.outcome()).status == "replayed"
    assert await again.content() == {"text": "ö" * 100_000}


@pytest.mark.parametrize(
    ("what", "content"),
    [("nul", "a\x00b\ufffdc"), ("nan", ["nan", "inf"]), ("nothing", None), ("plain", "plain")],
)
async def test_odd_results_arrive_as_they_are(service: Service, tmp_path: Path, what: str, content: object) -> None:
    outcome = await (await returned(service, tmp_path, what)).outcome()
    assert (outcome.status, outcome.content) == ("executed", content)


async def test_a_result_without_a_json_form_is_described(service: Service, tmp_path: Path) -> None:
    outcome = await (await returned(service, tmp_path, "unserialisable")).outcome()
    assert outcome.status == "executed"
    assert "lock" in outcome.content["repr"]
    assert outcome.reason is not None
    assert "no JSON form" in outcome.reason


@pytest.mark.parametrize("kind", ["RuntimeError", "SystemExit", "undescribable"])
async def test_an_exception_of_any_size_and_kind_freezes(service: Service, tmp_path: Path, kind: str) -> None:
    arguments = {"path": str(tmp_path / "marks"), "size": 4_000_000, "kind": kind}
    outcome = await service.decided(await service.gate.request("raises", arguments, requester=ME))
    assert (outcome.status, marks(tmp_path / "marks")) == ("frozen", 1)
    assert outcome.reason is not None
    assert len(outcome.reason) < 5000


@pytest.mark.parametrize("kind", ["RuntimeError", "SystemExit", "CancelledError"])
async def test_an_exception_on_the_loop_freezes_and_the_worker_lives(
    service: Service, tmp_path: Path, kind: str
) -> None:
    arguments = {"path": str(tmp_path / "marks"), "kind": kind}
    outcome = await service.decided(await service.gate.request("raises_async", arguments, requester=ME))
    assert (outcome.status, marks(tmp_path / "marks")) == ("frozen", 1)
    healthy = await service.gate.request("open_mark", {"path": str(tmp_path / "alive")}, requester=ME)
    assert (await service.decided(healthy)).status == "executed"


async def test_a_result_that_the_ledger_refuses_is_executed_without_it(service: Service, tmp_path: Path) -> None:
    await refuse(service, "NEW.content IS NOT NULL AND length(NEW.content) > 4")
    try:
        outcome = await (await returned(service, tmp_path, "unwelcome")).outcome()
    finally:
        await refuse(service, None)
    assert (outcome.status, outcome.content) == ("executed", None)
    assert outcome.reason == "the ledger refused to keep the result"


async def test_an_end_that_cannot_be_recorded_at_all_freezes_and_tells_what_was_seen(
    service: Service, tmp_path: Path
) -> None:
    await refuse(service, "NEW.state = 'executed'")
    try:
        outcome = await (await returned(service, tmp_path, "seen")).outcome()
    finally:
        await refuse(service, None)
    assert outcome.status == "frozen"
    assert outcome.reason == "the tool ended (executed), and the ledger could not record it"
    assert "execute_unknown" in await service.events(outcome.approval_id), "and the claim is closed as unknown"


async def refuse(service: Service, condition: str | None) -> None:
    """Make the database itself refuse some updates of claims, or none."""
    sqlite = "sqlite" in service.settings.database_url
    async with writing(service.ledger._engine) as connection:
        on = "" if sqlite else " ON claims"
        await connection.execute(text(f"DROP TRIGGER IF EXISTS refuse{on}"))
        if condition and sqlite:
            refusal = f"CREATE TRIGGER refuse BEFORE UPDATE ON claims WHEN {condition} "
            await connection.execute(text(refusal + "BEGIN SELECT RAISE(ABORT, 'refused'); END"))
        elif condition:
            function = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS "
            await connection.execute(text(function + "$$BEGIN RAISE EXCEPTION 'refused'; END$$ LANGUAGE plpgsql"))
            trigger = f"CREATE TRIGGER refuse BEFORE UPDATE ON claims FOR EACH ROW WHEN ({condition}) "
            await connection.execute(text(trigger + "EXECUTE FUNCTION refuse()"))


async def test_a_tool_that_hangs_freezes_and_its_late_result_is_kept(service: Service, tmp_path: Path) -> None:
    path, gate = tmp_path / "marks", tmp_path / "gate"
    handle = await service.gate.request("hangs", {"path": str(path), "gate": str(gate)}, requester=ME)
    outcome = await service.decided(handle)
    assert (outcome.status, outcome.reason) == ("frozen", "the tool did not end within 1 seconds")
    gate.touch()

    async def kept() -> bool | None:
        async with writing(service.ledger._engine) as connection:
            late = await connection.execute(
                text("SELECT state, content FROM late_results WHERE consent = :consent"), {"consent": handle.id}
            )
            return [(row.state, row.content) for row in late] == [("executed", b'"ended late"')] or None

    await until(kept)
    assert (await handle.outcome()).status == "frozen"
    assert marks(path) == 1


async def test_a_tool_that_hangs_on_the_loop_freezes(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("hangs_async", {"path": str(tmp_path / "marks")}, requester=ME)
    assert (await service.decided(handle)).reason == "the tool did not end within 1 seconds"


@pytest.mark.parametrize(
    ("finds", "status"),
    [
        ("executed", "executed"),
        ("not_executed", "frozen"),
        ("unknown", "frozen"),
        ("raises", "frozen"),
        ("nonsense", "frozen"),
    ],
)
async def test_a_probe_is_asked_once_and_only_a_clear_yes_counts(
    service: Service, tmp_path: Path, finds: str, status: str
) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("probed", {"path": str(path), "finds": finds}, requester=ME)
    outcome = await service.decided(handle)
    assert (outcome.status, marks(path), marks(f"{path}.probed")) == (status, 1, 1)
    if status == "executed":
        assert outcome.content == {"found": 1}
        assert await service.events(handle.id) == ["write_request", "confirm", "execute_unknown", "execute"]


@pytest.mark.parametrize(
    ("failures", "then", "status", "begun"),
    [
        (0, "completed", "executed", 1),
        (2, "completed", "executed", 3),
        (1, "failed", "frozen", 2),
        (3, "completed", "frozen", 3),
    ],
)
async def test_a_retry_safe_tool_is_begun_again_with_the_same_key(
    service: Service, tmp_path: Path, failures: int, then: str, status: str, begun: int
) -> None:
    path = tmp_path / "marks"
    arguments = {"path": str(path), "failures": failures, "then": then}
    outcome = await service.decided(await service.gate.request("flaky", arguments, requester=ME))
    assert (outcome.status, marks(path)) == (status, begun)
    assert set(path.read_text().splitlines()) == {outcome.idempotency_key}


async def test_a_retry_safe_tool_that_timed_out_on_the_loop_is_begun_again(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("slow_once", {"path": str(path)}, requester=ME)
    outcome = await service.decided(handle)
    assert (outcome.status, outcome.content, marks(path)) == ("executed", "second time", 2)


async def test_a_tool_that_returns_a_generator_did_nothing_that_is_known(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("returns", {"path": str(tmp_path / "marks"), "what": "generator"}, requester=ME)
    outcome = await service.decided(handle)
    assert outcome.status == "frozen"
    assert "generator" in (outcome.reason or "")


async def test_an_endless_authorize_url_is_left_out(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "marks"), "outcome": "needs_user_auth", "authorize_url": "x" * 100_000}
    outcome = await service.decided(await service.gate.request("ends_with", arguments, requester=ME))
    assert (outcome.status, outcome.authorize_url) == ("failed", None)


async def test_a_request_with_a_nul_in_a_name_is_refused_on_every_database(service: Service) -> None:
    outcome = await service.gate.call("mark", {"path": "x", "a\x00b": 1}, requester=ME)
    assert outcome.status == "failed"
    assert outcome.reason is not None


async def test_an_attempt_that_slept_while_a_later_one_began_says_and_does_nothing(
    service: Service, tmp_path: Path
) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    await handle.state()
    plan = await service.ledger.plan(handle.id)
    assert plan is not None
    call, waking = ToolCall.of(plan, approved_by=(ME,)), ActivityEnvironment(client=service.client)
    waking.info = dataclasses.replace(waking.info, scheduled_time=datetime.now(UTC), attempt=1)
    activity = f"{waking.info.workflow_run_id}/{waking.info.activity_id}"
    later = Holder(token=handle.id, worker="another", activity=activity, turn=2)
    assert (await service.ledger.begin(call, later)).right is Right.RUN
    with pytest.raises(ApplicationError) as raised:
        await waking.run(ToolActivities(service.ledger, registry).execute, call.by_its_plan)
    assert (raised.value.type, raised.value.non_retryable) == ("NotYet", False)
    ended = Ending(state=ClaimState.EXECUTED, content=Content.of("done"))
    assert (await service.ledger.finish(call, later, 1, ended)).kind == "executed"
    assert marks(tmp_path / "marks") == 0
    await handle.cancel()
    assert (await handle.outcome()).status == "executed"
