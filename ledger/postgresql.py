"""The ledger in PostgreSQL: an operation is awaited on a connection of a pool, whose statements stay prepared."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Concatenate

import asyncpg
from sqlalchemy import URL, Dialect, Executable

from ledger.engine import Connection, Given, Result
from ledger.errors import OutOfReach, Refused
from ledger.statements import NOTHING, POSTGRESQL, Answer, Form, Parameters, Row, Statement, form_of

STATEMENT_SECONDS = 20.0
"""How long PostgreSQL is waited for to answer one statement."""
IDLE_SECONDS = 10.0
"""How long PostgreSQL bears with a transaction that its client leaves alone: what it locked, others wait for."""
_CONNECT_SECONDS = 5.0
_FREE_SECONDS = 30.0
"""How long a connection of the pool is waited for."""
_CLOSE_SECONDS = 5.0
_CONNECTIONS = 30
_REFUSALS = frozenset({"22", "23", "42", "54", "P0"})
"""The classes of errors that mean no: bad data, constraints, syntax, limits, triggers."""
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


class PostgresqlConnection:
    """A connection of asyncpg's."""

    __slots__ = ("_driver",)

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @property
    def dialect(self) -> Dialect:
        return POSTGRESQL

    async def execute(
        self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters] = NOTHING
    ) -> Answer:
        if isinstance(parameters, Sequence):
            if len(parameters) > 1:
                form = form_of(statement, POSTGRESQL, parameters[0])
                await self._driver.executemany(form.text, list(map(form.order, parameters)))
                return Answer([], len(parameters))
            (parameters,) = parameters
        form = form_of(statement, POSTGRESQL, parameters)
        values = form.order(parameters)
        if not isinstance(statement, Statement):
            return await self._execute_once(form, values)
        if form.is_change:
            return Answer([], _count(await self._driver.execute(form.text, *values)))
        found = await self._driver.fetch(form.text, *values)
        return Answer(form.rows(found, lambda: found[0].keys()), len(found))

    async def _execute_once(self, form: Form, values: tuple[Any, ...]) -> Answer:
        """What is said only once may find rows or change some: that is known afterwards."""
        prepared = await self._driver.prepare(form.text)
        found = await prepared.fetch(*values)
        return Answer(form.rows(found, lambda: found[0].keys()), _count(prepared.get_statusmsg()))

    async def stream(
        self, statement: Statement | Executable, parameters: Parameters = NOTHING, *, at_once: int = 50
    ) -> AsyncIterator[Row]:
        form = form_of(statement, POSTGRESQL, parameters)
        cursor = await self._driver.cursor(form.text, *form.order(parameters))
        while found := await cursor.fetch(at_once):
            for row in form.rows(found, found[0].keys):
                yield row


def _count(status: str) -> int:
    """How many rows it was: what PostgreSQL says of a statement ends with that, such as `INSERT 0 1`."""
    count = status.rpartition(" ")[2]
    return int(count) if count.isdigit() else 0


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """In the ledger's words, what PostgreSQL says instead of an answer, or what becomes of the way there."""
    try:
        yield
    except asyncpg.PostgresError as error:
        kind = Refused if (error.sqlstate or "")[:2] in _REFUSALS else OutOfReach
        raise kind(f"{type(error).__name__}: {_without_values(error)}") from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        raise OutOfReach(f"{type(error).__name__}: {error}") from None


def _without_values(error: Any) -> str:
    """What the server says, without its details; what the driver says itself quotes the parameter."""
    return "a parameter is not what its column takes" if type(error) is asyncpg.DataError else str(error.args[0])


class PostgresqlEngine:
    """One database of one server."""

    writes_in_order = False

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername="postgresql+asyncpg")
        self._arguments = _arguments(self._url)
        self._limits = {**_DURABLE, **_GONE, **_limited()}
        self._statement_seconds = STATEMENT_SECONDS
        self._pool: Any = None

    @property
    def url(self) -> URL:
        return self._url

    @property
    def dialect(self) -> Dialect:
        return POSTGRESQL

    async def write(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        with translated():
            async with self.connected() as driver, driver.transaction():
                return await operation(PostgresqlConnection(driver), *args, **kwargs)

    async def read(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        # Without a transaction: each statement would see what is committed by then within one, too.
        with translated():
            async with self.connected() as driver:
                return await operation(PostgresqlConnection(driver), *args, **kwargs)

    async def snapshot(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        with translated():
            driver = await asyncpg.connect(**{**self._arguments, **patient()})
            try:
                async with driver.transaction(isolation="repeatable_read", readonly=True):
                    return await operation(PostgresqlConnection(driver), *args, **kwargs)
            finally:
                driver.terminate()  # it has changed nothing

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """A connection of the pool, in no transaction."""
        if self._pool is None:
            self._pool = self._new_pool()
        pool = await self._pool  # which opens nothing yet
        async with asyncio.timeout(_FREE_SECONDS):
            driver = await pool.acquire()
        try:
            yield driver
        finally:
            await pool.release(driver)

    async def dispose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    def _new_pool(self) -> Any:
        own = {
            "timeout": _CONNECT_SECONDS,
            "command_timeout": self._statement_seconds,
            "max_cached_statement_lifetime": 0,
            "server_settings": self._limits,
        }
        return asyncpg.create_pool(**{**self._arguments, **own}, min_size=0, max_size=_CONNECTIONS, reset=_as_it_was)


async def _as_it_was(_driver: Any) -> None:
    """Nothing is to be reset: nobody changes more of a connection than its transaction, which has ended."""


def patient() -> dict[str, Any]:
    """How to connect for work that is limited neither by the server nor here."""
    return {"timeout": _CONNECT_SECONDS, "server_settings": {**_DURABLE, **_GONE, **_UNLIMITED}}


def _limited() -> dict[str, str]:
    """The server gives up a statement before we stop listening for it, and a stopped process before long."""
    return {
        "statement_timeout": f"{int(STATEMENT_SECONDS * 750)}ms",
        "idle_in_transaction_session_timeout": f"{int(IDLE_SECONDS * 1000)}ms",
    }


def _arguments(url: URL) -> dict[str, Any]:
    """What a URL says, in asyncpg's words."""
    _, arguments = POSTGRESQL.create_connect_args(url)
    size = arguments.pop("prepared_statement_cache_size", None)
    return dict(arguments) if size is None else {**arguments, "statement_cache_size": size}
