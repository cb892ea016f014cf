"""PostgreSQL waits for nobody for long who holds something up, and for whoever reads everything as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import text

from assent.contracts.request import Request
from ledger import Ledger, OutOfReach, migrate, postgresql, verifying
from ledger.engine import Connection
from ledger.schema import VERSION
from tests.conftest import ME, new_database
from tests.support.audit_entries import NOW, conclusion, entry
from tests.support.stepwise import reading, writing
from tests.support.waiting import until

Answer = TypeVar("Answer")

NOTICES_WHO_IS_GONE = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
LIMITED = {"statement_timeout": "15000", "idle_in_transaction_session_timeout": "10000"}
UNLIMITED = dict.fromkeys(LIMITED, "0")
DURABLE = {"synchronous_commit": "on"}


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    """One with a closed approval."""
    ledger = Ledger.open(await new_database("postgres", tmp_path))
    await ledger.upgrade()
    request = Request(approval_id="a1", tool="t", arguments={}, requester=ME)
    await ledger.register(request, None, "x", now=NOW, open_until=NOW)
    await ledger.conclude(conclusion("a1", entry("cancel", 1)))
    yield ledger
    await ledger.dispose()


@pytest.fixture
async def hurried(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ledger]:
    """The same, opened by a process that is given little time."""
    monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 0.8)
    monkeypatch.setattr(postgresql, "IDLE_SECONDS", 0.3)
    hurried = Ledger.open(ledger.engine.url.render_as_string(hide_password=False))
    yield hurried
    await hurried.dispose()


async def asked_for(connection: Connection) -> dict[str, str]:
    """What of time and durability the client asked for when it connected.

    Not what SHOW says: on a socket of the file system that is 0 for everything of TCP's.
    """
    asked = text("SELECT name, reset_val FROM pg_settings WHERE source = 'client' AND name !~ 'encoding|application'")
    return {row.name: row.reset_val for row in await connection.execute(asked)}


@pytest.mark.parametrize("using", [writing, reading])
async def test_a_connection_of_the_service_is_limited_and_durable(ledger: Ledger, using: Any) -> None:
    async with using(ledger._engine) as connection:
        assert await asked_for(connection) == {**NOTICES_WHO_IS_GONE, **LIMITED, **DURABLE}
        shown = {name: (await connection.execute(text(f"SHOW {name}"))).scalar_one() for name in LIMITED}
        assert shown == {"statement_timeout": "15s", "idle_in_transaction_session_timeout": "10s"}


async def test_who_reads_everything_is_not_limited(ledger: Ledger) -> None:
    assert await ledger.engine.snapshot(asked_for) == {**NOTICES_WHO_IS_GONE, **UNLIMITED, **DURABLE}


async def run(ledger: Ledger, *statements: str) -> None:
    async with writing(ledger._engine) as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def test_a_statement_that_takes_too_long_is_given_up_by_the_server(hurried: Ledger) -> None:
    with pytest.raises(OutOfReach, match="statement timeout"):
        await run(hurried, "SELECT pg_sleep(60)")


async def test_a_server_that_does_not_answer_is_given_up_on(hurried: Ledger) -> None:
    with pytest.raises(OutOfReach, match="TimeoutError"):
        await run(hurried, "SET LOCAL statement_timeout = 0", "SELECT pg_sleep(60)")


async def test_a_transaction_that_is_left_alone_is_ended_by_the_server(ledger: Ledger, hurried: Ledger) -> None:
    lock = "LOCK TABLE claims IN EXCLUSIVE MODE"

    async def left_alone() -> None:
        async with writing(hurried._engine) as connection:
            await connection.execute(text(lock))
            await run(ledger, lock)
            await connection.execute(text("SELECT 1"))

    with pytest.raises(OutOfReach):
        await left_alone()


async def held_up(ledger: Ledger, lock: str, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Let somebody wait for a lock, for longer than a hurried one is waited for."""
    async with writing(ledger._engine) as connection:
        await connection.execute(text(lock))
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        task = asyncio.create_task(work)

        async def long_since() -> bool:
            async with reading(ledger._engine) as other:
                blocked = text(
                    "SELECT count(*) FROM pg_stat_activity WHERE :pid = ANY(pg_blocking_pids(pid))"
                    " AND clock_timestamp() - query_start > interval '1.5 seconds'"
                )
                return task.done() or bool((await other.execute(blocked, {"pid": pid})).scalar_one())

        await until(long_since)
    return await task


async def test_verify_takes_longer_than_a_statement_of_the_service_may(ledger: Ledger, hurried: Ledger) -> None:
    locked = "LOCK TABLE audit IN ACCESS EXCLUSIVE MODE"
    with pytest.raises(OutOfReach, match="statement timeout"):
        await held_up(ledger, locked, hurried.entries("a1"))
    assert await held_up(ledger, locked, hurried.verify()) == []


async def test_verify_thinks_for_longer_than_a_transaction_of_the_service_may(
    hurried: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = verifying._Page._compare_seals

    async def thoughtful(page: verifying._Page) -> None:
        await asyncio.sleep(1)
        await compare(page)

    monkeypatch.setattr(verifying._Page, "_compare_seals", thoughtful)
    assert await hurried.verify() == []


async def test_an_upgrade_takes_longer_than_a_statement_of_the_service_may(ledger: Ledger, hurried: Ledger) -> None:
    await held_up(
        ledger, f"SELECT pg_advisory_xact_lock({migrate._MIGRATING})", migrate.upgrade(hurried.engine, "0003")
    )
    assert await hurried.version() == VERSION


async def test_all_heads_take_longer_than_a_statement_of_the_service_may(ledger: Ledger, hurried: Ledger) -> None:
    heads = await held_up(ledger, "LOCK TABLE seals IN ACCESS EXCLUSIVE MODE", hurried.heads())
    assert [head.approval_id for head in heads] == ["a1"]
