"""Overrides of tools' permissions: those in force, and all that were, chained."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, select

from assent import agent_calls
from assent.contracts.manifest import Manifest
from assent.contracts.permission import Permission
from assent.contracts.policy import NewOverride, Overridden, Override, OverrideKind
from assent.names import AGENT_CALL
from assent.payload import canonical_json, sha256
from ledger import audit, catalogues
from ledger.clock import database_now
from ledger.engine import Connection
from ledger.policies import hold_policies
from ledger.schema import overrides
from ledger.statements import Row, Statement, insert

_LAST = Statement(select(overrides.c.n, overrides.c.hash).order_by(overrides.c.n.desc()).limit(1))
_last_of_tool = select(overrides.c.body).where(overrides.c.tool == bindparam("tool"))
_last_of_tool = _last_of_tool.order_by(overrides.c.n.desc()).limit(1)
LAST_OF_TOOL = _last_of_tool.scalar_subquery()
_OF_TOOL = Statement(_last_of_tool)
_SAME = Statement(select(overrides).where(overrides.c.once == bindparam("wish")))
_newest = select(func.max(overrides.c.n).label("n")).group_by(overrides.c.tool).subquery()
_NEWEST = Statement(select(overrides).join(_newest, overrides.c.n == _newest.c.n).order_by(overrides.c.tool))
_ALL = Statement(select(overrides).order_by(overrides.c.n))
_ADD = Statement(insert(overrides))


async def put(connection: Connection, wish: NewOverride, *, may_loosen: bool) -> Overridden:
    """Put an override in force in the place of the tool's last, if that asks for no less, or its actor may loosen."""
    await hold_policies(connection, alone=True)
    now = await database_now(connection)
    if (same := (await connection.execute(_SAME, {"wish": wish.once})).first()) is not None:
        return _told(_read(same))
    manifest, last = await _manifest(connection, wish.tool), await _of_tool(connection, wish.tool, now)
    n, head = await _last(connection)
    until = now + wish.until if isinstance(wish.until, timedelta) else wish.until
    said = wish.model_dump(include=set(Override.model_fields) - {"n", "since", "until", "by_operator"})
    made = Override(n=n + 1, since=now, until=until, by_operator=may_loosen, **said)
    if not may_loosen and _loosens(made, last, manifest):
        return Overridden(kind=OverrideKind.FORBIDDEN, override=last)
    body = canonical_json(made.model_dump(mode="json")).decode()
    row = {"n": made.n, "tool": made.tool, "once": made.once, "until": audit.stamp(until) if until else None}
    await connection.execute(_ADD, {**row, "body": body, "previous": head, "hash": sha256(head + body)})
    return _told(made)


async def _manifest(connection: Connection, tool: str) -> Manifest | None:
    """What a tool says of itself; of what an agent runs itself, by whichever name, the service says it."""
    if tool.partition(":")[0] == AGENT_CALL:
        return agent_calls.MANIFEST
    return await catalogues.manifest_of(connection, tool)


def _told(made: Override) -> Overridden:
    is_word = made.execution is not None or made.result is not None
    return Overridden(kind=OverrideKind.IN_FORCE if is_word else OverrideKind.ENDED, override=made)


def _loosens(made: Override, last: Override | None, manifest: Manifest | None) -> bool:
    """Whether it asks for less than the tool, or now or later for less than the override in whose place it comes.

    Of a tool that nobody has published, nobody can say.
    """
    if manifest is None:
        return True
    own = manifest.permission
    wished = made.model_copy(update={"by_operator": True}).over(own)
    if _is_below(wished, own):
        return True
    if last is None:
        return False
    now = last.over(own)
    ends_before = made.until is not None and (last.until is None or made.until < last.until)
    return _is_below(wished, now) or (ends_before and _is_below(own, now))


def _is_below(one: Permission, other: Permission) -> bool:
    execution = one.execution.strictness < other.execution.strictness
    return execution or one.result.strictness < other.result.strictness


def number(body: str | None, now: datetime) -> int:
    """Which override of a tool is in force, 0 if none is.

    body: of the tool's last.
    """
    last = Override.model_validate_json(body) if body is not None else None
    return last.n if last is not None and _counts(last, now) else 0


async def in_force(connection: Connection) -> Mapping[str, Override]:
    """Every override that is in force, by its tool."""
    now = await database_now(connection)
    found = [_read(row) for row in (await connection.execute(_NEWEST)).all()]
    return {each.tool: each for each in found if _counts(each, now)}


async def listed(connection: Connection) -> tuple[Override, ...]:
    return tuple((await in_force(connection)).values())


async def problems(connection: Connection) -> list[str]:
    """Every way in which the chain is not what was written."""
    found: list[str] = []
    previous, count = "", 0
    async for row in connection.stream(_ALL):
        count += 1
        if row.n != count:
            found.append(f"override {row.n}: {row.n - count} overrides before it are gone")
            count = row.n
        if row.previous != previous or row.hash != sha256(row.previous + row.body):
            found.append(f"override {row.n}: it was altered, or does not follow the one before it")
        elif not _agrees(row):
            found.append(f"override {row.n}: what is in force is not what was said")
        previous = row.hash
    return found


def _agrees(row: Row) -> bool:
    said = _read(row)
    until = audit.stamp(said.until) if said.until else None
    return (said.n, said.tool, said.once, until) == (row.n, row.tool, row.once, row.until)


async def _of_tool(connection: Connection, tool: str, now: datetime) -> Override | None:
    row = (await connection.execute(_OF_TOOL, {"tool": tool})).first()
    found = _read(row) if row is not None else None
    return found if found is not None and _counts(found, now) else None


def _counts(override: Override, now: datetime) -> bool:
    is_word = override.execution is not None or override.result is not None
    return is_word and (override.until is None or override.until > now)


async def _last(connection: Connection) -> tuple[int, str]:
    last = (await connection.execute(_LAST)).first()
    return (last.n, last.hash) if last is not None else (0, "")


def _read(row: Row) -> Override:
    return Override.model_validate_json(row.body)
