"""A process that is killed in the middle of a grouped commit: what was told is there, and what is there is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from ledger import Ledger
from ledger.engine import Connection
from ledger.schema import approvals
from tests.conftest import new_database
from tests.support.environment import ROOT, worker_environment
from tests.support.fork_server import spawn

_DIES = """
import asyncio, functools, os, signal, sqlite3, sys
from datetime import timedelta
from assent.contracts.request import Request
from ledger import Ledger, approvals
from tests.support.ledgers import ME, NOW

url, moment = sys.argv[1:]
told, group = 0, []

def say(*words):
    os.write(1, (" ".join(words) + chr(10)).encode())

def die():
    say("dying", *group)
    os.kill(os.getpid(), signal.SIGKILL)

class Driver(sqlite3.Connection):
    def execute(self, sql, parameters=(), /):
        if sql == "BEGIN IMMEDIATE":
            group.clear()
        is_due = told > 20 and len(group) > 2
        if is_due and sql == {"within": "RELEASE work", "before": "COMMIT"}.get(moment):
            die()
        cursor = super().execute(sql, parameters)
        if is_due and sql == "COMMIT" and moment == "after":
            die()
        return cursor

sqlite3.connect = functools.partial(sqlite3.connect, factory=Driver)
register = approvals.register

async def noted(connection, request, *more):
    group.append(request.approval_id)
    return await register(connection, request, *more)

approvals.register = noted

async def main():
    ledger = Ledger.open(url)

    async def live(name):
        global told
        for n in range(10_000):
            request = Request(approval_id=f"{name}-{n}", tool="t", arguments={}, requester=ME)
            await ledger.register(request, None, "x", now=NOW, open_until=NOW + timedelta(hours=1))
            say("told", request.approval_id)
            told += 1

    await asyncio.gather(*(live(f"live{n}") for n in range(8)))

asyncio.run(main())
"""


async def _registered(connection: Connection) -> list[str]:
    return (await connection.execute(select(approvals.c.approval_id))).scalars()


@pytest.mark.parametrize("moment", ["within", "before", "after", "any"])
async def test_a_process_that_is_killed_in_a_grouped_commit_loses_all_or_nothing(moment: str, tmp_path: Path) -> None:
    url = await new_database("sqlite", tmp_path)
    ledger = Ledger.open(url)
    await ledger.upgrade()
    process = await spawn(
        *("-c", _DIES, url, moment),
        env=worker_environment(),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    told: set[str] = set()
    dying: list[str] = []
    assert process.stdout is not None
    while line := (await process.stdout.readline()).decode().split():
        told |= set(line[1:]) if line[0] == "told" else set()
        dying += line[1:] if line[0] == "dying" else ()
        if moment == "any" and len(told) > 100:
            process.kill()
    await process.wait()
    there = set(await ledger.engine.read(_registered))
    assert len(told) > 20
    assert told <= there, "what was told is there"
    if moment != "any":
        assert len(dying) > 2
        assert not told & set(dying), "nobody was told before"
        assert there & set(dying) == (set(dying) if moment == "after" else set()), "all of them, or none"
    for approval_id in there:
        assert [entry.event.value for entry in await ledger.entries(approval_id)] == ["write_request"]
    assert await ledger.verify() == [], "and nothing is there by half"
    await ledger.dispose()
