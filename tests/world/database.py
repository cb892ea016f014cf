"""The ledger's database in memory, without threads: what is awaited is there at once."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

import ledger.engine
from ledger.schema import metadata
from tests.world import clock


class _Cursor:
    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    async def __aenter__(self) -> _Cursor:
        return self

    async def execute(self, statement: str, values: Any = ()) -> None:
        self._cursor.execute(statement, values)

    async def executemany(self, statement: str, values: Any) -> None:
        self._cursor.executemany(statement, values)

    async def fetchone(self) -> Any:
        return self._cursor.fetchone()

    async def fetchmany(self, size: int = 1) -> Any:
        return self._cursor.fetchmany(size)

    async def fetchall(self) -> Any:
        return self._cursor.fetchall()

    async def close(self) -> None:
        self._cursor.close()


class _Connection:
    """What aiosqlite offers, without its thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._conn = self._connection = connection

    def cursor(self) -> _Cursor:
        return _Cursor(self._conn.cursor())

    async def create_function(self, *args: Any, **more: Any) -> None:
        self._conn.create_function(*args, **more)

    async def commit(self) -> None:
        self._conn.commit()

    async def rollback(self) -> None:
        self._conn.rollback()

    async def close(self) -> None:
        return None


def _strftime(*_: Any) -> str:
    """What time it is by the database's clock, which no process can set."""
    return clock.now().replace(tzinfo=None).isoformat(timespec="milliseconds")


_opened: list[tuple[AsyncEngine, sqlite3.Connection]] = []


def open_sqlite() -> tuple[AsyncEngine, sqlite3.Connection]:
    """A ledger that is empty, and a way to look into it. There is one at a time, whose statements are compiled once."""
    if not _opened:
        _opened.append(_open())
    engine, connection = _opened[0]
    connection.rollback()
    connection.deserialize(_empty())
    return engine, connection


def _open() -> tuple[AsyncEngine, sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.create_function("strftime", -1, _strftime)

    async def connect(*_: Any, **__: Any) -> _Connection:
        return _Connection(connection)

    engine = create_async_engine("sqlite+aiosqlite://", async_creator=connect, poolclass=StaticPool)
    event.listen(engine.sync_engine, "begin", ledger.engine._begin_sqlite)
    return engine, connection


@functools.cache
def _empty() -> bytes:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    driver: Any = engine.raw_connection().driver_connection
    data: bytes = driver.serialize()
    return data
