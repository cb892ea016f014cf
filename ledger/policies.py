"""The operator's policy: the one in force, and those before it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select, text

from assent.contracts.policy import Policy
from ledger import audit
from ledger.engine import Connection
from ledger.schema import policies
from ledger.statements import Row, Statement, insert

Numbers = tuple[int, int]
"""Which policy, and which override of a tool, a call was looked at by."""
_PUTTING = 0x6173_7367
"""The advisory lock that orders policies on PostgreSQL."""

_ALONE = Statement(text("SELECT pg_advisory_xact_lock(:lock)"))
_TOGETHER = Statement(text("SELECT pg_advisory_xact_lock_shared(:lock)"))
_LAST = Statement(select(policies).order_by(policies.c.n.desc()).limit(1))
NUMBER = select(func.coalesce(func.max(policies.c.n), 0)).scalar_subquery()
"""Which policy is in force, 0 if none ever was; for good only where `hold_policies` was said before."""
_ADD = Statement(insert(policies))


async def hold_policies(connection: Connection, *, alone: bool) -> None:
    """Let no other policy or override be put in force until the transaction ends. SQLite lets one write as it is."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_ALONE if alone else _TOGETHER, {"lock": _PUTTING})


async def put(connection: Connection, words: str, sha256: str, now: datetime) -> None:
    """Put a policy in force; the one that is already stays since when it was."""
    await hold_policies(connection, alone=True)
    last = await _last(connection)
    if last is not None and last.sha256 == sha256:
        return
    n = last.n + 1 if last is not None else 1
    await connection.execute(_ADD, {"n": n, "text": words, "sha256": sha256, "since": audit.stamp(now)})


async def in_force(connection: Connection) -> Policy | None:
    last = await _last(connection)
    return Policy(n=last.n, text=last.text, sha256=last.sha256, since=last.since) if last is not None else None


async def _last(connection: Connection) -> Row | None:
    return (await connection.execute(_LAST)).first()
