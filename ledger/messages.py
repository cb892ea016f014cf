"""What was sent to Feishu for an approval: noted before it is tried, and the moment its message id is known."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, or_, select, update

from assent.contracts.address import Address
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import DecisionKind, Judged, Stage, VerdictKind
from assent.contracts.grants import Grant
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.ruling import Settlement
from assent.contracts.status import Status
from assent.contracts.values import Frozen
from assent.payload import sha256
from ledger import audit
from ledger.engine import Connection, inserted
from ledger.grants import grant_about
from ledger.records import records_of
from ledger.revisions import approval_of, edited_by, plan_of, standing_plan
from ledger.schema import claims, decisions, messages
from ledger.settlements import settlement_of
from ledger.statements import Statement, insert

_PLACE = ("approval_id", "kind", "generation", "place")
_its_own = [messages.c[name] == bindparam(f"of_{name}") for name in _PLACE]
_ADD = Statement(insert(messages).on_conflict_do_nothing())
_ONE = Statement(select(messages).where(*_its_own))
_ARRIVE = Statement(update(messages).where(*_its_own, messages.c.message_id.is_(None)))
_ALL = Statement(
    select(messages)
    .where(messages.c.approval_id == bindparam("of"))
    .order_by(messages.c.generation, messages.c.place, messages.c.kind)
)
_JUDGED = Statement(
    select(decisions.c.judged, decisions.c.place)
    .where(decisions.c.approval_id == bindparam("of"))
    .order_by(decisions.c.place, decisions.c.event_id)
    .limit(bindparam("limit"))
)
_TWIN_KEY = Statement(
    select(claims.c.idempotency_key).where(
        claims.c.approval_id == bindparam("of"), claims.c.payload_sha256 == bindparam("payload_sha256")
    )
)


class MessageKind(StrEnum):
    CARD = "card"
    RESULT = "result"
    FILE = "file"
    REVIEW = "review"
    NOTICE = "notice"
    BUNDLE = "bundle"
    """A card that several approvals share."""


_ASKING = (MessageKind.CARD, MessageKind.RESULT)
"""The messages that people decide on."""


class Shown(StrEnum):
    """What a card says."""

    PENDING = "pending"
    DECIDED = "decided"
    REPLACED = "replaced"
    FINAL = "final"
    SETTLED = "settled"


_BEHIND = Statement(
    select(messages.c.place)
    .where(
        messages.c.approval_id == bindparam("of"),
        messages.c.kind.in_(_ASKING),
        or_(messages.c.shown.is_(None), messages.c.shown.in_((Shown.PENDING, Shown.DECIDED))),
    )
    .limit(1)
)


_SHOW = Statement(update(messages).where(*_its_own, or_(messages.c.shown.is_(None), messages.c.shown != Shown.SETTLED)))


class Slot(Frozen):
    """The place of one message among those of its approval: the same slot is the same message."""

    approval_id: str
    kind: MessageKind
    generation: int
    """Cards are sent afresh before Feishu stops their buttons; this counts."""
    place: int
    """Which of the plan's addresses it goes to."""

    @property
    def uuid(self) -> str:
        """What Feishu knows a repeated sending by, for an hour."""
        return sha256(f"{self.approval_id}/{self.kind}/{self.generation}/{self.place}")[:40]


class Message(Frozen):
    """One row: a message that was sent, or tried."""

    slot: Slot
    message_id: str | None
    chat_id: str | None
    shown: Shown | None
    address: Address | None = None
    """Where it goes, if that is not what the plan says of its place."""


class Record(Frozen):
    """All that a card of an approval is made of."""

    plan: Plan
    """The one that stands, or by which it ended."""
    decided: Judged | None
    """The decision about the call that stands."""
    approvals: tuple[Judged, ...] = ()
    """The approvals of what the plan holds, in order."""
    outcome: Outcome | None
    closed_at: datetime | None
    settlement: Settlement | None
    twin_key: str | None
    """The key of the frozen call that is identical to this one."""
    messages: tuple[Message, ...]
    grant: Grant | None = None
    """The remembered decision that stood in for people, or that theirs became; as it stands now."""
    parameters: dict[str, Any] | None = None
    """What the tool takes, where its plan was made just now."""

    @classmethod
    def of_new(cls, plan: Plan) -> Record | None:
        """What is known of an approval whose plan was stored just now; None if its card tells of others, too."""
        if plan.grant is not None or plan.frozen_twin is not None or plan.bundle_id is not None:
            return None
        nothing = {"decided": None, "outcome": None, "closed_at": None, "settlement": None, "twin_key": None}
        return cls(plan=plan, parameters=plan.parameters, messages=(), **nothing)


async def are_behind(connection: Connection, record: str) -> bool:
    """Whether some card of what has ended may not show that."""
    return (await connection.execute(_BEHIND, {"of": record})).first() is not None


async def intend(
    connection: Connection,
    slot: Slot,
    now: datetime,
    *,
    address: Address | None = None,
    after_end: bool = False,
) -> Message | None:
    """Note that a message is about to be sent; None if the approval has ended, and nothing may be sent any more.

    address: where it goes, if the plan does not say; the first that was said stays.
    after_end: whether it is about what came after.
    """
    status = (
        await connection.execute(records_of(slot.approval_id).status, {"of": slot.approval_id})
    ).scalar_one_or_none()
    if status is not None and not after_end:
        return None
    where = address.model_dump_json() if address else None
    tried = {**slot.model_dump(), "tried_at": audit.stamp(now), "address": where}
    if await inserted(connection, _ADD, tried):
        return Message(slot=slot, message_id=None, chat_id=None, shown=None, address=address)
    return _message((await connection.execute(_ONE, _is(slot))).one())


async def sent(
    connection: Connection, slot: Slot, message_id: str, chat_id: str | None, shown: Shown, now: datetime
) -> None:
    """The message is there, under this id."""
    known = {"message_id": message_id, "chat_id": chat_id, "shown": shown}
    changed = await connection.execute(_ARRIVE, {**_is(slot), **known})
    if changed.rowcount and slot.kind in _ASKING:
        which = "" if slot.kind is MessageKind.CARD else f"{slot.kind}:"
        entry = AuditEntry(
            event=AuditEvent.DELIVER,
            at=now,
            once=f"deliver:{which}{slot.generation}:{slot.place}",
            message_id=message_id,
        )
        await audit.append(connection, slot.approval_id, [entry])


def bundle_slot(bundle_id: str, place: int) -> Slot:
    """The place of a card that several approvals share, one for each address. Its own row is of generation 0."""
    return Slot(approval_id=bundle_id, kind=MessageKind.BUNDLE, generation=0, place=place)


async def shared(
    connection: Connection,
    slot: Slot,
    message_id: str,
    chat_id: str | None,
    approval_ids: tuple[str, ...],
    now: datetime,
) -> None:
    """A card that several approvals share is there: each of them knows it as a card of its own."""
    await sent(connection, slot, message_id, chat_id, Shown.PENDING, now)
    known = {"tried_at": audit.stamp(now), "message_id": message_id, "chat_id": chat_id}
    for approval_id in approval_ids:
        own = slot.model_copy(update={"approval_id": approval_id, "generation": 1})
        if await inserted(connection, _ADD, {**own.model_dump(), **known, "shown": Shown.PENDING}):
            once = f"deliver:bundle:{slot.place}"
            entry = AuditEntry(event=AuditEvent.DELIVER, at=now, once=once, message_id=message_id)
            await audit.append(connection, approval_id, [entry])


async def shows(connection: Connection, slot: Slot, shown: Shown) -> None:
    """What a message says from now on; one that says what was settled goes on doing so."""
    await connection.execute(_SHOW, {**_is(slot), "shown": shown})


async def messages_of(connection: Connection, approval_id: str) -> tuple[Message, ...]:
    return tuple(_message(row) for row in await connection.execute(_ALL, {"of": approval_id}))


async def record_of(connection: Connection, approval_id: str, payload_sha256: str | None = None) -> Record | None:
    """What the ledger knows of an approval that has a plan.

    payload_sha256: which of its plans is meant, if not the one that stands.
    """
    row = await approval_of(connection, approval_id)
    if row is None or row.plan is None:
        return None
    meant = await plan_of(connection, approval_id, payload_sha256) if payload_sha256 is not None else None
    plan = meant or await standing_plan(connection, row)
    accepted = [
        judged
        for judged in await judged_of(connection, approval_id)
        if judged.verdict is VerdictKind.ACCEPTED and judged.stage is Stage.CALL and judged.kind in _DECIDING
    ]
    return Record(
        plan=plan,
        decided=accepted[-1] if accepted else None,
        approvals=_approving(accepted, plan, await edited_by(connection, plan)),
        outcome=Outcome.model_validate_json(row.outcome) if row.outcome else None,
        closed_at=datetime.fromisoformat(row.closed_at) if row.closed_at else None,
        settlement=await settlement_of(connection, approval_id) if row.status in (None, Status.FROZEN) else None,
        twin_key=await _twin_key(connection, plan) if plan.frozen_twin else None,
        messages=await messages_of(connection, approval_id),
        grant=await grant_about(connection, plan),
    )


async def judged_of(connection: Connection, approval_id: str, limit: int | None = None) -> list[Judged]:
    """The decisions on an approval, in the order in which they were received."""
    found = await connection.execute(_JUDGED, {"of": approval_id, "limit": _ALL_OF_THEM if limit is None else limit})
    rows = [(Judged.model_validate_json(row.judged), row.place) for row in found]
    return [judged for judged, _ in sorted(rows, key=lambda row: (row[0].received_at, row[1]))]


_DECIDING = (DecisionKind.APPROVE, DecisionKind.EDIT, DecisionKind.REJECT)
_ALL_OF_THEM = 2**31 - 1


def _approving(accepted: list[Judged], plan: Plan, edit: str | None) -> tuple[Judged, ...]:
    """Who approved what the plan holds: the edit that made it, though it saw another, and nobody before it."""
    since = next((n for n, judged in enumerate(accepted) if judged.event_id == edit), 0)
    seen = (None, plan.payload_sha256) if edit is None else (plan.payload_sha256,)
    return tuple(
        judged
        for judged in accepted[since:]
        if judged.event_id == edit or (judged.kind is DecisionKind.APPROVE and judged.payload_sha256 in seen)
    )


async def _twin_key(connection: Connection, plan: Plan) -> str | None:
    twin = {"of": plan.frozen_twin, "payload_sha256": plan.payload_sha256}
    key: str | None = (await connection.execute(_TWIN_KEY, twin)).scalar()
    return key


def _is(slot: Slot) -> dict[str, Any]:
    return {f"of_{name}": getattr(slot, name) for name in _PLACE}


def _message(row: Any) -> Message:
    return Message(
        slot=Slot(approval_id=row.approval_id, kind=row.kind, generation=row.generation, place=row.place),
        message_id=row.message_id,
        chat_id=row.chat_id,
        shown=row.shown,
        address=Address.model_validate_json(row.address) if row.address else None,
    )
