"""Sealed results in the ledger: nobody reads one before it is released, whichever way they come."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from assent import Identity
from assent.content import Content
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.manifest import Risk
from assent.contracts.permission import Permission
from assent.contracts.plan import Plan
from assent.contracts.release import Release
from assent.contracts.review import Examination, FrozenCall
from assent.contracts.ruling import Ruling, RulingKind, Settlement
from assent.contracts.status import Status
from assent.payload import sha256
from ledger import ClaimState, Ending, Ledger
from tests.conftest import new_database
from tests.support.ledgers import NOW, closing, ended, holder, propose

SECRET = "the secret"
EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of(SECRET), authorize_url="https://secret.example")
FAILED = Ending(state=ClaimState.FAILED, content=Content.of(SECRET), error=f"it failed: {SECRET}")
WORDLESS = Ending(state=ClaimState.FAILED, error=f"it failed: {SECRET}")
UNKNOWN = Ending(state=ClaimState.UNKNOWN, error=f"lost: {SECRET}")
ENDINGS = (EXECUTED, FAILED, WORDLESS, UNKNOWN)
OPERATOR = Identity(open_id="ou_operator")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("sealed")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


async def plan_with(ledger: Ledger, review: str, **more: Any) -> Plan:
    return await propose(ledger, permission=Permission(result=review), **more)


async def run(ledger: Ledger, plan: Plan, ending: Ending) -> Report:
    call, running = ToolCall.of(plan), holder()
    await ledger.begin(call, running)
    return await ledger.finish(call, running, 1, ending)


def deciding(plan: Plan, digest: str | None, *, released: bool = True) -> Release:
    event = AuditEvent.RELEASE if released else AuditEvent.WITHHOLD
    entry = AuditEntry(event=event, at=NOW, once=str(event), content_sha256=digest)
    return Release(
        approval_id=plan.approval_id,
        consent=plan.approval_id,
        content_sha256=digest,
        released=released,
        entries=(entry,),
    )


async def everything_told(ledger: Ledger, plan: Plan) -> str:
    """Whatever an agent can read of an approval, by any way."""
    call = ToolCall.of(plan)
    beginning = await ledger.begin(call, holder())
    told = [
        beginning.report,
        await ledger.close(closing(call)),
        await ledger.state(plan.approval_id),
        await ledger.outcome(plan.approval_id),
        await ledger.settlement(plan.approval_id),
        *await ledger.entries(plan.approval_id),
    ]
    content = await ledger.content(plan.approval_id)
    return " ".join([*(one.model_dump_json() for one in told if one is not None), (content or b"").decode()])


@pytest.mark.parametrize("review", ["never", "on-error", "always"])
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: str(ending.state))
async def test_a_result_is_sealed_where_the_permission_covers_its_end(
    ledger: Ledger, review: str, ending: Ending
) -> None:
    plan = await plan_with(ledger, review)
    report = await run(ledger, plan, ending)
    sealed = review == "always" or (review == "on-error" and ending is not EXECUTED)
    assert report.sealed is sealed
    assert (SECRET in report.model_dump_json()) is not sealed
    assert (SECRET in await everything_told(ledger, plan)) is not sealed
    if sealed:
        result = await ledger.result(plan.approval_id)
        assert result is not None
        assert SECRET in result.decode()
        assert (report.content_sha256, report.content_bytes) == (sha256(result), len(result))
        assert json.loads(result)


async def test_a_sealed_result_of_nothing_has_a_hash_to_decide_on(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "always")
    report = await run(ledger, plan, Ending(state=ClaimState.EXECUTED))
    assert (report.sealed, report.content_sha256) == (True, sha256(b"null"))
    assert (await ledger.release(deciding(plan, report.content_sha256))).sealed is False


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: str(ending.state))
async def test_a_release_hands_over_exactly_what_was_shown(ledger: Ledger, ending: Ending) -> None:
    plan = await plan_with(ledger, "always")
    sealed = await run(ledger, plan, ending)
    decided = deciding(plan, sealed.content_sha256)
    for _ in range(2):
        full = await ledger.release(decided)
        assert (full.sealed, full.kind) == (False, sealed.kind)
        assert SECRET in full.model_dump_json()
    assert SECRET in await everything_told(ledger, plan)
    events = [entry.event for entry in await ledger.entries(plan.approval_id)]
    assert events.count(AuditEvent.RELEASE) == 1


@pytest.mark.parametrize("other", ["f" * 64, None, "short"])
async def test_a_release_of_something_else_releases_nothing(ledger: Ledger, other: str | None) -> None:
    plan = await plan_with(ledger, "always")
    sealed = await run(ledger, plan, EXECUTED)
    about = (sealed.content_sha256 or "")[:12] if other == "short" else other
    assert await ledger.release(deciding(plan, about)) == sealed
    assert await ledger.release(deciding(plan, plan.payload_sha256)) == sealed
    assert SECRET not in await everything_told(ledger, plan)
    events = [entry.event for entry in await ledger.entries(plan.approval_id)]
    assert AuditEvent.RELEASE not in events, "nothing was released"


async def test_another_approvals_consent_is_not_released(ledger: Ledger) -> None:
    plan, other = await plan_with(ledger, "always"), await plan_with(ledger, "always")
    sealed = await run(ledger, plan, EXECUTED)
    forged = deciding(other, sealed.content_sha256).model_copy(update={"consent": plan.approval_id})
    assert (await ledger.release(forged)).kind is ReportKind.NOT_BEGUN
    assert SECRET not in await everything_told(ledger, plan)


async def test_what_is_withheld_stays_withheld_and_the_call_executed(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "always")
    sealed = await run(ledger, plan, EXECUTED)
    for _ in range(2):
        assert await ledger.release(deciding(plan, sealed.content_sha256, released=False)) == sealed
    assert sealed.kind is ReportKind.EXECUTED
    outcome = await ledger.conclude(ended(plan, Status.CANCELLED))  # the claim knows better
    assert (outcome.status, outcome.withheld, outcome.content) == (Status.EXECUTED, True, None)
    assert SECRET not in await everything_told(ledger, plan)
    events = [entry.event for entry in await ledger.entries(plan.approval_id)]
    assert events.count(AuditEvent.WITHHOLD) == 1
    assert await ledger.verify() == []


@pytest.mark.parametrize("review", ["never", "always"])
async def test_a_replay_of_a_sealed_result_shows_nothing_until_it_is_released(ledger: Ledger, review: str) -> None:
    message = f"replay {review}"
    plan = await plan_with(ledger, "always", message=message)
    sealed = await run(ledger, plan, EXECUTED)
    begun, closed = [await plan_with(ledger, review, message=message) for _ in range(2)]
    by_begin = (await ledger.begin(ToolCall.of(begun), holder())).report
    by_close = await ledger.close(closing(ToolCall.of(closed)))
    for report in (by_begin, by_close):
        assert report is not None
        assert (report.kind, report.sealed) == (ReportKind.REPLAYED, True)
        assert report.content_sha256 == sealed.content_sha256
    for replay in (begun, closed):
        assert SECRET not in await everything_told(ledger, replay)
        assert SECRET in ((await ledger.result(replay.approval_id)) or b"").decode()
    await ledger.release(deciding(plan, sealed.content_sha256))
    assert (SECRET in await everything_told(ledger, begun)) is (review == "never"), "one that is reviewed has its own"
    assert (await ledger.release(deciding(begun, sealed.content_sha256))).content == SECRET


async def test_a_replay_that_is_reviewed_is_sealed_though_its_source_is_not(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "never", message="open source")
    await run(ledger, plan, EXECUTED)
    replay = await plan_with(ledger, "always", message="open source")
    assert SECRET not in await everything_told(ledger, replay)
    assert SECRET in await everything_told(ledger, plan)


async def test_a_release_of_a_replay_opens_nothing_but_the_replay(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "always", message="withheld source")
    sealed = await run(ledger, plan, EXECUTED)
    await ledger.release(deciding(plan, sealed.content_sha256, released=False))
    replay = await plan_with(ledger, "always", message="withheld source")
    await ledger.begin(ToolCall.of(replay), holder())
    assert (await ledger.release(deciding(replay, sealed.content_sha256))).content == SECRET
    assert SECRET in await everything_told(ledger, replay)
    assert SECRET not in await everything_told(ledger, plan)


async def test_a_call_that_never_ran_has_nothing_to_seal(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "always")
    report = await ledger.close(closing(ToolCall.of(plan)))
    assert (report.kind, report.sealed, report.reason) == (ReportKind.FAILED, False, "no worker came")
    assert await ledger.result(plan.approval_id) is None
    running = await plan_with(ledger, "always")
    await ledger.begin(ToolCall.of(running), holder())
    assert await ledger.result(running.approval_id) is None, "not yet"


def frozen(plan: Plan, **more: Any) -> FrozenCall:
    call = more.pop("call", ToolCall.of(plan))
    return FrozenCall(
        call=call,
        queue="q",
        risk=Risk.LOW,
        has_cards=False,
        has_probe=False,
        probe_for=timedelta(0),
        heartbeat_timeout=timedelta(seconds=3),
        decided_by=None,
        error=None,
        frozen_at=NOW,
        **more,
    )


async def settled(ledger: Ledger, plan: Plan, **more: Any) -> Settlement:
    ruling = Ruling(kind=RulingKind.EXECUTED, operator=OPERATOR, reason="I looked", content=SECRET)
    ruled = await ledger.rule(Examination(frozen=frozen(plan, **more), ruling=ruling, now=NOW))
    assert ruled.settlement is not None
    return ruled.settlement


@pytest.mark.parametrize("review", ["never", "on-error", "always"])
async def test_what_turns_out_of_a_frozen_call_stays_sealed(ledger: Ledger, review: str) -> None:
    lost, given_up, probed = [await plan_with(ledger, review) for _ in range(3)]
    await run(ledger, lost, UNKNOWN)
    await ledger.begin(ToolCall.of(given_up), holder())
    report = await ledger.close(closing(ToolCall.of(given_up)))
    assert (report.kind, report.sealed) == (ReportKind.UNKNOWN, review != "never")
    await ledger.begin(ToolCall.of(probed), holder())
    await ledger.close(closing(ToolCall.of(probed)))
    found = await ledger.resolve(ToolCall.of(probed), Content.of(SECRET))
    assert (found.kind, found.sealed) == (ReportKind.EXECUTED, review != "never")
    for plan in (lost, given_up, probed):
        settlement = await settled(ledger, plan)
        assert settlement.kind is RulingKind.EXECUTED
        assert (settlement.content == SECRET) is (review == "never")
        assert (SECRET in await everything_told(ledger, plan)) is (review == "never")
    assert await ledger.verify() == []


async def test_a_released_error_does_not_release_what_is_found_out_later(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "on-error")
    sealed = await run(ledger, plan, Ending(state=ClaimState.UNKNOWN, error="lost"))
    assert (await ledger.release(deciding(plan, sealed.content_sha256))).reason == "lost"
    assert (await settled(ledger, plan)).content is None
    assert SECRET not in await everything_told(ledger, plan)
    result = await ledger.result(plan.approval_id)
    assert result is not None
    await ledger.release(deciding(plan, sha256(result)))
    settlement = await ledger.settlement(plan.approval_id)
    assert settlement is not None
    assert settlement.content == SECRET, "it was released after it had been settled"


async def test_those_who_froze_with_another_are_each_under_their_own_seal(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "never", message="frozen together")
    await run(ledger, plan, UNKNOWN)
    joined = await plan_with(ledger, "always", message="frozen together")
    await ledger.begin(ToolCall.of(joined), holder())
    probe = await ledger.resolve(ToolCall.of(joined), Content.of(SECRET))
    assert (probe.kind, probe.sealed) == (ReportKind.REPLAYED, True)
    together = await settled(ledger, plan, joined=(joined.approval_id,))
    assert together.content is None, "the review's answer goes to both"
    assert SECRET in await everything_told(ledger, plan)
    assert SECRET not in await everything_told(ledger, joined)


async def test_what_a_second_try_of_a_frozen_call_returns_stays_sealed(ledger: Ledger) -> None:
    plan = await plan_with(ledger, "on-error", retry_safe=True)
    await run(ledger, plan, UNKNOWN)
    again = ToolCall.of(plan, consent=f"{plan.approval_id}#1", retries=plan.approval_id)
    running = holder()
    await ledger.begin(again, running)
    report = await ledger.finish(again, running, 1, EXECUTED)
    assert (report.kind, report.sealed) == (ReportKind.EXECUTED, True)
    assert (await settled(ledger, plan, call=again, retries=1)).content is None
    assert SECRET not in await everything_told(ledger, plan)


async def test_a_late_result_is_for_the_operators_alone(ledger: Ledger) -> None:
    plan, slow = await plan_with(ledger, "always"), holder()
    await ledger.begin(ToolCall.of(plan), slow)
    await ledger.close(closing(ToolCall.of(plan)))
    late = await ledger.finish(ToolCall.of(plan), slow, 1, EXECUTED)
    assert SECRET not in late.model_dump_json()
    assert SECRET not in await everything_told(ledger, plan)
    (seen,) = await ledger.attempts_of(plan.approval_id)
    assert [one.content for one in seen.late] == [json.dumps(SECRET)]
