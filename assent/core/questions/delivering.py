"""Which cards are due, and what becomes of those that were sent."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.answers import QuestionStatus
from assent.contracts.asking import QuestionDelivery
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.deliver import Delivered
from assent.core.questions.answering import end, look_again
from assent.core.questions.standing import Ending, Opened


def is_due(question: Opened) -> bool:
    """Whether cards are to be sent: never sent yet, left half sent, or become others since."""
    cards = question.cards
    if not question.plan.addresses or question.ending is not None or cards.on_their_way:
        return False
    return cards.sent_at is None or cards.due_at(cards.sent_at, question.renewal) <= cards.sent_at


def send(question: Opened, *, aged: bool = False) -> tuple[Opened, tuple[QuestionDelivery, ...]]:
    """The cards that are to be sent now.

    aged: whether those that are there have grown too old.
    """
    if not is_due(question) and not (aged and question.ending is None and not question.cards.on_their_way):
        return question, ()
    plan = question.plan
    cards = question.cards.sending(len(plan.addresses), question.renewal, 0)
    deliveries = tuple(
        QuestionDelivery(
            question_id=plan.question_id,
            place=place,
            generation=cards.generation,
            address=address,
            reminder=question.was_reminded,
        )
        for place, address in enumerate(plan.addresses)
    )
    return question.model_copy(update={"cards": cards, "expects_cards": True}), deliveries


def arrive(question: Opened, delivered: Delivered, now: datetime) -> Opened:
    """One card is there, or never will be; a click on it may have come before."""
    refused = delivered.refused[:500] if delivered.refused else None
    cards = question.cards.arrived(delivered.message_id, refused, now)
    question = question.model_copy(update={"cards": cards})
    if not cards.on_their_way:
        question = question.model_copy(update={"expects_cards": False})
    if cards.refused is not None and question.ending is None:
        why = f"the card could not be delivered: {cards.refused}"
        entry = AuditEntry(event=AuditEvent.CANCEL, at=now, once="cancel", reason=why)
        return end(question, Ending(status=QuestionStatus.CANCELLED, reason=why, at=now), entry, now)
    return look_again(question, now)


def has_cards(question: Opened) -> bool:
    """Whether a card is there."""
    return bool(question.cards.message_ids)


# When something is due


def ends_at(question: Opened) -> datetime:
    """When nobody is waited for any more: a moment after the deadline, so that what was answered in time may arrive."""
    return question.plan.deadline + question.plan.grace


def reminds_at(question: Opened) -> datetime | None:
    """When those who may answer are reminded, if that is still to come."""
    return None if question.was_reminded else question.plan.remind_at


def sends_at(question: Opened, now: datetime) -> datetime | None:
    """When the cards that are there have grown too old."""
    return question.cards.due_at(now, question.renewal) if question.plan.addresses else None


def remind(question: Opened, now: datetime) -> Opened:
    """Nobody has answered for a part of the time: the cards become others."""
    entry = AuditEntry(event=AuditEvent.REMIND, at=now, once="remind", payload_sha256=question.plan.questions_sha256)
    return question.model_copy(update={"renewal": question.renewal + 1, "notes": question.notes.note(entry)})
