"""Entries of the audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from assent import Outcome, Status
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.conclude import Conclusion

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def entry(event: str, n: int) -> AuditEntry:
    return AuditEntry(event=AuditEvent(event), at=NOW + timedelta(seconds=n), once=f"{event}:{n}")


def conclusion(approval_id: str, *entries: AuditEntry) -> Conclusion:
    outcome = Outcome(approval_id=approval_id, status=Status.CANCELLED)
    return Conclusion(outcome=outcome, entries=entries, judged=(), closed_at=NOW)
