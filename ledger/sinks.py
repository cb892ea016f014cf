"""Where each entry of the audit goes besides: which it still lacks, and which process brings it there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta

from sqlalchemy import bindparam, delete, or_, select, update

from assent.contracts.audit import AuditEntry, AuditRecord
from ledger.audit import stamp
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.schema import audit, audit_outbox, audit_sinks
from ledger.statements import Statement, insert

_KNOWN = Statement(select(audit_sinks.c.name))
_ADD = Statement(insert(audit_sinks).on_conflict_do_nothing())
_REMOVE = Statement(delete(audit_sinks).where(audit_sinks.c.name == bindparam("gone")))
_FORGET = Statement(delete(audit_outbox).where(audit_outbox.c.sink == bindparam("gone")))
_HOLD = Statement(
    update(audit_sinks)
    .where(audit_sinks.c.name == bindparam("sink"))
    .where(
        or_(
            audit_sinks.c.holder == bindparam("me"),
            audit_sinks.c.held_until.is_(None),
            audit_sinks.c.held_until < bindparam("now"),
        )
    )
)
_WAITING = Statement(
    select(audit.c.approval_id, audit.c.seq, audit.c.body, audit.c.previous, audit.c.hash)
    .join(
        audit_outbox,
        (audit_outbox.c.approval_id == audit.c.approval_id) & (audit_outbox.c.seq == audit.c.seq),
    )
    .where(audit_outbox.c.sink == bindparam("of"), audit_outbox.c.approval_id > bindparam("after"))
    .order_by(audit.c.approval_id, audit.c.seq)
    .limit(bindparam("limit"))
)
_TAKEN = Statement(
    delete(audit_outbox).where(
        audit_outbox.c.sink == bindparam("of"),
        audit_outbox.c.approval_id == bindparam("its"),
        audit_outbox.c.seq <= bindparam("up_to"),
    )
)


async def register(connection: Connection, names: Collection[str]) -> None:
    """Let these be the sinks. One that is new gets what is written from now on; one that is gone, nothing any more."""
    known = {row.name for row in await connection.execute(_KNOWN)}
    for gone in sorted(known - {*names}):
        await connection.execute(_REMOVE, {"gone": gone})
        await connection.execute(_FORGET, {"gone": gone})
    if added := sorted({*names} - known):
        await connection.execute(_ADD, [{"name": name} for name in added])


async def hold(connection: Connection, sink: str, holder: str, lasting: timedelta) -> bool:
    """Let one process alone bring a sink what it lacks, for a while."""
    now = await database_now(connection)
    said = {"holder": holder, "held_until": stamp(now + lasting)}
    held = await connection.execute(_HOLD, {"sink": sink, "me": holder, "now": stamp(now), **said})
    return held.rowcount > 0


async def waiting(connection: Connection, sink: str, after: str, limit: int) -> list[tuple[str, AuditRecord]]:
    """What a sink lacks, in order for each approval, of the approvals that come after one."""
    rows = await connection.execute(_WAITING, {"of": sink, "after": after, "limit": limit})
    return [
        (
            row.approval_id,
            AuditRecord(
                seq=row.seq, entry=AuditEntry.model_validate_json(row.body), previous=row.previous, hash=row.hash
            ),
        )
        for row in rows.all()
    ]


async def taken(connection: Connection, sink: str, records: Iterable[tuple[str, int]]) -> None:
    """A sink has these, each with all before it."""
    for approval_id, seq in records:
        await connection.execute(_TAKEN, {"of": sink, "its": approval_id, "up_to": seq})
