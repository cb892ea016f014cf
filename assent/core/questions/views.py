"""What a question shows of itself, and what it has the ledger write."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from assent import names
from assent.contracts.answers import AcceptedAnswer, Answer, AnswerVerdict, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionConclusion, QuestionPlan, QuestionState
from assent.contracts.audit import AuditBatch, AuditEntry
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.questions import canonical_questions
from assent.contracts.runs import InteractionActor, InteractionAnswer, InteractionEvent, LineReport
from assent.contracts.signals import VerdictQuestion
from assent.contracts.weigh import Weighing
from assent.core.questions.answering import actor_of, stand_by, written
from assent.core.questions.judging import after_ending
from assent.core.questions.standing import Ending, Opened, Standing, Unopened
from assent.payload import sha256

_SHARED = ("question_id", "questions", "requester", "asked_by", "reason", "thread_id")
_PLANNED = ("questions_sha256", "approval_id", "tool", "run", "asked_at", "deadline", "deciders")


def state(question: Unopened | Opened) -> QuestionState:
    """The question as it stands."""
    told = _told(question)
    stated = question.plan if isinstance(question, Opened) else question.request
    known = {name: getattr(stated, name) for name in _SHARED}
    if isinstance(question, Opened):
        known |= {name: getattr(question.plan, name) for name in _PLANNED}
    else:
        known |= {"questions_sha256": sha256(canonical_questions(question.request.questions)), "is_prepared": False}
    return QuestionState(
        status=told.status if told else QuestionStatus.PENDING,
        answers=told.answers if told else None,
        answered_by=_answerer(told),
        ended_because=told.reason if told else None,
        decisions=question.notes.judged,
        malformed=question.notes.malformed,
        **known,
    )


def verdict(question: Unopened | Opened, asked: VerdictQuestion) -> AnswerVerdict:
    """What became of one sending of one answer."""
    judged, told = question.notes.verdict_on(asked.event_id), _told(question)
    if judged is None or (question.ending is not None and told is None):
        return AnswerVerdict(kind=VerdictKind.RECEIVED)
    kind = judged.verdict if judged.delivery_id == asked.delivery_id else VerdictKind.DUPLICATE
    if kind is VerdictKind.FORBIDDEN:
        return AnswerVerdict(kind=kind)
    return AnswerVerdict(
        kind=kind,
        status=told.status if told else None,
        answered_by=_answerer(told),
        reason=judged.problem,
        flaws=judged.flaws,
    )


def _told(question: Unopened | Opened) -> Ending | None:
    """How it ended, once the ledger has it."""
    return question.ending if question.is_recorded else None


def _answerer(ending: Ending | None) -> Identity | None:
    return ending.by if ending and ending.status is QuestionStatus.RESOLVED else None


def weighing(question: Opened, given: Answer, now: datetime) -> Weighing:
    """What is to be asked outside: does whoever answered belong to the chat?"""
    plan = question.plan
    actor = actor_of(plan, given)
    return Weighing(
        approval_id=names.question_workflow(plan.question_id),
        chats=plan.deciders.chats_to_ask(actor),
        actors=(actor,),
        payload_sha256=plan.questions_sha256,
        now=now,
    )


# The ledger


def has_news(question: Opened) -> bool:
    """Whether the ledger lacks something."""
    return bool(question.notes.unwritten)


def batch(question: Opened) -> AuditBatch:
    """What the audit is to be told next."""
    record = names.question_workflow(question.plan.question_id)
    return AuditBatch(approval_id=record, entries=question.notes.next_entries)


def write(question: Standing, entries: Collection[AuditEntry], now: datetime) -> Standing:
    """The ledger has these."""
    return question.model_copy(update={"notes": question.notes.written(entries, now)})


def conclude(question: Opened, now: datetime) -> QuestionConclusion:
    """How it ended, for the record."""
    ending = question.ending
    assert ending is not None, "only what has ended is concluded"
    outcome = QuestionOutcome(
        question_id=question.plan.question_id,
        status=ending.status,
        answers=ending.answers,
        answered_by=_answerer(ending),
        reason=ending.reason,
        questions_sha256=question.plan.questions_sha256,
        ended_at=ending.at,
    )
    return QuestionConclusion(
        outcome=outcome,
        ending=ending.entries,
        entries=question.notes.next_entries,
        judged=question.notes.judged,
        closed_at=now,
    )


def conclude_as_written(
    plan: QuestionPlan, answer: AcceptedAnswer, report: LineReport, now: datetime
) -> QuestionConclusion:
    """How a program's question ended whose answer is on record, by what became of the line."""
    opened = stand_by(Opened(plan=plan, opened_at=now), answer)
    return conclude(written(opened, report, now), now)


def close(question: Opened, outcome: QuestionOutcome) -> Opened:
    """The ending that stands is on record: from here on it is told."""
    ending = Ending(
        status=outcome.status,
        reason=outcome.reason,
        by=outcome.answered_by or (question.ending.by if question.ending else None),
        answers=outcome.answers,
        at=outcome.ended_at or question.opened_at,
        event_id=question.ending.event_id if question.ending else None,
    )
    own = question.ending
    is_own = own is not None and (own.status, own.answers) == (ending.status, ending.answers)
    notes = question.notes if is_own else question.notes.overtaken(after_ending(ending.status))
    return question.model_copy(update={"ending": ending, "is_recorded": True, "notes": notes})


def event(plan: QuestionPlan, outcome: QuestionOutcome, event_id: str | None = None) -> InteractionEvent | None:
    """What the host of a run is told of how its interaction ended.

    event_id: of the answer that counts.
    """
    run = plan.run
    if run is None:
        return None
    said = (outcome.answers or {}).get(plan.questions[0].id)
    what = "answer.submitted" if outcome.is_answered else outcome.status.value
    return InteractionEvent(
        event_id=event_id or f"{run.question_id}:{outcome.status.value}",
        event_type=f"interaction.{what}",
        occurred_at=outcome.ended_at or plan.asked_at,
        collab_session_id=run.collab_session_id,
        tool_session_id=run.tool_session_id,
        interaction_request_id=run.interaction_request_id,
        run_id=run.run_id,
        answered_by=InteractionActor.of(outcome.answered_by) if outcome.answered_by else None,
        answer=InteractionAnswer(answer_type=run.answer_type, answer_value=said) if isinstance(said, str) else None,
        reason=outcome.reason,
        idempotency_key=run.question_id,
    )
