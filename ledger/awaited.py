"""Whom open approvals wait for, found by person or chat: an inbox costs what it lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from sqlalchemy import BindParameter, bindparam, delete, select, update

from assent.contracts.approvers import Approvers, Awaited
from assent.contracts.decision import Stage
from assent.contracts.identity import Identity
from assent.contracts.values import Frozen
from ledger import audit
from ledger.engine import Connection
from ledger.open_approvals import IS_OPEN, LIVES_IN, OLDEST_FIRST
from ledger.schema import approvals, awaited_keys, claims
from ledger.statements import Statement, insert

_ANYONE = "anyone"
_CHAT = "chat:"

_STANDING = Statement(select(approvals.c.awaited, approvals.c.status).where(approvals.c.approval_id == bindparam("of")))
_LET_STAND = Statement(update(approvals).where(approvals.c.approval_id == bindparam("of")))
_ADD = Statement(insert(awaited_keys).on_conflict_do_nothing())
_REMOVE = Statement(delete(awaited_keys).where(awaited_keys.c.approval_id == bindparam("of")))
_CHATS = Statement(
    select(awaited_keys.c.key)
    .where(awaited_keys.c.key > _CHAT, awaited_keys.c.key < "chat;")
    .distinct()
    .order_by(awaited_keys.c.key)
    .limit(bindparam("limit"))
)
_begun = select(claims.c.consent).where(claims.c.consent == approvals.c.approval_id).exists()
_keys: BindParameter[str] = bindparam("keys", expanding=True)
_FOUND = Statement(
    select(approvals.c.approval_id, approvals.c.awaited, _begun.label("is_begun"))
    .where(approvals.c.approval_id.in_(select(awaited_keys.c.approval_id).where(awaited_keys.c.key.in_(_keys))))
    .where(*IS_OPEN, LIVES_IN)
    .order_by(*OLDEST_FIRST)
    .offset(bindparam("offset"))
    .limit(bindparam("limit"))
)


class Waits(Frozen):
    """An approval that waits for somebody."""

    approval_id: str
    awaited: Awaited


def keys_of(awaited: Awaited | None) -> Iterator[str]:
    """By what those are found whom an approval waits for."""
    for group in awaited.deciders.groups if awaited else ():
        approvers = group.approvers
        for person in (*approvers.people, *group.called):
            yield from person.keys
        match approvers.kind:
            case Approvers.Kind.REQUESTER if awaited:
                yield from awaited.deciders.requester.keys
            case Approvers.Kind.ANYONE:
                yield _ANYONE
            case Approvers.Kind.CHAT:
                yield f"{_CHAT}{approvers.chat_id}"


async def add(connection: Connection, approval_id: str, awaited: Awaited | None) -> None:
    """Let a new approval be found by those it waits for."""
    keys = [{"key": key, "approval_id": approval_id} for key in dict.fromkeys(keys_of(awaited))]
    if keys:
        await connection.execute(_ADD, keys)


async def change(connection: Connection, approval_id: str, awaited: Awaited | None) -> None:
    """It waits for others now, or for nobody; of one that has ended, nothing changes any more."""
    row = (await connection.execute(_STANDING, {"of": approval_id})).first()
    text = awaited.model_dump_json() if awaited else None
    if row is None or row.status is not None or row.awaited == text:
        return
    await connection.execute(_LET_STAND, {"of": approval_id, "awaited": text})
    await remove(connection, approval_id)
    await add(connection, approval_id, awaited)


async def remove(connection: Connection, approval_id: str) -> None:
    """Nobody finds it any more."""
    await connection.execute(_REMOVE, {"of": approval_id})


async def chats(connection: Connection, limit: int) -> tuple[str, ...]:
    """The chats whose members something waits for."""
    found = await connection.execute(_CHATS, {"limit": limit})
    return tuple(row.key.removeprefix(_CHAT) for row in found)


async def found_by(
    connection: Connection,
    person: Identity,
    member_of: Collection[str],
    now: datetime,
    offset: int,
    limit: int,
    namespace: str | None = None,
) -> tuple[tuple[Waits, ...], int | None]:
    """What waits for this person from *offset* on, the oldest first, and where the rest begins.

    member_of: the chats that they belong to.
    """
    keys = [*sorted(person.keys), _ANYONE, *(f"{_CHAT}{chat}" for chat in member_of)]
    page = {"keys": keys, "now": audit.stamp(now), "namespace": namespace, "offset": offset, "limit": limit + 1}
    rows = (await connection.execute(_FOUND, page)).all()
    waiting = [
        Waits(approval_id=row.approval_id, awaited=Awaited.model_validate_json(row.awaited))
        for row in rows[:limit]
        if row.awaited is not None
    ]
    begun = {row.approval_id for row in rows if row.is_begun}
    mine = (each for each in waiting if each.awaited.subject is Stage.RESULT or each.approval_id not in begun)
    found = tuple(each for each in mine if _asks(each.awaited, person, member_of))
    return found, offset + limit if len(rows) > limit else None


def _asks(awaited: Awaited, person: Identity, member_of: Collection[str]) -> bool:
    must_belong = awaited.chats_to_ask(person)
    return awaited.asks(person) and (not must_belong or not set(member_of).isdisjoint(must_belong))
