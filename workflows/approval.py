"""One approval, from request to outcome."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from assent import names
    from assent.contracts import (
        Decision,
        DecisionKind,
        Identity,
        Judged,
        Outcome,
        Phase,
        Plan,
        State,
        Status,
        Verdict,
        VerdictKind,
    )
    from assent.judgement import after_ending, audit_entry, concluded, objection, refusal_entry
    from assent.messages import (
        Asked,
        AuditBatch,
        AuditEntry,
        AuditEvent,
        Carried,
        Closing,
        FrozenCall,
        Preparation,
        Prepared,
        Report,
        ReportKind,
        Settlement,
        Supersession,
        ToolCall,
        VerdictQuestion,
        Withdrawal,
    )
    from workflows import steps
    from workflows.details import details

_MOST_REMEMBERED = 150
"""How many verdicts an approval remembers: with the longest ids, still far below what one message may hold."""
_MOST_AT_ONCE = 20
"""How many audit entries one message carries, each with a reason of any length."""
_PROBE_LIMIT = timedelta(seconds=15)


@workflow.defn(name=names.APPROVAL)
class ApprovalWorkflow:
    """Waits for a person's decision on one call, lets exactly that call run, and says how it ended."""

    @workflow.init
    def __init__(self, asked: Asked) -> None:
        carried = asked.carried
        self._request = asked.request
        self._phase = Phase.PENDING if carried else Phase.PREPARING
        self._plan: Plan | None = carried.plan if carried else None
        self._delivered_at: datetime | None = carried.delivered_at if carried else None
        self._judged = {judged.event_id: judged for judged in carried.judged} if carried else {}
        self._unwritten: list[AuditEntry] = list(carried.unwritten) if carried else []
        self._malformed = carried.malformed if carried else 0
        self._early: list[Decision] = []
        self._decision: Decision | None = None
        self._status: Status | None = None
        self._reason: str | None = None
        self._ended_by: Identity | None = None

    @workflow.run
    async def run(self, asked: Asked) -> Outcome:
        return await steps.uncancelled(self._live(), on_cancel=self._on_temporal_cancel)

    async def _live(self) -> Outcome:
        if self._plan is None:
            prepared = await self._prepare()
            if prepared.outcome is not None:
                return self._recall(prepared.plan, prepared.outcome)
            if prepared.plan is None:
                return await self._settle_unasked(prepared.refused)
            self._open(prepared.plan)
            await self._supersede_others(prepared.plan)
        plan = self._plan
        assert plan is not None
        await self._wait(plan)
        if self._status is not None:
            return await self._settle_undone(plan)
        report = await self._execute(plan)
        if report.kind is ReportKind.UNKNOWN:
            report = await self._probe(plan, report)
        if report.kind is ReportKind.UNKNOWN:
            await self._freeze(plan, report)
        outcome = concluded(self._outcome(plan, Status.FROZEN), report)
        self._status, self._reason = outcome.status, outcome.reason
        return await self._settle(outcome, local=True)

    # The steps

    async def _prepare(self) -> Prepared:
        info = workflow.info()
        preparation = Preparation(
            request=self._request, now=workflow.now(), deadline=info.start_time + self._request.ttl
        )
        prepared = await steps.local(names.PREPARE, preparation, Prepared)
        if prepared.plan is None:
            self._phase = Phase.CLOSED
        if prepared.conflict:
            raise ApplicationError("the approval id belongs to another request", type="ApprovalConflict")
        if prepared.busy_with is not None:
            busy = (self._request.thread_id, prepared.busy_with)
            raise ApplicationError("the conversation is busy", *busy, type="ConversationBusy")
        return prepared

    def _recall(self, plan: Plan | None, outcome: Outcome) -> Outcome:
        """The ledger already knows how this request ended: nobody is asked again."""
        self._plan, self._phase = plan, Phase.CLOSED
        self._status, self._reason, self._ended_by = outcome.status, outcome.reason, outcome.decided_by
        workflow.upsert_search_attributes([names.STATUS.value_set(outcome.status)])
        self._describe()
        return outcome

    def _open(self, plan: Plan) -> None:
        """From here on the plan can be decided; what came too early is judged first."""
        self._plan = plan
        self._phase = Phase.PENDING
        self._delivered_at = workflow.now()
        self._show(Phase.PENDING, risk=True)
        for decision in self._early:
            self._judge(plan, decision)
        self._early.clear()

    async def _supersede_others(self, plan: Plan) -> None:
        for other in plan.supersedes:
            handle = workflow.get_external_workflow_handle(names.approval_workflow(other))
            try:
                await handle.signal(names.SUPERSEDE, Supersession(by=plan.approval_id))
            except ApplicationError:
                continue  # it ended meanwhile

    async def _wait(self, plan: Plan) -> None:
        """Until a decision, a withdrawal, a newer request or the deadline; the first of them stands."""
        pause = timedelta(seconds=1)
        while not self._settled:
            if self._unwritten:
                pause = timedelta(seconds=1) if await self._write_audit() else min(pause * 2, timedelta(minutes=5))
            if self._settled:
                return
            if self._may_continue_as_new:
                self._continue(plan)
            left = plan.deadline + plan.grace - workflow.now()
            if left <= timedelta(0):
                self._end(Status.EXPIRED, AuditEvent.EXPIRE)
                return
            await self._something_new(min(left, pause) if self._unwritten else left)

    async def _something_new(self, timeout: timedelta) -> None:
        """Wait for the end, for something to write down, for a history that grew long, or for the timeout."""
        backlog = len(self._unwritten)
        try:
            await workflow.wait_condition(
                lambda: self._settled or len(self._unwritten) > backlog or self._may_continue_as_new, timeout=timeout
            )
        except TimeoutError:
            return

    async def _execute(self, plan: Plan) -> Report:
        self._phase = Phase.EXECUTING
        self._show(Phase.EXECUTING)
        call = self._call(plan)
        attempt = plan.timeout + steps.RECORDING
        try:
            report = await steps.on_tool_queue(
                names.EXECUTE,
                call,
                Report,
                queue=plan.queue,
                attempt=attempt,
                limit=plan.start_within + plan.attempts * (attempt + plan.heartbeat_timeout),
                heartbeat=plan.heartbeat_timeout,
                retry=RetryPolicy(maximum_interval=timedelta(seconds=10)),
            )
        except ActivityError as error:
            report = Report(kind=ReportKind.NOT_BEGUN, reason=_why(error))
        if report.kind in (ReportKind.NOT_BEGUN, ReportKind.UNKNOWN):
            closed = await self._close_claim(plan, call, report.reason)
            knows_more = closed.kind is not ReportKind.UNKNOWN or report.kind is ReportKind.NOT_BEGUN
            report = closed if knows_more else report
        self._written(call.entries)
        return report

    async def _close_claim(self, plan: Plan, call: ToolCall, reason: str | None) -> Report:
        """Learn for certain what is known of a call whose worker could not say; from here on it can no longer begin."""
        closing = Closing(
            approval_id=plan.approval_id,
            consent=plan.approval_id,
            idempotency_key=plan.idempotency_key,
            payload_sha256=plan.payload_sha256,
            now=workflow.now(),
            reason=reason or "it was not begun",
            entries=call.entries,
        )
        return await steps.durable(names.CLOSE_CLAIM, closing, Report)

    async def _probe(self, plan: Plan, report: Report) -> Report:
        """Ask the tool once, quickly, before a person is bothered."""
        if not plan.has_probe:
            return report
        try:
            found = await steps.on_tool_queue(
                names.PROBE,
                self._call(plan),
                Report,
                queue=plan.queue,
                attempt=_PROBE_LIMIT,
                limit=_PROBE_LIMIT,
                heartbeat=plan.heartbeat_timeout,
                retry=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError:
            return report
        return found if found.kind is not ReportKind.UNKNOWN else report

    async def _freeze(self, plan: Plan, report: Report) -> None:
        """Open the review of this key, or join the one that is open; it outlives this approval."""
        frozen = FrozenCall(
            idempotency_key=plan.idempotency_key,
            approval_id=plan.approval_id,
            tool=plan.tool,
            payload_sha256=plan.payload_sha256,
            requester=plan.requester,
            risk=plan.risk,
            decided_by=self._decided_by,
            error=report.reason,
            seen=report.content,
            frozen_at=workflow.now(),
        )
        review = names.review_workflow(plan.idempotency_key)
        while True:
            try:
                await workflow.start_child_workflow(
                    names.FROZEN_REVIEW,
                    frozen,
                    id=review,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    search_attributes=names.attributes(
                        {
                            names.STATUS: Status.FROZEN,
                            names.TOOL: plan.tool,
                            names.REQUESTER: str(plan.requester),
                            names.RISK: plan.risk,
                        }
                    ),
                    static_summary=f"{plan.tool}: did it happen?",
                )
                return
            except WorkflowAlreadyStartedError:
                try:
                    await workflow.get_external_workflow_handle(review).signal(names.JOIN, frozen)
                    return
                except ApplicationError:
                    continue  # it closed between the two: open it again

    async def _settle_undone(self, plan: Plan) -> Outcome:
        """It ended without an execution; unless the ledger, which closes the claim, knows of one before a reset."""
        assert self._status is not None
        outcome = await self._settle(self._outcome(plan, self._status), local=False)
        if outcome.status is Status.FROZEN:
            await self._freeze(plan, Report(kind=ReportKind.UNKNOWN, reason=outcome.reason))
        return outcome

    async def _settle_unasked(self, refused: str | None) -> Outcome:
        """The request could never run: nobody is asked."""
        self._status, self._reason = Status.FAILED, refused
        outcome = Outcome(approval_id=self._request.approval_id, status=Status.FAILED, reason=refused)
        entry = AuditEntry(
            event=AuditEvent.EXECUTE_FAILED, at=workflow.now(), once="execute_failed:unasked", error=refused
        )
        self._unwritten.append(entry)
        return await self._settle(outcome, local=False)

    async def _settle(self, outcome: Outcome, *, local: bool) -> Outcome:
        """Put the ending on record, then show it; what resists is left to a workflow that goes on trying."""
        self._phase = Phase.CLOSED
        step = steps.local if local else steps.durable
        settled = False
        while not settled or self._unwritten:
            settlement = Settlement(
                outcome=outcome,
                entries=self._next_entries,
                judged=tuple(self._judged.values()),
                closed_at=workflow.now(),
            )
            try:
                outcome = await step(names.SETTLE, settlement, Outcome, steps.SETTLING)
            except ActivityError:
                await self._hand_over(settlement)
            self._written(settlement.entries)
            settled = True
        self._status = outcome.status
        workflow.upsert_search_attributes([names.STATUS.value_set(outcome.status)])
        self._describe()
        return outcome

    async def _hand_over(self, settlement: Settlement) -> None:
        await workflow.start_child_workflow(
            names.SETTLING,
            settlement,
            id=names.settling_workflow(settlement.outcome.approval_id, str(workflow.uuid4())),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )

    # What people and other workflows say. Handlers accept anything and never raise: one bad message must not
    # keep the workflow from the next good one.

    @workflow.signal(name=names.DECIDE, description="Approve or reject; docs/operations.md has the form.")
    def _on_decide(self, *said: Any) -> None:
        try:
            (message,) = said
            decision = Decision.model_validate(message)
        except (ValidationError, ValueError, TypeError, RecursionError):
            self._malformed += 1
            return
        if self._plan is not None:
            self._judge(self._plan, decision)
        else:
            self._early.append(decision)

    @workflow.signal(name=names.CANCEL, description="Withdraw the request while nobody has decided.")
    def _on_cancel(self, *said: Any) -> None:
        try:
            withdrawal = Withdrawal.model_validate(said[0] if said else {})
        except (ValidationError, ValueError, TypeError, RecursionError):
            withdrawal = Withdrawal()
        self._withdraw(withdrawal)

    @workflow.signal(name=names.SUPERSEDE, description="End this request in favour of a newer one.")
    def _on_supersede(self, *said: Any) -> None:
        try:
            (message,) = said
            newer = Supersession.model_validate(message)
        except (ValidationError, ValueError, TypeError, RecursionError):
            self._malformed += 1
            return
        if not self._settled:
            self._end(Status.SUPERSEDED, AuditEvent.SUPERSEDE, reason=f"replaced by {newer.by}")

    def _on_temporal_cancel(self) -> None:
        self._withdraw(Withdrawal(reason="cancelled in Temporal"))

    @workflow.query(name=names.STATE, description="The approval as it stands.")
    def _state(self) -> State:
        plan = self._plan
        return State(
            approval_id=self._request.approval_id,
            phase=self._phase,
            tool=self._request.tool,
            requester=self._request.requester,
            request_reason=self._request.reason,
            status=self._status,
            reason=self._reason,
            payload=plan.payload if plan else None,
            payload_sha256=plan.payload_sha256 if plan else None,
            sensitive=plan.sensitive if plan else (),
            risk=plan.risk if plan else None,
            approvers=plan.approvers if plan else None,
            deadline=plan.deadline if plan else None,
            decided_by=self._decided_by,
            decisions=tuple(self._judged.values()),
            malformed=self._malformed,
        )

    @workflow.query(name=names.VERDICT, description="What became of one sending of one decision.")
    def _verdict(self, question: VerdictQuestion) -> Verdict:
        judged = self._judged.get(question.event_id)
        if judged is None:
            return Verdict(kind=VerdictKind.RECEIVED)
        kind = judged.verdict if judged.delivery_id == question.delivery_id else VerdictKind.DUPLICATE
        if kind is VerdictKind.FORBIDDEN:
            return Verdict(kind=kind)
        return Verdict(kind=kind, status=self._status, decided_by=self._decided_by)

    # How decisions are judged

    @property
    def _settled(self) -> bool:
        """Whether the wait is over."""
        return self._decision is not None or self._status is not None

    @property
    def _decided_by(self) -> Identity | None:
        return self._decision.actor if self._decision else self._ended_by

    def _judge(self, plan: Plan, decision: Decision) -> None:
        if decision.event_id in self._judged:
            return
        received = min(decision.received_at or workflow.now(), workflow.now())
        received = max(received, self._delivered_at or received)
        verdict = objection(plan, decision)
        if verdict is None and self._status is not None:
            verdict = after_ending(self._status)
        if verdict is None and self._decision is not None:
            verdict = VerdictKind.ALREADY_DECIDED
        if verdict is None and received > plan.deadline:
            verdict = VerdictKind.EXPIRED
        self._remember(decision, verdict or VerdictKind.ACCEPTED, received)
        if verdict is None:
            self._accept(decision)
        elif entry := refusal_entry(decision, verdict, workflow.now()):
            self._unwritten.append(entry)

    def _accept(self, decision: Decision) -> None:
        self._decision = decision
        self._unwritten.append(audit_entry(AuditEvent.CONFIRM, decision, workflow.now()))
        if decision.kind is DecisionKind.REJECT:
            self._status, self._reason = Status.REJECTED, decision.reason

    def _remember(self, decision: Decision, verdict: VerdictKind, received: datetime) -> None:
        if len(self._judged) >= _MOST_REMEMBERED:
            oldest = next(key for key, judged in self._judged.items() if judged.verdict is not VerdictKind.ACCEPTED)
            del self._judged[oldest]
        self._judged[decision.event_id] = Judged.of(decision, verdict, received)

    def _withdraw(self, withdrawal: Withdrawal) -> None:
        if self._settled:
            return
        self._ended_by = withdrawal.actor
        self._end(
            Status.CANCELLED,
            AuditEvent.CANCEL,
            reason=withdrawal.reason,
            actor=withdrawal.actor,
            surface=withdrawal.surface,
        )

    def _end(self, status: Status, event: AuditEvent, *, reason: str | None = None, **said: Any) -> None:
        """End without a decision. Only while nobody has decided."""
        self._status, self._reason = status, reason
        payload_sha256 = self._plan.payload_sha256 if self._plan else None
        self._unwritten.append(
            AuditEntry(
                event=event, at=workflow.now(), once=str(event), payload_sha256=payload_sha256, reason=reason, **said
            )
        )

    # Small things

    def _call(self, plan: Plan) -> ToolCall:
        return ToolCall(
            approval_id=plan.approval_id,
            consent=plan.approval_id,
            tool=plan.tool,
            payload=plan.payload,
            payload_sha256=plan.payload_sha256,
            idempotency_key=plan.idempotency_key,
            manifest_sha256=plan.manifest_sha256,
            requester=plan.requester,
            retry_safe=plan.retry_safe,
            attempts=plan.attempts,
            timeout=plan.timeout,
            start_within=plan.start_within,
            tool_call_id=self._request.tool_call_id,
            thread_id=self._request.thread_id,
            entries=self._next_entries,
        )

    def _outcome(self, plan: Plan, status: Status) -> Outcome:
        return Outcome(
            approval_id=plan.approval_id,
            status=status,
            decided_by=self._decided_by,
            reason=self._reason,
            payload_sha256=plan.payload_sha256,
            idempotency_key=plan.idempotency_key,
        )

    async def _write_audit(self) -> bool:
        batch = AuditBatch(approval_id=self._request.approval_id, entries=self._next_entries)
        try:
            await steps.local(names.WRITE_AUDIT, batch, None, timedelta(seconds=2))
        except ActivityError:
            return False
        self._written(batch.entries)
        return True

    @property
    def _next_entries(self) -> tuple[AuditEntry, ...]:
        return tuple(self._unwritten[:_MOST_AT_ONCE])

    @property
    def _may_continue_as_new(self) -> bool:
        return workflow.info().is_continue_as_new_suggested() and len(self._unwritten) <= _MOST_AT_ONCE

    def _written(self, entries: tuple[AuditEntry, ...]) -> None:
        written = {entry.once for entry in entries}
        self._unwritten = [entry for entry in self._unwritten if entry.once not in written]

    def _continue(self, plan: Plan) -> None:
        assert self._delivered_at is not None
        carried = Carried(
            plan=plan,
            delivered_at=self._delivered_at,
            judged=tuple(self._judged.values()),
            unwritten=tuple(self._unwritten),
            malformed=self._malformed,
        )
        workflow.continue_as_new(Asked(request=self._request, carried=carried))

    def _show(self, phase: Phase, *, risk: bool = False) -> None:
        assert self._plan is not None
        updates: list[Any] = [names.STATUS.value_set(phase)]
        if risk:
            updates.append(names.RISK.value_set(self._plan.risk))
        workflow.upsert_search_attributes(updates)
        self._describe()

    def _describe(self) -> None:
        workflow.set_current_details(details(self._state()))


def _why(error: ActivityError) -> str:
    cause = error.cause
    return f"the activity ended without an answer: {cause}" if cause else "the activity ended without an answer"
