"""Versioned migrations, run by Alembic inside our own connection.

Alembic is imported only where it migrates: a worker merely looks at the version, and starts the faster for it.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.engine import reading, rebuilding
from ledger.schema import VERSION

MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATING = 0x6173_7366
"""The advisory lock that lets one process migrate at a time on PostgreSQL."""


class NewerSchema(Exception):
    """The database was made by a newer version of this code."""


async def upgrade(engine: AsyncEngine) -> None:
    """Bring the schema to the version that this code expects."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    def migrate(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATING})
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, VERSION)

    async with rebuilding(engine) as connection:
        try:
            await connection.run_sync(migrate)
        except CommandError as error:
            raise NewerSchema(str(error)) from None


async def current_version(engine: AsyncEngine) -> str | None:
    """The version that the database has, None if it has none."""
    async with reading(engine) as connection:
        if not await connection.run_sync(lambda sync: inspect(sync).has_table("alembic_version")):
            return None
        version: str | None = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar()
        return version
