"""Transactions step by step: for tests that look into a ledger, change it behind its back, or stop half-way."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from sqlalchemy import Dialect, Executable

from ledger.engine import Connection, Engine
from ledger.postgresql import PostgresqlConnection, PostgresqlEngine
from ledger.postgresql import translated as translated_from_postgresql
from ledger.sqlite import SqliteConnection, connect
from ledger.sqlite import translated as translated_from_sqlite
from ledger.statements import NOTHING, Answer, Parameters, Row, Statement, form_of


class _Threaded:
    """A connection to SQLite whose steps wait in a thread, as long as they have to."""

    def __init__(self, driver: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection, self._thread = SqliteConnection(driver), thread

    @property
    def dialect(self) -> Dialect:
        return self._connection.dialect

    async def execute(
        self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters] = NOTHING
    ) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._connection.do, statement, parameters)

    def stream(
        self, statement: Statement | Executable, parameters: Parameters = NOTHING, *, at_once: int = 50
    ) -> AsyncIterator[Row]:
        return self._connection.stream(statement, parameters, at_once=at_once)


@asynccontextmanager
async def writing(engine: Engine) -> AsyncIterator[Connection]:
    """A transaction that is committed at its end."""
    if isinstance(engine, PostgresqlEngine):
        with translated_from_postgresql():
            async with engine.connected() as driver, driver.transaction():
                yield PostgresqlConnection(driver)
        return
    with translated_from_sqlite():
        async with _sqlite(engine, "BEGIN IMMEDIATE", "COMMIT") as connection:
            yield connection


@asynccontextmanager
async def reading(engine: Engine) -> AsyncIterator[Connection]:
    """A transaction that is not."""
    if isinstance(engine, PostgresqlEngine):
        async with engine.connected() as driver, driver.transaction(readonly=True):
            yield PostgresqlConnection(driver)
        return
    async with _sqlite(engine, "BEGIN", "ROLLBACK") as connection:
        yield connection


class _Noting:
    """A connection of which it is noted what is asked."""

    def __init__(self, connection: Connection, texts: list[str]) -> None:
        self._connection, self._texts = connection, texts

    @property
    def dialect(self) -> Dialect:
        return self._connection.dialect

    async def execute(
        self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters] = NOTHING
    ) -> Answer:
        first = parameters[0] if isinstance(parameters, Sequence) else parameters
        self._texts.append(form_of(statement, self.dialect, first).text)
        return await self._connection.execute(statement, parameters)

    def stream(
        self, statement: Statement | Executable, parameters: Parameters = NOTHING, *, at_once: int = 50
    ) -> AsyncIterator[Row]:
        self._texts.append(form_of(statement, self.dialect, parameters).text)
        return self._connection.stream(statement, parameters, at_once=at_once)


@contextmanager
def watched(engine: Engine) -> Iterator[list[str]]:
    """The texts of all statements that an engine executes meanwhile."""
    texts: list[str] = []

    def noting(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def asked(operation: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
            async def noted(connection: Connection) -> Any:
                return await operation(_Noting(connection, texts), *args, **kwargs)

            return await ask(noted)

        return asked

    with pytest.MonkeyPatch.context() as patched:
        for way in ("write", "read", "snapshot"):
            patched.setattr(engine, way, noting(getattr(engine, way)))
        yield texts


@asynccontextmanager
async def _sqlite(engine: Engine, begin: str, end: str) -> AsyncIterator[Connection]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as thread:  # its own: whoever waits for a lock must not keep a thread from who holds it
        driver = await loop.run_in_executor(thread, connect, str(engine.url.database))
        try:
            await loop.run_in_executor(thread, driver.execute, begin)
            yield _Threaded(driver, thread)
            await loop.run_in_executor(thread, driver.execute, end)
        finally:
            thread.submit(driver.close)  # which rolls back; behind what it still does for one who no longer waits
