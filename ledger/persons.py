"""Who is who: the ids of one person, as Feishu proved them. What an agent says of anybody teaches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, delete, select, text, update

from assent.contracts.identity import Identity
from assent.persons import Person, kinds
from ledger.engine import Connection
from ledger.schema import person_ids
from ledger.statements import Row, Statement, insert

_LASTING = frozenset({"open_id", "union_id"})
"""The kinds of id that stay with a person for good; a user_id can be changed, and given to somebody else."""
_LEARNING = 0x7065_7273
"""The advisory lock under which PostgreSQL learns, in a transaction that does nothing else."""

_in_tenant = person_ids.c.tenant_key == bindparam("tenant")
_are_meant = person_ids.c.person.in_(bindparam("persons", expanding=True))
_ALONE = Statement(text("SELECT pg_advisory_xact_lock(:lock)"))
_PERSONS = Statement(
    select(person_ids.c.person).where(_in_tenant, person_ids.c.key.in_(bindparam("keys", expanding=True)))
)
_named = person_ids.alias()
KNOWN = (
    select(person_ids.c.person.label("known_person"), person_ids.c.key.label("known_key"))
    .join(_named, (_named.c.tenant_key == person_ids.c.tenant_key) & (_named.c.person == person_ids.c.person))
    .where(_named.c.tenant_key == bindparam("tenant"), _named.c.key.in_(bindparam("keys", expanding=True)))
)
"""Every id that was proved of whomever an identity may name."""
_KNOWN = Statement(KNOWN)
_KEYS = Statement(select(person_ids.c.key).where(_in_tenant, _are_meant))
_PASSED_ON = Statement(
    delete(person_ids).where(
        _in_tenant,
        (person_ids.c.key == bindparam("passing")) | (_are_meant & person_ids.c.key.startswith("user_id:")),
    )
)
_MERGE = Statement(update(person_ids).where(_in_tenant, _are_meant))
_ADD = Statement(insert(person_ids).on_conflict_do_nothing())


async def person(connection: Connection, identity: Identity) -> Person:
    """Whom an identity names, with everything that was proved of them."""
    return known_as(identity, await connection.execute(_KNOWN, named_by(identity)))


def named_by(identity: Identity) -> dict[str, Any]:
    """What `KNOWN` asks for."""
    return {"tenant": identity.tenant_key or "", "keys": list(identity.keys)}


def known_as(identity: Identity, found: Iterable[Row]) -> Person:
    """Whom an identity names, by what `KNOWN` found."""
    proved = [(row.known_person, row.known_key) for row in found if row.known_key is not None]
    persons, known = {person for person, _ in proved}, frozenset(key for _, key in proved)
    return Person.of(
        identity,
        known=known,
        standing=next(iter(persons)) if len(persons) == 1 else None,
        is_unproved=len(identity.keys) > 1 and not identity.keys <= known,
        is_mixed_up=len(persons) > 1 or not kinds(known).isdisjoint(kinds(identity.keys - known)),
    )


async def is_known(connection: Connection, identity: Identity) -> bool:
    """Whether there is nothing to learn from a proof that these ids are one person's."""
    tenant, keys = identity.tenant_key or "", identity.keys
    standing = (await connection.execute(_PERSONS, {"tenant": tenant, "keys": list(keys)})).scalars()
    return len(standing) == len(keys) and len(set(standing)) == 1


async def learn(connection: Connection, identity: Identity) -> None:
    """Remember that these ids, which were proved together, are one person's.

    People who turn out to be one become one. A user_id that was given to somebody else is theirs: the newest proof
    counts.
    """
    tenant = identity.tenant_key or ""
    lasting = {key for key in identity.keys if key.partition(":")[0] in _LASTING}
    if not lasting:
        return
    if connection.dialect.name == "postgresql":
        await connection.execute(_ALONE, {"lock": _LEARNING})
    same = await _persons(connection, tenant, lasting)
    for passing in identity.keys - lasting:
        for other in await _persons(connection, tenant, {passing}) - same:
            if kinds(await _keys(connection, tenant, {other})).isdisjoint(kinds(lasting)):
                same.add(other)
        await connection.execute(_PASSED_ON, {"tenant": tenant, "passing": passing, "persons": list(same)})
    first = min(same, default=min(identity.keys))
    if others := list(same - {first}):
        await connection.execute(_MERGE, {"tenant": tenant, "persons": others, "person": first})
    known = [{"tenant_key": tenant, "key": key, "person": first} for key in sorted(identity.keys)]
    await connection.execute(_ADD, known)


async def _persons(connection: Connection, tenant: str | None, keys: Iterable[str]) -> set[str]:
    return set((await connection.execute(_PERSONS, {"tenant": tenant or "", "keys": list(keys)})).scalars())


async def _keys(connection: Connection, tenant: str | None, persons: Iterable[str]) -> frozenset[str]:
    meant = {"tenant": tenant or "", "persons": list(persons)}
    return frozenset((await connection.execute(_KEYS, meant)).scalars())
