"""One span for each wait, where OpenTelemetry is installed; nothing where it is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assent.hitl.exceptions import HitlAborted, HitlCancelled, HitlTimedOut
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_DECISIONS = {"approve": "approved", "deny": "denied", "edit": "edited"}
_ENDINGS: tuple[tuple[type[BaseException], str], ...] = (
    (HitlCancelled, "cancelled"),
    (HitlTimedOut, "timed_out"),
    (HitlAborted, "aborted"),
)


class Traced:
    """A wait that is being traced: it is told its answer."""

    def __init__(self) -> None:
        self.outcome: str | None = None

    def answered(self, answer: Any) -> None:
        self.outcome = _DECISIONS[answer.decision] if isinstance(answer, ApproveAnswer) else "answered"


@contextmanager
def traced(request: HitlRequest, *, from_resume: bool) -> Iterator[Traced]:
    """Around the wait for an answer. What was asked and answered is no part of the span."""
    wait, began = Traced(), time.monotonic()
    with _span(f"hitl.{request.kind}") as span:
        try:
            yield wait
        except BaseException as error:  # a process that is asked to stop leaves the request open
            wait.outcome = next((word for kind, word in _ENDINGS if isinstance(error, kind)), None)
            wait.outcome = wait.outcome or ("detached" if not isinstance(error, Exception) else None)
            raise
        finally:
            if span is not None:
                _describe(span, request, wait.outcome, from_resume=from_resume, seconds=time.monotonic() - began)


def _describe(span: Span, request: HitlRequest, outcome: str | None, *, from_resume: bool, seconds: float) -> None:
    if request.kind is HitlKind.APPROVE:
        span.set_attribute("hitl.tool_name", request.payload["tool_name"])
        span.set_attribute("hitl.tool_call_id", request.payload["tool_call_id"])
        span.set_attribute("hitl.from_resume", from_resume)
    else:
        span.set_attribute("hitl.question_id", request.question_id)
    if outcome is not None:
        span.set_attribute("hitl.outcome", outcome)
    span.set_attribute("hitl.duration_seconds", seconds)


@contextmanager
def _span(name: str) -> Iterator[Span | None]:
    try:
        from opentelemetry import trace
    except ImportError:
        yield None
        return
    # What a person answers is no error of the program, and its words belong into no trace.
    with trace.get_tracer("assent.hitl").start_as_current_span(
        name, record_exception=False, set_status_on_exception=False
    ) as span:
        yield span
