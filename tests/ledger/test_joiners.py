"""Everybody who waits for the answer gets it: who that is stands in the ledger, not in a review's memory."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowUpdateStage

from assent import ApprovalHandle, InvalidRequest, names
from assent.client.door import parse_request
from assent.content import Content
from assent.contracts.execute import ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.review import Examination, FrozenCall, Telling
from assent.contracts.ruling import Ruled, Ruling
from assent.contracts.status import Status
from assent.types import RulingKind
from ledger import ClaimState, Ending, Ledger
from tests.conftest import ME, OPERATOR, Service, new_database
from tests.support.frozen_calls import frozen
from tests.support.frozen_ledger_calls import LOST, lost, said
from tests.support.ledgers import NOW, closing, ended, holder, propose
from tests.support.stepwise import writing
from tests.support.tools import marks
from tests.support.waiting import until
from workers.sweeping import sweep


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path))
    await ledger.upgrade()
    yield ledger
    assert not [problem for problem in await ledger.verify() if "settled" in problem]
    await ledger.dispose()


async def joining(ledger: Ledger, plan: Plan) -> Plan:
    """An approval that meets the call of another one, and ends frozen with it."""
    other = await met(ledger, plan)
    await ledger.conclude(ended(other, Status.FROZEN))
    return other


async def met(ledger: Ledger, plan: Plan) -> Plan:
    other = await propose(ledger, message=plan.idempotency_key.split(":")[2])
    beginning = await ledger.begin(ToolCall.of(other), holder())
    assert beginning.report is not None
    return other


async def test_who_joins_after_the_ruling_was_committed_finds_it(ledger: Ledger) -> None:
    plan = await lost(ledger)
    early = await met(ledger, plan)
    await ledger.rule(said(plan, RulingKind.NOT_EXECUTED))
    assert await ledger.settlement(early.approval_id) is not None, "its claim leads to the one that was settled"
    await ledger.conclude(ended(early, Status.FROZEN))
    settlement = await ledger.settlement(early.approval_id)
    assert settlement is not None
    assert (settlement.kind, settlement.settled_by, settlement.reason) == ("not_executed", OPERATOR, "I looked")
    assert (await ledger.entries(early.approval_id))[-1].event == "settle"
    assert await ledger.verify() == []


async def test_any_number_may_wait_for_one_answer(ledger: Ledger) -> None:
    """More than a thousand joiners; the review names some of them, and all are told."""
    plan = await lost(ledger)
    first = await joining(ledger, plan)
    async with writing(ledger._engine) as connection:
        for table, own in (("approvals", "approval_id"), ("claims", "consent, approval_id"), ("audit", "approval_id")):
            columns = (await connection.execute(text(f"SELECT * FROM {table} LIMIT 1"))).one()._fields
            copied = ["'many-' || n" if name in own.split(", ") else f'"{name}"' for name in columns]
            await connection.execute(
                text(
                    f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1200) "
                    f"INSERT INTO {table} SELECT {', '.join(copied)} FROM {table}, numbers WHERE approval_id = :first"
                ),
                {"first": first.approval_id},
            )
    ruled = await ledger.rule(said(plan, RulingKind.EXECUTED, content={"id": 7}))
    assert ruled.settlement is not None
    waits = await ledger.waits(plan.approval_id)
    assert waits is not None
    assert (waits.count, waits.told) == (1202, False)
    for n in (1, 1000, 1200):
        settlement = await ledger.settlement(f"many-{n}")
        assert settlement is not None
        assert (settlement.kind, settlement.content) == ("executed", {"id": 7})
        assert len(settlement.also) <= 21
        assert len(settlement.model_dump_json()) < 10_000
    after: str | None = ""
    while after is not None:
        after = (await ledger.tell(Telling(approval_id=plan.approval_id, after=after))).after
    for approval_id in (plan.approval_id, first.approval_id, "many-1", "many-1199", "many-1200"):
        assert [entry.once for entry in await ledger.entries(approval_id)].count("settle") == 1
    waits = await ledger.waits(plan.approval_id)
    assert waits is not None
    assert waits.told


async def test_what_a_probe_finds_for_one_is_settled_for_all_who_froze(ledger: Ledger) -> None:
    plan = await lost(ledger)
    joined = await joining(ledger, plan)
    asking = await met(ledger, plan)
    report = await ledger.resolve(ToolCall.of(asking), Content.of("found"))
    assert report.kind is ReportKind.REPLAYED
    for each in (plan, joined):
        settlement = await ledger.settlement(each.approval_id)
        assert settlement is not None
        assert (settlement.kind, settlement.surface, settlement.content) == ("executed", "probe", "found")
        assert (await ledger.entries(each.approval_id))[-1].event == "settle"
    assert "settle" not in [entry.event for entry in await ledger.entries(asking.approval_id)]
    assert await ledger.untold("default", NOW.replace(year=NOW.year + 1)) != [], "somebody has to show it"
    assert await ledger.verify() == []


async def test_a_ruling_that_comes_after_the_truth_is_not_recorded_as_having_settled(ledger: Ledger) -> None:
    plan = await lost(ledger)
    await ledger.resolve(ToolCall.of(plan), Content.of("found"))
    ruled = await ledger.rule(said(plan, RulingKind.NOT_EXECUTED))
    assert ruled.kind == "already_settled"
    assert ruled.settlement is not None
    assert (ruled.settlement.kind, ruled.settlement.settled_by, ruled.settlement.reason) == ("executed", None, None)


async def test_the_same_ruling_told_twice_settled_it(ledger: Ledger) -> None:
    plan = await lost(ledger)
    examination = said(plan, RulingKind.EXECUTED)
    first, again = await ledger.rule(examination), await ledger.rule(examination)
    assert first.kind == again.kind == "settled"
    assert first.settlement == again.settlement
    assert (await ledger.rule(said(plan, RulingKind.EXECUTED))).kind == "already_settled"


# Retries


async def test_a_retry_has_a_number_that_none_had_before(ledger: Ledger) -> None:
    plan = await lost(ledger, retry_safe=True)
    made = []
    for _ in range(3):
        ruled = await ledger.rule(said(plan, RulingKind.RETRY))  # each time by a review that knows of none before
        assert ruled.kind == "retrying"
        assert ruled.consent is not None
        again = await ledger.rule(said(plan, RulingKind.RETRY))
        assert (again.kind, again.consent) == ("retrying", ruled.consent), "one at a time"
        made.append(ruled.consent)
        call = ToolCall.of(plan, consent=ruled.consent, retries=plan.approval_id)
        running = holder()
        assert (await ledger.begin(call, running)).right == "run"
        await ledger.finish(call, running, 1, LOST)
    assert made == [f"{plan.approval_id}#{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize("name", ["transfer#1", "#2", "a#b#33"])
def test_no_approval_has_the_name_of_a_retry(name: str) -> None:
    with pytest.raises(InvalidRequest, match="retry"):
        parse_request(approval_id=name, tool="t", arguments={}, requester=ME)
    assert parse_request(approval_id=f"{name}x", tool="t", arguments={}, requester=ME)


async def test_a_promised_retry_outlives_its_review(ledger: Ledger) -> None:
    plan = await lost(ledger, retry_safe=True)
    ruled = await ledger.rule(said(plan, RulingKind.RETRY))
    waits = await ledger.waits(plan.approval_id)
    assert waits is not None
    assert waits.retry is not None
    assert (waits.retry.consent, waits.retry.ruling.operator) == (ruled.consent, OPERATOR)
    assert [entry.event for entry in await ledger.entries(plan.approval_id)][-1] == "retry"


@pytest.mark.parametrize("kind", [RulingKind.NOT_EXECUTED, RulingKind.EXECUTED, None])
async def test_nothing_is_settled_by_anybody_while_a_retry_is_promised(ledger: Ledger, kind: RulingKind | None) -> None:
    plan = await lost(ledger, retry_safe=True)
    promised = await ledger.rule(said(plan, RulingKind.RETRY))
    ruled = await ledger.rule(said(plan, kind, None if kind else ReportKind.NOT_EXECUTED))
    assert (ruled.kind, ruled.consent) == ("retrying", promised.consent)
    call, running = ToolCall.of(plan, consent=promised.consent, retries=plan.approval_id), holder()
    assert (await ledger.begin(call, running)).right == "run"
    while_it_runs = await ledger.rule(said(plan, RulingKind.EXECUTED))
    assert (while_it_runs.kind, while_it_runs.consent) == ("retrying", promised.consent)
    await ledger.finish(call, running, 1, Ending(state=ClaimState.EXECUTED, content=Content.of("done")))
    assert await ledger.settlement(plan.approval_id) is None, "it is told once it is in the audit"
    assert await ledger.untold("default", NOW.replace(year=NOW.year + 1)) != [], "the sweeper finds it"
    settlement = (await ledger.rule(said(plan))).settlement
    assert settlement is not None
    assert (settlement.kind, settlement.retried, settlement.settled_by) == ("executed", True, OPERATOR)
    assert settlement == await ledger.settlement(plan.approval_id)
    assert (await ledger.entries(plan.approval_id))[-1].event == "settle"


async def test_a_call_found_executed_is_not_tried_again_and_who_asked_for_that_is_told(ledger: Ledger) -> None:
    plan = await lost(ledger, retry_safe=True)
    promised = await ledger.rule(said(plan, RulingKind.RETRY))
    await ledger.resolve(ToolCall.of(plan), Content.of("found"))
    again = ToolCall.of(plan, consent=promised.consent, retries=plan.approval_id)
    beginning = await ledger.begin(again, holder())
    assert beginning.report is not None
    assert beginning.report.kind is ReportKind.REPLAYED, "nothing is left to try"
    settlement = await ledger.settlement(plan.approval_id)
    assert settlement is not None
    assert (settlement.kind, settlement.retried, settlement.settled_by) == ("executed", False, None)
    assert "open_id:ou_operator asked for was not made" in (settlement.reason or "")
    assert (await ledger.rule(said(plan))).settlement == settlement


# On real servers


async def review_of(service: Service, handle: ApprovalHandle) -> str:
    return names.review_workflow(str((await handle.outcome()).idempotency_key))


async def test_a_terminated_review_forgets_nobody(service: Service, tmp_path: Path) -> None:
    message = uuid.uuid4().hex
    first = await frozen(service, tmp_path / "m", message_id=message)
    second = await frozen(service, tmp_path / "m", message_id=message)
    review = service.client.get_workflow_handle(await review_of(service, first))
    waiting = [asyncio.create_task(handle.settlement()) for handle in (first, second)]
    await review.terminate("by hand")

    async def swept() -> bool:
        await sweep(service.client, service.ledger)
        return (await review.describe()).status == 1

    await until(swept)
    assert (await first.settle("executed", operator=OPERATOR, reason="it did")).kind == "settled"
    settlements = await asyncio.gather(*waiting)
    assert settlements[0] == settlements[1]
    for handle in (first, second):
        assert (await service.events(handle.id))[-1] == "settle"


async def test_whoever_waits_for_an_answer_asks_for_it_ever_less_often(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The review was ended by hand and nobody opens it again: the ledger is asked ever less often."""
    handle = await frozen(service, tmp_path / "m")
    review = service.client.get_workflow_handle(await review_of(service, handle))
    await review.terminate("by hand")
    asked: list[float] = []
    looked: list[float] = []
    reviews = service.gate._door._reviews  # type: ignore[attr-defined]
    known, review_ends = reviews._known, reviews._review_ends
    clock = asyncio.get_running_loop().time

    async def noting(approval_id: str) -> object:
        asked.append(clock())
        return await known(approval_id)

    async def timed(standing: object) -> None:
        began = clock()
        await review_ends(standing)
        looked.append(clock() - began)

    async def asked_four_times() -> bool:
        return len(asked) >= 4

    async def pauses() -> list[float] | None:
        """How long nothing was asked, three times; None where the machine took so long that a review seemed open."""
        asked.clear()
        looked.clear()
        waiting = asyncio.create_task(handle.settlement())
        await until(asked_four_times)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        between = [later - earlier for earlier, later in itertools.pairwise(asked[:4])]
        return between if max(looked[:3]) < 1 else None

    monkeypatch.setattr(reviews, "_known", noting)
    monkeypatch.setattr(reviews, "_review_ends", timed)
    for pause, seconds in zip(await until(pauses), (1, 2, 4), strict=True):
        assert pause >= 0.99 * seconds
    await sweep(service.client, service.ledger)
    await until(lambda: _settled(handle))


async def _settled(handle: ApprovalHandle) -> bool:
    return (await handle.settle("not_executed", operator=OPERATOR, reason="nothing arrived")).kind == "settled"


async def test_a_join_after_the_ruling_opens_nothing_that_stays(service: Service, tmp_path: Path) -> None:
    """An approval met the call before it was settled, and comes to freeze after its review has closed."""
    message = uuid.uuid4().hex
    first = await frozen(service, tmp_path / "m", message_id=message)
    second = await service.gate.request("raises", {"path": str(tmp_path / "m")}, requester=ME, message_id=message)
    await second.state()
    plan = await service.ledger.plan(second.id)
    assert plan is not None
    assert (await service.ledger.close(closing(ToolCall.of(plan)))).kind == "unknown"
    assert (await first.settle("not_executed", operator=OPERATOR, reason="nothing arrived")).kind == "settled"
    review = service.client.get_workflow_handle(await review_of(service, first))
    await review.result()
    assert (await service.decided(second)).status == "frozen"
    assert (await second.settlement()).kind == "not_executed"
    assert (await service.events(second.id))[-1] == "settle"
    await review.result()
    assert marks(tmp_path / "m") == 1


async def test_a_retry_is_made_though_its_review_is_terminated(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "f", "once_more")
    hash_ = str((await handle.state()).payload_sha256)[:12]
    plan = await service.ledger.plan(handle.id)
    assert plan is not None
    review = service.client.get_workflow_handle(await review_of(service, handle))
    await review.terminate("by hand")
    call = FrozenCall.of(plan, ToolCall.of(plan), decided_by=ME, error=None, frozen_at=NOW)
    ruling = Ruling(kind=RulingKind.RETRY, operator=OPERATOR, reason="again", payload_hash=hash_)
    promised = await service.ledger.rule(Examination(frozen=call, ruling=ruling, now=NOW))
    assert promised.kind == "retrying", "and the review ended before it could be made"

    async def swept() -> bool:
        await sweep(service.client, service.ledger)
        return await service.ledger.settlement(handle.id) is not None

    await until(swept)
    settlement = await handle.settlement()
    assert (settlement.kind, settlement.retried, settlement.settled_by) == ("executed", True, OPERATOR)
    assert (await service.events(handle.id))[-3:] == ["retry", "execute", "settle"]


async def test_a_retry_after_a_reopened_review_is_made_again(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "f", "flaky", arguments={"failures": 6, "then": "completed"})
    hash_ = str((await handle.state()).payload_sha256)[:12]
    await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=hash_)

    async def tried() -> bool:
        return (await service.events(handle.id)).count("execute_unknown") == 2

    await until(tried)
    review = service.client.get_workflow_handle(await review_of(service, handle))
    await review.terminate("by hand")

    async def reopened() -> bool:
        await sweep(service.client, service.ledger)
        return (await review.describe()).status == 1

    await until(reopened)
    ruled = await review.start_update(
        names.SETTLE_REVIEW,
        Ruling(kind=RulingKind.RETRY, operator=OPERATOR, reason="again", payload_hash=hash_),
        wait_for_stage=WorkflowUpdateStage.COMPLETED,
        result_type=Ruled,
    )
    assert (await ruled.result()).consent == f"{handle.id}#2"
    assert (await handle.settlement()).kind == "executed"
    assert marks(tmp_path / "f") == 7
