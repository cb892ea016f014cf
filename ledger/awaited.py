"""Whom open approvals wait for, found by person or chat: an inbox costs what it lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from sqlalchemy import BindParameter, bindparam, delete, select, update

from assent.client.reader import Waiting
from assent.contracts.approvers import Approvers, Awaited, Deciders
from assent.contracts.decision import Stage
from assent.contracts.identity import Identity
from ledger import audit, memberships
from ledger.engine import Connection
from ledger.memberships import CHAT
from ledger.open_approvals import IS_OPEN, LIVES_IN, OLDEST_FIRST
from ledger.schema import approvals, awaited_keys, claims
from ledger.statements import Row, Statement, insert

_ANYONE = "anyone"

_STANDING = Statement(select(approvals.c.awaited, approvals.c.status).where(approvals.c.approval_id == bindparam("of")))
_LET_STAND = Statement(update(approvals).where(approvals.c.approval_id == bindparam("of")))
_ADD = Statement(insert(awaited_keys).on_conflict_do_nothing())
_REMOVE = Statement(delete(awaited_keys).where(awaited_keys.c.approval_id == bindparam("of")))
_begun = select(claims.c.consent).where(claims.c.consent == approvals.c.approval_id).exists()
_subject = approvals.c.approval_id, approvals.c.tool, approvals.c.requester, approvals.c.asked_by, approvals.c.thread_id
_keys: BindParameter[str] = bindparam("keys", expanding=True)
_FOUND = Statement(
    select(*_subject, approvals.c.awaited, _begun.label("is_begun"))
    .where(approvals.c.approval_id.in_(select(awaited_keys.c.approval_id).where(awaited_keys.c.key.in_(_keys))))
    .where(*IS_OPEN, LIVES_IN)
    .order_by(*OLDEST_FIRST)
    .offset(bindparam("offset"))
    .limit(bindparam("limit"))
)


class Waits(Waiting):
    """An approval that waits for somebody, and for whom."""

    awaited: Awaited


def keys_of(deciders: Deciders | None) -> Iterator[str]:
    """By what those are found whom an approval or a question waits for."""
    for group in deciders.groups if deciders else ():
        approvers = group.approvers
        takers = (taker for _, taker in group.passed)
        for person in (*approvers.people, *group.called, *takers):
            yield from person.keys
        match approvers.kind:
            case Approvers.Kind.REQUESTER if deciders:
                yield from deciders.requester.keys
            case Approvers.Kind.ANYONE:
                yield _ANYONE
            case Approvers.Kind.CHAT:
                yield f"{CHAT}{approvers.chat_id}"


def keys_for(person: Identity, chats: Collection[str]) -> list[str]:
    """By what a person finds what waits for them, who belongs to these chats."""
    return [*sorted(person.keys), _ANYONE, *(f"{CHAT}{chat}" for chat in chats)]


async def add(connection: Connection, record: str, deciders: Deciders | None) -> None:
    """Let a new approval or question be found by those it waits for."""
    keys = [{"key": key, "approval_id": record} for key in dict.fromkeys(keys_of(deciders))]
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
    await add(connection, approval_id, awaited.deciders if awaited else None)


async def remove(connection: Connection, approval_id: str) -> None:
    """Nobody finds it any more."""
    await connection.execute(_REMOVE, {"of": approval_id})


async def found_by(
    connection: Connection, person: Identity, now: datetime, offset: int, limit: int, namespace: str | None = None
) -> tuple[tuple[Waits, ...], int | None]:
    """What waits for this person from *offset* on, the oldest first, and where the rest begins."""
    chats = await memberships.chats_of(connection, person, now)
    page = {
        "keys": keys_for(person, chats),
        "now": audit.stamp(now),
        "namespace": namespace,
        "offset": offset,
        "limit": limit + 1,
    }
    rows = (await connection.execute(_FOUND, page)).all()
    waiting = [_waits(row) for row in rows[:limit] if row.awaited is not None]
    found = tuple(each for each in waiting if each is not None and each.awaited.asks_member(person, chats))
    return found, offset + limit if len(rows) > limit else None


def _waits(row: Row) -> Waits | None:
    """What waits, unless it is a call that was begun."""
    awaited = Awaited.model_validate_json(row.awaited)
    if awaited.subject is Stage.CALL and row.is_begun:
        return None
    requester = Identity.model_validate_json(row.requester)
    return Waits(
        approval_id=row.approval_id,
        tool=row.tool,
        requester=requester,
        asked_by=row.asked_by,
        thread_id=row.thread_id,
        awaited=awaited,
    )
