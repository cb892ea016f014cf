"""Acting out a random schedule on real processes, and checking what must hold whatever happened."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import text
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from assent import Outcome, names
from assent.contracts.ruling import RuledKind
from assent.errors import AssentError, ConversationBusy, Unavailable
from tests.conftest import OPERATOR, Service
from tests.faults.plans import LINGERING, Asked, Blow, Plan
from tests.faults.proxies import LedgerProxy
from tests.faults.service import Case, ServiceUnderFault, ToolsWorker
from tests.faults.table import Moment
from tests.faults.waiting import PATIENCE, until
from tests.support.feishu_service import REQUESTER
from tests.support.stepped_clock import SteppedClock
from tests.support.stepwise import reading
from tests.support.temporal_operations import purge, reset
from workers.sweeping import end_gone, sweep

_BROUGHT = 15.0
"""How long a call may take to its moment; one that something else holds up is struck where it is."""
_SAFE = ("safe", "lost", "outlives")
"""The tools that may begin again."""
_ANSWERED = 1.5
"""How long who looked before the gates opened is left to answer."""
_OVERTAKEN = 8.0
"""How long a stopped or silent worker is left so, unless everything ended before."""


@dataclass
class Call:
    asked: Asked
    case: Case
    outcome: Outcome | None = None


class Schedule:
    """One plan, acted out. `run` tells what was violated; nothing, if all is well."""

    def __init__(self, plan: Plan, service: ServiceUnderFault, renewing: asyncio.Lock) -> None:
        self._plan, self._service, self._renewing = plan, service, renewing
        self._calls: list[Call] = []

    @property
    def approvals(self) -> list[str]:
        return [call.case.handle.id for call in self._calls]

    async def run(self) -> list[str]:
        queue = f"s{self._plan.seed}"
        workers = [await self._service.worker(queue, **self._limits)]
        try:
            for asked in self._plan.asked:
                self._calls.append(await self._ask(workers[0], asked))
            await self._bring(workers[0])
            workers += await self._strike(workers[0])
            await self._let_go(workers[0])
            await asyncio.gather(*(self._end(call) for call in self._calls))
            await self._service.allow(queue)
            if self._lingers:
                await asyncio.sleep(_ANSWERED)
            await workers[0].process.kill()  # whoever is given up on cannot surprise an operator any more
            found = await self._violations()
            if len(workers) == 1:
                workers.append(await self._relief(queue))
            found += await self._settle()
            found += await self._reset_at_end()
            found += await self._purge_at_end()
            found += await self._ask_where_it_was_terminated(workers[1])
        finally:
            for worker in workers:
                await self._service.dismiss(worker)
        return found + self._twice()

    async def _ask(self, worker: ToolsWorker, asked: Asked) -> Call:
        twin = self._calls[asked.twin_of].case if asked.twin_of is not None else None
        scope = f"{self._plan.seed}-{len(self._calls) if asked.twin_of is None else asked.twin_of}"
        path = twin.path if twin else None
        case = await self._service.ask(
            worker,
            asked.moment or Moment.TOOL,
            asked.tool,
            path=path,
            idempotency_scope=scope,
            thread_id=self._conversation(len(self._calls)),
        )
        return Call(asked, case)

    def _conversation(self, number: int) -> str:
        """Each call has a conversation of its own."""
        return f"{self._plan.seed}-{number}"

    @property
    def _lingers(self) -> bool:
        return self._plan.lingers > 0 and any(call.asked.tool in LINGERING for call in self._calls)

    @property
    def _limits(self) -> dict[str, str]:
        """The sweeper gives up on a call once its time is over: where it has to, that is soon."""
        return {"FAULTS_TIMEOUT": "10"} if self._plan.blow is Blow.TERMINATE else {}

    async def _bring(self, worker: ToolsWorker) -> None:
        """Every call to its moment; those without one are on their way when the blow falls."""
        await self._brought(worker, [call for call in self._calls if call.asked.moment not in (None, Moment.REPORT)])
        for call in self._calls:
            if call.asked.moment is None:
                if self._plan.open_first and not self._lingers:
                    call.case.let_end()
                await call.case.approve()
        await self._brought(worker, [call for call in self._calls if call.asked.moment is Moment.REPORT])
        if all(call.asked.moment is None for call in self._calls):
            await asyncio.sleep(self._plan.delay)  # the schedule's own choice of a moment, not a wait for one

    async def _brought(self, worker: ToolsWorker, calls: list[Call]) -> None:
        async def bring(call: Call) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._service.bring(worker, call.case), _BROUGHT)

        await asyncio.gather(*(bring(call) for call in calls))

    async def _strike(self, worker: ToolsWorker) -> list[ToolsWorker]:
        """Let the blow fall; the workers that came to help."""
        plan, service = self._plan, self._service
        match plan.blow:
            case Blow.NONE:
                return []
            case Blow.KILL:
                await worker.process.kill()
            case Blow.STOP:
                relief = await self._relief(worker.queue)  # first: a stopped process may hold SQLite's one lock
                worker.process.send(signal.SIGSTOP)
                for call in self._calls:
                    for gate in call.case.gates:
                        await gate.release()
                await self._overtaken()
                worker.process.send(signal.SIGCONT)
                return [relief]
            case Blow.DRAIN | Blow.LEAVE:
                worker.process.send(signal.SIGTERM)
                await service.says(worker.process, "draining")
                if plan.blow is Blow.LEAVE:
                    with suppress(ProcessLookupError):  # it had nothing in hand, and is gone already
                        worker.process.send(signal.SIGTERM)
                    await worker.process.ended()
            case Blow.DROP:
                worker.ledger.drop()
                return []
            case Blow.CUT:
                worker.ledger.cut()
            case Blow.SILENCE:
                worker.temporal.silence()
                await self._overtaken()
                return []
            case Blow.APPROVALS:
                async with self._renewing:
                    await service.approvals.kill()
                    await service.renew_approvals()
                return []
            case Blow.DENY:
                await service.deny(worker.queue)
                return []
            case Blow.TERMINATE:
                for call in self._calls:
                    with suppress(RPCError):  # it has ended by itself
                        await self._workflow(call.case).terminate("by hand")
                return []
            case Blow.RESET:
                for call in self._calls:
                    with suppress(Exception):  # one that has no such task cannot be reset to it
                        await reset(cast("Service", service), call.case.handle, nth_task=1, keep_signals=True)
                return []
        if plan.open_first:
            for call in self._calls:
                call.case.let_end()
        return [await self._relief(worker.queue)]

    async def _relief(self, queue: str) -> ToolsWorker:
        """A worker that comes to help; its clock may be wrong."""
        if not self._plan.hours_ahead:
            return await self._service.worker(queue, **self._limits)
        clock = SteppedClock(self._service.directory / f"clock-{queue}", timedelta(hours=self._plan.hours_ahead))
        return await self._service.worker(queue, **self._limits, **clock.environment)

    async def _overtaken(self) -> None:
        """Wait until every call was tried by another attempt, or has ended."""

        async def every() -> bool:
            for call in self._calls:
                if await self._service.ledger.outcome(call.case.handle.id) is None:
                    pending = await self._service.attempt(call.case, names.EXECUTE)
                    if pending is not None and pending.attempt < 2:
                        return False
            return True

        with suppress(TimeoutError):
            await until(every, _OVERTAKEN)

    async def _let_go(self, worker: ToolsWorker) -> None:
        if self._lingers:
            await asyncio.sleep(self._plan.lingers)  # the schedule's own choice of a moment
        dead = self._plan.blow in (Blow.KILL, Blow.LEAVE)
        if not dead:
            worker.temporal.resume()
        for call in self._calls:
            await call.case.let_go()
        if isinstance(worker.ledger, LedgerProxy):
            worker.ledger.mend()

    async def _end(self, call: Call) -> None:
        if self._plan.blow is Blow.TERMINATE:
            call.outcome = await until(lambda: self._swept(call.case))
        else:
            call.outcome = await self._service.outcome(call.case)

    async def _swept(self, case: Case) -> Outcome | None:
        """How an approval ended, by its own account or by the sweeper's."""
        service = self._service
        if known := await service.ledger.outcome(case.handle.id):
            return known
        await asyncio.sleep(1)  # each sweep looks at what every other schedule has open
        await sweep(service.client, service.ledger)
        await end_gone(service.client, service.ledger)
        return await service.ledger.outcome(case.handle.id)

    def _workflow(self, case: Case) -> WorkflowHandle[Any, Outcome]:
        return self._service.client.get_workflow_handle(names.approval_workflow(case.handle.id), result_type=Outcome)

    # What must hold

    async def _violations(self) -> list[str]:
        found = self._twice()
        for call in self._calls:
            outcome, effects, tool = call.outcome, call.case.effects.total(), call.asked.tool
            assert outcome is not None
            state, answer = await self._claim(call.case)
            status = outcome.status.value
            wrong = {
                "shown is not what ran": outcome.payload_sha256 != call.case.digest,
                "called done without an effect": status in ("executed", "replayed") and effects == 0,
                "a refusal called done": status in ("executed", "replayed") and tool == "refuses",
                "called failed after it began": status == "failed" and state != "closed" and tool != "refuses",
                "called failed by an open claim": status == "failed" and state not in ("closed", "failed"),
                "frozen, and the ledger knows": status == "frozen"
                and "unknown" not in (state, answer)
                and tool not in ("probed", *LINGERING),  # its review may have found out since
                "unknown, and called done or failed": state == "unknown" and status != "frozen",
                "left started": state == "started",
                "called cancelled by a claim that is not closed": status == "cancelled" and state != "closed",
                "an ending that nothing led to": status not in ("executed", "replayed", "failed", "frozen")
                and not (status == "cancelled" and self._plan.blow is Blow.TERMINATE),
            }
            found += [
                f"{what}: {tool} {status}, {effects} effects, claim {state}" for what, is_so in wrong.items() if is_so
            ]
        for key in {call.case.path for call in self._calls}:
            calls = [call for call in self._calls if call.case.path == key]
            statuses = [call.outcome.status.value for call in calls if call.outcome]
            if calls[0].case.effects and set(statuses) <= {"failed", "cancelled"}:
                found.append("it took effect, and everyone was told that it did not run")
            if statuses.count("executed") > 1:
                found.append("two approvals of one key were executed")
        return found

    def _twice(self) -> list[str]:
        return [
            f"{call.asked.tool} took effect {call.case.effects}"
            for call in self._calls
            if len(call.case.effects) > 1 or (call.asked.tool not in _SAFE and call.case.effects.total() > 1)
        ]

    async def _claim(self, case: Case) -> tuple[str | None, str | None]:
        async with reading(self._service.ledger._engine) as connection:
            found = await connection.execute(
                text("SELECT state, answer FROM claims WHERE consent = :id"), {"id": case.handle.id}
            )
            row = found.first()
        return (row.state, row.answer) if row else (None, None)

    async def _settle(self) -> list[str]:
        """The operator settles what is frozen, by the truth that the outside counts, or by another try."""
        found = []
        for call in self._calls:
            assert call.outcome is not None
            if call.outcome.status.value != "frozen":
                continue
            case = call.case
            before = case.effects.total()
            await self._end_review(case)
            retried = self._plan.settles == "retry" and await self._retried(case)
            if retried:
                await self._end_review(case)
            if retried and call.asked.tool not in _SAFE and before:
                found.append("a call that took effect was tried again")
            if not retried or not await self._came_of_it(case):
                await self._insist(case)
            settlement = await asyncio.wait_for(case.handle.settlement(), 150)
            if (settlement.kind.value == "executed") != bool(case.effects):
                found.append(f"settled as {settlement.kind} with {case.effects.total()} effects")
        return found

    async def _end_review(self, case: Case) -> None:
        """Somebody ends it by hand, and the sweeper opens it again."""
        plan = await self._service.ledger.plan(case.handle.id)
        if not self._plan.ends_reviews or plan is None:
            return
        review = self._service.client.get_workflow_handle(names.review_workflow(plan.idempotency_key))
        with suppress(RPCError):  # it has ended by itself
            await review.terminate("by hand")
        await sweep(self._service.client, self._service.ledger)

    async def _retried(self, case: Case) -> bool:
        assert case.digest is not None
        try:
            ruled = await case.handle.settle("retry", operator=OPERATOR, reason="again", payload_hash=case.digest[:12])
        except AssentError:
            return False
        return ruled.kind is RuledKind.RETRYING

    async def _insist(self, case: Case) -> None:
        """Say what is true, until it counts: while the call is tried again, nothing else is settled."""

        async def heard() -> bool:
            truth = "executed" if case.effects else "not_executed"
            try:
                ruled = await case.handle.settle(truth, operator=OPERATOR, reason="counted", content="as counted")
            except Unavailable:  # its review was ended by hand, and is opened again once what runs has ended
                await sweep(self._service.client, self._service.ledger)
                return False
            return ruled.kind is not RuledKind.RETRYING

        await until(heard)

    async def _came_of_it(self, case: Case) -> bool:
        """Whether it is settled what came of trying again; else it is unknown again, or still is."""

        async def over() -> str | None:
            if await self._service.ledger.settlement(case.handle.id) is not None:
                return "settled"
            chain = await self._service.ledger.chain_sights(case.handle.id)
            tried = await self._service.ledger.attempts_of(case.handle.id)
            ended = any(seen.consent != case.handle.id and seen.ended_at for seen in (*chain, *tried))
            return "unknown" if ended and chain[-1].state == "unknown" else None

        return await until(over, 150) == "settled"

    async def _reset_at_end(self) -> list[str]:
        """Whatever has ended ends the same way again."""
        found = []
        for call in self._calls:
            if not self._plan.reset_at_end or call.outcome is None or call.outcome.status.value == "frozen":
                continue
            try:
                await reset(cast("Service", self._service), call.case.handle, nth_task=1, keep_signals=True)
            except IndexError:  # it was terminated before there was such a task
                continue
            again = await asyncio.wait_for(self._workflow(call.case).result(), PATIENCE)
            if again.status != call.outcome.status:
                found.append(f"{call.outcome.status} became {again.status} by a reset")
        return found

    async def _purge_at_end(self) -> list[str]:
        """Who asks again for what Temporal has forgotten is told how it ended, and nothing runs."""
        found = []
        for call in self._calls if self._plan.purged_at_end else ():
            assert call.outcome is not None
            case, before = call.case, call.case.effects
            await purge(cast("Service", self._service), case.handle.id)
            arguments = {"path": str(case.path), "gate": str(case.gate)}
            await self._service.gate.request(
                case.tool, arguments, requester=REQUESTER, approval_id=case.handle.id, **case.asked
            )
            again = await asyncio.wait_for(self._workflow(case).result(), PATIENCE)
            if again.status != call.outcome.status or case.effects != before:
                found.append(f"{call.outcome.status} became {again.status} when it was asked for again: {case.effects}")
        return found

    async def _ask_where_it_was_terminated(self, worker: ToolsWorker) -> list[str]:
        """Nobody is kept waiting by a conversation whose approval is gone."""
        found = []
        for number in range(len(self._calls)) if self._plan.blow is Blow.TERMINATE else ():
            try:
                asked = await self._service.ask(
                    worker, Moment.TOOL, "refuses", thread_id=self._conversation(number), when_pending="fail"
                )
            except ConversationBusy as busy:
                found.append(f"a conversation stays busy: {busy}")
            else:
                await asked.handle.cancel()
        return found
