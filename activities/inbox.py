"""What waits for a person, told in a private chat."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio import activity

from activities.cards import later
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.memberships import learn_members
from assent.client.reader import WaitingQuestion
from assent.contracts.address import Address
from assent.contracts.asking import QuestionPlan
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.names import REPLY_INBOX, inbox_reply_workflow
from assent.payload import sha256
from assent.settings import Settings
from cards import Wording
from cards.inbox import MOST_LISTED, Waiting, inbox_card
from ledger import Ledger, awaited

_PAGE, _MOST_COUNTED = 200, 1000
"""How many are looked at at once, and how many are counted."""


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
            listed = await self._listed(waiting[:MOST_LISTED])
            content = inbox_card(listed, max(len(waiting) - MOST_LISTED, 0), self._wording)
            to = Address.of(person).model_copy(update={"reply_to": enquiry.message_id})
            uuid = sha256(inbox_reply_workflow(enquiry.message_id))[:40]
            await self._feishu.send(to, "interactive", content, uuid=uuid)
        except FeishuRefused as refused:
            activity.logger.warning("message %s cannot be answered: %s", enquiry.message_id, refused)
        except FeishuUnavailable as error:
            raise later(error) from error

    async def _waiting(self, person: Identity) -> AsyncIterator[awaited.Waits | WaitingQuestion]:
        """All that waits for a person, questions last, the oldest first; of very much, the beginning."""
        await learn_members(self._ledger, self._feishu)
        for pages in (self._ledger.waiting_for, self._ledger.asked_of):
            offset: int | None = 0
            while offset is not None and offset < _MOST_COUNTED:
                found, offset = await pages(person, offset, _PAGE, activity.info().namespace)
                for each in found:
                    yield each

    async def _listed(self, waiting: list[awaited.Waits | WaitingQuestion]) -> list[Waiting | QuestionPlan]:
        found = [await self._line(each) for each in waiting]
        return [each for each in found if each is not None]

    async def _line(self, waits: awaited.Waits | WaitingQuestion) -> Waiting | QuestionPlan | None:
        if isinstance(waits, WaitingQuestion):
            record = await self._ledger.question_record(waits.question_id)
            return record.plan if record else None
        plan = await self._ledger.plan(waits.approval_id)
        return Waiting(plan, waits.awaited.subject) if plan else None
