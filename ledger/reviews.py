"""Reviews: what is known of a frozen call, what is said of it, and whose review must be open."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, exists, func, select, text, update

from assent.content import Content, storable
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.review import Examination, LateResult, Retry, SeenAttempt
from assent.contracts.ruling import Ruled, RuledKind, Ruling, RulingKind, Settlement
from assent.contracts.values import Frozen, Surface
from ledger import attempts, audit
from ledger.claims import answer_entry, execution_entry
from ledger.engine import Connection
from ledger.open_approvals import LIVES_IN
from ledger.results import claim_of, report, root_of
from ledger.revisions import with_hash
from ledger.schema import ClaimState, approvals, claims, late_results, retries, settlements
from ledger.settlements import (
    KINDS,
    count_waiting,
    entry_of,
    first_waiting,
    for_all,
    is_told,
    settle,
    standing,
    waiting,
)
from ledger.statements import Row, Statement, insert

_PREVIEW = 500
"""How much of a late result a review shows."""
_MOST_SIGHTS, _MOST_LATE = 10, 3
"""How many attempts, and how many late words of each, a review shows: the newest."""
_TOLD_WITHIN = timedelta(minutes=2)
"""How long a review may take to tell everybody before it is looked whether it is still there."""

_edited = with_hash(claims.c.approval_id, claims.c.payload_sha256).correlate(claims).scalar_subquery()
_plan = func.coalesce(_edited, approvals.c.plan).label("plan")
_is_made = exists().where(claims.c.consent == retries.c.consent)
_OF_APPROVAL = Statement(
    select(claims).where(claims.c.approval_id == bindparam("of")).order_by(claims.c.began_at.desc()).limit(_MOST_SIGHTS)
)
_WHILE_UNKNOWN = Statement(
    update(claims).where(claims.c.consent == bindparam("of"), claims.c.state == ClaimState.UNKNOWN)
)
_PROMISED = Statement(
    select(retries)
    .where(retries.c.idempotency_key == bindparam("key"), ~_is_made)
    .order_by(retries.c.asked_at)
    .limit(1)
)
_COUNT_RETRIES = Statement(
    select(func.count())
    .join(claims, claims.c.consent == retries.c.consent)
    .where(retries.c.idempotency_key == bindparam("key"))
)
_ORPHANS = Statement(
    select(
        claims.c.consent,
        claims.c.idempotency_key,
        claims.c.began_at,
        claims.c.begun_with,
        claims.c.state,
        _plan,
    )
    .join(approvals, approvals.c.approval_id == claims.c.approval_id)
    .where(text("(claims.state = 'started' OR claims.state = 'unknown')"), LIVES_IN)
    .order_by(claims.c.began_at)
)
_LATE = Statement(
    select(_plan, claims.c.idempotency_key, claims.c.begun_with)
    .join(claims, claims.c.approval_id == approvals.c.approval_id)
    .join(settlements, settlements.c.consent == claims.c.consent)
    .where(text("settlements.told = 0"), settlements.c.settled_at < bindparam("before"), LIVES_IN)
)
_RETRIED = Statement(
    select(_plan, claims.c.idempotency_key, claims.c.begun_with)
    .join(retries, retries.c.approval_id == approvals.c.approval_id)
    .join(claims, claims.c.consent == retries.c.consent)
    .where(
        claims.c.state.in_(tuple(KINDS)),
        claims.c.ended_at < bindparam("before"),
        ~exists().where(settlements.c.consent == retries.c.consent),
        LIVES_IN,
    )
)
_CONSENTS = Statement(select(claims.c.consent).where(claims.c.approval_id == bindparam("of")))
_ALL_RETRIES = Statement(
    select(retries.c.consent, retries.c.ruling).where(retries.c.idempotency_key == bindparam("key"))
)
_RETRIES = Statement(select(retries.c.consent).where(retries.c.approval_id == bindparam("of")))
_ADD_RETRY = Statement(insert(retries))
_NEWEST_LATE = Statement(
    select(late_results)
    .where(late_results.c.consent == bindparam("consent"))
    .order_by(late_results.c.at.desc())
    .limit(_MOST_LATE)
)


class Begun(Frozen):
    """A call that was begun, as its claim knows it."""

    plan: Plan
    idempotency_key: str
    begun_with: str | None
    """What it was begun with that stands in no plan."""

    @property
    def call(self) -> ToolCall:
        circumstances: dict[str, Any] = json.loads(self.begun_with) if self.begun_with else {}
        return ToolCall.of(self.plan, **circumstances).model_copy(update={"idempotency_key": self.idempotency_key})


class Orphan(Begun):
    """A claim that was begun long ago, and of whose end nobody knows."""

    consent: str
    began_at: datetime
    is_given_up: bool
    """Whether it is on record that nobody knows; if not, the claim still says that it runs."""

    @property
    def should_have_ended(self) -> datetime:
        return self.began_at + self.plan.timeout + self.plan.asks + self.plan.heartbeat_timeout


class Untold(Begun):
    """A call that is settled, while somebody may not have been told."""


async def attempts_of(connection: Connection, approval_id: str) -> tuple[SeenAttempt, ...]:
    """What the ledger knows of the attempts to make an approval's call, in order: of many, the newest."""
    rows = await connection.execute(_OF_APPROVAL, {"of": approval_id})
    return tuple([await _sight(connection, row) for row in reversed(rows.all())])


async def chain_sights(connection: Connection, consent: str) -> tuple[SeenAttempt, ...]:
    """What the ledger knows of every consent under which a frozen call was begun, whosever it was; the last decides."""
    found = [await _sight(connection, claim) for claim in await attempts.chain_of(connection, consent)]
    if len(found) <= _MOST_SIGHTS:
        return tuple(found)
    newest = found[-_MOST_SIGHTS // 2 :]  # and of those before, the ones that may go on
    return tuple(([seen for seen in found[: -len(newest)] if not seen.body_ended])[-len(newest) :] + newest)


class Wait(Frozen):
    """Who waits for what became of a frozen call, and how far that has come."""

    count: int
    some: tuple[str, ...]
    retries: int
    retry: Retry | None
    told: bool


async def wait_of(connection: Connection, approval_id: str, namespace: str | None) -> Wait | None:
    """namespace: the retry is told that a review of this one makes."""
    root = await root_of(connection, approval_id)
    if root is None:
        return None
    return Wait(
        count=await count_waiting(connection, root.consent),
        some=tuple(await first_waiting(connection, root.consent)),
        retries=await _count_retries(connection, root.idempotency_key),
        retry=await promised_retry(connection, root.idempotency_key, namespace)
        if root.state == ClaimState.UNKNOWN
        else None,
        told=await is_told(connection, root.consent),
    )


async def rule(connection: Connection, examination: Examination, namespace: str | None) -> Ruled:
    """Settle a frozen call by compare-and-set: of two who say something of it, the first is heard.

    A retry that was promised is made before anything else is settled, unless the call turns out to be executed.

    namespace: Temporal's, of the review that asks.
    """
    call, ruling = examination.frozen.call, examination.ruling
    root = await _locked_root(connection, call.approval_id)
    if await standing(connection, root) is not None:
        settlement = await settle(connection, root, told=call.approval_id)
        settlement = await for_all(connection, settlement, root)
        return Ruled.of(settlement, ruling)
    promised = await promised_retry(connection, root.idempotency_key)
    was_retried = ruling is not None and ruling.retries not in (
        None,
        await _count_retries(connection, root.idempotency_key),
    )
    wants_retry = ruling is not None and ruling.kind is RulingKind.RETRY
    if promised is None and wants_retry and root.state == ClaimState.UNKNOWN:
        assert ruling is not None
        promised = await _made_for(connection, root.idempotency_key, ruling)
        if promised is None and not was_retried:
            promised = await _promise(connection, examination, ruling, namespace)
    if promised is not None:
        return Ruled(kind=RuledKind.RETRYING, consent=promised.consent)
    if root.state == ClaimState.STARTED:  # it runs: nobody can say yet
        return Ruled(kind=RuledKind.RETRYING, consent=root.consent)
    if was_retried:
        return Ruled(kind=RuledKind.RETRYING)  # since they looked
    is_heard = await _move(connection, root, examination)
    claim = await claim_of(connection, root.consent)
    assert claim is not None, "a claim is never deleted"
    kind = KINDS.get(ClaimState(claim.state))
    if kind is None or not is_heard:
        return Ruled(kind=RuledKind.RETRYING)  # it was tried again after this was found out
    settlement = _settlement(examination, kind, claim)
    entry = entry_of(settlement, claim, proof=ruling.proof if ruling else None)
    settlement = await settle(connection, claim, settlement, entry, told=call.approval_id)
    return Ruled(kind=RuledKind.SETTLED, settlement=await for_all(connection, settlement, claim))


async def resolve(connection: Connection, call: ToolCall, content: Content, now: datetime) -> Report:
    """A probe found that an unknown call did run: the claim moves from unknown to executed.

    An approval that only met this call does not say that it executed it: it replays what another one executed.
    """
    own, claim = await claim_of(connection, call.consent), await root_of(connection, call.consent)
    if claim is None:
        return Report(kind=ReportKind.UNKNOWN)
    frozen = await waiting(connection, claim.consent)
    await audit.lock(connection, claim.approval_id, call.approval_id, *frozen)
    result = {"content": content.data, "note": content.note}
    executed = {"state": ClaimState.EXECUTED, "ended_at": audit.stamp(now), **result}
    found = await connection.execute(_WHILE_UNKNOWN, {"of": claim.consent, **executed})
    claim = await claim_of(connection, claim.consent)
    assert claim is not None, "a claim is never deleted"
    if found.rowcount == 1:
        await audit.append(connection, claim.approval_id, [execution_entry(claim, now)])
        if frozen:
            await settle(connection, claim)
    found_out = await report(connection, claim, to=own if own is not None and own.consent != claim.consent else None)
    if found_out.kind is not ReportKind.EXECUTED or claim.approval_id == call.approval_id:
        return found_out
    await audit.append(connection, call.approval_id, [answer_entry(call, AuditEvent.REPLAY, None, now)])
    return found_out.model_copy(update={"kind": ReportKind.REPLAYED})


async def promised_retry(connection: Connection, idempotency_key: str, namespace: str | None = None) -> Retry | None:
    """The retry of a key that an operator was promised and that nobody has made.

    namespace: only if it is for a review of this one to make: of two reviews of one key, one does.
    """
    row = (await connection.execute(_PROMISED, {"key": idempotency_key})).first()
    if row is None or (namespace is not None and row.namespace not in (None, namespace)):
        return None
    return Retry(consent=row.consent, ruling=Ruling.model_validate_json(row.ruling))


async def _count_retries(connection: Connection, idempotency_key: str) -> int:
    """How often a call was tried again by an operator's word."""
    return int((await connection.execute(_COUNT_RETRIES, {"key": idempotency_key})).scalar_one())


async def orphans(connection: Connection, namespace: str, now: datetime) -> list[Orphan]:
    """Claims that should have ended by now, or were given up, of approvals that live in this namespace."""
    rows = await connection.execute(_ORPHANS, {"namespace": namespace})
    found = (
        Orphan(
            consent=row.consent,
            idempotency_key=row.idempotency_key,
            plan=Plan.model_validate_json(row.plan),
            began_at=datetime.fromisoformat(row.began_at),
            begun_with=row.begun_with,
            is_given_up=row.state == ClaimState.UNKNOWN,
        )
        for row in rows
    )
    return [orphan for orphan in found if orphan.is_given_up or orphan.should_have_ended < now]


async def untold(connection: Connection, namespace: str, now: datetime) -> list[Untold]:
    """Calls of which it is known what became of them, and not told to everybody who waited."""
    long_since = {"before": audit.stamp(now - _TOLD_WITHIN), "namespace": namespace}
    found = [row for query in (_LATE, _RETRIED) for row in await connection.execute(query, long_since)]
    return [
        Untold(plan=Plan.model_validate_json(row.plan), idempotency_key=row.idempotency_key, begun_with=row.begun_with)
        for row in found
    ]


async def _move(connection: Connection, root: Row, examination: Examination) -> bool:
    """Let the claim say what was found out, if it says "unknown"; tells whether it is this that it says now."""
    ruling, report = examination.ruling, examination.report
    found: dict[str, Any]
    if ruling is not None and ruling.kind is RulingKind.EXECUTED:
        content = Content.of(ruling.content)
        found = {"state": ClaimState.EXECUTED, "content": content.data, "note": content.note, "error": None}
    elif ruling is not None:
        found = {"state": ClaimState.FAILED, "error": storable(ruling.reason)}
    elif report is not None and report.kind is ReportKind.NOT_EXECUTED:
        standing = await attempts.begun_of(connection, root.consent)
        if standing.attempts != report.attempts or standing.something_happened:
            return False
        found = {"state": ClaimState.FAILED, "error": storable(report.reason)}
    else:
        return True  # the ledger knew it before
    return (await connection.execute(_WHILE_UNKNOWN, {"of": root.consent, **found})).rowcount == 1


async def _locked_root(connection: Connection, approval_id: str) -> Row:
    """The claim that an approval's frozen call leads to, with the rows of all who would be told first."""
    root = await root_of(connection, approval_id)
    assert root is not None, "a frozen call has a claim"
    await audit.lock(connection, approval_id, root.approval_id, *await waiting(connection, root.consent))
    root = await root_of(connection, approval_id)
    assert root is not None, "a claim is never deleted"
    return root


async def _made_for(connection: Connection, idempotency_key: str, ruling: Ruling) -> Retry | None:
    """The retry that was made by this very word: it is made once, however often the word is heard."""
    if ruling.ruling_id is None:
        return None
    rows = await connection.execute(_ALL_RETRIES, {"key": idempotency_key})
    made = (Retry(consent=row.consent, ruling=Ruling.model_validate_json(row.ruling)) for row in rows)
    return next((each for each in made if each.ruling.ruling_id == ruling.ruling_id), None)


async def _promise(connection: Connection, examination: Examination, ruling: Ruling, namespace: str | None) -> Retry:
    """Put on record that a call is to be tried again; from here on it will be, whoever comes to do so."""
    call = examination.frozen.call
    mine = {"of": call.approval_id}
    used = {consent for known in (_CONSENTS, _RETRIES) for consent in (await connection.execute(known, mine)).scalars()}
    retry = Retry(consent=f"{call.approval_id}#{len(used)}", ruling=ruling.model_copy(update={"content": None}))
    promise = {
        "consent": retry.consent,
        "approval_id": call.approval_id,
        "idempotency_key": call.idempotency_key,
        "ruling": retry.ruling.model_dump_json(),
        "asked_at": audit.stamp(examination.now),
        "namespace": namespace,
    }
    await connection.execute(_ADD_RETRY, promise)
    entry = AuditEntry(
        event=AuditEvent.RETRY,
        at=examination.now,
        once=f"retry:{retry.consent}",
        actor=ruling.operator,
        surface=ruling.surface,
        proof=ruling.proof,
        payload_sha256=call.payload_sha256,
        event_id=ruling.ruling_id,
        ruling=ruling.kind,
        reason=ruling.reason,
    )
    await audit.append(connection, call.approval_id, [entry])
    return retry


def _settlement(examination: Examination, kind: RulingKind, claim: Row) -> Settlement:
    frozen, ruling, report = examination.frozen, examination.ruling, examination.report
    return Settlement(
        approval_id=frozen.call.approval_id,
        kind=kind,
        settled_by=ruling.operator if ruling else None,
        surface=ruling.surface if ruling else Surface.PROBE,
        reason=ruling.reason if ruling else report.reason if report else None,
        settled_at=examination.now,
        retried=claim.consent != claim.approval_id,
        ruling_id=ruling.ruling_id if ruling else None,
    )


async def _sight(connection: Connection, claim: Row) -> SeenAttempt:
    late = (await connection.execute(_NEWEST_LATE, {"consent": claim.consent})).all()
    begun = await attempts.of_claim(connection, claim.consent)
    return SeenAttempt(
        consent=claim.consent,
        state=claim.state,
        attempt=claim.attempt,
        worker=claim.worker,
        began_at=claim.began_at,
        ended_at=claim.ended_at,
        error=claim.error,
        body_ended=all(attempt.body_ended for attempt in begun),
        late=tuple(
            LateResult(
                state=row.state,
                at=row.at,
                worker=row.worker,
                content=bytes(row.content[:_PREVIEW]).decode("ascii") if row.content is not None else None,
                error=row.error,
            )
            for row in reversed(late)
        ),
    )
