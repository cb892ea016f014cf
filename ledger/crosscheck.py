"""Whether the tables say what the audit says: what was changed beside it is found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import select

from assent.contracts.answers import QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionPlan
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.identity import Identity
from assent.contracts.ruling import Settlement
from assent.core.questions.judging import answers_sha256
from assent.payload import sha256
from ledger.engine import Connection
from ledger.schema import audit, grants, settlements
from ledger.statements import Row, Statement

_ABOUT_GRANTS = Statement(select(audit.c.approval_id, audit.c.body).where(audit.c.body.contains('"grant_id":"')))
_GRANTS = Statement(select(grants))
_ABOUT_SETTLEMENTS = Statement(select(audit.c.approval_id, audit.c.body).where(audit.c.once == "settle"))
_SETTLEMENTS = Statement(select(settlements))


def outcome_sha256(status: str | None, outcome: str | None) -> str | None:
    """What stands for a recorded outcome in its seal."""
    return None if outcome is None else sha256(f"{status}\n{outcome}")


def question(row: Row, audited: Collection[tuple[str, str | None]]) -> list[str]:
    """In what a question's record is not what its audit says.

    audited: what the audits say was shown and answered, by record.
    """
    plan = QuestionPlan.model_validate_json(row.plan)
    outcome = QuestionOutcome.model_validate_json(row.outcome) if row.outcome else None
    problems = []
    if not plan.hash_is_true or (row.record, plan.questions_sha256) not in audited:
        problems.append("the stored questions are not those audited")
    if outcome is not None and (outcome.answers is not None) != (outcome.status is QuestionStatus.RESOLVED):
        problems.append("it has an answer and was not answered, or the other way round")
    answers = outcome.answers if outcome else None
    if answers is not None and (row.record, answers_sha256(answers)) not in audited:
        problems.append("the stored answer is not the one audited")
    return problems


async def remembered(connection: Connection) -> list[str]:
    """Grants that are not what the audit says was granted and revoked."""
    given: dict[str, list[tuple[str, AuditEntry]]] = defaultdict(list)
    ended: dict[str, list[tuple[str, AuditEntry]]] = defaultdict(list)
    async for row in connection.stream(_ABOUT_GRANTS):
        entry = _parsed(row.body)
        if entry is None or entry.grant_id is None:
            continue
        if entry.event is AuditEvent.GRANT and entry.once == f"grant:{entry.grant_id}":
            given[entry.grant_id].append((row.approval_id, entry))
        elif entry.event is AuditEvent.REVOKE:
            ended[entry.grant_id].append((row.approval_id, entry))
    problems: list[str] = []
    found: set[str] = set()
    async for row in connection.stream(_GRANTS):
        found.add(row.grant_id)
        where = f"remembered decision {row.grant_id}"
        if not any(_is_as_given(row, approval_id, entry) for approval_id, entry in given[row.grant_id]):
            problems.append(f"{where}: it is not what the audit says was remembered")
        if not _is_as_ended(row, [entry for _, entry in ended[row.grant_id]]):
            problems.append(f"{where}: the audit says otherwise of whether it was revoked, when and by whom")
    problems += [f"remembered decision {gone}: the audit knows it, and it is gone" for gone in given.keys() - found]
    return problems


def _is_as_given(row: Any, approval_id: str, entry: AuditEntry) -> bool:
    return (entry.grant_sha256, entry.at.isoformat()) == (
        grant_sha256(approval_id, row.tool, row.payload_sha256, row.granted),
        datetime.fromisoformat(row.granted_at).isoformat(),
    )


def grant_sha256(approval_id: str, tool: str, payload_sha256: str | None, granted: str) -> str:
    """What stands for a grant in its audit entry: the grant, and all by which it is found."""
    return sha256(f"{approval_id}\n{tool}\n{payload_sha256}\n{granted}")


def _is_as_ended(row: Any, entries: list[AuditEntry]) -> bool:
    if row.revoked_at is None or not entries:
        return row.revoked_at is None and row.revoked_by is None and not entries
    by = Identity.model_validate_json(row.revoked_by) if row.revoked_by else None
    return any((entry.actor, entry.at) == (by, datetime.fromisoformat(row.revoked_at)) for entry in entries)


async def settled(connection: Connection) -> list[str]:
    """Settlements that are not what the audits say of them: all who were told have the same entry."""
    audited: dict[str, str] = {}
    """Of each entry that settles, one approval whose audit has it."""
    async for row in connection.stream(_ABOUT_SETTLEMENTS):
        entry = _parsed(row.body)
        if entry is not None and entry.event is AuditEvent.SETTLE:
            audited[_digest(entry)] = row.approval_id
    problems: list[str] = []
    kept: set[str] = set()
    async for row in connection.stream(_SETTLEMENTS):
        entry = _parsed(row.entry)
        digest = _digest(entry) if entry is not None else ""
        kept.add(digest)
        if entry is None or digest not in audited or not _is_as_audited(row, entry):
            problems.append(f"consent {row.consent}: what was settled of it is not what the audit says")
    lost = sorted({approval_id for digest, approval_id in audited.items() if digest not in kept})
    problems += [f"approval {approval_id}: what its audit says was settled is not kept so" for approval_id in lost]
    return problems


def settlement_sha256(consent: str, settlement: str) -> str:
    """What stands for a settlement in the audits: what is kept, and the claim it is kept for."""
    return sha256(f"{consent}\n{settlement}")


def _is_as_audited(row: Any, entry: AuditEntry) -> bool:
    if entry.settlement_sha256 is not None:
        return entry.settlement_sha256 == settlement_sha256(row.consent, row.settlement)
    try:
        said = Settlement.model_validate_json(row.settlement)
    except ValueError:
        return False
    as_said = (said.kind, said.settled_by, said.reason, said.surface, said.settled_at, said.ruling_id, said.content)
    return as_said == (entry.ruling, entry.actor, entry.reason, entry.surface, entry.at, entry.event_id, None)


def _digest(entry: AuditEntry) -> str:
    """What stands for an entry, in whichever audit it is."""
    return sha256(entry.model_dump_json(exclude={"outcome", "proposal_event_id", "proposal_message_id"}))


def _parsed(body: str) -> AuditEntry | None:
    try:
        return AuditEntry.model_validate_json(body)
    except ValueError:
        return None
