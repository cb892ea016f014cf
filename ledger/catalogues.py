"""The catalogue: what the tools say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import bindparam, select

from assent.contracts.manifest import Manifest
from ledger import audit
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
    return Manifest.model_validate_json(text) if text else None


async def page(connection: Connection, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
    """The tools from *offset* on, by name, and where the rest begins."""
    found = (await connection.execute(_PAGE, {"offset": offset, "limit": limit + 1})).scalars()
    manifests = tuple(Manifest.model_validate_json(text) for text in found[:limit])
    return manifests, offset + limit if len(found) > limit else None
