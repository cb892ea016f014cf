"""What has been asked for, counted where every process sees it, under a lock: no two requests are both the last."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, select, text, union_all

from assent.contracts.address import Address, AddressKind
from assent.contracts.asking import QuestionPlan
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import DAY, HOUR, AgentLimits, Exceeded, Limits, Quota
from assent.contracts.request import Request
from assent.contracts.values import Frozen
from assent.persons import Person
from ledger import audit, persons
from ledger.engine import Connection
from ledger.schema import approvals, questions
from ledger.statements import Parameters, Statement

_WHILE_PENDING = 30
"""In how many seconds it is worth asking again where something has to end first."""


_BOTH = (approvals, questions)
"""What is counted: both are asked of people."""


def _pending_of(whose: str) -> Statement:
    counts = (
        select(func.count())
        .select_from(table)
        .where(table.c[whose] == bindparam("whose"), table.c.status.is_(None), table.c.plan.is_not(None))
        .where(table.c.open_until > bindparam("now"))
        for table in _BOTH
    )
    return Statement(union_all(*counts))


_LOCK = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended(name, 9)) FROM unnest(CAST(:names AS text[])) AS name")
)
_PENDING_OF_AGENT = _pending_of("asked_by")
_PENDING_OF_PERSON = _pending_of("person")
_seen = (
    select(func.count(), func.min(table.c.created_at)).where(
        table.c.chat_id == bindparam("chat_id"), table.c.created_at > bindparam("since")
    )
    for table in _BOTH
)
_SEEN = Statement(union_all(*_seen))
_stored = (
    select(func.coalesce(func.sum(table.c.size), 0), func.min(table.c.created_at)).where(
        table.c.asked_by == bindparam("whose"), table.c.created_at > bindparam("since")
    )
    for table in _BOTH
)
_STORED = Statement(union_all(*_stored))


class Place(Frozen):
    """By what a request is counted."""

    asked_by: str | None
    """The agent that asks."""
    person: str
    """On whose behalf, whichever of their ids is given."""
    chat_id: str | None
    """Where it is seen: a chat, or a person's private chat."""
    size: int


async def place_of(connection: Connection, request: Request, plan: Plan | None, requester: Person) -> Place:
    return Place(
        asked_by=request.asked_by,
        person=requester.canonical,
        chat_id=await _seen_in(connection, plan) if plan else None,
        size=len(request.model_dump_json()),
    )


async def place_of_question(connection: Connection, request: QuestionRequest, plan: QuestionPlan) -> Place:
    first = plan.addresses[0] if plan.addresses else None
    return Place(
        asked_by=request.asked_by,
        person=(await persons.person(connection, plan.requester)).canonical,
        chat_id=await _at(connection, first, plan.tenant_key) if first else None,
        size=len(request.model_dump_json()),
    )


async def exceeded_by(connection: Connection, request: Request, limits: Limits, now: datetime) -> Exceeded | None:
    """The quota that a request without a plan would go beyond."""
    requester = await persons.person(connection, request.requester)
    return await exceeded(connection, await place_of(connection, request, None, requester), limits, now)


async def exceeded(connection: Connection, place: Place, limits: Limits, now: datetime) -> Exceeded | None:
    """The quota that one more request would go beyond. From here to the transaction's end nobody else adds one."""
    await _lock(connection, place, limits)
    if place.asked_by is not None:
        found = await of_agent(connection, place.asked_by, limits.agent, now, size=place.size)
        if found is not None:
            return found
    if limits.requester_pending is not None:
        pending = await _pending(connection, _PENDING_OF_PERSON, place.person, now)
        if pending + 1 > limits.requester_pending:
            return Exceeded(quota=Quota.REQUESTER, limit=limits.requester_pending, retry_after=_WHILE_PENDING)
    if limits.chat_requests_per_hour is not None and place.chat_id is not None:
        there: Parameters = {"chat_id": place.chat_id, "since": audit.stamp(now - HOUR)}
        count, first = await _lately(connection, _SEEN, there)
        if count + 1 > limits.chat_requests_per_hour:
            return Exceeded(quota=Quota.CHAT, limit=limits.chat_requests_per_hour, retry_after=_until(first, HOUR, now))
    return None


async def of_agent(
    connection: Connection, principal: str, limits: AgentLimits, now: datetime, *, size: int, more: int = 1
) -> Exceeded | None:
    """The agent's quota that so many more requests, of so many bytes together, would go beyond."""
    if limits.pending is not None:
        pending = await _pending(connection, _PENDING_OF_AGENT, principal, now)
        if pending + more > limits.pending:
            return Exceeded(quota=Quota.PENDING, limit=limits.pending, retry_after=_WHILE_PENDING)
    if limits.bytes_per_day is not None:
        lately = {"whose": principal, "since": audit.stamp(now - DAY)}
        stored, first = await _lately(connection, _STORED, lately)
        if stored + size > limits.bytes_per_day:
            return Exceeded(quota=Quota.BYTES, limit=limits.bytes_per_day, retry_after=_until(first, DAY, now))
    return None


async def _pending(connection: Connection, counted: Statement, whose: str, now: datetime) -> int:
    found = await connection.execute(counted, {"whose": whose, "now": audit.stamp(now)})
    return sum(map(int, found.scalars()))


async def _lately(connection: Connection, counted: Statement, which: Parameters) -> tuple[int, str | None]:
    """How much there was lately, and since when."""
    found = (await connection.execute(counted, which)).all()
    return sum(int(each[0]) for each in found), min((each[1] for each in found if each[1]), default=None)


async def _seen_in(connection: Connection, plan: Plan) -> str | None:
    """Where the card is seen; nowhere, where nobody is asked.

    A reply lies where its message does, whatever chat the agent names; while nobody knows that, it counts with what its
    requester is shown in private. Chats and people have names of their own: none passes for the other.
    """
    if plan.asks_nobody or not plan.addresses:
        return None
    first = plan.addresses[0]
    if first.reply_to is not None and plan.chat_is_known and plan.conversation is not None:
        return f"chat:{plan.conversation}"
    if first.reply_to is None:
        return await _at(connection, first, plan.tenant_key)
    return f"person:{(await persons.person(connection, plan.requester)).canonical}"


async def _at(connection: Connection, address: Address, tenant_key: str | None) -> str:
    """A chat, or a person's private chat."""
    if address.kind is AddressKind.CHAT_ID:
        return f"chat:{address.id}"
    person = Identity.model_validate({address.kind.value: address.id, "tenant_key": tenant_key})
    return f"person:{(await persons.person(connection, person)).canonical}"


def _until(first: str | None, window: timedelta, now: datetime) -> int:
    """When the first one of a window falls out of it."""
    if first is None:
        return int(window.total_seconds())
    left = (datetime.fromisoformat(first) + window - now).total_seconds()
    return max(1, min(int(left) + 1, int(window.total_seconds())))


async def _lock(connection: Connection, place: Place, limits: Limits) -> None:
    """SQLite lets one write at a time as it is. In one order, nobody waits in a ring."""
    if connection.dialect.name != "postgresql":
        return
    names = []
    if limits.chat_requests_per_hour is not None and place.chat_id is not None:
        names.append(f"chat:{place.chat_id}")
    if limits.requester_pending is not None:
        names.append(f"person:{place.person}")
    if place.asked_by is not None and limits.agent != AgentLimits():
        names.append(f"agent:{place.asked_by}")
    if names:
        await connection.execute(_LOCK, {"names": [f"quota/{name}" for name in sorted(names)]})
