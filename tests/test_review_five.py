"""Ways past "who may say yes", "at most once" and "what cannot be known", as a reviewer found them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import Approvers, Identity, core
from assent.contracts import (
    Decision,
    DecisionKind,
    Execution,
    Judged,
    Outcome,
    Permission,
    Phase,
    Plan,
    Remember,
    Risk,
    Stage,
    State,
    Status,
    VerdictKind,
)
from assent.core import Planned, Unplanned, concluded
from assent.messages import Remembering, Report, ReportKind, Weighed, Withdrawal
from assent.policy import Effective, objection
from ledger import Ledger
from tests import rules
from tests.conftest import ME, Service
from tests.ledgers import edited, propose
from tests.test_approvers import STRANGER, said
from tests.tools import CHIEFS, PEOPLE, marks
from workers.desk import told
from workers.tokens import Agent

OTHER = Identity(open_id="ou_other")


# Delegation


async def test_whom_a_first_approver_names_decides_nothing_in_the_next_stage(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await said(handle, PEOPLE[0], "delegate", delegate_to=STRANGER)).kind == "accepted"
    for person in PEOPLE[1:3]:
        assert (await said(handle, person)).kind == "accepted"
    assert (await said(handle, STRANGER)).kind == "forbidden"  # it is the chiefs' turn
    assert marks(tmp_path / "m") == 0


TWO_STAGES = """
[[rule]]
name = "two stages"
tools = ["open_mark"]

[[rule.approvers]]
people = ["open_id:ou_p0", "open_id:ou_p1"]
rejections = 2

[[rule.approvers]]
people = ["open_id:ou_p0", "open_id:ou_c0"]
rejections = 2
"""


async def test_delegating_after_approving_does_not_leave_a_stage_without_approval(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_STAGES):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, PEOPLE[0])).kind == "accepted"
        await said(handle, PEOPLE[0], "delegate", delegate_to=STRANGER)
        await said(handle, STRANGER)
        assert (await handle.state()).phase == "pending"
        assert marks(tmp_path / "m") == 0


async def test_rejecting_after_approving_does_not_leave_a_stage_without_approval(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_STAGES):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, PEOPLE[0])).kind == "accepted"
        await said(handle, PEOPLE[0], "reject")
        await said(handle, CHIEFS[0])
        assert (await handle.state()).phase == "pending"
        assert marks(tmp_path / "m") == 0


LARGE = """
[[rule]]
name = "large"
tools = ["mark"]
when = "arguments.note == 'large'"
approvers = {people = ["open_id:ou_c0"]}
"""


async def test_a_delegate_does_not_edit_a_call_past_those_who_must_approve_it(service: Service, tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    async with service.policy(LARGE):
        handle = await service.gate.request("mark", {"path": path}, requester=ME)
        assert (await said(handle, ME, "delegate", delegate_to=STRANGER)).kind == "accepted"
        edited = await said(handle, STRANGER, "edit", arguments={"path": path, "note": "large"})
        assert edited.kind == "accepted"
        state = await handle.state()
        assert (state.phase, state.status) == ("pending", None)  # the chief has not been asked
        assert marks(tmp_path / "m") == 0


# Grants


async def test_a_remembered_yes_does_not_stand_in_for_those_whom_the_policy_asks_now(
    service: Service, tmp_path: Path
) -> None:
    arguments = {"path": str(tmp_path / "m")}
    first = await service.gate.request("ask_once", arguments, requester=ME)
    assert (await said(first, ME)).kind == "accepted"
    await first.outcome()
    chief = '[[rule]]\nname = "chief"\ntools = ["ask_once"]\napprovers = {people = ["open_id:ou_c0"]}\n'
    async with service.policy(chief):
        again = await service.gate.request("ask_once", arguments, requester=ME)
        state = await again.state()
        assert (state.phase, state.grant_id) == ("pending", None)
    assert marks(tmp_path / "m") == 1


# The policy at execution


def test_a_chat_that_nobody_was_asked_about_is_not_satisfied() -> None:
    plan = rules.plan(approvers=Approvers())
    chat = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_finance")
    effective = Effective(
        permission=Permission(execution=Execution.ASK_ALWAYS),
        approvers=chat,
        risk=Risk.MEDIUM,
        **dict.fromkeys(("ttl", "denied", "rule", "remember_for", "remind_after", "escalate_after")),
        **dict.fromkeys(("result_ttl", "result_fallback")),
        warnings=(),
        escalate_to=(),
    )
    assert objection(plan, effective, (plan.requester,)) is not None


# Continuing as new


@pytest.fixture
def at_noon() -> datetime:
    return datetime.now(UTC)


def a_plan(now: datetime, **more: Any) -> Plan:
    return rules.plan(deadline=now + timedelta(hours=1), asked_at=now, approvers=Approvers(), **more)


def decided(plan: Plan, actor: Identity, kind: DecisionKind, event_id: str = "e", **more: Any) -> Decision:
    return Decision(
        approval_id=plan.approval_id,
        kind=kind,
        payload_sha256=plan.payload_sha256,
        actor=actor,
        event_id=event_id,
        **more,
    )


def opened(plan: Plan, now: datetime) -> Planned:
    request = rules.request(plan)
    return core.open_with(Unplanned(request=request), plan, now)


def next_run(approval: Planned) -> Planned:
    return core.resume(Planned.model_validate_json(approval.model_dump_json()))


def verdict_on(approval: Planned, event_id: str) -> VerdictKind | None:
    judged = approval.notes.verdict_on(event_id)
    return judged.verdict if judged else None


def test_a_decision_that_is_being_weighed_is_weighed_by_the_next_run(at_noon: datetime) -> None:
    plan = a_plan(at_noon)
    edit = decided(plan, plan.requester, DecisionKind.EDIT, arguments={"a": 1})
    approval = core.decide(opened(plan, at_noon), edit, at_noon)
    assert approval.asking == edit
    assert next_run(approval).asking == edit


def test_a_call_whose_result_is_reviewed_stays_made_in_the_next_run(at_noon: datetime) -> None:
    plan = a_plan(at_noon)
    approval = core.decide(opened(plan, at_noon), decided(plan, plan.requester, DecisionKind.APPROVE), at_noon)
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="0" * 64)
    approval, _ = core.report(core.begin(approval), sealed, at_noon)
    approval = core.withdraw(next_run(approval), Withdrawal(reason="never mind"), at_noon)
    assert approval.ending is not None
    assert (approval.ending.status, approval.decided_by) == (Status.EXECUTED, plan.requester)
    late = decided(plan, plan.requester, DecisionKind.EDIT, "late", arguments={"a": 1})
    approval = core.decide(approval, late, at_noon)
    assert approval.asking is None  # nothing is edited after it ran
    assert verdict_on(approval, "late") is VerdictKind.ALREADY_DECIDED


# A person who never stops


def test_however_often_a_decision_moves_on_the_workflow_goes_on(at_noon: datetime) -> None:
    plan = a_plan(at_noon)
    approval = opened(plan, at_noon)
    pair = (plan.requester, OTHER.within(plan.tenant_key))
    for n in range(200):
        giver, taker = pair[n % 2], pair[(n + 1) % 2]
        said = decided(plan, giver, DecisionKind.DELEGATE, f"e{n}", delegate_to=taker)
        approval = core.decide(approval, said, at_noon)
        approval = core.write(approval, approval.notes.unwritten, at_noon)
    assert verdict_on(approval, "e199") is not None
    assert len(approval.model_dump_json()) < 200_000


def test_what_is_being_weighed_does_not_let_strangers_crowd_out_an_approver(at_noon: datetime) -> None:
    people = Approvers(kind=Approvers.Kind.PEOPLE, people=(OTHER.within("t"),))
    plan = a_plan(at_noon).model_copy(update={"approvers": people})
    edit = decided(plan, OTHER, DecisionKind.EDIT, arguments={"a": 1})
    approval = core.decide(opened(plan, at_noon), edit, at_noon)
    for n in range(100):
        approval = core.decide(approval, decided(plan, STRANGER, DecisionKind.APPROVE, f"s{n}"), at_noon)
    approval = core.decide(approval, decided(plan, OTHER, DecisionKind.REJECT, "no"), at_noon)
    approval = core.withdraw(approval, Withdrawal(), at_noon)
    assert verdict_on(approval, "no") is not None
    assert verdict_on(approval, "s0") is VerdictKind.FORBIDDEN


# What is sealed


def test_an_agent_does_not_learn_the_hash_of_a_withheld_result_from_who_decided(at_noon: datetime) -> None:
    about = Judged(
        event_id="e",
        delivery_id=None,
        kind=DecisionKind.REJECT,
        actor=ME,
        verdict=VerdictKind.ACCEPTED,
        received_at=at_noon,
        stage=Stage.RESULT,
        payload_sha256="f" * 64,
    )
    state = State(approval_id="a", phase=Phase.CLOSED, tool="t", requester=ME, asked_by="agent", decisions=(about,))
    assert "f" * 64 not in told(Agent(name="agent", sha256="0" * 64), state).model_dump_json()


# One person under two ids

TWO_OF_ANYONE = """
[[rule]]
name = "two"
tools = ["open_mark"]
approvers = {who = "anyone", threshold = 2, exclude_requester = true}
"""


async def test_one_person_under_two_ids_that_nobody_can_tell_apart_counts_once(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_OF_ANYONE):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, Identity(open_id="ou_1"))).kind == "accepted"
        assert (await said(handle, Identity(union_id="on_1"))).kind != "accepted"
        assert marks(tmp_path / "m") == 0


async def test_who_asked_under_one_id_does_not_approve_under_another(service: Service, tmp_path: Path) -> None:
    async with service.policy(TWO_OF_ANYONE):
        asked_by = Identity(user_id="lilei")
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=asked_by)
        same_person = Identity(open_id="ou_lilei", union_id="on_lilei")  # as Feishu says it without the user_id scope
        assert (await said(handle, same_person)).kind == "forbidden"


# Reset


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


def test_an_outcome_does_not_tell_the_hash_of_what_is_sealed() -> None:
    """As after a reset, where the ledger knows of a sealed execution before an end without one."""
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="f" * 64, content_bytes=4)
    outcome = concluded(Outcome(approval_id="a", status=Status.EXPIRED), sealed)
    assert (outcome.withheld, outcome.content_sha256, outcome.content_bytes) == (True, None, None)


# Striking


def test_a_withdrawal_during_the_last_look_counts_if_the_approval_does_not(at_noon: datetime) -> None:
    chat = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")
    plan = a_plan(at_noon).model_copy(update={"approvers": chat})
    said = decided(plan, OTHER, DecisionKind.APPROVE)
    approval = core.answer(core.decide(opened(plan, at_noon), said, at_noon), said, Weighed(), at_noon)
    assert approval.decision is not None
    # while it is asked whether they still belong to the chat
    approval = core.withdraw(approval, Withdrawal(reason="never mind"), at_noon)
    approval = core.strike(approval, (OTHER.within(plan.tenant_key),), at_noon)
    assert approval.ending is not None
    assert approval.ending.status is Status.CANCELLED
