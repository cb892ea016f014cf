"""What becomes of a decision: functions from an approval, something that happened and the time to the approval then."""

from __future__ import annotations

from datetime import datetime

from assent import reasons, sizes
from assent.contracts.audit import AuditEvent
from assent.contracts.decision import Decision, DecisionKind, Stage, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.signals import Supersession, Withdrawal
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.contracts.weigh import Weighed
from assent.core.approval import Approval, Ending, Interruption, Planned
from assent.core.judging import after_ending, audit_entry, objection
from assent.core.keeping import (
    actor_of,
    add_entry,
    confirm,
    confirm_edit,
    note,
    received_at,
    refuse,
    remember,
    size_of_edit,
)

_MOST_EARLY = 100
"""How many decisions wait for what they are judged by; nobody needs more than one."""
_MOST_EDITS, _MOST_DELEGATIONS = 100, 50
_TOO_LARGE = f"a decision may hold at most {sizes.DECISION} bytes and some depth, including an edit's arguments"
_TOO_MANY = "other decisions are being checked, and no more can wait behind them: decide again in a moment"
_NO_ROOM = "the ledger is out of reach, and too much is already waiting to be recorded: decide again in a while"
_TOO_OFTEN = f"its arguments were changed {_MOST_EDITS} times: have it proposed anew"
_OUTSIDE = "it can be left only to somebody of this company: leave tenant_key out"
_PASSED_ON = f"it was left to others {_MOST_DELEGATIONS} times: somebody has to decide it"
_CALLS_IN = "name somebody else to leave it to: neither yourself nor the person who asked for the call"
_NOTHING_TO_EDIT = "there is nothing to edit in a result"


# A decision arrives


def decide(approval: Approval, decision: Decision, now: datetime) -> Approval:
    """Judge a decision, or keep it until it is known what it is judged by."""
    if approval.notes.verdict_on(decision.event_id) is not None:
        return approval
    if sizes.size(decision) > sizes.DECISION or sizes.is_too_deep(decision):
        return refuse(approval, decision, VerdictKind.INVALID, now, _TOO_LARGE)
    if isinstance(approval, Planned):
        return _decide_planned(approval, decision, now)
    if _may_wait(approval.early, decision):
        return approval.model_copy(update={"early": (*approval.early, decision)})
    return refuse(approval, decision, VerdictKind.INVALID, now, _TOO_MANY)


def _decide_planned(approval: Planned, decision: Decision, now: datetime) -> Planned:
    is_unknown = decision.message_id is not None and decision.message_id not in approval.messages
    is_early = is_unknown and approval.expects_cards and not approval.wait_is_over
    asking = approval.asking
    if asking is not None and asking.event_id == decision.event_id:
        return approval  # it is being looked at
    if asking is not None and not is_early and (hopeless := _hopeless(approval, decision)):
        return refuse(approval, decision, hopeless, now)
    if (is_early or asking is not None) and _may_wait((*approval.early, *([asking] if asking else [])), decision):
        return approval.model_copy(update={"early": (*approval.early, decision)})
    if asking is None:
        return _judge(approval, decision, now)
    return refuse(approval, decision, VerdictKind.INVALID, now, _TOO_MANY)


def _may_wait(waiting: tuple[Decision, ...], decision: Decision) -> bool:
    """Whether there is room for one more that waits for what it is judged by."""
    return len(waiting) < _MOST_EARLY and sizes.total(waiting) + sizes.size(decision) <= sizes.WAITING


def look_again(approval: Planned, now: datetime) -> Planned:
    """Judge what waited, as far as it can be by now."""
    early, approval = approval.early, approval.model_copy(update={"early": ()})
    for decision in early:
        approval = decide(approval, decision, now)
    return approval


# Judging


def _hopeless(approval: Planned, decision: Decision) -> VerdictKind | None:
    """Why a decision cannot count whatever becomes of the one before it: strangers crowd out nobody."""
    plan = approval.plan
    may_decide = approval.panel.releasers(plan).include(actor_of(plan, decision))
    verdict = objection(
        plan,
        decision,
        _messages(approval, decision),
        may_decide=may_decide,
        result_sha256=approval.result.content_sha256 if approval.result else None,
    )
    if verdict is VerdictKind.TAMPERED and may_decide and _may_be_of_the_edit(approval, decision):
        return None
    return verdict if verdict in (VerdictKind.TAMPERED, VerdictKind.FORBIDDEN) else None


def _may_be_of_the_edit(approval: Planned, decision: Decision) -> bool:
    """Whether it is about what the edit that is being looked at, once more, made of the call."""
    is_edited = approval.asking is not None and approval.asking.kind is DecisionKind.EDIT
    is_ours = decision.message_id is None or decision.message_id in approval.messages
    return approval.is_heard_again and is_edited and is_ours and decision.stage is Stage.CALL


def _messages(approval: Planned, decision: Decision) -> frozenset[str]:
    """The messages of its cards. Once it is over, a click on one that was never confirmed is late, not forged."""
    unconfirmed = {decision.message_id} if approval.expects_cards and decision.message_id else set[str]()
    return approval.messages | unconfirmed


def _judge(approval: Planned, decision: Decision, now: datetime) -> Planned:
    plan, panel = approval.plan, approval.panel
    actor = actor_of(plan, decision)
    is_late = decision.stage is Stage.RESULT or approval.wait_is_over
    verdict = objection(
        plan,
        decision,
        _messages(approval, decision),
        may_decide=(panel.releasers(plan) if is_late else panel.deciders(plan)).include(actor),
        result_sha256=approval.result.content_sha256 if approval.result else None,
    )
    verdict = verdict or _too_late(approval, decision, now) or _pointless(approval, decision, actor)
    if verdict is not None:
        return refuse(approval, decision, verdict, now)
    if problem := _problem(approval, decision, actor) or _crowded(approval, decision):
        return refuse(approval, decision, VerdictKind.INVALID, now, problem)
    if _must_ask(approval, decision, actor):
        return approval.model_copy(update={"asking": decision})
    return _accept(approval, decision, actor, None, now)


def _too_late(approval: Planned, decision: Decision, now: datetime) -> VerdictKind | None:
    received = received_at(approval, decision, now)
    if decision.stage is Stage.RESULT:
        if approval.result is None:
            return VerdictKind.TAMPERED
        if approval.result.decision is not None:
            return VerdictKind.ALREADY_DECIDED
        is_late = approval.result.is_over or received > approval.result.deadline
        return VerdictKind.EXPIRED if is_late else None
    if approval.ending is not None:
        return after_ending(approval.ending.status)
    if approval.decision is not None or approval.plan.asks_nobody:
        return VerdictKind.ALREADY_DECIDED
    return VerdictKind.EXPIRED if received > approval.plan.deadline else None


def _pointless(approval: Planned, decision: Decision, actor: Identity) -> VerdictKind | None:
    """One person counts once."""
    if decision.stage is Stage.RESULT:
        return None
    panel = approval.panel
    match decision.kind:
        case DecisionKind.APPROVE:
            again = panel.has_approved(actor)
        case DecisionKind.REJECT:
            again = panel.has_rejected(actor)
        case DecisionKind.DELEGATE:
            again = panel.has_passed(actor)
        case DecisionKind.EDIT:
            again = False
    return VerdictKind.ALREADY_DECIDED if again else None


def _problem(approval: Planned, decision: Decision, actor: Identity) -> str | None:
    """Why what the decision asks for cannot be."""
    plan, panel = approval.plan, approval.panel
    if decision.kind is DecisionKind.EDIT:
        too_often = _TOO_OFTEN if plan.revision >= _MOST_EDITS else None
        return _NOTHING_TO_EDIT if decision.stage is Stage.RESULT else too_often
    if decision.kind is DecisionKind.APPROVE and (decision.fields or decision.arguments is not None):
        return reasons.CHANGED()
    if decision.kind is DecisionKind.APPROVE and decision.stage is Stage.CALL:
        return reasons.NEEDED_LATER() if panel.is_needed_later(plan, decision, actor) else None
    if decision.kind is not DecisionKind.DELEGATE:
        return None
    if len(panel.delegations) >= _MOST_DELEGATIONS:
        return _PASSED_ON
    if decision.delegate_to is not None and decision.delegate_to.is_outside(plan.tenant_key):
        return _OUTSIDE
    to = decision.delegate_to.within(plan.tenant_key) if decision.delegate_to else None
    if to is None or decision.stage is Stage.RESULT or to.is_same_person(actor):
        return _CALLS_IN
    is_excluded = panel.group(plan).exclude_requester and to.may_be(plan.requester)
    if panel.has_approved(to) or is_excluded:
        return _CALLS_IN
    return None if panel.delegate(actor, to).can_still_pass(plan) else reasons.TOO_FEW()


def _crowded(approval: Planned, decision: Decision) -> str | None:
    """Why a decision cannot count though it is right: what it says could not be recorded any more."""
    return None if approval.notes.has_room(sizes.size(decision)) else _NO_ROOM


def _must_ask(approval: Planned, decision: Decision, actor: Identity) -> bool:
    """Whether somebody outside must be asked first: does this person belong to the chat? would these arguments do?"""
    plan, panel = approval.plan, approval.panel
    if decision.stage is Stage.RESULT:
        return bool(panel.releasers(plan).chats_to_ask(actor))
    return decision.kind is DecisionKind.EDIT or panel.must_belong(plan, actor)


def answer(approval: Planned, asked: Decision, answered: Weighed, now: datetime) -> Planned:
    """What was asked outside about a decision is known; unless the approval has ended meanwhile, it is judged by it."""
    if approval.asking is None or approval.asking.event_id != asked.event_id:
        return approval
    approval = approval.model_copy(update={"asking": None})
    actor = actor_of(approval.plan, asked)
    room = approval.notes.has_room
    if approval.ending is not None and asked.stage is Stage.CALL:
        approval = refuse(approval, asked, after_ending(approval.ending.status), now)
    elif answered.outsiders:
        approval = refuse(approval, asked, VerdictKind.FORBIDDEN, now)
    elif answered.invalid is not None:
        approval = refuse(approval, asked, VerdictKind.INVALID, now, answered.invalid)
    elif asked.kind is DecisionKind.DELEGATE and (problem := _problem(approval, asked, actor)):
        approval = refuse(approval, asked, VerdictKind.INVALID, now, problem)
    elif answered.plan is not None and not room(size_of_edit(answered.plan)):
        approval = refuse(approval, asked, VerdictKind.INVALID, now, _NO_ROOM)
    else:
        approval = _accept(approval, asked, actor, answered.plan, now)
    return look_again(approval, now)


# What counts


def _accept(approval: Planned, decision: Decision, actor: Identity, revised: Plan | None, now: datetime) -> Planned:
    approval = remember(approval, decision, VerdictKind.ACCEPTED, now).model_copy(update={"is_indexed": False})
    if decision.stage is Stage.RESULT:
        return _decide_result(approval, decision)
    match decision.kind:
        case DecisionKind.APPROVE:
            return _approve(confirm(approval, decision, now), decision, actor)
        case DecisionKind.REJECT:
            return _reject(confirm(approval, decision, now), decision, actor)
        case DecisionKind.EDIT:
            return _edit(approval, decision, actor, revised or approval.plan, now)
        case DecisionKind.DELEGATE:
            return _delegate(approval, decision, actor, now)


def _approve(approval: Planned, decision: Decision, actor: Identity) -> Planned:
    panel = approval.panel.approve(approval.plan, decision, actor)
    return _counted(approval.model_copy(update={"panel": panel}), decision, approval.panel.stage)


def _counted(approval: Planned, decision: Decision, former_stage: int) -> Planned:
    """An approval was counted: it is enough, or begins another stage, or is news for the cards."""
    if approval.panel.is_complete(approval.plan):
        approval = approval.model_copy(update={"decision": _without_arguments(decision)})
    elif approval.panel.stage != former_stage:
        approval = renew(approval)
    return tell(approval)


def _reject(approval: Planned, decision: Decision, actor: Identity) -> Planned:
    panel = approval.panel.reject(approval.plan, decision, actor)
    went_back = panel.stage != approval.panel.stage
    approval = approval.model_copy(update={"panel": panel})
    if panel.is_rejected(approval.plan):
        ending = Ending(status=Status.REJECTED, reason=decision.reason, by=decision.actor)
        approval = approval.model_copy(update={"decision": _without_arguments(decision), "ending": ending})
    elif went_back:
        approval = renew(approval)
    return tell(approval)


def _edit(approval: Planned, decision: Decision, actor: Identity, revised: Plan, now: datetime) -> Planned:
    """The plan becomes another one, which whoever edited it approves, if they may."""
    former, stage = approval.plan, approval.panel.stage
    asked = approval.panel.deciders(former).chats_to_ask(actor)
    approval = confirm_edit(approval, decision, revised, now)
    approval = approval.model_copy(update={"plan": revised, "panel": approval.panel.revised(former, revised)})
    if revised.denied is not None:
        denied = Interruption(
            status=Status.REJECTED, event=AuditEvent.DENY, reason=revised.denied, surface=Surface.POLICY
        )
        return end(approval, denied, now)
    deciders = approval.panel.deciders(revised)
    is_known = set(deciders.chats_to_ask(actor)) <= set(asked)  # else nobody has asked whether they belong there
    counts = deciders.include(actor) and not approval.panel.is_needed_later(revised, decision, actor)
    if stage == 0 and is_known and counts:
        panel = approval.panel.approve(revised, decision, actor)
        approval = approval.model_copy(update={"panel": panel})
    return _counted(renew(approval), decision, stage)


def _delegate(approval: Planned, decision: Decision, actor: Identity, now: datetime) -> Planned:
    to = (decision.delegate_to or actor).within(approval.plan.tenant_key)
    approval = approval.model_copy(update={"panel": approval.panel.delegate(actor, to)})
    entry = audit_entry(AuditEvent.DELEGATE, decision, now).model_copy(update={"delegate_to": to})
    return renew(add_entry(approval, entry))


def _without_arguments(decision: Decision) -> Decision:
    """What is kept of a decision that stands: what it changed is in the plan."""
    return decision.model_copy(update={"arguments": None, "fields": None})


def _decide_result(approval: Planned, decision: Decision) -> Planned:
    if approval.result is None:
        return approval
    return approval.model_copy(
        update={"result": approval.result.model_copy(update={"decision": _without_arguments(decision)})}
    )


def strike(approval: Planned, outsiders: tuple[Identity, ...], now: datetime) -> Planned:
    """Approvals of people who have left the chat since do not count: it is to be decided anew."""
    for person in outsiders:
        once = f"strike:{person}:{approval.renewal}"  # each strike renews the cards
        approval = note(approval, AuditEvent.FORBID, now, once=once, actor=person)
    put_off = approval.put_off
    approval = approval.model_copy(
        update={"panel": approval.panel.strike(outsiders), "decision": None, "put_off": None, "is_indexed": False}
    )
    return interrupt(approval, put_off, now) if put_off else renew(approval)


def renew(approval: Planned, *, is_reminding: bool = False) -> Planned:
    """The cards become others."""
    return approval.model_copy(update={"renewal": approval.renewal + 1, "is_reminding": is_reminding})


def tell(approval: Planned) -> Planned:
    """The cards have something new to say."""
    return approval.model_copy(update={"news": approval.news + 1})


# Endings without a decision


def withdraw(approval: Approval, withdrawal: Withdrawal, now: datetime) -> Approval:
    """Somebody takes the request back, or the policy does."""
    denied = withdrawal.surface is Surface.POLICY
    interruption = Interruption(
        status=Status.REJECTED if denied else Status.CANCELLED,
        event=AuditEvent.DENY if denied else AuditEvent.CANCEL,
        reason=withdrawal.reason,
        by=withdrawal.actor,
        actor=withdrawal.actor,
        surface=withdrawal.surface,
    )
    return interrupt(approval, interruption, now)


def supersede(approval: Approval, newer: Supersession, now: datetime) -> Approval:
    """A newer request takes its place."""
    reason = f"replaced by {newer.by}"
    return interrupt(approval, Interruption(status=Status.SUPERSEDED, event=AuditEvent.SUPERSEDE, reason=reason), now)


def expire(approval: Approval, now: datetime, why: str | None = None) -> Approval:
    """Nobody decided in time, or nobody could say in time what the decision rests on."""
    interruption = Interruption(status=Status.EXPIRED, event=AuditEvent.EXPIRE, reason=why)
    if isinstance(approval, Planned):
        return end(approval.model_copy(update={"decision": None}), interruption, now)
    return end(approval, interruption, now)


def interrupt(approval: Approval, interruption: Interruption, now: datetime) -> Approval:
    """End it, unless somebody has decided; if that decision is struck, it ends then."""
    if approval.ending is not None:
        return approval
    if isinstance(approval, Planned):
        if approval.is_begun:
            return approval
        if approval.decision is not None:
            return approval.model_copy(update={"put_off": approval.put_off or interruption})
    return end(approval, interruption, now)


def end(approval: Approval, interruption: Interruption, now: datetime) -> Approval:
    """End it without a decision: whatever waits to be judged is too late."""
    ending = Ending(status=interruption.status, reason=interruption.reason, by=interruption.by)
    approval = approval.model_copy(update={"ending": ending})
    approval = note(
        approval,
        interruption.event,
        now,
        once=str(interruption.event),
        reason=interruption.reason,
        actor=interruption.actor,
        surface=interruption.surface,
        grant_id=interruption.grant_id,
    )
    if not isinstance(approval, Planned):
        return approval
    if approval.asking is not None:
        asked, approval = approval.asking, approval.model_copy(update={"asking": None})
        approval = refuse_late(approval, asked, now)
    return look_again(approval, now)


def refuse_late(approval: Planned, asked: Decision, now: datetime) -> Planned:
    """Nobody could say in time whether a decision counts."""
    is_call = asked.stage is Stage.CALL and approval.ending is not None
    verdict = after_ending(approval.ending.status) if is_call and approval.ending else VerdictKind.EXPIRED
    return refuse(approval, asked, verdict, now)
