"""The ledger's one clock: the database's. Two times that different processes wrote are only comparable by it."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import text

from ledger.engine import Connection
from ledger.statements import Statement

_SQLITE = Statement(text("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')"))
_POSTGRESQL = Statement(text("SELECT clock_timestamp()"))  # not now(), which stands still while one waits for a lock


async def database_now(connection: Connection) -> datetime:
    """What time it is where the ledger is kept, whatever this process thinks."""
    if connection.dialect.name == "sqlite":
        return datetime.fromisoformat((await connection.execute(_SQLITE)).scalar_one()).replace(tzinfo=UTC)
    moment: datetime = (await connection.execute(_POSTGRESQL)).scalar_one()
    return moment.astimezone(UTC)
