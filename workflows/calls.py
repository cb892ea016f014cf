"""Making a consented call on the tool's queue, and asking what became of one: the approval's and the review's way."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from assent.contracts.execute import Closing, Report, ReportKind, ToolCall
    from assent.steps import CLOSE_CLAIM, EXECUTE, PROBE
    from workflows.asking import withdraw_questions
    from workflows.steps import HERE, ONCE, TO_RECORD, take, take_on_queue

_PROBE_LIMIT = timedelta(seconds=15)
_SHORTEST_WAIT = timedelta(seconds=2)


async def make(call: ToolCall, *, queue: str, heartbeat: timedelta) -> Report:
    """Have the call made at most once, and say only what is certain of it; what its tool still asks is withdrawn."""
    report = await _made(call, queue=queue, heartbeat=heartbeat)
    if call.asks:
        await withdraw_questions(call)
    return report


async def _made(call: ToolCall, *, queue: str, heartbeat: timedelta) -> Report:
    attempt = call.timeout + call.asks + TO_RECORD
    try:
        report = await take_on_queue(
            EXECUTE,
            call.by_its_plan,
            queue,
            attempt=attempt,
            within=call.start_within + call.attempts * (attempt + heartbeat),
            heartbeat=heartbeat,
            retry=RetryPolicy(maximum_interval=timedelta(seconds=10)),
        )
    except ActivityError as error:
        report = Report(kind=ReportKind.NOT_BEGUN, reason=_why(error))
    if report.kind not in (ReportKind.NOT_BEGUN, ReportKind.UNKNOWN):
        return report
    closed = await _close_claim(call, report.reason)
    since = workflow.now()
    while closed.kind is ReportKind.WAITING:
        # However long another makes the same call: asked ever more seldom, so that the history stays short.
        await workflow.sleep(max(_SHORTEST_WAIT, (workflow.now() - since) / 8))
        closed = await _close_claim(call, report.reason)
    knows_more = closed.kind is not ReportKind.UNKNOWN or report.kind is ReportKind.NOT_BEGUN
    return closed if knows_more or closed.sealed else report


async def probe(call: ToolCall, *, queue: str, heartbeat: timedelta) -> Report:
    """Ask the tool once, quickly. A probe that raises, hangs or does not know changes nothing."""
    try:
        return await take_on_queue(
            PROBE, call.by_its_plan, queue, attempt=_PROBE_LIMIT, within=_PROBE_LIMIT, heartbeat=heartbeat, retry=ONCE
        )
    except ActivityError:
        return Report(kind=ReportKind.UNKNOWN)


async def _close_claim(call: ToolCall, reason: str | None) -> Report:
    """Learn for certain what is known of a call whose worker could not say; from here on it can no longer begin."""
    closing = Closing(
        approval_id=call.approval_id,
        consent=call.consent,
        idempotency_key=call.idempotency_key,
        payload_sha256=call.payload_sha256,
        now=workflow.now(),
        reason=reason or "it was not begun",
        entries=call.entries,
    )
    return await take(CLOSE_CLAIM, closing, HERE)


def _why(error: ActivityError) -> str:
    cause = error.cause
    beats = cause.last_heartbeat_details if isinstance(cause, ActivityTimeout) else ()
    heard = f"; the worker was last heard of at {beats[0]}" if beats else ""
    return f"the activity ended without an answer: {cause}{heard}" if cause else "the activity ended without an answer"
