"""A pretended Temporal: it runs the product's own workflows and activities, and forgets nothing that it should not."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, WorkflowAlreadyStartedError
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

import workflows
from assent import names
from tests.world import clock
from tests.world.processes import Process, never

if TYPE_CHECKING:
    from tests.world.history import History

present_run: contextvars.ContextVar[Run] = contextvars.ContextVar("run")
present_update: contextvars.ContextVar[str | None] = contextvars.ContextVar("update", default=None)
"""The id of the update that is handled."""


class ContinueAsNew(BaseException):
    def __init__(self, argument: Any) -> None:
        self.argument = argument


class Run:
    """One run of one workflow."""

    def __init__(self, temporal: Temporal, kind: str, workflow_id: str, argument: Any) -> None:
        self.temporal, self.kind, self.id, self.argument = temporal, kind, workflow_id, argument
        self.run_id = uuid.UUID(int=temporal.history.random.getrandbits(128)).hex
        self.start_time = clock.now()
        self.is_open, self.is_terminated = True, False
        self.signals: list[tuple[str, Any]] = []
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.updates = 0
        self.activities = 0
        context = contextvars.copy_context()
        context.run(present_run.set, self)
        self._context = context
        definition = _WORKFLOWS[kind]
        takes_argument = len(inspect.signature(definition).parameters) > 0
        self.instance: Any = context.run(definition, *((argument,) if takes_argument else ()))
        self.task = asyncio.get_running_loop().create_task(self._live(), context=context)

    async def _live(self) -> None:
        try:
            value = await self.instance.run(self.argument)
        except ContinueAsNew as anew:
            self.is_open = False
            self.temporal.history.note(f"{self.kind} continues as new")
            self.temporal.history.oracle.carries(self.kind, anew.argument)
            self.temporal.start(self.kind, anew.argument, self.id)
            return
        except ApplicationError as error:
            self.is_open = False
            self.result.set_exception(error)
            self.result.exception()
            self.temporal.history.oracle.refused(getattr(self.argument.request, "approval_id", self.id), error)
            return
        except Exception as error:  # Temporal would try this task for ever
            self.temporal.history.oracle.wrong(f"{self.kind} broke: {type(error).__name__}: {error}")
            return
        if self.is_terminated:
            await never()
        self.is_open = False
        self.result.set_result(value)
        if self.kind == names.FROZEN_REVIEW:
            self.temporal.history.note("the review is closed")
        await self.temporal.history.oracle.closed(self.kind, value)

    @property
    def is_long(self) -> bool:
        return 0 < self.temporal.history.plan.continues_after <= self.activities

    def do(self, handler: Callable[..., Any], *args: Any) -> Any:
        return self._context.copy().run(handler, self.instance, *args)

    def task_of(self, handler: Callable[..., Any], *args: Any, update: str | None = None) -> asyncio.Task[Any]:
        context = self._context.copy()
        context.run(present_update.set, update)
        return asyncio.get_running_loop().create_task(handler(self.instance, *args), context=context)

    async def comes_back(self) -> None:
        """The workflow's next task, if there is one."""
        if self.temporal.history.is_closed:
            return
        await asyncio.sleep(self.temporal.history.latency())
        if self.is_terminated:
            await never()


_WORKFLOWS: dict[str, Any] = {
    definition.__temporal_workflow_definition.name: definition  # type: ignore[attr-defined]
    for definition in workflows.ALL
}


def _definitions(attribute: str) -> dict[str, dict[str, Any]]:
    """What each kind of workflow can be told, by name."""
    return {
        kind: {
            definition.name: definition
            for _, member in inspect.getmembers(of)
            if (definition := getattr(member, attribute, None)) is not None
        }
        for kind, of in _WORKFLOWS.items()
    }


_SIGNALS = _definitions("__temporal_signal_definition")
_UPDATES = _definitions("_defn")


class Temporal:
    """The server: workflows by id, processes by queue."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.runs: dict[str, Run] = {}
        self.processes: dict[str, list[Process]] = {}

    # What clients ask for

    def start(self, kind: str, argument: Any, workflow_id: str) -> Run:
        before = self.runs.get(workflow_id)
        if before is not None and before.is_open:
            raise WorkflowAlreadyStartedError(workflow_id, kind)
        self.runs[workflow_id] = Run(self, kind, workflow_id, argument)
        if kind == names.FROZEN_REVIEW:
            self.history.note(f"the review is opened with {argument.call.approval_id}")
        return self.runs[workflow_id]

    def signal(self, workflow_id: str, name: str, *arguments: Any) -> bool:
        run = self.runs.get(workflow_id)
        if run is None or not run.is_open:
            return False
        run.signals.append((name, arguments))
        if name == names.JOIN:
            self.history.note("the review is joined")
        definition = _SIGNALS[run.kind][name]
        run.do(definition.fn, *arguments)
        return True

    async def update(self, workflow_id: str, name: str, argument: Any, update: str | None = None) -> Any:
        """Raises ApplicationError where it is refused, RPCError where nobody is there."""
        run = self.runs.get(workflow_id)
        if run is None or not run.is_open:
            raise RPCError("not found", RPCStatusCode.NOT_FOUND, b"")
        definition = _UPDATES[run.kind][name]
        if definition.validator is not None:
            run.do(definition.validator, argument)
        run.updates += 1
        try:
            handling = run.task_of(definition.fn, argument, update=update or f"{run.id} {run.updates}")
            return await asyncio.shield(handling)
        finally:
            run.updates -= 1

    def terminate(self, workflow_id: str) -> Run | None:
        """End a run from outside: not one line of it runs any more."""
        run = self.runs.get(workflow_id)
        if run is None or not run.is_open:
            return None
        run.is_open, run.is_terminated = False, True
        self.history.note(f"{run.kind} is terminated")
        return run

    def reset(self, workflow_id: str, *, keep_signals: bool) -> bool:
        """Begin anew, with or without what was said meanwhile."""
        run = self.runs.get(workflow_id)
        if run is None:
            return False
        run.is_open, run.is_terminated = False, True
        anew = self.start(run.kind, run.argument, workflow_id)
        anew.start_time = run.start_time  # its first event is the one that it had
        if keep_signals:
            for name, arguments in run.signals:
                self.signal(workflow_id, name, *arguments)
        return anew is not run

    def purge(self, workflow_id: str) -> bool:
        """Forget a run that has ended."""
        run = self.runs.get(workflow_id)
        if run is None or run.is_open:
            return False
        del self.runs[workflow_id]
        return True

    # Activities

    async def perform(self, run: Run, name: str, argument: Any, queue: str, options: Options) -> Any:
        """Have an activity done, as often as its options let it."""
        scheduled, policy, number = clock.now(), options.retry, 0
        run.activities += 1
        activity_id, pause = str(run.activities), policy.initial_interval
        while True:
            number += 1
            attempt = _Attempt(self, run, name, argument, queue, options, scheduled, activity_id, number)
            try:
                return await attempt.made()
            except ApplicationError as error:
                why: BaseException = error
                is_final = error.non_retryable
            except ActivityTimeout as error:
                why, is_final = error, error.type in (TimeoutType.SCHEDULE_TO_CLOSE, TimeoutType.SCHEDULE_TO_START)
            except Exception as error:
                why, is_final = ApplicationError(str(error), type=type(error).__name__), False
            too_late = clock.now() + pause >= scheduled + options.schedule_to_close
            if is_final or too_late or (policy.maximum_attempts and number >= policy.maximum_attempts):
                raise _activity_error(name, why) from why
            await asyncio.sleep(pause.total_seconds())
            longest = policy.maximum_interval or policy.initial_interval * 100
            pause = min(pause * policy.backoff_coefficient, longest)


@dataclasses.dataclass(frozen=True)
class Options:
    start_to_close: timedelta
    schedule_to_close: timedelta
    schedule_to_start: timedelta
    heartbeat: timedelta | None
    retry: RetryPolicy


def _activity_error(name: str, why: BaseException) -> ActivityError:
    return ActivityError(
        str(why),
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type=name,
        activity_id="",
        retry_state=None,
    )


class _Attempt:
    """One attempt of one activity, as the server sees it."""

    def __init__(
        self,
        temporal: Temporal,
        run: Run,
        name: str,
        argument: Any,
        queue: str,
        options: Options,
        scheduled: datetime,
        activity_id: str,
        number: int,
    ) -> None:
        self._temporal, self._run, self._name, self._argument = temporal, run, name, argument
        self._queue, self._options, self._scheduled = queue, options, scheduled
        self._activity_id, self._number = activity_id, number
        self._reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._beat = 0.0

    async def made(self) -> Any:
        loop, options = asyncio.get_running_loop(), self._options
        last = (self._scheduled + options.schedule_to_close - clock.EPOCH).total_seconds()
        taken_by = loop.time() + options.schedule_to_start.total_seconds()
        process = await self._taken(last, taken_by)
        started = self._beat = loop.time()
        env = self._environment(process)
        loop.create_task(self._work(process, env), context=process.context.copy())
        while not self._reported.done():
            limits = {
                TimeoutType.SCHEDULE_TO_CLOSE: last,
                TimeoutType.START_TO_CLOSE: started + options.start_to_close.total_seconds(),
            }
            if options.heartbeat is not None:
                limits[TimeoutType.HEARTBEAT] = self._beat + options.heartbeat.total_seconds()
            kind, when = min(limits.items(), key=lambda limit: limit[1])
            if loop.time() >= when:
                raise ActivityTimeout(str(kind), type=kind, last_heartbeat_details=[])
            await asyncio.wait({self._reported}, timeout=when - loop.time())
        return self._reported.result()

    async def _taken(self, last: float, taken_by: float) -> Process:
        """The process that takes it; one that is stopped may have taken it just before."""
        loop, history = asyncio.get_running_loop(), self._temporal.history
        while True:
            if self._run.is_terminated:
                await never()  # what nobody has taken is dropped with its workflow
            there = [
                process
                for process in self._temporal.processes[self._queue]
                if not process.is_dead and not process.is_leaving and (process.is_heard or history.chance(0.1))
            ]
            if there:
                return history.random.choice(there)
            if loop.time() >= last:
                kind = TimeoutType.SCHEDULE_TO_CLOSE
                raise ActivityTimeout(str(kind), type=kind, last_heartbeat_details=[])
            if loop.time() >= taken_by:
                kind = TimeoutType.SCHEDULE_TO_START
                raise ActivityTimeout(str(kind), type=kind, last_heartbeat_details=[])
            await asyncio.sleep(min(1.0, last - loop.time()))

    def _environment(self, process: Process) -> ActivityEnvironment:
        def beat(*_: Any) -> None:
            if process.is_heard:
                self._beat = asyncio.get_running_loop().time()

        env = ActivityEnvironment(client=self._temporal.history.client)
        env.on_heartbeat = beat
        env.info = dataclasses.replace(
            env.info,
            activity_id=self._activity_id,
            attempt=self._number,
            scheduled_time=self._scheduled,
            started_time=clock.now(),
            heartbeat_timeout=self._options.heartbeat,
            workflow_run_id=self._run.run_id,
            task_queue=self._queue,
        )
        return env

    async def _work(self, process: Process, env: ActivityEnvironment) -> None:
        await process.step()
        process.at_work += 1
        try:
            value = await env.run(process.activities[self._name], self._argument)
        except Exception as error:
            await self._report(process, functools.partial(self._reported.set_exception, error))
        else:
            await self._report(process, functools.partial(self._reported.set_result, value))
        finally:
            process.at_work -= 1

    async def _report(self, process: Process, tell: Callable[[], None]) -> None:
        await process.step()
        loop = asyncio.get_running_loop()
        while not process.is_heard:
            await process.sleep(max(process.silent_until - loop.time(), 0.1))
        if not self._reported.done():
            tell()
