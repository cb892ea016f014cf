"""The fault matrix, acted out on real processes, and a sample of random schedules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.content import Content
from assent.contracts.audit import AuditEvent
from assent.contracts.conclude import Conclusion
from assent.contracts.execute import ReportKind
from assent.contracts.outcome import Outcome
from assent.contracts.status import Status
from ledger import ClaimState, Ending, Ledger
from tests.faults import report
from tests.faults.environments import SAMPLED, Environment, Workspace
from tests.faults.plans import Blow, drawn
from tests.faults.running import run_seeds
from tests.faults.table import TABLE, Fault, Moment, Seen
from tests.support import servers
from tests.support.claims import EXECUTED, NOW, UNKNOWN, closing, consent, holder, ledger

__all__ = ["ledger"]


@pytest.mark.parametrize("environment", SAMPLED, ids=lambda environment: environment.__name__)
async def test_faults_at_every_moment_leave_what_the_table_says(
    environment: Environment, tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    assert report.differences(await environment(Workspace(client, temporal_address, tmp_path))) == []


def test_what_was_seen_is_compared_with_the_sentence_and_with_the_table() -> None:
    expected = {moment: cell for moment, cell in TABLE[Fault.KILL].items() if isinstance(cell, Seen)}
    assert report.differences({Fault.KILL: expected}) == []
    for wrong in (
        expected[Moment.TOOL]._replace(effects="2"),
        expected[Moment.TOOL]._replace(status="executed"),
        expected[Moment.TOOL]._replace(card="Failed"),
    ):
        assert report.differences({Fault.KILL: {**expected, Moment.TOOL: wrong}})


def test_the_document_is_the_whole_table_and_nothing_else() -> None:
    expected = {
        fault: {moment: cell for moment, cell in row.items() if isinstance(cell, Seen)} for fault, row in TABLE.items()
    }
    assert set(TABLE) == set(Fault)
    assert all(set(row) == set(Moment) for row in TABLE.values())
    assert report.DOCUMENT.read_text().partition(report.RECORD)[0] == report.matrix(expected) + "\n"


SAMPLE = range(1, 9)
"""The seeds of every run; `make faults` draws others."""


async def test_a_sample_of_random_schedules_violates_nothing(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str], capsys: pytest.CaptureFixture[str]
) -> None:
    clients = [await servers.connect(temporal_address, next(namespaces)) for _ in range(2)]
    violated = await run_seeds(SAMPLE, clients, temporal_address, tmp_path, minutes=5, at_once=len(SAMPLE))
    assert violated == 0, capsys.readouterr().out


def test_a_seed_draws_the_same_schedule_again() -> None:
    plans = [drawn(seed) for seed in range(300)]
    assert plans == [drawn(seed) for seed in range(300)]
    assert {plan.blow for plan in plans} == set(Blow)
    assert {plan.ledger for plan in plans} == {"sqlite", "postgres"}
    assert {call.moment for plan in plans for call in plan.asked} == {None, *Moment}


# What the schedules found


async def test_what_a_twins_probe_found_is_audited_with_the_call_that_ran(ledger: Ledger) -> None:
    first, second, running = await consent(ledger, message="twin"), await consent(ledger, message="twin"), holder()
    await ledger.begin(first, running)
    await ledger.finish(first, running, 1, UNKNOWN)
    await ledger.begin(second, holder())
    assert (await ledger.resolve(second, Content.of("found"))).kind is ReportKind.REPLAYED
    assert [entry.event for entry in await ledger.entries(first.approval_id)][-1] == AuditEvent.EXECUTE
    assert not [problem for problem in await ledger.verify() if first.approval_id in problem and "result" in problem]


async def test_an_end_told_again_without_its_content_is_no_second_truth(ledger: Ledger) -> None:
    call, running = await consent(ledger), holder()
    await ledger.begin(call, running)
    first = await ledger.finish(call, running, 1, EXECUTED)
    bare = Ending(state=ClaimState.EXECUTED, content=Content(data=b"null"))
    assert await ledger.finish(call, running, 1, bare) == first
    assert (await ledger.attempts_of(call.approval_id))[0].late == ()


async def test_who_was_told_what_a_probe_found_is_told_so_again_after_a_reset(ledger: Ledger) -> None:
    first, second, running = await consent(ledger, message="reset"), await consent(ledger, message="reset"), holder()
    await ledger.begin(first, running)
    await ledger.finish(first, running, 1, UNKNOWN)
    await ledger.begin(second, holder())
    found = await ledger.resolve(second, Content.of("found"))
    assert (await ledger.close(closing(second))).kind is ReportKind.UNKNOWN, "it was told nothing yet"
    outcome = Outcome(approval_id=second.approval_id, status=Status.REPLAYED, content="found")
    await ledger.conclude(Conclusion(outcome=outcome, entries=(), judged=(), closed_at=NOW))
    again = await ledger.begin(second, holder())
    assert again.report == await ledger.close(closing(second)) == found
