"""Edited plans in the ledger: each edit once, and every reader of a plan reads the right one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text, update

from assent import Identity
from assent.content import Content
from assent.contracts.address import Address, AddressKind
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import Decision, DecisionKind, Judged, Remember, Stage, VerdictKind
from assent.contracts.execute import ReportKind, ToolCall
from assent.contracts.grants import Remembering
from assent.contracts.permission import Permission
from assent.contracts.plan import Plan
from assent.contracts.prepare import Prepared
from assent.contracts.request import Request
from assent.contracts.status import Status
from ledger import ClaimState, Ending, Ledger, MessageKind, Reader, Right, Shown, Slot, Twin
from ledger.schema import claims, revisions
from tests.conftest import new_database
from tests.support.ledgers import ME, NOW, closing, edited, ended, holder, propose
from tests.support.stepwise import writing

EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of({"sent": True}))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("revisions")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


async def prepared_again(ledger: Ledger, plan: Plan) -> Prepared:
    """What *prepare* is told when a reset workflow asks for its plan once more."""
    message = plan.idempotency_key.split(":")[2]
    request = Request(approval_id=plan.approval_id, tool="send", arguments={}, requester=ME, message_id=message)
    return await ledger.register(request, plan, None, now=NOW, open_until=NOW)


async def standing(ledger: Ledger, plan: Plan) -> tuple[str | None, ...]:
    """The payload that each reader of the plan names."""
    read = await ledger.plan(plan.approval_id)
    record, state = await ledger.record(plan.approval_id), await ledger.state(plan.approval_id)
    assert read is not None
    assert record is not None
    assert state is not None
    return read.payload_sha256, record.plan.payload_sha256, state.payload_sha256


def decision(plan: Plan, **more: Any) -> Decision:
    said = {"kind": DecisionKind.APPROVE, "actor": ME, "event_id": "evt_late", **more}
    return Decision(**{"approval_id": plan.approval_id, "payload_sha256": plan.payload_sha256, **said})


def judged(plan: Plan, event_id: str, kind: str = "approve", **more: Any) -> Judged:
    said = {"kind": kind, "actor": ME, "verdict": VerdictKind.ACCEPTED, "received_at": NOW, "delivery_id": None}
    return Judged(**{"event_id": event_id, "payload_sha256": plan.payload_sha256, **said, **more})


async def test_an_edit_is_stored_once_and_stands(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = edited(plan, {"to": "b"})
    first = await ledger.revise(change, "evt_1")
    assert first == change.model_copy(update={"revision": 1})
    assert await ledger.revise(edited(plan, {"to": "never"}), "evt_1") == first, "the same click is the same edit"
    assert await standing(ledger, plan) == (first.payload_sha256,) * 3
    second = await ledger.revise(edited(first, {"to": "c"}), "evt_2")
    assert second.revision == 2
    assert await ledger.revise(change, "evt_1") == first
    assert await standing(ledger, plan) == (second.payload_sha256,) * 3, "an edit told again undoes no later one"


async def test_every_plan_is_found_by_its_hash(ledger: Ledger) -> None:
    plan = await propose(ledger, {"to": "a"})
    there = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    assert await ledger.plan(plan.approval_id, plan.payload_sha256) == plan
    back = await ledger.revise(edited(there, {"to": "a"}), "evt_2")
    assert back.payload_sha256 == plan.payload_sha256
    assert await ledger.plan(plan.approval_id, plan.payload_sha256) == back, "the newest with that hash"
    assert await ledger.plan(plan.approval_id, there.payload_sha256) == there
    assert await ledger.plan(plan.approval_id, "f" * 64) is None
    record = await ledger.record(plan.approval_id, there.payload_sha256)
    assert record is not None
    assert record.plan == there


async def test_edits_at_once_are_numbered_one_after_the_other(ledger: Ledger) -> None:
    plan = await propose(ledger)
    stored = await asyncio.gather(*(ledger.revise(edited(plan, {"to": n % 4}), f"evt_{n % 4}") for n in range(12)))
    assert sorted({one.revision for one in stored}) == [1, 2, 3, 4]


async def test_an_edit_of_nothing_is_refused(ledger: Ledger) -> None:
    plan = (await propose(ledger)).model_copy(update={"approval_id": "nobody's"})
    with pytest.raises(LookupError, match="nothing to edit"):
        await ledger.revise(plan, "evt_1")


async def test_a_reset_begins_with_what_was_proposed_and_meets_its_edits_again(ledger: Ledger) -> None:
    plan = await propose(ledger)
    first = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    again = await prepared_again(ledger, plan)
    assert again.plan == plan
    assert await standing(ledger, plan) == (plan.payload_sha256,) * 3, "the cards show what is waited for"
    assert await ledger.revise(edited(plan, {"to": "b"}), "evt_1") == first
    assert await standing(ledger, plan) == (first.payload_sha256,) * 3
    await prepared_again(ledger, plan)
    other = await ledger.revise(edited(plan, {"to": "x"}), "evt_other")
    assert other.revision == 2
    assert await standing(ledger, plan) == (other.payload_sha256,) * 3


async def test_an_ended_approval_is_read_by_the_plan_it_ended_with(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    await ledger.conclude(ended(plan, Status.EXPIRED))  # the edit came too late to count
    assert await standing(ledger, plan) == (plan.payload_sha256,) * 3
    other = await propose(ledger)
    change = await ledger.revise(edited(other, {"to": "b"}), "evt_1")
    confirmed = AuditEntry(event=AuditEvent.CONFIRM, at=NOW, once="c", payload_sha256=change.payload_sha256)
    await ledger.conclude(ended(change, Status.REJECTED, entries=(confirmed,)))
    assert await standing(ledger, other) == (change.payload_sha256,) * 3
    state = await ledger.state(other.approval_id)
    assert state is not None
    assert state.edit == change.edit
    assert (await prepared_again(ledger, other)).plan == other
    assert await standing(ledger, other) == (change.payload_sha256,) * 3, "what has ended stays as it ended"


async def test_an_ending_without_an_execution_closes_the_edited_call(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    await ledger.conclude(ended(change, Status.CANCELLED))
    async with writing(ledger._engine) as connection:
        row = (await connection.execute(claims.select().where(claims.c.consent == plan.approval_id))).one()
    assert (row.state, row.idempotency_key, row.payload_sha256) == (
        "closed",
        change.idempotency_key,
        change.payload_sha256,
    )
    for which in (plan, change):
        report = (await ledger.begin(ToolCall.of(which), holder())).report
        assert report is not None
        assert report.kind is ReportKind.NOT_BEGUN


async def test_a_consent_runs_one_of_its_payloads_ever(ledger: Ledger) -> None:
    plan = await propose(ledger, retry_safe=True, attempts=5)
    change, running = await ledger.revise(edited(plan, {"to": plan.approval_id}), "evt_1"), holder()
    assert (await ledger.begin(ToolCall.of(change), running)).right is Right.RUN
    other = await ledger.begin(ToolCall.of(plan), holder())
    assert other.right is Right.REPORT, "a reset approval comes back with another payload, and does not run it"
    assert other.report is not None
    assert other.report.kind is ReportKind.UNKNOWN
    assert (await ledger.close(closing(ToolCall.of(plan)))).kind is ReportKind.UNKNOWN


@pytest.mark.parametrize("status", [Status.REJECTED, Status.EXECUTED])
async def test_an_outcome_names_the_payload_that_ran_whatever_was_decided_after_a_reset(
    ledger: Ledger, status: Status
) -> None:
    plan = await propose(ledger)
    change, running = await ledger.revise(edited(plan, {"to": "b"}), "evt_1"), holder()
    entry = AuditEntry(event=AuditEvent.CONFIRM, at=NOW, once="c", payload_sha256=change.payload_sha256)
    call = ToolCall.of(change, entries=(entry,))
    await ledger.begin(call, running)
    await ledger.finish(call, running, 1, EXECUTED)
    await prepared_again(ledger, plan)
    outcome = await ledger.conclude(ended(plan, status))
    assert outcome.status is Status.EXECUTED
    assert (outcome.payload_sha256, outcome.idempotency_key) == (change.payload_sha256, change.idempotency_key)
    assert outcome.edit == change.edit


async def test_a_lost_edited_call_is_swept_by_the_plan_that_ran(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = await ledger.revise(edited(plan, {"to": plan.approval_id}), "evt_1")
    await ledger.begin(ToolCall.of(change), holder())
    orphans = await ledger.orphans("default", datetime.now(UTC) + timedelta(hours=1))
    (orphan,) = [orphan for orphan in orphans if orphan.consent == plan.approval_id]
    assert orphan.plan == change
    await ledger.close(closing(ToolCall.of(change)))
    assert await ledger.twin(change.payload_sha256, "test", ME) == Twin(approval_id=plan.approval_id)
    twin = await propose(ledger, {"to": plan.approval_id}, frozen_twin=plan.approval_id)
    record = await ledger.record(twin.approval_id)
    assert record is not None
    assert record.twin_key == change.idempotency_key


async def test_a_late_click_is_judged_by_the_plan_it_ended_with(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    await ledger.conclude(ended(change, Status.EXECUTED))
    told = [
        (await ledger.judge_late(decision(plan, payload_sha256=digest, event_id=f"evt_{digest}"))).kind
        for digest in (change.payload_sha256, plan.payload_sha256, "f" * 64)
    ]
    assert told == [VerdictKind.ALREADY_DECIDED, VerdictKind.SUPERSEDED, VerdictKind.TAMPERED]


async def test_a_late_click_on_a_result_is_judged_by_the_result_and_its_card(ledger: Ledger) -> None:
    plan, running = await propose(ledger, permission=Permission(result="always")), holder()
    await ledger.begin(ToolCall.of(plan), running)
    digest = (await ledger.finish(ToolCall.of(plan), running, 1, EXECUTED)).content_sha256
    for kind, message in ((MessageKind.CARD, "om_call"), (MessageKind.RESULT, "om_result")):
        slot = Slot(approval_id=plan.approval_id, kind=kind, generation=1, place=0)
        await ledger.intend(slot)
        await ledger.sent(slot, message + plan.approval_id, None, Shown.PENDING)
    await ledger.conclude(ended(plan, Status.EXECUTED))

    async def told(message: str, about: str | None) -> VerdictKind:
        said = {"message_id": message + plan.approval_id, "payload_sha256": about, "event_id": f"{message}{about}"}
        return (await ledger.judge_late(decision(plan, stage=Stage.RESULT, **said))).kind

    assert await told("om_result", digest) is VerdictKind.ALREADY_DECIDED
    assert await told("om_result", plan.payload_sha256) is VerdictKind.TAMPERED
    assert await told("om_call", digest) is VerdictKind.TAMPERED


async def test_the_record_names_who_approved_what_runs_and_the_decision_that_stands(ledger: Ledger) -> None:
    plan = await propose(ledger, {"to": "a"})
    there = await ledger.revise(edited(plan, {"to": "b"}), "evt_there")
    back = await ledger.revise(edited(there, {"to": "a"}), "evt_back")
    heard = (
        judged(plan, "evt_void"),
        judged(plan, "evt_there", "edit"),
        judged(there, "evt_back", "edit"),
        judged(plan, "evt_stranger", verdict=VerdictKind.FORBIDDEN),
        judged(back, "evt_counts", actor=Identity(open_id="ou_2")),
        judged(back, "evt_result", "reject", stage=Stage.RESULT),
    )
    await ledger.conclude(ended(back, Status.EXECUTED, judged=heard))
    record, state = await ledger.record(plan.approval_id), await ledger.state(plan.approval_id)
    assert record is not None
    assert state is not None
    assert [one.event_id for one in record.approvals] == ["evt_back", "evt_counts"]
    assert record.decided == heard[4]
    assert state.decisions == heard, "in the order in which they were heard, though received at one moment"


async def test_a_message_keeps_its_address_and_a_result_card_is_audited_as_one(ledger: Ledger) -> None:
    plan = await propose(ledger)
    here, there = (Address(kind=AddressKind.CHAT_ID, id=f"oc_{n}") for n in (1, 2))
    for kind in (MessageKind.CARD, MessageKind.RESULT):
        slot = Slot(approval_id=plan.approval_id, kind=kind, generation=1, place=0)
        for address in (here, there):
            message = await ledger.intend(slot, address=address)
            assert message is not None
            assert message.address == here
        await ledger.sent(slot, f"om_{kind}", "oc_1", Shown.PENDING)
    record = await ledger.record(plan.approval_id)
    assert record is not None
    assert {(message.slot.kind, message.address) for message in record.messages} == {
        (MessageKind.CARD, here),
        (MessageKind.RESULT, here),
    }
    delivered = [entry for entry in await ledger.entries(plan.approval_id) if entry.event is AuditEvent.DELIVER]
    assert [entry.message_id for entry in delivered] == ["om_card", "om_result"]


async def test_open_approvals_are_listed_as_they_stand_until_they_end(ledger: Ledger) -> None:
    first, second, third = [await propose(ledger) for _ in range(3)]
    change = await ledger.revise(edited(second, {"to": "b"}), "evt_1")
    await ledger.conclude(ended(third, Status.CANCELLED))
    async with writing(ledger._engine) as connection:  # the oldest of all, in a ledger that others use too
        for n, plan in enumerate((first, second, third)):
            oldest = {"at": f"2000-01-0{n + 1}", "id": plan.approval_id}
            await connection.execute(text("UPDATE approvals SET created_at = :at WHERE approval_id = :id"), oldest)
    assert [each.approval_id for each in (await Reader(ledger).waiting(ME, 0, 1))[0]] == [first.approval_id]
    plans, _ = await ledger.open_plans(0, 2)
    assert plans == (first, change)
    everything, end = await Reader(ledger).waiting(ME, 0, 1000)
    assert third.approval_id not in {each.approval_id for each in everything}
    assert end is None
    async with writing(ledger._engine) as connection:
        long_ago = {"at": "2000-01-02", "id": first.approval_id}
        await connection.execute(text("UPDATE approvals SET open_until = :at WHERE approval_id = :id"), long_ago)
    left, _ = await Reader(ledger).waiting(ME, 0, 1000)
    assert first.approval_id not in {each.approval_id for each in left}, "it was ended from outside, unheard"


async def test_the_policy_in_force_is_the_last_that_was_put(ledger: Ledger) -> None:
    assert await ledger.policy() is None
    for n, words in enumerate(("a", "b", "b", "a")):
        await ledger.put_policy(words, f"sha256 of {words}", NOW + timedelta(seconds=n))
    policy = await ledger.policy()
    assert policy is not None
    assert (policy.text, policy.sha256, policy.since) == ("a", "sha256 of a", NOW + timedelta(seconds=3))
    await ledger.put_policy("a", "sha256 of a", NOW + timedelta(seconds=9))
    assert await ledger.policy() == policy
    await asyncio.gather(*(ledger.put_policy("c", "sha256 of c", NOW) for _ in range(8)))
    async with writing(ledger._engine) as connection:
        count = (await connection.execute(text("SELECT count(*) FROM policies"))).scalar()
    assert count == 4


async def test_verify_finds_an_edit_that_is_not_the_one_audited(ledger: Ledger) -> None:
    plan = await propose(ledger)
    change = await ledger.revise(edited(plan, {"to": "b"}), "evt_1")
    await ledger.conclude(ended(change, Status.REJECTED))
    finding = f"approval {plan.approval_id}: its edited payload is not the one audited"
    assert finding in await ledger.verify(), "the edit was never audited"
    entry = AuditEntry(event=AuditEvent.CONFIRM, at=NOW, once="c", payload=change.payload)
    await ledger.conclude(ended(change, Status.REJECTED, entries=(entry,)))
    assert finding not in await ledger.verify()
    async with writing(ledger._engine) as connection:
        forged = change.model_copy(update={"payload": "{}"}).model_dump_json()
        await connection.execute(
            update(revisions).where(revisions.c.approval_id == plan.approval_id).values(plan=forged)
        )
    assert finding in await ledger.verify()


async def test_what_is_remembered_is_what_was_decided_about(tmp_path: Path) -> None:
    """A workflow that was reset after prepare knows of no edit; the ledger still does."""
    ledger = Ledger.open(f"sqlite+aiosqlite:///{tmp_path / 'ledger.db'}")
    await ledger.upgrade()
    try:
        plan = await propose(ledger)
        await ledger.revise(edited(plan, {"other": 1}), "an edit that the reset undid")
        said_then = {"scope": Remember.EXACT, "decision": DecisionKind.APPROVE, "actor": ME, "now": datetime.now(UTC)}
        asked = {"approval_id": plan.approval_id, "payload_sha256": plan.payload_sha256, **said_then}
        grant = await ledger.remember(Remembering.model_validate(asked))
        assert grant is not None
        assert grant.payload_sha256 == plan.payload_sha256
    finally:
        await ledger.dispose()
