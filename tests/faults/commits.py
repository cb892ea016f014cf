"""A worker whose next grouped commit can be held: the gate for a death in the middle of one. Nothing else is changed.

Once there is a file of that name, the first operation waits for a second one before both are committed together; then
the process waits to be killed, right before or right after the commit.
"""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ledger import sqlite

BEFORE, AFTER, HELD = ".before", ".after", ".held"


def gate(path: Path) -> None:
    """Let this process' commits be held by files that have this name and one of the ends above."""
    before, after, held = (path.with_suffix(end) for end in (BEFORE, AFTER, HELD))
    crews: list[Any] = []
    done = 0
    do = sqlite._Crew.do

    async def remembered(crew: Any, operation: Callable[[Any], Awaitable[Any]]) -> Any:
        if crew._serve is sqlite._write and crew not in crews:
            crews.append(crew)
        return await do(crew, operation)

    def others_wait() -> bool:
        return any(not crew._queue.empty() for crew in crews)

    class Driver(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            nonlocal done
            is_armed = before.exists() or after.exists()
            if sql == "BEGIN IMMEDIATE":
                done = 0
            if sql == "RELEASE work":
                done += 1
                while is_armed and done == 1 and not others_wait():
                    time.sleep(0.01)
            if sql == "COMMIT" and before.exists():
                _wait_for_death(held, done)
            cursor = super().execute(sql, parameters)
            if sql == "COMMIT" and after.exists():
                _wait_for_death(held, done)
            return cursor

    sqlite._Crew.do = remembered  # type: ignore[assignment, method-assign]
    sqlite3.connect = functools.partial(sqlite3.connect, factory=Driver)  # type: ignore[assignment]


def _wait_for_death(held: Path, done: int) -> None:
    held.write_text(str(done))
    while True:
        time.sleep(60)
