"""What a run needs of the ledger and of Feishu: the line that answers it, and the message that says how far it is."""

from __future__ import annotations

from temporalio import activity

from activities.cards import Sending, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused
from activities.planning import addresses_of
from assent import names
from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.runs import (
    ClaimedLine,
    LineClaim,
    LineOffer,
    LineOffered,
    LineQuestion,
    LineReport,
    LineWritten,
    Run,
    RunHolder,
    RunShowing,
    RunStart,
)
from assent.settings import Settings
from cards import Wording, run_card
from ledger import Ledger, MessageKind, Shown, Slot


class LineActivities:
    """The activities of the approvals queue that are about lines for running programs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @activity.defn(name=names.OFFER_LINE)
    async def offer_line(self, line: LineOffer) -> LineOffered:
        """Keep the line for whoever holds the pipe."""
        return await self._ledger.offer_line(line)

    @activity.defn(name=names.CLAIM_LINE)
    async def claim_line(self, wish: LineClaim) -> ClaimedLine:
        """Hand it to whoever writes it."""
        return await self._ledger.claim_line(wish)

    @activity.defn(name=names.CONFIRM_LINE)
    async def confirm_line(self, written: LineWritten) -> LineReport:
        """It was written."""
        return await self._ledger.confirm_line(written)

    @activity.defn(name=names.CLOSE_LINE)
    async def close_line(self, asked: LineQuestion) -> LineReport:
        """What became of it; nobody takes it any more."""
        return await self._ledger.close_line(asked)


class RunCards:
    """The messages that say how far runs are. One writer for each: the run's workflow."""

    def __init__(self, ledger: Ledger, settings: Settings, feishu: Feishu | None, wording: Wording | None) -> None:
        self._ledger = ledger
        self._settings = settings
        self._feishu = feishu
        self._wording = wording

    @activity.defn(name=names.SHOW_RUN)
    async def show_run(self, showing: RunShowing) -> None:
        """Let the run's message say what it said last; note that it ended, where nobody else does."""
        start, news = showing.start, showing.news
        if start.approval_id is None and not await self._is_own(start):
            return
        if news.has_ended and start.approval_id is None:
            await self._ledger.end_run(start.run_id, news.exit_code)
        if self._feishu is None or self._wording is None or news.summary is None:
            return
        content = run_card(showing, self._wording)
        for place, address in enumerate(await self._addresses(start)):
            with told():
                await self._show(self._feishu, start.run_id, place, address, content)

    async def _is_own(self, start: RunStart) -> bool:
        """Whether a run is whose token speaks of it: it belongs to the first that did."""
        run = Run(run_id=start.run_id, holder=RunHolder.CLIENT, tool=start.tool, tool_session_id=start.run_id)
        return await self._ledger.own_run(run, start.asked_by)

    async def _show(self, feishu: Feishu, run_id: str, place: int, address: Address, content: str) -> None:
        feishu.check(address)
        slot = Slot(approval_id=names.run_workflow(run_id), kind=MessageKind.NOTICE, generation=1, place=place)
        known = await self._ledger.intend(slot, address=address, after_end=True)
        try:
            if known is not None and known.message_id is not None:
                await feishu.patch(known.message_id, content)
            else:
                await Sending(self._ledger, feishu).send(
                    slot, address, "interactive", content, Shown.PENDING, after_end=True
                )
        except FeishuRefused:
            return  # nobody waits for it

    async def _addresses(self, start: RunStart) -> tuple[Address, ...]:
        if start.approval_id is not None:
            plan = await self._ledger.plan(start.approval_id)
            return plan.addresses if plan else ()
        return addresses_of(self._settings, start.requester, Approvers(), start.chat_id, None)
