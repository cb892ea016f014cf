"""The handles of what people sent to the bot: whose they are, and until when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from sqlalchemy import bindparam, delete, func, select, text, update

from assent.contracts.identity import Identity
from assent.files import SharedFile
from assent.files.shared_file import keys_within
from ledger import persons
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.schema import shared_file_owners, shared_files
from ledger.statements import Row, Statement, insert

_MOST_LISTED = 1000
_ONE_BY_ONE = 0x6669_6C65
"""The advisory lock under which PostgreSQL registers, in a transaction that does nothing else."""
_TICK = 1e-6
_END_OF_TIME = 1e12

_ALONE = Statement(text("SELECT pg_advisory_xact_lock(:lock)"))
_owned = select(shared_files, shared_file_owners.c.owner_key).join(
    shared_file_owners, shared_file_owners.c.file_id == shared_files.c.file_id
)
_theirs = select(shared_file_owners.c.file_id).where(
    shared_file_owners.c.owner_key.in_(bindparam("keys", expanding=True))
)
_BY_ID = Statement(_owned.where(shared_files.c.file_id == bindparam("wanted")))
_BY_MESSAGE = Statement(
    _owned.where(
        shared_files.c.message_id == bindparam("message"), shared_files.c.file_key == bindparam("key")
    ).order_by(shared_files.c.file_id)
)
_page = (
    select(shared_files.c.file_id)
    .where(
        shared_files.c.file_id.in_(_theirs),
        shared_files.c.created_at < bindparam("before"),
        (shared_files.c.expires_at == 0) | (shared_files.c.expires_at > bindparam("now")),
    )
    .order_by(shared_files.c.created_at.desc())
    .limit(bindparam("most"))
)
_RECENT = Statement(
    _owned.where(shared_files.c.file_id.in_(_page)).order_by(shared_files.c.created_at.desc(), shared_files.c.file_id)
)
_NEWEST = Statement(select(func.max(shared_files.c.created_at)).where(shared_files.c.file_id.in_(_theirs)))
_ADD = Statement(insert(shared_files))
_ADD_OWNER = Statement(insert(shared_file_owners))
_KEEP = Statement(update(shared_files).where(shared_files.c.file_id == bindparam("wanted")))
_is_over = (shared_files.c.expires_at != 0) & (shared_files.c.expires_at <= bindparam("now"))
_EXPIRED = Statement(select(shared_files.c.file_id).where(_is_over).limit(_MOST_LISTED))
_REMOVE = Statement(delete(shared_files).where(shared_files.c.file_id == bindparam("gone")))
_REMOVE_OWNERS = Statement(delete(shared_file_owners).where(shared_file_owners.c.file_id == bindparam("gone")))


async def keys_of(connection: Connection, user: Identity) -> tuple[str, ...]:
    """Every key that opens a person's files, by all that was proved of them; none of ids that are of two people."""
    person = await persons.person(connection, user)
    return () if person.is_mixed_up else keys_within(person.tenant_key, sorted(person.keys))


async def register(connection: Connection, user: Identity, file: SharedFile, ttl_seconds: float) -> SharedFile:
    """Keep what a person sent; the same again is the file that is there."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_ALONE, {"lock": _ONE_BY_ONE})
    keys = await keys_of(connection, user) or file.user_keys
    same = await connection.execute(_BY_MESSAGE, {"message": file.message_id, "key": file.file_key})
    for known in _files(same.all()):
        if known.belongs_to(keys):
            return known
    newest = (await connection.execute(_NEWEST, {"keys": list(keys)})).scalar() or 0.0
    now = max((await database_now(connection)).timestamp(), newest + _TICK)
    expires_at = now + ttl_seconds if ttl_seconds else 0.0
    kept = replace(file, user_keys=tuple(sorted(file.user_keys)), created_at=now, expires_at=expires_at)
    columns = {name: value for name, value in kept.to_dict().items() if name in shared_files.c}
    await connection.execute(_ADD, {**columns, "pinned": 0, "meta": json.dumps(file.meta)})
    shared = {"file_id": file.file_id, "message_id": file.message_id, "file_key": file.file_key}
    await connection.execute(_ADD_OWNER, [{**shared, "owner_key": key} for key in kept.user_keys])
    return kept


async def get(connection: Connection, user: Identity | None, file_id: str) -> SharedFile | None:
    """A person's file. Whatever is none, somebody else's or over takes the same statements to say no."""
    keys = await keys_of(connection, user) if user else ()
    now = (await database_now(connection)).timestamp()
    found = _files((await connection.execute(_BY_ID, {"wanted": file_id})).all())
    return next((file for file in found if file.belongs_to(keys) and not file.is_expired(now)), None)


async def recent(connection: Connection, user: Identity | None, limit: int) -> list[SharedFile]:
    """A person's files, the newest first."""
    keys = await keys_of(connection, user) if user else ()
    now = (await database_now(connection)).timestamp()
    found: list[SharedFile] = []
    before = _END_OF_TIME
    while len(found) < limit:
        most = min(limit, _MOST_LISTED)
        asked = {"keys": list(keys), "now": now, "before": before, "most": most}
        page = _files((await connection.execute(_RECENT, asked)).all())
        found += [file for file in page if file.belongs_to(keys)]
        if len(page) < most:
            break
        before = page[-1].created_at
    return found[: max(limit, 0)]


async def keep(connection: Connection, file_id: str) -> None:
    """Let a file not expire."""
    await connection.execute(_KEEP, {"wanted": file_id, "pinned": 1, "expires_at": 0.0})


async def describe(connection: Connection, file_id: str, name: str, media_type: str, size: int) -> None:
    """Say of a file what its bytes are, now that somebody has seen them."""
    await connection.execute(_KEEP, {"wanted": file_id, "name": name, "media_type": media_type, "size": size})


async def purge(connection: Connection) -> int:
    """Remove what has expired, up to a thousand; tells how many."""
    now = (await database_now(connection)).timestamp()
    gone = [{"gone": file_id} for file_id in (await connection.execute(_EXPIRED, {"now": now})).scalars()]
    if gone:
        await connection.execute(_REMOVE_OWNERS, gone)
        await connection.execute(_REMOVE, gone)
    return len(gone)


def _files(rows: Sequence[Row]) -> list[SharedFile]:
    """The files of these rows, of which each owner's key has one."""
    found = []
    for _, of_one in groupby(rows, key=lambda row: row.file_id):
        owned = list(of_one)
        values = owned[0]._asdict()
        keys = tuple(sorted(row.owner_key for row in owned))
        given = {**values, "pinned": bool(values["pinned"]), "meta": json.loads(values["meta"]), "user_keys": keys}
        found.append(SharedFile.from_dict(given))
    return found
