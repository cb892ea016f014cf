"""How a step is taken: where it runs, how often it is tried, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel

    from assent import names
    from assent.contracts.execute import PlannedCall
    from assent.steps import Step

Taken = TypeVar("Taken", bound=BaseModel)
Given = TypeVar("Given", bound=BaseModel | None)
Result = TypeVar("Result")

SOON = timedelta(seconds=10)
"""How long an outcome may be held back so that it is in the ledger, or on its cards, before anyone sees it."""
AT_ONCE = timedelta(seconds=4)
"""How long a step that talks to Feishu may hold the workflow's task, or a place on our own queue. It leaves by itself
when Feishu has not answered within a second; this is for a ledger or a machine that is slower still."""
TO_RECORD = timedelta(seconds=40)
"""How long a tool's attempt may take beyond the tool itself, to claim and to record."""

_ATTEMPT = timedelta(seconds=10)
OUTBOUND_ATTEMPT = timedelta(seconds=20)
"""How long one try to reach Feishu or an agent may take."""
_LOCALLY = timedelta(seconds=2)
"""How long a local step waits for its next try before it gives the task back and goes on by a timer."""


class Where(Enum):
    """Where a step runs."""

    LOCAL = "in the workflow's own task: short and harmless to repeat, and no event of its own"
    """Only where nothing goes on beside it: before the wait for people, and after it. Where a query splits the task
    just as a local step ends, what runs beside it is in history with the one task, and what the step's answer did to
    that with the next; a replay sees both in one, and no longer fits the history. For the same reason nothing is
    decided by `workflow.now()` right after it; nor right before it, or by `workflow.info().start_time`, where it may
    take so long that the task is begun again meanwhile: a replay begins with the last of those tasks."""
    HERE = "on our own queue: in history before its effect is seen"
    OUTBOUND = "on the queue of what waits for Feishu or an agent, where it holds up nobody but its like"


LOCAL, HERE, OUTBOUND = Where.LOCAL, Where.HERE, Where.OUTBOUND

_PATIENT = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30))
_POLITE = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
RARELY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(hours=1))
"""For an address that never answers: it is asked some eighty times in three days, not thousands."""
ONCE = RetryPolicy(maximum_attempts=1)
SEEN_TO_ITS_END = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
"""What was given up is over once its last try has ended: until then it may still change what people see."""


async def take(
    step: Step[Taken, Given],
    said: Taken,
    where: Where,
    *,
    within: timedelta | None = None,
    retry: RetryPolicy | None = None,
    attempt: timedelta | None = None,
    given_up: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL,
) -> Given:
    """Take a step, until it succeeds or its time is over; then, or if it may not be tried again, raise FailureError.

    within: how long all tries together may take; without it, for ever.
    retry: how often it is tried, `ONCE` or else; without it, patiently.
    attempt: how long one try may take, where it is not local and takes longer than others.
    given_up: whether it is over, where it is not local, once it was given up, or once its last try has ended.
    """
    result: Given
    if where is LOCAL:
        result = await workflow.execute_local_activity(
            step.name,
            said,
            result_type=step.gives,
            start_to_close_timeout=None if retry is ONCE else _ATTEMPT,
            schedule_to_close_timeout=within,
            local_retry_threshold=_LOCALLY,
            retry_policy=retry or _PATIENT,
        )
    else:
        is_outbound = where is OUTBOUND
        result = await workflow.execute_activity(
            step.name,
            said,
            result_type=step.gives,
            task_queue=names.OUTBOUND_QUEUE if is_outbound else None,
            start_to_close_timeout=attempt or (OUTBOUND_ATTEMPT if is_outbound else _ATTEMPT),
            schedule_to_close_timeout=within,
            retry_policy=retry or (_POLITE if is_outbound else _PATIENT),
            cancellation_type=given_up,
        )
    return result


async def try_to(step: Step[Taken, Given], said: Taken) -> bool:
    """Try a step to the outside once; tells whether it succeeded."""
    try:
        await take(step, said, OUTBOUND, within=SOON, retry=ONCE)
    except FailureError:
        return False
    return True


async def take_on_queue(
    step: Step[PlannedCall, Given],
    call: PlannedCall,
    queue: str,
    *,
    attempt: timedelta,
    within: timedelta,
    heartbeat: timedelta,
    retry: RetryPolicy,
) -> Given:
    """A step that the tool's own workers take."""
    result: Given = await workflow.execute_activity(
        step.name,
        call,
        result_type=step.gives,
        task_queue=queue,
        start_to_close_timeout=attempt,
        schedule_to_close_timeout=within,
        heartbeat_timeout=heartbeat,
        retry_policy=retry,
        summary=call.tool,
    )
    return result


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
