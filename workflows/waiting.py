"""The wait for people: until they have decided about a call, and later about its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import core
    from assent.contracts.audit import AuditBatch
    from assent.contracts.decision import Decision
    from assent.contracts.identity import Identity
    from assent.contracts.weigh import Weighed, Weighing
    from assent.core import Planned
    from assent.steps import WEIGH, WRITE_AUDIT
    from workflows.deliveries import Deliveries
    from workflows.open_approval import OpenApproval
    from workflows.steps import AT_ONCE, HERE, LOCAL, ONCE, OUTBOUND, take

_A_MOMENT = timedelta(milliseconds=1)
"""What is overdue is due by a timer, too: then history tells it."""


class Waiting:
    """Everything that goes on while an approval waits: cards, reminders, questions to the outside, the audit."""

    def __init__(
        self,
        approval: OpenApproval,
        deliveries: Deliveries,
        continue_as_new: Callable[[], None],
        describe: Callable[[], None],
        *,
        since: datetime,
    ) -> None:
        """Since when it is waited for: a time that history tells, unlike `workflow.now()` right after a local step."""
        self._approval = approval
        self._deliveries = deliveries
        self._continue_as_new = continue_as_new
        self._describe = describe
        self._described = approval.state
        self._asking: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._now = since

    async def write_first(self) -> None:
        """Write down what is known before the wait begins, so that inboxes list what is waited for at once."""
        batch = core.batch(self._approval.state)
        with contextlib.suppress(FailureError):  # it is written beside the wait
            await take(WRITE_AUDIT, batch, LOCAL, within=AT_ONCE)
            self._approval.becomes(core.write_batch, batch, workflow.now())

    async def until(self, is_over: Callable[[Planned], bool]) -> bool:
        """Wait until it is over; False if the time for it passed before."""
        try:
            return await self._until(is_over)
        finally:
            for task in (self._asking, self._writing):
                if task is not None:
                    task.cancel()

    async def _until(self, is_over: Callable[[Planned], bool]) -> bool:
        approval = self._approval
        while not is_over(approval.state):
            if core.has_changed(self._described, approval.state):
                self._described = approval.state
                self._describe()
            if _history_is_long() and self._deliveries.can_be_left():
                self._continue_as_new()
            self._write_if_due()
            self._ask_if_due()
            if self._now >= core.ends_at(approval.state):
                return False
            approval.becomes(core.call_others, self._now)
            self._deliveries.start_what_is_due(self._now)
            await self._something_new(is_over)
        return True

    async def _something_new(self, is_over: Callable[[Planned], bool]) -> None:
        """Wait for the end, for something to write down, show or ask, for a long history, or until something is due."""
        approval = self._approval
        wakes_at = core.wakes_at(approval.state, self._now)
        try:
            await workflow.wait_condition(
                lambda: (
                    is_over(approval.state)
                    or (core.has_news(approval.state) and self._writing is None)
                    or self._deliveries.are_due(self._now)
                    or (approval.state.asking is not None and self._asking is None)
                    or (_history_is_long() and not self._deliveries.is_giving_up)
                ),
                timeout=max(wakes_at - workflow.now(), _A_MOMENT),
            )
            self._now = workflow.now()
        except TimeoutError:
            self._now = max(workflow.now(), wakes_at)

    # Questions to the outside

    def _ask_if_due(self) -> None:
        if self._approval.state.asking is not None and self._asking is None:
            self._asking = asyncio.create_task(self._ask(self._approval.state.asking))

    async def _ask(self, decision: Decision) -> None:
        """Ask about the decision that waits; as long as nobody answers, it goes on waiting."""
        approval = self._approval
        try:
            question = core.question(approval.state, decision, workflow.now())
            answered = await weigh(question, core.ends_at(approval.state) - workflow.now())
            if answered is not None:
                approval.becomes(core.answer, decision, answered, workflow.now())
        finally:
            self._asking = None

    # The audit

    def _write_if_due(self) -> None:
        if core.has_news(self._approval.state) and self._writing is None:
            self._writing = asyncio.create_task(self._write(core.batch(self._approval.state)))

    async def _write(self, batch: AuditBatch) -> None:
        """Write down what happened; a ledger that cannot be reached is tried again, and holds up nothing."""
        try:
            await take(WRITE_AUDIT, batch, HERE)
        except FailureError:
            return  # the wait is over: what comes after it takes these entries along
        finally:
            self._writing = None
        self._approval.becomes(core.write_batch, batch, workflow.now())


async def weigh(question: Weighing, within: timedelta) -> Weighed | None:
    """Ask outside, first for an answer at once; None if nobody could answer in time."""
    try:
        return await take(WEIGH, question, HERE, within=AT_ONCE, retry=ONCE)
    except FailureError:
        if within <= timedelta(0):
            return None
    try:
        return await take(WEIGH, question, OUTBOUND, within=within)
    except FailureError:
        return None


async def outsiders(approval: OpenApproval) -> tuple[Identity, ...] | None:
    """Those whose approval rests on belonging to a chat that they have left; None if nobody could say in time."""
    plan = approval.plan
    within = plan.deadline + plan.start_within - workflow.now()
    found: list[Identity] = []
    for question in core.questions_before_call(approval.state, workflow.now()):
        answered = await weigh(question, within)
        if answered is None:
            return None
        found += answered.outsiders
    return tuple(found)


def _history_is_long() -> bool:
    return workflow.info().is_continue_as_new_suggested()
