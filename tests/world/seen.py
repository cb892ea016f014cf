"""What workflows, the sweeper and late bodies see of the pretended Temporal."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from tests.world import clock
from tests.world.clock import VirtualLoop
from tests.world.processes import never
from tests.world.temporal import ContinueAsNew, Options, present_run, present_update

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.temporal import Run

_FOREVER = timedelta(days=10_000)


def _of_workflow() -> SimpleNamespace:
    """What `temporalio.workflow` offers, as far as our workflows use it."""

    async def wait_condition(is_so: Callable[[], bool], *, timeout: timedelta | None = None) -> None:
        run, loop = present_run.get(), asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        future: asyncio.Future[None] = loop.create_future()
        here = contextvars.copy_context()
        loop.conditions.append((lambda: not run.is_terminated and here.run(is_so), future))
        seconds = timeout.total_seconds() if timeout is not None else None
        try:
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            if run.is_terminated:
                await never()
            raise

    async def sleep(duration: timedelta | float) -> None:
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        await asyncio.sleep(seconds)
        if present_run.get().is_terminated:
            await never()

    async def execute_activity(
        name: str,
        argument: Any,
        *,
        task_queue: str | None = None,
        start_to_close_timeout: timedelta | None = None,
        schedule_to_close_timeout: timedelta | None = None,
        schedule_to_start_timeout: timedelta | None = None,
        heartbeat_timeout: timedelta | None = None,
        retry_policy: RetryPolicy | None = None,
        **_: Any,
    ) -> Any:
        run = present_run.get()
        options = Options(
            start_to_close=start_to_close_timeout or schedule_to_close_timeout or _FOREVER,
            schedule_to_close=schedule_to_close_timeout or _FOREVER,
            schedule_to_start=schedule_to_start_timeout or _FOREVER,
            heartbeat=heartbeat_timeout,
            retry=retry_policy or RetryPolicy(),
        )
        if run.is_terminated:
            await never()
        try:
            return await run.temporal.perform(run, name, argument, task_queue or names.APPROVALS_QUEUE, options)
        finally:
            await run.comes_back()

    async def start_child_workflow(name: str, argument: Any, *, id: str, **_: Any) -> None:
        run = present_run.get()
        await run.comes_back()
        run.temporal.start(name, argument, id)
        await run.comes_back()

    def external(workflow_id: str) -> SimpleNamespace:
        async def signal(name: str, *arguments: Any) -> None:
            run = present_run.get()
            await run.comes_back()
            if not run.temporal.signal(workflow_id, name, *arguments):
                raise ApplicationError("not found", type="NotFound")

        return SimpleNamespace(signal=signal)

    def continue_as_new(argument: Any) -> NoReturn:
        raise ContinueAsNew(argument)

    def current_update_info() -> SimpleNamespace | None:
        return SimpleNamespace(id=update) if (update := present_update.get()) is not None else None

    def info() -> SimpleNamespace:
        run = present_run.get()
        return SimpleNamespace(
            is_continue_as_new_suggested=lambda: run.is_long,
            start_time=run.start_time,
            workflow_start_time=run.start_time,
            workflow_id=run.id,
            run_id=run.run_id,
        )

    return SimpleNamespace(
        now=clock.now,
        sleep=sleep,
        wait_condition=wait_condition,
        execute_activity=execute_activity,
        execute_local_activity=execute_activity,
        start_child_workflow=start_child_workflow,
        get_external_workflow_handle=external,
        continue_as_new=continue_as_new,
        info=info,
        current_update_info=current_update_info,
        all_handlers_finished=lambda: present_run.get().updates == 0,
        upsert_search_attributes=lambda *_: None,
        set_current_details=lambda *_: None,
        uuid4=lambda: uuid.UUID(int=present_run.get().temporal.history.random.getrandbits(128)),
        ParentClosePolicy=workflow.ParentClosePolicy,
        logger=workflow.logger,
    )


@contextmanager
def pretended() -> Iterator[None]:
    """Our workflows run on this server."""
    modules = [module for name, module in sys.modules.items() if name.startswith("workflows.")]
    modules = [module for module in modules if getattr(module, "workflow", None) is workflow]
    stand_in = _of_workflow()
    for module in modules:
        module.__dict__["workflow"] = stand_in
    try:
        yield
    finally:
        for module in modules:
            module.__dict__["workflow"] = workflow


class Elsewhere:
    """What a sweeper of another namespace sees of its own Temporal: nothing of this one."""

    identity = "elsewhere"
    namespace = "elsewhere"

    def __init__(self, history: History) -> None:
        self._history = history

    def get_workflow_handle(self, workflow_id: str, **_: Any) -> SimpleNamespace:
        async def describe() -> None:
            await asyncio.sleep(self._history.latency())
            raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")

        return SimpleNamespace(describe=describe)

    async def start_workflow(self, kind: str, *_: Any, **__: Any) -> None:
        self._history.oracle.wrong(f"{kind} was started in a namespace that the approval does not live in")


def _standing(run: Run) -> WorkflowExecutionStatus:
    if run.is_open:
        return WorkflowExecutionStatus.RUNNING
    if run.is_terminated:
        return WorkflowExecutionStatus.TERMINATED
    has_failed = run.result.done() and run.result.exception() is not None
    return WorkflowExecutionStatus.FAILED if has_failed else WorkflowExecutionStatus.COMPLETED


class Client:
    """What the sweeper and late bodies ask of Temporal."""

    identity = "world"
    namespace = "default"

    def __init__(self, history: History) -> None:
        self._history = history

    def get_workflow_handle(self, workflow_id: str, **_: Any) -> SimpleNamespace:
        temporal = self._history.temporal

        async def describe() -> SimpleNamespace:
            await asyncio.sleep(self._history.latency())
            run = temporal.runs.get(workflow_id)
            if run is None:
                raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")
            return SimpleNamespace(status=_standing(run))

        async def signal(name: str, *arguments: Any) -> None:
            await asyncio.sleep(self._history.latency())
            if not temporal.signal(workflow_id, name, *arguments):
                raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")

        async def result() -> Any:
            return await asyncio.shield(temporal.runs[workflow_id].result)

        return SimpleNamespace(describe=describe, signal=signal, result=result)

    async def start_workflow(
        self,
        kind: str,
        argument: Any,
        *,
        id: str,
        start_signal: str | None = None,
        start_signal_args: Sequence[Any] = (),
        id_reuse_policy: WorkflowIDReusePolicy = WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        **_: Any,
    ) -> None:
        await asyncio.sleep(self._history.latency())
        temporal = self._history.temporal
        run = temporal.runs.get(id)
        is_there = run is not None and run.is_open and start_signal is not None
        if run is not None and not is_there and id_reuse_policy is WorkflowIDReusePolicy.REJECT_DUPLICATE:
            raise WorkflowAlreadyStartedError(id, kind)
        if run is None or not run.is_open:
            temporal.start(kind, argument, id)
        if start_signal is not None:
            temporal.signal(id, start_signal, *start_signal_args)
