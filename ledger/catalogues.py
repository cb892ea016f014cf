"""The catalogue: what the tools say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from sqlalchemy import Text, bindparam, select, true

from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.persons import Person
from ledger import audit, persons
from ledger.engine import Connection
from ledger.schema import catalogue
from ledger.statements import Statement, insert

_row = insert(catalogue)
_PUT = Statement(
    _row.on_conflict_do_update(
        index_elements=["name"],
        set_={"manifest": _row.excluded.manifest, "published_at": _row.excluded.published_at},
    )
)
_OF = Statement(select(catalogue.c.manifest).where(catalogue.c.name == bindparam("name")))
_asked = select(bindparam("name", type_=Text).label("name")).subquery()
_known = persons.KNOWN.subquery()
_WITH_PERSON = Statement(
    select(catalogue.c.manifest, _known).select_from(
        _asked.outerjoin(catalogue, catalogue.c.name == _asked.c.name).outerjoin(_known, true())
    )
)
"""A tool, and who somebody is: in each row one of their ids."""
_PAGE = Statement(
    select(catalogue.c.manifest).order_by(catalogue.c.name).offset(bindparam("offset")).limit(bindparam("limit"))
)


async def publish(connection: Connection, manifests: Iterable[Manifest], now: datetime) -> None:
    """Let the approvals know of these tools; what was said of them before is replaced."""
    rows = [
        {"name": manifest.name, "manifest": manifest.model_dump_json(), "published_at": audit.stamp(now)}
        for manifest in sorted(manifests, key=lambda manifest: manifest.name)
    ]
    if rows:
        await connection.execute(_PUT, rows)


async def manifest_of(connection: Connection, tool: str) -> Manifest | None:
    text = (await connection.execute(_OF, {"name": tool})).scalar_one_or_none()
    return _read(text) if text else None


async def with_person(connection: Connection, tool: str, identity: Identity) -> tuple[Manifest | None, Person]:
    """A tool, and whom an identity names."""
    found = (await connection.execute(_WITH_PERSON, {"name": tool, **persons.named_by(identity)})).all()
    return _read(found[0].manifest) if found[0].manifest else None, persons.known_as(identity, found)


@lru_cache(maxsize=200)
def _read(text: str) -> Manifest:
    """A tool, read once for as long as it says the same of itself."""
    return Manifest.model_validate_json(text)


async def page(connection: Connection, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
    """The tools from *offset* on, by name, and where the rest begins."""
    found = (await connection.execute(_PAGE, {"offset": offset, "limit": limit + 1})).scalars()
    manifests = tuple(map(_read, found[:limit]))
    return manifests, offset + limit if len(found) > limit else None
