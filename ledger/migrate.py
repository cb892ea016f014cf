"""Versioned migrations, run by Alembic on a connection of SQLAlchemy's own.

Alembic is imported only where it migrates: a worker merely looks at the version, and starts the faster for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import create_engine, event, exc, text
from sqlalchemy.pool import NullPool

from ledger.engine import Connection, Engine
from ledger.errors import OutOfReach
from ledger.schema import VERSION
from ledger.statements import Statement

MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATING = 0x6173_7366
"""The advisory lock that lets one process migrate at a time on PostgreSQL."""
_TABLE = {
    "sqlite": Statement(text("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")),
    "postgresql": Statement(text("SELECT CAST(to_regclass('alembic_version') AS text)")),
}
_VERSION = Statement(text("SELECT version_num FROM alembic_version"))

Done = TypeVar("Done")


class NewerSchema(Exception):
    """The database was made by a newer version of this code."""


async def upgrade(engine: Engine, version: str = VERSION) -> None:
    """Bring the schema to the version that this code expects."""
    if await current_version(engine) == version:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    def migrate(connection: SyncConnection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATING})
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, version)

    try:
        await rebuild(engine, migrate)
    except CommandError as error:
        raise NewerSchema(str(error)) from None
    except exc.SQLAlchemyError as error:
        raise OutOfReach(f"the schema was not changed: {error}") from None


async def current_version(engine: Engine) -> str | None:
    """The version that the database has, None if it has none."""
    return await engine.read(_version)


async def _version(connection: Connection) -> str | None:
    if (await connection.execute(_TABLE[connection.dialect.name])).scalar() is None:
        return None
    version: str | None = (await connection.execute(_VERSION)).scalar()
    return version


async def rebuild(engine: Engine, work: Callable[[SyncConnection], Done]) -> Done:
    """Change the schema in one transaction, for as long as that takes."""
    if engine.dialect.name == "sqlite":
        return await asyncio.to_thread(_rebuild_sqlite, str(engine.url.database), work)
    from sqlalchemy.ext.asyncio import create_async_engine

    from ledger.postgresql import patient

    patient_engine = create_async_engine(engine.url, poolclass=NullPool, hide_parameters=True, connect_args=patient())
    try:
        async with patient_engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await patient_engine.dispose()


def _rebuild_sqlite(path: str, work: Callable[[SyncConnection], Done]) -> Done:
    from ledger.sqlite import connect

    with contextlib.closing(connect(path)) as driver:
        engine = create_engine("sqlite://", creator=lambda: driver, poolclass=NullPool, hide_parameters=True)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with engine.begin() as connection:
            return work(connection)
