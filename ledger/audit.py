"""The audit: per approval or question a chain of entries, and one chain of the heads of those that closed.

What is called an approval's id here is a question's record as well (`ledger.records`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select, text, true, union_all

from assent.contracts.audit import AuditEntry, AuditRecord
from assent.payload import canonical_json, sha256
from ledger import crosscheck
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.records import BOTH, records_of
from ledger.schema import audit, audit_outbox, audit_sinks, seals
from ledger.statements import Statement, insert

_SEALING = 0x6173_7365
"""The advisory lock that orders seals on PostgreSQL."""

_MOST_AT_ONCE = 100
"""How many audits are sealed in one transaction."""

_FIRST_FIELDS = frozenset(
    (
        *("event", "at", "once", "actor", "surface", "proof", "payload_sha256", "event_id", "message_id"),
        *("decision", "ruling", "reason", "error", "content_sha256"),
    )
)
"""What every entry says, even that it has none; what later versions added is only said where it is."""

_ADD = Statement(insert(audit))
_PUT_OUT = Statement(
    insert(audit_outbox).from_select(
        ["sink", "approval_id", "seq"],
        select(audit_sinks.c.name, audit.c.approval_id, audit.c.seq).where(
            audit.c.approval_id == bindparam("of"), audit.c.seq > bindparam("after")
        ),
    )
)
"""Every sink is to get what was added."""
_ALONE = Statement(text("SELECT pg_try_advisory_xact_lock(:lock)"))
_ADD_SEALS = Statement(insert(seals))
_PAGE = Statement(
    select(audit)
    .where(audit.c.approval_id == bindparam("of"))
    .order_by(audit.c.seq)
    .offset(bindparam("offset"))
    .limit(bindparam("limit"))
)
_BODIES = Statement(select(audit.c.body).where(audit.c.approval_id == bindparam("of")).order_by(audit.c.seq))
_last_seal = select(seals.c.n, seals.c.hash).order_by(seals.c.n.desc()).limit(1)
_LAST_SEAL = Statement(_last_seal)
_head = _last_seal.subquery()
_waiting = union_all(*(select(each.waiting_for_seal) for each in BOTH)).subquery()
_WAITING = Statement(select(_waiting, _head.c.n, _head.c.hash).outerjoin(_head, true()))
"""What waits for its seal, beside the seal that comes before."""
_newest = (
    select(audit.c.approval_id, func.max(audit.c.seq).label("seq"))
    .where(audit.c.approval_id.in_(bindparam("ids", expanding=True)))
    .group_by(audit.c.approval_id)
    .subquery()
)
_HEADS = Statement(
    select(audit.c.approval_id, audit.c.seq, audit.c.hash).join(
        _newest, (audit.c.approval_id == _newest.c.approval_id) & (audit.c.seq == _newest.c.seq)
    )
)


def stamp(moment: datetime) -> str:
    """A time as the ledger writes it."""
    return moment.isoformat(timespec="microseconds")


async def lock(connection: Connection, *approval_ids: str) -> None:
    """Every transaction on approvals takes their rows first: in one order, nobody waits in a ring.

    SQLite lets one write at a time as it is.
    """
    if connection.dialect.name != "postgresql":
        return
    for records in BOTH:
        if ids := [each for each in approval_ids if records_of(each) is records]:
            await connection.execute(records.lock, {"ids": ids})


async def hold(connection: Connection, approval_id: str) -> datetime:
    """Take an approval's row first; since when it is held, by the database's clock."""
    if connection.dialect.name != "postgresql":
        return await database_now(connection)
    held = (await connection.execute(records_of(approval_id).lock, {"ids": [approval_id]})).one()
    return datetime.fromisoformat(held.since)


async def append(
    connection: Connection, approval_id: str, entries: Iterable[AuditEntry], *, is_held: bool = False
) -> None:
    """Chain entries to an approval's audit, each one once; after it has closed, it waits for a seal.

    is_held: whether this transaction holds the approval's row already, so that it need not be taken first.
    """
    entries, its, records = tuple(entries), {"of": approval_id}, records_of(approval_id)
    if not entries:
        return
    if not is_held:
        await lock(connection, approval_id)
    found = (await connection.execute(records.written, its)).all()
    written = [row for row in found if row.once is not None]
    known, head, seq = {row.once for row in written}, written[-1].hash if written else "", len(written)
    proposal = _proposal_of(written[0].proposal if written else None, entries[0])
    fresh: list[dict[str, Any]] = []
    for entry in entries:
        if entry.once in known:
            continue
        known.add(entry.once)
        seq += 1
        body = body_of(entry.of_proposal(proposal), approval_id, seq)
        chained = {"previous": head, "hash": (head := sha256(head + body))}
        fresh.append({"approval_id": approval_id, "seq": seq, "once": entry.once, "body": body, **chained})
    if fresh:
        await connection.execute(_ADD, fresh)
    if fresh and found[0].has_sinks:
        await connection.execute(_PUT_OUT, {**its, "after": seq - len(fresh)})
    if fresh and found[0].closed_at is not None:
        await connection.execute(records.wait_for_seal, its)


def _proposal_of(body: str | None, first: AuditEntry) -> AuditEntry:
    """The entry of the request; the first of these where none was written, or somebody has spoilt it."""
    try:
        return AuditEntry.model_validate_json(body) if body is not None else first
    except ValueError:
        return first


def body_of(entry: AuditEntry, approval_id: str, seq: int) -> str:
    """An entry as it is hashed. What entries did not have at first is left out where it is None, as it always was."""
    written = entry.model_dump(mode="json")
    kept = {name: value for name, value in written.items() if value is not None or name in _FIRST_FIELDS}
    return canonical_json({**kept, "approval_id": approval_id, "seq": seq}).decode()


async def seal(connection: Connection) -> bool:
    """Chain the heads of audits that wait for it to the heads of all that were sealed before.

    One at a time does so, in a transaction that does nothing else: whoever comes meanwhile leaves it to that one, or
    to the next, and nobody's ending waits for it. Tells whether more may wait.
    """
    if connection.dialect.name == "postgresql":
        alone = await connection.execute(_ALONE, {"lock": _SEALING})
        if not alone.scalar_one():
            return False
    found = (await connection.execute(_WAITING, {"limit": _MOST_AT_ONCE})).all()
    if not found:
        return False
    n, previous = found[0].n or 0, found[0].hash or ""
    ids = [ended.record for ended in found]
    heads = {row.approval_id: (row.seq, row.hash) for row in await connection.execute(_HEADS, {"ids": ids})}
    fresh: list[dict[str, Any]] = []
    for ended in found:
        approval_id, outcome = ended.record, crosscheck.outcome_sha256(ended.status, ended.outcome)
        n, (entries, head) = n + 1, heads.get(approval_id, (0, ""))
        digest = seal_hash(n, approval_id, entries, head, previous, outcome)
        row = {"n": n, "approval_id": approval_id, "entries": entries, "head": head, "previous": previous}
        fresh.append({**row, "outcome_sha256": outcome, "hash": digest})
        previous = digest
    await connection.execute(_ADD_SEALS, fresh)
    kinds = [(records, [each for each in ids if records_of(each) is records]) for records in BOTH]
    for records, some in kinds:
        if some:
            await connection.execute(records.sealed, {"ids": some})
    return any(len(some) == _MOST_AT_ONCE for _, some in kinds)


async def page(
    connection: Connection, approval_id: str, offset: int, limit: int
) -> tuple[tuple[AuditRecord, ...], int | None]:
    """The audit of one approval from *offset* on, as it is chained, and where the rest begins."""
    found = (await connection.execute(_PAGE, {"of": approval_id, "offset": offset, "limit": limit + 1})).all()
    records = tuple(
        AuditRecord(seq=row.seq, entry=AuditEntry.model_validate_json(row.body), previous=row.previous, hash=row.hash)
        for row in found[:limit]
    )
    return records, offset + limit if len(found) > limit else None


async def entries_of(connection: Connection, approval_id: str) -> list[AuditEntry]:
    """The audit of one approval, in order."""
    bodies = (await connection.execute(_BODIES, {"of": approval_id})).scalars()
    return [AuditEntry.model_validate_json(body) for body in bodies]


async def head_of_seals(connection: Connection) -> tuple[int, str]:
    """How many seals there are, and the last one's hash: what to keep outside, to notice a cut end."""
    last = (await connection.execute(_LAST_SEAL)).first()
    return (last.n, last.hash) if last else (0, "")


def seal_hash(n: int, approval_id: str, entries: int, head: str, previous: str, outcome: str | None) -> str:
    sealed: dict[str, Any] = {
        "n": n,
        "approval_id": approval_id,
        "entries": entries,
        "head": head,
        "previous": previous,
        **({} if outcome is None else {"outcome_sha256": outcome}),
    }
    return sha256(canonical_json(sealed))
