"""Which cards are due, and what becomes of those that were sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from assent.contracts.audit import AuditEvent
from assent.contracts.bundles import Carded
from assent.contracts.deliver import CardKind, Delivered, Delivery, Revision
from assent.contracts.status import Status
from assent.core.approval import Approval, Interruption, Planned
from assent.core.cards import Cards, newest
from assent.core.deciding import end, look_again, renew, tell
from assent.core.keeping import note

_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
HELD_FOR = timedelta(seconds=20)
"""How long cards are held back for one that is shared with others."""


# What is due


def send(approval: Planned, now: datetime) -> tuple[Planned, tuple[Delivery, ...]]:
    """The cards that are to be sent now: never sent yet, left half sent, become others, or grown too old."""
    plan, cards = approval.plan, _open_cards(approval)
    if approval.result is None and (plan.asks_nobody or approval.wait_is_over):
        return approval, ()
    if not plan.addresses or cards.are_awaited or now < cards.due_at(now, approval.renewal):
        return approval, ()
    addresses = approval.panel.addresses(plan) if approval.result is None else approval.panel.private_addresses(plan)
    cards = cards.sending(len(addresses), approval.renewal, approval.news, looks_back=plan.is_shown_in_turn)
    approval = _with_open_cards(approval, cards).model_copy(update={"expects_cards": True})
    deliveries = tuple(
        Delivery(
            approval_id=plan.approval_id,
            place=place,
            generation=cards.generation,
            kind=_kind(approval),
            address=address,
            progress=approval.progress,
            payload_sha256=plan.payload_sha256,
            reminder=approval.is_reminding,
            deadline=approval.result.deadline if approval.result else None,
        )
        for place, address in enumerate(addresses)
    )
    return approval, deliveries


def is_behind(approval: Planned, now: datetime) -> bool:
    """Whether its cards do not show how it stands."""
    return bool(approval.plan.addresses) and _open_cards(approval).lag(now, approval.renewal, approval.news)


def show(approval: Planned, now: datetime) -> Revision | None:
    """What the cards that are there are to say of how far the approvers have come."""
    plan, cards = approval.plan, _open_cards(approval)
    if not is_behind(approval, now) or cards.renewal != approval.renewal:
        return None
    return Revision(
        approval_id=plan.approval_id,
        progress=approval.progress,
        payload_sha256=plan.payload_sha256,
        generation=cards.generation,
        doubts_older=cards.is_doubted,
    )


def shown(approval: Planned, news: int) -> Planned:
    """Its cards say this."""
    cards = _open_cards(approval)
    return _with_open_cards(approval, cards.model_copy(update={"news": max(cards.news, news), "is_doubted": False}))


def doubt(approval: Planned, revision: Revision) -> Planned:
    """Nobody knows whether the cards say this, and newer ones may have taken the place of some meanwhile."""
    cards = _open_cards(approval)
    if cards.generation == revision.generation:
        return approval
    return _with_open_cards(approval, cards.model_copy(update={"is_doubted": True}))


def call_others(approval: Planned, now: datetime) -> Planned:
    """Remind those who may decide, or call in others, where the time for it has come."""
    plan, panel = approval.plan, approval.panel
    if approval.result is not None:
        return approval
    if plan.remind_at and not panel.reminded and now >= plan.remind_at:
        approval = note(approval, AuditEvent.REMIND, now, once="remind")
        approval = approval.model_copy(update={"panel": panel.model_copy(update={"reminded": True})})
        approval = renew(approval, is_reminding=True)
    panel = approval.panel
    if plan.escalate_at and not panel.escalated and now >= plan.escalate_at:
        approval = note(approval, AuditEvent.ESCALATE, now, once="escalate")
        panel = panel.model_copy(update={"escalated": True})
        approval = approval.model_copy(update={"panel": panel, "is_indexed": False})
        approval = renew(approval, is_reminding=True)
    return approval


def ends_at(approval: Planned) -> datetime:
    """When nobody is waited for any more: a moment after the deadline, so that what was decided in time may arrive."""
    deadline = approval.result.deadline if approval.result else approval.plan.deadline
    return deadline + approval.plan.grace


def wakes_at(approval: Planned, now: datetime) -> datetime:
    """When something is due next, if nothing happens before."""
    plan, panel = approval.plan, approval.panel
    moments = [ends_at(approval)]
    if approval.result is None:
        moments += [plan.remind_at] if plan.remind_at and not panel.reminded else []
        moments += [plan.escalate_at] if plan.escalate_at and not panel.escalated else []
    if plan.addresses:
        moments.append(_open_cards(approval).due_at(now, approval.renewal))
    return min(moments)


# What became of them


def pass_by(approval: Planned, delivery: Delivery, now: datetime) -> Planned:
    """One card was not taken at once: nothing waits for it any more."""
    cards = _cards_of(approval, delivery.kind)
    if not approval.plan.waits_for_no_chat or cards.generation != delivery.generation:
        return approval
    return _with_cards(approval, delivery.kind, cards.slowed(delivery.place, now))


def land(approval: Planned, delivery: Delivery, delivered: Delivered, now: datetime) -> Planned:
    """What became of one card that was sent is known, be it late, or when newer ones have taken its place."""
    kind, cards = delivery.kind, _cards_of(approval, delivery.kind)
    if cards.generation != delivery.generation:
        approval = _with_cards(approval, kind, cards.arrived_late(delivered.message_id))
        approval = tell(approval) if delivered.message_id else approval  # what is being shown has passed it by
        return look_again(_expecting(approval, kind), now)
    if delivery.place in cards.slow and delivery.progress != approval.progress:
        approval = tell(approval)  # it was drawn before
    approval = arrive(approval, kind, delivered, now)
    return _with_cards(approval, kind, _cards_of(approval, kind).caught_up(delivery.place))


def arrive(approval: Planned, kind: CardKind, delivered: Delivered, now: datetime) -> Planned:
    """One card is there, or never will be; a click on it may have come before."""
    refused = delivered.refused[:500] if delivered.refused else None
    leaves_older = delivered.leaves_older and approval.plan.is_shown_in_turn
    cards = _cards_of(approval, kind).arrived(delivered.message_id, refused, now, leaves_older=leaves_older)
    others = newest((*approval.other_messages, *delivered.shared))
    approval = _with_cards(approval, kind, cards).model_copy(update={"other_messages": others})
    approval = _expecting(approval, kind)
    if cards.refused is not None and approval.shared is None and not approval.wait_is_over:
        why = f"the card could not be delivered: {cards.refused}"
        return end(approval, Interruption(status=Status.CANCELLED, event=AuditEvent.CANCEL, reason=why), now)
    return look_again(approval, now)


def _expecting(approval: Planned, kind: CardKind) -> Planned:
    """Whether cards still are on their way, after one of them came."""
    cards = _open_cards(approval) if approval.plan.waits_for_no_chat else _cards_of(approval, kind)
    return approval.model_copy(update={"expects_cards": approval.expects_cards and cards.are_expected})


def is_missing(approval: Planned) -> bool:
    """Whether no card could be delivered so far."""
    return approval.cards.is_missing and approval.shared is None


# A card that is shared with the calls that were asked for together with this one


def hold_for_bundle(approval: Planned, now: datetime) -> Planned:
    """Where a shared card may come, cards of its own are held back for a moment."""
    plan = approval.plan
    if plan.bundle_id is None or not plan.addresses or approval.needs_nobody or approval.shared is not None:
        return approval
    return _with_cards(approval, CardKind.CALL, approval.cards.model_copy(update={"held_until": now + HELD_FOR}))


def take_card(approval: Approval, card: Carded, now: datetime) -> Approval:
    """Its bundle has a card on which it can be decided; or it has none, and sends its own."""
    if not isinstance(approval, Planned):
        return approval.model_copy(update={"carded": card})
    if card.message_ids:
        approval = approval.model_copy(update={"shared": card})
    cards = approval.cards
    if cards.held_until is not None:  # else cards of its own are there, or on their way
        if card.message_ids:
            held_no_more = cards.model_copy(update={"held_until": None, "sent_at": now})
        else:
            held_no_more = _released(approval, now)
        approval = _with_cards(approval, CardKind.CALL, held_no_more)
        approval = approval.model_copy(update={"expects_cards": not card.message_ids})
    return look_again(approval, now)


def lose_bundle(approval: Planned, now: datetime) -> Planned:
    """There is no bundle to speak to: cards of its own are held back no longer."""
    if approval.cards.held_until is None:
        return approval
    return _with_cards(approval, CardKind.CALL, _released(approval, now))


def _released(approval: Planned, now: datetime) -> Cards:
    """They are due at once; those that were planned before that was so, at the next look at the clock."""
    until = _LONG_AGO if approval.plan.waits_for_no_chat else now
    return approval.cards.model_copy(update={"held_until": until})


# Cards of the call, and of its result


def _kind(approval: Planned) -> CardKind:
    return CardKind.CALL if approval.result is None else CardKind.RESULT


def _open_cards(approval: Planned) -> Cards:
    """The cards of what is decided about now."""
    return _cards_of(approval, _kind(approval))


def _with_open_cards(approval: Planned, cards: Cards) -> Planned:
    return _with_cards(approval, _kind(approval), cards)


def _cards_of(approval: Planned, kind: CardKind) -> Cards:
    return approval.result.cards if kind is CardKind.RESULT and approval.result else approval.cards


def _with_cards(approval: Planned, kind: CardKind, cards: Cards) -> Planned:
    if kind is CardKind.RESULT and approval.result:
        return approval.model_copy(update={"result": approval.result.model_copy(update={"cards": cards})})
    return approval.model_copy(update={"cards": cards})


def has_changed(before: Planned, after: Planned) -> bool:
    """Whether something happened that people should see."""
    return (before.renewal, before.news) != (after.renewal, after.news)


def has_cards(approval: Planned) -> bool:
    """Whether a card of what is decided about now is there."""
    return bool(_open_cards(approval).message_ids)


def are_awaited(approval: Planned) -> bool:
    return _open_cards(approval).are_awaited
