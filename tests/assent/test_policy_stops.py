"""What is in force when a call begins stops one that was planned under something less strict."""

from __future__ import annotations

from typing import Any

import pytest

from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution, Permission, ResultReview
from assent.contracts.plan import Plan
from assent.policy.rules import Asking, Effective, Rules, objection
from tests.support import policies
from tests.support.policies import ME, grant, manifest, plan, rule

ADA, BOB, EVE = (Identity(open_id=f"ou_{name}", tenant_key="t") for name in ("ada", "bob", "eve"))


def stopped(text: str, planned: Plan, *approved_by: Identity, **declared: Any) -> str | None:
    rules = Rules.parse(text)
    seen = Asking.of(planned.payload, planned.requester, planned.conversation)
    return objection(planned, rules.effective(manifest(**declared), seen), approved_by)


def test_call_runs_under_the_rules_that_it_was_planned_by() -> None:
    assert stopped("#", plan(), ME) is None
    auto = plan(permission=Permission(execution=Execution.AUTO))
    assert stopped(rule('execution = "auto"'), auto) is None
    assert stopped(
        rule('execution = "ask-once"'), plan(permission=Permission(execution="ask-once"), grant=grant(ME))
    ) is (None)


def test_denied_call_is_stopped_whoever_approved_it() -> None:
    why = stopped(rule('execution = "deny"', 'reason = "Month-end closing."', name="closing"), plan(), ME)
    assert why == "the operator's rule 'closing' does not allow it: Month-end closing."
    assert "rule 'r' does not allow it" in (stopped(rule('execution = "deny"'), plan(), ME) or "")
    assert "cannot be applied" in (stopped(rule('when = "arguments.x"'), plan(), ME) or "")
    assert "lets nobody run it" in (stopped("#", plan(), ME, permission=Permission(execution="deny")) or "")


@pytest.mark.parametrize("before", list(Execution)[:3])
@pytest.mark.parametrize("now", list(Execution)[:3])
def test_call_that_nobody_approved_is_stopped_where_somebody_must_be_asked(before: Execution, now: Execution) -> None:
    planned = plan(permission=Permission(execution=before), grant=grant(ME) if before is Execution.ASK_ONCE else None)
    text = rule(f'execution = "{now}"')
    assert stopped(text, planned, ME) is None
    if before is Execution.ASK_ALWAYS:
        return  # it was approved by somebody
    is_stricter = list(Execution).index(now) > list(Execution).index(before)
    why = stopped(text, planned)
    assert (why is not None) == is_stricter
    assert why is None or f"a person must be asked ({now}), and nobody was" in why


def test_call_is_stopped_where_its_risk_was_raised_but_not_where_it_was_lowered() -> None:
    assert "its risk was medium when it was decided, and is high" in (stopped(rule('risk = "high"'), plan(), ME) or "")
    assert stopped(rule('risk = "low"'), plan(), ME) is None
    assert "risk" in (stopped("#", plan(risk=Risk.LOW), ME) or "")


@pytest.mark.parametrize("before", ResultReview)
@pytest.mark.parametrize("now", ResultReview)
def test_call_is_stopped_where_its_result_must_be_reviewed_more_strictly(
    before: ResultReview, now: ResultReview
) -> None:
    why = stopped(rule(f'result = "{now}"'), plan(permission=Permission(result=before)), ME)
    assert (why is not None) == (list(ResultReview).index(now) > list(ResultReview).index(before))
    assert why is None or "its result must be reviewed" in why


BOTH = 'approvers = {people = ["open_id:ou_ada", "open_id:ou_bob"], threshold = 2}'
STAGES = 'approvers = [{people = ["open_id:ou_ada", "open_id:ou_eve"]}, {who = "anyone", exclude_requester = true}]'


@pytest.mark.parametrize(
    ("approvers", "approved_by", "may_run"),
    [
        (BOTH, (ADA, BOB), True),
        (BOTH, (BOB, EVE, ADA), True),
        (BOTH, (ADA,), False),
        (BOTH, (ADA, ADA), False),
        (BOTH, (ADA, ME), False),
        (BOTH, (Identity(open_id="ou_ada"), Identity(open_id="ou_bob", union_id="on_bob")), True),
        (BOTH, (ADA, Identity(open_id="ou_bob", tenant_key="u")), False),
        (STAGES, (ADA, BOB), True),
        (STAGES, (ADA, EVE), True),
        (STAGES, (BOB, ADA), False),
        (STAGES, (ADA, ADA), False),
        (STAGES, (ADA, ME), False),
        (STAGES, (ADA, ME, EVE), True),
        ('approvers = "anyone"', (EVE,), True),
        ('approvers = "anyone"', (Identity(open_id="x", tenant_key="u"),), False),
        ('approvers = {who = "anyone", exclude_requester = true}', (ME,), False),
        ('approvers = {who = "anyone", exclude_requester = true, threshold = 2}', (ME, ADA, BOB), True),
        ('approvers = {chat = "oc_1"}', (ME,), False),
    ],
)
def test_call_is_stopped_where_others_or_more_must_approve_now(
    approvers: str, approved_by: tuple[Identity, ...], may_run: bool
) -> None:
    why = stopped(rule(approvers), plan(), *approved_by)
    assert (why is None) == may_run
    assert why is None or why.startswith("the policy has changed (rule 'r'): those who approved it")
    assert stopped(rule(approvers, 'execution = "auto"'), plan(), *approved_by) is None


def test_delegate_counts_while_the_approvers_are_the_same() -> None:
    people = Approvers.of([ADA, BOB])
    text = rule('approvers = {people = ["open_id:ou_ada", "open_id:ou_bob"]}')
    assert stopped(text, plan(approvers=people), EVE) is None
    assert stopped(rule(BOTH), plan(approvers=people), EVE) is not None


def test_remembered_decision_counts_for_the_one_who_made_it() -> None:
    remembered = plan(permission=Permission(execution="ask-once"), grant=grant(ADA))
    asks = 'execution = "ask-once"'
    assert stopped(rule(asks, 'approvers = {people = ["open_id:ou_ada"]}'), remembered) is None
    assert stopped(rule(asks, 'approvers = {people = ["open_id:ou_bob"]}'), remembered) is not None
    assert stopped(rule(asks, BOTH), remembered) is not None


def test_a_chat_that_nobody_was_asked_about_is_not_satisfied() -> None:
    plan = policies.plan(approvers=Approvers())
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
