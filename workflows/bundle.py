"""Several calls on one card: each is its own approval, and only the card is theirs together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names, sizes
    from assent.contracts.bundles import BundleAsked, BundleDelivered, BundleShown, Carded, Member, SharedCalls
    from assent.steps import DELIVER_BUNDLE, SHOW_BUNDLE
    from workflows.reading import read
    from workflows.steps import AT_ONCE, HERE, LOCAL, ONCE, OUTBOUND, SEEN_TO_ITS_END, take

GATHERING = timedelta(seconds=5)
"""How long a card waits for calls of which nothing was heard."""
SOON = timedelta(seconds=7)
"""How long the card may take, once it did not go at once, before every call is to send its own."""
_FINDABLE = timedelta(minutes=50)
"""How long a card that may have arrived can be sent again without arriving twice: Feishu says an hour."""
_CHANGEABLE = timedelta(days=14)
"""How long Feishu lets a card be changed."""
_MOST_STRAYS = 1000
"""How many that do not belong here are told so at once; who is not told sends a card of its own all the same."""
_FIRST_LOOK, _LAST_LOOK = timedelta(seconds=5), timedelta(hours=1)


@workflow.defn(name=names.BUNDLE)
class BundleWorkflow:
    """Sends one card for calls that were asked for together, and is the only one who writes it.

    It decides nothing. Whatever becomes of it, each call can be decided: where its card does not come, the calls send
    their own.
    """

    @workflow.init
    def __init__(self, asked: BundleAsked) -> None:
        self._bundle_id = asked.bundle_id
        self._ids = asked.approval_ids
        self._members = {member.approval_id: member for member in asked.members}
        self._sent_at = asked.sent_at
        self._strays: list[str] = []
        self._news = True
        self._arriving: asyncio.Task[None] | None = None
        """Cards that did not come soon, while those that are there are shown already."""

    @workflow.run
    async def run(self, asked: BundleAsked) -> None:
        if self._sent_at is None:
            await self._gather()
            if not await self._deliver():
                return
        await self._keep_showing()

    # The card

    async def _gather(self) -> None:
        """Wait until every call has opened or ended, but not for ever."""
        try:
            await workflow.wait_condition(lambda: self._members.keys() >= set(self._ids), timeout=GATHERING)
        except TimeoutError:
            workflow.logger.info("a bundle goes on without calls that were never heard of")
        self._ids = tuple(each for each in self._ids if each in self._members and not self._members[each].ended)

    async def _deliver(self) -> bool:
        """Send the card, and tell each call where it is shown; False if there is none."""
        if not self._ids:
            return False
        self._news = False
        delivered = await self._delivered_at_once()
        if delivered is None:
            delivering = asyncio.create_task(self._delivered())
            try:
                await workflow.wait_condition(delivering.done, timeout=SOON)
            except TimeoutError:
                await self._tell({each: Carded() for each in self._ids})
                if workflow.patched(names.RESISTING_BUNDLES):
                    self._sent_at = workflow.now()
                    self._arriving = asyncio.create_task(self._arrive(delivering))
                    return True
            delivered = await delivering or BundleDelivered()
        await self._tell_where(delivered)
        return bool(self._ids)

    async def _delivered_at_once(self) -> BundleDelivered | None:
        try:
            return await take(DELIVER_BUNDLE, self._shared_calls, LOCAL, within=AT_ONCE, retry=ONCE)
        except FailureError:
            self._news = True  # what is found there then may no longer be how they stand
            return None

    async def _delivered(self) -> BundleDelivered | None:
        """What became of the card; None if some of it did not arrive while it could be sent."""
        try:
            return await take(DELIVER_BUNDLE, self._shared_calls, OUTBOUND, within=_FINDABLE)
        except FailureError:
            return None

    async def _arrive(self, delivering: asyncio.Task[BundleDelivered | None]) -> None:
        """Wait for what did not come soon; where some of it never comes, what is there is the card."""
        delivered = await delivering
        if delivered is None:
            delivered = await take(DELIVER_BUNDLE, self._shared_calls.model_copy(update={"is_late": True}), HERE)
        await self._tell_where(delivered)
        self._arriving, self._news = None, True

    async def _tell_where(self, delivered: BundleDelivered) -> None:
        """Tell each call where it is shown; those that are not on the card do not belong here any more."""
        shared = {each.approval_id: each.message_ids for each in delivered.shared}
        on_it = tuple(each for each in self._ids if each in shared)
        await self._tell(
            {each: Carded(message_ids=shared.get(each, ()), approval_ids=on_it) for each in self._ids},
        )
        self._ids, self._sent_at = on_it, workflow.now()

    async def _keep_showing(self) -> None:
        """Show how the calls stand until all have ended, or nobody can change the card any more."""
        assert self._sent_at is not None
        last_call, look, shown = self._sent_at + _CHANGEABLE, _FIRST_LOOK, BundleShown(open=self._ids)
        while workflow.now() < last_call:
            if self._news:
                self._news = False
                shown = await self._shown()
            await self._tell({each: Carded() for each in self._strays})
            self._strays = []
            unfinished = {each for each in shown.open if self._is_over(each)} | set(shown.frozen)
            if not shown.open and not shown.frozen and self._arriving is None:
                return
            if self._is_long:
                self._continue()
            pause, look = (look, min(look * 2, _LAST_LOOK)) if unfinished else (last_call - workflow.now(), _FIRST_LOOK)
            try:
                await workflow.wait_condition(lambda: self._news or bool(self._strays) or self._is_long, timeout=pause)
            except TimeoutError:
                self._news = True

    def _is_over(self, approval_id: str) -> bool:
        """Whether a call has ended, as it said itself."""
        return approval_id in self._members and self._members[approval_id].ended

    async def _shown(self) -> BundleShown:
        """However long Feishu takes, until there is something newer to show; never while an older try goes on."""
        showing = asyncio.create_task(self._show())
        await workflow.wait_condition(lambda: showing.done() or self._news)
        if not showing.done() and workflow.patched(names.RESISTING_BUNDLES):
            showing.cancel()
        return await showing

    async def _show(self) -> BundleShown:
        try:
            return await take(SHOW_BUNDLE, self._shared_calls, OUTBOUND, within=_CHANGEABLE, given_up=SEEN_TO_ITS_END)
        except FailureError:
            return BundleShown(open=self._ids)

    @property
    def _is_long(self) -> bool:
        """Whether the next run is to go on; what is on its way arrives in this one."""
        return self._arriving is None and workflow.info().is_continue_as_new_suggested()

    def _continue(self) -> None:
        workflow.continue_as_new(
            BundleAsked(
                bundle_id=self._bundle_id,
                approval_ids=self._ids,
                members=self._shared_calls.members,
                sent_at=self._sent_at,
            )
        )

    @property
    def _shared_calls(self) -> SharedCalls:
        members = (self._members.get(each) or Member(approval_id=each) for each in self._ids)
        return SharedCalls(bundle_id=self._bundle_id, members=tuple(members))

    # Talking to the calls

    async def _tell(self, news: dict[str, Carded]) -> None:
        """Tell each call what concerns it; one that has ended needs no telling."""
        await asyncio.gather(*(_signal(each, carded) for each, carded in news.items()))

    @workflow.signal(name=names.NEWS, description="How one of the calls stands.")
    def _on_news(self, *said: Any) -> None:
        member = read(Member, said)
        if member is None:
            return
        if member.approval_id in self._ids:
            others = (each for key, each in self._members.items() if key != member.approval_id)
            room = min(sizes.STANDING, sizes.BUNDLE - sizes.total(others))
            for spared in ("progress", "decided"):  # the card shows how far it has come without naming everybody
                if sizes.size(member) > room:
                    member = member.model_copy(update={spared: None})
            self._members[member.approval_id] = member
            self._news = True
        elif not member.ended and len(self._strays) < _MOST_STRAYS:
            self._strays.append(member.approval_id)


async def _signal(approval_id: str, carded: Carded) -> None:
    try:
        await workflow.get_external_workflow_handle(names.approval_workflow(approval_id)).signal(names.CARDED, carded)
    except FailureError:
        return
