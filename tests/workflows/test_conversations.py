"""The same id again, and one conversation at a time."""

from __future__ import annotations

import asyncio
import collections
from pathlib import Path

import pytest

from assent import ApprovalConflict, ConversationBusy, names
from tests.conftest import ME, Service
from tests.support.temporal_operations import purge
from tests.support.tools import marks
from tests.support.waiting import until


def own(service: Service, tmp_path: Path) -> str:
    return f"{tmp_path.name}-{service.client.namespace}"


async def test_same_request_under_its_id_attaches(service: Service, tmp_path: Path) -> None:
    asked = {"path": str(tmp_path / "marks")}
    first = await service.gate.request("mark", asked, requester=ME, approval_id=own(service, tmp_path))
    again = await service.gate.request("mark", asked, requester=ME, approval_id=own(service, tmp_path))
    await service.decided(first)
    after = await service.gate.request("mark", asked, requester=ME, approval_id=own(service, tmp_path))
    outcomes = [await handle.outcome() for handle in (first, again, after)]
    assert {outcome.status.value for outcome in outcomes} == {"executed"}
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("moment", ["open", "closed", "purged"])
async def test_another_request_under_a_used_id_is_refused(service: Service, tmp_path: Path, moment: str) -> None:
    path, approval_id = tmp_path / "marks", own(service, tmp_path)
    handle = await service.gate.request("mark", {"path": str(path)}, requester=ME, approval_id=approval_id)
    if moment != "open":
        await service.decided(handle)
    if moment == "purged":
        await purge(service, approval_id)
    with pytest.raises(ApprovalConflict, match=approval_id):
        await service.gate.request("mark.other", {"path": str(path)}, requester=ME, approval_id=approval_id)
    if moment == "open":
        assert (await handle.state()).phase == "pending"
        await handle.cancel()
    else:
        same = await service.gate.request("mark", {"path": str(path)}, requester=ME, approval_id=approval_id)
        assert (await same.outcome()).status == "executed"
        assert marks(path) == 1


async def test_the_ledger_answers_when_temporal_has_forgotten(service: Service, tmp_path: Path) -> None:
    approval_id = own(service, tmp_path)
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, approval_id=approval_id)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256, event_id="evt_click")
    outcome = await handle.outcome()
    await purge(service, approval_id)
    late = service.gate.approval(approval_id)
    assert await late.outcome() == outcome
    recalled = await late.state()
    assert (recalled.phase, recalled.payload_sha256) == ("closed", state.payload_sha256)
    assert [judged.event_id for judged in recalled.decisions] == ["evt_click"]
    digest = state.payload_sha256
    assert (await late.decide("approve", actor=ME, payload_sha256=digest, event_id="evt_click")).kind == "duplicate"
    assert (await late.decide("approve", actor=ME, payload_sha256=digest)).kind == "already_decided"
    assert (await late.decide("approve", actor=ME, payload_sha256="0" * 64)).kind == "tampered"


async def test_a_busy_conversation_refuses_and_leaves_the_id_free(service: Service, tmp_path: Path) -> None:
    thread, asked = own(service, tmp_path), {"path": str(tmp_path / "marks")}
    first = await service.gate.request("mark", asked, requester=ME, thread_id=thread)
    await first.state()
    approval_id = f"second-{thread}"
    for _ in range(2):
        with pytest.raises(ConversationBusy, match=first.id) as refused:
            await service.gate.request(
                "mark", asked, requester=ME, thread_id=thread, when_pending="fail", approval_id=approval_id
            )
        assert refused.value.pending == first.id
    await first.cancel()
    await first.outcome()
    second = await service.gate.request(
        "mark", asked, requester=ME, thread_id=thread, when_pending="fail", approval_id=approval_id
    )
    assert (await service.decided(second)).status == "executed"


async def test_of_many_that_want_the_conversation_one_gets_it(service: Service, tmp_path: Path) -> None:
    thread = own(service, tmp_path)

    async def ask(n: int) -> str:
        try:
            handle = await service.gate.request(
                "mark", {"path": "x", "note": str(n)}, requester=ME, thread_id=thread, when_pending="fail"
            )
        except ConversationBusy:
            return "busy"
        return (await handle.state()).phase.value

    answers = await asyncio.gather(*(ask(n) for n in range(8)))
    assert collections.Counter(answers) == {"pending": 1, "busy": 7}


async def test_other_conversations_and_allowed_requests_go_on(service: Service, tmp_path: Path) -> None:
    thread = own(service, tmp_path)
    for n, when_pending in ((0, "allow"), (1, "allow"), (2, "fail")):
        handle = await service.gate.request(
            "mark",
            {"path": "x", "note": str(n)},
            requester=ME,
            thread_id=thread if n < 2 else thread + "2",
            when_pending=when_pending,
        )
        assert (await handle.state()).phase == "pending"


async def test_another_tool_with_the_same_arguments_in_one_message_runs(service: Service, tmp_path: Path) -> None:
    path, message = tmp_path / "marks", own(service, tmp_path)
    for expected, tool in enumerate(("mark", "mark.other"), start=1):
        handle = await service.gate.request(tool, {"path": str(path)}, requester=ME, message_id=message)
        assert (await service.decided(handle)).status == "executed"
        assert marks(path) == expected


async def test_a_callers_scope_replays_across_messages(service: Service, tmp_path: Path) -> None:
    path, scope = tmp_path / "marks", own(service, tmp_path)
    statuses = []
    for message in ("m1", "m2"):
        handle = await service.gate.request(
            "mark", {"path": str(path)}, requester=ME, message_id=message, idempotency_scope=scope
        )
        statuses.append((await service.decided(handle)).status.value)
    assert (statuses, marks(path)) == (["executed", "replayed"], 1)


async def test_a_second_approval_of_a_frozen_call_freezes_with_it(service: Service, tmp_path: Path) -> None:
    path, message = tmp_path / "marks", own(service, tmp_path)
    keys = []
    for _ in range(2):
        handle = await service.gate.request("raises", {"path": str(path)}, requester=ME, message_id=message)
        outcome = await service.decided(handle)
        assert outcome.status == "frozen"
        keys.append(outcome.idempotency_key)
    assert marks(path) == 1
    review = service.client.get_workflow_handle(names.review_workflow(str(keys[0])))
    assert keys[0] == keys[1]

    async def seen() -> bool:
        examined: dict[str, list[str]] = await review.query(names.EXAMINED)
        return handle.id in examined["joined"]

    await until(seen)
