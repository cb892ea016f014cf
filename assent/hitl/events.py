"""What happens to an agent's requests, for whoever shows it."""

from __future__ import annotations

from typing import Any

from assent.contracts.values import Frozen
from assent.hitl.requests import HitlRequest


class HitlRequestEvent(Frozen):
    """A person is asked."""

    request: HitlRequest


class HitlAnswerEvent(Frozen):
    """A request has ended: with an answer, cancelled, or without one in time."""

    question_id: str
    answer: Any = None
    cancelled: bool = False
    timed_out: bool = False


class AgentSuspendedEvent(Frozen):
    """This process is about to stop waiting; the request stays open."""

    pending_request: HitlRequest


class AgentAbortedEvent(Frozen):
    """The open request was given up, and the calls that waited are rejected."""

    reason: str | None = None


HitlEvent = HitlRequestEvent | HitlAnswerEvent | AgentSuspendedEvent | AgentAbortedEvent
