"""One test for each way an approval ends, on both ledgers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from assent import Identity, Status, names
from assent.contracts.review import FrozenCall
from tests.conftest import ME, Service
from tests.support.tools import marks


async def test_approved_call_is_executed_once_with_its_result(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path), "amount": "120.00"}, requester=ME, reason="a try")
    outcome = await service.decided(handle)
    assert outcome.status == "executed"
    assert outcome.content == {"marks": 1, "amount": "120.00", "note": "none", "key": outcome.idempotency_key}
    assert (outcome.is_error, outcome.decided_by, marks(path)) == (False, ME, 1)
    assert await service.events(handle.id) == ["write_request", "confirm", "execute"]


async def test_rejected_call_never_runs(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME)
    state = await handle.state()
    await handle.decide("reject", actor=ME, payload_sha256=state.payload_sha256, reason="too much")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason, outcome.decided_by) == ("rejected", "too much", ME)
    assert outcome.is_error
    assert marks(path) == 0
    assert await service.events(handle.id) == ["write_request", "confirm"]


async def test_undecided_call_expires(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME, ttl=timedelta(milliseconds=300))
    outcome = await handle.outcome()
    assert (outcome.status, outcome.decided_by, marks(path)) == ("expired", None, 0)
    assert await service.events(handle.id) == ["write_request", "expire"]


async def test_withdrawn_call_is_cancelled(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME)
    await handle.cancel("no longer needed")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason, marks(path)) == ("cancelled", "no longer needed", 0)
    assert await service.events(handle.id) == ["write_request", "cancel"]


async def test_newer_request_of_the_conversation_supersedes(service: Service, tmp_path: Path) -> None:
    path, thread = tmp_path / "marks", f"thread-{tmp_path}"
    old = await service.gate.request("mark", {"path": str(path)}, requester=ME, thread_id=thread)
    await old.state()
    new = await service.gate.request(
        "mark", {"path": str(path), "note": "new"}, requester=ME, thread_id=thread, when_pending="supersede"
    )
    outcome = await old.outcome()
    assert (outcome.status, outcome.reason) == ("superseded", f"replaced by {new.id}")
    assert (await service.decided(new)).status == "executed"
    assert marks(path) == 1
    assert await service.events(old.id) == ["write_request", "supersede"]


async def test_same_call_twice_in_one_message_runs_once_and_is_replayed(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    asked = {"path": str(path)}
    handles = [await service.gate.request("mark", asked, requester=ME, message_id=f"om_{tmp_path}") for _ in range(2)]
    outcomes = await asyncio.gather(*(service.decided(handle) for handle in handles))
    assert sorted(outcome.status for outcome in outcomes) == ["executed", "replayed"]
    assert outcomes[0].content == outcomes[1].content
    assert not any(outcome.is_error for outcome in outcomes)
    assert marks(path) == 1
    replayed = handles[[outcome.status for outcome in outcomes].index(Status.REPLAYED)]
    assert await service.events(replayed.id) == ["write_request", "confirm", "replay"]


@pytest.mark.parametrize("outcome", ["failed", "blocked", "needs_user_auth", "cancelled"])
async def test_tool_that_says_it_failed_is_failed(service: Service, tmp_path: Path, outcome: str) -> None:
    path = tmp_path / "marks"
    arguments = {"path": str(path), "outcome": outcome, "authorize_url": "https://auth.example/x"}
    ended = await service.decided(await service.gate.request("ends_with", arguments, requester=ME))
    assert (ended.status, ended.is_error, ended.content) == ("failed", True, {"marks": 1})
    assert ended.authorize_url == "https://auth.example/x"


@pytest.mark.parametrize("outcome", ["completed", "informational"])
async def test_tool_that_says_it_completed_is_executed(service: Service, tmp_path: Path, outcome: str) -> None:
    arguments = {"path": str(tmp_path / "marks"), "outcome": outcome}
    ended = await service.decided(await service.gate.request("ends_with", arguments, requester=ME))
    assert (ended.status, ended.is_error) == ("executed", False)


async def test_failed_call_is_never_replayed(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    arguments = {"path": str(path), "outcome": "failed"}
    for expected in (1, 2):
        handle = await service.gate.request("ends_with", arguments, requester=ME, message_id=f"om_{tmp_path}")
        assert (await service.decided(handle)).status == "failed"
        assert marks(path) == expected


async def test_raising_tool_is_frozen_and_its_review_can_be_queried(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    handle = await service.gate.request("raises", {"path": str(path)}, requester=ME)
    outcome = await service.decided(handle)
    assert (outcome.status, outcome.is_error, marks(path)) == ("frozen", True, 1)
    assert await service.events(handle.id) == ["write_request", "confirm", "execute_unknown"]
    assert outcome.idempotency_key is not None
    review = await review_of(service, outcome.idempotency_key)
    assert review.call.approval_id == handle.id
    assert review.error == "RuntimeError: " + "x" * 10


async def test_unknown_tool_and_invalid_arguments_fail_before_anyone_is_bothered(service: Service) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("no.such.tool", {}, "no.such.tool"),
        ("mark", {}, "path"),
        ("mark", {"path": 7}, "$.path"),
        ("mark", {"path": "x", "surplus": 1}, "surplus"),
        ("mark", {"path": "x", "note": True}, "$.note"),
    ]
    for tool, arguments, reason in cases:
        outcome = await service.gate.call(tool, arguments, requester=ME)
        assert outcome.status == "failed"
        assert outcome.reason is not None
        assert reason in outcome.reason
        assert await service.events(outcome.approval_id) == ["write_request", "execute_failed"]


async def review_of(service: Service, idempotency_key: str) -> FrozenCall:
    review = service.client.get_workflow_handle(names.review_workflow(idempotency_key))
    assert (await review.describe()).status is not None
    answer: FrozenCall = await review.query("state", result_type=FrozenCall)
    return answer


async def test_identity_of_a_stranger_decides_nothing(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
    state = await handle.state()
    stranger = Identity(open_id="ou_stranger")
    verdict = await handle.decide("approve", actor=stranger, payload_sha256=state.payload_sha256)
    assert (verdict.kind, verdict.decided_by) == ("forbidden", None)
    assert (await service.decided(handle)).status == "executed"
    assert "forbid" in await service.events(handle.id)
