"""What an approval keeps of those who spoke: across runs, while something is weighed, however often they do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import workflow

from assent import Approvers, Identity
from assent.contracts import Decision, DecisionKind, Outcome, Plan, Status, VerdictKind
from assent.messages import Reviewing, Shelf, Weighed, Withdrawal
from tests.support import policies
from tests.support.deciding import STRANGER
from workflows.docket import Docket

OTHER = Identity(open_id="ou_other")


# Continuing as new


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> datetime:
    noon = datetime.now(UTC)
    monkeypatch.setattr(workflow, "now", lambda: noon)
    return noon


def a_plan(now: datetime, **more: Any) -> Plan:
    return policies.plan(deadline=now + timedelta(hours=1), asked_at=now, approvers=Approvers(), **more)


def decided(plan: Plan, actor: Identity, kind: DecisionKind, event_id: str = "e", **more: Any) -> Decision:
    return Decision(
        approval_id=plan.approval_id,
        kind=kind,
        payload_sha256=plan.payload_sha256,
        actor=actor,
        event_id=event_id,
        **more,
    )


def test_a_decision_that_is_being_weighed_is_weighed_by_the_next_run(at_noon: datetime) -> None:
    plan, docket = a_plan(at_noon), Docket(None)
    docket.open(plan)
    docket.take(decided(plan, plan.requester, DecisionKind.EDIT, arguments={"a": 1}))
    assert docket.weighing is not None
    next_run = Docket(docket.carried(plan, Shelf()))
    next_run.resume()  # as the workflow does when all its parts are there
    assert next_run.weighing is not None


def test_a_call_whose_result_is_reviewed_stays_made_in_the_next_run(at_noon: datetime) -> None:
    plan, docket = a_plan(at_noon), Docket(None)
    docket.open(plan)
    docket.take(decided(plan, plan.requester, DecisionKind.APPROVE))
    docket.begun, docket.status = True, Status.EXECUTED
    docket.review_result("0" * 64, at_noon + timedelta(hours=1))
    outcome = Outcome(approval_id=plan.approval_id, status=Status.EXECUTED, decided_by=plan.requester)
    reviewing = Reviewing(outcome=outcome, content_sha256="0" * 64, deadline=at_noon + timedelta(hours=1))
    carried = docket.carried(plan, Shelf()).model_copy(update={"reviewing": reviewing})
    next_run = Docket(carried)
    next_run.withdraw(Withdrawal(reason="never mind"))
    assert (next_run.status, next_run.decided_by) == (Status.EXECUTED, plan.requester)
    next_run.take(decided(plan, plan.requester, DecisionKind.EDIT, "late", arguments={"a": 1}))
    assert next_run.weighing is None  # nothing is edited after it ran
    assert next_run.judged["late"].verdict is VerdictKind.ALREADY_DECIDED


# A person who never stops


def test_however_often_a_decision_moves_on_the_workflow_goes_on(at_noon: datetime) -> None:
    plan, docket = a_plan(at_noon), Docket(None)
    docket.open(plan)
    pair = (plan.requester, OTHER.within(plan.tenant_key))
    for n in range(200):
        giver, taker = pair[n % 2], pair[(n + 1) % 2]
        docket.take(decided(plan, giver, DecisionKind.DELEGATE, f"e{n}", delegate_to=taker))
        docket.unwritten.clear()
    assert docket.plan is plan


def test_what_is_being_weighed_does_not_let_strangers_crowd_out_an_approver(at_noon: datetime) -> None:
    people = Approvers(kind=Approvers.Kind.PEOPLE, people=(OTHER.within("t"),))
    plan, docket = a_plan(at_noon).model_copy(update={"approvers": people}), Docket(None)
    docket.open(plan)
    docket.take(decided(plan, OTHER, DecisionKind.EDIT, arguments={"a": 1}))
    for n in range(100):
        docket.take(decided(plan, STRANGER, DecisionKind.APPROVE, f"s{n}"))
    docket.take(decided(plan, OTHER, DecisionKind.REJECT, "no"))
    docket.withdraw(Withdrawal())
    assert "no" in docket.judged
    assert docket.judged["s0"].verdict is VerdictKind.FORBIDDEN


# Striking


def test_a_withdrawal_during_the_last_look_counts_if_the_approval_does_not(at_noon: datetime) -> None:
    chat = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")
    plan, docket = a_plan(at_noon).model_copy(update={"approvers": chat}), Docket(None)
    docket.open(plan)
    docket.take(decided(plan, OTHER, DecisionKind.APPROVE))
    docket.weighed(Weighed())
    assert docket.decision is not None
    docket.withdraw(Withdrawal(reason="never mind"))  # while it is asked whether they still belong to the chat
    docket.strike((OTHER.within(plan.tenant_key),))
    assert docket.status is Status.CANCELLED
