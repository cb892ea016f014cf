"""The threads of agent loops: messages that only grow, calls that begin once, and one place that runs them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Self

from sqlalchemy import bindparam, func, or_, select, update

from assent.hitl import HitlConcurrencyError
from ledger.audit import stamp
from ledger.clock import database_now
from ledger.engine import Connection, Engine, inserted, open_engine
from ledger.schema import thread_calls, thread_holds, thread_messages
from ledger.statements import Statement, insert

HELD_FOR = timedelta(seconds=60)
"""How long a process that says nothing more keeps a thread to itself."""

_of_thread = thread_messages.c.thread_id == bindparam("thread_id")
_MESSAGES = Statement(select(thread_messages.c.message).where(_of_thread).order_by(thread_messages.c.n))
_LAST = Statement(select(func.coalesce(func.max(thread_messages.c.n), 0)).where(_of_thread))
_APPEND = Statement(insert(thread_messages).on_conflict_do_nothing())
_BEGIN = Statement(insert(thread_calls).on_conflict_do_nothing())
_is_call = (
    thread_calls.c.thread_id == bindparam("of_thread"),
    thread_calls.c.tool_call_id == bindparam("of_call"),
)
_BEGIN_ANEW = Statement(update(thread_calls).where(*_is_call, thread_calls.c.is_begun == 0).values(is_begun=1))
_LEAVE = Statement(update(thread_calls).where(*_is_call).values(is_begun=0))
_HOLD = Statement(insert(thread_holds).on_conflict_do_nothing())
_HOLDER = Statement(
    select(thread_holds.c.holder).where(
        thread_holds.c.thread_id == bindparam("of_thread"), thread_holds.c.held_until > bindparam("now")
    )
)
_TAKE_OVER = Statement(
    update(thread_holds)
    .where(
        thread_holds.c.thread_id == bindparam("of_thread"),
        or_(thread_holds.c.held_until <= bindparam("now"), thread_holds.c.holder == bindparam("of_holder")),
    )
    .values(holder=bindparam("of_holder"), held_until=bindparam("until"))
)


class LedgerCheckpointer:
    """Threads in the ledger, for agents that run where the ledger is: `LedgerCheckpointer.open(url)`.

    A thread runs in one place: whoever runs it says so again and again, and keeps it a minute beyond its last word.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._holders: dict[str, str] = {}

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the ledger's database, which has to be set up."""
        return cls(open_engine(url))

    async def dispose(self) -> None:
        """Let go of connections."""
        await self._engine.dispose()

    async def load(self, thread_id: str) -> list[dict[str, Any]]:
        """All messages of a thread, in order."""
        return [json.loads(text) for text in await self._engine.read(_load, thread_id)]

    async def append(self, thread_id: str, messages: Sequence[dict[str, Any]]) -> None:
        """Add messages at the end. Raises HitlConcurrencyError if the thread runs elsewhere."""
        texts = [json.dumps(message, ensure_ascii=False) for message in messages]
        await self._engine.write(_append, thread_id, texts, self._holders.get(thread_id))

    @asynccontextmanager
    async def hold(self, thread_id: str) -> AsyncIterator[None]:
        """Have a thread to oneself, against other processes too."""
        holder = uuid.uuid4().hex
        await self._engine.write(_hold, thread_id, holder, HELD_FOR)
        self._holders[thread_id] = holder
        renewing = asyncio.create_task(self._renew(thread_id, holder))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
            del self._holders[thread_id]
            await self._engine.write(_hold, thread_id, holder, timedelta(0))

    async def begin(self, thread_id: str, tool_call_id: str) -> bool:
        """Note that a call begins; False if it began before."""
        return await self._engine.write(_begin, thread_id, tool_call_id, self._holders.get(thread_id))

    async def leave(self, thread_id: str, tool_call_id: str) -> None:
        """Note that a call that began has stopped and may begin anew."""
        await self._engine.write(_leave, thread_id, tool_call_id)

    async def _renew(self, thread_id: str, holder: str) -> None:
        while True:
            await asyncio.sleep(HELD_FOR.total_seconds() / 4)
            await self._engine.write(_hold, thread_id, holder, HELD_FOR)


async def _load(connection: Connection, thread_id: str) -> list[str]:
    return (await connection.execute(_MESSAGES, {"thread_id": thread_id})).scalars()


async def _append(connection: Connection, thread_id: str, texts: list[str], holder: str | None) -> None:
    await _refuse_elsewhere(connection, thread_id, holder)
    last = (await connection.execute(_LAST, {"thread_id": thread_id})).scalar_one()
    for n, text in enumerate(texts, last + 1):
        if not await inserted(connection, _APPEND, {"thread_id": thread_id, "n": n, "message": text}):
            raise _elsewhere(thread_id)


async def _begin(connection: Connection, thread_id: str, tool_call_id: str, holder: str | None) -> bool:
    await _refuse_elsewhere(connection, thread_id, holder)
    if await inserted(connection, _BEGIN, {"thread_id": thread_id, "tool_call_id": tool_call_id, "is_begun": 1}):
        return True
    anew = await connection.execute(_BEGIN_ANEW, {"of_thread": thread_id, "of_call": tool_call_id})
    return anew.rowcount == 1


async def _leave(connection: Connection, thread_id: str, tool_call_id: str) -> None:
    await connection.execute(_LEAVE, {"of_thread": thread_id, "of_call": tool_call_id})


async def _hold(connection: Connection, thread_id: str, holder: str, span: timedelta) -> None:
    now = await database_now(connection)
    until = stamp(now + span)
    if await inserted(connection, _HOLD, {"thread_id": thread_id, "holder": holder, "held_until": until}):
        return
    taken = await connection.execute(
        _TAKE_OVER, {"of_thread": thread_id, "of_holder": holder, "now": stamp(now), "until": until}
    )
    if taken.rowcount == 0:
        raise _elsewhere(thread_id)


async def _refuse_elsewhere(connection: Connection, thread_id: str, holder: str | None) -> None:
    now: datetime = await database_now(connection)
    found = (await connection.execute(_HOLDER, {"of_thread": thread_id, "now": stamp(now)})).scalar_one_or_none()
    if found is not None and found != holder:
        raise _elsewhere(thread_id)


def _elsewhere(thread_id: str) -> HitlConcurrencyError:
    return HitlConcurrencyError(f"thread {thread_id!r} runs elsewhere just now")
