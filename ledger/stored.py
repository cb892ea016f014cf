"""Stored results, read piece by piece: of a claim everything but its content is looked at first."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from sqlalchemy import Integer, bindparam, func, select

from assent.client.reader import CHUNK
from ledger.engine import Connection
from ledger.results import may_be_told, path_of
from ledger.schema import ClaimState, claims
from ledger.statements import Row, Statement

_slim = select(
    *[column for column in claims.c if column.name != "content"], func.length(claims.c.content).label("size")
)
"""Claims without their contents, which may hold many megabytes."""
_CLAIM = Statement(_slim.where(claims.c.consent == bindparam("consent")))
_OF_APPROVAL = Statement(_slim.where(claims.c.approval_id == bindparam("of")).order_by(claims.c.began_at))
_PIECE = Statement(
    select(func.substr(claims.c.content, bindparam("start", type_=Integer), bindparam("length", type_=Integer))).where(
        claims.c.consent == bindparam("consent")
    )
)


class Source(NamedTuple):
    """Where a result lies: in a claim's content, else in what went wrong."""

    consent: str
    size: int
    error: bytes | None = None
    """The whole of it, where it is what went wrong."""


async def _slim_claim(connection: Connection, consent: str) -> Row | None:
    return (await connection.execute(_CLAIM, {"consent": consent})).first()


async def content(connection: Connection, approval_id: str) -> Source | None:
    """The whole stored result of an approval, its own or the one it replayed; None while it is sealed."""
    rows = await connection.execute(_OF_APPROVAL, {"of": approval_id})
    for claim in reversed(rows.all()):
        path = await path_of(connection, claim, _slim_claim)
        if path[-1].size is not None:
            source = _source(path[-1])
            return source if await _is_readable(connection, path, source) else None
    return None


async def result(connection: Connection, approval_id: str) -> Source | None:
    """What came of an approval's call, sealed or not: for those who decide about it, and for nobody else."""
    claim = await _slim_claim(connection, approval_id)
    if claim is None or claim.state == ClaimState.STARTED or (claim.state == ClaimState.CLOSED and not claim.answer):
        return None
    return _source((await path_of(connection, claim, _slim_claim))[-1])


async def piece(connection: Connection, source: Source, start: int, length: int) -> bytes:
    """So many bytes of a result, from one on."""
    if source.error is not None:
        return source.error[start : start + length]
    found = await connection.execute(_PIECE, {"start": start + 1, "length": length, "consent": source.consent})
    return bytes(found.scalar_one_or_none() or b"")


def _source(claim: Row) -> Source:
    if claim.size is not None:
        return Source(claim.consent, claim.size)
    error = json.dumps(claim.error).encode("ascii")
    return Source(claim.consent, len(error), error)


async def _is_readable(connection: Connection, path: list[Row], source: Source) -> bool:
    """Whether the result at the end of a path may be told at its beginning; one that nobody sealed is not hashed."""
    is_sealed = any(claim.sealed for claim in path)
    return not is_sealed or may_be_told(path, await _digest(connection, source))


async def _digest(connection: Connection, source: Source) -> str:
    digest = hashlib.sha256()
    for start in range(0, source.size, CHUNK):
        digest.update(await piece(connection, source, start, CHUNK))
    return digest.hexdigest()
