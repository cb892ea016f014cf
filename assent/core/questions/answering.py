"""What becomes of an answer: functions from a question, something that happened and the time to the question then."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from assent import sizes
from assent.contracts.answers import AcceptedAnswer, Answer, Flaw, Given, JudgedAnswer, QuestionStatus
from assent.contracts.asking import QuestionPlan
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.runs import RUN_ENDED, WRITE_UNKNOWN, LineOffer, LineReport, LineState
from assent.contracts.signals import Withdrawal
from assent.contracts.weigh import Weighed
from assent.core.questions.judging import (
    after_ending,
    answers_sha256,
    audit_entry,
    explained,
    flaws_in,
    flaws_in_line,
    meant,
    normalised,
    objection,
    refusal_entry,
    wrong_with,
)
from assent.core.questions.standing import Ending, Opened, Standing, Unopened

_MOST_EARLY = 100
"""How many answers wait for what they are judged by."""
_TOO_LARGE = f"an answer holds at most {sizes.ANSWER} bytes"
_TOO_MANY = "other answers are being checked, and no more can wait behind them: answer again in a moment"
_NO_ROOM = "the ledger is out of reach, and too much is already waiting to be recorded: answer again in a while"


# An answer arrives


def answer(question: Standing, given: Answer, now: datetime) -> Standing:
    """Judge an answer, or keep it until it is known what it is judged by."""
    if question.notes.verdict_on(given.event_id) is not None:
        return question
    if sizes.size(given) > sizes.ANSWER:
        return _refuse(question, given, VerdictKind.INVALID, now, problem=_TOO_LARGE)
    if isinstance(question, Opened):
        return _answer_opened(question, given, now)
    if _may_wait(question.early, given):
        return question.model_copy(update={"early": (*question.early, given)})
    return _refuse(question, given, VerdictKind.INVALID, now, problem=_TOO_MANY)


def _answer_opened(question: Opened, given: Answer, now: datetime) -> Opened:
    is_unknown = given.message_id is not None and given.message_id not in question.messages
    is_early = is_unknown and question.expects_cards and question.ending is None
    if not is_early and question.asking is None:
        return _judge(question, given, now)
    if not is_early and (hopeless := _objection(question, given)) is not None:
        return _refuse(question, given, hopeless, now)  # strangers crowd out nobody
    if _may_wait(question.early, given):
        return question.model_copy(update={"early": (*question.early, given)})
    return _refuse(question, given, VerdictKind.INVALID, now, problem=_TOO_MANY)


def _may_wait(waiting: tuple[Answer, ...], given: Answer) -> bool:
    return len(waiting) < _MOST_EARLY and sizes.total(waiting) + sizes.size(given) <= sizes.WAITING


def look_again(question: Opened, now: datetime) -> Opened:
    """Judge what waited, as far as it can be by now."""
    early, question = question.early, question.model_copy(update={"early": ()})
    for given in early:
        question = answer(question, given, now)
    return question


# Judging


def _judge(question: Opened, given: Answer, now: datetime) -> Opened:
    verdict = _objection(question, given) or _too_late(question, given, now)
    if verdict is not None:
        return _refuse(question, given, verdict, now)
    said = meant(question.plan.questions, given)
    is_line = question.plan.run is not None
    if flaws := (flaws_in_line(question.plan.questions, said) if is_line else ()) or flaws_in(
        question.plan.questions, said
    ):
        return _refuse(question, given, VerdictKind.INVALID, now, problem=explained(flaws), flaws=flaws)
    if not question.notes.has_room(sizes.size(given)):
        return _refuse(question, given, VerdictKind.INVALID, now, problem=_NO_ROOM)
    if question.plan.deciders.chats_to_ask(actor_of(question.plan, given)):
        return question.model_copy(update={"asking": given})
    return _accept(question, given, now)


def _objection(question: Opened, given: Answer) -> VerdictKind | None:
    plan = question.plan
    # A click on a card whose message was never confirmed is late once it is over, not forged.
    unconfirmed = {given.message_id} if question.expects_cards and given.message_id else set()
    may_answer = plan.deciders.include(actor_of(plan, given))
    return objection(plan, given, question.messages | unconfirmed, may_answer=may_answer)


def _too_late(question: Opened, given: Answer, now: datetime) -> VerdictKind | None:
    if question.ending is not None:
        return after_ending(question.ending.status)
    return VerdictKind.EXPIRED if received_at(question, given, now) > question.plan.deadline else None


def weighed(question: Opened, asked: Answer, found: Weighed, now: datetime) -> Opened:
    """It is known whether whoever answered belongs to the chat; unless the question has ended, it is judged by it."""
    if question.asking is None or question.asking.event_id != asked.event_id:
        return question
    question = question.model_copy(update={"asking": None})
    if question.ending is not None:
        question = _refuse(question, asked, after_ending(question.ending.status), now)
    elif found.outsiders:
        question = _refuse(question, asked, VerdictKind.FORBIDDEN, now)
    else:
        question = _accept(question, asked, now)
    return look_again(question, now)


def _accept(question: Opened, given: Answer, now: datetime) -> Opened:
    answers = normalised(question.plan.questions, meant(question.plan.questions, given))
    question = _remember(question, given, VerdictKind.ACCEPTED, now)
    entry = audit_entry(AuditEvent.ANSWER, given, now).model_copy(update={"content_sha256": answers_sha256(answers)})
    return question.model_copy(update={"ending": _answered_by(given.actor, answers, now, entry)})


def _answered_by(actor: Identity, answers: dict[str, Given], at: datetime, entry: AuditEntry) -> Ending:
    return Ending(
        status=QuestionStatus.RESOLVED, by=actor, answers=answers, at=at, event_id=entry.event_id, entries=(entry,)
    )


# Endings without an answer


def withdraw(question: Standing, withdrawal: Withdrawal, now: datetime) -> Standing:
    """Somebody takes the question back, or what it was asked for has ended."""
    ending = Ending(status=QuestionStatus.CANCELLED, reason=withdrawal.reason, by=withdrawal.actor, at=now)
    entry = AuditEntry(
        event=AuditEvent.CANCEL,
        at=now,
        once="cancel",
        actor=withdrawal.actor,
        surface=withdrawal.surface,
        reason=withdrawal.reason,
    )
    return end(question, ending, entry, now)


def expire(question: Standing, now: datetime, why: str | None = None) -> Standing:
    """Nobody answered in time."""
    ending = Ending(status=QuestionStatus.EXPIRED, reason=why, at=now)
    return end(question, ending, AuditEntry(event=AuditEvent.EXPIRE, at=now, once="expire", reason=why), now)


def end(question: Standing, ending: Ending, entry: AuditEntry, now: datetime) -> Standing:
    """End it, unless it has ended: whatever waits to be judged is too late."""
    if question.ending is not None:
        return question
    if isinstance(question, Opened):
        entry = entry.model_copy(update={"payload_sha256": question.plan.questions_sha256})
    question = question.model_copy(update={"ending": ending.model_copy(update={"entries": (entry,)})})
    if not isinstance(question, Opened):
        return question
    if question.asking is not None:
        asked, question = question.asking, question.model_copy(update={"asking": None})
        question = _refuse(question, asked, after_ending(ending.status), now)
    return look_again(question, now)


# The line that an answer becomes


def offer(question: Opened) -> LineOffer | None:
    """The line that is to be written, if an answered question is a running program's."""
    ending, plan = question.ending, question.plan
    if plan.run is None or ending is None or ending.answers is None or ending.by is None:
        return None
    said = ending.answers[plan.questions[0].id]
    assert isinstance(said, str), "a run asks for a text or one option"
    judged = question.notes.verdict_on(ending.event_id or "")
    assert judged is not None, "the answer that counts is remembered"
    answer = AcceptedAnswer(judged=judged, answers=ending.answers, at=ending.at, entry=ending.entries[0])
    return LineOffer(question_id=plan.question_id, answer=answer, text=f"{said}\n")


def stand_by(question: Opened, answer: AcceptedAnswer) -> Opened:
    """An answer is on record for a program to read: it counts, and none that came since."""
    judged, ending = answer.judged, question.ending
    its_own = (judged.event_id, judged.actor, answer.answers)
    if ending is not None and (ending.event_id, ending.by, ending.answers) == its_own:
        return question
    notes = question.notes.overtaken(VerdictKind.ALREADY_DECIDED)
    others = (each for each in notes.judged if each.event_id != judged.event_id)
    notes = notes.model_copy(update={"judged": (*others, judged)})
    ending = _answered_by(judged.actor, answer.answers, answer.at, answer.entry)
    return question.model_copy(update={"notes": notes, "ending": ending})


def written(question: Opened, report: LineReport, now: datetime) -> Opened:
    """It is known what became of the line; what was not written, or perhaps not, was not answered."""
    ending = question.ending
    assert ending is not None, "only what has ended is written"
    assert ending.answers is not None, "only an answer is written"
    if report.state is LineState.WRITTEN:
        entry = AuditEntry(
            event=AuditEvent.WRITE_INPUT,
            at=now,
            once="write_input",
            actor=ending.by,
            event_id=ending.event_id,
            payload_sha256=question.plan.questions_sha256,
            content_sha256=answers_sha256(ending.answers),
        )
        read = ending.model_copy(update={"entries": (*ending.entries, entry)})
        return question.model_copy(update={"ending": read})
    why = WRITE_UNKNOWN if report.state is LineState.UNKNOWN else RUN_ENDED
    entry = AuditEntry(
        event=AuditEvent.CANCEL,
        at=now,
        once="cancel",
        reason=why,
        event_id=ending.event_id,
        payload_sha256=question.plan.questions_sha256,
    )
    entries = (*ending.entries, entry)
    unwritten = Ending(status=QuestionStatus.CANCELLED, reason=why, at=now, entries=entries)
    return question.model_copy(update={"ending": unwritten})


# What is kept of what was said


def set_aside(question: Standing) -> Standing:
    """A message could not be read."""
    return question.model_copy(update={"notes": question.notes.set_aside()})


def actor_of(plan: QuestionPlan, given: Answer) -> Identity:
    return given.actor.within(plan.tenant_key)


def received_at(question: Unopened | Opened, given: Answer, now: datetime) -> datetime:
    """When an answer counts as given: never in the future, never before it could be."""
    received = min(given.received_at or now, now)
    return max(received, question.opened_at) if isinstance(question, Opened) else received


def _refuse(
    question: Standing,
    given: Answer,
    verdict: VerdictKind,
    now: datetime,
    *,
    problem: str | None = None,
    flaws: Collection[Flaw] = (),
) -> Standing:
    unsigned = wrong_with(question.plan, given) if isinstance(question, Opened) else None
    why = unsigned if verdict is VerdictKind.TAMPERED else None
    question = _remember(question, given, verdict, now, problem or why, flaws)
    entry = refusal_entry(given, verdict, now, why)
    return question.model_copy(update={"notes": question.notes.note_refusal(entry)}) if entry else question


def _remember(
    question: Standing,
    given: Answer,
    verdict: VerdictKind,
    now: datetime,
    problem: str | None = None,
    flaws: Collection[Flaw] = (),
) -> Standing:
    judged = JudgedAnswer.of(given, verdict, received_at(question, given, now), problem=problem, flaws=tuple(flaws))
    return question.model_copy(update={"notes": question.notes.remember(judged, ())})
