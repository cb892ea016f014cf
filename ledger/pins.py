"""Bytes that are kept: for each approval which, and each only once, however many keep it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, text, update

from assent.contracts.values import Frozen
from ledger import audit
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.schema import approvals, claims, file_chunks, file_pins, shared_files
from ledger.statements import Statement, insert

OWN = ""
"""Who keeps a file for its own sake, and for no approval's."""
CHUNK = 512 * 1024
_UNFINISHED = timedelta(hours=1)
"""How long bytes may lie here before somebody keeps them."""
_PINNING = 0x7069_6E73
"""The advisory lock of PostgreSQL under which bytes are kept or removed, so that none goes while it is counted on."""

_ALONE = Statement(text("SELECT pg_advisory_xact_lock(:lock)"))
_OF = Statement(select(file_pins).where(file_pins.c.holder == bindparam("of")))
_ONE = Statement(
    select(file_pins).where(file_pins.c.holder == bindparam("of"), file_pins.c.file_id == bindparam("which"))
)
_ADD_CHUNK = Statement(insert(file_chunks).on_conflict_do_nothing())
_STORED = Statement(
    select(func.count(), func.coalesce(func.sum(func.length(file_chunks.c.data)), 0)).where(
        file_chunks.c.sha256 == bindparam("digest")
    )
)
_CHUNK = Statement(
    select(file_chunks.c.data).where(file_chunks.c.sha256 == bindparam("digest"), file_chunks.c.n == bindparam("place"))
)
_ADD = Statement(insert(file_pins).on_conflict_do_nothing())
_REPLACE = Statement(
    update(file_pins).where(file_pins.c.holder == bindparam("of"), file_pins.c.file_id == bindparam("which"))
)

_unsettled = claims.alias()
_own_claim = claims.alias()
_may_run_again = exists(
    select(_own_claim.c.consent)
    .join(
        _unsettled,
        or_(
            _unsettled.c.idempotency_key == _own_claim.c.idempotency_key,
            _unsettled.c.consent == _own_claim.c.answered_by,
        ),
    )
    .where(_own_claim.c.consent == file_pins.c.holder, _unsettled.c.state.in_(("started", "unknown")))
)
_approval = select(approvals.c.approval_id).where(approvals.c.approval_id == file_pins.c.holder)
_LET_GO = Statement(
    delete(file_pins).where(
        or_(
            and_(file_pins.c.holder == OWN, ~exists(select(1).where(shared_files.c.file_id == file_pins.c.file_id))),
            and_(file_pins.c.holder != OWN, ~exists(_approval), file_pins.c.until < bindparam("now")),
            and_(exists(_approval.where(approvals.c.status.is_not(None))), ~_may_run_again),
        )
    )
)
_UNUSED = Statement(
    delete(file_chunks).where(
        ~exists(select(1).where(file_pins.c.sha256 == file_chunks.c.sha256)),
        file_chunks.c.written_at < bindparam("before"),
    )
)


class Pin(Frozen):
    """Which bytes are kept of a file."""

    file_id: str
    sha256: str
    size: int
    media_type: str
    name: str
    preview: str | None = None


async def pins_of(connection: Connection, holder: str) -> dict[str, Pin]:
    """What an approval keeps, by the file's id."""
    rows = await connection.execute(_OF, {"of": holder})
    return {row.file_id: Pin.model_validate(row._asdict()) for row in rows}


async def has_bytes(connection: Connection, sha256: str, size: int) -> bool:
    """Whether all of the bytes are here."""
    count, stored = (await connection.execute(_STORED, {"digest": sha256})).one()
    return bool(stored == size and count == -(-size // CHUNK))


async def put(connection: Connection, sha256: str, n: int, data: bytes) -> None:
    """Keep one part of the bytes, for now: until somebody pins them they may be removed."""
    now = audit.stamp(await database_now(connection))
    await connection.execute(_ADD_CHUNK, {"sha256": sha256, "n": n, "data": data, "written_at": now})


async def pin(connection: Connection, holder: str, pin: Pin, until: datetime, *, replaces: bool = False) -> Pin | None:
    """Keep bytes that are here, as the first said; None if not all of them are here any more."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_ALONE, {"lock": _PINNING})
    known = (await connection.execute(_ONE, {"of": holder, "which": pin.file_id})).first()
    if known is not None and not replaces:
        return Pin.model_validate(known._asdict())
    if not await has_bytes(connection, pin.sha256, pin.size):
        return None
    values = pin.model_dump()
    if known is not None:
        del values["file_id"]
        await connection.execute(_REPLACE, {"of": holder, "which": pin.file_id, **values})
    else:
        await connection.execute(_ADD, {"holder": holder, "until": audit.stamp(until), **values})
    return pin


async def part(connection: Connection, sha256: str, n: int) -> bytes | None:
    """One part of the bytes."""
    data: bytes | None = (await connection.execute(_CHUNK, {"digest": sha256, "place": n})).scalar()
    return data


async def purge(connection: Connection) -> None:
    """Let go of what no approval can need any more, then of bytes that nobody keeps."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_ALONE, {"lock": _PINNING})
    now = await database_now(connection)
    await connection.execute(_LET_GO, {"now": audit.stamp(now)})
    await connection.execute(_UNUSED, {"before": audit.stamp(now - _UNFINISHED)})
