"""What a tool worker does: execute a consented call through the ledger, and probe one whose end is unknown."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.asking import CallAsker, Stopwatch
from activities.bodies import Body, Raised, TimedOut
from activities.opened_files import OpenedFiles, OtherBytes
from activities.policy import PolicyInForce, effective_now
from activities.programs import TO_STOP, Programs
from assent import names
from assent.content import Content, describe
from assent.contracts.execute import PlannedCall, Report, ReportKind, ToolCall
from assent.contracts.manifest import Program
from assent.contracts.plan import Plan
from assent.contracts.prepare import Warned, WarningQuestion
from assent.contracts.status import Status
from assent.files import SharedFile
from assent.payload import payload_arguments, payload_files, sha256
from assent.policy.rules import objection
from assent.tools.asking import Asking
from assent.tools.definition import (
    ProbeAnswer,
    ProbeResult,
    Registry,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolResult,
    sentences,
)
from ledger import Beginning, ClaimState, Ending, Holder, Ledger, Numbers, Right, is_refusal

BEGIN_LIMIT = timedelta(seconds=5)
"""How long one attempt asks for the claim before it leaves the asking to the next."""
WAIT_LIMIT = timedelta(seconds=10)
"""How long one attempt waits for another approval's call; waiting must not use up the tool's own time."""
RECORDING_LIMIT = timedelta(seconds=20)
"""How long the ledger is asked again to record an end before that end counts as unknown."""
PROBE_LIMIT = timedelta(seconds=10)
SLOTS = 100
"""How many calls a worker makes at a time."""
OWN_PACE = timedelta(milliseconds=100)
"""The least time between heartbeats that leave a worker. `_heartbeat` paces them itself: left to the SDK, one leaves
only when four fifths of the timeout are over, and a moment's delay then freezes the call."""
WARN_LIMIT = timedelta(seconds=5)
MAX_URL_CHARACTERS = 4000
_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_probe_result: TypeAdapter[ProbeResult] = TypeAdapter(ProbeResult)


class _Refused(Exception):
    """This attempt must not begin the call."""


class ToolActivities:
    """The activities of a tools queue."""

    def __init__(self, ledger: Ledger, registry: Registry, policy: PolicyInForce | None = None) -> None:
        self._ledger = ledger
        self._registry = registry
        self._policy = policy or PolicyInForce(ledger)
        self.programs = Programs(ledger)
        self._late: set[asyncio.Task[None]] = set()
        self._may_wait: Counter[str] = Counter()
        """How many tools are at work that may wait for people, by queue."""

    async def drain(self, seconds: float) -> None:
        """Wait for bodies that ran out of time, as long as there is time, so that their end is not lost."""
        if self._late:
            _log.info("%d tools still run beyond their time; what they end with is waited for", len(self._late))
            await asyncio.wait(self._late, timeout=max(seconds, 0))
        if self._late:
            _log.warning("%d tools still run, and are left: how they end will not be known", len(self._late))

    @activity.defn(name=names.EXECUTE)
    async def execute(self, named: PlannedCall) -> Report:
        """Run one consented call at most once, and say only what is certain of it."""
        async with _heartbeat():
            try:
                async with self._place_to_wait(named):
                    return await _uncancelled(self._execute(named))
            except _Refused as refusal:
                return Report(kind=ReportKind.NOT_BEGUN, reason=str(refusal))

    @activity.defn(name=names.WARN)
    async def warn(self, question: WarningQuestion) -> Warned:
        """Ask the tool's own function what should be known of a call; whatever keeps it from answering is raised."""
        tool = self._registry.tools.get(question.tool)
        if tool is None or tool.manifest.shown_sha256 != question.manifest_sha256 or not tool.manifest.warns:
            raise ApplicationError(f"this worker has another version of {question.tool!r}", type="NotYet")
        arguments = tool.parse(payload_arguments(question.payload))
        said = await Body(tool.warning(arguments)).end(WARN_LIMIT)
        if isinstance(said, Raised | TimedOut):
            raise ApplicationError("the function did not answer", type="NoWarning", non_retryable=True)
        return Warned(warnings=sentences(said))

    @activity.defn(name=names.PROBE)
    async def probe(self, named: PlannedCall) -> Report:
        """Ask the tool's own probe what became of a call. Only a clear "executed" changes anything here.

        "Not executed" means that it has not and no longer can. That it no longer can must be certain before the probe
        looks: what ended while it looked may have taken effect right after.
        """
        tool, arguments, call, _ = await self._check(named, _handles)
        assert tool.probe is not None, "the manifest says that there is a probe"
        before = await self._ledger.begun(call.consent)
        async with _heartbeat():
            context = _context(call, attempt=0).asking_with(Asking(why_not="a probe cannot ask"))
            found = await Body(partial(tool.probe, context, **arguments)).end(PROBE_LIMIT)
        if isinstance(found, Raised | TimedOut):
            return Report(kind=ReportKind.UNKNOWN, reason=f"the probe could not tell: {found.error}")
        try:
            result = ProbeResult(ProbeAnswer(found)) if isinstance(found, str) else _probe_result.validate_python(found)
        except ValueError as error:
            return Report(kind=ReportKind.UNKNOWN, reason=f"the probe answered unclearly: {describe(error)}")
        if result.answer is ProbeAnswer.EXECUTED:
            return await self._ledger.resolve(call, Content.of(result.content))
        certain = result.answer is ProbeAnswer.NOT_EXECUTED and before.can_no_longer(tool.manifest.in_flight)
        kind = ReportKind.NOT_EXECUTED if certain else ReportKind.UNKNOWN
        return Report(kind=kind, reason=f"the probe answered {result.answer}", attempts=before.attempts)

    async def _execute(self, named: PlannedCall) -> Report:
        with OpenedFiles() as files:
            return await self._made(named, files)

    async def _made(self, named: PlannedCall, files: OpenedFiles) -> Report:
        may_start = _may_start(named)
        try:
            tool, arguments, call, plan = await self._check(named, files.named_in)
            await files.fill(self._ledger.files, call.approval_id)
            holder = _holder(tool)
            beginning = await self._begin(call, holder, may_start, partial(self._check_policy, call, tool, plan))
        except OtherBytes as other:
            raise _Refused(str(other)) from None
        except (_Refused, ApplicationError):
            raise
        except Exception as error:
            why = (
                str(error) if isinstance(error, LookupError) else f"the ledger is out of reach ({type(error).__name__})"
            )
            if not may_start():
                raise _Refused(why) from None
            raise ApplicationError(why, type="NotYet") from None
        if beginning.report is not None:
            return beginning.report
        body, value = await self._run(tool, arguments, call, beginning.attempt, files)
        try_again = isinstance(value, Raised | TimedOut) and call.retry_safe and beginning.attempt < call.attempts
        # Where another attempt may follow, the claim stays open: that attempt takes it over, with the same key.
        report = None if try_again else await self._record(call, holder, beginning.attempt, _ending(value))
        if isinstance(value, TimedOut):
            self._outwait(body, call, holder, beginning.attempt)
        elif report is None:
            await self._note_end(holder)
        if report is None:
            unknown = "the outcome of this attempt is unknown"
            raise ApplicationError(unknown, type="AttemptUnknown", category=ApplicationErrorCategory.BENIGN)
        return report

    async def _run(
        self, tool: Tool, arguments: dict[str, Any], call: ToolCall, attempt: int, files: OpenedFiles
    ) -> tuple[Body, Any]:
        """Run the body, and say how it ended within its time; what people are asked meanwhile does not count."""
        context = _context(call, attempt)
        if tool.program is not None:
            return await self._run_program(tool.program, arguments, call)
        if not call.asks:
            body = Body(tool.bound(arguments, context), files.said)
            files.stay_until_end(body)
            return body, await body.end(call.timeout)
        stopwatch = Stopwatch()
        asker = CallAsker(call, stopwatch)
        try:
            body = Body(tool.bound(arguments, context.asking_with(Asking(asker))), files.said)
            files.stay_until_end(body)
            return body, await body.end_by(stopwatch, call.timeout)
        finally:
            asker.close()

    async def _run_program(self, program: Program, arguments: dict[str, Any], call: ToolCall) -> tuple[Body, Any]:
        """Run a program, which is stopped when its time is over; what people are asked meanwhile does not count."""
        stopwatch = Stopwatch()
        asker = CallAsker(call, stopwatch)
        try:
            body = Body(partial(self.programs.run, program, arguments, call, asker, stopwatch))
            return body, await body.end_by(stopwatch, call.timeout + TO_STOP)
        finally:
            asker.close()

    @asynccontextmanager
    async def _place_to_wait(self, named: PlannedCall) -> AsyncIterator[None]:
        """A place for a tool that may wait for people: at most half of all, so that the others go on."""
        tool, queue = self._registry.tools.get(named.tool), activity.info().task_queue
        asks = tool is not None and bool(tool.manifest.asks)
        if asks and self._may_wait[queue] >= SLOTS // 2:
            await self._without_place(named)
        self._may_wait[queue] += asks
        try:
            yield
        finally:
            self._may_wait[queue] -= asks

    async def _without_place(self, named: PlannedCall) -> NoReturn:
        """Leave a call for later; one that no attempt has begun, only while it may still begin."""
        why = "half of this worker's places are taken by tools that ask"
        if not _may_start(named)() and not (await self._ledger.begun(named.consent)).attempts:
            raise _Refused(why)
        raise _later(why)

    async def _check(
        self, named: PlannedCall, files: Callable[[str], Mapping[str, SharedFile]]
    ) -> tuple[Tool, dict[str, Any], ToolCall, Plan]:
        """Refuse whatever is not, byte for byte, what was shown and approved.

        files: gives the files that a payload names, for the arguments that name them.
        """
        plan = await self._ledger.plan(named.approval_id, named.payload_sha256)
        if plan is None:
            raise _Refused("the ledger holds no plan for what would run")
        call = ToolCall.planned(plan, named)
        is_planned = call.by_its_plan == named and sha256(plan.payload) == plan.payload_sha256
        if not is_planned or not await self._has_its_key(call, plan):
            raise _Refused("what would run is not what was approved")
        tool = self._registry.tools.get(call.tool)
        if tool is None:
            raise LookupError(f"this worker has no tool named {call.tool!r}")
        if tool.manifest.shown_sha256 != call.manifest_sha256:
            await self._refuse_manifest(call)
        try:
            return tool, tool.parse(payload_arguments(call.payload), files(call.payload)), call, plan
        except ValidationError as error:
            problems = "; ".join(_problem(e["loc"], e["msg"], tool) for e in error.errors())
            raise _Refused(f"invalid arguments: {problems}"[:2000]) from None

    async def _has_its_key(self, call: ToolCall, plan: Plan) -> bool:
        """Whether the key is the plan's, or that of a call of the same person's that the consent met as unknown."""
        if call.idempotency_key == plan.idempotency_key:
            return True
        return call.idempotency_key == await self._ledger.key_of(call.retries or call.consent)

    async def _refuse_manifest(self, call: ToolCall) -> NoReturn:
        """This worker's tool is not the one that was shown: another worker's is, or nobody's any more."""
        published = await self._ledger.manifest(call.tool)
        if published is not None and published.shown_sha256 == call.manifest_sha256:
            raise LookupError(f"this worker has another version of {call.tool!r} than the one that was shown")
        raise _Refused("the tool changed after the call was shown; propose it anew")

    async def _check_policy(self, call: ToolCall, tool: Tool, plan: Plan) -> Numbers:
        """Stop what too few have approved, and what the operator's policy has become too strict for since.

        The numbers of the policy and the override that let it run.
        """
        needed = 0 if plan.asks_nobody or call.retries else sum(stage.threshold for stage in plan.approvers.stages)
        if len(call.approved_by) < needed:
            raise _Refused(f"{len(call.approved_by)} of {needed} have approved it")
        in_force = await self._policy.now()
        effective = await effective_now(self._ledger, in_force, tool.manifest, plan)
        if why := objection(plan, effective, call.approved_by):
            raise _Refused(why)
        return in_force.numbers(tool.name)

    async def _begin(
        self,
        call: ToolCall,
        holder: Holder,
        may_start: Callable[[], bool],
        check_policy: Callable[[], Awaitable[Numbers]],
    ) -> Beginning:
        """Claim the right to run, waiting while another consent runs the same key."""
        pause, policy = 0.05, await check_policy()
        leave_at = asyncio.get_running_loop().time() + WAIT_LIMIT.total_seconds()
        while True:
            if activity.is_cancelled() or activity.is_worker_shutdown():
                raise _later("this worker is leaving, or is not wanted any more")
            # Asked at least twice: the right may have been granted and only the answer lost, after however long a wait,
            # and nobody but this attempt can learn of it. The next one would have to call it unknown.
            ask = partial(self._ask_to_begin, call, holder, may_start, policy)
            beginning = await _insisting(ask, BEGIN_LIMIT, at_least=2)
            if beginning.right is Right.LOOK_AGAIN:
                self._policy.forget()
                policy = await check_policy()
                continue
            if beginning.right is Right.YIELD:
                raise _later("a later attempt runs the call")
            if beginning.right is not Right.WAIT:
                return beginning
            if asyncio.get_running_loop().time() > leave_at:
                raise _later("another approval runs the same call")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2)

    async def _ask_to_begin(
        self, call: ToolCall, holder: Holder, may_start: Callable[[], bool], policy: Numbers
    ) -> Beginning:
        return await self._ledger.begin(call, holder, may_start=may_start(), policy=policy)

    async def _record(self, call: ToolCall, holder: Holder, attempt: int, ending: Ending) -> Report:
        """Write down how the body ended. What cannot be written down is unknown, though it is told what was seen."""
        try:
            return await _insisting(partial(self._ledger.finish, call, holder, attempt, ending), RECORDING_LIMIT)
        except Exception as error:
            _log.error("the end of %s could not be recorded: %s", call.consent, type(error).__name__)
        if ending.content is not None:
            refused = Content(data=b"null", note="the ledger refused to keep the result")
            without = ending.model_copy(update={"content": refused})
            try:
                return await _insisting(partial(self._ledger.finish, call, holder, attempt, without), BEGIN_LIMIT)
            except Exception as error:
                _log.error("nor could it be without its content: %s", type(error).__name__)
        seen = Report(kind=ReportKind.UNKNOWN)
        if ending.content and not call.permission.result.covers(Status.FROZEN):
            seen = ending.content.report(ReportKind.UNKNOWN)
        reason = f"the tool ended ({ending.state}), and the ledger could not record it"
        return seen.model_copy(update={"reason": reason})

    async def _note_end(self, holder: Holder) -> None:
        """Write down that the tool's own code has ended; where that fails, nobody counts on it."""
        try:
            await _insisting(partial(self._ledger.body_ended, holder), RECORDING_LIMIT)
        except Exception as error:
            _log.error("that a tool's code has ended could not be recorded: %s", type(error).__name__)

    async def _tell_review(self, call: ToolCall) -> None:
        """Let an open review look again; it finds what is new in the ledger."""
        review = names.review_workflow(call.idempotency_key)
        try:
            await activity.client().get_workflow_handle(review).signal(names.NEWS)
        except RPCError:
            return  # there is none, or it will look by itself

    def _outwait(self, body: Body, call: ToolCall, holder: Holder, attempt: int) -> None:
        """Keep whatever truth still comes of a body that ran out of time.

        It is not stopped, on the loop either: a coroutine that is cancelled has not ended what it began, such as a
        thread, and could no longer tell how that ended.
        """

        async def record() -> None:
            ending = _ending(await body.end())
            if ending.state is not ClaimState.UNKNOWN:
                await self._record(call, holder, attempt, ending)
            await self._note_end(holder)
            await self._tell_review(call)

        waiting = asyncio.ensure_future(record())
        self._late.add(waiting)
        waiting.add_done_callback(self._late.discard)


def _handles(payload: str) -> dict[str, SharedFile]:
    """The files that a payload names, without their bytes."""
    return {file_id: SharedFile(file_id=file_id, **said) for file_id, said in payload_files(payload).items()}


def _ending(value: Any) -> Ending:
    if isinstance(value, Raised | TimedOut):
        return Ending(state=ClaimState.UNKNOWN, error=value.error, body_ended=isinstance(value, Raised))
    result = value if isinstance(value, ToolResult) else ToolResult(content=value)
    state = ClaimState.EXECUTED if result.took_effect else ClaimState.FAILED
    ended = ToolOutcome.FAILED if result.outcome.took_effect else result.outcome
    error = None if state is ClaimState.EXECUTED else f"the tool ended with {ended}"
    content, url = Content.of(result.content), result.authorize_url
    if url is not None and (len(url) > MAX_URL_CHARACTERS or not url.isprintable()):
        content, url = content.model_copy(update={"note": "the tool's authorize_url could not be kept"}), None
    return Ending(state=state, content=content, authorize_url=url, error=error)


def _later(why: str) -> ApplicationError:
    """Nothing was begun: let another attempt try."""
    return ApplicationError(why, type="NotYet", category=ApplicationErrorCategory.BENIGN)


def _problem(where: tuple[int | str, ...], what: str, tool: Tool) -> str:
    """One thing that is wrong with the arguments; of a sensitive one not what, since that may quote it."""
    name = str(where[0]) if where else ""
    return f"{name}: it is not valid" if name in tool.manifest.sensitive else f"{'.'.join(map(str, where))}: {what}"


def _context(call: ToolCall, attempt: int) -> ToolContext:
    return ToolContext(
        approval_id=call.approval_id,
        requester=call.requester,
        idempotency_key=call.idempotency_key,
        tool_call_id=call.tool_call_id,
        thread_id=call.thread_id,
        attempt=attempt,
    )


def _may_start(call: PlannedCall) -> Callable[[], bool]:
    """Whether the call may still begin, by Temporal's clock alone: when this attempt was handed out, and since then."""
    info, taken = activity.info(), asyncio.get_running_loop().time()
    left = (call.start_within - (info.started_time - info.scheduled_time)).total_seconds()
    return lambda: asyncio.get_running_loop().time() - taken < left


def _holder(tool: Tool) -> Holder:
    info = activity.info()
    return Holder(
        in_flight=tool.manifest.in_flight,
        token=uuid.uuid4().hex,
        worker=f"{activity.client().identity} {info.task_queue} attempt {info.attempt}",
        activity=f"{info.workflow_run_id}/{info.activity_id}",
        turn=info.attempt,
    )


async def _insisting(ask: Callable[[], Awaitable[_Answer]], limit: timedelta, *, at_least: int = 1) -> _Answer:
    """Ask the ledger again while it is out of reach; what it refuses for good is raised at once."""
    give_up = asyncio.get_running_loop().time() + limit.total_seconds()
    pause = 0.05
    for tried in itertools.count(1):
        try:
            return await ask()
        except Exception as error:
            late = tried >= at_least and asyncio.get_running_loop().time() + pause > give_up
            if is_refusal(error) or late:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, 2)
    raise AssertionError("it is asked without end")


async def _uncancelled(work: Coroutine[Any, Any, Report]) -> Report:
    """See work through: a call that was begun can be neither cancelled, paused nor abandoned."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
        except Exception:
            break  # the task's own error, raised below
    return task.result()


@asynccontextmanager
async def _heartbeat() -> AsyncIterator[None]:
    """Tell Temporal that this worker lives, several times within the timeout."""
    timeout = activity.info().heartbeat_timeout

    async def beat() -> None:
        while timeout:
            activity.heartbeat(datetime.now(UTC).isoformat(timespec="seconds"))
            await asyncio.sleep(timeout.total_seconds() / 4)

    beating = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        beating.cancel()
