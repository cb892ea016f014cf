"""The operator's policy: the one in force, and those before it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from assent.contracts.policy import Policy
from ledger import audit
from ledger.engine import insert
from ledger.schema import policies

_PUTTING = 0x6173_7367
"""The advisory lock that orders policies on PostgreSQL."""


async def put(connection: AsyncConnection, words: str, sha256: str, now: datetime) -> None:
    """Put a policy in force; the one that is already stays since when it was."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _PUTTING})
    last = await _last(connection)
    if last is not None and last.sha256 == sha256:
        return
    n = last.n + 1 if last is not None else 1
    row = insert(connection, policies).values(n=n, text=words, sha256=sha256, since=audit.stamp(now))
    await connection.execute(row)


async def number_in_force(connection: AsyncConnection) -> int:
    """Which policy is in force, 0 if none ever was. No other one can be put in force until the transaction ends."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock_shared(:lock)"), {"lock": _PUTTING})
    last = await _last(connection)
    return last.n if last is not None else 0


async def in_force(connection: AsyncConnection) -> Policy | None:
    last = await _last(connection)
    return Policy(n=last.n, text=last.text, sha256=last.sha256, since=last.since) if last is not None else None


async def _last(connection: AsyncConnection) -> Row[Any] | None:
    return (await connection.execute(select(policies).order_by(policies.c.n.desc()).limit(1))).first()
