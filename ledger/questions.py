"""The record of each question: its plan, its answers and their verdicts, and how it ended."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Text, bindparam, or_, select, tuple_, update

from assent import names
from assent.client.reader import WaitingQuestion
from assent.contracts.answers import Answer, AnswerVerdict, JudgedAnswer, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionConclusion, QuestionPlan, QuestionPrepared, QuestionState
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import NO_LIMITS, Limits
from assent.contracts.runs import LineState
from assent.contracts.values import Frozen, Surface
from assent.core.questions import after_ending, conclude_as_written, objection, refusal_entry, wrong_with
from ledger import audit, awaited, memberships, quotas, runs
from ledger.clock import STAMP
from ledger.engine import Connection, inserted
from ledger.messages import Message, MessageKind, are_behind, messages_of
from ledger.results import claim_of
from ledger.schema import ClaimState, awaited_keys, decisions, questions
from ledger.statements import Row, Statement, insert

_its_own = questions.c.record == bindparam("of")
_lives_in = or_(
    questions.c.temporal_namespace == bindparam("namespace"),
    questions.c.temporal_namespace.is_(None),
    bindparam("namespace", type_=Text).is_(None),
)
_oldest_first = questions.c.created_at, questions.c.record
_ADD = Statement(insert(questions).on_conflict_do_nothing())
_ONE = Statement(select(questions).where(_its_own))
_HELD = Statement(select(questions).where(_its_own).with_for_update())
_CLOSE = Statement(update(questions).where(_its_own).values(unsealed_since=STAMP))
_ADD_ANSWER = Statement(insert(decisions).on_conflict_do_nothing())
_ANSWERS = Statement(
    select(decisions.c.judged)
    .where(decisions.c.approval_id == bindparam("of"))
    .order_by(decisions.c.place, decisions.c.event_id)
    .limit(bindparam("limit"))
)
_ANSWER = Statement(
    select(decisions.c.judged).where(
        decisions.c.approval_id == bindparam("of"), decisions.c.event_id == bindparam("event_id")
    )
)
_OF_CONSENT = Statement(
    select(questions.c.record)
    .where(questions.c.consent == bindparam("consent"), questions.c.status.is_(None))
    .order_by(questions.c.record)
)
_OPEN = Statement(
    select(questions.c.record, questions.c.created_at, questions.c.open_until)
    .where(questions.c.status.is_(None), _lives_in)
    .where(tuple_(*_oldest_first) > tuple_(bindparam("after_time", type_=Text), bindparam("after_record", type_=Text)))
    .order_by(*_oldest_first)
    .limit(bindparam("limit"))
)
_FOUND = Statement(
    select(questions.c.record, questions.c.plan)
    .where(
        questions.c.record.in_(
            select(awaited_keys.c.approval_id).where(awaited_keys.c.key.in_(bindparam("keys", expanding=True)))
        )
    )
    .where(questions.c.status.is_(None), questions.c.open_until > bindparam("now"), _lives_in)
    .order_by(*_oldest_first)
    .offset(bindparam("offset"))
    .limit(bindparam("limit"))
)
_MOST_SHOWN = 150
"""How many answers one look shows."""
_CALL_ENDED = "the call whose tool asks has ended"


async def register(
    connection: Connection,
    request: QuestionRequest,
    plan: QuestionPlan,
    now: datetime,
    namespace: str | None = None,
    limits: Limits = NO_LIMITS,
) -> QuestionPrepared:
    """Store the plan if there is none yet, and return the one that stands.

    A tool's question is taken only while its call runs: whoever ends the call finds all that were taken before.
    """
    if standing := await stored(connection, request):
        return standing
    if plan.consent is not None and not await _runs(connection, plan):
        return QuestionPrepared(refused=_CALL_ENDED)
    place = await quotas.place_of_question(connection, request, plan)
    if plan.consent is None and (exceeded := await quotas.exceeded(connection, place, limits, now)):
        return QuestionPrepared(exceeded=exceeded)
    if plan.run is not None and (refused := await runs.refusal(connection, plan, now)):
        return QuestionPrepared(refused=refused)
    record = names.question_workflow(plan.question_id)
    row = {
        "record": record,
        "request_sha256": plan.request_sha256,
        "requester": plan.requester.model_dump_json(exclude_none=True),
        "thread_id": plan.thread_id,
        "plan": plan.model_dump_json(),
        "created_at": audit.stamp(now),
        "open_until": audit.stamp(plan.open_until),
        "temporal_namespace": namespace,
        "consent": plan.consent,
        **place.model_dump(),
    }
    if not await inserted(connection, _ADD, row):
        standing = await stored(connection, request)
        assert standing is not None, "a record is never deleted"
        return standing
    if plan.run is not None:
        await runs.add(connection, plan.run)
    await awaited.add(connection, record, plan.deciders)
    asked = AuditEntry(
        event=AuditEvent.ASK,
        at=now,
        once="ask",
        actor=plan.requester,
        surface=request.surface,
        proof=f"token:{request.asked_by}" if request.asked_by else None,
        payload_sha256=plan.questions_sha256,
        reason=request.reason,
    )
    await audit.append(connection, record, [asked], is_held=True)
    return QuestionPrepared(plan=plan)


async def stored(connection: Connection, request: QuestionRequest) -> QuestionPrepared | None:
    """What was prepared before."""
    row = await _row(connection, request.question_id)
    if row is None:
        return None
    if row.request_sha256 != request.sha256:
        return QuestionPrepared(conflict=True)
    plan, outcome = _plan(row), _outcome(row)
    answer = await runs.answer_of(connection, plan.question_id) if plan.run is not None else None
    cards_due = outcome is not None and await are_behind(connection, row.record)
    return QuestionPrepared(plan=plan, outcome=outcome, cards_due=cards_due, answer=answer)


async def _runs(connection: Connection, plan: QuestionPlan) -> bool:
    """Whether the call runs whose tool asks; while its approval's row is held, nobody ends it."""
    assert plan.approval_id is not None, "a consent is an approval's"
    await audit.lock(connection, plan.approval_id)
    claim = await claim_of(connection, plan.consent or "")
    return claim is not None and claim.state == ClaimState.STARTED


async def conclude(connection: Connection, conclusion: QuestionConclusion) -> QuestionOutcome:
    """Record how a question ended, and return the ending that stands: the first one, whatever is said later.

    Of a program's question, an answer that it has read, or may have, decides how it ended.
    """
    record = names.question_workflow(conclusion.outcome.question_id)
    row = (await connection.execute(_HELD, {"of": record})).one()
    known, plan = _outcome(row), _plan(row)
    if known is None and plan.run is not None:
        conclusion = await _as_written(connection, plan, conclusion)
    for place, judged in enumerate(conclusion.judged):
        if known is None or judged.verdict is not VerdictKind.ACCEPTED:
            await _remember(connection, record, judged, place)
    await audit.append(connection, record, conclusion.entries, is_held=True)
    if known is not None:
        return known
    await audit.append(connection, record, conclusion.ending, is_held=True)
    outcome = conclusion.outcome
    end = {
        "status": outcome.status,
        "outcome": outcome.model_dump_json(),
        "closed_at": audit.stamp(conclusion.closed_at),
    }
    await connection.execute(_CLOSE, {"of": record, **end})
    await awaited.remove(connection, record)
    return outcome


async def _as_written(connection: Connection, plan: QuestionPlan, said: QuestionConclusion) -> QuestionConclusion:
    """How a program's question ends: as is said, unless its program has read the answer to it, or may have."""
    report, answer = await runs.conclude(connection, plan.question_id)
    if answer is None or report.state not in (LineState.WRITTEN, LineState.UNKNOWN):
        return said
    stands = conclude_as_written(plan, answer, report, said.closed_at)
    ended, says = stands.outcome, said.outcome
    if _ends(ended) == _ends(says):
        return said
    refused = tuple(each for each in said.judged if each.verdict is not VerdictKind.ACCEPTED)
    return stands.model_copy(update={"entries": said.entries, "judged": (*stands.judged, *refused)})


def _ends(outcome: QuestionOutcome) -> tuple[object, ...]:
    return outcome.status, outcome.answers, outcome.answered_by, outcome.reason


async def end_gone(connection: Connection, question_id: str, why: str, now: datetime) -> QuestionOutcome | None:
    """End a question whose workflow is gone; None if it has ended, or never was."""
    row = (await connection.execute(_HELD, {"of": names.question_workflow(question_id)})).first()
    if row is None or row.outcome is not None:
        return None
    outcome = QuestionOutcome(
        question_id=question_id,
        status=QuestionStatus.CANCELLED,
        reason=why,
        questions_sha256=_plan(row).questions_sha256,
        ended_at=now,
    )
    entry = AuditEntry(
        event=AuditEvent.CANCEL,
        at=now,
        once="cancel:gone",
        surface=Surface.TEMPORAL,
        payload_sha256=outcome.questions_sha256,
        reason=why,
    )
    gone = QuestionConclusion(outcome=outcome, ending=(entry,), entries=(), judged=(), closed_at=now)
    return await conclude(connection, gone)


async def outcome_of(connection: Connection, question_id: str) -> QuestionOutcome | None:
    row = await _row(connection, question_id)
    return _outcome(row) if row else None


async def plan_of(connection: Connection, question_id: str) -> QuestionPlan | None:
    row = await _row(connection, question_id)
    return _plan(row) if row else None


async def state_of(connection: Connection, question_id: str) -> QuestionState | None:
    """A question as the ledger remembers it."""
    row = await _row(connection, question_id)
    if row is None:
        return None
    plan, outcome = _plan(row), _outcome(row)
    page = {"of": row.record, "limit": _MOST_SHOWN}
    judged = [JudgedAnswer.model_validate_json(text) for text in (await connection.execute(_ANSWERS, page)).scalars()]
    return QuestionState(
        status=outcome.status if outcome else QuestionStatus.PENDING,
        answers=outcome.answers if outcome else None,
        answered_by=outcome.answered_by if outcome else None,
        ended_because=outcome.reason if outcome else None,
        decisions=tuple(judged),
        **{name: getattr(plan, name) for name in _SHOWN},
    )


_SHOWN = (
    *("question_id", "questions", "questions_sha256", "requester", "asked_by", "reason", "thread_id"),
    *("approval_id", "tool", "run", "asked_at", "deadline", "deciders"),
)


class QuestionRecord(Frozen):
    """All that a card of a question is made of."""

    plan: QuestionPlan
    outcome: QuestionOutcome | None
    messages: tuple[Message, ...]


async def record_of(connection: Connection, question_id: str) -> QuestionRecord | None:
    row = await _row(connection, question_id)
    if row is None:
        return None
    return QuestionRecord(plan=_plan(row), outcome=_outcome(row), messages=await messages_of(connection, row.record))


async def judge_late(connection: Connection, answer: Answer, now: datetime) -> AnswerVerdict:
    """The verdict on an answer that reached a question after its end."""
    found = await record_of(connection, answer.question_id)
    if found is None or found.outcome is None:
        return AnswerVerdict(kind=VerdictKind.MISSING)
    plan, outcome, record = found.plan, found.outcome, names.question_workflow(answer.question_id)
    cards = {each.message_id for each in found.messages if each.slot.kind is MessageKind.CARD and each.message_id}
    may_answer = plan.deciders.include(answer.actor.within(plan.tenant_key))
    kind = objection(plan, answer, cards, may_answer=may_answer) or after_ending(outcome.status)
    why = wrong_with(plan, answer) if kind is VerdictKind.TAMPERED else None
    judged = JudgedAnswer.of(answer, kind, answer.received_at or now, problem=why)
    if not await _remember(connection, record, judged, _MOST_SHOWN):
        text = (await connection.execute(_ANSWER, {"of": record, "event_id": answer.event_id})).scalar_one()
        first = JudgedAnswer.model_validate_json(text)
        kind = first.verdict if first.delivery_id == answer.delivery_id else VerdictKind.DUPLICATE
    elif entry := refusal_entry(answer, kind, now, why):
        await audit.append(connection, record, [entry])
    if kind is VerdictKind.FORBIDDEN:
        return AnswerVerdict(kind=kind)
    return AnswerVerdict(kind=kind, status=outcome.status, answered_by=outcome.answered_by)


async def open_of_consent(connection: Connection, consent: str) -> tuple[str, ...]:
    """What a call's tool has asked, and nobody has answered."""
    return tuple(map(_id, (await connection.execute(_OF_CONSENT, {"consent": consent})).scalars()))


class OpenQuestion(Frozen):
    """A question that has not ended, as far as the ledger knows."""

    question_id: str
    created_at: str
    is_overdue: bool
    """Whether it should have ended by now, whatever became of it."""


async def open_ones(
    connection: Connection, namespace: str, now: datetime, after: OpenQuestion | None, limit: int
) -> list[OpenQuestion]:
    """Questions of this namespace that have not ended, the oldest first, from one on."""
    since = {
        "after_time": after.created_at if after else "",
        "after_record": names.question_workflow(after.question_id) if after else "",
    }
    rows = await connection.execute(_OPEN, {"namespace": namespace, "limit": limit, **since})
    overdue = audit.stamp(now)
    return [
        OpenQuestion(question_id=_id(row.record), created_at=row.created_at, is_overdue=row.open_until < overdue)
        for row in rows
    ]


async def found_by(
    connection: Connection, person: Identity, now: datetime, offset: int, limit: int, namespace: str | None = None
) -> tuple[tuple[WaitingQuestion, ...], int | None]:
    """What is asked of this person from *offset* on, the oldest first, and where the rest begins."""
    chats = await memberships.chats_of(connection, person, now)
    keys = awaited.keys_for(person, chats)
    page = {"keys": keys, "now": audit.stamp(now), "namespace": namespace, "offset": offset, "limit": limit + 1}
    rows = (await connection.execute(_FOUND, page)).all()
    plans = [_plan(row) for row in rows[:limit]]
    found = tuple(
        WaitingQuestion(
            question_id=plan.question_id,
            requester=plan.requester,
            asked_by=plan.asked_by,
            thread_id=plan.thread_id,
            deciders=plan.deciders,
        )
        for plan in plans
        if plan.deciders.ask_member(person, chats)
    )
    return found, offset + limit if len(rows) > limit else None


def _plan(row: Row) -> QuestionPlan:
    return QuestionPlan.model_validate_json(row.plan)


def _outcome(row: Row) -> QuestionOutcome | None:
    return QuestionOutcome.model_validate_json(row.outcome) if row.outcome else None


def _id(record: str) -> str:
    found = names.question_of(record)
    assert found is not None, "only questions stand in this table"
    return found


async def _row(connection: Connection, question_id: str) -> Row | None:
    return (await connection.execute(_ONE, {"of": names.question_workflow(question_id)})).first()


async def _remember(connection: Connection, record: str, judged: JudgedAnswer, place: int) -> bool:
    said = {"event_id": judged.event_id, "judged": judged.model_dump_json(), "place": place}
    return await inserted(connection, _ADD_ANSWER, {"approval_id": record, **said})
