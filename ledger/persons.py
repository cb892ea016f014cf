"""Who is who: the ids of one person, as Feishu proved them. What an agent says of anybody teaches nothing."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.contracts.identity import Identity
from assent.persons import Person, kinds
from ledger.engine import insert
from ledger.schema import person_ids

_LASTING = frozenset({"open_id", "union_id"})
"""The kinds of id that stay with a person for good; a user_id can be changed, and given to somebody else."""
_LEARNING = 0x7065_7273
"""The advisory lock under which PostgreSQL learns, in a transaction that does nothing else."""


async def person(connection: AsyncConnection, identity: Identity) -> Person:
    """Whom an identity names, with everything that was proved of them."""
    persons = await _persons(connection, identity.tenant_key, identity.keys)
    known = await _keys(connection, identity.tenant_key, persons) if persons else frozenset()
    return Person.of(
        identity,
        known=known,
        standing=next(iter(persons)) if len(persons) == 1 else None,
        is_unproved=len(identity.keys) > 1 and not identity.keys <= known,
        is_mixed_up=len(persons) > 1 or not kinds(known).isdisjoint(kinds(identity.keys - known)),
    )


async def is_known(connection: AsyncConnection, identity: Identity) -> bool:
    """Whether there is nothing to learn from a proof that these ids are one person's."""
    tenant, keys = identity.tenant_key or "", identity.keys
    found = select(person_ids.c.person).where(person_ids.c.tenant_key == tenant, person_ids.c.key.in_(keys))
    standing = (await connection.execute(found)).scalars().all()
    return len(standing) == len(keys) and len(set(standing)) == 1


async def learn(connection: AsyncConnection, identity: Identity) -> None:
    """Remember that these ids, which were proved together, are one person's.

    People who turn out to be one become one. A user_id that was given to somebody else is theirs: the newest proof
    counts.
    """
    tenant = identity.tenant_key or ""
    lasting = {key for key in identity.keys if key.partition(":")[0] in _LASTING}
    if not lasting:
        return
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LEARNING})
    same = await _persons(connection, tenant, lasting)
    for passing in identity.keys - lasting:
        for other in await _persons(connection, tenant, {passing}) - same:
            if kinds(await _keys(connection, tenant, {other})).isdisjoint(kinds(lasting)):
                same.add(other)
        of_others = person_ids.c.key == passing
        former = person_ids.c.person.in_(same) & person_ids.c.key.startswith("user_id:")
        gone = delete(person_ids).where(person_ids.c.tenant_key == tenant, of_others | former)
        await connection.execute(gone)
    first = min(same, default=min(identity.keys))
    merged = update(person_ids).where(person_ids.c.tenant_key == tenant, person_ids.c.person.in_(same - {first}))
    await connection.execute(merged.values(person=first))
    for key in sorted(identity.keys):
        row = insert(connection, person_ids).values(tenant_key=tenant, key=key, person=first)
        await connection.execute(row.on_conflict_do_nothing())


async def _persons(connection: AsyncConnection, tenant: str | None, keys: Iterable[str]) -> set[str]:
    found = select(person_ids.c.person).where(person_ids.c.tenant_key == (tenant or ""), person_ids.c.key.in_(keys))
    return set((await connection.execute(found)).scalars())


async def _keys(connection: AsyncConnection, tenant: str | None, persons: Iterable[str]) -> frozenset[str]:
    found = select(person_ids.c.key).where(person_ids.c.tenant_key == (tenant or ""), person_ids.c.person.in_(persons))
    return frozenset((await connection.execute(found)).scalars())
