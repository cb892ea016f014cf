"""Who belongs to which chat, as Feishu said lately: inboxes read it here, and ask nobody."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, or_, select

from assent.contracts.identity import Identity
from ledger import audit
from ledger.engine import Connection
from ledger.schema import awaited_keys, chat_members, chats_seen
from ledger.statements import Statement, insert

CHAT = "chat:"
"""What the key of a chat begins with, whose members something waits for."""
KNOWN_FOR = timedelta(minutes=10)
"""How long it counts who belongs to a chat; after that nobody is told what waits for its members."""
_ASK_AGAIN = timedelta(minutes=5)

_insert_seen = insert(chats_seen)
_SEEN = Statement(
    _insert_seen.on_conflict_do_update(index_elements=["chat_id"], set_={"seen_at": _insert_seen.excluded.seen_at})
)
_MEMBERS = Statement(select(chat_members.c.open_id).where(chat_members.c.chat_id == bindparam("of")))
_ADD = Statement(insert(chat_members).on_conflict_do_nothing())
_REMOVE = Statement(
    delete(chat_members).where(chat_members.c.chat_id == bindparam("of"), chat_members.c.open_id == bindparam("gone"))
)
_CHATS_OF = Statement(
    select(chat_members.c.chat_id)
    .join(chats_seen, chats_seen.c.chat_id == chat_members.c.chat_id)
    .where(chat_members.c.open_id == bindparam("who"), chats_seen.c.seen_at > bindparam("since"))
    .order_by(chat_members.c.chat_id)
)
_UNKNOWN = Statement(
    select(awaited_keys.c.key)
    .outerjoin(chats_seen, CHAT + chats_seen.c.chat_id == awaited_keys.c.key)
    .where(awaited_keys.c.key > CHAT, awaited_keys.c.key < "chat;")
    .where(or_(chats_seen.c.seen_at.is_(None), chats_seen.c.seen_at < bindparam("before")))
    .group_by(awaited_keys.c.key, chats_seen.c.seen_at)
    .order_by(chats_seen.c.seen_at.nulls_first(), awaited_keys.c.key)
    .limit(bindparam("limit"))
)


async def keep(connection: Connection, chat_id: str, members: Collection[str], now: datetime) -> None:
    """Let these be the members of a chat."""
    await connection.execute(_SEEN, {"chat_id": chat_id, "seen_at": audit.stamp(now)})
    known = {row.open_id for row in await connection.execute(_MEMBERS, {"of": chat_id})}
    if added := sorted({*members} - known):
        await connection.execute(_ADD, [{"chat_id": chat_id, "open_id": each} for each in added])
    if gone := sorted(known - {*members}):
        await connection.execute(_REMOVE, [{"of": chat_id, "gone": each} for each in gone])


async def chats_of(connection: Connection, person: Identity, now: datetime) -> tuple[str, ...]:
    """The chats that a person is known to belong to: by their open_id, as Feishu names members."""
    if person.open_id is None:
        return ()
    found = await connection.execute(_CHATS_OF, {"who": person.open_id, "since": audit.stamp(now - KNOWN_FOR)})
    return tuple(row.chat_id for row in found)


async def unknown(connection: Connection, now: datetime, limit: int) -> tuple[str, ...]:
    """Chats whose members something waits for, and of which nobody has asked lately who they are."""
    found = await connection.execute(_UNKNOWN, {"before": audit.stamp(now - _ASK_AGAIN), "limit": limit})
    return tuple(row.key.removeprefix(CHAT) for row in found)
