"""Whom open approvals wait for, as the ledger finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from assent import Approvers, Identity, core
from assent.contracts.audit import AuditBatch
from assent.contracts.decision import Decision, DecisionKind, Stage, VerdictKind
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.status import Status
from assent.core import Planned, Unplanned
from ledger import Ledger
from ledger.awaited import Waits
from tests.conftest import new_database
from tests.support import policies
from tests.support.ledgers import ME, NOW, ended, holder, propose
from tests.support.stepwise import writing

ANN, BOB, CAT, DAN = (Identity(open_id=f"ou_{name}", union_id=f"on_{name}") for name in ("ann", "bob", "cat", "dan"))
TWO_OF_THREE = Approvers(kind=Approvers.Kind.PEOPLE, people=(ANN, BOB, CAT), threshold=2)
MEMBERS = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("awaited")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


async def waits(ledger: Ledger, plan: Plan, person: Identity) -> bool:
    """Whether the approval is in this person's inbox."""
    found: list[Waits] = []
    offset: int | None = 0
    while offset is not None:
        page, offset = await ledger.waiting_for(person, offset, 3)
        found += page
    return plan.approval_id in {each.approval_id for each in found}


def opened(plan: Plan) -> Planned:
    return core.open_with(Unplanned(request=policies.request(plan)), plan, NOW)


async def says(
    ledger: Ledger, approval: Planned, actor: Identity, kind: str = "approve", to: Identity | None = None
) -> Planned:
    """Somebody decides, and the ledger is told as the workflow tells it."""
    decision = Decision(
        approval_id=approval.plan.approval_id,
        kind=DecisionKind(kind),
        payload_sha256=approval.plan.payload_sha256,
        actor=actor,
        event_id=f"{kind}:{actor}",
        delegate_to=to,
    )
    approval = core.decide(approval, decision, NOW)
    assert approval.notes.judged[-1].verdict is VerdictKind.ACCEPTED
    assert core.has_news(approval)
    batch = core.batch(approval)
    await ledger.append(batch)
    approval = core.write_batch(approval, batch, NOW)
    assert not core.has_news(approval)
    return approval


async def test_it_is_found_by_those_who_have_not_decided(ledger: Ledger) -> None:
    plan = await propose(ledger, approvers=TWO_OF_THREE)
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT, DAN)] == [True, True, True, False]
    assert not await waits(ledger, plan, ME), "who asked is not asked"
    approval = await says(ledger, opened(plan), ANN)
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT, DAN)] == [False, True, True, False]
    approval = await says(ledger, approval, BOB, "delegate", DAN)
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT, DAN)] == [False, False, True, True]
    await says(ledger, approval, DAN)
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT, DAN)] == [False] * 4


@pytest.mark.parametrize("known_by", [{"open_id": "ou_ann"}, {"union_id": "on_ann"}])
async def test_one_id_of_a_person_is_enough(ledger: Ledger, known_by: dict[str, str]) -> None:
    plan = await propose(ledger, approvers=TWO_OF_THREE)
    assert await waits(ledger, plan, Identity(**known_by))


async def test_of_a_chat_only_members_are_waited_for(ledger: Ledger) -> None:
    plan = await propose(ledger, approvers=MEMBERS)
    assert "oc_1" in await ledger.unknown_chats(1000)
    assert not await waits(ledger, plan, ANN), "while nobody knows who belongs to it"
    await ledger.keep_members("oc_1", ["ou_ann", "ou_bob"])
    assert "oc_1" not in await ledger.unknown_chats(1000)
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT)] == [True, True, False]
    await ledger.keep_members("oc_1", ["ou_bob", "ou_cat"])
    assert [await waits(ledger, plan, person) for person in (ANN, BOB, CAT)] == [False, True, True]
    async with writing(ledger.engine) as connection:
        await connection.execute(text("UPDATE chats_seen SET seen_at = '2000-01-01'"))
    assert not await waits(ledger, plan, BOB), "what was said long ago says nothing"
    assert "oc_1" in await ledger.unknown_chats(1000)


async def test_anyone_is_waited_for_but_the_excluded(ledger: Ledger) -> None:
    anyone = Approvers(kind=Approvers.Kind.ANYONE, exclude_requester=True)
    plan = await propose(ledger, approvers=anyone)
    assert await waits(ledger, plan, DAN)
    assert not await waits(ledger, plan, ME)


async def test_who_is_called_in_finds_it_too(ledger: Ledger) -> None:
    plan = await propose(ledger, approvers=TWO_OF_THREE, escalate_at=NOW, escalate_to=(DAN,))
    assert not await waits(ledger, plan, DAN)
    batch = core.batch(core.call_others(opened(plan), NOW))
    await ledger.append(batch)
    assert await waits(ledger, plan, DAN)


async def test_a_call_that_was_begun_waits_for_nobody_and_its_result_for_who_releases_it(ledger: Ledger) -> None:
    plan = await propose(ledger)
    approval = core.decide(
        opened(plan),
        Decision(
            approval_id=plan.approval_id,
            kind=DecisionKind.APPROVE,
            payload_sha256=plan.payload_sha256,
            actor=ME,
            event_id="e",
        ),
        NOW,
    )
    await ledger.begin(ToolCall.of(plan), holder())
    assert not await waits(ledger, plan, ME)
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="0" * 64)
    approval, _ = core.report(core.begin(approval), sealed, NOW)
    await ledger.append(core.batch(approval))
    found, _ = await ledger.waiting_for(ME, 0, 1000)
    assert Stage.RESULT in {each.awaited.subject for each in found if each.approval_id == plan.approval_id}


async def test_what_has_ended_waits_for_nobody_whatever_is_written_late(ledger: Ledger) -> None:
    plan = await propose(ledger, approvers=TWO_OF_THREE)
    late = AuditBatch(approval_id=plan.approval_id, entries=(), is_waiting=True, awaited=core.awaited_at_first(plan))
    await ledger.conclude(ended(plan, Status.CANCELLED))
    assert not await waits(ledger, plan, ANN)
    await ledger.append(late)  # by an attempt that was given up on
    assert not await waits(ledger, plan, ANN)


async def test_what_asks_nobody_waits_for_nobody(ledger: Ledger) -> None:
    plan = await propose(ledger, approvers=TWO_OF_THREE, denied="the policy says no")
    assert not await waits(ledger, plan, ANN)


async def test_a_late_click_of_a_delegate_is_late_and_not_forbidden(ledger: Ledger) -> None:
    """And whoever gave it away is told the same as while it was open."""
    plan = await propose(ledger, approvers=Approvers(kind=Approvers.Kind.PEOPLE, people=(ANN,)))
    approval = await says(ledger, opened(plan), ANN, "delegate", DAN)
    approval = core.expire(approval, NOW + timedelta(hours=2))
    outcome = core.outcome_of(approval, Status.EXPIRED)
    await ledger.conclude(core.conclude(approval, outcome, NOW + timedelta(hours=2)))
    verdicts = [
        await ledger.judge_late(
            Decision(
                approval_id=plan.approval_id,
                kind=DecisionKind.APPROVE,
                payload_sha256=plan.payload_sha256,
                actor=person,
                event_id=f"late:{person}",
            )
        )
        for person in (DAN, ANN, CAT)
    ]
    assert [verdict.kind for verdict in verdicts] == ["expired", "forbidden", "forbidden"]
