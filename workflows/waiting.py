"""The wait for people: until they have decided about a call, and later about its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.approvers import Approvers
    from assent.contracts.audit import AuditBatch
    from assent.contracts.identity import Identity
    from assent.contracts.weigh import Weighed, Weighing
    from workflows import steps
    from workflows.docket import Docket
    from workflows.post import Post

_LONGEST_PAUSE = timedelta(minutes=5)


class Waiting:
    """Everything that goes on while an approval waits: cards, reminders, questions to the outside, the audit."""

    def __init__(
        self, docket: Docket, post: Post, continue_as_new: Callable[[], None], describe: Callable[[], None]
    ) -> None:
        self._docket = docket
        self._post = post
        self._continue_as_new = continue_as_new
        self._describe = describe
        self._described = docket.news + docket.renewals
        self._asking: asyncio.Task[None] | None = None

    async def until(
        self, is_over: Callable[[], bool], deadline: Callable[[], datetime], *, reminds: bool = False
    ) -> bool:
        """Wait until it is over; False if the deadline passed before."""
        try:
            return await self._until(is_over, deadline, reminds)
        finally:
            if self._asking is not None:
                self._asking.cancel()

    async def _until(self, is_over: Callable[[], bool], deadline: Callable[[], datetime], reminds: bool) -> bool:
        docket, pause = self._docket, timedelta(seconds=1)
        while not is_over():
            if docket.unwritten:
                pause = timedelta(seconds=1) if await self.write_audit() else min(pause * 2, _LONGEST_PAUSE)
            if is_over():
                return True
            if self._described != docket.news + docket.renewals:
                self._described = docket.news + docket.renewals
                self._describe()
            if self._is_long:
                self._continue_as_new()
            self._ask_if_due(deadline())
            plan = docket.plan
            assert plan is not None
            now = workflow.now()
            if now >= deadline():
                return False
            wake_at = min(deadline(), self._next_call(now)) if reminds else deadline()
            self._post.send_if_due(plan)
            self._post.tell_if_due(plan)
            left = min(wake_at, self._post.due_at(plan)) - now
            await self._something_new(is_over, min(left, pause) if docket.unwritten else left)
        return True

    async def _something_new(self, is_over: Callable[[], bool], timeout: timedelta) -> None:
        """Wait for the end, for something to write down, show or ask, for a long history, or for the timeout."""
        docket, backlog = self._docket, len(self._docket.unwritten)
        try:
            await workflow.wait_condition(
                lambda: (
                    is_over()
                    or len(docket.unwritten) > backlog
                    or self._post.is_due
                    or (docket.weighing is not None and self._asking is None)
                    or self._is_long
                ),
                timeout=timeout,
            )
        except TimeoutError:
            return

    def _next_call(self, now: datetime) -> datetime:
        """Remind or call in others where that is due; when it will be next."""
        plan, panel = self._docket.plan, self._docket.panel
        assert plan is not None
        assert panel is not None
        if plan.remind_at and not panel.reminded:
            if now < plan.remind_at:
                return plan.remind_at
            self._docket.remind()
        if plan.escalate_at and not panel.escalated:
            if now < plan.escalate_at:
                return plan.escalate_at
            self._docket.escalate()
        return plan.deadline + plan.grace

    # Questions to the outside

    def _ask_if_due(self, until: datetime) -> None:
        if self._docket.weighing is not None and self._asking is None:
            self._asking = asyncio.create_task(self._ask(until))

    async def _ask(self, until: datetime) -> None:
        """Ask about the decision that waits; as long as nobody answers, it goes on waiting."""
        try:
            asked = self._docket.weighing
            answer = await weigh(self._docket.question(), until - workflow.now())
            if answer is not None and self._docket.weighing is asked:
                self._docket.weighed(answer)
        finally:
            self._asking = None

    # The audit, and a long history

    async def write_audit(self) -> bool:
        assert self._docket.plan is not None
        batch = AuditBatch(approval_id=self._docket.plan.approval_id, entries=self._docket.next_entries)
        try:
            await steps.local(names.WRITE_AUDIT, batch, None, timedelta(seconds=2))
        except FailureError:
            return False
        self._docket.written(batch.entries)
        return True

    @property
    def _is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()


async def weigh(question: Weighing, limit: timedelta) -> Weighed | None:
    """Ask outside, promptly first; None if nobody could answer in time."""
    try:
        return await steps.promptly(names.WEIGH, question, Weighed)
    except FailureError:
        if limit <= timedelta(0):
            return None
    try:
        return await steps.outbound(names.WEIGH, question, Weighed, limit)
    except FailureError:
        return None


async def outsiders(docket: Docket, limit: timedelta) -> tuple[Identity, ...] | None:
    """Those whose approval rests on belonging to a chat that they have left; None if nobody could say."""
    plan, panel = docket.plan, docket.panel
    assert plan is not None
    assert panel is not None
    found: list[Identity] = []
    for stage, actors in panel.members().items():
        group = panel.stage_group(stage)
        assert group.kind is Approvers.Kind.CHAT
        question = Weighing(
            approval_id=plan.approval_id,
            approvers=group,
            actors=actors,
            payload_sha256=plan.payload_sha256,
            now=workflow.now(),
        )
        answer = await weigh(question, limit)
        if answer is None:
            return None
        found += answer.outsiders
    return tuple(found)
