"""Sending an approval's cards while the approval already waits: a Feishu that is down must not hold it up."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import core
    from assent.contracts.deliver import Delivered, Delivery, Revision
    from assent.steps import DELIVER, SHOW
    from workflows.bundle_member import BundleMember
    from workflows.open_approval import OpenApproval
    from workflows.steps import AT_ONCE, LOCAL, ONCE, OUTBOUND, take, try_to

_NOTICEABLE = timedelta(milliseconds=1500)
"""How long a call may run before its card says that it runs; most have ended by then, and show that instead."""


class Deliveries:
    """Carries out what the core says is due to the cards."""

    def __init__(self, approval: OpenApproval, bundle: BundleMember) -> None:
        self._approval = approval
        self._bundle = bundle
        self._sending: list[asyncio.Task[None]] = []
        self._showing: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._local_steps = 0

    @property
    def take_local_steps(self) -> bool:
        """Whether some are just sent within the workflow's own task."""
        return self._local_steps > 0

    @property
    def are_due(self) -> bool:
        """Whether the cards lag behind, and nobody is about to change that."""
        return self._showing is None and core.is_behind(self._approval.state, workflow.now())

    def start_what_is_due(self) -> None:
        """Send the cards that are due, and have those that are there say how far the approvers have come."""
        approval = self._approval
        approval.state, deliveries = core.send(approval.state, workflow.now())
        self._local_steps += len(deliveries)
        for delivery in deliveries:
            task = asyncio.create_task(self._send(delivery))
            self._sending.append(task)
            task.add_done_callback(self._sending.remove)
        if not self.are_due:
            return
        approval.state, revision = core.show(approval.state, workflow.now())
        if revision is not None:
            self._bundle.tell(core.member(approval.state))
            if core.has_cards(approval.state):
                self._showing = asyncio.create_task(self._show(revision))

    async def _show(self, revision: Revision) -> None:
        try:
            await try_to(SHOW, revision)
        finally:
            self._showing = None

    async def _send(self, delivery: Delivery) -> None:
        try:
            delivered = await self._deliver(delivery)
        except FailureError:
            return  # the approval is over
        approval = self._approval
        approval.becomes(core.arrive, delivery.kind, delivered, workflow.now())
        if not core.are_on_their_way(approval.state):
            self._bundle.tell(core.member(approval.state))

    async def _deliver(self, delivery: Delivery) -> Delivered:
        try:
            return await take(DELIVER, delivery, LOCAL, within=AT_ONCE, retry=ONCE)
        except FailureError:
            if self._is_stopped:
                raise
        finally:
            self._local_steps -= 1
        return await take(DELIVER, delivery, OUTBOUND)

    def stop(self) -> None:
        """The wait is over: what was not sent is not sent any more."""
        self._is_stopped = True
        for task in [*self._sending, *([self._showing] if self._showing else [])]:
            task.cancel()

    # What is shown once it was decided

    async def show_running(self, call: asyncio.Task[object]) -> None:
        """Say on the cards that the call runs, if it does so for long enough to be noticed."""
        state = self._approval.state
        if not core.has_cards(state) and state.shared is None:
            return
        try:
            await workflow.wait_condition(call.done, timeout=_NOTICEABLE)
        except TimeoutError:
            self._bundle.tell(core.member(state))
            if core.has_cards(state):
                progress = state.panel.progress(state.plan, state.notes.judged)
                await try_to(
                    SHOW, Revision(approval_id=state.plan.approval_id, decided=state.accepted, progress=progress)
                )

    async def show_result_waits(self) -> None:
        """Say on the cards that the call has ended, and that its result waits to be released."""
        state = self._approval.state
        self._bundle.tell(core.member(state))
        if state.cards.message_ids:
            await try_to(SHOW, Revision(approval_id=state.plan.approval_id, decided=state.accepted, reviewing=True))
