"""Is the audit what was written? Read as it was at one moment, some approvals at a time, however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy import BindParameter, bindparam, select

from assent.contracts.audit import AuditEntry, ClosingHead
from assent.payload import sha256
from ledger import crosscheck, heads, overrides
from ledger.audit import body_of, seal_hash, stamp
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.records import BOTH, QUESTIONS, Records, called
from ledger.schema import approvals, audit, claims, questions, revisions, seals
from ledger.statements import Row, Statement

_PAGE = 200
"""How many approvals are looked at together."""
_SEALED_WITHIN = timedelta(minutes=15)
"""How long a closed audit may wait for its seal: the next ending, or the sweeper, brings it."""
_CLOCKS_DIFFER = timedelta(minutes=1)
"""How far ahead of now that waiting may seem to have begun: databases fail over."""

_ids: BindParameter[str] = bindparam("ids", expanding=True)
_is_approval = select(approvals.c.approval_id).where(approvals.c.approval_id == audit.c.approval_id).exists()
_is_question = select(questions.c.record).where(questions.c.record == audit.c.approval_id).exists()
_is_audited = select(audit.c.approval_id).where(audit.c.approval_id == seals.c.approval_id).exists()
_SEALS = Statement(select(seals).order_by(seals.c.n))
_UNRECORDED = Statement(select(audit.c.approval_id).where(~_is_approval, ~_is_question).distinct())
_UNAUDITED = Statement(select(seals.c.approval_id).where(~_is_audited).distinct())
_CHAINS = Statement(select(audit).where(audit.c.approval_id.in_(_ids)).order_by(audit.c.approval_id, audit.c.seq))
_SEALS_OF = Statement(select(seals).where(seals.c.approval_id.in_(_ids)).order_by(seals.c.n))
_RESULTS = Statement(
    select(claims.c.approval_id, claims.c.consent, claims.c.content).where(
        claims.c.approval_id.in_(_ids), claims.c.content.is_not(None)
    )
)
_EDITS = Statement(
    select(revisions, approvals.c.outcome)
    .join(approvals, approvals.c.approval_id == revisions.c.approval_id)
    .where(revisions.c.approval_id.in_(_ids))
)


async def verify(
    connection: Connection, expected_head: str | None = None, kept: Iterable[ClosingHead] = ()
) -> list[str]:
    """Every way in which the audit is not what was written; empty if it is whole.

    connection: one whose transaction sees everything as it was at one moment.
    kept: heads that were kept elsewhere, and must still be part of it.
    """
    elsewhere: dict[str, list[ClosingHead]] = {}
    for each in kept:
        elsewhere.setdefault(each.approval_id, []).append(each)
    problems = [*await _verify_seals(connection, expected_head), *await _verify_strays(connection)]
    now = await database_now(connection)
    may_wait = stamp(now - _SEALED_WITHIN), stamp(now + _CLOCKS_DIFFER)
    for records in BOTH:
        ids = await _some(connection, records, "")
        while ids:
            there = {approval_id: elsewhere.pop(approval_id) for approval_id in ids if approval_id in elsewhere}
            problems += await _Page(connection, records, ids, may_wait, there).problems()
            ids = await _some(connection, records, ids[-1])
    for erased in elsewhere.values():
        problems += heads.gone(erased, (), None)
    problems += await crosscheck.remembered(connection)
    problems += await crosscheck.settled(connection)
    problems += await overrides.problems(connection)
    return list(dict.fromkeys(problems))


async def _some(connection: Connection, records: Records, after: str) -> list[str]:
    return (await connection.execute(records.ids, {"after": after, "limit": _PAGE})).scalars()


async def _verify_seals(connection: Connection, expected_head: str | None) -> list[str]:
    """The chain of the seals itself."""
    problems: list[str] = []
    previous, count = "", 0
    seen_head = expected_head is None
    async for row in connection.stream(_SEALS):
        count += 1
        if row.n != count:
            problems.append(f"seal {row.n}: {row.n - count} seals before it are gone")
            count = row.n
        if row.previous != previous:
            problems.append(f"seal {row.n}: it does not follow the seal before it")
        if row.hash != seal_hash(row.n, row.approval_id, row.entries, row.head, row.previous, row.outcome_sha256):
            problems.append(f"seal {row.n}: it was altered")
        previous = row.hash
        seen_head = seen_head or row.hash == expected_head
    if not seen_head:
        problems.append("the expected head is not among the seals: the end was cut off or rewritten")
    return problems


async def _verify_strays(connection: Connection) -> list[str]:
    """What is left of approvals that were removed."""
    gone, erased = "it has an audit, and its record is gone", "it was sealed, and its whole audit is gone"
    return [
        *[f"{called(row.approval_id)}: {gone}" async for row in connection.stream(_UNRECORDED)],
        *[f"{called(row.approval_id)}: {erased}" async for row in connection.stream(_UNAUDITED)],
    ]


class _Page:
    """Some approvals: their chains, their seals, and whether what is stored beside is what the chains say."""

    def __init__(
        self,
        connection: Connection,
        records: Records,
        ids: list[str],
        may_wait: tuple[str, str],
        kept: dict[str, list[ClosingHead]],
    ) -> None:
        self._connection = connection
        self._records = records
        self._ids = ids
        self._may_wait = may_wait
        """Between which times the waiting for a seal may have begun."""
        self._chains: dict[str, list[str]] = {approval_id: [] for approval_id in ids}
        self._kept = kept
        self._sealed: dict[str, int] = {}
        self._sealed_outcomes: dict[str, str] = {}
        self._hashes: set[tuple[str, str | None]] = set()
        """What the audits say was run, returned or shown, by approval."""
        self._problems: list[str] = []

    async def problems(self) -> list[str]:
        await self._follow_chains()
        await self._compare_seals()
        await self._compare_records()
        if self._records is QUESTIONS:
            return self._problems
        await self._compare_results()
        await self._compare_edits()
        return self._problems

    async def _follow_chains(self) -> None:
        async for row in self._connection.stream(_CHAINS, {"ids": self._ids}):
            chain = self._chains[row.approval_id]
            where = f"{called(row.approval_id)}, entry {row.seq}"
            if row.seq != len(chain) + 1:
                self._problems.append(f"{where}: {row.seq - len(chain) - 1} entries before it are gone")
                chain.extend([""] * (row.seq - len(chain) - 1))
            if row.previous != (chain[-1] if chain else ""):
                self._problems.append(f"{where}: it does not follow the entry before it")
            entry = _parsed(row)
            if row.hash != sha256(row.previous + row.body) or entry is None:
                self._problems.append(f"{where}: it was altered")
            chain.append(row.hash)
            if entry is not None:
                payload = [] if entry.payload is None else [sha256(entry.payload)]
                said = (entry.content_sha256, entry.payload_sha256, *payload)
                self._hashes |= {(row.approval_id, digest) for digest in said}

    async def _compare_seals(self) -> None:
        async for row in self._connection.stream(_SEALS_OF, {"ids": self._ids}):
            chain, where = self._chains[row.approval_id], called(row.approval_id)
            self._sealed[row.approval_id] = row.entries
            if row.outcome_sha256 is not None:
                self._sealed_outcomes[row.approval_id] = row.outcome_sha256
            if len(chain) < row.entries:
                self._problems.append(f"{where}: sealed with {row.entries} entries, only {len(chain)} are left")
            elif chain[row.entries - 1] != row.head:
                self._problems.append(f"{where}: entry {row.entries} is not the one that was sealed")

    async def _compare_records(self) -> None:
        async for row in self._connection.stream(self._records.all, {"ids": self._ids}):
            where, chain = called(row.record), self._chains[row.record]
            if not chain:
                self._problems.append(f"{where}: it has a record, and its audit is gone")
            outcome = crosscheck.outcome_sha256(row.status, row.outcome)
            if self._sealed_outcomes.get(row.record, outcome) != outcome:
                self._problems.append(f"{where}: the recorded outcome is not the one that was sealed")
            elif row.closed_at is None and (row.outcome is not None or row.status is not None):
                self._problems.append(f"{where}: it has an outcome, and was never closed")
            self._problems += heads.gone(self._kept.get(row.record, ()), chain, outcome)
            earliest, latest = self._may_wait
            waits = row.unsealed_since is not None and earliest < row.unsealed_since < latest
            if row.closed_at is not None and not waits and self._sealed.get(row.record) != len(chain):
                self._problems.append(f"{where}: it is closed, and its last entries are not sealed")
            if self._records is QUESTIONS:
                self._problems += [f"{where}: {why}" for why in crosscheck.question(row, self._hashes)]
            elif row.plan is not None and not self._is_audited(row.record, json.loads(row.plan)["payload"]):
                self._problems.append(f"{where}: the stored payload is not the one audited")

    async def _compare_results(self) -> None:
        async for row in self._connection.stream(_RESULTS, {"ids": self._ids}, at_once=1):
            if not self._is_audited(row.approval_id, row.content):
                where = f"approval {row.approval_id}"
                self._problems.append(f"{where}: the stored result of {row.consent} is not the one audited")

    async def _compare_edits(self) -> None:
        async for row in self._connection.stream(_EDITS, {"ids": self._ids}):
            digest = sha256(json.loads(row.plan)["payload"])
            ran = row.outcome is not None and json.loads(row.outcome)["payload_sha256"] == row.payload_sha256
            if digest != row.payload_sha256 or (ran and (row.approval_id, digest) not in self._hashes):
                self._problems.append(f"approval {row.approval_id}: its edited payload is not the one audited")

    def _is_audited(self, approval_id: str, content: str | bytes) -> bool:
        return (approval_id, sha256(content)) in self._hashes


def _parsed(row: Row) -> AuditEntry | None:
    """An entry, if it is written as entries are."""
    try:
        entry = AuditEntry.model_validate_json(row.body)
    except ValueError:
        return None
    return entry if body_of(entry, row.approval_id, row.seq) == row.body and entry.once == row.once else None
