"""What has an audit, messages and a seal: approvals, and questions. Both tables have the same columns for that."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text, bindparam, case, func, select, update

from assent import names
from ledger.clock import STAMP
from ledger.schema import approvals, audit, audit_sinks, questions
from ledger.statements import Statement

PROPOSAL = case((audit.c.seq == 1, audit.c.body)).label("proposal")
"""The first entry of an audit, which says what was asked."""
HAS_SINKS = select(audit_sinks.c.name).exists().label("has_sinks")
"""Whether anybody is to get what is added."""


class Records:
    """One of the two tables, and what is asked of it whichever it is."""

    def __init__(self, table: Table, key: Column[str], word: str) -> None:
        its_own = key == bindparam("of")
        some = key.in_(bindparam("ids", expanding=True))
        self.word = word
        """What one of them is called."""
        held = select(key).where(some).order_by(key).with_for_update().subquery()
        count = select(func.count().label("rows")).select_from(held).subquery()
        self.lock = Statement(select(STAMP.label("since"), count))  # the clock is asked once they are held
        one = select(bindparam("of", type_=Text).label("its")).subquery()  # there may be an audit without its record
        self.written = Statement(
            select(table.c.closed_at, audit.c.once, audit.c.hash, PROPOSAL, HAS_SINKS)
            .select_from(one.outerjoin(table, key == one.c.its).outerjoin(audit, audit.c.approval_id == one.c.its))
            .order_by(audit.c.seq)
        )
        self.status = Statement(select(table.c.status).where(its_own).with_for_update())
        self.wait_for_seal = Statement(
            update(table).where(its_own).values(unsealed_since=func.coalesce(table.c.unsealed_since, STAMP))
        )
        self.waiting_for_seal = (
            select(key.label("record"), table.c.status, table.c.outcome)
            .where(table.c.unsealed_since.is_not(None))
            .order_by(table.c.unsealed_since)
            .limit(bindparam("limit"))
            .with_for_update(skip_locked=True)
            .cte(f"{table.name}_waiting")
        )
        self.sealed = Statement(update(table).where(some).values(unsealed_since=None))
        self.ids = Statement(select(key).where(key > bindparam("after")).order_by(key).limit(bindparam("limit")))
        self.all = Statement(select(key.label("record"), table).where(some).order_by(key))


APPROVALS = Records(approvals, approvals.c.approval_id, "approval")
QUESTIONS = Records(questions, questions.c.record, "question")
BOTH = (APPROVALS, QUESTIONS)


def records_of(record: str) -> Records:
    """The table in which something stands that is called so."""
    return APPROVALS if names.question_of(record) is None else QUESTIONS


def called(record: str) -> str:
    """What people call it: `approval a`, `question q`."""
    question_id = names.question_of(record)
    return f"approval {record}" if question_id is None else f"question {question_id}"
