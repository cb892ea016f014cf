"""The ledger's table, row by row: begin, finish, close. And the two constraints that carry it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from sqlalchemy import select, text

from assent.content import Content
from assent.contracts.execute import ReportKind, ToolCall
from assent.contracts.status import Status
from ledger import ClaimState, Ending, Ledger, Refused, Right, claims, requesters
from ledger.schema import late_results
from ledger.statements import Statement
from tests.support.claims import EXECUTED, UNKNOWN, closing, consent, holder, ledger
from tests.support.ledgers import ended, propose
from tests.support.stepwise import watched, writing

__all__ = ["ledger"]

FAILED = Ending(state=ClaimState.FAILED, content=Content.of("no"), error="the tool ended with failed")


async def test_begin_gives_the_right_to_run_once(ledger: Ledger) -> None:
    call, first = await consent(ledger), holder()
    assert (await ledger.begin(call, first)).right is Right.RUN
    assert (await ledger.begin(call, first)).right is Right.RUN, "the same attempt asks again after a lost answer"
    second = await ledger.begin(call, holder())
    assert second.right is Right.REPORT
    assert second.report is not None
    assert second.report.kind is ReportKind.UNKNOWN


async def test_begin_after_the_record_returns_the_record(ledger: Ledger) -> None:
    for ending, kind in ((EXECUTED, ReportKind.EXECUTED), (FAILED, ReportKind.FAILED), (UNKNOWN, ReportKind.UNKNOWN)):
        call, first = await consent(ledger), holder()
        await ledger.begin(call, first)
        recorded = await ledger.finish(call, first, 1, ending)
        again = await ledger.begin(call, holder())
        assert again.report == recorded
        assert recorded.kind is kind


async def test_begin_replays_anothers_result(ledger: Ledger) -> None:
    call, first = await consent(ledger, message="m1"), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, EXECUTED)
    other = await consent(ledger, message="m1")
    for _ in range(2):
        report = (await ledger.begin(other, holder())).report
        assert report is not None
        assert (report.kind, report.content) == (ReportKind.REPLAYED, {"sent": True})


async def test_begin_waits_for_another_that_runs_then_runs_if_that_failed(ledger: Ledger) -> None:
    call, first = await consent(ledger, message="m2"), holder()
    await ledger.begin(call, first)
    other = await consent(ledger, message="m2")
    assert (await ledger.begin(other, holder())).right is Right.WAIT
    await ledger.finish(call, first, 1, FAILED)
    assert (await ledger.begin(other, holder())).right is Right.RUN


async def test_begin_freezes_with_another_that_is_unknown(ledger: Ledger) -> None:
    call, first = await consent(ledger, message="m3"), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, UNKNOWN)
    report = (await ledger.begin(await consent(ledger, message="m3"), holder())).report
    assert report is not None
    assert report.kind is ReportKind.UNKNOWN
    assert call.approval_id in (report.reason or "")


async def test_begin_refuses_a_key_that_stands_for_another_payload(ledger: Ledger) -> None:
    call, first = await consent(ledger, message="m4"), holder()
    await ledger.begin(call, first)
    await ledger.finish(call, first, 1, EXECUTED)
    forged = (await consent(ledger, message="m4")).model_copy(update={"payload_sha256": "f" * 64})
    report = (await ledger.begin(forged, holder())).report
    assert report is not None
    assert report.kind is ReportKind.NOT_BEGUN


async def test_begin_too_late_claims_nothing(ledger: Ledger) -> None:
    call = await consent(ledger)
    report = (await ledger.begin(call, holder(), may_start=False)).report
    assert report is not None
    assert report.kind is ReportKind.NOT_BEGUN
    assert (await ledger.close(closing(call))).kind is ReportKind.FAILED


async def test_of_many_at_once_one_begins(ledger: Ledger) -> None:
    calls = [await consent(ledger, message="m5") for _ in range(8)]
    beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    assert sorted(beginning.right for beginning in beginnings) == [Right.RUN, *[Right.WAIT] * 7]


async def test_late_finish_is_kept_beside_and_changes_nothing(ledger: Ledger) -> None:
    call, zombie = await consent(ledger), holder()
    await ledger.begin(call, zombie)
    await ledger.begin(call, holder())  # a second attempt gives the first one up
    assert (await ledger.finish(call, zombie, 1, EXECUTED)).kind is ReportKind.UNKNOWN
    async with writing(ledger._engine) as connection:
        (late,) = (await connection.execute(select(late_results).where(late_results.c.consent == call.consent))).all()
    assert (late.state, late.content) == ("executed", b'{"sent":true}')


async def test_finish_whose_answer_was_lost_can_be_repeated(ledger: Ledger) -> None:
    call, first = await consent(ledger), holder()
    await ledger.begin(call, first)
    assert await ledger.finish(call, first, 1, EXECUTED) == await ledger.finish(call, first, 1, EXECUTED)
    async with writing(ledger._engine) as connection:
        late = await connection.execute(select(late_results).where(late_results.c.consent == call.consent))
    assert late.all() == []


async def test_close_of_nothing_says_it_never_ran_and_never_will(ledger: Ledger) -> None:
    call = await consent(ledger)
    for _ in range(2):
        report = await ledger.close(closing(call))
        assert (report.kind, report.reason) == (ReportKind.FAILED, "no worker came")
    late = await ledger.begin(call, holder())
    assert late.right is Right.REPORT
    assert late.report is not None
    assert late.report.kind is ReportKind.NOT_BEGUN
    assert [entry.event.value for entry in await ledger.entries(call.approval_id)] == [
        "write_request",
        "execute_failed",
    ]


async def test_close_of_a_started_claim_is_unknown(ledger: Ledger) -> None:
    call, first = await consent(ledger), holder()
    await ledger.begin(call, first)
    assert (await ledger.close(closing(call))).kind is ReportKind.UNKNOWN


async def test_close_of_a_finished_claim_is_its_outcome(ledger: Ledger) -> None:
    call, first = await consent(ledger), holder()
    await ledger.begin(call, first)
    recorded = await ledger.finish(call, first, 1, EXECUTED)
    assert await ledger.close(closing(call)) == recorded


async def test_retry_safe_claim_is_taken_over_as_often_as_allowed(ledger: Ledger) -> None:
    call = await consent(ledger, retry_safe=True)
    assert [(await ledger.begin(call, holder())).attempt for _ in range(2)] == [1, 2]
    assert (await ledger.begin(call, holder())).right is Right.REPORT


@pytest.mark.parametrize("retry_safe", [False, True])
async def test_an_attempt_that_slept_leaves_the_claim_of_a_later_one_alone(ledger: Ledger, retry_safe: bool) -> None:
    call = await consent(ledger, retry_safe=retry_safe)
    slept, running = holder(1, "run/1"), holder(2, "run/1")
    assert (await ledger.begin(call, running)).right is Right.RUN
    assert (await ledger.begin(call, slept)).right is Right.YIELD
    assert (await ledger.finish(call, running, 1, EXECUTED)).kind is ReportKind.EXECUTED
    assert (await ledger.begin(call, slept)).right is Right.REPORT


@pytest.mark.parametrize("other", [(3, "run/1"), (2, "run/1"), (1, "another run/1")])
async def test_any_other_attempt_finds_that_the_end_is_unknown(ledger: Ledger, other: tuple[int, str]) -> None:
    call = await consent(ledger)
    await ledger.begin(call, holder(2, "run/1"))
    report = (await ledger.begin(call, holder(*other))).report
    assert report is not None
    assert report.kind is ReportKind.UNKNOWN


async def test_retry_safe_attempt_after_an_unended_one_is_never_failed(ledger: Ledger) -> None:
    call, second = await consent(ledger, retry_safe=True), holder()
    await ledger.begin(call, holder())
    await ledger.begin(call, second)
    assert (await ledger.finish(call, second, 2, FAILED)).kind is ReportKind.UNKNOWN


async def test_the_schema_itself_refuses_a_second_claim(ledger: Ledger) -> None:
    call = await consent(ledger)
    await ledger.begin(call, holder())
    copy = (
        "INSERT INTO claims (consent, idempotency_key, approval_id, payload_sha256, state, attempt) "
        "VALUES (:consent, :key, 'x', 'x', :state, 1)"
    )
    for values in (
        {"consent": call.consent, "key": "another", "state": "failed"},
        {"consent": "another" + call.consent, "key": call.idempotency_key, "state": "started"},
        {"consent": "another" + call.consent, "key": call.idempotency_key, "state": "executed"},
        {"consent": "another" + call.consent, "key": call.idempotency_key, "state": "unknown"},
    ):
        with pytest.raises(Refused, match=r"(?i)unique constraint"):
            async with writing(ledger._engine) as connection:
                await connection.execute(text(copy), values)


async def test_migrations_make_the_schema_that_the_code_declares(ledger: Ledger) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from ledger.migrate import MIGRATIONS, rebuild
    from ledger.schema import VERSION, metadata

    differences = await rebuild(
        ledger.engine,
        lambda sync: compare_metadata(MigrationContext.configure(sync, opts={"compare_type": True}), metadata),
    )
    assert differences == []
    assert await ledger.version() == VERSION == ScriptDirectory(str(MIGRATIONS)).get_current_head()
    await ledger.upgrade()  # again is harmless


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (claims._ACTIVE, "claims_one_active_per_key"),
        (requesters._ACTIVE, "claims_active_in_scope"),
        (requesters._FROZEN, "claims_unknown_payload"),
    ],
)
async def test_however_many_claims_there_are_none_is_searched_for_one_by_one(
    ledger: Ledger, statement: Statement, index: str
) -> None:
    dialect, values = ledger.engine.dialect, {"key": "x", "scope": "x", "payload_sha256": "x"}
    form = statement.form(dialect, values)
    explain = "EXPLAIN QUERY PLAN " if dialect.name == "sqlite" else "EXPLAIN "
    asked = explain + re.sub(r"\?|\$1::VARCHAR", "'x'", form.text)
    async with writing(ledger.engine) as connection:
        if dialect.name == "postgresql":  # a small table is read as a whole, and rightly so
            await connection.execute("SET LOCAL enable_seqscan = off")
        found = await connection.execute(asked)
    assert index in str(found.all())


async def test_sqlite_file_is_private_and_durable(tmp_path: Path) -> None:
    file = tmp_path / "private" / "ledger.db"
    ledger = Ledger.open(f"sqlite+aiosqlite:///{file}")
    await ledger.upgrade()
    async with writing(ledger._engine) as connection:
        pragmas = [
            (await connection.execute(text(f"PRAGMA {name}"))).scalar() for name in ("synchronous", "journal_mode")
        ]
    await ledger.dispose()
    assert pragmas == [2, "wal"]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("may_start", [True, False])
async def test_whoever_meets_a_running_call_waits_for_it_however_late_it_is(ledger: Ledger, may_start: bool) -> None:
    first, second = await consent(ledger, message=f"m6{may_start}"), await consent(ledger, message=f"m6{may_start}")
    running = holder()
    await ledger.begin(first, running)
    for _ in range(2):
        assert (await ledger.begin(second, holder(), may_start=may_start)).right is Right.WAIT
        met = await ledger.close(closing(second))
        assert (met.kind, first.approval_id in str(met.reason)) == (ReportKind.WAITING, True)
    await ledger.finish(first, running, 1, EXECUTED)
    report = (await ledger.begin(second, holder(), may_start=may_start)).report
    assert report is not None
    assert (report.kind, report.content) == (ReportKind.REPLAYED, {"sent": True})


async def test_whoever_waited_too_long_for_a_call_that_failed_does_not_run(ledger: Ledger) -> None:
    first, second, running = await consent(ledger, message="m6c"), await consent(ledger, message="m6c"), holder()
    await ledger.begin(first, running)
    assert (await ledger.close(closing(second))).kind is ReportKind.WAITING
    await ledger.finish(first, running, 1, FAILED)
    report = (await ledger.begin(second, holder(), may_start=False)).report
    assert report is not None
    assert report.kind is ReportKind.NOT_BEGUN
    assert (await ledger.close(closing(second))).kind is ReportKind.FAILED


async def test_close_meets_anothers_result_and_replays_it(ledger: Ledger) -> None:
    first, second, running = await consent(ledger, message="m7"), await consent(ledger, message="m7"), holder()
    await ledger.begin(first, running)
    await ledger.finish(first, running, 1, EXECUTED)
    assert (await ledger.close(closing(second))).kind is ReportKind.REPLAYED


async def test_closing_keeps_any_text_that_it_is_given(ledger: Ledger) -> None:
    call = await consent(ledger)
    odd = closing(call).model_copy(update={"reason": "a\x00b" + "x" * 100_000})
    report = await ledger.close(odd)
    assert report.kind is ReportKind.FAILED
    assert len(report.reason or "") <= 2000


async def test_a_late_result_after_a_probe_found_it_is_kept_beside(ledger: Ledger) -> None:
    call, slow = await consent(ledger), holder()
    await ledger.begin(call, slow)
    await ledger.finish(call, slow, 1, UNKNOWN)
    assert (await ledger.resolve(call, Content.of("found"))).kind is ReportKind.EXECUTED
    assert (await ledger.finish(call, slow, 1, EXECUTED)).content == "found"
    async with writing(ledger._engine) as connection:
        late = await connection.execute(select(late_results).where(late_results.c.consent == call.consent))
    assert [row.content for row in late] == [EXECUTED.content and EXECUTED.content.data]


async def test_a_probe_that_finds_anothers_call_executed_replays_it(ledger: Ledger) -> None:
    first, second, running = await consent(ledger, message="m8"), await consent(ledger, message="m8"), holder()
    await ledger.begin(first, running)
    await ledger.finish(first, running, 1, UNKNOWN)
    await ledger.begin(second, holder())
    for call, kind in ((second, ReportKind.REPLAYED), (first, ReportKind.EXECUTED), (second, ReportKind.REPLAYED)):
        report = await ledger.resolve(call, Content.of("found"))
        assert (report.kind, report.content) == (kind, "found")
    assert (await ledger.entries(first.approval_id))[-1].event == "execute"
    assert [entry.event.value for entry in await ledger.entries(second.approval_id)] == [
        "write_request",
        "execute_unknown",
        "replay",
    ]


async def test_close_and_finish_at_once_never_wait_for_each_other(ledger: Ledger) -> None:
    for _ in range(10):
        call, running = await consent(ledger), holder()
        await ledger.begin(call, running)
        reports = await asyncio.gather(ledger.finish(call, running, 1, EXECUTED), ledger.close(closing(call)))
        assert {report.kind for report in reports} in ({ReportKind.EXECUTED}, {ReportKind.UNKNOWN})


async def test_ending_an_approval_and_its_cards_reads_nothing_of_its_result(ledger: Ledger) -> None:
    """It may hold many megabytes, and whoever ends approvals ends many at once."""
    plan, own = await propose(ledger), holder()
    call = ToolCall.of(plan)
    assert (await ledger.begin(call, own)).right is Right.RUN
    await ledger.finish(call, own, 1, EXECUTED)
    with watched(ledger.engine) as statements:
        await ledger.conclude(ended(plan, Status.EXECUTED))
        assert await ledger.record(plan.approval_id)
    about_claims = [statement for statement in statements if "FROM claims" in statement]
    assert about_claims
    assert not any("claims.content" in statement for statement in about_claims)
