"""What waits for a person, told in a private chat."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio import activity

from activities.cards import later
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.memberships import learn_members
from assent.contracts.address import Address
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

    async def _waiting(self, person: Identity) -> AsyncIterator[awaited.Waits]:
        """All that waits for a person, the oldest first; of very much, the beginning."""
        await learn_members(self._ledger, self._feishu)
        offset: int | None = 0
        while offset is not None and offset < _MOST_COUNTED:
            page = await self._ledger.waiting_for(person, offset, _PAGE, activity.info().namespace)
            for each in page[0]:
                yield each
            offset = page[1]

    async def _listed(self, waiting: list[awaited.Waits]) -> list[Waiting]:
        plans = [(await self._ledger.plan(each.approval_id), each.awaited.subject) for each in waiting]
        return [Waiting(plan, subject) for plan, subject in plans if plan is not None]
