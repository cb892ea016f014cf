"""The options of every step an approval takes, kept in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel

    from assent import names
    from assent.contracts.execute import ToolCall

Result = TypeVar("Result", bound=BaseModel)

RECORDING = timedelta(seconds=40)
"""How long a tool's attempt may take beyond the tool itself, to claim and to record."""
SETTLING = timedelta(seconds=10)
"""How long an outcome may be held back so that it is in the ledger before anyone sees it."""

_PROMPTLY = timedelta(seconds=4)
"""How long a step that talks to Feishu may hold the workflow's task. It leaves by itself when Feishu has not answered
within a second; this is for a ledger or a machine that is slower still."""
_OUTBOUND_ATTEMPT = timedelta(seconds=20)

_POLITE = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
_PATIENT = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30))
_ATTEMPT = timedelta(seconds=10)


async def local(name: str, argument: BaseModel, result: type[Result] | None, limit: timedelta | None = None) -> Result:
    """A short, harmless step in the workflow's own task; it leaves the task's slot when it has to wait."""
    answer: Result = await workflow.execute_local_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=_ATTEMPT,
        schedule_to_close_timeout=limit,
        local_retry_threshold=timedelta(seconds=2),
        retry_policy=_PATIENT,
    )
    return answer


async def durable(name: str, argument: BaseModel, result: type[Result], limit: timedelta | None = None) -> Result:
    """A step on our own queue, in history before its effect is seen, tried until it succeeds or the limit ends."""
    answer: Result = await workflow.execute_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=_ATTEMPT,
        schedule_to_close_timeout=limit,
        retry_policy=_PATIENT,
    )
    return answer


async def promptly(name: str, argument: BaseModel, result: type[Result]) -> Result:
    """A step to the outside in the workflow's own task: one short try. It fails with a `FailureError` of any kind."""
    answer: Result = await workflow.execute_local_activity(
        name,
        argument,
        result_type=result,
        schedule_to_close_timeout=_PROMPTLY,
        retry_policy=RetryPolicy(maximum_attempts=1),
    )
    return answer


async def outbound(
    name: str,
    argument: BaseModel,
    result: type[Result] | None,
    limit: timedelta | None = None,
    retry: RetryPolicy = _POLITE,
) -> Result:
    """A step to the outside that goes on trying, on a queue where it holds up nobody but its like."""
    answer: Result = await workflow.execute_activity(
        name,
        argument,
        result_type=result,
        task_queue=names.OUTBOUND_QUEUE,
        start_to_close_timeout=_OUTBOUND_ATTEMPT,
        schedule_to_close_timeout=limit,
        retry_policy=retry,
    )
    return answer


async def attempted(name: str, argument: BaseModel) -> bool:
    """A step to the outside that is tried once, and may fail; tells whether it did not."""
    try:
        await workflow.execute_activity(
            name,
            argument,
            task_queue=names.OUTBOUND_QUEUE,
            schedule_to_close_timeout=SETTLING,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except ActivityError:
        return False
    return True


async def on_tool_queue(
    name: str,
    call: ToolCall,
    result: type[Result],
    *,
    queue: str,
    attempt: timedelta,
    limit: timedelta,
    heartbeat: timedelta,
    retry: RetryPolicy,
) -> Result:
    """A step that the tool's own workers take."""
    answer: Result = await workflow.execute_activity(
        name,
        call,
        result_type=result,
        task_queue=queue,
        start_to_close_timeout=attempt,
        schedule_to_close_timeout=limit,
        heartbeat_timeout=heartbeat,
        retry_policy=retry,
        summary=call.tool,
    )
    return answer


async def uncancelled(story: Coroutine[Any, Any, Result], on_cancel: Callable[[], None]) -> Result:
    """See a story through: a Temporal cancellation is told to it as a wish, and interrupts nothing."""
    task = asyncio.ensure_future(story)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            on_cancel()
