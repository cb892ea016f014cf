"""The ledger's database: an operation is one function over one connection, and one transaction.

On SQLite it runs as a whole in a thread (`ledger.sqlite`), on PostgreSQL it is awaited (`ledger.postgresql`). It is the
same function for both. It may await its connection and nothing else: nothing outside is waited for while rows are
locked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import URL, Dialect, Executable, make_url

from ledger.statements import Answer, Parameters, Row, Statement

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Connection(Protocol):
    """One transaction, as an operation sees it."""

    @property
    def dialect(self) -> Dialect: ...

    async def execute(
        self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters] = ...
    ) -> Answer:
        """Of several sets of parameters, all with the same names, the statement is executed with each."""
        ...

    def stream(
        self, statement: Statement | Executable, parameters: Parameters = ..., *, at_once: int = ...
    ) -> AsyncIterator[Row]:
        """What a statement finds, a few rows at a time."""
        ...


class Engine(Protocol):
    """One database."""

    @property
    def url(self) -> URL: ...

    @property
    def dialect(self) -> Dialect: ...

    @property
    def writes_in_order(self) -> bool:
        """Whether what is written later sees what was asked for before, even while both wait."""
        ...

    async def write(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Do what changes something, in a transaction that is on disk before this returns.

        Whoever is cancelled leaves nothing half done: it is done as a whole, or undone.
        """
        ...

    async def read(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Do what only reads, and waits for nobody."""
        ...

    async def snapshot(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Read everything as it was at one moment, for as long as that takes."""
        ...

    async def dispose(self) -> None: ...


def open_engine(url: str) -> Engine:
    """An engine for `sqlite+aiosqlite://` or `postgresql+asyncpg://`, durable in the way the guarantee needs."""
    parsed = make_url(url)
    match parsed.drivername:
        case "sqlite+aiosqlite" | "sqlite":
            from ledger.sqlite import SqliteEngine

            return SqliteEngine(parsed)
        case "postgresql+asyncpg" | "postgresql":
            from ledger.postgresql import PostgresqlEngine

            return PostgresqlEngine(parsed)
        case other:
            raise ValueError(
                f"ASSENT_DATABASE_URL names the driver {other!r}; use sqlite+aiosqlite:///… or postgresql+asyncpg://…"
            )


async def inserted(connection: Connection, statement: Statement, values: Mapping[str, Any]) -> bool:
    """Whether an insert that does nothing on conflict did something."""
    return (await connection.execute(statement, values)).rowcount == 1
