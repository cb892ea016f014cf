"""The heads of sealed audits: kept elsewhere, they find what is cut or rewritten here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import bindparam, select

from assent.contracts.audit import ClosingHead
from ledger.engine import Connection
from ledger.records import called
from ledger.schema import seals
from ledger.statements import Statement

_oldest_first = select(seals.c.approval_id, seals.c.entries, seals.c.head, seals.c.outcome_sha256).order_by(seals.c.n)
_FIRST = Statement(_oldest_first.where(seals.c.approval_id == bindparam("of")).limit(1))
_ALL = Statement(_oldest_first)


async def closing_head(connection: Connection, approval_id: str) -> ClosingHead | None:
    """What was sealed when an approval closed; what was added to its audit since does not change it."""
    row = (await connection.execute(_FIRST, {"of": approval_id})).first()
    return _read(row) if row else None


async def all_heads(connection: Connection) -> list[ClosingHead]:
    """All that was ever sealed, the oldest first."""
    return [_read(row) for row in await connection.execute(_ALL)]


def gone(kept: Iterable[ClosingHead], chain: Sequence[str], outcome: str | None) -> list[str]:
    """What of one approval was kept elsewhere and is no longer here as it was.

    chain: the hashes of its audit, in order.
    outcome: what stands for the outcome that is recorded.
    """
    problems = []
    for each in kept:
        where = called(each.approval_id)
        if len(chain) < each.entries:
            problems.append(f"{where}: {each.entries} entries were kept elsewhere, only {len(chain)} are left")
        elif each.entries < 1 or chain[each.entries - 1] != each.head:
            problems.append(f"{where}: entry {each.entries} is not the one that was kept elsewhere")
        if each.outcome_sha256 not in (None, outcome):
            problems.append(f"{where}: the recorded outcome is not the one that was kept elsewhere")
    return problems


def _read(row: Any) -> ClosingHead:
    return ClosingHead(
        approval_id=row.approval_id, entries=row.entries, head=row.head, outcome_sha256=row.outcome_sha256
    )
