"""One approval, from request to outcome."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from assent import names, sizes
    from assent.contracts.audit import AuditEntry, AuditEvent
    from assent.contracts.bundles import Carded
    from assent.contracts.carried import Asked, Reviewing, Shelf
    from assent.contracts.conclude import Announcement, Conclusion, Settled
    from assent.contracts.decision import Decision, DecisionKind, Remember, Verdict
    from assent.contracts.execute import Report, ReportKind, ToolCall
    from assent.contracts.grants import Remembered, Remembering
    from assent.contracts.outcome import Outcome
    from assent.contracts.permission import Execution
    from assent.contracts.plan import Plan
    from assent.contracts.prepare import Preparation, Prepared, Resolved, Unknowns
    from assent.contracts.review import FrozenCall
    from assent.contracts.signals import Supersession, VerdictQuestion, Withdrawal
    from assent.contracts.state import State
    from assent.contracts.status import Phase, Status
    from assent.judgement import concluded
    from assent.temporal import search
    from workflows import calls, steps
    from workflows.details import details
    from workflows.docket import Docket
    from workflows.freezing import freeze
    from workflows.post import Post
    from workflows.release import ResultDesk, withheld
    from workflows.waiting import Waiting, outsiders


_NOT_SAID = "Feishu could not say in time who asks, or in which chat; nobody was asked"


@workflow.defn(name=names.APPROVAL)
class ApprovalWorkflow:
    """Waits for a person's decision on one call, lets exactly that call run, and says how it ended."""

    @workflow.init
    def __init__(self, asked: Asked) -> None:
        carried = asked.carried
        self._request = asked.request
        self._limits = asked.limits
        self._phase = Phase.PENDING if carried else Phase.PREPARING
        self._docket = Docket(carried)
        self._post = Post(self._docket, carried.cards if carried else Shelf())
        self._waiting = Waiting(self._docket, self._post, self._continue, self._describe)
        self._desk = ResultDesk(self._docket, self._post, self._continue, self._describe)
        self._reviewing = carried.reviewing if carried else None
        self._probed = False
        self._ended_unasked = False
        """Whether it ended while Feishu was asked what its plan depends on."""
        self._docket.resume()

    @workflow.run
    async def run(self, asked: Asked) -> Outcome:
        return await steps.uncancelled(self._live(), on_cancel=self._on_temporal_cancel)

    async def _live(self) -> Outcome:
        if self._docket.plan is None:
            prepared = await self._prepare()
            if prepared.outcome is not None:
                await self._leave_bundle()
                return self._recall(prepared.plan, prepared.outcome)
            if prepared.plan is None:
                return await self._settle_unasked(prepared.refused)
            self._open(prepared.plan)
            await self._supersede_others(prepared.plan)
        if self._reviewing is None:
            if not await self._agreed():
                return await self._settle_undone()
            self._reviewing, outcome = await self._made()
        if self._reviewing is not None:
            self._phase = Phase.REVIEWING
            self._show(Phase.REVIEWING)
            outcome = await self._desk.release(self._reviewing)
        return await self._settle(outcome, local=True)

    # The steps

    async def _prepare(self) -> Prepared:
        deadline = workflow.info().start_time + self._request.ttl
        prepared = await self._planned(deadline)
        if prepared.unknown is not None:
            prepared = await self._planned(deadline, await self._resolve(prepared.unknown, deadline))
        if prepared.plan is None:
            was_refused = prepared.conflict or prepared.busy_with is not None or prepared.exceeded is not None
            self._phase = Phase.CLOSED if was_refused else self._phase
            await self._leave_bundle()
        if prepared.conflict:
            raise ApplicationError("the approval id belongs to another request", type="ApprovalConflict")
        if prepared.busy_with is not None:
            busy = (self._request.thread_id, prepared.busy_with)
            raise ApplicationError("the conversation is busy", *busy, type="ConversationBusy")
        if (over := prepared.exceeded) is not None:
            raise ApplicationError("a quota is used up", over.quota, over.limit, over.retry_after, type="QuotaExceeded")
        return prepared

    async def _planned(self, deadline: datetime, resolved: Resolved | None = None) -> Prepared:
        preparation = Preparation(
            request=self._request, now=workflow.now(), deadline=deadline, resolved=resolved, limits=self._limits
        )
        return await steps.local(names.PREPARE, preparation, Prepared)

    async def _resolve(self, unknown: Unknowns, deadline: datetime) -> Resolved:
        """Ask Feishu until it answers, the deadline passes, or nobody wants to know any more."""
        docket = self._docket
        asking = asyncio.create_task(_answer(unknown, max(deadline - workflow.now(), timedelta(seconds=1))))
        await workflow.wait_condition(lambda: asking.done() or docket.status is not None)
        if docket.status is None and (resolved := await asking) is not None:
            return resolved
        if docket.status is None:
            docket.end(Status.EXPIRED, AuditEvent.EXPIRE, reason=_NOT_SAID)
        asking.cancel()
        self._ended_unasked = True
        return Resolved(refused=docket.reason or "it was withdrawn")

    def _recall(self, plan: Plan | None, outcome: Outcome) -> Outcome:
        """The ledger already knows how this request ended: nobody is asked again."""
        self._phase = Phase.CLOSED
        self._docket.recall(plan, outcome)
        workflow.upsert_search_attributes([search.STATUS.value_set(outcome.status)])
        self._describe()
        return outcome

    def _open(self, plan: Plan) -> None:
        """From here on the plan can be decided; what came too early is judged first."""
        self._phase = Phase.PENDING
        self._docket.open(plan)
        self._post.join(plan)
        self._show(Phase.PENDING, risk=True)

    async def _supersede_others(self, plan: Plan) -> None:
        for other in plan.supersedes:
            handle = workflow.get_external_workflow_handle(names.approval_workflow(other))
            try:
                await handle.signal(names.SUPERSEDE, Supersession(by=plan.approval_id))
            except ApplicationError:
                continue  # it ended meanwhile

    async def _agreed(self) -> bool:
        """Whether enough people agree, or nobody needs to; waits for a decision, a withdrawal or the deadline."""
        docket, plan = self._docket, self._plan
        while not plan.asks_nobody:
            in_time = await self._waiting.until(lambda: docket.settled, self._until, reminds=True)
            if not in_time:
                why = "its card could not be delivered before the deadline" if self._post.is_missing else None
                docket.end(Status.EXPIRED, AuditEvent.EXPIRE, reason=why)
            plan = self._plan
            if docket.status is not None:
                break
            gone = await outsiders(docket, plan.deadline + plan.start_within - workflow.now())
            if gone is None:
                docket.decision = None
                docket.end(Status.EXPIRED, AuditEvent.EXPIRE, reason="Feishu could not say who belongs to the chat")
            if not gone:
                break
            docket.strike(gone)
        self._post.stop()
        await self._remember()
        return docket.status is None

    def _until(self) -> datetime:
        return self._plan.deadline + self._plan.grace

    async def _remember(self) -> None:
        """Keep the decision, so that the same is not asked again; a ledger that cannot keep it holds up nothing."""
        docket, plan, decision = self._docket, self._plan, self._docket.decision
        if decision is None or plan.permission.execution is not Execution.ASK_ONCE or not plan.remember_for:
            return
        rejected = decision.kind is DecisionKind.REJECT
        remembering = Remembering(
            approval_id=plan.approval_id,
            payload_sha256=plan.payload_sha256,
            scope=Remember.EXACT if rejected or docket.panel is None else docket.panel.remember,
            decision=DecisionKind.REJECT if rejected else DecisionKind.APPROVE,
            actor=decision.actor,
            reason=decision.reason,
            chat_id=decision.chat_id,
            now=workflow.now(),
        )
        with contextlib.suppress(FailureError):
            await steps.local(names.REMEMBER, remembering, Remembered, steps.SETTLING)

    async def _made(self) -> tuple[Reviewing | None, Outcome]:
        """Have the call made; its ending, and what of it a person looks at before anybody hears of it."""
        plan = self._plan
        report = await self._execute(plan)
        if report.kind is ReportKind.UNKNOWN:
            report = await self._probe(plan, report)
        if report.kind is ReportKind.UNKNOWN:
            await self._freeze(plan, report)
        outcome = concluded(self._outcome(plan, Status.FROZEN), report)
        self._docket.status, self._docket.reason = outcome.status, outcome.reason
        if not report.sealed:
            return None, outcome
        if report.kind is ReportKind.REPLAYED:
            return None, withheld(outcome, "nobody has released it for this approval")
        deadline = workflow.now() + plan.result_ttl
        return Reviewing(outcome=outcome, content_sha256=report.content_sha256 or "", deadline=deadline), outcome

    async def _execute(self, plan: Plan) -> Report:
        self._phase = Phase.EXECUTING
        self._docket.begun = True
        self._show(Phase.EXECUTING)
        call = self._call(plan)
        showing = asyncio.create_task(self._post.show_running(plan, self._docket.accepted))
        report = await calls.make(call, queue=plan.queue, heartbeat=plan.heartbeat_timeout)
        self._docket.written(call.entries)
        self._post.call_ended()
        await showing
        return report

    async def _probe(self, plan: Plan, report: Report) -> Report:
        """Ask the tool, before a person is bothered."""
        if not plan.has_probe:
            return report
        self._probed = True
        found = await calls.probe(self._call(plan), queue=plan.queue, heartbeat=plan.heartbeat_timeout)
        return found if found.kind in (ReportKind.EXECUTED, ReportKind.REPLAYED) else report

    async def _freeze(self, plan: Plan, report: Report) -> None:
        """Hand the call to its review, which outlives this approval."""
        key = report.idempotency_key or plan.idempotency_key
        call = self._call(plan).model_copy(update={"entries": (), "idempotency_key": key})
        await freeze(
            FrozenCall.of(
                plan,
                call,
                decided_by=self._docket.decided_by,
                error=report.reason,
                seen=report.content,
                frozen_at=workflow.now(),
                probes=int(self._probed),
            )
        )

    async def _settle_undone(self) -> Outcome:
        """It ended without an execution; unless the ledger, which closes the claim, knows of one before a reset."""
        assert self._docket.status is not None
        plan = self._plan
        outcome = await self._settle(self._outcome(plan, self._docket.status), local=False)
        if outcome.status is Status.FROZEN:
            known = Report(kind=ReportKind.UNKNOWN, reason=outcome.reason, idempotency_key=outcome.idempotency_key)
            await self._freeze(plan, known)
        return outcome

    async def _settle_unasked(self, refused: str | None) -> Outcome:
        """The request could never run, or ended before it was known what it depends on: nobody is asked."""
        docket = self._docket
        if not self._ended_unasked:
            docket.status, docket.reason = Status.FAILED, refused
            entry = AuditEntry(
                event=AuditEvent.EXECUTE_FAILED, at=workflow.now(), once="execute_failed:unasked", error=refused
            )
            docket.unwritten.append(entry)
        assert docket.status is not None
        outcome = Outcome(
            approval_id=self._request.approval_id,
            status=docket.status,
            reason=docket.reason,
            decided_by=docket.decided_by,
        )
        return await self._settle(outcome, local=False)

    async def _settle(self, outcome: Outcome, *, local: bool) -> Outcome:
        """Put the ending on record, then show it.

        After an execution its claim is the record, and the outcome waits for the rest of it only for a moment. An
        ending without one waits for the ledger, however long: only the ledger knows that nothing ran.
        """
        settled = False
        while not settled or self._docket.unwritten:
            conclusion = Conclusion(
                outcome=outcome,
                entries=self._docket.next_entries,
                judged=tuple(self._docket.judged.values()),
                closed_at=workflow.now(),
            )
            if local:
                self._phase = Phase.CLOSED
                done = await self._recorded_soon(conclusion)
            else:
                done = await steps.durable(names.SETTLE, conclusion, Settled)
            outcome = done.outcome
            if done.cards_due:
                await self._hand_over(conclusion)
            self._docket.written(conclusion.entries)
            settled = True
        self._phase = Phase.CLOSED
        self._docket.status, self._docket.reason, self._docket.recorded = outcome.status, outcome.reason, True
        workflow.upsert_search_attributes([search.STATUS.value_set(outcome.status)])
        self._describe()
        await self._leave_bundle()
        await self._announce(outcome)
        return outcome

    async def _recorded_soon(self, conclusion: Conclusion) -> Settled:
        """Record the ending, if the ledger answers soon; what resists is left to a workflow that goes on trying."""
        try:
            return await steps.local(names.SETTLE, conclusion, Settled, steps.SETTLING)
        except FailureError:
            return Settled(outcome=conclusion.outcome, cards_due=True)

    async def _leave_bundle(self) -> None:
        """Have the card that is shared with others show the end."""
        await self._post.leave(self._request.approval_id, self._request.bundle_id)

    async def _announce(self, outcome: Outcome) -> None:
        """Tell whoever asked to be told; that it may take days is not the approval's concern."""
        if self._request.callback_url is None:
            return
        announcement = Announcement(
            url=self._request.callback_url,
            outcome=outcome,
            ended_at=workflow.now(),
            asked_by=self._request.asked_by,
        )
        with contextlib.suppress(WorkflowAlreadyStartedError):  # a reset: it was announced before
            await workflow.start_child_workflow(
                names.ANNOUNCING,
                announcement,
                id=names.announcing_workflow(outcome.approval_id),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )

    async def _hand_over(self, conclusion: Conclusion) -> None:
        await workflow.start_child_workflow(
            names.SETTLING,
            conclusion,
            id=names.settling_workflow(conclusion.outcome.approval_id, str(workflow.uuid4())),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )

    # What people and other workflows say. Handlers accept anything and never raise: one bad message must not
    # keep the workflow from the next good one.

    @workflow.signal(name=names.DECIDE, description="Approve or reject; docs/operations.md has the form.")
    def _on_decide(self, *said: Any) -> None:
        try:
            (message,) = said
            decision = Decision.model_validate(message)
            sizes.size(decision)  # what cannot be written down cannot be kept either
        except (ValidationError, ValueError, TypeError, RecursionError):
            self._docket.malformed += 1
            return
        self._docket.take(decision)

    @workflow.signal(name=names.CANCEL, description="Withdraw the request while nobody has decided.")
    def _on_cancel(self, *said: Any) -> None:
        try:
            withdrawal = Withdrawal.model_validate(said[0] if said else {})
        except (ValidationError, ValueError, TypeError, RecursionError):
            withdrawal = Withdrawal()
        self._docket.withdraw(withdrawal)

    @workflow.signal(name=names.SUPERSEDE, description="End this request in favour of a newer one.")
    def _on_supersede(self, *said: Any) -> None:
        try:
            (message,) = said
            newer = Supersession.model_validate(message)
        except (ValidationError, ValueError, TypeError, RecursionError):
            self._docket.malformed += 1
            return
        self._docket.end_if_open(Status.SUPERSEDED, AuditEvent.SUPERSEDE, reason=f"replaced by {newer.by}")

    @workflow.signal(name=names.CARDED, description="Its bundle says on which card it is shown among others.")
    def _on_carded(self, *said: Any) -> None:
        try:
            (message,) = said
            carded = Carded.model_validate(message)
        except (ValidationError, ValueError, TypeError, RecursionError):
            self._docket.malformed += 1
            return
        if sizes.size(carded) > sizes.STANDING:
            self._docket.malformed += 1
            return
        self._post.carded(carded)

    def _on_temporal_cancel(self) -> None:
        self._docket.withdraw(Withdrawal(reason="cancelled in Temporal"))

    @workflow.query(name=names.STATE, description="The approval as it stands.")
    def _state(self) -> State:
        plan = self._docket.plan
        return State(
            approval_id=self._request.approval_id,
            phase=self._phase,
            tool=self._request.tool,
            requester=plan.requester if plan else self._request.requester,
            request_reason=self._request.reason,
            asked_by=self._request.asked_by,
            status=self._docket.told_status,
            reason=self._docket.reason if self._docket.told_status else None,
            payload=plan.payload if plan else None,
            payload_sha256=plan.payload_sha256 if plan else None,
            idempotency_key=plan.idempotency_key if plan else None,
            sensitive=plan.sensitive if plan else (),
            risk=plan.risk if plan else None,
            approvers=plan.approvers if plan else None,
            deadline=plan.deadline if plan else None,
            decided_by=self._docket.decided_by,
            decisions=tuple(self._docket.judged.values()),
            progress=self._docket.panel.progress(self._docket.judged) if self._docket.panel else None,
            permission=plan.permission if plan else None,
            rule=plan.rule if plan else None,
            warnings=plan.warnings if plan else (),
            grant_id=plan.grant.grant_id if plan and plan.grant else None,
            edit=plan.edit if plan else None,
            result_sha256=self._docket.result_sha256 if self._phase is Phase.REVIEWING else None,
            result_deadline=self._docket.result_deadline if self._phase is Phase.REVIEWING else None,
            malformed=self._docket.malformed,
        )

    @workflow.query(name=names.VERDICT, description="What became of one sending of one decision.")
    def _verdict(self, question: VerdictQuestion) -> Verdict:
        return self._docket.verdict(question)

    # Small things

    def _call(self, plan: Plan) -> ToolCall:
        return ToolCall.of(
            plan,
            tool_call_id=self._request.tool_call_id,
            thread_id=self._request.thread_id,
            entries=self._docket.next_entries,
            approved_by=self._docket.approved_by,
        )

    def _outcome(self, plan: Plan, status: Status) -> Outcome:
        return Outcome(
            approval_id=plan.approval_id,
            status=status,
            decided_by=self._docket.decided_by,
            reason=self._docket.reason,
            payload_sha256=plan.payload_sha256,
            idempotency_key=plan.idempotency_key,
            approved_by=self._docket.approved_by,
            edit=plan.edit,
            rule=plan.rule,
            grant_id=plan.grant.grant_id if plan.grant else None,
        )

    @property
    def _plan(self) -> Plan:
        assert self._docket.plan is not None, "it is prepared"
        return self._docket.plan

    def _continue(self) -> None:
        carried = self._docket.carried(self._plan, self._post.shelf)
        if self._phase is Phase.REVIEWING:
            carried = carried.model_copy(update={"reviewing": self._desk.carried})
        workflow.continue_as_new(Asked(request=self._request, carried=carried))

    def _show(self, phase: Phase, *, risk: bool = False) -> None:
        updates: list[Any] = [search.STATUS.value_set(phase)]
        if risk:
            updates.append(search.RISK.value_set(self._plan.risk))
        workflow.upsert_search_attributes(updates)
        self._describe()

    def _describe(self) -> None:
        workflow.set_current_details(details(self._state()))


async def _answer(unknown: Unknowns, limit: timedelta) -> Resolved | None:
    """What Feishu says, None if it does not in time."""
    try:
        return await steps.outbound(names.RESOLVE, unknown, Resolved, limit)
    except FailureError:
        return None
