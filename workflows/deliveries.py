"""Sending an approval's cards while the approval already waits: a Feishu that is down must not hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from assent import core, names
    from assent.contracts.deliver import Delivered, Delivery, Revision
    from assent.steps import DELIVER, SHOW
    from workflows.bundle_member import BundleMember
    from workflows.open_approval import OpenApproval
    from workflows.steps import AT_ONCE, HERE, LOCAL, ONCE, OUTBOUND, SEEN_TO_ITS_END, Where, take, try_to


_A_MOMENT = timedelta(seconds=1)
"""How long an outcome may be held back for what is being shown: a chat that is well has answered by then."""
A_WHILE, _LONGEST_WHILE = timedelta(seconds=5), timedelta(minutes=15)
"""How long after cards could not be told that the call runs they are told again; ever later, up to this."""


class Deliveries:
    """Carries out what the core says is due to the cards."""

    def __init__(self, approval: OpenApproval, bundle: BundleMember, former: Deliveries | None = None) -> None:
        """former: of the call, where these are of its result."""
        self._approval = approval
        self._bundle = bundle
        self._former = former
        self._sending: list[asyncio.Task[None]] = []
        self._showing: asyncio.Task[None] | None = None
        self._news = 0
        """What is being shown,"""
        self._is_outdated = False
        """and whether it was given up because there is something newer."""
        self._tellings = 0
        """How much is being said of a call that was decided about."""
        self._telling_on: asyncio.Task[None] | None = None
        self._is_over = False
        """Whether nothing is to be said of it any more."""
        self._is_stopped = False
        self.is_announcing = False
        """Whether it is being said for the first time that the result waits: no other run would."""
        self._late: list[tuple[Delivery, Delivered]] = []
        """Cards that came, or may have come, when the wait was over."""

    async def send_first(self, now: datetime, sent: tuple[Delivered | None, ...] | None = None) -> None:
        """Send what is due before the wait begins, within the workflow's own task; a slow Feishu is left to others.

        sent: what became of it, where it was sent together with the plan.
        """
        approval = self._approval
        approval.state, deliveries = core.send(approval.state, now)
        if sent is None or len(sent) != len(deliveries):
            sent = tuple(await asyncio.gather(*(self._try(each, LOCAL) for each in deliveries)))
        for delivery, delivered in zip(deliveries, sent, strict=True):
            if delivered is None:
                self._pass_by(delivery)
                self._start(self._send_patiently(delivery))
            else:
                self._arrived(delivery, delivered)

    def are_due(self, now: datetime) -> bool:
        """Whether the cards lag behind, and nobody is about to change that."""
        state = self._approval.state
        is_left_alone = self._is_outdated or self._news == state.news or not self._gives_up
        is_changing = self._showing is not None and is_left_alone
        return not is_changing and core.is_behind(state, now)

    def start_what_is_due(self, now: datetime) -> None:
        """Send the cards that are due, and have those that are there say how far the approvers have come."""
        approval = self._approval
        approval.state, deliveries = core.send(approval.state, now)
        for delivery in deliveries:
            self._start(self._send(delivery))
        if deliveries and self.takes_turns():  # they say it themselves
            self._give_up_showing()
        if not self.are_due(now):
            return
        if self._showing is not None:  # one card that resists keeps the others from nothing newer
            self._give_up_showing()
            return
        revision = core.show(approval.state, now)
        if revision is None:
            return
        self._bundle.tell(core.member(approval.state))
        self._news, self._is_outdated = approval.state.news, False
        if core.has_cards(approval.state):
            self._showing = asyncio.create_task(self._show(revision))
            self._showing.add_done_callback(self._is_shown)
        else:
            approval.becomes(core.shown, self._news)

    @property
    def _gives_up(self) -> bool:
        """Whether what is being shown is given up for something newer; approvals of long ago waited for it."""
        return self._approval.plan.is_listed_late or self._approval.plan.is_shown_in_turn

    def takes_turns(self) -> bool:
        """Whether something is being shown that whatever comes next has to wait for."""
        return self._approval.plan.is_shown_in_turn and self._is_busy

    @property
    def is_telling(self) -> bool:
        """Whether something is being said of a call that was decided about."""
        return bool(self._tellings)

    @property
    def _is_busy(self) -> bool:
        return self._showing is not None or self.is_telling

    def _give_up_showing(self) -> None:
        """What is being shown is outdated, or somebody else's to show; it is over once its last try has ended."""
        if self._showing is not None and not self._is_outdated:
            self._is_outdated = True
            self._showing.cancel()

    @property
    def is_giving_up(self) -> bool:
        """Whether something outdated may still be shown, or what has to be said first is being said."""
        return (self._showing is not None and self._is_outdated) or self._former_announces

    @property
    def _former_announces(self) -> bool:
        return self._former is not None and self._former.is_announcing

    def can_be_left(self) -> bool:
        """Whether the next run may go on with them; it shows what this one has not, which is given up before."""
        if self._former_announces:
            return False
        if not self.takes_turns():
            return True
        self._give_up_showing()
        return False

    async def _show(self, revision: Revision) -> None:
        """However long Feishu takes, until there is something newer to show; never while an older try goes on."""
        given_up = SEEN_TO_ITS_END if self._gives_up else ActivityCancellationType.TRY_CANCEL
        try:
            await take(SHOW, revision, OUTBOUND, given_up=given_up)
        except FailureError:
            if self._is_outdated and workflow.patched(names.DOUBTED_CARDS):
                self._approval.becomes(core.doubt, revision)
            if self._is_stopped:
                return  # given up: what is told next does it
        if not self._is_outdated:
            self._approval.becomes(core.shown, self._news)

    def _is_shown(self, _: asyncio.Task[None]) -> None:
        self._showing = None

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(sending)
        self._sending.append(task)
        task.add_done_callback(self._sending.remove)

    async def _send(self, delivery: Delivery) -> None:
        delivered = await self._try(delivery, HERE)
        if delivered is not None:
            self._arrived(delivery, delivered)
        elif self._is_stopped:
            self._may_have_arrived(delivery)
        else:
            self._pass_by(delivery)
            await self._send_patiently(delivery)

    async def _try(self, delivery: Delivery, where: Where) -> Delivered | None:
        """Send it; None if Feishu does not take it at once."""
        try:
            return await take(DELIVER, delivery, where, within=AT_ONCE, retry=ONCE, given_up=SEEN_TO_ITS_END)
        except FailureError:
            return None

    async def _send_patiently(self, delivery: Delivery) -> None:
        try:
            delivered = await take(DELIVER, delivery, OUTBOUND, given_up=SEEN_TO_ITS_END)
        except FailureError:
            self._may_have_arrived(delivery)  # the approval is over
        else:
            self._arrived(delivery, delivered)

    def _pass_by(self, delivery: Delivery) -> None:
        """Feishu did not take it at once: the others do not wait for it."""
        self._approval.becomes(core.pass_by, delivery, workflow.now())
        self._tell_bundle_of_cards()

    def _may_have_arrived(self, delivery: Delivery) -> None:
        """It was given up, and nobody knows whether the card is there."""
        self._late.append((delivery, Delivered()))

    def _arrived(self, delivery: Delivery, delivered: Delivered) -> None:
        if self._is_stopped:
            self._late.append((delivery, delivered))
            return
        self._approval.becomes(core.land, delivery, delivered, workflow.now())
        self._tell_bundle_of_cards()

    def _tell_bundle_of_cards(self) -> None:
        if not core.are_awaited(self._approval.state):
            self._bundle.tell(core.member(self._approval.state))

    def stop(self) -> None:
        """The wait is over: what was not sent is not sent any more."""
        self._is_stopped = True
        for task in [*self._sending, *([self._showing] if self._showing else [])]:
            task.cancel()

    # What is shown once it was decided

    @property
    def can_show_running(self) -> bool:
        """Whether there is a card that may say that the call runs."""
        return core.has_cards(self._approval.state) or self._approval.state.shared is not None

    async def show_running(self, making: asyncio.Task[Any]) -> None:
        """Say on the cards that the call runs, as long as it does."""
        if self.can_show_running:
            self._bundle.tell(core.member(self._approval.state))
        is_told = not core.has_cards(self._approval.state) or await self.tell(making)
        await self._tell_on(is_told, partial(self.tell, making), making.done)

    async def _tell_on(self, is_told: bool, tell: Callable[[], Awaitable[bool]], is_over: Callable[[], bool]) -> None:
        """Tell again: cards that could not be told, and those that come, or may have come, when it was decided."""
        pause = A_WHILE
        while not is_over() and (not is_told or self._sending or self._late) and workflow.patched(names.LATE_CARDS):
            if is_told:
                await workflow.wait_condition(lambda: is_over() or bool(self._late) or not self._sending)
            else:
                pause = await wait_a_while(lambda: is_over() or bool(self._late), pause)
            for delivery, delivered in self._late:
                self._approval.becomes(core.land, delivery, delivered, workflow.now())
            self._late = []
            is_told = is_over() or await tell()

    async def tell(self, making: asyncio.Task[Any], *, asking: bool | None = None) -> bool:
        """Say on the cards that the call runs, and where that has changed whether its tool waits for an answer.

        Whatever was said before is said by then: what comes late would cover it. Tells whether all of them say it,
        or it has become pointless.
        """
        if self._approval.plan.is_shown_in_turn:
            while self._is_busy and not making.done():  # of several who waited, the next one is busy now
                await workflow.wait_condition(lambda: making.done() or not self._is_busy)
        elif asking is None:
            await workflow.wait_condition(lambda: making.done() or self._showing is None)
        if making.done():
            return True
        state = self._approval.state
        if state.plan.waits_for_no_chat and state.questions:
            asking = True
        return await self._say(Revision(approval_id=state.plan.approval_id, progress=state.progress, asking=asking))

    async def _say(self, said: Revision) -> bool:
        """Say it of what was decided; tells whether all cards do by now."""
        state = self._approval.state
        known = {"decided": state.accepted, "doubts_older": state.cards.is_doubted}
        self._tellings += 1
        try:
            return await try_to(SHOW, said.model_copy(update=known))
        finally:
            self._tellings -= 1

    async def are_quiet(self) -> bool:
        """Whether nothing older is on its way to the cards, now or in a moment: it would cover what comes next."""
        if not self._is_in_the_way():
            return True
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: not self._is_in_the_way(), timeout=_A_MOMENT)
        return not self._is_in_the_way()

    def _is_in_the_way(self) -> bool:
        return self.takes_turns() or (self._former is not None and self._former.takes_turns())

    async def said(self) -> None:
        """Whatever was being said of how far the approvers had come is said, or given up."""
        if self.takes_turns():
            await workflow.wait_condition(lambda: self._showing is None)

    async def show_result_waits(self) -> None:
        """Say on the cards that the call has ended, and that its result waits to be released."""
        state = self._approval.state
        self._bundle.tell(core.member(state))
        if self.is_telling:
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: not self.is_telling, timeout=_A_MOMENT)
        said = partial(self._say, Revision(approval_id=state.plan.approval_id, reviewing=True))
        is_told = True
        if state.cards.message_ids:
            await workflow.wait_condition(lambda: self._showing is None)
            is_told = await said()
        self._telling_on = asyncio.create_task(self._tell_on(is_told, said, lambda: self._is_over))

    def start_showing_result_waits(self) -> None:
        """The same, beside the wait for its release."""
        self._bundle.tell(core.member(self._approval.state))
        self.is_announcing = True
        self._telling_on = asyncio.create_task(self._keep_showing_result_waits())

    async def _keep_showing_result_waits(self) -> None:
        state = self._approval.state
        await workflow.wait_condition(lambda: self._is_over or not self._is_busy)
        said = partial(self._say, Revision(approval_id=state.plan.approval_id, reviewing=True))
        is_told = self._is_over or not state.cards.message_ids or await said()
        self.is_announcing = False
        await self._tell_on(is_told, said, lambda: self._is_over)

    def end(self) -> None:
        """Nothing more is said of a result that waits."""
        self._is_over = True


async def wait_a_while(until: Callable[[], bool], pause: timedelta) -> timedelta:
    """Wait until then, but no longer than this; tells how long the next pause is."""
    with suppress(TimeoutError):
        await workflow.wait_condition(until, timeout=pause)
    return min(pause * 2, _LONGEST_WHILE)
