"""What Feishu is shown of an approval: deliver its cards, and bring them to how it stands."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.feishu import Feishu, FeishuError, FeishuRefused, FeishuUnavailable, Sent
from activities.links import review_url
from assent import names
from assent.contracts import Plan
from assent.messages import Delivered, Delivery, Revision
from assent.payload import sha256
from cards import Attachment, Showing, Wording, card, overflow
from ledger import Ledger, Message, MessageKind, Record, Shown, Slot

_log = logging.getLogger(__name__)
_TOO_OLD = 230031
"""Feishu changes no card that is older than fourteen days."""
_PROMPTLY = timedelta(seconds=2)


class CardActivities:
    """The cards of one Feishu app. One writer per card: the approval, or the workflow it was handed to."""

    def __init__(self, ledger: Ledger, feishu: Feishu, wording: Wording, temporal_ui: str = "") -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._wording = wording
        self._temporal_ui = temporal_ui

    @activity.defn(name=names.DELIVER)
    async def deliver(self, delivery: Delivery) -> Delivered:
        """Send one card, once; before it the file that holds what the card cannot."""
        record = await self._record(delivery.approval_id)
        slot = Slot(
            approval_id=delivery.approval_id,
            kind=MessageKind.CARD,
            generation=delivery.generation,
            place=delivery.place,
        )
        try:
            await self._attach(record, slot)
            content = card(self._showing(record), self._wording)
            message_id = await self._send(record.plan, slot, "interactive", content, Shown.PENDING)
        except FeishuRefused as refused:
            return Delivered(refused=str(refused))
        except FeishuUnavailable as error:
            raise later(error) from error
        if message_id is None:
            return Delivered()
        await self._replace_older(record, slot)
        return Delivered(message_id=message_id)

    @activity.defn(name=names.SHOW)
    async def show(self, revision: Revision) -> None:
        """Bring every card to how the approval stands."""
        record = await self._ledger.record(revision.approval_id)
        if record is None:
            return  # nobody was asked: there is no card
        if record.decided is None and revision.decided is not None:
            record = record.model_copy(update={"decided": revision.decided})
        trouble: FeishuUnavailable | None = None
        for message in _cards(record):
            try:
                await self._bring(record, message)
            except FeishuUnavailable as error:
                trouble = error
        if trouble is not None:
            raise later(trouble) from trouble

    async def finish(self, approval_id: str) -> bool:
        """Show the ending promptly; False if that has to be tried again later."""
        try:
            async with asyncio.timeout(_PROMPTLY.total_seconds()):
                await self.show(Revision(approval_id=approval_id))
        except (TimeoutError, ApplicationError):
            return False
        return True

    async def _record(self, approval_id: str) -> Record:
        record = await self._ledger.record(approval_id)
        assert record is not None, "a plan is stored before anything is shown of it"
        return record

    def _showing(self, record: Record, *, replaced: bool = False) -> Showing:
        file = overflow(record.plan, self._wording)
        return Showing(
            plan=record.plan,
            decided=record.decided,
            outcome=record.outcome,
            ended_at=record.closed_at,
            settlement=record.settlement,
            attachment=Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data)) if file else None,
            replaced=replaced,
            twin_url=review_url(self._temporal_ui, record.twin_key),
        )

    async def _attach(self, record: Record, card_slot: Slot) -> None:
        """What the card cannot hold goes to the conversation first: nobody approves what could not be read."""
        file = overflow(record.plan, self._wording)
        slot = card_slot.model_copy(update={"kind": MessageKind.FILE})
        if file is None or any(message.slot == slot and message.message_id for message in record.messages):
            return
        key = await self._feishu.upload(file.name, file.data)
        await self._send(record.plan, slot, "file", json.dumps({"file_key": key}), Shown.FINAL)

    async def _send(self, plan: Plan, slot: Slot, kind: str, content: str, shown: Shown) -> str | None:
        """Send one message unless it is known to be there; None if the approval has ended meanwhile."""
        intended = await self._ledger.intend(slot)
        if intended is None or intended.message_id is not None:
            return intended.message_id if intended else None
        sent = await self._feishu.send(plan.addresses[slot.place], kind, content, uuid=slot.uuid)
        await self._note(slot, sent, shown)
        return sent.message_id

    async def _note(self, slot: Slot, sent: Sent, shown: Shown) -> None:
        """The moment a message id is known it is in the ledger; being cut off just now must not lose it."""
        await asyncio.shield(self._ledger.sent(slot, sent.message_id, sent.chat_id, shown))

    async def _bring(self, record: Record, message: Message) -> None:
        """Bring one card to how the approval stands."""
        ended = record.outcome is not None
        shown = Shown.SETTLED if record.settlement else Shown.FINAL if ended else Shown.DECIDED
        if message.shown is shown or (message.shown is Shown.REPLACED and not ended):
            return
        if message.message_id is None and not ended:
            return
        content = card(self._showing(record), self._wording)
        try:
            message_id = message.message_id or await self._find(record, message.slot, content)
            await self._feishu.patch(message_id, content)
        except FeishuRefused as refused:
            await self._give_up(record, message, content, refused)
        if not ended and (now := await self._ledger.record(record.plan.approval_id)) and now.outcome is not None:
            await self._bring(now, message)  # it ended meanwhile: what was just shown may have covered the end
            return
        await self._ledger.shows(message.slot, shown)

    async def _find(self, record: Record, slot: Slot, content: str) -> str:
        """A card that was tried and never confirmed: sent again under its uuid it is found, or sent as it should be."""
        sent = await self._feishu.send(record.plan.addresses[slot.place], "interactive", content, uuid=slot.uuid)
        await self._note(slot, sent, Shown.PENDING)
        return sent.message_id

    async def _give_up(self, record: Record, message: Message, content: str, refused: FeishuRefused) -> None:
        """A card that cannot be changed any more: one that is too old is followed by a new one."""
        newest = max(other.slot.generation for other in _cards(record))
        if refused.code != _TOO_OLD or message.slot.generation != newest or record.outcome is None:
            _log.warning("a card of approval %s stays as it is: %s", record.plan.approval_id, refused)
            return
        address = record.plan.addresses[message.slot.place]
        slot = message.slot.model_copy(update={"generation": newest + 1})
        try:
            await self._feishu.send(address, "interactive", content, uuid=slot.uuid)
        except FeishuRefused as again:
            _log.warning("the ending of approval %s cannot be shown: %s", record.plan.approval_id, again)

    async def _replace_older(self, record: Record, slot: Slot) -> None:
        """The card that a newer one follows loses its buttons, as far as Feishu lets it."""
        for message in _cards(record):
            older = message.slot.place == slot.place and message.slot.generation < slot.generation
            if not older or message.message_id is None or message.shown is Shown.REPLACED:
                continue
            try:
                await self._feishu.patch(message.message_id, card(self._showing(record, replaced=True), self._wording))
                await self._ledger.shows(message.slot, Shown.REPLACED)
            except FeishuError as error:
                _log.warning("an older card of approval %s keeps its buttons for now: %s", slot.approval_id, error)


def _cards(record: Record) -> list[Message]:
    return [message for message in record.messages if message.slot.kind is MessageKind.CARD]


def later(error: FeishuUnavailable) -> ApplicationError:
    delay = timedelta(seconds=error.retry_after) if error.retry_after else None
    return ApplicationError(
        str(error), type="FeishuUnavailable", next_retry_delay=delay, category=ApplicationErrorCategory.BENIGN
    )
