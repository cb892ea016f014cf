"""The ledger's database in memory, without threads: what is awaited is there at once."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate

from sqlalchemy import URL, Dialect, create_engine, make_url
from sqlalchemy.pool import StaticPool

from ledger.engine import Connection, Given, Result
from ledger.schema import metadata
from ledger.sqlite import SqliteConnection, driven, translated
from ledger.statements import SQLITE
from tests.world import clock


class InMemory:
    """An engine that does an operation where it is asked for, and as a whole."""

    url: URL = make_url("sqlite://")
    dialect: Dialect = SQLITE
    writes_in_order = False  # nobody waits here, so that nothing can be gained

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    async def write(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        with translated():
            self._driver.execute("BEGIN IMMEDIATE")
            try:
                done = driven(operation(SqliteConnection(self._driver), *args, **kwargs))
                self._driver.execute("COMMIT")
            except BaseException:
                self._driver.rollback()
                raise
        return done

    async def read(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        with translated():
            self._driver.execute("BEGIN")
            try:
                return driven(operation(SqliteConnection(self._driver), *args, **kwargs))
            finally:
                self._driver.rollback()

    snapshot = read

    async def dispose(self) -> None:
        return None


def _strftime(*_: Any) -> str:
    """What time it is by the database's clock, which no process can set."""
    return clock.now().replace(tzinfo=None).isoformat(timespec="milliseconds")


_opened: list[tuple[InMemory, sqlite3.Connection]] = []


def open_sqlite() -> tuple[InMemory, sqlite3.Connection]:
    """A ledger that is empty, and a way to look into it. There is one at a time."""
    if not _opened:
        _opened.append(_open())
    engine, connection = _opened[0]
    connection.rollback()
    connection.deserialize(_empty())
    return engine, connection


def _open() -> tuple[InMemory, sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=512)
    connection.create_function("strftime", -1, _strftime)
    return InMemory(connection), connection


@functools.cache
def _empty() -> bytes:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    driver: Any = engine.raw_connection().driver_connection
    data: bytes = driver.serialize()
    return data
