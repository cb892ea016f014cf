"""What came of claims: where a result lies, what is told of it, and to whom a sealed one is released."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from sqlalchemy import bindparam, select, update

from assent.content import Content
from assent.contracts.audit import AuditEvent
from assent.contracts.execute import Report, ReportKind
from assent.contracts.release import Release
from assent.payload import sha256
from ledger import audit
from ledger.engine import Connection
from ledger.schema import ClaimState, claims
from ledger.statements import Row, Statement

_CLAIM = Statement(select(claims).where(claims.c.consent == bindparam("consent")))
_OF_APPROVAL = Statement(
    select(claims).where(claims.c.approval_id == bindparam("approval_id")).order_by(claims.c.began_at)
)
_CHANGE = Statement(update(claims).where(claims.c.consent == bindparam("of")))


async def claim_of(connection: Connection, consent: str) -> Row | None:
    return (await connection.execute(_CLAIM, {"consent": consent})).first()


async def root_of(connection: Connection, consent: str) -> Row | None:
    """The claim that a consent waits for: its own, or the one whose call it met or was followed by."""
    claim = await claim_of(connection, consent)
    while claim is not None and claim.state == ClaimState.CLOSED and claim.answer is not None:
        claim = await claim_of(connection, claim.answered_by)
    return claim


async def path_of(
    connection: Connection,
    claim: Row,
    look_up: Callable[[Connection, str], Awaitable[Row | None]] = claim_of,
) -> list[Row]:
    """A claim, whatever answers for it, and at the end the one that holds the result."""
    path = [claim]
    while path[-1].answered_by and (source := await look_up(connection, path[-1].answered_by)) is not None:
        path.append(source)
    return path


def result_of(claim: Row) -> bytes:
    """All there is to know of a claim's end, as JSON: what was returned, else what went wrong."""
    return bytes(claim.content) if claim.content is not None else json.dumps(claim.error).encode("ascii")


def content_of(claim: Row) -> Content:
    return Content(data=claim.content if claim.content is not None else b"null", note=claim.note)


def is_readable(path: list[Row]) -> bool:
    """Whether the result at the end of a path may be told at its beginning."""
    return may_be_told(path, sha256(result_of(path[-1])))


def may_be_told(path: list[Row], digest: str) -> bool:
    """Whether a result with this hash may be told at the beginning of its path: the nearest that says anything decides.

    A release counts for the very result that was shown: when that changes, the seal holds again.
    """
    for claim in path:
        if claim.released == digest:
            return True
        if claim.sealed:
            return False
    return True


async def report(connection: Connection, claim: Row, *, to: Row | None = None) -> Report:
    """What a claim's row says, in the words of a report; of a sealed result only that there is one.

    to: the claim that asks, if it is another one.
    """
    path = await path_of(connection, claim if to is None else to)
    known = _report(claim, path[-1])
    if known.kind is ReportKind.NOT_BEGUN or is_readable(path):
        return known
    data = result_of(path[-1])
    return Report(
        kind=known.kind,
        sealed=True,
        content_bytes=len(data),
        content_sha256=sha256(data),
        idempotency_key=known.idempotency_key,
    )


async def content(connection: Connection, approval_id: str) -> bytes | None:
    """The whole stored result of an approval, its own or the one it replayed; None while it is sealed."""
    rows = await connection.execute(_OF_APPROVAL, {"approval_id": approval_id})
    for claim in reversed(rows.all()):
        path = await path_of(connection, claim)
        if path[-1].content is not None:
            return bytes(path[-1].content) if is_readable(path) else None
    return None


async def result(connection: Connection, approval_id: str) -> bytes | None:
    """What came of an approval's call, sealed or not: for those who decide about it, and for nobody else."""
    claim = await claim_of(connection, approval_id)
    if claim is None or claim.state == ClaimState.STARTED or (claim.state == ClaimState.CLOSED and not claim.answer):
        return None
    return result_of((await path_of(connection, claim))[-1])


async def release(connection: Connection, decided: Release) -> Report:
    """Let a sealed result be told, if it is the one that was decided about; else, or if not, it stays sealed."""
    await audit.lock(connection, decided.approval_id)
    claim = await claim_of(connection, decided.consent)
    if claim is None or claim.approval_id != decided.approval_id:
        return Report(kind=ReportKind.NOT_BEGUN, reason="nothing was run under this consent")
    digest = sha256(result_of((await path_of(connection, claim))[-1]))
    is_meant = decided.released and decided.content_sha256 == digest
    if is_meant or not decided.released:
        released = digest if is_meant else None
        await connection.execute(_CHANGE, {"of": claim.consent, "released": released})
    entries = [entry for entry in decided.entries if is_meant or entry.event is not AuditEvent.RELEASE]
    await audit.append(connection, decided.approval_id, entries)
    claim = await claim_of(connection, decided.consent)
    assert claim is not None, "a claim is never deleted"
    return await report(connection, claim)


def _report(claim: Row, source: Row) -> Report:
    match ClaimState(claim.state):
        case ClaimState.EXECUTED:
            return content_of(claim).report(ReportKind.EXECUTED, claim.authorize_url)
        case ClaimState.FAILED:
            return content_of(claim).report(ReportKind.FAILED, claim.authorize_url, claim.error)
        case ClaimState.CLOSED if claim.answer == ReportKind.REPLAYED:
            return content_of(source).report(ReportKind.REPLAYED, source.authorize_url)
        case ClaimState.CLOSED if claim.answer is None:
            return Report(kind=ReportKind.NOT_BEGUN, reason=claim.error)
        case ClaimState.CLOSED:
            return Report(kind=ReportKind(claim.answer), reason=claim.error, idempotency_key=claim.idempotency_key)
        case ClaimState.STARTED | ClaimState.UNKNOWN:
            return Report(kind=ReportKind.UNKNOWN, reason=claim.error, idempotency_key=claim.idempotency_key)
