"""How a question gets its plan; or ends without one."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.answers import AcceptedAnswer, QuestionOutcome
from assent.contracts.asking import QuestionPlan
from assent.contracts.prepare import SentBefore
from assent.core.cards import Cards, newest
from assent.core.questions.answering import look_again, stand_by
from assent.core.questions.standing import Ending, Opened, Unopened


def open_with(
    question: Unopened,
    plan: QuestionPlan,
    now: datetime,
    answer: AcceptedAnswer | None = None,
    sent_before: SentBefore | None = None,
) -> Opened:
    """From here on it can be answered; what came too early is judged first.

    answer: what a program was to read when a former run was lost; it counts, whatever is said now.
    sent_before: the cards that a former run sent, before it was reset.
    """
    opened = Opened(
        plan=plan,
        opened_at=now,
        notes=question.notes,
        early=question.early,
        ending=question.ending,
        cards=_cards_of_before(sent_before) if sent_before else Cards(),
        expects_cards=bool(plan.addresses) and (question.ending is None or answer is not None),
    )
    return look_again(stand_by(opened, answer) if answer else opened, now)


def _cards_of_before(sent_before: SentBefore) -> Cards:
    return Cards(generation=sent_before.generation, message_ids=newest(sent_before.message_ids), was_interrupted=True)


def end_as_before(
    question: Unopened,
    plan: QuestionPlan | None,
    outcome: QuestionOutcome,
    now: datetime,
    answer: AcceptedAnswer | None = None,
) -> Opened:
    """The ledger already knows how this question ended: nobody is asked again."""
    assert plan is not None, "what has ended was planned"
    ending = Ending(
        status=outcome.status,
        reason=outcome.reason,
        by=outcome.answered_by,
        answers=outcome.answers,
        at=outcome.ended_at or now,
        event_id=answer.judged.event_id if answer is not None and outcome.is_answered else None,
    )
    return Opened(plan=plan, opened_at=now, ending=ending, is_recorded=True, notes=question.notes)


def resume(question: Opened) -> Opened:
    """As a new run takes it over from a former one."""
    return question.model_copy(update={"cards": question.cards.resumed()})
