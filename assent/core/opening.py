"""How an approval gets its plan; or ends without one."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.audit import AuditEvent
from assent.contracts.decision import DecisionKind
from assent.contracts.deliver import Delivery
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.prepare import SentBefore
from assent.contracts.request import Request
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.core.approval import Ending, Interruption, Planned, Unplanned
from assent.core.cards import Cards, newest
from assent.core.deciding import end, look_again
from assent.core.delivering import hold_for_bundle, send, take_card
from assent.core.keeping import note


def open_with(approval: Unplanned, plan: Plan, now: datetime, sent_before: SentBefore | None = None) -> Planned:
    """From here on the plan can be decided; what came too early is judged first."""
    opened = Planned(plan=plan, opened_at=now, notes=approval.notes, ending=approval.ending, early=approval.early)
    opened = _with_cards_of_before(opened, sent_before) if sent_before else opened
    opened = _unasked(opened, now) if opened.ending is None else opened
    is_asked = bool(plan.addresses) and not opened.needs_nobody
    opened = opened.model_copy(update={"expects_cards": is_asked})
    opened = hold_for_bundle(opened, now)
    if approval.carded is not None:
        opened = take_card(opened, approval.carded, now)
    return look_again(opened, now)


def _with_cards_of_before(approval: Planned, sent_before: SentBefore) -> Planned:
    """What was clicked on its cards counts. The first ones are sent again, as they were; newer ones may show a call
    that an edit made, or another stage: others follow them."""
    cards = Cards(
        generation=sent_before.generation,
        message_ids=newest(sent_before.message_ids),
        was_interrupted=sent_before.generation == 1,
    )
    known = {"cards": cards, "other_messages": newest(sent_before.others), "is_heard_again": True}
    return approval.model_copy(update=known)


def _unasked(approval: Planned, now: datetime) -> Planned:
    """What the policy or a remembered decision says before anybody is asked."""
    plan, grant = approval.plan, approval.plan.grant
    if plan.denied is not None:
        denied = Interruption(status=Status.REJECTED, event=AuditEvent.DENY, reason=plan.denied, surface=Surface.POLICY)
        return end(approval, denied, now)
    if grant is None:
        return approval
    if grant.decision is DecisionKind.REJECT:
        rejected = Interruption(
            status=Status.REJECTED,
            event=AuditEvent.GRANT,
            reason=grant.reason,
            by=grant.granted_by,
            grant_id=grant.grant_id,
        )
        return end(approval, rejected, now)
    return note(approval, AuditEvent.GRANT, now, once="grant", grant_id=grant.grant_id, actor=grant.granted_by)


def is_untouched(approval: Unplanned) -> bool:
    """Whether nothing was said of it so far that its first cards depend on."""
    return approval.ending is None and not approval.early and approval.carded is None


def first_cards(
    request: Request, plan: Plan, now: datetime, sent_before: SentBefore | None = None
) -> tuple[Delivery, ...]:
    """The cards that may go out as soon as the plan is stored, of an approval that is untouched.

    Where it takes the place of others, they are told first.
    """
    if plan.supersedes:
        return ()
    return send(open_with(Unplanned(request=request), plan, now, sent_before), now)[1]


def resume(approval: Planned) -> Planned:
    """As a new run takes it over from a former one."""
    result = approval.result
    if result is not None:
        result = result.model_copy(update={"cards": result.cards.resumed()})
    return approval.model_copy(update={"cards": approval.cards.resumed(), "result": result})


def refuse(approval: Unplanned, why: str | None, now: datetime) -> Unplanned:
    """The request could never run: nobody is asked."""
    if approval.ending is not None:
        return approval
    approval = note(approval, AuditEvent.EXECUTE_FAILED, now, once="execute_failed:unasked", error=why)
    return approval.model_copy(update={"ending": Ending(status=Status.FAILED, reason=why)})


def end_as_before(approval: Unplanned, plan: Plan | None, outcome: Outcome, now: datetime) -> Unplanned | Planned:
    """The ledger already knows how this request ended: nobody is asked again."""
    ending = Ending(status=outcome.status, reason=outcome.reason, by=outcome.decided_by)
    if plan is None:
        return approval.model_copy(update={"ending": ending, "is_recorded": True, "is_closed": True})
    return Planned(plan=plan, opened_at=now, phase=Phase.CLOSED, ending=ending, is_recorded=True, notes=approval.notes)


def turn_away(approval: Unplanned) -> Unplanned:
    """The request was refused before it became an approval."""
    return approval.model_copy(update={"is_closed": True})
