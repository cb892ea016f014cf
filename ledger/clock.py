"""The ledger's one clock: the database's. Two times that different processes wrote are only comparable by it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from ledger.engine import Connection
from ledger.statements import Statement


class _Stamp(FunctionElement[str]):
    """What time it is as a statement comes to it, written as the ledger writes times."""

    type = Text()
    inherit_cache = True


@compiles(_Stamp, "sqlite")
def _on_sqlite(*_: Any, **__: Any) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')"


@compiles(_Stamp, "postgresql")
def _on_postgresql(*_: Any, **__: Any) -> str:
    # Not now(), which stands still while one waits for a lock.
    return """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""


STAMP = _Stamp()
_NOW = Statement(select(STAMP))


async def database_now(connection: Connection) -> datetime:
    """What time it is where the ledger is kept, whatever this process thinks."""
    return datetime.fromisoformat((await connection.execute(_NOW)).scalar_one())
