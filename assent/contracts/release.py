"""Handing over a result that a person looked at first, or keeping it."""

from __future__ import annotations

from assent.contracts.audit import AuditEntry
from assent.contracts.values import Frozen

UNDECIDED = "nobody decided about it in time"
"""Why a result is withheld where no person says so."""


class Release(Frozen):
    """Input of *release*: what was decided about a result."""

    approval_id: str
    consent: str
    content_sha256: str | None
    """The result that was shown."""
    released: bool
    reason: str | None = None
    entries: tuple[AuditEntry, ...] = ()
