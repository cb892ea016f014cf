"""What waits for a person, told in a private chat."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio import activity

from activities.cards import later
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Stage
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.contracts.permission import ResultReview
from assent.contracts.plan import Plan
from assent.names import REPLY_INBOX, inbox_reply_workflow
from assent.payload import sha256
from assent.settings import Settings
from cards import Wording
from cards.inbox import MOST_LISTED, Waiting, inbox_card
from ledger import Ledger

_PAGE = 50
"""How many plans are read at once: each may hold hundreds of kilobytes."""


class InboxActivities:
    """The bot's answers to what people write to it."""

    def __init__(self, ledger: Ledger, feishu: Feishu, wording: Wording, settings: Settings) -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._wording = wording
        self._settings = settings

    @activity.defn(name=REPLY_INBOX)
    async def reply_inbox(self, enquiry: Enquiry) -> None:
        """Answer a message with what waits for whoever wrote it: once, as far as Feishu remembers what it sent."""
        person = enquiry.sender.within(self._settings.feishu_tenant_key or None)
        try:
            waiting = [each async for each in self._waiting(person)]
            content = inbox_card(waiting[:MOST_LISTED], max(len(waiting) - MOST_LISTED, 0), self._wording)
            to = Address.of(person).model_copy(update={"reply_to": enquiry.message_id})
            uuid = sha256(inbox_reply_workflow(enquiry.message_id))[:40]
            await self._feishu.send(to, "interactive", content, uuid=uuid)
        except FeishuRefused as refused:
            activity.logger.warning("message %s cannot be answered: %s", enquiry.message_id, refused)
        except FeishuUnavailable as error:
            raise later(error) from error

    async def _waiting(self, person: Identity) -> AsyncIterator[Waiting]:
        async for plan in self._open_plans():
            if await self._may_decide(plan, person) and (stage := await self._awaited(plan, person)):
                yield Waiting(plan, stage)

    async def _open_plans(self) -> AsyncIterator[Plan]:
        offset: int | None = 0
        while offset is not None:
            plans, offset = await self._ledger.open_plans(offset, _PAGE, activity.info().namespace)
            for plan in plans:
                yield plan

    async def _may_decide(self, plan: Plan, person: Identity) -> bool:
        """Whether this person is among those who decide, in whichever stage."""
        for stage in plan.approvers.stages:
            if stage.include(person, plan.requester) and await self._belongs(stage, person):
                return True
        return False

    async def _belongs(self, stage: Approvers, person: Identity) -> bool:
        """Whether this person is in the chat whose members are meant; of one that cannot be read, nobody is told."""
        if stage.kind is not Approvers.Kind.CHAT or stage.chat_id is None:
            return True
        try:
            return person.open_id in await self._feishu.members(stage.chat_id)
        except FeishuRefused:
            return False

    async def _awaited(self, plan: Plan, person: Identity) -> Stage | None:
        """What of it waits for this person, as far as the ledger knows: the call, its result, or nothing."""
        is_reviewed = plan.permission.result is not ResultReview.NEVER
        if is_reviewed and await self._ledger.result(plan.approval_id) is not None:
            return Stage.RESULT
        record = await self._ledger.record(plan.approval_id)
        if record is None or record.outcome is not None or plan.asks_nobody:
            return None
        if len(record.approvals) >= sum(stage.threshold for stage in plan.approvers.stages):
            return None  # it runs
        mine = (judged.actor.within(plan.tenant_key).is_same_person(person) for judged in record.approvals)
        return None if any(mine) else Stage.CALL
