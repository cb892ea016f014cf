"""Sending an approval's cards while the approval already waits: a Feishu that is down must not hold it up."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names, sizes
    from assent.contracts.address import Address
    from assent.contracts.bundles import Carded, Member
    from assent.contracts.carried import Shelf
    from assent.contracts.decision import Judged
    from assent.contracts.deliver import CardKind, Delivered, Delivery, Revision
    from assent.contracts.plan import Plan
    from assent.contracts.state import Progress
    from workflows import steps
    from workflows.docket import Docket
    from workflows.sharing import Share

FRESH_FOR = timedelta(days=13)
"""Feishu stops a card's buttons after fourteen days: before that it is sent anew."""
_NOTICEABLE = timedelta(milliseconds=1500)
"""How long a call may run before its card says that it runs; most have ended by then, and show that instead."""
HELD_FOR = timedelta(seconds=20)
"""How long cards are held back for one that is shared with others."""


class Post:
    """The cards of one kind of one approval, one for each address."""

    def __init__(self, docket: Docket, shelf: Shelf, kind: CardKind = CardKind.CALL) -> None:
        self._docket = docket
        self._kind = kind
        self._sent = dict.fromkeys(shelf.message_ids)
        self._generation, self._sent_at = shelf.generation, shelf.sent_at
        self._refusals: list[str] = []
        self._on_their_way: dict[int, asyncio.Task[None]] = {}
        self._interrupted = not shelf.complete
        self._renewed = docket.renewals - int(shelf.due)
        self._told = docket.news
        self._telling: asyncio.Task[None] | None = None
        self._running = True
        self._stopped = False
        self._held_until = shelf.held_until
        self._share = Share(docket.plan.bundle_id if docket.plan and kind is CardKind.CALL else None, shelf.shared)

    # A card that is shared with the calls that were asked for together with this one

    def join(self, plan: Plan) -> None:
        """Be shown on the card of a bundle, if there is one; meanwhile cards of one's own are held back."""
        self._share.bundle_id = plan.bundle_id
        if plan.bundle_id is None or self._generation or self._share.card or self._held_until:
            return
        is_asked = bool(plan.addresses) and not self._docket.needs_nobody
        self._held_until = workflow.now() + HELD_FOR if is_asked else None
        self._tell_bundle(progress=self._progress, ended=not is_asked)

    def carded(self, carded: Carded) -> None:
        """The bundle has a card on which this approval can be decided; or it has none."""
        if carded.message_ids:
            self._share.card = carded
        for message_id in carded.message_ids:
            self._docket.card_arrived(message_id)
        if self._held_until is None:
            return  # cards of its own are there, or on their way
        if carded.message_ids:
            self._held_until, self._sent_at = None, workflow.now()
            self._docket.all_cards_arrived()
        else:
            self._held_until = workflow.now()

    async def leave(self, approval_id: str, bundle_id: str | None) -> None:
        """Tell the bundle that the approval has ended."""
        self._share.bundle_id = bundle_id
        self._share.tell(Member(approval_id=approval_id, ended=True))
        await self._share.told()

    def _tell_bundle(self, **standing: Any) -> None:
        if self._docket.plan is not None:
            self._share.tell(Member(approval_id=self._docket.plan.approval_id, **standing))

    @property
    def _is_held(self) -> bool:
        waits = self._held_until is not None and workflow.now() < self._held_until
        return waits and not self._share.is_gone and self._renewed == self._docket.renewals

    # Cards of its own

    @property
    def shelf(self) -> Shelf:
        """What a new run needs to know of the cards."""
        return Shelf(
            generation=self._generation,
            sent_at=self._sent_at,
            message_ids=self._newest,
            complete=not self._on_their_way,
            due=self._renewed != self._docket.renewals,
            held_until=self._held_until,
            shared=self._share.card,
        )

    @property
    def _newest(self) -> tuple[str, ...]:
        """The messages of the cards; of very many, those that were sent last."""
        newest: list[str] = []
        room = sizes.CARDS
        for message_id in reversed(self._sent):
            room -= sizes.text_size(message_id) + 1
            if room < 0:
                break
            newest.append(message_id)
        return tuple(reversed(newest))

    def send_if_due(self, plan: Plan) -> None:
        """Send what was never sent, what a former run left half sent, what became another, and what grew too old."""
        if not plan.addresses or self._on_their_way or workflow.now() < self.due_at(plan):
            return
        if not self._interrupted:
            self._generation += 1
        self._interrupted, self._held_until = False, None
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
        if self._held_until is not None and self._is_held:
            return self._held_until
        if self._interrupted or self._sent_at is None or self._renewed != self._docket.renewals:
            return workflow.now()
        return self._sent_at + FRESH_FOR

    @property
    def is_due(self) -> bool:
        """Whether the cards lag behind."""
        plan = self._docket.plan
        idle = plan is not None and bool(plan.addresses) and not self._on_their_way and self._telling is None
        released = self._held_until is not None and not self._is_held
        return idle and (released or self._renewed != self._docket.renewals or self._told != self._docket.news)

    def tell_if_due(self, plan: Plan) -> None:
        """Say on the cards how far the approvers have come."""
        if not self.is_due or self._renewed != self._docket.renewals:
            return
        self._told = self._docket.news
        self._tell_bundle(progress=self._progress)
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
        return bool(self._generation) and not self._sent and self._share.card is None

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
            deadline=self._docket.result_deadline,
        )
        try:
            delivered = await self._deliver(delivery)
        except FailureError:
            return  # the approval is over
        finally:
            del self._on_their_way[place]  # here, not after: two may arrive in one task, and one of them is the last
        if delivered.message_id is not None:
            self._sent[delivered.message_id] = None
            self._docket.card_arrived(delivered.message_id)
        elif delivered.refused is not None:
            self._refusals.append(delivered.refused)
        for message_id in delivered.shared:
            self._docket.card_arrived(message_id)
        if not self._on_their_way:
            self._sent_at = workflow.now()
            self._docket.all_cards_arrived()
            self._tell_bundle(progress=progress)
        if len(self._refusals) == of and not self._sent and self._share.card is None:
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
        if not self._sent and self._share.card is None:
            return
        try:
            await workflow.wait_condition(lambda: not self._running, timeout=_NOTICEABLE)
        except TimeoutError:
            self._tell_bundle(decided=decided, progress=self._progress)
            if self._sent:
                revision = Revision(approval_id=plan.approval_id, decided=decided, progress=self._progress)
                await steps.attempted(names.SHOW, revision)

    def call_ended(self) -> None:
        self._running = False

    async def show_reviewing(self, plan: Plan, decided: Judged | None) -> None:
        """Say on the cards that the call has ended, and that its result waits to be released."""
        self._tell_bundle(decided=decided, reviewing=True)
        if self._sent:
            await steps.attempted(names.SHOW, Revision(approval_id=plan.approval_id, decided=decided, reviewing=True))
