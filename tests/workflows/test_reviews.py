"""A frozen call is found out, or decided by a person: once, by those who may, and everyone learns of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from assent import ApprovalHandle, names
from assent.contracts.execute import Closing, Report, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.review import Examined
from assent.types import NotFrozen, Ruled, RulingRefused
from ledger import Holder, claims
from tests.conftest import ME, OPERATOR, Service
from tests.support.frozen_calls import frozen
from tests.support.stepwise import writing
from tests.support.temporal_operations import purge
from tests.support.tools import marks
from tests.support.waiting import until
from workers.sweeping import sweep


async def planned(service: Service, handle: ApprovalHandle) -> tuple[Plan, ToolCall]:
    """What an approval that is shown would run."""
    await handle.state()
    plan = await service.ledger.plan(handle.id)
    assert plan is not None
    return plan, ToolCall.of(plan)


async def test_executed_settles_with_its_content_and_the_key_replays_from_then_on(
    service: Service, tmp_path: Path
) -> None:
    handle = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    waiting = asyncio.create_task(handle.settlement())
    ruled = await handle.settle("executed", operator=OPERATOR, reason="the bank shows it", content={"id": 7})
    assert ruled.kind == "settled"
    settlement = await waiting
    assert settlement == ruled.settlement
    assert (settlement.kind, settlement.content, settlement.settled_by) == ("executed", {"id": 7}, OPERATOR)
    assert (settlement.reason, settlement.surface, settlement.retried) == ("the bank shows it", "client", False)
    assert (await handle.outcome()).status == "frozen"
    again = await service.gate.request("raises", {"path": str(tmp_path / "m")}, requester=ME, message_id=str(tmp_path))
    outcome = await service.decided(again)
    assert (outcome.status, outcome.content) == ("replayed", {"id": 7})
    assert marks(tmp_path / "m") == 1
    entry = (await service.ledger.entries(handle.id))[-1]
    assert (entry.event, entry.actor, entry.ruling, entry.reason) == (
        "settle",
        OPERATOR,
        "executed",
        "the bank shows it",
    )
    assert await service.ledger.verify() == []


async def test_a_large_result_that_was_settled_is_read_whole(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    assert "nobody knows" in await handle.content()
    whole = {"rows": ["x" * 1000] * 200}
    ruled = await handle.settle("executed", operator=OPERATOR, reason="from the bank's export", content=whole)
    assert ruled.settlement is not None
    assert ruled.settlement.truncated
    assert await handle.content() == whole


async def test_not_executed_frees_the_key(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    ruled = await handle.settle("not_executed", operator=OPERATOR, reason="nothing arrived")
    assert ruled.settlement is not None
    assert (ruled.kind, ruled.settlement.kind) == ("settled", "not_executed")
    await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    assert marks(tmp_path / "m") == 2


async def test_only_operators_settle(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    ruled = await handle.settle("executed", operator=ME, reason="I am sure")
    assert (ruled.kind, ruled.settlement) == ("forbidden", None)
    assert await service.ledger.settlement(handle.id) is None
    assert (await handle.settle("executed", operator=OPERATOR, reason="so it is")).kind == "settled"


async def test_of_two_operators_one_is_heard_and_the_other_told_who(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    ruled = await asyncio.gather(
        handle.settle("executed", operator=OPERATOR, reason="yes"),
        handle.settle("not_executed", operator=OPERATOR, reason="no"),
    )
    assert sorted(each.kind for each in ruled) == ["already_settled", "settled"]
    assert ruled[0].settlement == ruled[1].settlement
    later = await handle.settle("executed", operator=OPERATOR, reason="too late")
    assert later.kind == "already_settled"
    assert later.settlement == ruled[0].settlement


async def test_a_settled_review_is_remembered_after_retention(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    outcome = await handle.outcome()
    await purge(service, handle.id)
    assert (await handle.settle("executed", operator=OPERATOR, reason="so it is")).kind == "settled"
    review = names.review_workflow(str(outcome.idempotency_key))
    await service.client.get_workflow_handle(review).result()
    assert (await handle.settlement()).kind == "executed"
    assert (await handle.settle("not_executed", operator=OPERATOR, reason="no")).kind == "already_settled"


async def test_what_is_not_frozen_cannot_be_settled(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    await service.decided(handle)
    with pytest.raises(NotFrozen):
        await handle.settle("executed", operator=OPERATOR, reason="it is")
    with pytest.raises(NotFrozen):
        await handle.settlement()


async def test_trying_again_needs_a_tool_that_bears_it_and_the_typed_hash(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    state = await handle.state()
    hash_ = str(state.payload_sha256)[:12]
    with pytest.raises(RulingRefused) as refused:
        await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=hash_)
    assert refused.value.code == "NotCertain"
    bearing = await frozen(service, tmp_path / "f", "once_more")
    hash_ = str((await bearing.state()).payload_sha256)[:12]
    for wrong in (None, hash_[:11], "0" * 12):
        with pytest.raises(RulingRefused) as refused:
            await bearing.settle("retry", operator=OPERATOR, reason="again", payload_hash=wrong)
        assert refused.value.code == "WrongHash"
    assert (await bearing.settle("retry", operator=ME, reason="again", payload_hash=hash_)).kind == "forbidden"
    assert (await bearing.settle("retry", operator=OPERATOR, reason="again", payload_hash=hash_)).kind == "retrying"
    settlement = await bearing.settlement()
    assert (settlement.kind, settlement.retried, settlement.settled_by) == ("executed", True, OPERATOR)
    events = await service.events(bearing.id)
    assert events[-3:] == ["retry", "execute", "settle"]
    assert await service.ledger.verify() == []


async def test_a_retry_that_ends_unknown_stays_frozen_and_can_be_tried_again(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "f", "flaky", arguments={"failures": 6, "then": "completed"})
    hash_ = str((await handle.state()).payload_sha256)[:12]
    await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=hash_)

    async def tried() -> bool:
        return (await service.events(handle.id)).count("execute_unknown") == 2

    await until(tried)
    assert await service.ledger.settlement(handle.id) is None

    async def taken() -> bool:
        return (await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=hash_)).kind == "retrying"

    await until(taken)
    assert (await handle.settlement()).kind == "executed"
    assert marks(tmp_path / "f") == 7


async def test_a_retry_said_as_soon_as_the_last_one_is_known_to_have_ended_is_made(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger knows of an end before the review does; who reads it there and asks again is not told of the last."""
    handle = await frozen(service, tmp_path / "f", "flaky", arguments={"failures": 6, "then": "completed"})
    closed, noticed = service.ledger.close, asyncio.Event()

    async def late(closing: Closing) -> Report:
        await noticed.wait()
        return await closed(closing)

    monkeypatch.setattr(service.ledger, "close", late)
    hash_ = str((await handle.state()).payload_sha256)[:12]
    first = await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=hash_)

    async def ended() -> bool:
        return (await service.events(handle.id)).count("execute_unknown") == 2

    await until(ended)
    second = await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=hash_)
    noticed.set()
    assert (first.kind, second.kind) == ("retrying", "retrying")
    assert first.consent != second.consent
    assert (await handle.settlement()).kind == "executed"
    assert marks(tmp_path / "f") == 7


async def test_everyone_who_waits_for_the_answer_gets_it(service: Service, tmp_path: Path) -> None:
    first = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    second = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    await second.settle("executed", operator=OPERATOR, reason="it did")
    settlements = await asyncio.gather(first.settlement(), second.settlement())
    assert settlements[0] == settlements[1]
    assert settlements[0].also == (second.id,)
    for handle in (first, second):
        assert (await service.events(handle.id))[-1] == "settle"
    assert marks(tmp_path / "m") == 1


async def test_the_approval_whose_call_it_was_is_settled_too_though_another_opened_the_review(
    service: Service, tmp_path: Path
) -> None:
    first = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    review = names.review_workflow(str((await first.outcome()).idempotency_key))
    await service.client.get_workflow_handle(review).terminate("by hand")
    second = await frozen(service, tmp_path / "m", message_id=str(tmp_path))
    ruled = await second.settle("executed", operator=OPERATOR, reason="it did", content={"id": 7})
    assert (ruled.kind, await first.settlement()) == ("settled", ruled.settlement)
    assert (await service.events(first.id))[-1] == "settle"
    assert await first.content() == await second.content() == {"id": 7}
    assert await service.ledger.verify() == []
    assert marks(tmp_path / "m") == 1


async def test_a_probe_settles_what_it_knows(service: Service, tmp_path: Path) -> None:
    found = tmp_path / "found"
    handle = await frozen(service, tmp_path / "m", "found_later", arguments={"found": str(found)})
    found.write_text('"executed"')
    settlement = await handle.settlement()
    assert (settlement.kind, settlement.settled_by, settlement.surface) == ("executed", None, "probe")
    assert settlement.content == {"found": True}


async def test_of_two_whom_a_probe_answers_only_the_one_whose_call_it_was_executed_it(
    service: Service, tmp_path: Path
) -> None:
    found = tmp_path / "found"
    arguments = {"path": str(tmp_path / "m"), "found": str(found)}
    first = await frozen(service, tmp_path / "m", "found_later", arguments=arguments, message_id=str(tmp_path))
    second = await service.gate.request("found_later", arguments, requester=ME, message_id=str(tmp_path))
    await second.state()
    found.write_text('"executed"')
    outcome = await service.decided(second)
    assert (outcome.status, outcome.content) == ("replayed", {"found": True})
    assert (await first.settlement()).content == {"found": True}
    assert "execute" in await service.events(first.id)
    assert "execute" not in await service.events(second.id)
    assert await service.ledger.verify() == []
    assert marks(tmp_path / "m") == 1


async def test_not_executed_counts_only_once_it_no_longer_can(service: Service, tmp_path: Path) -> None:
    found, gate = tmp_path / "found", tmp_path / "gate"
    found.write_text('"not_executed"')
    arguments = {"found": str(found), "gate": str(gate)}
    running = await frozen(service, tmp_path / "r", "found_later", arguments=arguments)
    ended = await frozen(service, tmp_path / "e", "found_later", arguments={"found": str(found)})
    assert (await ended.settlement()).kind == "not_executed"
    assert await service.ledger.settlement(running.id) is None  # its body may still do it
    gate.touch()
    assert (await running.settlement()).kind == "not_executed"


async def test_a_probe_that_raises_or_answers_nonsense_changes_nothing(service: Service, tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.write_text("nonsense")
    handle = await frozen(service, tmp_path / "m", "found_later", arguments={"found": str(found)})
    outcome = await handle.outcome()
    review = service.client.get_workflow_handle(names.review_workflow(str(outcome.idempotency_key)))

    async def probed() -> bool:
        return bool((await review.query(names.STATE))["probes"])

    await until(probed)
    assert await service.ledger.settlement(handle.id) is None
    assert (await handle.settle("executed", operator=OPERATOR, reason="I saw it")).kind == "settled"


async def test_a_late_truth_is_kept_and_shown(service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await frozen(service, tmp_path / "m", "hangs", arguments={"gate": str(gate)})
    outcome = await handle.outcome()
    review = service.client.get_workflow_handle(names.review_workflow(str(outcome.idempotency_key)))
    gate.touch()

    async def shown() -> Examined | None:
        examined: Examined = await review.query(names.EXAMINED, result_type=Examined)
        return examined if examined.attempts and examined.attempts[-1].late else None

    seen = (await until(shown)).attempts[-1]
    assert seen.state == "unknown"
    assert seen.late[0].state == "executed"
    assert "late" in await service.events(handle.id)
    assert (await handle.settle("executed", operator=OPERATOR, reason="it says so itself")).kind == "settled"


async def test_an_approval_terminated_while_it_executes_gets_its_review(service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    arguments = {"path": str(tmp_path / "m"), "gate": str(gate)}
    handle = await service.gate.request("soon_over", arguments, requester=ME)
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

    async def began() -> bool:
        return marks(tmp_path / "m") == 1

    await until(began)
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).terminate("by hand")

    async def swept() -> bool:
        return await sweep(service.client, service.ledger) > 0

    await until(swept)

    async def listed() -> list[str | None] | None:
        found = service.gate.frozen(limit=1000)  # as soon as Temporal's visibility knows it
        return [review.tool async for review in found if review.approval_id == handle.id] or None

    assert await until(listed) == ["soon_over"]
    gate.touch()
    assert (await handle.settle("executed", operator=OPERATOR, reason="it did")).kind == "settled"
    assert (await handle.settlement()).kind == "executed"
    assert marks(tmp_path / "m") == 1


async def test_a_claim_that_nobody_comes_back_for_is_given_up_and_who_waited_for_it_freezes_with_it(
    service: Service, tmp_path: Path
) -> None:
    """Its worker died, it was ended by hand, and an approval of the same key met it before the sweeper did."""
    path = tmp_path / "m"
    first, second = [
        await service.gate.request("raises", {"path": str(path)}, requester=ME, message_id=str(tmp_path))
        for _ in range(2)
    ]
    (_, begun), (_, met) = [await planned(service, handle) for handle in (first, second)]
    long_ago = datetime.now(UTC) - timedelta(days=1)
    async with writing(service.ledger._engine) as connection:
        await claims.begin(connection, begun, Holder(token=first.id, worker="dead"), long_ago, may_start=True)
    await service.client.get_workflow_handle(names.approval_workflow(first.id)).terminate("by hand")
    shared = ("approval_id", "consent", "idempotency_key", "payload_sha256")
    closing = Closing(now=long_ago, reason="it waited", **{name: getattr(met, name) for name in shared})
    assert (await service.ledger.close(closing)).kind == "waiting"
    assert await sweep(service.client, service.ledger) > 0
    assert (await service.decided(second)).status == "frozen"
    ruled = await second.settle("not_executed", operator=OPERATOR, reason="nothing arrived")
    assert (ruled.kind, await first.settlement()) == ("settled", ruled.settlement)
    assert ruled.settlement is not None
    assert ruled.settlement.also == (second.id,)
    assert await second.settlement() == ruled.settlement
    assert marks(path) == 0


async def test_the_same_call_does_not_run_elsewhere_until_it_is_settled(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    twin = await service.gate.request("raises", {"path": str(tmp_path / "m")}, requester=ME)
    plan = await service.ledger.plan(twin.id)
    while plan is None:
        plan = await service.ledger.plan(twin.id)
    assert plan.frozen_twin == handle.id
    outcome = await service.decided(twin)
    assert outcome.status == "failed"
    assert handle.id in (outcome.reason or "")
    assert marks(tmp_path / "m") == 1
    await handle.settle("not_executed", operator=OPERATOR, reason="nothing arrived")
    await frozen(service, tmp_path / "m")
    assert marks(tmp_path / "m") == 2


async def test_malformed_words_are_refused_and_the_review_stays_open(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    outcome = await handle.outcome()
    review = service.client.get_workflow_handle(names.review_workflow(str(outcome.idempotency_key)))
    for nonsense in ("executed", 17, None, {"kind": "executed"}, {"kind": "perhaps", "reason": "x"}, ["a"] * 1000):
        with pytest.raises(WorkflowUpdateFailedError):
            await review.execute_update(names.SETTLE_REVIEW, nonsense)
    for signal in (names.JOIN, names.NEWS):
        await review.signal(signal, "nonsense")
    by_hand = {"kind": "executed", "operator": {"open_id": "ou_operator"}, "reason": "as typed into Temporal's UI"}
    ruled = await review.execute_update(names.SETTLE_REVIEW, by_hand, result_type=Ruled)
    assert ruled.kind == "settled"
    assert (await handle.settlement()).surface == "temporal"


async def test_reviews_are_listed_with_their_age(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")

    async def listed() -> Any:
        return next(
            iter([each async for each in service.gate.frozen(limit=1000) if each.approval_id == handle.id]), None
        )

    review = await until(listed)
    assert (review.tool, review.requester, review.risk) == ("raises", "open_id:ou_me", "medium")
    assert timedelta(0) <= datetime.now(UTC) - review.frozen_at < timedelta(minutes=5)
