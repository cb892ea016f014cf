"""One operation, one transaction: whole or not at all, told once it is on disk, and in nobody's way."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import threading
import traceback
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Float, Integer, LargeBinary, Text, bindparam, select, text, update

from assent.contracts.status import Status
from ledger import Ledger, OutOfReach, Refused, audit, sqlite
from ledger.engine import Connection, Engine, open_engine
from ledger.schema import conversations, metadata
from ledger.statements import POSTGRESQL, SQLITE, Statement, insert
from tests.conftest import new_database
from tests.support.ledgers import ended, propose
from tests.support.stepwise import writing
from tests.support.waiting import until

ADD = Statement(insert(conversations))
ALL = Statement(select(conversations.c.thread_id).order_by(conversations.c.thread_id))
PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 20_000}


async def add(connection: Connection, *names: str) -> str:
    for name in names:
        await connection.execute(ADD, {"thread_id": name})
    return names[-1]


async def add_and_fail(connection: Connection, name: str) -> None:
    await add(connection, name)
    raise LookupError(name)


async def everything(connection: Connection) -> list[str]:
    return (await connection.execute(ALL)).scalars()


async def opened(kind: str, directory: Path) -> Engine:
    ledger = Ledger.open(await new_database(kind, directory))
    await ledger.upgrade()
    return ledger.engine


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine = await opened(request.param, tmp_path)
    yield engine
    await engine.dispose()


class Gate:
    """Holds a thread up until it is let through."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def hold(self) -> None:
        self._reached.set()
        assert self._open.wait(60), "nobody let it through"

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 60), "nobody came"

    def open(self) -> None:
        self._open.set()


class Driver(sqlite3.Connection):
    """A connection that can be watched: `before` is told each statement, and may raise."""

    before: Callable[[str], None] = staticmethod(lambda _: None)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        Driver.before(sql)
        return super().execute(sql, parameters)


@pytest.fixture
async def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    """A ledger in SQLite whose statements can be watched."""
    engine = await opened("sqlite", tmp_path)
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Driver))
    monkeypatch.setattr(Driver, "before", staticmethod(lambda _: None))
    yield engine
    await engine.dispose()


async def grouped(engine: Engine, *operations: Any) -> list[asyncio.Task[Any]]:
    """Operations that wait for one before them, and are therefore done with it."""
    gate = Gate()

    async def held_up(connection: Connection) -> str:
        gate.hold()
        return await add(connection, "the first")

    first = asyncio.create_task(engine.write(held_up))
    await gate.reached()
    tasks = [asyncio.create_task(engine.write(*operation)) for operation in operations]
    await asyncio.sleep(0)  # each of them has begun to wait
    gate.open()
    return [first, *tasks]


# Whole or not at all


async def test_what_an_operation_did_is_there_once_it_has_ended(engine: Engine) -> None:
    assert await engine.write(add, "a", "b") == "b"
    assert await engine.read(everything) == ["a", "b"]


async def test_an_operation_that_raises_is_undone(engine: Engine) -> None:
    with pytest.raises(LookupError, match="x"):
        await engine.write(add_and_fail, "x")
    assert await engine.read(everything) == []


async def test_many_at_once_are_all_done(engine: Engine) -> None:
    names = [f"{n:03}" for n in range(100)]
    assert await asyncio.gather(*(engine.write(add, name) for name in names)) == names
    assert await engine.read(everything) == names


async def test_of_many_at_once_those_that_fail_fail_alone(engine: Engine) -> None:
    working = [engine.write(add, f"{n:03}") for n in range(50)]
    failing = [engine.write(add_and_fail, f"x{n}") for n in range(50)]
    mixed = [each for pair in zip(working, failing, strict=True) for each in pair]
    told = await asyncio.gather(*mixed, return_exceptions=True)
    assert told[::2] == [f"{n:03}" for n in range(50)]
    assert [type(each) for each in told[1::2]] == [LookupError] * 50
    assert await engine.read(everything) == told[::2]


async def test_writers_that_wait_go_to_the_disk_together(small: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(Driver, "before", staticmethod(said.append))
    first, one, failing, another = await grouped(small, (add, "one"), (add_and_fail, "x"), (add, "another"))
    assert [await first, await one, await another] == ["the first", "one", "another"]
    with pytest.raises(LookupError):
        await failing
    assert said.count("BEGIN IMMEDIATE") == said.count("COMMIT") == 1
    assert await small.read(everything) == ["another", "one", "the first"]


async def test_an_ending_goes_to_the_disk_with_its_seal(small: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ledger = Ledger(small)
    plan = await propose(ledger)
    gate = Gate()

    async def held_up(_connection: Connection) -> None:
        gate.hold()

    first = asyncio.create_task(small.write(held_up))
    await gate.reached()
    monkeypatch.setattr(Driver, "before", staticmethod(said.append))
    ending = asyncio.create_task(ledger.conclude(ended(plan, Status.CANCELLED)))
    await until(lambda: waiting(small, 2))
    gate.open()
    await first
    assert (await ending).status is Status.CANCELLED
    assert said.count("COMMIT") == 1
    assert (await ledger.head())[0] == 1
    assert await ledger.verify() == []


async def waiting(engine: Any, count: int) -> bool:
    return bool(engine._writer._queue.qsize() == count)


async def test_an_ending_stands_though_it_cannot_be_sealed(small: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_connection: Connection) -> bool:
        raise OutOfReach("no seal")

    ledger = Ledger(small)
    plan = await propose(ledger)
    with monkeypatch.context() as patched:
        patched.setattr(audit, "seal", fail)
        assert (await ledger.conclude(ended(plan, Status.CANCELLED))).status is Status.CANCELLED
    assert (await ledger.head())[0] == 0
    assert await ledger.outcome(plan.approval_id) is not None
    await ledger.seal()
    assert (await ledger.head())[0] == 1


async def test_nobody_is_told_before_all_is_on_disk(small: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(Driver, "before", staticmethod(lambda said: gate.hold() if said == "COMMIT" else None))
    tasks = await grouped(small, (add, "one"), (add_and_fail, "x"))
    await gate.reached()
    done, _ = await asyncio.wait(tasks, timeout=0.1)
    assert not done
    gate.open()
    assert (await asyncio.gather(*tasks, return_exceptions=True))[:2] == ["the first", "one"]


async def test_if_a_commit_fails_it_fails_for_all(small: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(said: str) -> None:
        if said == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Driver, "before", staticmethod(fail))
    tasks = await grouped(small, (add, "one"), (add, "one"), (add_and_fail, "x"))
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [OutOfReach] * 4, "also who was refused for what is not there after all"
    monkeypatch.setattr(Driver, "before", staticmethod(lambda _: None))
    assert await small.read(everything) == []
    assert await small.write(add, "later") == "later", "and its lock is given back"


async def test_a_connection_that_cannot_even_roll_back_is_given_up(
    small: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(said: str) -> None:
        if said in ("COMMIT", "ROLLBACK"):
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Driver, "before", staticmethod(fail))
    with pytest.raises(OutOfReach):
        await small.write(add, "x")
    assert await small.read(everything) == []
    monkeypatch.setattr(Driver, "before", staticmethod(lambda _: None))
    assert await small.write(add, "later") == "later"
    assert await small.read(everything) == ["later"]


async def test_what_sqlite_rolls_back_itself_fails_for_all(small: Engine) -> None:
    """A full disk ends the whole transaction: what would follow must not be committed piece by piece."""

    async def cut_off(connection: Connection) -> None:
        await add(connection, "before")
        await connection.execute("ROLLBACK")
        await add(connection, "after")

    told = await asyncio.gather(*await grouped(small, (add, "one"), (cut_off,)), return_exceptions=True)
    assert [type(each) for each in told] == [OutOfReach] * 3
    assert await small.read(everything) == []


async def test_an_operation_awaits_nothing_but_its_connection(small: Engine) -> None:
    async def waits(connection: Connection) -> None:
        await add(connection, "x")
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="awaited something else"):
        await small.write(waits)
    assert await small.read(everything) == []


# Cancelling


async def test_an_operation_that_is_cancelled_while_it_runs_is_undone(small: Engine) -> None:
    gate = Gate()

    async def held_up(connection: Connection) -> None:
        await add(connection, "x")
        gate.hold()

    task = asyncio.create_task(small.write(held_up))
    await gate.reached()
    task.cancel()
    await asyncio.wait([task])
    gate.open()
    assert await small.write(add, "later") == "later"
    assert task.cancelled()
    assert await small.read(everything) == ["later"]


async def test_an_operation_that_is_cancelled_while_it_waits_is_never_done(small: Engine) -> None:
    gate, done = Gate(), []

    async def held_up(_connection: Connection) -> None:
        gate.hold()

    async def note(_connection: Connection) -> None:
        done.append(1)

    first = asyncio.create_task(small.write(held_up))
    await gate.reached()
    waiting = asyncio.create_task(small.write(note))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    gate.open()
    await first
    assert await small.write(add, "later") == "later"
    assert done == []


async def test_however_many_are_cancelled_none_keeps_its_connection(tmp_path: Path) -> None:
    engine = await opened("postgres", tmp_path)

    async def slow(connection: Connection) -> None:
        await add(connection, "x")
        await connection.execute(text("SELECT pg_sleep(60)"))

    async def blocked() -> bool:
        async with writing(engine) as connection:
            asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
            return bool((await connection.execute(text(asleep))).scalar_one())

    for _ in range(3):
        tasks = [asyncio.create_task(engine.write(slow)) for _ in range(15)]
        await until(blocked)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
    assert await asyncio.gather(*(engine.write(add, f"{n}") for n in range(40)))
    assert "x" not in await engine.read(everything)
    await engine.dispose()


# Nobody in the way


async def test_reading_waits_for_nobody_who_writes(small: Engine) -> None:
    gate = Gate()

    async def held_up(connection: Connection) -> str:
        await add(connection, "x")
        gate.hold()
        return "x"

    task = asyncio.create_task(small.write(held_up))
    await gate.reached()
    assert await asyncio.gather(*(small.read(everything) for _ in range(20))) == [[]] * 20
    gate.open()
    assert await task == "x"


async def test_some_read_at_once(small: Engine) -> None:
    together = threading.Barrier(sqlite._READERS, timeout=60)

    async def meet(_connection: Connection) -> int:
        return together.wait()

    assert sorted(await asyncio.gather(*(small.read(meet) for _ in range(sqlite._READERS)))) == [0, 1, 2, 3]


async def test_reading_everything_takes_nobodys_place(small: Engine) -> None:
    gate = Gate()

    async def verify(_connection: Connection) -> None:
        gate.hold()

    tasks = [asyncio.create_task(small.snapshot(verify)) for _ in range(sqlite._READERS)]
    await gate.reached()
    assert await small.read(everything) == []
    gate.open()
    await asyncio.gather(*tasks)


async def test_an_engine_that_was_let_go_ends_its_threads_and_can_be_used_again(small: Engine) -> None:
    def at_work() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("ledger-")}

    before = at_work()
    await asyncio.gather(small.write(add, "a"), *(small.read(everything) for _ in range(10)))
    assert at_work() > before
    await small.dispose()
    assert at_work() <= before  # one that another test let go may have ended meanwhile
    assert await small.write(add, "b") == "b"
    assert await small.read(everything) == ["a", "b"]


# What is said instead of an answer


async def test_what_a_constraint_forbids_is_refused_and_nothing_is_quoted(engine: Engine) -> None:
    secret = uuid.uuid4().hex
    await engine.write(add, secret)
    with pytest.raises(Refused, match=r"(?i)unique constraint") as caught:
        await engine.write(add, secret)
    assert secret not in "".join(traceback.format_exception(caught.value))


async def test_a_parameter_of_the_wrong_kind_is_refused_and_not_quoted(engine: Engine) -> None:
    secret = uuid.uuid4().hex

    class Odd:
        def __repr__(self) -> str:
            return secret

    with pytest.raises(Refused) as caught:
        await engine.write(lambda connection: connection.execute(ADD, {"thread_id": Odd()}))
    assert secret not in "".join(traceback.format_exception(caught.value))


async def test_a_lock_that_another_process_holds_for_too_long_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened("sqlite", tmp_path)
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    async with writing(engine):
        with pytest.raises(OutOfReach, match="locked"):
            await engine.write(add, "x")
    assert await engine.write(add, "later") == "later"
    await engine.dispose()


async def test_a_server_that_is_gone_is_out_of_reach_and_found_again(tmp_path: Path) -> None:
    engine = await opened("postgres", tmp_path)
    with pytest.raises(OutOfReach):
        await engine.write(lambda connection: connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())")))
    assert await engine.write(add, "later") == "later"
    await engine.dispose()


@pytest.mark.parametrize("url", ["postgresql+asyncpg://nobody@127.0.0.1:1/x", "postgresql://nobody@127.0.0.1:1/x"])
async def test_a_server_that_never_was_is_out_of_reach(url: str) -> None:
    engine = open_engine(url)
    with pytest.raises(OutOfReach, match="ConnectionRefusedError"):
        await engine.read(everything)
    await engine.dispose()


async def test_a_file_that_is_no_database_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("something else altogether" * 100)
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    for _ in range(2):
        with pytest.raises(OutOfReach, match="not a database"):
            await engine.write(add, "x")
    await engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite+aiosqlite:///:memory:", "mysql://localhost/x"])
def test_a_url_that_names_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite\+aiosqlite"):
        open_engine(url)


# Durable


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
async def test_every_connection_to_sqlite_is_durable(scheme: str, tmp_path: Path) -> None:
    async def pragmas(connection: Connection) -> dict[str, Any]:
        return {name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one() for name in PRAGMAS}

    engine = open_engine(f"{scheme}:///{tmp_path / 'ledger.db'}")
    for way in (engine.write, engine.read, engine.snapshot):
        assert await way(pragmas) == PRAGMAS
    await engine.dispose()


# Statements


def test_no_column_holds_what_a_driver_would_have_to_convert() -> None:
    kinds = {type(column.type) for table in metadata.tables.values() for column in table.columns}
    assert kinds <= {Text, Integer, Float, LargeBinary}


async def test_a_list_may_have_any_length(engine: Engine) -> None:
    await engine.write(add, "a", "b", "c")
    some = Statement(
        select(conversations.c.thread_id)
        .where(conversations.c.thread_id.in_(bindparam("names", expanding=True)))
        .where(conversations.c.thread_id != "b")
        .limit(bindparam("limit"))
    )

    async def find(connection: Connection, *names: str) -> list[str]:
        return sorted((await connection.execute(some, {"names": names, "limit": 9})).scalars())

    assert await engine.read(find) == []
    assert await engine.read(find, "a") == ["a"]
    assert await engine.read(find, "a", "b", "c") == ["a", "c"]
    assert await engine.read(find, "c", "d") == ["c"]


async def test_how_many_rows_were_changed_is_told_of_any_statement(engine: Engine) -> None:
    async def change(connection: Connection) -> list[int]:
        await connection.execute(ADD, [{"thread_id": name} for name in "abc"])
        put = insert(conversations).on_conflict_do_nothing()
        said = [
            await connection.execute(Statement(put), {"thread_id": "a"}),
            await connection.execute(Statement(put), {"thread_id": "d"}),
            await connection.execute(put.values(thread_id="e")),
            await connection.execute(text("UPDATE conversations SET thread_id = thread_id || '!'")),
            await connection.execute("DELETE FROM conversations WHERE thread_id = 'a!'"),
        ]
        return [each.rowcount for each in said]

    assert await engine.write(change) == [0, 1, 1, 5, 1]
    assert await engine.read(everything) == ["b!", "c!", "d!", "e!"]


async def test_a_statement_can_tell_what_it_changed(engine: Engine) -> None:
    rename = Statement(
        update(conversations).where(conversations.c.thread_id == bindparam("of")).returning(conversations.c.thread_id)
    )

    async def change(connection: Connection, old: str) -> list[str]:
        return (await connection.execute(rename, {"of": old, "thread_id": "new"})).scalars()

    await engine.write(add, "old")
    assert await engine.write(change, "old") == ["new"]
    assert await engine.write(change, "old") == []


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL])
def test_a_statement_is_compiled_once(dialect: Any) -> None:
    statement = Statement(select(conversations).where(conversations.c.thread_id == bindparam("name")))
    first, second = statement.form(dialect, {"name": "a"}), statement.form(dialect, {"name": "b"})
    assert first is second
    assert second.order({"name": "b"}) == ("b",)
