"""One question, from asking to its answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names, sizes
    from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome, QuestionStatus
    from assent.contracts.asking import (
        QuestionDelivery,
        QuestionPreparation,
        QuestionPrepared,
        QuestionRevision,
        QuestionState,
    )
    from assent.contracts.conclude import Announcement
    from assent.contracts.prepare import Resolved, Unknowns
    from assent.contracts.runs import (
        ClaimedLine,
        LineClaim,
        LineOffered,
        LineQuestion,
        LineReport,
        LineWritten,
        RunHolder,
    )
    from assent.contracts.signals import CallAsks, VerdictQuestion, Withdrawal
    from assent.core import questions as core
    from assent.core.questions import Asked, Opened, Unopened
    from assent.steps import (
        CLAIM_LINE,
        CLOSE_LINE,
        CONFIRM_LINE,
        DELIVER_QUESTION,
        OFFER_LINE,
        PREPARE_QUESTION,
        RECORD_ANSWER,
        RESOLVE,
        WEIGH,
        WRITE_AUDIT,
        WRITE_LINE,
    )
    from assent.temporal import search
    from workflows.announcing import announce
    from workflows.details import question_page
    from workflows.reading import read
    from workflows.steps import HERE, LOCAL, ONCE, OUTBOUND, take, uncancelled

_SOONEST = timedelta(milliseconds=1)
_TAKEN_WITHIN = timedelta(seconds=10)
"""How long the worker that holds the pipe may take to begin; one that lives asks for work all the time."""
_WRITTEN_WITHIN = timedelta(seconds=10)
_FETCHED_WITHIN = timedelta(minutes=1)
"""How long `assent run` may take to fetch a line, to write it and to say so."""
_NO_CARD = "its card could not be delivered before the deadline"


@workflow.defn(name=names.QUESTION)
class QuestionWorkflow:
    """Waits for a person's answer to one card of questions.

    What happens to a question is decided in `assent.core.questions`; here it is carried out. Only its first step is
    local: beside whatever comes later, timers run and steps are given up.
    """

    @workflow.init
    def __init__(self, asked: Asked) -> None:
        self._request = asked.request
        self._limits = asked.limits
        self._unopened = Unopened(request=asked.request)
        self._open: Opened | None = core.resume(asked.state) if asked.state else None
        self._is_line_done = False
        """Whether whoever holds the pipe has written the line, or writes no more."""
        self._doing: dict[str, asyncio.Task[None]] = {}
        """What is under way beside the wait, by what it is."""

    @workflow.run
    async def run(self, asked: Asked) -> QuestionOutcome:
        return await uncancelled(self._story(), on_cancel=self._on_temporal_cancel)

    async def _story(self) -> QuestionOutcome:
        if self._open is None and (known := await self._opened()) is not None:
            return known
        await self._answered()
        await self._written()
        return await self._end()

    # The steps

    async def _opened(self) -> QuestionOutcome | None:
        """Fix the plan; or the outcome, where the ledger knows it already."""
        prepared = await self._prepare()
        assert prepared.plan is not None, "what was not refused has a plan"
        if (known := prepared.outcome) is not None:
            self._open = core.end_as_before(self._unopened, prepared.plan, known, workflow.now(), prepared.answer)
            self._show(known.status)
            if prepared.cards_due:
                await self._hand_over()
            await self._announce(known)
            return known
        self._open = core.open_with(
            self._unopened, prepared.plan, workflow.now(), prepared.answer, prepared.sent_before
        )
        self._describe()
        await self._tell_call(is_open=True)
        return None

    async def _tell_call(self, *, is_open: bool) -> None:
        """Tell the approval whose running tool asks, if one does: its card says that it waits for an answer."""
        approval_id = self._question.plan.approval_id
        if approval_id is None:
            return
        handle = workflow.get_external_workflow_handle(names.approval_workflow(approval_id))
        with contextlib.suppress(ApplicationError):  # it ended meanwhile, and withdraws what is left
            await handle.signal(names.ASKING, CallAsks(question_id=self._request.question_id, is_open=is_open))

    async def _prepare(self) -> QuestionPrepared:
        deadline = workflow.info().start_time + self._request.ttl
        prepared = await self._planned(deadline)
        if prepared.unknown is not None:
            prepared = await self._planned(deadline, await self._resolve(prepared.unknown, deadline))
        if (error := _refusal(prepared)) is not None:
            raise error
        return prepared

    async def _planned(self, deadline: datetime, resolved: Resolved | None = None) -> QuestionPrepared:
        preparation = QuestionPreparation(
            request=self._request, now=workflow.now(), deadline=deadline, resolved=resolved, limits=self._limits
        )
        return await take(PREPARE_QUESTION, preparation, LOCAL)

    async def _resolve(self, unknown: Unknowns, deadline: datetime) -> Resolved:
        """Ask Feishu who somebody is, until it answers, the deadline passes, or nobody wants to know any more."""
        limit = max(deadline - workflow.now(), timedelta(seconds=1))
        asking = asyncio.create_task(take(RESOLVE, unknown, OUTBOUND, within=limit))
        await workflow.wait_condition(lambda: asking.done() or self._unopened.ending is not None)
        if self._unopened.ending is not None:
            asking.cancel()
            return Resolved()
        try:
            return await asking
        except FailureError:
            return Resolved()  # it is asked by what is known, and expires if that is not enough

    async def _answered(self) -> None:
        """Wait for an answer, a withdrawal or the deadline. That a moment has come is only ever said by its timer."""
        while self._question.ending is None:
            self._start_what_is_due()
            if workflow.info().is_continue_as_new_suggested():
                await self._continue_as_new()
            moment, happens = self._next()
            try:
                await workflow.wait_condition(self._is_needed, timeout=max(moment - workflow.now(), _SOONEST))
            except TimeoutError:
                happens()
        for task in [*self._doing.values()]:
            task.cancel()

    def _next(self) -> tuple[datetime, Callable[[], None]]:
        """What comes next, if nothing happens before."""
        question, now = self._question, workflow.now()
        moments: list[tuple[datetime, Callable[[], None]]] = [(core.ends_at(question), self._expire)]
        if (reminding := core.reminds_at(question)) is not None:
            moments.append((reminding, self._remind))
        if (sending := core.sends_at(question, now)) is not None and not core.is_due(question):
            moments.append((sending, self._send_anew))
        return min(moments, key=lambda each: each[0])

    def _is_needed(self) -> bool:
        """Whether there is something to do: the end, a card, a question to Feishu, something to write down."""
        question = self._question
        return (
            question.ending is not None
            or core.is_due(question)
            or (question.asking is not None and "weighing" not in self._doing)
            or (core.has_news(question) and "writing" not in self._doing)
            or workflow.info().is_continue_as_new_suggested()
        )

    def _start_what_is_due(self) -> None:
        question = self._question
        if core.is_due(question):
            self._send()
        if (asked := question.asking) is not None and "weighing" not in self._doing:
            self._start("weighing", self._weigh(asked))
        if core.has_news(question) and "writing" not in self._doing:
            self._start("writing", self._write())

    def _start(self, name: str, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_until_given_up(doing))
        self._doing[name] = task
        task.add_done_callback(lambda _: self._doing.pop(name, None))

    # What happens when its time has come

    def _expire(self) -> None:
        why = _NO_CARD if self._question.cards.is_missing else None
        self._becomes(core.expire, workflow.now(), why)

    def _remind(self) -> None:
        self._becomes(core.remind, workflow.now())

    def _send_anew(self) -> None:
        self._send(aged=True)

    # What goes on beside the wait

    def _send(self, *, aged: bool = False) -> None:
        self._open, deliveries = core.send(self._question, aged=aged)
        for delivery in deliveries:
            self._start(f"card {delivery.generation}:{delivery.place}", self._deliver(delivery))

    async def _deliver(self, delivery: QuestionDelivery) -> None:
        delivered = await take(DELIVER_QUESTION, delivery, OUTBOUND)
        self._becomes(core.arrive, delivered, workflow.now())

    async def _weigh(self, given: Answer) -> None:
        """Ask whether whoever answered belongs to the chat; as long as nobody says so, the answer waits."""
        found = await take(WEIGH, core.weighing(self._question, given, workflow.now()), OUTBOUND)
        self._becomes(core.weighed, given, found, workflow.now())

    async def _write(self) -> None:
        batch = core.batch(self._question)
        await take(WRITE_AUDIT, batch, HERE)
        self._becomes(core.write, batch.entries, workflow.now())

    # The line

    async def _written(self) -> None:
        """Where a running program asked: have the answer written to it, once, before anybody is told of it."""
        offer = core.offer(self._question)
        if offer is None:
            return
        offered = await take(OFFER_LINE, offer, HERE)
        if offered.answer is not None:
            self._becomes(core.stand_by, offered.answer)
        if not offered.is_done:
            await self._until_written(offered)
        report = await take(CLOSE_LINE, LineQuestion(question_id=self._request.question_id), HERE)
        self._becomes(core.written, report, workflow.now())

    async def _until_written(self, offered: LineOffered) -> None:
        """What became of the line is on record; where this is given up on, nobody takes it any more."""
        if offered.holder is RunHolder.CLIENT:
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._is_line_done, timeout=_FETCHED_WITHIN)
            await workflow.wait_condition(workflow.all_handlers_finished)
            return
        with contextlib.suppress(FailureError):
            await workflow.execute_activity(
                WRITE_LINE.name,
                LineQuestion(question_id=self._request.question_id),
                result_type=WRITE_LINE.gives,
                task_queue=offered.queue,
                schedule_to_start_timeout=_TAKEN_WITHIN,
                start_to_close_timeout=_WRITTEN_WITHIN,
                retry_policy=ONCE,
            )

    @workflow.update(name=names.CLAIM_LINE, description="Take the line, to write it once.")
    async def _on_claim(self, claim: LineClaim) -> ClaimedLine:
        return await take(CLAIM_LINE, claim, HERE)

    @workflow.update(name=names.CONFIRM_LINE, description="The line was written.")
    async def _on_confirm(self, written: LineWritten) -> LineReport:
        report = await take(CONFIRM_LINE, written, HERE)
        self._is_line_done = True
        return report

    # The end

    async def _end(self) -> QuestionOutcome:
        """Put the ending on record, then tell of it: only what the ledger has is told."""
        while True:
            conclusion = core.conclude(self._question, workflow.now())
            recorded = await take(RECORD_ANSWER, conclusion, HERE)
            self._becomes(core.write, conclusion.entries, workflow.now())
            if not core.has_news(self._question):
                break
        outcome = recorded.outcome
        self._becomes(core.close, outcome)
        self._show(outcome.status)
        await self._tell_call(is_open=False)
        if recorded.cards_due:
            await self._hand_over()
        await self._announce(outcome)
        return outcome

    async def _hand_over(self) -> None:
        """Leave the cards to a workflow that goes on trying."""
        question_id = self._request.question_id
        await workflow.start_child_workflow(
            names.SHOW_ANSWERED,
            QuestionRevision(question_id=question_id),
            id=names.show_answered_workflow(question_id, str(workflow.uuid4())),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )

    def _answer_id(self) -> str | None:
        ending = self._question.ending
        return ending.event_id if ending else None

    async def _announce(self, outcome: QuestionOutcome) -> None:
        """Tell whoever asked to be told; that it may take days is not the question's concern."""
        if self._request.callback_url is None:
            return
        announcement = Announcement(
            url=self._request.callback_url,
            question=outcome,
            interaction=core.event(self._question.plan, outcome, self._answer_id()),
            ended_at=workflow.now(),
            asked_by=self._request.asked_by,
        )
        await announce(announcement)

    # What people say

    @workflow.signal(name=names.ANSWER, description="Answer; docs/questions.md has the form.")
    def _on_answer(self, *said: Any) -> None:
        self._hears(core.answer, read(Answer, said, most=sizes.DECISION))

    @workflow.signal(name=names.CANCEL, description="Withdraw the question while nobody has answered.")
    def _on_cancel(self, *said: Any) -> None:
        self._is_line_done = True  # whoever withdraws it once it is answered writes no more
        self._hears(core.withdraw, read(Withdrawal, said) or Withdrawal())

    def _on_temporal_cancel(self) -> None:
        self._hears(core.withdraw, Withdrawal(reason="cancelled in Temporal"))

    def _hears(self, happened: Callable[..., Any], said: Any) -> None:
        """Something was said; what could not be read is set aside."""
        if said is None:
            self._becomes(core.set_aside)
        else:
            self._becomes(happened, said, workflow.now())

    @workflow.query(name=names.STATE, description="The question as it stands.")
    def _shown_state(self) -> QuestionState:
        return core.state(self._open or self._unopened)

    @workflow.query(name=names.VERDICT, description="What became of one sending of one answer.")
    def _verdict(self, question: VerdictQuestion) -> AnswerVerdict:
        return core.verdict(self._open or self._unopened, question)

    # Small things

    @property
    def _question(self) -> Opened:
        assert self._open is not None, "it was prepared"
        return self._open

    def _becomes(self, happened: Callable[..., Any], *said: Any) -> None:
        """Something happened, to a question with its plan or without."""
        if self._open is not None:
            self._open = happened(self._open, *said)
        else:
            self._unopened = happened(self._unopened, *said)

    async def _continue_as_new(self) -> None:
        workflow.continue_as_new(Asked(request=self._request, limits=self._limits, state=self._question))

    def _show(self, status: QuestionStatus) -> None:
        """Say in Temporal's lists and on its page how the question stands."""
        workflow.upsert_search_attributes([search.STATUS.value_set(status)])
        self._describe()

    def _describe(self) -> None:
        workflow.set_current_details(question_page(core.state(self._open or self._unopened)))


async def _until_given_up(doing: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(FailureError):  # it is over, and nobody needs it any more
        await doing


def _refusal(prepared: QuestionPrepared) -> ApplicationError | None:
    """Why the request does not become a question, if it does not."""
    if prepared.conflict:
        return ApplicationError("the question id belongs to another request", type="QuestionConflict")
    if (over := prepared.exceeded) is not None:
        return ApplicationError("a quota is used up", over.quota, over.limit, over.retry_after, type="QuotaExceeded")
    if prepared.plan is None:
        return ApplicationError(prepared.refused or "it cannot be asked", type="InvalidRequest")
    return None
