"""The runs of programs, and the line that answers each of their interactions: offered, claimed and written once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select, update

from assent.contracts.answers import AcceptedAnswer
from assent.contracts.asking import QuestionPlan
from assent.contracts.runs import (
    MOST_INTERACTIONS,
    MOST_OUTPUT,
    AskingRun,
    ClaimedLine,
    LineClaim,
    LineOffer,
    LineOffered,
    LineQuestion,
    LineReport,
    LineState,
    LineWritten,
    Run,
    RunHolder,
    StoredInteraction,
)
from ledger import audit
from ledger.clock import database_now
from ledger.engine import Connection, inserted
from ledger.results import claim_of
from ledger.schema import ClaimState, interactions, runs
from ledger.statements import Row, Statement, insert

_run_itself = runs.c.run_id == bindparam("of")
_itself = interactions.c.question_id == bindparam("of")
_START = Statement(insert(runs).on_conflict_do_nothing())
_RUN = Statement(select(runs).where(_run_itself))
_HELD_RUN = Statement(select(runs).where(_run_itself).with_for_update())
_END = Statement(update(runs).where(_run_itself, runs.c.ended_at.is_(None)))
_ADD = Statement(insert(interactions).on_conflict_do_nothing())
_ONE = Statement(select(interactions).where(_itself))
_HELD = Statement(select(interactions).where(_itself).with_for_update())
_MOVE = Statement(update(interactions).where(_itself, interactions.c.state == bindparam("from_state")))
_FINISH = Statement(update(interactions).where(_itself))
_COUNT = Statement(
    select(func.count().label("number"), func.sum(1 - interactions.c.is_over).label("open")).where(
        interactions.c.run_id == bindparam("of")
    )
)
_OF_RUN = Statement(
    select(interactions.c.question_id).where(interactions.c.run_id == bindparam("of")).order_by(interactions.c.n)
)
_NAMED = Statement(
    select(interactions.c.question_id)
    .where(interactions.c.request_id == bindparam("of"))
    .order_by(interactions.c.question_id)
    .limit(20)
)
_ENDED = "the run has ended: its program reads nothing any more"
_PENDING = "the run waits for an answer already; it asks one thing at a time"
_TOO_MANY = f"the run has asked {MOST_INTERACTIONS} times, which is as often as one may"
_OTHERS = "the run belongs to somebody else"


# A run


async def start(
    connection: Connection, run: Run, now: datetime, *, consent: str | None = None, asked_by: str | None = None
) -> bool:
    """Note that a program runs; False if that was noted before."""
    row = {
        "run_id": run.run_id,
        "run": run.model_dump_json(),
        "consent": consent,
        "asked_by": asked_by,
        "started_at": audit.stamp(now),
    }
    return await inserted(connection, _START, row)


async def own(connection: Connection, run: Run, now: datetime, asked_by: str | None) -> bool:
    """Note that a program runs, if that was not noted before; whether it is this agent's."""
    if await start(connection, run, now, asked_by=asked_by):
        return True
    row = (await connection.execute(_RUN, {"of": run.run_id})).one()
    return row.consent is None and row.asked_by == asked_by


async def end(connection: Connection, run_id: str, exit_code: int | None, output: bytes, now: datetime) -> None:
    """Note that it ended, and the last of what it said; the first end stands."""
    kept = {"exit_code": exit_code, "output": output[-MOST_OUTPUT:], "ended_at": audit.stamp(now)}
    await connection.execute(_END, {"of": run_id, **kept})


async def output_of(connection: Connection, run_id: str) -> tuple[bytes, int | None] | None:
    """The last of what a run said, and what it ended with; None if there is no such run."""
    row = (await connection.execute(_RUN, {"of": run_id})).first()
    return None if row is None else (row.output or b"", row.exit_code)


async def _is_active(connection: Connection, row: Row) -> bool:
    """Whether a run's process may still read: one of a call reads no longer than its claim is open."""
    if row.ended_at is not None or row.consent is None:
        return row.ended_at is None
    claim = await claim_of(connection, row.consent)
    return claim is not None and claim.state == ClaimState.STARTED


# An interaction


async def refusal(connection: Connection, plan: QuestionPlan, now: datetime) -> str | None:
    """Why a run may not ask this; from here to the end of the transaction it asks nothing else."""
    run = plan.run
    assert run is not None, "a run asks"
    if run.holder is not RunHolder.WORKER:
        await start(connection, run, now, asked_by=plan.asked_by)
    row = (await connection.execute(_HELD_RUN, {"of": run.run_id})).first()
    if row is None or not await _is_active(connection, row):
        return _ENDED
    if row.consent != plan.consent or (row.consent is None and row.asked_by != plan.asked_by):
        return _OTHERS
    counted = (await connection.execute(_COUNT, {"of": run.run_id})).one()
    if counted.open:
        return _PENDING
    return _TOO_MANY if counted.number >= MOST_INTERACTIONS else None


async def add(connection: Connection, run: AskingRun) -> None:
    counted = (await connection.execute(_COUNT, {"of": run.run_id})).one()
    row = {
        "question_id": run.question_id,
        "run_id": run.run_id,
        "request_id": run.interaction_request_id,
        "asked": run.model_dump_json(),
        "n": counted.number + 1,
        "state": LineState.OPEN,
    }
    await inserted(connection, _ADD, row)


async def conclude(connection: Connection, question_id: str) -> tuple[LineReport, AcceptedAnswer | None]:
    """Its question ends: a line that nobody took is never taken, one that nobody confirmed never confirmed.

    What became of the line, and whose answer it is.
    """
    report = await close(connection, LineQuestion(question_id=question_id))
    await connection.execute(_FINISH, {"of": question_id, "is_over": 1})
    return report, await answer_of(connection, question_id)


async def answer_of(connection: Connection, question_id: str) -> AcceptedAnswer | None:
    """The answer that is kept for its program to read."""
    row = (await connection.execute(_ONE, {"of": question_id})).one()
    return _answer(row.answer)


def _answer(text: str | None) -> AcceptedAnswer | None:
    return AcceptedAnswer.model_validate_json(text) if text is not None else None


async def offer(connection: Connection, line: LineOffer) -> LineOffered:
    """Keep the line for whoever holds the pipe: the first that is offered. A host is sent it, and writes it itself."""
    row = (await connection.execute(_HELD, {"of": line.question_id})).one()
    asked = AskingRun.model_validate_json(row.asked)
    is_hosts = asked.holder is RunHolder.HOST
    if row.state != LineState.OPEN:
        is_done = row.state not in (LineState.OFFERED, LineState.CLAIMED)
        return LineOffered(holder=asked.holder, queue=asked.queue, is_done=is_done, answer=_answer(row.answer))
    offered: dict[str, Any] = {
        "state": LineState.OFFERED,
        "line": line.text,
        "answer": line.answer.model_dump_json(),
        "event_id": line.answer.judged.event_id,
        "at": await _now(connection),
    }
    if is_hosts:
        offered |= {"state": LineState.WRITTEN, "written_bytes": len(line.text.encode())}
    await _move(connection, line.question_id, LineState.OPEN, **offered)
    return LineOffered(holder=asked.holder, queue=asked.queue, is_done=is_hosts, answer=line.answer)


async def claim(connection: Connection, wish: LineClaim) -> ClaimedLine:
    """Take the line, to write it once. Whoever took it gets it again, and nobody else ever does."""
    row = (await connection.execute(_HELD, {"of": wish.question_id})).first()
    if row is None:
        return ClaimedLine()
    if row.state == LineState.OFFERED:
        now = await _now(connection)
        await _move(connection, wish.question_id, LineState.OFFERED, state=LineState.CLAIMED, token=wish.token, at=now)
    elif (row.state, row.token) != (LineState.CLAIMED, wish.token):
        return ClaimedLine()
    return ClaimedLine(text=row.line)


async def confirm(connection: Connection, written: LineWritten) -> LineReport:
    """Whoever took the line has written it; what was given up on before stays unknown."""
    row = (await connection.execute(_HELD, {"of": written.question_id})).one()
    if (row.state, row.token) == (LineState.CLAIMED, written.token):
        done = {"state": LineState.WRITTEN, "written_bytes": written.written_bytes, "at": await _now(connection)}
        done["is_over"] = 1  # its program goes on, and may ask the next thing before anybody is told of this one
        await _move(connection, written.question_id, LineState.CLAIMED, **done)
    return await report(connection, written.question_id)


async def close(connection: Connection, asked: LineQuestion) -> LineReport:
    """Wait no longer: what was not taken never is, and of what was taken and not confirmed nobody knows."""
    row = (await connection.execute(_HELD, {"of": asked.question_id})).one()
    becomes = {
        LineState.OPEN: LineState.CLOSED,
        LineState.OFFERED: LineState.CLOSED,
        LineState.CLAIMED: LineState.UNKNOWN,
    }
    state = LineState(row.state)
    if state in becomes:
        await _move(connection, asked.question_id, state, state=becomes[state], at=await _now(connection))
    return await report(connection, asked.question_id)


async def report(connection: Connection, question_id: str) -> LineReport:
    row = (await connection.execute(_ONE, {"of": question_id})).one()
    return LineReport(state=row.state, written_bytes=row.written_bytes, at=row.at)


async def interaction(connection: Connection, question_id: str) -> StoredInteraction | None:
    """An interaction as it is kept beside its question."""
    row = (await connection.execute(_ONE, {"of": question_id})).first()
    if row is None:
        return None
    run = (await connection.execute(_RUN, {"of": row.run_id})).one()
    return StoredInteraction(
        question_id=question_id,
        run=AskingRun.model_validate_json(row.asked),
        asked_by=run.asked_by,
        state=row.state,
        event_id=row.event_id,
        written_bytes=row.written_bytes,
        at=row.at,
        is_run_active=await _is_active(connection, run),
    )


async def interactions_of(connection: Connection, run_id: str) -> tuple[StoredInteraction, ...]:
    """All that a run has asked, in order."""
    ids = (await connection.execute(_OF_RUN, {"of": run_id})).scalars()
    found = [await interaction(connection, each) for each in ids]
    return tuple(each for each in found if each is not None)


async def interactions_named(connection: Connection, request_id: str) -> tuple[StoredInteraction, ...]:
    """What runs call so, a few of them."""
    ids = (await connection.execute(_NAMED, {"of": request_id})).scalars()
    found = [await interaction(connection, each) for each in ids]
    return tuple(each for each in found if each is not None)


async def run_of(connection: Connection, run_id: str) -> tuple[Run, str | None, bool] | None:
    """A run, the agent whose it is, and whether its process may still read."""
    row = (await connection.execute(_RUN, {"of": run_id})).first()
    if row is None:
        return None
    return Run.model_validate_json(row.run), row.asked_by, await _is_active(connection, row)


async def _move(connection: Connection, question_id: str, from_state: LineState, **becomes: Any) -> None:
    await connection.execute(_MOVE, {"of": question_id, "from_state": from_state, **becomes})


async def _now(connection: Connection) -> str:
    return audit.stamp(await database_now(connection))
