"""One approval, from request to outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from assent import core, names, sizes
    from assent.contracts.bundles import Carded, Member
    from assent.contracts.conclude import Announcement, Conclusion, Recorded
    from assent.contracts.decision import Decision, Verdict, VerdictKind
    from assent.contracts.deliver import Delivered
    from assent.contracts.execute import Report, ReportKind, ToolCall
    from assent.contracts.outcome import Outcome
    from assent.contracts.plan import Plan
    from assent.contracts.prepare import Preparation, Prepared, Resolved, Unknowns
    from assent.contracts.signals import CallAsks, Supersession, VerdictQuestion, Withdrawal
    from assent.contracts.state import State
    from assent.contracts.status import Phase, Status
    from assent.core import Asked, Planned, SealedResult, Unplanned
    from assent.steps import PREPARE, RECORD, RELEASE, REMEMBER, RESOLVE
    from assent.temporal import search
    from workflows import calls
    from workflows.announcing import announce
    from workflows.asking import show_asking
    from workflows.bundle_member import BundleMember
    from workflows.deliveries import Deliveries
    from workflows.details import details
    from workflows.freezing import freeze
    from workflows.open_approval import OpenApproval
    from workflows.reading import read
    from workflows.steps import AT_ONCE, HERE, LOCAL, OUTBOUND, SOON, take, uncancelled
    from workflows.waiting import Waiting, outsiders


_NOT_SAID = "Feishu could not say in time who asks, or in which chat; nobody was asked"
_NOT_FETCHED = "Feishu could not hand out the files in time; nobody was asked"
_NO_MEMBERS = "Feishu could not say who belongs to the chat"
_FETCHING = timedelta(minutes=2)
"""How long one try to fetch files may take: each file that is here stays here for the next."""
_NOTICEABLE = timedelta(milliseconds=1500)
"""How long a call may run before lists and its card say so; most have ended by then, and that is said instead."""
_SOON_NOTICEABLE = timedelta(milliseconds=500)
"""When it will be soon: a timer that may go off while the ending is put on record has Temporal refuse that, once."""
_NO_CARD = "its card could not be delivered before the deadline"


@workflow.defn(name=names.APPROVAL)
class ApprovalWorkflow:
    """Waits for a person's decision on one call, lets exactly that call run, and says how it ended.

    What happens to an approval is decided in `assent.core`; here it is carried out.
    """

    @workflow.init
    def __init__(self, asked: Asked) -> None:
        self._request = asked.request
        self._limits = asked.limits
        self._unplanned = Unplanned(request=asked.request)
        self._open: OpenApproval | None = None
        self._deliveries: Deliveries | None = None
        self._sent: tuple[Delivered | None, ...] | None = None
        """What became of the cards that were sent together with the plan."""
        self._decided_at: datetime | None = None
        """When somebody last decided, if history tells it: it does not where a local step came right after that."""
        self._is_agreed = False
        """Whether all have decided who had to."""
        self._is_running = False
        """Whether its call was begun, and what became of it is not known yet."""
        self._bundle = BundleMember(asked.request.bundle_id, card=self._shared_card, is_gone=self._on_bundle_gone)
        if asked.state is not None:
            self._open = OpenApproval(core.resume(asked.state))

    @workflow.run
    async def run(self, asked: Asked) -> Outcome:
        return await uncancelled(self._story(), on_cancel=self._on_temporal_cancel)

    async def _story(self) -> Outcome:
        approval = self._open or await self._opened()
        if isinstance(approval, Outcome):
            return approval
        deliveries = self._deliveries = Deliveries(approval, self._bundle)
        if approval.state.result is None:
            if not await self._agreed(approval, deliveries):
                return await self._end_undone(approval)
            if approval.plan.is_consent_only:
                return await self._end_consented(approval)
            outcome = await self._made(approval, deliveries)
        if (result := approval.state.result) is not None:
            outcome = await self._released(approval, result, deliveries)
        return await self._end(outcome, after_execution=True)

    # The steps

    async def _opened(self) -> OpenApproval | Outcome:
        """Fix the plan; or the outcome, where there is nothing to ask."""
        prepared = await self._prepare()
        if prepared.outcome is not None:
            return await self._end_as_before(prepared.plan, prepared.outcome, cards_due=prepared.cards_due)
        if prepared.plan is None:
            self._unplanned = core.refuse(self._unplanned, prepared.refused, workflow.now())
            ending = self._unplanned.ending
            status = ending.status if ending else Status.FAILED
            return await self._end(core.outcome_of(self._unplanned, status), after_execution=False)
        opened = core.open_with(self._unplanned, prepared.plan, workflow.now(), prepared.sent_before)
        approval = OpenApproval(opened)
        self._open, self._sent = approval, prepared.delivered
        self._bundle.tell(core.member(approval.state))
        self._show(Phase.PENDING, risk=prepared.plan.risk)
        await self._supersede_others(prepared.plan)
        return approval

    async def _prepare(self) -> Prepared:
        deadline = workflow.info().start_time + self._request.ttl
        prepared = await self._planned(deadline)
        if prepared.unknown is not None:
            prepared = await self._planned(deadline, await self._resolve(prepared.unknown, deadline))
        error = _refusal(prepared, self._request.thread_id)
        if error is not None:
            self._unplanned = core.turn_away(self._unplanned)
            await self._leave_bundle()
            raise error
        return prepared

    async def _planned(self, deadline: datetime, resolved: Resolved | None = None) -> Prepared:
        preparation = Preparation(
            request=self._request,
            now=workflow.now(),
            deadline=deadline,
            resolved=resolved,
            limits=self._limits,
            cards_within=AT_ONCE if core.is_untouched(self._unplanned) else None,
        )
        return await take(PREPARE, preparation, LOCAL)

    async def _resolve(self, unknown: Unknowns, deadline: datetime) -> Resolved:
        """Ask Feishu until it answers, the deadline passes, or nobody wants to know any more."""
        asking = asyncio.create_task(_answer(unknown, max(deadline - workflow.now(), timedelta(seconds=1))))
        await workflow.wait_condition(lambda: asking.done() or self._unplanned.ending is not None)
        if self._unplanned.ending is None and (resolved := await asking) is not None:
            return resolved
        asking.cancel()
        if self._unplanned.ending is None:
            self._unplanned = core.expire(self._unplanned, workflow.now(), _NOT_FETCHED if unknown.files else _NOT_SAID)
        reason = self._unplanned.ending.reason if self._unplanned.ending else None
        return Resolved(refused=reason or "it was withdrawn")

    async def _supersede_others(self, plan: Plan) -> None:
        for other in plan.supersedes:
            handle = workflow.get_external_workflow_handle(names.approval_workflow(other))
            try:
                await handle.signal(names.SUPERSEDE, Supersession(by=plan.approval_id))
            except ApplicationError:
                continue  # it ended meanwhile

    async def _agreed(self, approval: OpenApproval, deliveries: Deliveries) -> bool:
        """Whether enough people agree, or nobody needs to; waits for a decision, a withdrawal or the deadline."""
        since = workflow.info().workflow_start_time
        await deliveries.send_first(since, self._sent)
        self._decided_at = None  # a replay does not tell when somebody decided while steps were local
        waiting = Waiting(approval, deliveries, self._continue_as_new, self._describe, since=since)
        while not approval.plan.asks_nobody:
            if not await waiting.until(lambda state: state.wait_is_over):
                why = _NO_CARD if core.is_missing(approval.state) else None
                approval.becomes(core.expire, workflow.now(), why)
            if approval.state.ending is not None:
                break
            gone = await outsiders(approval)
            if gone is None:
                approval.becomes(core.expire, workflow.now(), _NO_MEMBERS)
            if not gone:
                break
            approval.becomes(core.strike, gone, workflow.now())
        self._is_agreed = True
        if not approval.plan.is_shown_in_turn:
            self._decided_at = workflow.now()
        deliveries.stop()
        await self._remember(approval.state)
        return approval.state.ending is None

    async def _remember(self, state: Planned) -> None:
        """Keep the decision, so that the same is not asked again; a ledger that cannot keep it holds up nothing."""
        if (remembering := core.to_remember(state, workflow.now())) is not None:
            with contextlib.suppress(FailureError):
                await take(REMEMBER, remembering, LOCAL, within=SOON)
            if state.plan.is_shown_in_turn:
                self._decided_at = None

    async def _made(self, approval: OpenApproval, deliveries: Deliveries) -> Outcome:
        """Have the call made; its outcome, but for what of it a person looks at before anybody hears of it."""
        plan = approval.plan
        approval.becomes(core.begin)
        self._is_running = True
        if plan.is_listed_late:
            self._describe()
        else:
            self._show(Phase.EXECUTING)
        call = self._call(approval.state)
        making = asyncio.create_task(calls.make(call, queue=approval.state.queue, heartbeat=plan.heartbeat_timeout))
        listing = asyncio.create_task(self._list_running()) if plan.is_listed_late else None
        showing = asyncio.create_task(self._show_running(making, listing, deliveries))
        asking = asyncio.create_task(show_asking(approval, making, deliveries)) if plan.asks else None
        found = await making
        approval.becomes(core.write, call.entries, workflow.now())
        if not (deliveries.is_telling and workflow.patched(names.LATE_CARDS)):  # a sick chat holds up no outcome
            await showing
            if asking is not None:
                await asking
        probes = 0
        if found.kind is ReportKind.UNKNOWN and plan.has_probe:
            found, probes = await self._probe(approval, found), 1
        if found.kind is ReportKind.UNKNOWN:
            await self._freeze(approval, found, probes)
        self._is_running = False
        since = self._decided_at or workflow.info().workflow_start_time
        if listing is not None and workflow.now() - since >= _SOON_NOTICEABLE:
            listing.cancel()
        if found.sealed and not plan.waits_for_no_chat:
            await deliveries.said()  # before its time to be looked at begins
        approval.state, outcome = core.report(approval.state, found, workflow.now())
        return outcome

    async def _show_running(
        self, making: asyncio.Task[Report], listing: asyncio.Task[None] | None, deliveries: Deliveries
    ) -> None:
        """Say on cards that the call runs, if it does so for long enough to be noticed."""
        if listing is not None:
            await workflow.wait_condition(lambda: making.done() or listing.done())
            if not making.done():
                await deliveries.show_running(making)
        elif deliveries.can_show_running:
            try:
                await workflow.wait_condition(making.done, timeout=_NOTICEABLE)
            except TimeoutError:
                await deliveries.show_running(making)

    async def _list_running(self) -> None:
        """Say it in lists after a while.

        When most calls end, its timer still has long to go. It is not cancelled then, which would be one more event.
        """
        await asyncio.sleep(_NOTICEABLE.total_seconds())
        if self._is_running:
            self._show(Phase.EXECUTING)

    async def _probe(self, approval: OpenApproval, found: Report) -> Report:
        """Ask the tool, before a person is bothered."""
        plan = approval.plan
        probed = await calls.probe(self._call(approval.state), queue=plan.queue, heartbeat=plan.heartbeat_timeout)
        return probed if probed.kind in (ReportKind.EXECUTED, ReportKind.REPLAYED) else found

    async def _freeze(self, approval: OpenApproval, found: Report, probes: int = 0) -> None:
        """Hand the call to its review, which outlives this approval."""
        call = self._call(approval.state)
        await freeze(core.frozen_call(approval.state, call, found, workflow.now(), probes=probes))

    async def _released(self, approval: OpenApproval, result: SealedResult, deliveries: Deliveries) -> Outcome:
        """Wait for a decision about the result; the outcome with it, or without. The execution stays what it was."""
        self._show(Phase.REVIEWING)
        is_first = not result.cards.generation
        if is_first and not approval.plan.waits_for_no_chat:
            await deliveries.show_result_waits()
        since, former = workflow.now(), deliveries
        deliveries = self._deliveries = Deliveries(approval, self._bundle, former)
        waiting = Waiting(approval, deliveries, self._continue_as_new, self._describe, since=since)
        if result.decision is None:
            await waiting.write_first()
            await deliveries.send_first(since)
        if is_first and approval.plan.waits_for_no_chat:
            former.start_showing_result_waits()
        await waiting.until(lambda state: state.result is None or state.result.decision is not None)
        deliveries.stop()
        former.end()
        result = approval.state.result or result
        approval.state, release = core.release(approval.state, result, workflow.now())
        found = await take(RELEASE, release, HERE)
        approval.becomes(core.write, release.entries, workflow.now())
        return core.released(result, release, found)

    # Endings

    async def _end_as_before(self, plan: Plan | None, outcome: Outcome, *, cards_due: bool) -> Outcome:
        """The ledger already knows how this request ended: nobody is asked again, and all are told."""
        ended = core.end_as_before(self._unplanned, plan, outcome, workflow.now())
        if isinstance(ended, Planned):
            self._open = OpenApproval(ended)
        else:
            self._unplanned = ended
        await self._leave_bundle()
        self._show(outcome.status)
        if cards_due:
            await self._hand_over(Conclusion(outcome=outcome, entries=(), judged=(), closed_at=workflow.now()))
        await self._announce(outcome)
        return outcome

    async def _end_undone(self, approval: OpenApproval) -> Outcome:
        """It ended without an execution; unless the ledger, which closes the claim, knows of one before a reset."""
        ending = approval.state.ending
        status = ending.status if ending else Status.CANCELLED
        outcome = await self._end(core.outcome_of(approval.state, status), after_execution=False)
        if outcome.status is Status.FROZEN:
            known = Report(kind=ReportKind.UNKNOWN, reason=outcome.reason, idempotency_key=outcome.idempotency_key)
            await self._freeze(approval, known)
        return outcome

    async def _end_consented(self, approval: OpenApproval) -> Outcome:
        """The agent makes the call itself: consent is the outcome, if it still stands when it is put on record."""
        approval.becomes(core.consent)
        return await self._end(core.consented(approval.state), after_execution=False)

    async def _end(self, outcome: Outcome, *, after_execution: bool) -> Outcome:
        """Put the ending on record, then show it.

        After an execution its claim is the record, and the outcome waits for the rest of it only for a moment. An
        ending without one waits for the ledger, however long: only the ledger knows that nothing ran.
        """
        if after_execution:
            self._becomes(core.close)
        cards_later = self._deliveries is not None and not await self._deliveries.are_quiet()
        while True:
            ended = core.conclude(self._state, outcome, workflow.now())
            conclusion = ended.model_copy(update={"cards_later": cards_later})
            if after_execution:
                recorded = await self._recorded_soon(conclusion)
            else:
                recorded = await take(RECORD, conclusion, HERE)
            outcome = recorded.outcome
            if recorded.cards_due:
                await self._hand_over(conclusion)
            self._becomes(core.write, conclusion.entries, workflow.now())
            if not self._state.notes.unwritten:
                break
        self._becomes(core.close, outcome)
        self._show(outcome.status)
        await self._leave_bundle()
        await self._announce(outcome)
        return outcome

    async def _recorded_soon(self, conclusion: Conclusion) -> Recorded:
        """Record the ending, if the ledger answers soon; what resists is left to a workflow that goes on trying."""
        try:
            return await take(RECORD, conclusion, LOCAL, within=SOON)
        except FailureError:
            return Recorded(outcome=conclusion.outcome, cards_due=True)

    async def _hand_over(self, conclusion: Conclusion) -> None:
        await workflow.start_child_workflow(
            names.RECORDING,
            conclusion,
            id=names.recording_workflow(conclusion.outcome.approval_id, str(workflow.uuid4())),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )

    async def _leave_bundle(self) -> None:
        """Have the card that is shared with others show the end."""
        self._bundle.tell(Member(approval_id=self._request.approval_id, ended=True))
        await self._bundle.told()

    async def _announce(self, outcome: Outcome) -> None:
        url, asked_by = self._request.callback_url, self._request.asked_by
        if url is not None:
            await announce(Announcement(url=url, outcome=outcome, ended_at=workflow.now(), asked_by=asked_by))

    # What people and other workflows say

    @workflow.signal(name=names.DECIDE, description="Approve or reject; docs/operations.md has the form.")
    def _on_decide(self, *said: Any) -> None:
        if not self._is_agreed:
            self._decided_at = workflow.now()
        self._hears(core.decide, read(Decision, said))

    @workflow.signal(name=names.CANCEL, description="Withdraw the request while nobody has decided.")
    def _on_cancel(self, *said: Any) -> None:
        self._hears(core.withdraw, read(Withdrawal, said) or Withdrawal())

    @workflow.signal(name=names.SUPERSEDE, description="End this request in favour of a newer one.")
    def _on_supersede(self, *said: Any) -> None:
        self._hears(core.supersede, read(Supersession, said))

    @workflow.signal(name=names.CARDED, description="Its bundle says on which card it is shown among others.")
    def _on_carded(self, *said: Any) -> None:
        self._hears(core.take_card, read(Carded, said, most=sizes.STANDING))

    @workflow.signal(name=names.ASKING, description="A question of its running tool is open, or no longer.")
    def _on_asking(self, *said: Any) -> None:
        self._hears(core.hear_of_question, read(CallAsks, said, most=sizes.STANDING))

    def _on_temporal_cancel(self) -> None:
        self._hears(core.withdraw, Withdrawal(reason="cancelled in Temporal"))

    def _hears(self, happened: Callable[..., Any], said: Any) -> None:
        """Something was said; what could not be read is set aside."""
        if said is None:
            self._becomes(core.set_aside)
        else:
            self._becomes(happened, said, workflow.now())

    @workflow.query(name=names.STATE, description="The approval as it stands.")
    def _shown_state(self) -> State:
        return core.state(self._state)

    @workflow.query(name=names.VERDICT, description="What became of one sending of one decision.")
    def _verdict(self, question: VerdictQuestion) -> Verdict:
        if self._open is not None and not self._open.state.is_indexed and not self._open.state.wait_is_over:
            return Verdict(kind=VerdictKind.RECEIVED)  # inboxes list it as it was: whoever is told looks there next
        return core.verdict(self._state, question)

    # Small things

    @property
    def _state(self) -> Unplanned | Planned:
        return self._open.state if self._open else self._unplanned

    def _becomes(self, happened: Callable[..., Any], *said: Any) -> None:
        """Something happened, to an approval with its plan or without."""
        if self._open is not None:
            self._open.state = happened(self._open.state, *said)
        else:
            self._unplanned = happened(self._unplanned, *said)

    def _shared_card(self) -> Carded | None:
        return self._open.state.shared if self._open else None

    def _on_bundle_gone(self) -> None:
        if self._open is not None:
            self._open.becomes(core.lose_bundle, workflow.now())

    def _call(self, state: Planned) -> ToolCall:
        return core.call(state, tool_call_id=self._request.tool_call_id, thread_id=self._request.thread_id)

    def _continue_as_new(self) -> None:
        state = self._open.state if self._open else None
        workflow.continue_as_new(Asked(request=self._request, state=state))

    def _show(self, standing: Phase | Status, *, risk: str | None = None) -> None:
        """Say in Temporal's lists and on its page how the approval stands."""
        updates: list[Any] = [search.STATUS.value_set(standing)]
        if risk is not None:
            updates.append(search.RISK.value_set(risk))
        workflow.upsert_search_attributes(updates)
        self._describe()

    def _describe(self) -> None:
        workflow.set_current_details(details(core.state(self._state)))


def _refusal(prepared: Prepared, thread_id: str | None) -> ApplicationError | None:
    """Why the request does not become an approval, if it does not."""
    if prepared.conflict:
        return ApplicationError("the approval id belongs to another request", type="ApprovalConflict")
    if prepared.busy_with is not None:
        return ApplicationError("the conversation is busy", thread_id, prepared.busy_with, type="ConversationBusy")
    if (over := prepared.exceeded) is not None:
        return ApplicationError("a quota is used up", over.quota, over.limit, over.retry_after, type="QuotaExceeded")
    return None


async def _answer(unknown: Unknowns, limit: timedelta) -> Resolved | None:
    """What Feishu says, None if it does not in time."""
    try:
        return await take(RESOLVE, unknown, OUTBOUND, within=limit, attempt=_FETCHING if unknown.files else None)
    except FailureError:
        return None
