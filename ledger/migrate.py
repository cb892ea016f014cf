"""Versioned migrations, run by Alembic inside our own connection."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.engine import reading, writing

_MIGRATING = 0x6173_7366
"""The advisory lock that lets one process migrate at a time on PostgreSQL."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def latest_version() -> str:
    """The version that this code expects."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "there is at least one migration"
    return head


async def upgrade(engine: AsyncEngine) -> None:
    """Bring the schema to the version that this code expects."""

    def migrate(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATING})
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    async with writing(engine) as connection:
        await connection.run_sync(migrate)


async def current_version(engine: AsyncEngine) -> str | None:
    """The version that the database has, None if it has none."""
    async with reading(engine) as connection:
        return await connection.run_sync(lambda sync: MigrationContext.configure(sync).get_current_revision())
