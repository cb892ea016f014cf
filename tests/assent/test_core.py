"""What an approval keeps of those who spoke: across runs, while something is weighed, however often they do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent import Approvers, Identity, core
from assent.contracts.address import Address
from assent.contracts.bundles import Carded
from assent.contracts.decision import Decision, DecisionKind, Stage, VerdictKind
from assent.contracts.deliver import CardKind, Delivered, Delivery
from assent.contracts.execute import Report, ReportKind
from assent.contracts.permission import Execution, Permission
from assent.contracts.plan import Plan
from assent.contracts.prepare import SentBefore
from assent.contracts.signals import Withdrawal
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.contracts.weigh import Weighed
from assent.core import Planned, Unplanned
from assent.payload import sha256
from tests.support import policies
from tests.support.deciding import STRANGER
from tests.support.policies import ME

OTHER = Identity(open_id="ou_other")
ADA = Identity(open_id="ou_ada")


# Continuing as new


@pytest.fixture
def at_noon() -> datetime:
    return datetime.now(UTC)


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


def opened(plan: Plan, now: datetime) -> Planned:
    request = policies.request(plan)
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


ANN = Identity(open_id="ou_ann", tenant_key="t")
TWO_CHATS = (Address.of(ME), Address.of(ANN))


def carded(now: datetime) -> tuple[Planned, tuple[Delivery, ...]]:
    """An approval whose two cards are on their way."""
    people = Approvers(kind=Approvers.Kind.PEOPLE, people=(ME, ANN), threshold=2)
    plan = a_plan(now).model_copy(update={"approvers": people, "addresses": TWO_CHATS})
    return core.send(opened(plan, now), now)


def test_first_cards_are_those_that_the_approval_would_send(at_noon: datetime) -> None:
    """They go out before the approval is open, and have to be the same messages."""
    approval, sent = carded(at_noon)
    assert core.first_cards(policies.request(approval.plan), approval.plan, at_noon) == sent
    assert len(sent) == 2


def test_what_was_said_before_there_is_a_plan_holds_back_the_first_cards(at_noon: datetime) -> None:
    plan = a_plan(at_noon)
    approval = Unplanned(request=policies.request(plan))
    early = decided(plan, plan.requester, DecisionKind.APPROVE)
    assert core.is_untouched(approval)
    assert not core.is_untouched(core.withdraw(approval, Withdrawal(), at_noon))
    assert not core.is_untouched(core.decide(approval, early, at_noon))
    assert not core.is_untouched(core.take_card(approval, Carded(message_ids=("om_1",)), at_noon))


def test_nothing_is_sent_once_it_is_decided(at_noon: datetime) -> None:
    approval, _ = carded(at_noon)
    withdrawn = core.withdraw(next_run(approval), Withdrawal(), at_noon)
    assert core.send(withdrawn, at_noon) == (withdrawn, ())


def test_cards_that_were_left_half_sent_are_sent_again_as_they_were(at_noon: datetime) -> None:
    approval, sent = carded(at_noon)
    approval = core.arrive(approval, CardKind.CALL, Delivered(message_id="om_1"), at_noon)
    approval, again = core.send(next_run(approval), at_noon)
    assert [(each.generation, each.place) for each in again] == [(each.generation, each.place) for each in sent]
    assert approval.messages == {"om_1"}


def test_cards_that_became_others_meanwhile_are_sent_as_others(at_noon: datetime) -> None:
    """Else whoever must decide now would keep the card of what it was before, and click in vain."""
    approval, sent = carded(at_noon)
    approval = core.arrive(approval, CardKind.CALL, Delivered(message_id="om_1"), at_noon)
    passed_on = decided(approval.plan, ANN, DecisionKind.DELEGATE, delegate_to=OTHER)
    approval = core.decide(approval, passed_on, at_noon)
    _, anew = core.send(next_run(approval), at_noon)
    assert {each.generation for each in anew} == {sent[0].generation + 1}


def test_what_the_cards_did_not_say_yet_they_are_to_say_in_the_next_run(at_noon: datetime) -> None:
    approval, _ = carded(at_noon)
    for message_id in ("om_1", "om_2"):
        approval = core.arrive(approval, CardKind.CALL, Delivered(message_id=message_id), at_noon)
    assert core.show(approval, at_noon) is None
    approval = core.decide(approval, decided(approval.plan, ANN, DecisionKind.APPROVE), at_noon)
    revision = core.show(approval, at_noon)
    assert revision is not None
    assert core.show(next_run(approval), at_noon) == revision
    assert core.show(next_run(core.shown(approval, approval.news)), at_noon) is None
    later = core.shown(core.shown(approval, approval.news), approval.news - 1)
    assert core.show(later, at_noon) is None  # what was shown late does not bring back what was before it


@pytest.mark.parametrize("in_turn", [True, False])
def test_what_happened_while_cards_were_sent_is_said_on_those_that_were_there_before(
    at_noon: datetime, in_turn: bool
) -> None:
    """In the next run. Approvals that were planned before that was so have histories in which it is not."""
    approval, _ = carded(at_noon)
    approval = approval.model_copy(update={"plan": approval.plan.model_copy(update={"is_shown_in_turn": in_turn})})
    approval = core.arrive(approval, CardKind.CALL, Delivered(message_id="om_1"), at_noon)
    approval = core.decide(approval, decided(approval.plan, ANN, DecisionKind.APPROVE), at_noon)
    approval, again = core.send(next_run(approval), at_noon)
    assert len(again) == 2
    for message_id in ("om_1", "om_2"):
        approval = core.arrive(approval, CardKind.CALL, Delivered(message_id=message_id), at_noon)
    assert (core.show(approval, at_noon) is not None) is in_turn


def test_older_cards_that_could_not_be_changed_are_tried_again(at_noon: datetime) -> None:
    approval, _ = carded(at_noon)
    approval = approval.model_copy(update={"plan": approval.plan.model_copy(update={"is_shown_in_turn": True})})
    for message_id, left in (("om_1", True), ("om_2", False)):
        assert core.show(approval, at_noon) is None
        delivered = Delivered(message_id=message_id, leaves_older=left)
        approval = core.arrive(approval, CardKind.CALL, delivered, at_noon)
    assert core.show(next_run(approval), at_noon) == core.show(approval, at_noon) is not None
    assert core.show(core.shown(approval, approval.news), at_noon) is None


def test_older_cards_that_were_changed_while_newer_ones_followed_are_looked_at_again(at_noon: datetime) -> None:
    approval, _ = carded(at_noon)
    for message_id in ("om_1", "om_2"):
        approval = core.arrive(approval, CardKind.CALL, Delivered(message_id=message_id), at_noon)
    approval = core.decide(approval, decided(approval.plan, ANN, DecisionKind.APPROVE), at_noon)
    said = core.show(approval, at_noon)
    assert said is not None
    assert core.doubt(approval, said) == approval, "whatever it said is said again"
    passed_on = decided(approval.plan, ME, DecisionKind.DELEGATE, "e2", delegate_to=OTHER)
    approval, newer = core.send(core.decide(approval, passed_on, at_noon), at_noon)
    approval = core.doubt(approval, said)
    assert core.show(approval, at_noon) is None, "not before the newer ones are there"
    for delivery in newer:
        delivered = Delivered(message_id=f"om_newer_{delivery.place}")
        approval = core.arrive(approval, CardKind.CALL, delivered, at_noon)
    again = core.show(next_run(approval), at_noon)
    assert again is not None
    assert (again.doubts_older, again.generation) == (True, newer[0].generation)
    assert core.show(core.shown(approval, approval.news), at_noon) is None


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


def being_edited(now: datetime, *, heard_again: bool, has_cards: bool = True) -> Planned:
    """An edit is being looked at; whether for the first time, or after a reset."""
    people = Approvers(kind=Approvers.Kind.PEOPLE, people=(OTHER.within("t"),))
    plan = a_plan(now).model_copy(update={"approvers": people})
    sent = SentBefore(generation=2, message_ids=("om_1", "om_2")) if has_cards else SentBefore()
    before = sent if heard_again else None
    approval = core.open_with(Unplanned(request=policies.request(plan)), plan, now, before)
    return core.decide(approval, decided(plan, OTHER, DecisionKind.EDIT, arguments={"a": 1}), now)


@pytest.mark.parametrize("heard_again", [False, True])
def test_what_is_being_weighed_does_not_let_strangers_crowd_out_an_approver(
    at_noon: datetime, heard_again: bool
) -> None:
    approval = being_edited(at_noon, heard_again=heard_again)
    plan = approval.plan
    for n in range(100):
        said = decided(plan, STRANGER, DecisionKind.APPROVE, f"s{n}")
        of_another = said.model_copy(update={"event_id": f"o{n}", "payload_sha256": "e" * 64})
        approval = core.decide(core.decide(approval, said, at_noon), of_another, at_noon)
        assert verdict_on(approval, f"s{n}") is VerdictKind.FORBIDDEN
        assert verdict_on(approval, f"o{n}") is VerdictKind.TAMPERED
    approval = core.decide(approval, decided(plan, OTHER, DecisionKind.REJECT, "no"), at_noon)
    assert verdict_on(approval, "no") is None, "it waits"
    approval = core.withdraw(approval, Withdrawal(), at_noon)
    assert verdict_on(approval, "no") is VerdictKind.ALREADY_DECIDED


@pytest.mark.parametrize("message_id", [None, "om_2"])
@pytest.mark.parametrize("heard_again", [False, True])
def test_what_was_decided_about_an_edited_call_counts_when_it_is_heard_again(
    at_noon: datetime, heard_again: bool, message_id: str | None
) -> None:
    """Before the edit is known anew; for the first time nobody can decide about what no edit has made yet."""
    approval = being_edited(at_noon, heard_again=heard_again, has_cards=message_id is not None)
    revised = approval.plan.model_copy(update={"payload": "{}", "payload_sha256": sha256("{}"), "revision": 1})
    approval = core.decide(approval, decided(revised, OTHER, DecisionKind.REJECT, "no", message_id=message_id), at_noon)
    if not heard_again:
        assert verdict_on(approval, "no") is VerdictKind.TAMPERED
        return
    assert approval.asking is not None
    approval = core.answer(approval, approval.asking, Weighed(plan=revised), at_noon)
    assert verdict_on(approval, "no") is VerdictKind.ALREADY_DECIDED, "whoever edits it, approves it"


def test_cards_of_before_are_cards_though_nobody_is_waited_for_any_more(at_noon: datetime) -> None:
    """What was clicked on one is heard again before any was sent: it has to say that the call runs."""
    _, sent = carded(at_noon)
    plan = a_plan(at_noon).model_copy(update={"addresses": TWO_CHATS})
    early = decided(plan, plan.requester, DecisionKind.APPROVE, message_id="om_1")
    asked = core.decide(Unplanned(request=policies.request(plan)), early, at_noon)
    approval = core.open_with(asked, plan, at_noon, SentBefore(generation=1, message_ids=("om_1", "om_2")))
    assert verdict_on(approval, "e") is VerdictKind.ACCEPTED
    assert core.send(approval, at_noon)[1] == ()
    assert core.has_cards(approval)
    assert sent


def test_a_decision_that_comes_again_while_it_is_looked_at_keeps_its_verdict(at_noon: datetime) -> None:
    chat = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")
    plan = a_plan(at_noon).model_copy(update={"approvers": chat, "addresses": TWO_CHATS})
    approval, _ = core.send(opened(plan, at_noon), at_noon)
    approval = core.decide(approval, decided(plan, OTHER, DecisionKind.APPROVE, "yes"), at_noon)
    assert approval.asking is not None
    approval = core.answer(approval, approval.asking, Weighed(), at_noon)
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="f" * 64)
    approval, _ = core.report(core.begin(approval), sealed, at_noon)
    on_card = {"stage": Stage.RESULT, "message_id": "om_on_its_way"}
    release = decided(plan, OTHER, DecisionKind.APPROVE, "release", **on_card)
    release = release.model_copy(update={"payload_sha256": "f" * 64})
    approval = core.decide(core.decide(approval, release, at_noon), release, at_noon)
    assert verdict_on(approval, "release") is None
    approval = core.answer(approval, release, Weighed(), at_noon)
    assert verdict_on(approval, "release") is VerdictKind.ACCEPTED


# Passing it on until too few are left

BEN, CAM, GRACE = (Identity(open_id=f"ou_{name}", tenant_key="t") for name in ("ben", "cam", "grace"))


def people(*who: Identity, **more: Any) -> Approvers:
    return Approvers(kind=Approvers.Kind.PEOPLE, people=who, **more)


def passed_on(
    approvers: Approvers, *said: tuple[Identity, DecisionKind, Identity | None], now: datetime
) -> tuple[Planned, list[VerdictKind | None]]:
    plan = a_plan(now).model_copy(update={"approvers": approvers})
    approval = opened(plan, now)
    for n, (actor, kind, to) in enumerate(said):
        approval = core.decide(approval, decided(plan, actor, kind, f"e{n}", delegate_to=to), now)
    return approval, [verdict_on(approval, f"e{n}") for n in range(len(said))]


TO, YES = DecisionKind.DELEGATE, DecisionKind.APPROVE
COUNTS, CANNOT_BE = VerdictKind.ACCEPTED, VerdictKind.INVALID


def test_two_of_three_cannot_both_leave_it_to_the_third(at_noon: datetime) -> None:
    three = people(ANN, BEN, CAM, threshold=2)
    approval, verdicts = passed_on(three, (ANN, TO, CAM), (BEN, TO, CAM), now=at_noon)
    assert verdicts == [COUNTS, CANNOT_BE]
    judged, shown = approval.notes.verdict_on("e1"), core.state(approval).progress
    assert judged is not None
    assert "too few" in (judged.problem or "")
    assert shown is not None
    assert shown.approvers.people == (BEN, CAM)  # ANN decides no more, and is not asked


@pytest.mark.parametrize(
    ("approvers", "said", "verdicts"),
    [
        pytest.param(
            people(ANN, BEN, CAM, threshold=2),
            [(ANN, TO, CAM), (BEN, TO, GRACE)],
            [COUNTS, COUNTS],
            id="somebody else can take it",
        ),
        pytest.param(
            people(ANN, BEN, CAM, threshold=2),
            [(ANN, YES, None), (BEN, TO, CAM), (ANN, TO, CAM)],
            [COUNTS, COUNTS, CANNOT_BE],
            id="an approval counts until it is left to somebody",
        ),
        pytest.param(people(ANN, BEN, threshold=2), [(ANN, TO, BEN)], [CANNOT_BE], id="both are needed"),
        pytest.param(
            people(ANN, then=(people(GRACE),)), [(ANN, TO, GRACE)], [CANNOT_BE], id="she is needed in the next stage"
        ),
        pytest.param(
            people(ANN, then=(people(GRACE, CAM),)),
            [(ANN, TO, GRACE), (GRACE, YES, None), (CAM, YES, None)],
            [COUNTS, COUNTS, COUNTS],
            id="somebody else is there in the next stage",
        ),
        pytest.param(
            people(ANN, BEN, then=(people(CAM), people(ANN, GRACE))),
            [(ANN, TO, CAM), (BEN, TO, CAM), (BEN, TO, GRACE)],
            [COUNTS, CANNOT_BE, COUNTS],
            id="each counts once in three stages",
        ),
        pytest.param(
            Approvers(kind=Approvers.Kind.ANYONE, threshold=2), [(ANN, TO, BEN)], [COUNTS], id="anyone is always enough"
        ),
    ],
)
def test_a_decision_can_be_left_to_others_as_long_as_enough_are_left(
    approvers: Approvers,
    said: list[tuple[Identity, DecisionKind, Identity | None]],
    verdicts: list[VerdictKind],
    at_noon: datetime,
) -> None:
    assert passed_on(approvers, *said, now=at_noon)[1] == verdicts


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


# What was typed and what was pressed


@pytest.mark.parametrize("changed", [{"fields": {"amount": "12.00"}}, {"arguments": {}}])
def test_nobody_approves_a_call_as_proposed_and_changes_it_at_once(at_noon: datetime, changed: dict[str, Any]) -> None:
    plan = a_plan(at_noon)
    approval = core.decide(opened(plan, at_noon), decided(plan, ME, DecisionKind.APPROVE, **changed), at_noon)
    assert verdict_on(approval, "e") is VerdictKind.INVALID
    assert not approval.wait_is_over
    approval = core.decide(approval, decided(plan, ME, DecisionKind.APPROVE, "again"), at_noon)
    assert verdict_on(approval, "again") is VerdictKind.ACCEPTED


@pytest.mark.parametrize(
    ("surface", "queue"), [("client", "mine"), ("temporal", "mine"), ("feishu", "q"), ("http", "q"), (None, "q")]
)
def test_only_who_decides_through_a_trusted_door_says_where_the_call_is_made(
    at_noon: datetime, surface: str | None, queue: str
) -> None:
    plan = a_plan(at_noon, queue="q")
    said = {"surface": Surface(surface), "dispatch_queue": "mine"} if surface else {}
    approval = core.decide(opened(plan, at_noon), decided(plan, ME, DecisionKind.APPROVE, **said), at_noon)
    assert approval.decision is not None
    assert approval.queue == queue


def test_who_wants_to_be_asked_again_narrows_what_others_say(at_noon: datetime) -> None:
    once = Permission(execution=Execution.ASK_ONCE)
    plan = a_plan(at_noon, permission=once, remember_for=timedelta(days=1)).model_copy(
        update={"approvers": people(ME, BEN, threshold=2)}
    )
    for first, second, is_remembered in ((True, True, True), (False, True, False), (True, False, False)):
        approval = opened(plan, at_noon)
        for number, (actor, persists) in enumerate(((ME, first), (BEN, second))):
            made = decided(plan, actor, DecisionKind.APPROVE, f"e{number}", persist_decision=persists)
            approval = core.decide(approval, made, at_noon)
        assert (core.to_remember(approval, at_noon) is not None) is is_remembered
    approval = core.decide(
        opened(plan, at_noon), decided(plan, ME, DecisionKind.REJECT, persist_decision=False), at_noon
    )
    assert core.to_remember(approval, at_noon) is None


# Whoever is needed later


def test_nobody_approves_who_alone_can_approve_later(at_noon: datetime) -> None:
    later = Approvers(kind=Approvers.Kind.PEOPLE, people=(ADA,))
    first = Approvers(kind=Approvers.Kind.PEOPLE, people=(ADA, OTHER), then=(later,))
    plan = a_plan(at_noon)
    plan = plan.model_copy(update={"approvers": first.within(plan.tenant_key), "keeps_later_stages": True})
    approval = core.decide(opened(plan, at_noon), decided(plan, ADA, DecisionKind.APPROVE), at_noon)
    assert (verdict_on(approval, "e"), approval.panel.stage) == (VerdictKind.INVALID, 0)
    approval = core.decide(approval, decided(plan, OTHER, DecisionKind.APPROVE, "f"), at_noon)
    approval = core.decide(approval, decided(plan, ADA, DecisionKind.APPROVE, "g"), at_noon)
    assert approval.panel.is_complete(plan)


def test_an_edit_of_somebody_who_is_needed_later_is_not_their_approval(at_noon: datetime) -> None:
    later = Approvers(kind=Approvers.Kind.PEOPLE, people=(ADA,))
    first = Approvers(kind=Approvers.Kind.PEOPLE, people=(ADA, OTHER), then=(later,))
    plan = a_plan(at_noon)
    plan = plan.model_copy(update={"approvers": first.within(plan.tenant_key), "keeps_later_stages": True})
    edit = decided(plan, ADA, DecisionKind.EDIT, arguments={"a": 1})
    approval = core.decide(opened(plan, at_noon), edit, at_noon)
    approval = core.answer(approval, edit, Weighed(plan=plan), at_noon)
    assert (verdict_on(approval, "e"), approval.panel.stage) == (VerdictKind.ACCEPTED, 0)
    assert not approval.panel.has_approved(ADA)


# A card that is shared with others does not come


@pytest.mark.parametrize("happened", ["it is told so", "there is no bundle"])
@pytest.mark.parametrize("waits_for_no_chat", [True, False])
def test_cards_of_its_own_are_due_at_once_where_no_shared_one_comes(
    at_noon: datetime, happened: str, waits_for_no_chat: bool
) -> None:
    """Also to whoever last looked at the clock before it was said; approvals of before waited for the next look."""
    more = {"addresses": TWO_CHATS, "bundle_id": "b", "waits_for_no_chat": waits_for_no_chat}
    approval = opened(a_plan(at_noon).model_copy(update=more), at_noon)
    assert core.send(approval, at_noon)[1] == ()
    later = at_noon + timedelta(seconds=7)
    if happened == "it is told so":
        approval = core.take_card(approval, Carded(), later)
    else:
        approval = core.lose_bundle(approval, later)
    assert core.is_behind(approval, at_noon) is waits_for_no_chat
    assert bool(core.send(approval, at_noon)[1]) is waits_for_no_chat
    assert core.send(approval, later)[1]


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_after_a_reset_the_first_cards_are_sent_again_and_newer_ones_are_followed(
    at_noon: datetime, generation: int
) -> None:
    """Newer ones may be about what an edit made of the call, which nobody may have changed any more."""
    plan = a_plan(at_noon).model_copy(update={"addresses": TWO_CHATS})
    before = SentBefore(generation=generation, message_ids=("om_1", "om_2"))
    approval = core.open_with(Unplanned(request=policies.request(plan)), plan, at_noon, before)
    assert {each.generation for each in core.send(approval, at_noon)[1]} == {1 if generation == 1 else generation + 1}
    assert core.first_cards(policies.request(plan), plan, at_noon, before) == core.send(approval, at_noon)[1]
