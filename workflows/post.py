"""Sending an approval's cards while the approval already waits: a Feishu that is down must not hold it up."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts import Address, Judged, Plan, Progress
    from assent.messages import CardKind, Delivered, Delivery, Revision, Shelf
    from workflows import steps
    from workflows.docket import Docket

FRESH_FOR = timedelta(days=13)
"""Feishu stops a card's buttons after fourteen days: before that it is sent anew."""
_NOTICEABLE = timedelta(milliseconds=1500)
"""How long a call may run before its card says that it runs; most have ended by then, and show that instead."""


class Post:
    """The cards of one kind of one approval, one for each address."""

    def __init__(self, docket: Docket, shelf: Shelf, kind: CardKind = CardKind.CALL) -> None:
        self._docket = docket
        self._kind = kind
        self._sent = set(shelf.message_ids)
        self._generation, self._sent_at = shelf.generation, shelf.sent_at
        self._refusals: list[str] = []
        self._on_their_way: dict[int, asyncio.Task[None]] = {}
        self._interrupted = not shelf.complete
        self._renewed = docket.renewals - int(shelf.due)
        self._told = docket.news
        self._telling: asyncio.Task[None] | None = None
        self._running = True
        self._stopped = False

    @property
    def shelf(self) -> Shelf:
        """What a new run needs to know of the cards."""
        return Shelf(
            generation=self._generation,
            sent_at=self._sent_at,
            message_ids=tuple(sorted(self._sent)),
            complete=not self._on_their_way,
            due=self._renewed != self._docket.renewals,
        )

    def send_if_due(self, plan: Plan) -> None:
        """Send what was never sent, what a former run left half sent, what became another, and what grew too old."""
        if not plan.addresses or self._on_their_way or workflow.now() < self.due_at(plan):
            return
        if not self._interrupted:
            self._generation += 1
        self._interrupted = False
        self._renewed, self._told = self._docket.renewals, self._docket.news
        self._refusals = []
        self._docket.expect_cards()
        progress, addresses = self._progress, self._addresses(plan)
        for place, address in enumerate(addresses):
            self._on_their_way[place] = asyncio.create_task(self._send(plan, place, address, progress, len(addresses)))

    def due_at(self, plan: Plan) -> datetime:
        """When the next cards are to be sent."""
        if not plan.addresses or self._on_their_way:
            return workflow.now() + FRESH_FOR
        if self._interrupted or self._sent_at is None or self._renewed != self._docket.renewals:
            return workflow.now()
        return self._sent_at + FRESH_FOR

    @property
    def is_due(self) -> bool:
        """Whether the cards lag behind."""
        plan = self._docket.plan
        idle = plan is not None and bool(plan.addresses) and not self._on_their_way and self._telling is None
        return idle and (self._renewed != self._docket.renewals or self._told != self._docket.news)

    def tell_if_due(self, plan: Plan) -> None:
        """Say on the cards how far the approvers have come."""
        if not self.is_due or self._renewed != self._docket.renewals:
            return
        self._told = self._docket.news
        if self._sent:
            self._telling = asyncio.create_task(self._tell(plan, self._progress))

    async def _tell(self, plan: Plan, progress: Progress | None) -> None:
        try:
            await steps.attempted(names.SHOW, Revision(approval_id=plan.approval_id, progress=progress))
        finally:
            self._telling = None

    @property
    def is_missing(self) -> bool:
        """Whether no card could be delivered so far."""
        return bool(self._generation) and not self._sent

    def stop(self) -> None:
        """The approval is over: what was not sent is not sent any more."""
        self._stopped = True
        for task in [*self._on_their_way.values(), *([self._telling] if self._telling else [])]:
            task.cancel()

    @property
    def _progress(self) -> Progress | None:
        return self._docket.panel.progress(self._docket.judged) if self._docket.panel else None

    def _addresses(self, plan: Plan) -> tuple[Address, ...]:
        return self._docket.panel.addresses() if self._docket.panel else plan.addresses

    async def _send(self, plan: Plan, place: int, address: Address, progress: Progress | None, of: int) -> None:
        delivery = Delivery(
            approval_id=plan.approval_id,
            place=place,
            generation=self._generation,
            kind=self._kind,
            address=address,
            progress=progress,
            reminder=self._docket.reminding,
        )
        try:
            delivered = await self._deliver(delivery)
        except FailureError:
            return  # the approval is over
        finally:
            del self._on_their_way[place]  # here, not after: two may arrive in one task, and one of them is the last
        if delivered.message_id is not None:
            self._sent.add(delivered.message_id)
            self._docket.card_arrived(delivered.message_id)
        elif delivered.refused is not None:
            self._refusals.append(delivered.refused)
        if not self._on_their_way:
            self._sent_at = workflow.now()
            self._docket.all_cards_arrived()
        if len(self._refusals) == of and not self._sent:
            self._docket.undeliverable(self._refusals[0])

    async def _deliver(self, delivery: Delivery) -> Delivered:
        try:
            return await steps.promptly(names.DELIVER, delivery, Delivered)
        except FailureError:
            if self._stopped:
                raise
            return await steps.outbound(names.DELIVER, delivery, Delivered)

    async def show_running(self, plan: Plan, decided: Judged | None) -> None:
        """Say on the cards that the call runs, if it does so for long enough to be noticed."""
        if not self._sent:
            return
        try:
            await workflow.wait_condition(lambda: not self._running, timeout=_NOTICEABLE)
        except TimeoutError:
            await steps.attempted(names.SHOW, Revision(approval_id=plan.approval_id, decided=decided))

    def call_ended(self) -> None:
        self._running = False

    async def show_reviewing(self, plan: Plan, decided: Judged | None) -> None:
        """Say on the cards that the call has ended, and that its result waits to be released."""
        if self._sent:
            await steps.attempted(names.SHOW, Revision(approval_id=plan.approval_id, decided=decided, reviewing=True))
