"""What waits for a person, told in a private chat."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio import activity

from activities.cards import later
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.links import chat_url
from activities.memberships import learn_members
from assent.client.reader import WaitingQuestion
from assent.contracts.address import Address
from assent.contracts.asking import QuestionPlan
from assent.contracts.decision import Stage
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.names import REPLY_INBOX, inbox_reply_workflow
from assent.payload import sha256
from assent.settings import Settings
from cards import Wording
from cards.inbox import MOST_LISTED, Place, Waiting, inbox_card
from ledger import Ledger, awaited
from ledger.messages import MessageKind, Record

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
        found, subject = await self._ledger.record(waits.approval_id), waits.awaited.subject
        return Waiting(found.plan, subject, await self._place(found, subject)) if found else None

    async def _place(self, record: Record, subject: Stage) -> Place | None:
        """The group that has its newest card; None where that is private, and so where the answer goes, or unknown."""
        kind = MessageKind.RESULT if subject is Stage.RESULT else MessageKind.CARD
        cards = [each for each in record.messages if each.slot.kind is kind and each.chat_id]
        newest = max(cards, key=lambda each: each.slot.generation, default=None)
        if newest is None or newest.chat_id is None:
            return None
        chat = await self._feishu.chat(newest.chat_id)
        if chat.is_private:
            return None
        return Place(chat.name or newest.chat_id, chat_url(self._settings.feishu_domain, newest.chat_id))
