"""Where an approval stands, and how it ended."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How an approval ended."""

    EXECUTED = "executed"
    REPLAYED = "replayed"
    APPROVED = "approved"
    """The agent may make the call itself. Whether it does, and how often, nobody here knows."""
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    FROZEN = "frozen"
    EXPIRED = "expired"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """Where an approval stands."""

    PREPARING = "preparing"
    PENDING = "pending"
    EXECUTING = "executing"
    REVIEWING = "reviewing"
    CLOSED = "closed"
