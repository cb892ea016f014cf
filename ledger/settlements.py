"""Settlements: what became of frozen calls, kept once, and found by everybody whose claim leads there."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CTE, bindparam, exists, func, select, text, update

from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.execute import ReportKind
from assent.contracts.review import FrozenApproval, Told
from assent.contracts.ruling import Ruling, RulingKind, Settlement
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.payload import sha256
from ledger import audit, crosscheck
from ledger.engine import Connection, inserted
from ledger.results import claim_of, content_of, is_readable, path_of, root_of
from ledger.schema import ClaimState, approvals, claims, messages, retries, settlements
from ledger.statements import Row, Statement, insert

KINDS = {ClaimState.EXECUTED: RulingKind.EXECUTED, ClaimState.FAILED: RulingKind.NOT_EXECUTED}
MOST_NAMED = 20
"""How many of those who wait for an answer are named; any number may wait."""
BATCH = 50
"""How many of them are told in one transaction."""


def _answered() -> CTE:
    """A claim, and every claim that was answered with it because nobody knew what became of its call."""
    found = select(claims.c.consent).where(claims.c.consent == bindparam("root")).cte("answered", recursive=True)
    led_there = claims.alias("led_there")
    by = select(led_there.c.consent).join(found, led_there.c.answered_by == found.c.consent)
    return found.union(by.where(text("led_there.answer = 'unknown'")))


_all = _answered()
_is_answered = _all.c.consent == claims.c.consent
_its_approval = approvals.c.approval_id == claims.c.approval_id
_STATUS = Statement(select(approvals.c.status).where(approvals.c.approval_id == bindparam("of")))
_ADD = Statement(insert(settlements).on_conflict_do_nothing())
_ROW = Statement(select(settlements).where(settlements.c.consent == bindparam("consent")))
_CHANGE = Statement(update(settlements).where(settlements.c.consent == bindparam("of")))
_WITH_CARDS = Statement(
    select(messages.c.approval_id).where(messages.c.approval_id.in_(bindparam("ids", expanding=True))).distinct()
)
_ASKED_BY = Statement(
    select(approvals.c.asked_by)
    .join(claims, _its_approval)
    .join(_all, _is_answered)
    .where(approvals.c.asked_by.is_not(None))
    .distinct()
)
_FROZEN = Statement(
    select(claims.c.approval_id)
    .join(_all, _is_answered)
    .join(approvals, _its_approval)
    .where(claims.c.approval_id > bindparam("after"), approvals.c.status == Status.FROZEN)
    .order_by(claims.c.approval_id)
    .distinct()
    .limit(bindparam("limit"))
)
_SOME = Statement(select(claims.c.approval_id).join(_all, _is_answered).distinct().limit(MOST_NAMED + 1))
_COUNT = Statement(select(func.count(claims.c.approval_id.distinct())).join(_all, _is_answered))
_SEALED = Statement(select(claims.c.consent).join(_all, _is_answered).where(claims.c.sealed == 1).limit(1))
_RULING = Statement(select(retries.c.ruling).where(retries.c.consent == bindparam("consent")))
_UNMADE = Statement(
    select(retries.c.ruling)
    .where(
        retries.c.idempotency_key == bindparam("key"),
        ~exists().where(claims.c.consent == retries.c.consent, claims.c.state != ClaimState.CLOSED),
    )
    .order_by(retries.c.asked_at.desc())
    .limit(1)
)


async def settlement_of(connection: Connection, approval_id: str) -> Settlement | None:
    """What was settled of an approval's frozen call, with as much of the result as it may be told."""
    ended = (await connection.execute(_STATUS, {"of": approval_id})).scalar_one_or_none()
    if ended not in (None, Status.FROZEN):
        return None  # before anything is read of its claim, whose result may be large
    own = await claim_of(connection, approval_id)
    root = await root_of(connection, approval_id)
    if own is None or root is None or own.answer == ReportKind.REPLAYED:
        return None
    row = await _row(connection, root.consent)
    if row is None:
        return None
    settlement = Settlement.model_validate_json(row.settlement)
    settlement = await _naming_others(connection, settlement, root)
    path = await path_of(connection, own)
    return _with_content(settlement, path[-1]) if is_readable(path) else settlement


async def for_all(connection: Connection, settlement: Settlement, root: Row) -> Settlement:
    """A settlement as its review tells it: with the result, if that is kept from none of those who get the answer."""
    settlement = await _naming_others(connection, settlement, root)
    if await _any_sealed(connection, root.consent) or not is_readable(await path_of(connection, root)):
        return settlement
    return _with_content(settlement, root)


async def standing(connection: Connection, root: Row) -> Settlement | None:
    """What is settled of the claim that others wait for; None while nobody knows what became of it."""
    if row := await _row(connection, root.consent):
        return Settlement.model_validate_json(row.settlement)
    if ClaimState(root.state) not in KINDS:
        return None
    return (await _by_itself(connection, root))[0]


async def settle(
    connection: Connection,
    root: Row,
    settlement: Settlement | None = None,
    entry: AuditEntry | None = None,
    *,
    told: str | None = None,
) -> Settlement:
    """Keep what is known of a claim that is known from here on, for all who wait for it; the first word stands.

    The first of those who wait have it in their audit at once; `tell` goes on from there.

    settlement, entry: what was found out, and by whom. If nothing is said, the claim ended by itself.
    told: the approval whose review says so, whether it has ended or not.
    """
    first = [told] if told else []
    if settlement is None or entry is None:
        settlement, entry = await _by_itself(connection, root)
    else:
        first.append(root.approval_id)  # what a ruling made of the claim is on record with it
    kept = settlement.model_dump_json(exclude={"content", "truncated", "also"})
    entry = entry.model_copy(update={"settlement_sha256": crosscheck.settlement_sha256(root.consent, kept)})
    row = {
        "consent": root.consent,
        "settlement": kept,
        "entry": entry.model_dump_json(),
        "settled_at": audit.stamp(settlement.settled_at),
    }
    if await inserted(connection, _ADD, row):
        for approval_id in dict.fromkeys((*first, *await waiting(connection, root.consent))):
            await audit.append(connection, approval_id, [entry])
    known = await _row(connection, root.consent)
    assert known is not None, "it is there"
    return Settlement.model_validate_json(known.settlement)


async def tell(connection: Connection, approval_id: str, after: str) -> Told:
    """Write what was settled into the audits of those who wait, some at a time; nobody is left once none is named."""
    root = await root_of(connection, approval_id)
    row = await _row(connection, root.consent) if root is not None else None
    if root is None or row is None:
        return Told()
    found = await waiting(connection, root.consent, after, BATCH)
    if not found:
        await connection.execute(_CHANGE, {"of": root.consent, "told": 1})
        return Told()
    await audit.lock(connection, *found)
    entry = AuditEntry.model_validate_json(row.entry)
    for each in found:
        await audit.append(connection, each, [entry])
    shown = sorted((await connection.execute(_WITH_CARDS, {"ids": found})).scalars())
    return Told(approval_ids=tuple(shown), after=found[-1])


async def is_told(connection: Connection, root: str) -> bool:
    """Whether everybody who waited for a claim has been told what became of it."""
    row = await _row(connection, root)
    return row is not None and bool(row.told)


async def note(connection: Connection, approval_id: str) -> None:
    """An approval ends frozen: if its call is known by now, that is settled, and in its audit."""
    root = await root_of(connection, approval_id)
    if root is None or ClaimState(root.state) not in KINDS:
        return
    await settle(connection, root)
    row = await _row(connection, root.consent)
    assert row is not None, "it is settled"
    await audit.append(connection, approval_id, [AuditEntry.model_validate_json(row.entry)])


async def frozen(connection: Connection, approval_id: str) -> FrozenApproval | None:
    """Where an approval stands whose call may have happened, or may have until it was settled; None for any other."""
    own = await claim_of(connection, approval_id)
    root = await root_of(connection, approval_id)
    if own is None or root is None or own.answer == ReportKind.REPLAYED:
        return None
    is_open = root.state == ClaimState.UNKNOWN or own.consent != root.consent
    if not is_open and await settlement_of(connection, approval_id) is None:
        return None
    asked_by = await connection.execute(_ASKED_BY, {"root": root.consent})
    return FrozenApproval(idempotency_key=root.idempotency_key, asked_by=tuple(sorted(asked_by.scalars())))


async def waiting(connection: Connection, root: str, after: str = "", limit: int = BATCH) -> list[str]:
    """The approvals that ended frozen and get the answer of this claim, in order, some at a time."""
    return (await connection.execute(_FROZEN, {"root": root, "after": after, "limit": limit})).scalars()


async def first_waiting(connection: Connection, root: str) -> list[str]:
    """Some of the approvals that the answer of a claim answers, its own among them."""
    return sorted((await connection.execute(_SOME, {"root": root})).scalars())


async def count_waiting(connection: Connection, root: str) -> int:
    """How many approvals the answer of a claim answers."""
    return int((await connection.execute(_COUNT, {"root": root})).scalar_one())


async def _any_sealed(connection: Connection, root: str) -> bool:
    """Whether the result of a claim is kept from any of those who wait for it, until somebody has looked at it."""
    return (await connection.execute(_SEALED, {"root": root})).first() is not None


def _with_content(settlement: Settlement, claim: Row) -> Settlement:
    if claim.content is None or settlement.kind is not RulingKind.EXECUTED:
        return settlement
    shown = content_of(claim).report(ReportKind.EXECUTED)
    return settlement.model_copy(update={"content": shown.content, "truncated": shown.truncated})


def entry_of(settlement: Settlement, claim: Row, *, proof: str | None = None) -> AuditEntry:
    """What the audit of everybody who waited says of a settlement."""
    return AuditEntry(
        event=AuditEvent.SETTLE,
        at=settlement.settled_at,
        once="settle",
        actor=settlement.settled_by,
        surface=settlement.surface,
        proof=proof,
        payload_sha256=claim.payload_sha256,
        event_id=settlement.ruling_id,
        ruling=settlement.kind,
        reason=settlement.reason,
        content_sha256=sha256(claim.content) if claim.content is not None else None,
    )


async def _naming_others(connection: Connection, settlement: Settlement, root: Row) -> Settlement:
    others = (each for each in await first_waiting(connection, root.consent) if each != settlement.approval_id)
    return settlement.model_copy(update={"also": tuple(others)[:MOST_NAMED]})


async def _by_itself(connection: Connection, root: Row) -> tuple[Settlement, AuditEntry]:
    """What a claim says of itself that ended without anybody's ruling: the call was tried again, or came back late."""
    word = (await connection.execute(_RULING, {"consent": root.consent})).scalar()
    ruling = Ruling.model_validate_json(word) if word else None
    settlement = Settlement(
        approval_id=root.approval_id,
        kind=KINDS[ClaimState(root.state)],
        settled_by=ruling.operator if ruling else None,
        surface=ruling.surface if ruling else Surface.PROBE,
        reason=ruling.reason if ruling else await _unmade(connection, root),
        settled_at=datetime.fromisoformat(root.ended_at or root.began_at),
        retried=root.consent != root.approval_id,
        ruling_id=ruling.ruling_id if ruling else None,
    )
    return settlement, entry_of(settlement, root, proof=ruling.proof if ruling else None)


async def _unmade(connection: Connection, root: Row) -> str | None:
    """What is told of a retry that somebody was promised, and that came too late: there was nothing left to try."""
    word = (await connection.execute(_UNMADE, {"key": root.idempotency_key})).scalar()
    if word is None or root.state != ClaimState.EXECUTED:
        return None
    operator = Ruling.model_validate_json(word).operator
    return f"the retry that {operator} asked for was not made: the call turned out to be executed before it began"


async def _row(connection: Connection, consent: str) -> Row | None:
    return (await connection.execute(_ROW, {"consent": consent})).first()
