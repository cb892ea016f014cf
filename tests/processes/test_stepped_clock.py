"""The clock that tests step under a running process."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fork_server import spawn
from tests.support.stepped_clock import SteppedClock

_EVERY_CLOCK = """
import ctypes, datetime, sqlite3, time
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
with sqlite3.connect(":memory:") as database:
    for _ in iter(input, "end"):
        (in_sql,) = database.execute("SELECT unixepoch('now')").fetchone()
        print(time.time(), datetime.datetime.now(datetime.UTC).timestamp(), libc.time(None), in_sql, time.monotonic())
"""


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=-1), timedelta(hours=3, seconds=7)])
async def test_a_step_moves_every_wall_clock_of_a_running_process_and_no_other(
    tmp_path: Path, ahead: timedelta
) -> None:
    clock = SteppedClock(tmp_path)
    process = await spawn(
        *("-c", _EVERY_CLOCK),
        env={"PYTHONUNBUFFERED": "1", **clock.environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for step in (timedelta(0), ahead):
        clock.set(step)
        before, steady = datetime.now(UTC), time.monotonic()
        process.stdin.write(b"\n")
        *told, monotonic = map(float, (await process.stdout.readline()).split())
        after = datetime.now(UTC)
        assert len(told) == 4
        assert all(int((before + step).timestamp()) <= wall <= (after + step).timestamp() for wall in told)
        assert steady <= monotonic <= time.monotonic()
    process.stdin.write(b"end\n")
    assert await process.wait() == 0
