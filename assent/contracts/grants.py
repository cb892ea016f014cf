"""Decisions that are remembered, so that nobody is asked again."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.values import Frozen


class Grant(Frozen):
    """A decision that is remembered, so that nobody is asked again."""

    grant_id: str
    scope: Remember
    tool: str
    payload_sha256: str | None = None
    """The exact call, where only that is meant."""
    chat_id: str | None = None
    """The conversation, where the whole tool is meant: the one that the click came from."""
    requester: Identity
    """For whom it counts."""
    decision: DecisionKind
    """approve or reject."""
    granted_by: Identity
    reason: str | None = None
    approval_id: str
    """Where it was decided."""
    granted_at: datetime
    expires_at: datetime
    manifest_sha256: str
    risk: Risk
    approvers: Approvers | None = None
    """Who had to agree: where others must, it does not count."""
    revoked_at: datetime | None = None
    revoked_by: Identity | None = None


class Remembering(Frozen):
    """Input of *remember*: a decision that stands, to be remembered."""

    approval_id: str
    payload_sha256: str | None = None
    """What was decided about."""
    scope: Remember
    decision: DecisionKind
    actor: Identity
    reason: str | None = None
    chat_id: str | None = None
    now: datetime


class Remembered(Frozen):
    """What *remember* did."""

    grant: Grant | None = None
    """None where this cannot be remembered."""


class RevokedKind(StrEnum):
    """What became of the wish to revoke a grant."""

    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
