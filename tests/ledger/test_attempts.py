"""Every attempt of every consent counts: what is certain of the last one says nothing of those before it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update

from assent.content import Content
from assent.contracts.audit import AuditEvent
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.review import Examination, FrozenCall
from assent.contracts.ruling import Ruled, Ruling, RulingKind
from assent.types import Surface
from ledger import ClaimState, Ending, Holder, Ledger, Right, attempts, audit
from ledger.clock import database_now
from ledger.schema import approvals
from ledger.schema import attempts as attempts_table
from ledger.schema import claims as claims_table
from tests.conftest import OPERATOR, new_database
from tests.support.ledgers import closing, holder, propose
from tests.support.stepwise import reading, writing
from tests.support.waiting import until

EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of({"sent": True}))
FAILED = Ending(state=ClaimState.FAILED, content=Content.of("no"), error="the tool ended with failed")
RAISED = Ending(state=ClaimState.UNKNOWN, error="RuntimeError: lost")
TIMED_OUT = Ending(state=ClaimState.UNKNOWN, error="the tool did not end within 2 seconds", body_ended=False)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("attempts")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


async def safe(ledger: Ledger, attempts: int = 2, **more: Any) -> Plan:
    return await propose(ledger, retry_safe=True, attempts=attempts, **more)


def again(call: ToolCall, number: int = 1) -> ToolCall:
    """The call as an operator has it tried again."""
    return call.model_copy(update={"consent": f"{call.approval_id}#{number}", "retries": call.consent})


async def ruled(ledger: Ledger, plan: Plan, call: ToolCall, kind: str | None = None, **found: Any) -> Ruled:
    frozen = FrozenCall.of(plan, call, decided_by=None, error=None, frozen_at=datetime.now(UTC))
    ruling = (
        Ruling(kind=RulingKind(kind), operator=OPERATOR, surface=Surface.CLIENT, reason="I looked", ruling_id="r")
        if kind
        else None
    )
    examination = Examination(frozen=frozen, ruling=ruling, now=datetime.now(UTC), **found)
    return await ledger.rule(examination)


async def test_a_retry_that_fails_settles_nothing_while_the_first_attempt_may_have_taken_effect(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first, second = ToolCall.of(plan), holder(), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    retry = again(call)
    assert (await ledger.begin(retry, second)).right is Right.RUN
    report = await ledger.finish(retry, second, 1, FAILED)
    assert report.kind is ReportKind.UNKNOWN
    assert report.reason == "the tool ended with failed; another attempt of the same call may have taken effect"
    assert await ledger.settlement(call.approval_id) is None
    other = await propose(ledger, retry_safe=True, message=plan.idempotency_key)
    same = ToolCall.of(other).model_copy(
        update={"idempotency_key": call.idempotency_key, "payload_sha256": call.payload_sha256}
    )
    met = (await ledger.begin(same, holder())).report
    assert met is not None
    assert met.kind is ReportKind.UNKNOWN, "the key is not free"


async def test_a_chain_whose_every_attempt_failed_did_not_run(ledger: Ledger) -> None:
    plan = await propose(ledger)
    call, first, second = ToolCall.of(plan), holder(), holder()
    await ledger.begin(call, first)
    await ledger.close(closing(call))
    await ledger.finish(call, first, 1, FAILED)  # late: it was given up on
    assert (await ledger.begun(call.consent)).nothing_happened
    retry = again(call)
    assert (await ruled(ledger, plan, call, "retry")).consent == retry.consent
    assert (await ledger.begin(retry, second)).right is Right.RUN
    assert (await ledger.finish(retry, second, 1, FAILED)).kind is ReportKind.FAILED
    settled = await ruled(ledger, plan, retry, "retry", report=Report(kind=ReportKind.FAILED))
    assert settled.settlement is not None
    assert (settled.kind, settled.settlement.kind, settled.settlement.retried) == ("settled", "not_executed", True)


async def test_a_call_that_may_have_run_is_not_tried_again_unless_the_tool_bears_it(ledger: Ledger) -> None:
    call = ToolCall.of(await propose(ledger))
    await ledger.begin(call, holder())
    await ledger.close(closing(call))
    retry = again(call)
    report = (await ledger.begin(retry, holder())).report
    assert report is not None
    assert (report.kind, "not certain" in str(report.reason)) == (ReportKind.NOT_BEGUN, True)
    assert (await ledger.close(closing(retry))).kind is ReportKind.UNKNOWN, "and it is still not known"


async def test_what_was_settled_as_not_executed_is_not_tried_again(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first = ToolCall.of(plan), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    assert (await ruled(ledger, plan, call, "not_executed")).kind == "settled"
    retry = again(call)
    report = (await ledger.begin(retry, holder())).report
    assert report is not None
    assert (report.kind, "settled" in str(report.reason)) == (ReportKind.NOT_BEGUN, True)
    await ledger.close(closing(retry))
    assert (await ruled(ledger, plan, retry, "retry", report=Report(kind=ReportKind.FAILED))).kind == "already_settled"


async def test_standing_speaks_for_every_attempt(ledger: Ledger) -> None:
    call, first, second, third = ToolCall.of(await safe(ledger)), holder(), holder(), holder()
    assert (await ledger.begin(call, first)).attempt == 1
    assert (await ledger.begin(call, second)).attempt == 2
    await ledger.finish(call, second, 2, RAISED)
    standing = await ledger.begun(call.consent)
    assert (standing.attempts, standing.bodies_ended, standing.nothing_happened) == (2, False, False)
    assert not standing.can_no_longer(None)
    retry = again(call)
    await ledger.begin(retry, third)
    await ledger.finish(retry, third, 1, RAISED)
    assert (await ledger.begun(call.consent)).attempts == 3
    assert not (await ledger.begun(retry.consent)).can_no_longer(None), "the first one's code still runs"
    await ledger.body_ended(first)
    for consent in (call.consent, retry.consent):
        assert (await ledger.begun(consent)).can_no_longer(None)
    seen_attempts = await ledger.chain_sights(retry.consent)
    assert [(seen.consent, seen.body_ended) for seen in seen_attempts] == [(call.consent, True), (retry.consent, True)]


async def test_late_ends_count_for_each_attempt(ledger: Ledger) -> None:
    call, first, second = ToolCall.of(await safe(ledger)), holder(), holder()
    await ledger.begin(call, first)
    await ledger.begin(call, second)
    assert (await ledger.finish(call, second, 2, FAILED)).kind is ReportKind.UNKNOWN
    assert not (await ledger.begun(call.consent)).nothing_happened
    await ledger.finish(call, first, 1, TIMED_OUT)
    assert not (await ledger.begun(call.consent)).bodies_ended
    await ledger.finish(call, first, 1, FAILED)
    standing = await ledger.begun(call.consent)
    assert (standing.nothing_happened, standing.bodies_ended) == (True, True)
    (late,) = (await ledger.attempts_of(call.approval_id))[0].late
    assert (late.state, late.error) == ("failed", FAILED.error), "what it knew in the end"
    events = [entry.event for entry in await ledger.entries(call.approval_id)]
    assert events.count(AuditEvent.LATE) == 2, "and all that it said"


async def test_in_flight_counts_from_the_last_beginning_by_the_databases_clock(ledger: Ledger) -> None:
    """The process that asks may live in another year: neither its clock nor the other worker's takes part."""
    call, in_flight = ToolCall.of(await safe(ledger)), timedelta(hours=2)
    await ledger.begin(call, flying(in_flight))
    async with writing(ledger._engine) as connection:
        await connection.execute(
            update(attempts_table)
            .where(attempts_table.c.consent == call.consent)
            .values(began_at=audit.stamp(datetime.now(UTC) - timedelta(hours=3)))
        )
    assert (await ledger.begun(call.consent)).can_no_longer(in_flight)
    await ledger.begin(call, flying(in_flight))
    standing = await ledger.begun(call.consent)
    assert not standing.can_no_longer(in_flight)
    assert timedelta(0) <= standing.now - standing.begun[-1].began_at < timedelta(hours=1)


async def test_in_flight_is_what_the_tool_said_that_was_run_and_what_it_says_now(ledger: Ledger) -> None:
    """An upgrade that takes the word back says nothing of what an older version has sent."""
    call, first = ToolCall.of(await safe(ledger)), flying(timedelta(hours=1))
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    standing = await ledger.begun(call.consent)
    assert standing.bodies_ended
    assert not standing.can_no_longer(None), "it may arrive within the hour"
    call, second = ToolCall.of(await safe(ledger)), holder()
    await ledger.begin(call, second)
    await ledger.finish(call, second, 1, TIMED_OUT)
    assert not (await ledger.begun(call.consent)).can_no_longer(timedelta(0)), "its code still runs"
    await ledger.body_ended(second)
    assert (await ledger.begun(call.consent)).can_no_longer(timedelta(0))
    assert not (await ledger.begun(call.consent)).can_no_longer(timedelta(hours=1))


async def test_a_call_counts_from_when_it_could_begin_not_from_when_it_asked(tmp_path: Path) -> None:
    ledger = Ledger.open(await new_database("postgres", tmp_path))
    await ledger.upgrade()
    try:
        plan = await propose(ledger)
        call = ToolCall.of(plan)
        held = select(approvals.c.approval_id).where(approvals.c.approval_id == plan.approval_id).with_for_update()
        async with writing(ledger.engine) as other:
            await other.execute(held)
            beginning = asyncio.create_task(ledger.begin(call, holder()))
            await until(partial(waits_for_a_lock, ledger))
            released = await database_now(other)
        assert (await beginning).right is Right.RUN
        assert (await ledger.begun(call.consent)).begun[0].began_at >= released
    finally:
        await ledger.dispose()


async def test_a_frozen_twin_stops_a_call_whose_key_becomes_free_just_then(tmp_path: Path) -> None:
    ledger = Ledger.open(await new_database("postgres", tmp_path))
    await ledger.upgrade()
    try:
        same = {"to": "the same"}
        first = await propose(ledger, same, message="one")
        assert (await ledger.begin(ToolCall.of(first), holder())).right is Right.RUN
        twin, running = await propose(ledger, same, message="two"), holder()
        assert (await ledger.begin(ToolCall.of(twin), running)).right is Right.RUN
        await ledger.finish(ToolCall.of(twin), running, 1, RAISED)
        second = ToolCall.of(await propose(ledger, same, message="one"))
        assert (await ledger.begin(second, holder())).right is Right.WAIT
        async with writing(ledger.engine) as finishing:  # the first one fails; this is its transaction
            own = claims_table.c.consent == first.approval_id
            await finishing.execute(update(claims_table).where(own).values(state=ClaimState.FAILED))
            assert (await ledger.begin(second, holder())).right is Right.WAIT
        beginning = await ledger.begin(second, holder())
        assert beginning.report is not None
        assert beginning.report.kind is ReportKind.NOT_BEGUN, "the same call is frozen: it may have taken effect"
    finally:
        await ledger.dispose()


async def test_a_probe_does_not_overrule_what_an_attempt_said_itself(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first = ToolCall.of(plan), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, TIMED_OUT)
    await ledger.finish(call, first, 1, EXECUTED)
    found = Report(kind=ReportKind.NOT_EXECUTED, attempts=1)
    assert (await ruled(ledger, plan, call, report=found)).kind == "retrying"
    assert await ledger.settlement(call.approval_id) is None, "two that are trusted disagree: nobody knows"


async def test_a_retry_is_made_by_the_review_that_promised_it(ledger: Ledger) -> None:
    """Two namespaces of Temporal on one ledger may each have a review of the same key."""
    plan = await safe(ledger, attempts=1)
    call, first = ToolCall.of(plan), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    frozen = FrozenCall.of(plan, call, decided_by=None, error=None, frozen_at=datetime.now(UTC))
    again = Ruling(kind=RulingKind.RETRY, operator=OPERATOR, surface=Surface.CLIENT, reason="again", ruling_id="r")
    promised = await ledger.rule(Examination(frozen=frozen, ruling=again, now=datetime.now(UTC)), "here")
    assert promised.kind == "retrying"
    here, there = await ledger.waits(plan.approval_id, "here"), await ledger.waits(plan.approval_id, "there")
    assert here is not None
    assert here.retry is not None
    assert here.retry.consent == promised.consent
    assert there is not None
    assert there.retry is None
    ruled = await ledger.rule(Examination(frozen=frozen, now=datetime.now(UTC)), "there")
    assert ruled.kind == "retrying", "and nobody settles anything before"


async def test_one_word_makes_one_retry_however_often_it_is_heard(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first = ToolCall.of(plan), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    word = Ruling(
        kind=RulingKind.RETRY, operator=OPERATOR, surface=Surface.CLIENT, reason="again", ruling_id="r", retries=0
    )
    frozen = FrozenCall.of(plan, call, decided_by=None, error=None, frozen_at=datetime.now(UTC))

    async def heard(word: Ruling) -> Ruled:
        return await ledger.rule(Examination(frozen=frozen, ruling=word, now=datetime.now(UTC)))

    promised = await heard(word)
    retry, second = call.model_copy(update={"consent": promised.consent, "retries": call.approval_id}), holder()
    await ledger.begin(retry, second)
    await ledger.finish(retry, second, 1, RAISED)  # nobody knows what came of it either
    assert await heard(word) == promised, "whoever said it was not told, and it is heard again"
    stale = word.model_copy(update={"ruling_id": "r-2"})
    since = await heard(stale)
    assert (since.kind, since.consent) == ("retrying", None), "it was tried again since this one looked"
    fresh = await heard(stale.model_copy(update={"retries": 1}))
    assert fresh.consent not in (None, promised.consent)


def flying(in_flight: timedelta) -> Holder:
    return holder().model_copy(update={"in_flight": in_flight})


async def waits_for_a_lock(ledger: Ledger) -> bool:
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    async with reading(ledger.engine) as connection:
        return bool((await connection.execute(waiting)).scalar_one())


async def test_not_executed_counts_only_for_the_attempts_that_the_probe_knew_of(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first, second = ToolCall.of(plan), holder(), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    found = Report(kind=ReportKind.NOT_EXECUTED, attempts=(await ledger.begun(call.consent)).attempts)
    retry = again(call)
    await ledger.begin(retry, second)
    assert (await ruled(ledger, plan, call, report=found)).kind == "retrying"
    await ledger.finish(retry, second, 1, RAISED)  # and it may have taken effect since the probe looked
    assert (await ruled(ledger, plan, call, report=found)).settlement is None
    newer = Report(kind=ReportKind.NOT_EXECUTED, attempts=(await ledger.begun(call.consent)).attempts)
    assert (await ruled(ledger, plan, call, report=newer)).kind == "settled"


@pytest.mark.parametrize("said", ["executed", "not_executed"])
async def test_a_ruling_that_changed_nothing_is_not_recorded_as_having(ledger: Ledger, said: str) -> None:
    plan = await propose(ledger)
    call, slow = ToolCall.of(plan), holder()
    await ledger.begin(call, slow)
    assert (await ruled(ledger, plan, call, said)).kind == "retrying", "it runs: nobody can say yet"
    await ledger.finish(call, slow, 1, EXECUTED)
    found = await ruled(ledger, plan, call, said)
    assert found.settlement is not None
    assert (found.kind, found.settlement.kind) == ("already_settled", "executed")
    assert (found.settlement.settled_by, found.settlement.reason) == (None, None)
    (entry,) = [each for each in await ledger.entries(call.approval_id) if each.event is AuditEvent.SETTLE]
    assert (entry.actor, entry.reason, entry.ruling) == (None, None, "executed")
    assert await ledger.settlement(call.approval_id) == found.settlement


async def test_what_a_probe_found_while_a_retry_was_wanted_is_what_is_settled(ledger: Ledger) -> None:
    plan = await safe(ledger, attempts=1)
    call, first = ToolCall.of(plan), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, RAISED)
    await ledger.resolve(call, Content.of("found"))
    retry = again(call)
    report = (await ledger.begin(retry, holder())).report
    assert report is not None
    assert report.kind is ReportKind.REPLAYED
    found = await ruled(ledger, plan, retry, "retry", report=report)
    assert found.settlement is not None
    assert (found.settlement.kind, found.settlement.settled_by, found.settlement.retried) == ("executed", None, False)


async def test_a_call_begins_only_under_the_policy_that_was_looked_at(ledger: Ledger) -> None:
    call, running = ToolCall.of(await safe(ledger)), holder()
    before = await ledger.policy()
    number = before.n if before else 0
    await ledger.put_policy("#", uuid.uuid4().hex, datetime.now(UTC))
    assert (await ledger.begin(call, running, policy=(number, 0))).right is Right.LOOK_AGAIN
    assert (await ledger.begin(call, running, policy=(number + 1, 0))).right is Right.RUN
    await ledger.put_policy("# newer", uuid.uuid4().hex, datetime.now(UTC))
    assert (await ledger.begin(call, running, policy=(number + 1, 0))).right is Right.RUN, (
        "it has begun: the answer was lost"
    )
    assert (await ledger.begin(call, holder(), policy=(number + 1, 0))).right is Right.LOOK_AGAIN, (
        "it would begin again"
    )


async def test_every_attempt_is_on_record(ledger: Ledger) -> None:
    call, first, second = ToolCall.of(await safe(ledger)), holder(), holder()
    await ledger.begin(call, first)
    await ledger.begin(call, second)
    await ledger.finish(call, second, 2, EXECUTED)
    async with writing(ledger._engine) as connection:
        rows = await attempts.of_claim(connection, call.consent)
    assert [(row.attempt, row.holder, row.state, row.body_ended) for row in rows] == [
        (1, first.token, "started", 0),
        (2, second.token, "executed", 1),
    ]
