"""The catalogue: what the tools say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.contracts.manifest import Manifest
from ledger import audit
from ledger.engine import insert
from ledger.schema import catalogue


async def publish(connection: AsyncConnection, manifests: Iterable[Manifest], now: datetime) -> None:
    """Let the approvals know of these tools; what was said of them before is replaced."""
    for manifest in sorted(manifests, key=lambda manifest: manifest.name):
        row = insert(connection, catalogue).values(
            name=manifest.name, manifest=manifest.model_dump_json(), published_at=audit.stamp(now)
        )
        changed = {"manifest": row.excluded.manifest, "published_at": row.excluded.published_at}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=changed))


async def manifest_of(connection: AsyncConnection, tool: str) -> Manifest | None:
    found = await connection.execute(select(catalogue.c.manifest).where(catalogue.c.name == tool))
    text = found.scalar_one_or_none()
    return Manifest.model_validate_json(text) if text else None


async def page(connection: AsyncConnection, offset: int, limit: int) -> tuple[tuple[Manifest, ...], int | None]:
    """The tools from *offset* on, by name, and where the rest begins."""
    some = select(catalogue.c.manifest).order_by(catalogue.c.name).offset(offset).limit(limit + 1)
    found = (await connection.execute(some)).scalars().all()
    manifests = tuple(Manifest.model_validate_json(text) for text in found[:limit])
    return manifests, offset + limit if len(found) > limit else None
