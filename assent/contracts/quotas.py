"""How much may be asked for: by whom, for whom, and where. No I/O."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from assent.contracts.values import Frozen

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Most = Annotated[int, Field(ge=0)] | None
"""A limit; None for none."""


class Quota(StrEnum):
    """What is limited."""

    REQUESTS = "requests_per_minute"
    """How often an agent may ask anything of the HTTP API."""
    PENDING = "pending"
    """How many approvals and questions of an agent may be open."""
    BYTES = "bytes_per_day"
    """How much an agent may have stored."""
    CHAT = "chat_requests_per_hour"
    """How many requests may be shown in one chat, or to one person in private."""
    REQUESTER = "requester_pending"
    """How many approvals and questions may be open on one person's behalf."""


class AgentLimits(Frozen):
    """How much one agent may have asked for. It travels with each request, from the door that knows the agent."""

    pending: Most = None
    bytes_per_day: Most = None


class Limits(Frozen):
    """All that is counted in the ledger when a request is prepared."""

    agent: AgentLimits = AgentLimits()
    chat_requests_per_hour: Most = None
    requester_pending: Most = None


NO_LIMITS = Limits()


class Exceeded(Frozen):
    """A quota that a request would go beyond."""

    quota: Quota
    limit: int
    retry_after: Annotated[int, Field(ge=1)]
    """How many seconds to wait before asking again."""
