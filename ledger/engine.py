"""Opening the ledger's database so that what was committed survives a power cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Insert, Table, event, exc, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

_READ_ONLY = "assent_read_only"
_queues: WeakKeyDictionary[AsyncEngine, asyncio.Lock] = WeakKeyDictionary()
_REFUSALS = frozenset({"22", "23", "42", "54", "P0"})
"""The classes of PostgreSQL's errors that mean no: bad data, constraints, syntax, limits, triggers."""

STATEMENT_SECONDS = 20.0
"""How long PostgreSQL is waited for to answer one statement."""
IDLE_SECONDS = 10.0
"""How long PostgreSQL bears with a transaction that its client leaves alone: what it locked, others wait for."""
_GONE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20s",
}
"""How soon it notices that a client's machine is gone."""
_UNLIMITED = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
"""For one who only reads, and holds no lock; and for who changes the schema, while nobody else is to go on."""
_DURABLE = {"synchronous_commit": "on", "application_name": "assent"}


def open_engine(url: str) -> AsyncEngine:
    """An engine for `sqlite+aiosqlite://` or `postgresql+asyncpg://`, durable in the way the guarantee needs."""
    parsed = make_url(url)
    match parsed.drivername:
        case "sqlite+aiosqlite":
            if parsed.database and parsed.database != ":memory:":
                _make_private(Path(parsed.database))
            engine = create_async_engine(  # all connections are kept: opening one costs more than most that it does
                parsed, pool_size=12, max_overflow=0, hide_parameters=True, connect_args={"timeout": 20}
            )
            event.listen(engine.sync_engine, "connect", _harden_sqlite)
            event.listen(engine.sync_engine, "begin", _begin_sqlite)
            event.listen(engine.sync_engine, "invalidate", _let_go)
            return engine
        case "postgresql+asyncpg":
            return create_async_engine(
                parsed,
                pool_size=20,
                max_overflow=10,
                hide_parameters=True,
                connect_args={
                    "timeout": 5,
                    "command_timeout": STATEMENT_SECONDS,
                    "server_settings": {**_DURABLE, **_GONE, **_limits()},
                },
            )
        case other:
            raise ValueError(
                f"ASSENT_DATABASE_URL names the driver {other!r}; use sqlite+aiosqlite:///… or postgresql+asyncpg://…"
            )


def _limits() -> dict[str, str]:
    """The server gives up a statement before we stop listening for it, and a stopped process before long."""
    return {
        "statement_timeout": f"{int(STATEMENT_SECONDS * 750)}ms",
        "idle_in_transaction_session_timeout": f"{int(IDLE_SECONDS * 1000)}ms",
    }


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that writes; on SQLite it takes the write lock at once, so it cannot fail half-way for it.

    SQLite lets one write at a time and wakes whoever waits by chance: within a process they queue in order instead.
    """
    queue = _queues.setdefault(engine, asyncio.Lock()) if engine.dialect.name == "sqlite" else nullcontext()
    async with queue, engine.begin() as connection:
        yield connection


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that only reads, and waits for nobody."""
    async with engine.connect() as connection:
        await connection.execution_options(**{_READ_ONLY: True})
        yield connection


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that reads everything as it was at one moment, for as long as that takes."""
    if engine.dialect.name == "sqlite":
        async with reading(engine) as connection:
            yield connection
        return
    async with _patient(engine) as patient, patient.connect() as connection:
        await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        yield connection


@asynccontextmanager
async def rebuilding(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that changes the schema, for as long as that takes."""
    if engine.dialect.name == "sqlite":
        async with writing(engine) as connection:
            yield connection
        return
    async with _patient(engine) as patient, patient.begin() as connection:
        yield connection


@asynccontextmanager
async def _patient(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    """The same database, for one connection that is limited neither by the server nor here."""
    patient = create_async_engine(
        engine.url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"timeout": 5, "server_settings": {**_DURABLE, **_GONE, **_UNLIMITED}},
    )
    try:
        yield patient
    finally:
        await patient.dispose()


def insert(connection: AsyncConnection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that knows `ON CONFLICT`, in the connection's dialect."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


async def inserted(connection: AsyncConnection, statement: Insert) -> bool:
    """Whether an insert that does nothing on conflict did something."""
    return (await connection.execute(statement)).rowcount == 1


def _make_private(path: Path) -> None:
    """The file is its owner's alone; the directory too, if it is ours to make."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)


def _harden_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _let_go(connection: Any, _record: Any, _error: Any) -> None:
    """Work that was cut off gives its write lock back at once, not when its connection is collected."""
    if connection is not None:
        connection.rollback()


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(_READ_ONLY)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def is_refusal(error: Exception) -> bool:
    """Whether the database understood and said no, so that asking again is in vain."""
    if not isinstance(error, exc.DBAPIError) or error.connection_invalidated:
        return False
    if code := getattr(error.orig, "sqlstate", None):
        return str(code)[:2] in _REFUSALS
    return isinstance(error, exc.IntegrityError | exc.DataError | exc.ProgrammingError | exc.NotSupportedError)
