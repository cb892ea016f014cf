"""The ledger in SQLite: one thread writes, a few read, and each does an operation as a whole.

SQLite lets one write at a time and wakes whoever waits by chance: within a process they queue in order instead. Whoever
waits while another writes is written with it, in one transaction that goes to the disk once; each has a savepoint of
its own, and none is told of success before the whole is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, TypeAlias, cast

from sqlalchemy import URL, Dialect, Executable

from ledger.engine import Connection, Given, Result
from ledger.errors import OutOfReach, Refused
from ledger.statements import NOTHING, SQLITE, Answer, Parameters, Row, Statement, form_of

_BUSY_SECONDS = 20.0
"""How long another process' transaction is waited for."""
_READERS = 4
_MOST_TOGETHER = 32
"""How many operations are committed together: the first of them waits for the last."""
_REFUSALS = sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.NotSupportedError

Operation: TypeAlias = Callable[[Connection], Awaitable[Result]]


class SqliteConnection:
    """A connection whose awaitables never wait: what is awaited is there at once."""

    __slots__ = ("_driver",)

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    @property
    def dialect(self) -> Dialect:
        return SQLITE

    async def execute(
        self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters] = NOTHING
    ) -> Answer:
        return self.do(statement, parameters)

    def do(self, statement: Statement | Executable | str, parameters: Parameters | Sequence[Parameters]) -> Answer:
        if not self._driver.in_transaction:  # SQLite itself ended it: what follows would be committed piece by piece
            raise OutOfReach("the transaction was rolled back")
        if isinstance(parameters, Sequence):
            form = form_of(statement, SQLITE, parameters[0])
            return Answer([], self._driver.executemany(form.text, map(form.order, parameters)).rowcount)
        form = form_of(statement, SQLITE, parameters)
        cursor = self._driver.execute(form.text, form.order(parameters))
        return Answer(form.rows(cursor.fetchall(), lambda: _names(cursor)), cursor.rowcount)

    async def stream(
        self, statement: Statement | Executable, parameters: Parameters = NOTHING, *, at_once: int = 50
    ) -> AsyncIterator[Row]:
        form = form_of(statement, SQLITE, parameters)
        cursor = self._driver.execute(form.text, form.order(parameters))
        while found := cursor.fetchmany(at_once):
            for row in form.rows(found, lambda: _names(cursor)):
                yield row


def _names(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description]


def driven(operation: Awaitable[Result]) -> Result:
    """What an operation comes to that never has to wait."""
    coroutine = cast("Coroutine[Any, Any, Result]", operation)
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    coroutine.close()
    raise RuntimeError("an operation of the ledger awaited something else than its connection")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """In the ledger's words, what SQLite says instead of an answer."""
    try:
        yield
    except sqlite3.Error as error:
        kind = Refused if isinstance(error, _REFUSALS) else OutOfReach
        raise kind(f"{type(error).__name__}: {error}") from None


class SqliteEngine:
    """One file."""

    writes_in_order = True

    def __init__(self, url: URL) -> None:
        if not url.database or url.database == ":memory:":
            raise ValueError("ASSENT_DATABASE_URL names no file; use sqlite+aiosqlite:////absolute/path.db")
        self._url, self._path = url, Path(url.database)
        _make_private(self._path)
        self._writer, self._readers = _Crew(self._path, 1, _write), _Crew(self._path, _READERS, _read)

    @property
    def url(self) -> URL:
        return self._url

    @property
    def dialect(self) -> Dialect:
        return SQLITE

    async def write(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        return await self._writer.do(lambda connection: operation(connection, *args, **kwargs))

    async def read(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        return await self._readers.do(lambda connection: operation(connection, *args, **kwargs))

    async def snapshot(
        self,
        operation: Callable[Concatenate[Connection, Given], Awaitable[Result]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        crew = _Crew(self._path, 1, _read)  # it may take long, and others read meanwhile
        try:
            return await crew.do(lambda connection: operation(connection, *args, **kwargs))
        finally:
            await crew.leave()

    async def dispose(self) -> None:
        await self._writer.leave()
        await self._readers.leave()


class _Work:
    """An operation that somebody awaits."""

    __slots__ = ("_context", "_loop", "_operation", "error", "future", "result")

    def __init__(self, operation: Operation[Any]) -> None:
        self._operation, self._context = operation, copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def do(self, connection: SqliteConnection) -> None:
        with translated():
            self.result = self._context.run(lambda: driven(self._operation(connection)))

    def told(self) -> None:
        """Let whoever awaits it know, in their own thread; they may have gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


_Queue: TypeAlias = "SimpleQueue[_Work | None]"


class _Crew:
    """Threads that take work from one queue, each with its own connection. They are hired as work comes."""

    def __init__(self, path: Path, most: int, serve: Callable[[sqlite3.Connection, _Work, _Queue], bool]) -> None:
        self._path, self._most, self._serve = path, most, serve
        self._queue: _Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._end = weakref.finalize(self, _dismiss, self._queue, self._threads)

    async def do(self, operation: Operation[Result]) -> Result:
        work = _Work(operation)
        if self._under_way >= len(self._threads) < self._most:
            name = f"ledger-{self._serve.__name__.strip('_')}-{len(self._threads)}"
            thread = threading.Thread(target=_work, args=(self._path, self._queue, self._serve), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._under_way += 1
        self._queue.put(work)
        try:
            # Who is cancelled does not wait: it is done as a whole or not at all, and its lock is given back soon.
            result: Result = await work.future
            return result
        finally:
            self._under_way -= 1

    async def leave(self) -> None:
        """Let all that was asked for be done, and the threads end."""
        threads = list(self._threads)
        _dismiss(self._queue, self._threads)
        for thread in threads:
            await asyncio.to_thread(thread.join)


def _dismiss(queue: _Queue, threads: list[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)
    threads.clear()


def _work(path: Path, queue: _Queue, serve: Callable[[sqlite3.Connection, _Work, _Queue], bool]) -> None:
    """What a thread does."""
    driver: sqlite3.Connection | None = None
    goes_on = True
    while goes_on and (work := queue.get()) is not None:
        try:
            with translated():
                driver = driver or connect(path)
        except Exception as error:
            work.error = error
            work.told()
            continue
        goes_on = serve(driver, work, queue)
        if driver.in_transaction:  # it cannot even be undone: whatever is wrong, it is this connection's
            driver.close()
            driver = None
        del work  # or its answer would be kept until the next one comes
    if driver is not None:
        driver.close()


def _read(driver: sqlite3.Connection, work: _Work, _queue: _Queue) -> bool:
    if work.future.cancelled():
        return True
    try:
        with translated():
            driver.execute("BEGIN")
            work.do(SqliteConnection(driver))
    except BaseException as error:
        work.error = error
    _undo(driver)
    work.told()
    return True


def _write(driver: sqlite3.Connection, first: _Work, queue: _Queue) -> bool:
    """Do a piece of work, and those that wait by then, in one transaction. Tells whether there is more to come."""
    group: list[_Work] = []
    work: _Work | None = first
    goes_on = True
    try:
        with translated():
            driver.execute("BEGIN IMMEDIATE")
            while work is not None:
                if not work.future.cancelled():
                    group.append(work)
                    _do_alone(driver, work)
                work = None
                if len(group) < _MOST_TOGETHER:
                    with contextlib.suppress(Empty):
                        work = queue.get_nowait()
                        goes_on = work is not None
            driver.execute("COMMIT")
    except BaseException as error:
        _fail(driver, group or [first], error)
    for each in group or [first]:
        each.told()
    return goes_on


def _do_alone(driver: sqlite3.Connection, work: _Work) -> None:
    """Do a piece of work so that if it fails, it alone is undone."""
    driver.execute("SAVEPOINT work")
    try:
        work.do(SqliteConnection(driver))
    except BaseException as error:
        if not driver.in_transaction:
            raise  # SQLite has undone everybody's
        work.error = error
    if work.error is not None or work.future.cancelled():
        driver.execute("ROLLBACK TO work")
    driver.execute("RELEASE work")


def _fail(driver: sqlite3.Connection, group: list[_Work], error: BaseException) -> None:
    """Nobody's work is on disk; and who failed may have failed for what another one did, which is not there either."""
    _undo(driver)
    for work in group:
        work.error = OutOfReach(f"nothing was written: {error}")


def _undo(driver: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if driver.in_transaction:
            driver.execute("ROLLBACK")


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection that begins nothing by itself, and whose commits survive a power cut."""
    driver = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            driver.execute(f"PRAGMA {pragma}")
    except BaseException:
        driver.close()
        raise
    return driver


def _make_private(path: Path) -> None:
    """The file is its owner's alone; the directory too, if it is ours to make."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
