"""Whose call it is: a call is one with another of its scope only where both were asked for by one person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, select, text

from assent.contracts.execute import Closing, ToolCall
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen
from assent.persons import Likeness, Person
from ledger import aliases, persons
from ledger.engine import Connection
from ledger.results import root_of
from ledger.revisions import plan_of
from ledger.schema import IS_ACTIVE, IS_UNKNOWN, ClaimState, claims
from ledger.statements import Row, Statement

_LOCK = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended(scope, 0)) FROM unnest(CAST(:scopes AS text[])) AS scope")
)
_ACTIVE = Statement(
    select(
        claims.c.consent, claims.c.idempotency_key, claims.c.payload_sha256, claims.c.state, claims.c.requester
    ).where(claims.c.scope_key == bindparam("scope"), IS_ACTIVE)
)
FROZEN = select(claims.c.idempotency_key, claims.c.approval_id, claims.c.requester).where(
    claims.c.payload_sha256 == bindparam("payload_sha256"), IS_UNKNOWN
)
_FROZEN = Statement(FROZEN)
_KEY = Statement(select(claims.c.idempotency_key).where(claims.c.consent == bindparam("consent")))
NOT_COMPARABLE = (
    "the same call was begun in this scope for somebody who may or may not be this requester: no id is known of both. "
    "It was not run, and nothing of the other is told; ask with another scope, or name the requester by an id of the "
    "kind that was used before"
)
SOMEBODY_ELSES = (
    "its idempotency key, its message or its event stands for somebody else's call. It was not run, and nothing of the "
    "other is told; ask with another key"
)
ANOTHER_PAYLOAD = "the idempotency key stands for another payload"
ALIAS_IN_USE = "another approval has made the same call under one of its keys; there is nothing to try again"
_MET_FIRST = (ClaimState.EXECUTED, ClaimState.STARTED, ClaimState.UNKNOWN)
"""Of several calls that one call is known as, the one whose answer it gets."""


class Refusal(Frozen):
    """That a call does not run, since nobody can say that another is the same, or somebody can say that it is not."""

    reason: str


class Twin(Frozen):
    """An identical call that is frozen."""

    approval_id: str | None
    """Whose approval, where it is the same person's: of somebody else's nobody learns more than that there is one."""

    @property
    def reason(self) -> str:
        """Why the call does not run."""
        if self.approval_id is None:
            return "somebody else's identical call was begun, and whether it took effect is not known; it is not run"
        return (
            f"approval {self.approval_id} began the same call, and whether it took effect is not known; "
            "settle that first"
        )


async def meet(connection: Connection, call: ToolCall) -> ToolCall | Refusal:
    """The call under the key that its requester's call of this scope, or of an alias, has, if one is active.

    From here to the transaction's end nobody else begins this call in this scope, or any call under its aliases.
    """
    key = await _key(connection, call, call.idempotency_key, retries=call.retries)
    return key if isinstance(key, Refusal) else call.model_copy(update={"idempotency_key": key})


async def meet_late(connection: Connection, closing: Closing) -> Closing:
    """The same for a call that no longer begins: whom nobody can compare, it does not meet."""
    plan = await plan_of(connection, closing.approval_id, closing.payload_sha256)
    if plan is None:
        return closing
    key = await _key(connection, plan, closing.idempotency_key)
    return closing if isinstance(key, Refusal) else closing.model_copy(update={"idempotency_key": key})


async def _key(
    connection: Connection, asked: ToolCall | Plan, own: str, *, retries: str | None = None
) -> str | Refusal:
    scope = asked.scope_key or own  # a plan of before had no requester in its key
    is_alone = scope.partition(":")[2].startswith("approval:")  # nobody else has this scope
    names = sorted({*asked.aliases, *([] if is_alone else [scope])})
    await _lock(connection, names)  # in one order, so that no two wait for each other
    if asked.aliases:
        return await _key_by_aliases(connection, asked, own, names, retries)
    others = [] if is_alone else await _in_scopes(connection, names)
    if not others or any(other.idempotency_key == own for other in others):
        return own
    me = await persons.person(connection, asked.requester)
    alike = {other.idempotency_key: await _likeness(connection, me, other) for other in others}
    same = next((key for key, likeness in alike.items() if likeness is Likeness.SAME), None)
    return same or (Refusal(reason=NOT_COMPARABLE) if Likeness.UNKNOWN in alike.values() else own)


async def _key_by_aliases(
    connection: Connection, asked: ToolCall | Plan, own: str, names: list[str], retries: str | None
) -> str | Refusal:
    """The same for a call that is known by aliases: what else is known by one of them is this call, or refuses it.

    What it is met as has all its names from then on.
    """
    found = [*await _in_scopes(connection, names), *await aliases.holders(connection, asked.aliases)]
    met = list({claim.consent: claim for claim in found}.values())
    me = await persons.person(connection, asked.requester)
    alike = {await _likeness(connection, me, claim) for claim in met if claim.idempotency_key != own}
    if Likeness.OTHER in alike:
        return Refusal(reason=SOMEBODY_ELSES)
    if Likeness.UNKNOWN in alike:
        return Refusal(reason=NOT_COMPARABLE)
    if any(claim.payload_sha256 != asked.payload_sha256 for claim in met):
        return Refusal(reason=ANOTHER_PAYLOAD)
    root = await root_of(connection, retries) if retries is not None else None
    if root is not None and any(claim.consent != root.consent for claim in met):
        return Refusal(reason=ALIAS_IN_USE)
    if not met:
        return own
    first = min(met, key=lambda claim: (claim.idempotency_key != own, _MET_FIRST.index(claim.state)))
    await aliases.take(connection, asked.aliases, first.consent)
    key: str = first.idempotency_key
    return key


async def _in_scopes(connection: Connection, scopes: Iterable[str]) -> list[Row]:
    """The active claims of these scopes."""
    return [row for scope in scopes for row in await connection.execute(_ACTIVE, {"scope": scope})]


async def twin_of(connection: Connection, payload_sha256: str, namespace: str, requester: Identity) -> Twin | None:
    """The identical call of this namespace that is frozen, whoever asked for it."""
    found = await connection.execute(_FROZEN, {"payload_sha256": payload_sha256})
    twins = [row for row in found if row.idempotency_key.startswith(f"{namespace}:")]
    if not twins:
        return None
    me = await persons.person(connection, requester)
    own = [row.approval_id for row in twins if await _likeness(connection, me, row) is Likeness.SAME]
    return Twin(approval_id=own[0] if own else None)


async def frozen_twin(connection: Connection, asked: ToolCall | Plan) -> Twin | None:
    """The call that is the same as this one but for its key, and that is frozen."""
    namespace = asked.idempotency_key.partition(":")[0]
    return await twin_of(connection, asked.payload_sha256, namespace, asked.requester)


def told_of_twin(twin: Twin | None) -> dict[str, Any]:
    """What a plan says of an identical call that is frozen."""
    return {
        "frozen_twin": twin.approval_id if twin else None,
        "another_is_frozen": twin is not None and twin.approval_id is None,
    }


async def of_one_person(connection: Connection, requester: Identity, plans: Iterable[Plan]) -> list[Plan]:
    """Those of the plans that the same person asked for, for certain."""
    me = await persons.person(connection, requester)
    same = []
    for plan in plans:
        if me.likeness(await persons.person(connection, plan.requester)) is Likeness.SAME:
            same.append(plan)
    return same


async def key_of(connection: Connection, consent: str) -> str | None:
    """The key under which a consent was claimed."""
    key: str | None = (await connection.execute(_KEY, {"consent": consent})).scalar_one_or_none()
    return key


async def _likeness(connection: Connection, me: Person, claim: Row) -> Likeness:
    if claim.requester is None:
        return Likeness.UNKNOWN
    return me.likeness(await persons.person(connection, Identity.model_validate_json(claim.requester)))


async def _lock(connection: Connection, scopes: list[str]) -> None:
    """SQLite lets one write at a time as it is."""
    if scopes and connection.dialect.name == "postgresql":
        await connection.execute(_LOCK, {"scopes": scopes})
