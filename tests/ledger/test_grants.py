"""Remembered decisions in the ledger: for which calls they count, until when, and what revokes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent import Identity
from assent.contracts.audit import AuditBatch, AuditEntry, AuditEvent
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.execute import ReportKind, ToolCall
from assent.contracts.grants import Grant, Remembering, RevokedKind
from assent.contracts.plan import Plan
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.types import Risk
from ledger import ClaimState, Ending, Ledger, Reader, Right, claims, grants
from tests.conftest import new_database
from tests.support.ledgers import ME, NOW, SOMEONE, arguments_of, edited, ended, holder, propose
from tests.support.stepwise import writing

APPROVER = Identity(open_id="ou_approver", tenant_key="t1")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("grants")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


def remembering(plan: Plan, decision: str = "approve", **more: Any) -> Remembering:
    said = {"scope": Remember.EXACT, "actor": APPROVER, "now": datetime.now(UTC), **more}
    return Remembering(approval_id=plan.approval_id, decision=DecisionKind(decision), **said)


async def granted(ledger: Ledger, plan: Plan, decision: str = "approve", **more: Any) -> Grant:
    grant = await ledger.remember(remembering(plan, decision, **more))
    assert grant is not None
    return grant


async def found(ledger: Ledger, plan: Plan, **other: Any) -> str | None:
    """The grant that counts for a plan's call, or for one that differs in something."""
    shared = ("tool", "payload_sha256", "conversation", "requester", "manifest_sha256", "risk", "approvers")
    wanted = {name: getattr(plan, name) for name in shared}
    grant = await ledger.grant_for(**{**wanted, "now": datetime.now(UTC), **other})
    return grant.grant_id if grant else None


async def let_through(ledger: Ledger, grant: Grant, like: Plan, **more: Any) -> ToolCall:
    """A call of the same payload that a grant lets run."""
    message = like.idempotency_key + like.approval_id
    plan = await propose(ledger, {"to": message} if more.pop("other", False) else arguments_of(like), **more)
    return ToolCall.of(plan.model_copy(update={"grant": grant}))


async def refusal(ledger: Ledger, call: ToolCall) -> str:
    beginning = await ledger.begin(call, holder())
    assert beginning.right is Right.REPORT
    assert beginning.report is not None
    assert beginning.report.kind is ReportKind.NOT_BEGUN
    return beginning.report.reason or ""


async def test_a_decision_is_remembered_once_and_audited(ledger: Ledger) -> None:
    plan = await propose(ledger)
    asked = remembering(plan, reason="as always")
    first, again = await ledger.remember(asked), await ledger.remember(asked)
    assert first == again
    assert first is not None
    assert (first.expires_at, first.granted_by, first.approval_id) == (
        asked.now + plan.remember_for,
        APPROVER,
        plan.approval_id,
    )
    entries = [entry for entry in await ledger.entries(plan.approval_id) if entry.event is AuditEvent.GRANT]
    assert [(entry.grant_id, entry.actor, entry.reason) for entry in entries] == [
        (first.grant_id, APPROVER, "as always")
    ]
    assert await found(ledger, plan) == first.grant_id


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_both_answers_are_remembered_for_the_exact_call(ledger: Ledger, decision: str) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan, decision)
    assert (grant.decision, grant.scope, grant.payload_sha256) == (decision, "exact", plan.payload_sha256)
    assert await found(ledger, plan) == grant.grant_id


async def test_what_may_not_be_remembered_is_not(ledger: Ledger) -> None:
    plan = await propose(ledger, remember_for=timedelta(0))
    assert await ledger.remember(remembering(plan)) is None
    assert await found(ledger, plan) is None
    assert await ledger.remember(remembering(await propose(ledger), "delegate")) is None
    unknown = remembering(plan).model_copy(update={"approval_id": "nobody's"})
    assert await ledger.remember(unknown) is None


async def test_an_edit_is_remembered_as_an_approval_of_what_it_made(ledger: Ledger) -> None:
    plan = await propose(ledger)
    revised = await ledger.revise(edited(plan, {"to": plan.approval_id}), "evt_edit")
    grant = await granted(ledger, plan, "edit")
    assert (grant.decision, grant.payload_sha256) == ("approve", revised.payload_sha256)
    assert await found(ledger, plan) is None, "what was proposed was never approved"
    assert await found(ledger, revised) == grant.grant_id


async def test_a_grant_counts_only_for_the_same_call_of_the_same_person_on_the_same_tool(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    colliding = plan.payload_sha256[:-1] + ("0" if plan.payload_sha256[-1] != "0" else "1")
    others: tuple[dict[str, Any], ...] = (
        {"payload_sha256": colliding},
        {"payload_sha256": plan.payload_sha256[:12]},
        {"payload_sha256": plan.payload_sha256.upper()},
        {"tool": "send2"},
        {"manifest_sha256": "n" * 64},
        {"risk": Risk.HIGH},
        {"requester": SOMEONE},
        {"requester": ME.within("t2")},
        {"now": grant.expires_at},
    )
    for other in others:
        assert await found(ledger, plan, **other) is None, other
    assert await found(ledger, plan, requester=Identity(union_id="on_me")) == grant.grant_id, "any id in common"
    assert await found(ledger, plan, now=grant.expires_at - timedelta(microseconds=1)) == grant.grant_id


async def test_a_whole_tool_is_remembered_for_the_conversation_of_the_click(ledger: Ledger) -> None:
    plan = await propose(ledger, conversation="oc_named_by_the_agent", manifest_sha256="w" * 64)
    grant = await granted(ledger, plan, scope=Remember.TOOL, chat_id="oc_clicked")
    assert (grant.scope, grant.chat_id, grant.payload_sha256) == ("tool", "oc_clicked", None)
    assert await found(ledger, plan) is None, "the agent named another conversation"
    assert await found(ledger, plan, conversation=None) is None
    assert await found(ledger, plan, conversation="oc_clicked", payload_sha256="f" * 64) == grant.grant_id
    exact = await granted(ledger, plan)
    assert await found(ledger, plan, conversation="oc_clicked") == exact.grant_id, "the exact one goes first"


@pytest.mark.parametrize(("decision", "chat_id"), [("reject", "oc_1"), ("approve", None)])
async def test_a_tool_cannot_be_remembered_without_a_conversation_nor_rejected_whole(
    ledger: Ledger, decision: str, chat_id: str | None
) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan, decision, scope=Remember.TOOL, chat_id=chat_id)
    assert (grant.scope, grant.payload_sha256, grant.chat_id) == ("exact", plan.payload_sha256, None)


async def test_the_newest_of_two_answers_counts(ledger: Ledger) -> None:
    plan = await propose(ledger)
    await granted(ledger, plan, "approve", now=datetime.now(UTC) - timedelta(minutes=1))
    newer = await granted(ledger, plan, "reject")
    assert await found(ledger, plan) == newer.grant_id


async def test_grants_are_listed_newest_first_ended_ones_too(ledger: Ledger) -> None:
    far = datetime.now(UTC) + timedelta(days=1)
    made = [await granted(ledger, await propose(ledger), now=far + timedelta(seconds=n)) for n in range(3)]
    await ledger.revoke(made[2].grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=NOW)
    first, further = await Reader(ledger).grants(0, 2)
    assert ([grant.grant_id for grant in first], further) == ([made[2].grant_id, made[1].grant_id], 2)
    assert (first[0].revoked_at, first[0].revoked_by) == (NOW, APPROVER)
    rest, _ = await Reader(ledger).grants(2, 1)
    assert [grant.grant_id for grant in rest] == [made[0].grant_id]
    everything, end = await Reader(ledger).grants(0, 1000)
    assert (len(everything) > 2, end) == (True, None)


async def test_a_grant_is_revoked_by_whoever_gave_it_or_may_revoke_all(ledger: Ledger) -> None:
    plan = await propose(ledger, tenant_key="t1")
    grant = await granted(ledger, plan, actor=Identity(open_id="ou_approver"))

    async def revoke(actor: Identity, *, may_all: bool = False, grant_id: str = grant.grant_id) -> RevokedKind:
        return await ledger.revoke(grant_id, actor, may_all=may_all, surface=Surface.FEISHU, now=NOW)

    assert await revoke(SOMEONE) is RevokedKind.FORBIDDEN
    assert await revoke(Identity(open_id="ou_approver", tenant_key="t2")) is RevokedKind.FORBIDDEN
    assert await revoke(SOMEONE, grant_id="g_none") is RevokedKind.MISSING
    assert await found(ledger, plan) == grant.grant_id
    assert await revoke(APPROVER) is RevokedKind.REVOKED
    assert await revoke(APPROVER) is RevokedKind.ALREADY_REVOKED
    assert await revoke(SOMEONE) is RevokedKind.FORBIDDEN
    assert await found(ledger, plan) is None
    entries = [entry for entry in await ledger.entries(plan.approval_id) if entry.event is AuditEvent.REVOKE]
    assert [(entry.actor, entry.surface, entry.grant_id) for entry in entries] == [
        (APPROVER, Surface.FEISHU, grant.grant_id)
    ]
    other = await granted(ledger, await propose(ledger))
    assert await revoke(SOMEONE, may_all=True, grant_id=other.grant_id) is RevokedKind.REVOKED
    again = await ledger.remember(remembering(plan, actor=Identity(open_id="ou_approver")))
    assert again is not None
    assert again.revoked_at is not None, "a remembering that is tried again revives nothing"


@pytest.mark.parametrize("kind", ["approve", "edit"])
async def test_of_several_who_had_to_approve_each_may_revoke(ledger: Ledger, kind: str) -> None:
    plan = await propose(ledger)
    first = AuditEntry(
        event=AuditEvent.CONFIRM, at=NOW, once=f"confirm:{kind}", actor=SOMEONE, decision=DecisionKind(kind)
    )
    against = AuditEntry(event=AuditEvent.CONFIRM, at=NOW, once="against", actor=ME, decision=DecisionKind.REJECT)
    await ledger.append(AuditBatch(approval_id=plan.approval_id, entries=(first, against)))
    grant = await granted(ledger, plan)

    async def revoke(actor: Identity) -> RevokedKind:
        return await ledger.revoke(grant.grant_id, actor, may_all=False, surface=Surface.FEISHU, now=NOW)

    assert await revoke(ME) is RevokedKind.FORBIDDEN, "who was against it did not give it"
    assert await revoke(SOMEONE) is RevokedKind.REVOKED


async def test_of_many_who_revoke_at_once_one_does_and_the_audit_stays_whole(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    await ledger.conclude(ended(plan, Status.EXECUTED))
    said = await asyncio.gather(
        *(
            ledger.revoke(grant.grant_id, APPROVER, may_all=True, surface=Surface.HTTP, now=datetime.now(UTC))
            for _ in range(8)
        )
    )
    assert sorted(said) == [*[RevokedKind.ALREADY_REVOKED] * 7, RevokedKind.REVOKED]
    events = [entry.event for entry in await ledger.entries(plan.approval_id)]
    assert events.count(AuditEvent.REVOKE) == 1
    assert await ledger.verify() == []


async def test_a_live_grant_lets_a_call_begin(ledger: Ledger) -> None:
    plan = await propose(ledger)
    call = await let_through(ledger, await granted(ledger, plan), plan)
    assert (await ledger.begin(call, holder())).right is Right.RUN


async def test_a_grant_that_was_revoked_on_the_way_lets_nothing_begin(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    call = await let_through(ledger, grant, plan)
    await ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=datetime.now(UTC))
    assert await refusal(ledger, call) == f"the remembered decision {grant.grant_id} was revoked; propose the call anew"


async def test_a_grant_that_expired_on_the_way_lets_nothing_begin(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan, now=datetime.now(UTC) - plan.remember_for)
    call = await let_through(ledger, grant, plan)
    assert await refusal(ledger, call) == f"the remembered decision {grant.grant_id} has expired; propose the call anew"


async def test_a_grant_for_something_else_lets_nothing_begin(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    others = [
        await let_through(ledger, grant, plan, other=True),
        await let_through(ledger, grant, plan, manifest_sha256="n" * 64),
        await let_through(ledger, grant, plan, risk=Risk.HIGH),
        await let_through(ledger, grant, plan, requester=SOMEONE),
        await let_through(ledger, await granted(ledger, plan, "reject"), plan),
    ]
    for call in others:
        assert "does not count for this call" in await refusal(ledger, call)
    unknown = others[0].model_copy(update={"grant_id": "g_none"})
    assert "is not known" in await refusal(ledger, unknown)
    whole = await granted(ledger, plan, scope=Remember.TOOL, chat_id="oc_1")
    elsewhere = await let_through(ledger, whole, plan, other=True, conversation="oc_2")
    assert "does not count for this call" in await refusal(ledger, elsewhere)
    perhaps = await let_through(ledger, whole, plan, other=True, conversation="oc_1", chat_is_known=False)
    assert "does not count for this call" in await refusal(ledger, perhaps)
    here = await let_through(ledger, whole, plan, other=True, conversation="oc_1")
    assert (await ledger.begin(here, holder())).right is Right.RUN


async def test_what_has_begun_goes_on_and_is_told_though_its_grant_was_revoked(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    call, running = await let_through(ledger, grant, plan), holder()
    await ledger.begin(call, running)
    await ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=datetime.now(UTC))
    assert (await ledger.begin(call, running)).right is Right.RUN, "the same attempt, whose answer was lost"
    done = await ledger.finish(call, running, 1, Ending(state=ClaimState.EXECUTED))
    assert (await ledger.begin(call, holder())).report == done


async def test_another_approvals_result_is_told_though_the_grant_was_revoked(ledger: Ledger) -> None:
    plan = await propose(ledger, {"to": "both"}, message="shared")
    grant = await granted(ledger, plan)
    first, running = ToolCall.of(plan), holder()
    second = ToolCall.of((await propose(ledger, {"to": "both"}, message="shared")).model_copy(update={"grant": grant}))
    await ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=datetime.now(UTC))
    await ledger.begin(first, running)
    assert (await ledger.begin(second, holder())).right is Right.WAIT
    await ledger.finish(first, running, 1, Ending(state=ClaimState.FAILED, error="no"))
    assert "was revoked" in await refusal(ledger, second), "the key is free, and still it does not run"


async def test_a_revocation_that_is_under_way_is_waited_for_and_wins(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    call = await let_through(ledger, grant, plan)
    async with writing(ledger._engine) as connection:
        await grants.revoke(connection, grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=NOW)
        beginning = asyncio.ensure_future(refusal(ledger, call))
        await asyncio.wait([beginning], timeout=0.2)
        assert not beginning.done(), "it cannot know yet"
    assert "was revoked" in await beginning


async def test_a_beginning_that_is_under_way_is_waited_for_by_a_revocation(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    call = await let_through(ledger, grant, plan)
    async with writing(ledger._engine) as connection:
        beginning = await claims.begin(connection, call, holder(), datetime.now(UTC), may_start=True)
        revoking = asyncio.ensure_future(
            ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=NOW)
        )
        await asyncio.wait([revoking], timeout=0.2)
        assert not revoking.done(), "nothing is revoked while a call begins on it"
    assert (beginning.right, await revoking) == (Right.RUN, RevokedKind.REVOKED)


async def test_racing_begins_and_revocations_never_wait_for_each_other_in_a_ring(ledger: Ledger) -> None:
    for n in range(6):
        plan = await propose(ledger)
        grant = await granted(ledger, plan)
        racing = [ledger.begin(await let_through(ledger, grant, plan), holder()) for _ in range(4)]

        async def revoke(grant: Grant = grant) -> RevokedKind:
            now = datetime.now(UTC)
            return await ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=now)

        before, revoked, after = await asyncio.gather(
            asyncio.gather(*racing[:n]), revoke(), asyncio.gather(*racing[n:])
        )
        assert revoked is RevokedKind.REVOKED
        for beginning in (*before, *after):
            reason = beginning.report.reason if beginning.report else None
            assert beginning.right is Right.RUN or "was revoked" in (reason or "")
        assert "was revoked" in await refusal(ledger, await let_through(ledger, grant, plan))


async def test_what_an_operator_wants_tried_again_runs_by_the_operators_word(ledger: Ledger) -> None:
    plan = await propose(ledger)
    grant = await granted(ledger, plan)
    call, running = await let_through(ledger, grant, plan, retry_safe=True), holder()
    await ledger.begin(call, running)
    await ledger.finish(call, running, 1, Ending(state=ClaimState.UNKNOWN, error="lost"))
    await ledger.revoke(grant.grant_id, APPROVER, may_all=False, surface=Surface.HTTP, now=datetime.now(UTC))
    again = call.model_copy(update={"consent": f"{call.consent}#1", "retries": call.consent})
    assert (await ledger.begin(again, holder())).right is Right.RUN
