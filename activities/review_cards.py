"""What Feishu is shown of a frozen call: to the operators while it is open, to everyone once it is settled."""

from __future__ import annotations

import logging

from activities.cards import CardActivities, address_of, together
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused
from activities.links import review_url
from assent.contracts.address import Address, AddressKind
from assent.contracts.deliver import Revision
from assent.contracts.review import Examination, Examined, FrozenCall
from assent.settings import Settings
from cards import ReviewShowing, Wording, review_card, settled_notice
from ledger import Ledger, MessageKind, Record, Shown, Slot

_log = logging.getLogger(__name__)


class ReviewCards:
    """The cards of frozen reviews. The review is their one writer, and from its settling on that of the approval's."""

    def __init__(
        self, ledger: Ledger, feishu: Feishu, wording: Wording, settings: Settings, approvals: CardActivities
    ) -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._wording = wording
        self._settings = settings
        self._approvals = approvals

    async def show(self, examination: Examination, examined: Examined) -> None:
        """Bring the operators' card to how the review stands; once it is settled, tell everyone who waited."""
        frozen = examination.frozen
        waited = dict.fromkeys((frozen.call.approval_id, *examination.told)) if frozen.settlement is not None else ()
        await together(
            *([self._show_operators(examination, examined)] if self._settings.operators_chat else ()),
            *(self._tell(approval_id) for approval_id in waited),
        )

    async def _tell(self, approval_id: str) -> None:
        """Tell those who waited for one approval what was settled."""
        await self._approvals.show(Revision(approval_id=approval_id))
        await self._notify(approval_id)

    async def _show_operators(self, examination: Examination, examined: Examined) -> None:
        """Bring their card to how the review stands; a form that came as it was settled does not stay."""
        record = await self._record(examination)
        frozen = await self._standing(examination, record)
        try:
            await self._bring(record, frozen, examined)
        finally:  # what failed may have landed, and is not tried again once it was settled
            if frozen.settlement is None and (now := await self._record(examination)).settlement is not None:
                await self._bring(now, await self._standing(examination, now), examined)

    async def _record(self, examination: Examination) -> Record:
        record = await self._ledger.record(examination.frozen.call.approval_id)
        assert record is not None, "a frozen call has a plan"
        return record

    async def _standing(self, examination: Examination, record: Record) -> FrozenCall:
        """The call as it stands: with what was settled of it since somebody looked."""
        frozen = examination.frozen
        if frozen.settlement is not None or record.settlement is None:
            return frozen
        ruled = await self._ledger.rule(Examination(frozen=frozen, now=examination.now))  # as all who waited may see it
        return frozen.model_copy(update={"settlement": ruled.settlement})

    async def _bring(self, record: Record, frozen: FrozenCall, examined: Examined) -> None:
        """One card, sent afresh with every reminder; the older ones lose their buttons."""
        newest = Slot(
            approval_id=frozen.call.approval_id,
            kind=MessageKind.REVIEW,
            generation=frozen.reminders + 1,
            place=0,
        )
        showing = ReviewShowing(
            plan=record.plan,
            frozen=frozen,
            examined=examined,
            settlement=frozen.settlement,
            url=review_url(self._settings.temporal_ui, record.plan.idempotency_key),
            operators=self._settings.operators,
        )
        known = {message.slot: message for message in record.messages}
        address = Address(kind=AddressKind.CHAT_ID, id=self._settings.operators_chat)
        content = review_card(showing, self._wording)
        shown = Shown.SETTLED if frozen.settlement is not None else Shown.PENDING
        try:
            if newest in known and (message_id := known[newest].message_id):
                await self._feishu.patch(message_id, content)
            elif frozen.settlement is None or newest in known:
                await self._ledger.intend(newest, after_end=True)
                sent = await self._feishu.send(address, "interactive", content, uuid=newest.uuid)
                await self._ledger.sent(newest, sent.message_id, sent.chat_id, shown)
                if newest in known:  # what was tried before may have arrived
                    await self._feishu.patch(sent.message_id, content)
        except FeishuRefused as refused:
            _log.warning("the operators do not see the review of %s: %s", frozen.call.approval_id, refused)
        if frozen.settlement is not None:
            await self._ledger.shows(newest, shown)
        older = showing.model_copy(update={"replaced": True})
        for slot, message in known.items():
            if slot.kind is not MessageKind.REVIEW or slot.generation >= newest.generation:
                continue
            if message.message_id is None or message.shown is Shown.REPLACED:
                continue
            try:
                await self._feishu.patch(message.message_id, review_card(older, self._wording))
            except FeishuRefused as refused:
                _log.warning("an older card of the review of %s stays: %s", frozen.call.approval_id, refused)
            await self._ledger.shows(slot, Shown.REPLACED)

    async def _notify(self, approval_id: str) -> None:
        """A reply in the approval's conversation, once: its requester learns of it without looking."""
        record = await self._ledger.record(approval_id)
        if record is None or record.settlement is None:
            return
        for message in record.messages:
            if message.slot.kind is not MessageKind.CARD or message.message_id is None:
                continue
            slot = message.slot.model_copy(update={"kind": MessageKind.NOTICE, "generation": 1})
            if any(other.slot == slot and other.message_id for other in record.messages):
                continue
            address = address_of(record, message).model_copy(update={"reply_to": message.message_id})
            await self._ledger.intend(slot, after_end=True)
            content = settled_notice(record.settlement, record.plan, self._wording)
            try:
                sent = await self._feishu.send(address, "interactive", content, uuid=slot.uuid)
            except FeishuRefused as refused:
                _log.warning("the requester of %s is not told: %s", approval_id, refused)
                continue
            await self._ledger.sent(slot, sent.message_id, sent.chat_id, Shown.FINAL)
