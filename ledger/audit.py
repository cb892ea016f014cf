"""The audit: per approval a chain of entries, and one chain of the heads of those that closed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.messages import AuditEntry, AuditRecord
from assent.payload import canonical_json, sha256
from ledger.engine import insert
from ledger.schema import approvals, audit, claims, revisions, seals

_SEALING = 0x6173_7365
"""The advisory lock that orders seals on PostgreSQL."""

_FIRST_FIELDS = frozenset(
    (
        *("event", "at", "once", "actor", "surface", "proof", "payload_sha256", "event_id", "message_id"),
        *("decision", "ruling", "reason", "error", "content_sha256"),
    )
)
"""What every entry says, even that it has none; what later versions added is only said where it is."""


def stamp(moment: datetime) -> str:
    """A time as the ledger writes it."""
    return moment.isoformat(timespec="microseconds")


async def lock(connection: AsyncConnection, *approval_ids: str) -> None:
    """Every transaction on approvals takes their rows first: in one order, nobody waits in a ring."""
    await connection.execute(
        select(approvals.c.approval_id)
        .where(approvals.c.approval_id.in_(approval_ids))
        .order_by(approvals.c.approval_id)
        .with_for_update()
    )


async def append(
    connection: AsyncConnection, approval_id: str, entries: Iterable[AuditEntry], *, closing: bool = False
) -> None:
    """Chain entries to an approval's audit, each one once; seal it as it closes, and anew after that."""
    closed = (
        await connection.execute(
            select(approvals.c.closed_at).where(approvals.c.approval_id == approval_id).with_for_update()
        )
    ).scalar_one_or_none()
    written = (
        await connection.execute(
            select(audit.c.once, audit.c.hash).where(audit.c.approval_id == approval_id).order_by(audit.c.seq)
        )
    ).all()
    known, head, seq = {row.once for row in written}, written[-1].hash if written else "", len(written)
    fresh: list[dict[str, Any]] = []
    for entry in entries:
        if entry.once in known:
            continue
        known.add(entry.once)
        seq += 1
        body = _body(entry, approval_id, seq)
        chained = {"previous": head, "hash": (head := sha256(head + body))}
        fresh.append({"approval_id": approval_id, "seq": seq, "once": entry.once, "body": body, **chained})
    if fresh:
        await connection.execute(insert(connection, audit), fresh)
    if closing or (closed is not None and fresh):
        await seal(connection, approval_id)


def _body(entry: AuditEntry, approval_id: str, seq: int) -> str:
    """An entry as it is hashed. What entries did not have at first is left out where it is None, as it always was."""
    written = entry.model_dump(mode="json")
    kept = {name: value for name, value in written.items() if value is not None or name in _FIRST_FIELDS}
    return canonical_json({**kept, "approval_id": approval_id, "seq": seq}).decode()


async def seal(connection: AsyncConnection, approval_id: str) -> None:
    """Chain an approval's present head to the heads of all that closed before."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SEALING})
    entries, head = await _head(connection, approval_id)
    last = (await connection.execute(select(seals.c.n, seals.c.hash).order_by(seals.c.n.desc()).limit(1))).first()
    n, previous = (last.n + 1, last.hash) if last else (1, "")
    await connection.execute(
        insert(connection, seals).values(
            n=n,
            approval_id=approval_id,
            entries=entries,
            head=head,
            previous=previous,
            hash=_seal_hash(n, approval_id, entries, head, previous),
        )
    )


async def page(
    connection: AsyncConnection, approval_id: str, offset: int, limit: int
) -> tuple[tuple[AuditRecord, ...], int | None]:
    """The audit of one approval from *offset* on, as it is chained, and where the rest begins."""
    some = select(audit).where(audit.c.approval_id == approval_id).order_by(audit.c.seq)
    found = (await connection.execute(some.offset(offset).limit(limit + 1))).all()
    records = tuple(
        AuditRecord(seq=row.seq, entry=AuditEntry.model_validate_json(row.body), previous=row.previous, hash=row.hash)
        for row in found[:limit]
    )
    return records, offset + limit if len(found) > limit else None


async def verify(connection: AsyncConnection, expected_head: str | None = None) -> list[str]:
    """Every way in which the audit is not what was written; empty if it is whole."""
    chains, problems = await _verify_chains(connection)
    return problems + await _verify_seals(connection, chains, expected_head) + await _verify_contents(connection)


async def head_of_seals(connection: AsyncConnection) -> tuple[int, str]:
    """How many seals there are, and the last one's hash: what to keep outside, to notice a cut end."""
    last = (await connection.execute(select(seals.c.n, seals.c.hash).order_by(seals.c.n.desc()).limit(1))).first()
    return (last.n, last.hash) if last else (0, "")


async def _head(connection: AsyncConnection, approval_id: str) -> tuple[int, str]:
    last = (
        await connection.execute(
            select(audit.c.seq, audit.c.hash)
            .where(audit.c.approval_id == approval_id)
            .order_by(audit.c.seq.desc())
            .limit(1)
        )
    ).first()
    return (last.seq, last.hash) if last else (0, "")


def _seal_hash(n: int, approval_id: str, entries: int, head: str, previous: str) -> str:
    sealed: dict[str, Any] = {
        "n": n,
        "approval_id": approval_id,
        "entries": entries,
        "head": head,
        "previous": previous,
    }
    return sha256(canonical_json(sealed))


async def _verify_chains(connection: AsyncConnection) -> tuple[dict[str, list[str]], list[str]]:
    problems: list[str] = []
    chains: dict[str, list[str]] = {}
    rows = await connection.stream(select(audit).order_by(audit.c.approval_id, audit.c.seq))
    async for row in rows:
        chain = chains.setdefault(row.approval_id, [])
        where = f"approval {row.approval_id}, entry {row.seq}"
        if row.seq != len(chain) + 1:
            problems.append(f"{where}: {row.seq - len(chain) - 1} entries before it are gone")
            chain.extend([""] * (row.seq - len(chain) - 1))
        if row.previous != (chain[-1] if chain else ""):
            problems.append(f"{where}: it does not follow the entry before it")
        if row.hash != sha256(row.previous + row.body) or not _body_matches(
            row.body, row.approval_id, row.seq, row.once
        ):
            problems.append(f"{where}: it was altered")
        chain.append(row.hash)
    return chains, problems


def _body_matches(body: str, approval_id: str, seq: int, once: str) -> bool:
    parsed = _parsed(body)
    if parsed is None:
        return False
    return _body(parsed, approval_id, seq) == body and parsed.once == once


async def _verify_seals(
    connection: AsyncConnection, chains: dict[str, list[str]], expected_head: str | None
) -> list[str]:
    problems: list[str] = []
    previous, count = "", 0
    seen_head = expected_head is None
    sealed: dict[str, int] = {}
    async for row in await connection.stream(select(seals).order_by(seals.c.n)):
        count += 1
        if row.n != count:
            problems.append(f"seal {row.n}: {row.n - count} seals before it are gone")
            count = row.n
        if row.previous != previous:
            problems.append(f"seal {row.n}: it does not follow the seal before it")
        if row.hash != _seal_hash(row.n, row.approval_id, row.entries, row.head, row.previous):
            problems.append(f"seal {row.n}: it was altered")
        chain = chains.get(row.approval_id)
        if chain is None:
            problems.append(f"approval {row.approval_id}: it was sealed, and its whole audit is gone")
        elif len(chain) < row.entries:
            problems.append(
                f"approval {row.approval_id}: sealed with {row.entries} entries, only {len(chain)} are left"
            )
        elif chain[row.entries - 1] != row.head:
            problems.append(f"approval {row.approval_id}: entry {row.entries} is not the one that was sealed")
        sealed[row.approval_id] = row.entries
        previous = row.hash
        seen_head = seen_head or row.hash == expected_head
    if not seen_head:
        problems.append("the expected head is not among the seals: the end was cut off or rewritten")
    closed = await connection.execute(select(approvals.c.approval_id).where(approvals.c.closed_at.is_not(None)))
    for approval_id in closed.scalars():
        if sealed.get(approval_id) != len(chains.get(approval_id, [])):
            problems.append(f"approval {approval_id}: it is closed, and its last entries are not sealed")
    known = set((await connection.execute(select(approvals.c.approval_id))).scalars())
    problems += [f"approval {gone}: it has an audit, and its record is gone" for gone in chains.keys() - known]
    audited = select(audit.c.approval_id).where(audit.c.approval_id == approvals.c.approval_id)
    without = await connection.execute(select(approvals.c.approval_id).where(~audited.exists()))
    problems += [f"approval {name}: it has a record, and its audit is gone" for name in without.scalars()]
    return sorted(set(problems), key=problems.index)


async def _verify_contents(connection: AsyncConnection) -> list[str]:
    problems: list[str] = []
    hashes: set[tuple[str, str | None]] = set()
    for row in await connection.execute(select(audit.c.approval_id, audit.c.body)):
        if entry := _parsed(row.body):
            hashes |= {(row.approval_id, entry.content_sha256), (row.approval_id, entry.payload_sha256)}
            hashes |= {(row.approval_id, sha256(entry.payload))} if entry.payload is not None else set()
    async for row in await connection.stream(select(claims).where(claims.c.content.is_not(None))):
        if (row.approval_id, sha256(row.content)) not in hashes:
            problems.append(f"approval {row.approval_id}: the stored result of {row.consent} is not the one audited")
    async for row in await connection.stream(select(approvals).where(approvals.c.plan.is_not(None))):
        if (row.approval_id, sha256(json.loads(row.plan)["payload"])) not in hashes:
            problems.append(f"approval {row.approval_id}: the stored payload is not the one audited")
    ended = select(revisions, approvals.c.outcome).join(approvals, approvals.c.approval_id == revisions.c.approval_id)
    async for row in await connection.stream(ended):
        digest = sha256(json.loads(row.plan)["payload"])
        ran = row.outcome is not None and json.loads(row.outcome)["payload_sha256"] == row.payload_sha256
        if digest != row.payload_sha256 or (ran and (row.approval_id, digest) not in hashes):
            problems.append(f"approval {row.approval_id}: its edited payload is not the one audited")
    return problems


def _parsed(body: str) -> AuditEntry | None:
    try:
        return AuditEntry.model_validate_json(body)
    except ValueError:
        return None
