"""What Feishu is shown of a question: deliver its cards, and bring them to how it stands."""

from __future__ import annotations

import logging

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cards import Sending, together, told
from activities.feishu.breaker import hurried
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuError, FeishuRefused
from assent import names
from assent.contracts.asking import QuestionDelivery, QuestionPlan, QuestionRevision
from assent.contracts.deliver import Delivered
from cards import QuestionShowing, Wording, can_be_shown, question_card
from ledger import Ledger, Message, MessageKind, QuestionRecord, Shown, Slot

_log = logging.getLogger(__name__)


class QuestionCards:
    """The cards of questions. One writer per card: the question, or the workflow it was handed to."""

    def __init__(self, ledger: Ledger, feishu: Feishu, wording: Wording) -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._wording = wording
        self._sending = Sending(ledger, feishu)

    @activity.defn(name=names.DELIVER_QUESTION)
    async def deliver_question(self, delivery: QuestionDelivery) -> Delivered:
        """Send one card, once."""
        with told():
            self._feishu.check(delivery.address)
            record = await self._record(delivery.question_id)
            slot = Slot(
                approval_id=names.question_workflow(delivery.question_id),
                kind=MessageKind.CARD,
                generation=delivery.generation,
                place=delivery.place,
            )
            content = self._content(QuestionShowing(plan=record.plan, reminder=delivery.reminder))
            try:
                message_id = await self._sending.send(slot, delivery.address, "interactive", content, Shown.PENDING)
            except FeishuRefused as refused:
                return Delivered(refused=str(refused))
            if message_id is not None and delivery.generation > 1:
                await self._replace_older(delivery)
            return Delivered(message_id=message_id)

    @activity.defn(name=names.SHOW_QUESTION)
    async def show_question(self, revision: QuestionRevision) -> None:
        """Let every card show how the question ended."""
        record = await self._record(revision.question_id)
        if record.outcome is not None:
            await together(*(self._bring(record, each) for each in record.messages))

    async def finish(self, question_id: str) -> bool:
        """Show the ending promptly; False if that has to be tried again later."""
        try:
            with hurried():
                await self.show_question(QuestionRevision(question_id=question_id))
        except ApplicationError:
            return False
        except Exception as error:  # whatever is wrong with a card, the ending is told; another workflow goes on trying
            _log.warning("question %s has ended, and its cards cannot show it: %s", question_id, type(error).__name__)
            return False
        return True

    def can_show(self, plan: QuestionPlan) -> bool:
        """Whether a card can hold the questions: nobody answers what could not be read."""
        return can_be_shown(plan, self._wording)

    async def _record(self, question_id: str) -> QuestionRecord:
        record = await self._ledger.question_record(question_id)
        assert record is not None, "a plan is stored before anything is shown of it"
        return record

    def _content(self, showing: QuestionShowing) -> str:
        return question_card(showing, self._wording)

    async def _bring(self, record: QuestionRecord, message: Message) -> None:
        """Let one card show the end; one that was tried and never confirmed is found under its uuid, or sent so."""
        if message.shown is Shown.FINAL:
            return
        if message.message_id is not None:
            self._feishu.check_message(message.message_id)
        content = self._content(QuestionShowing(plan=record.plan, outcome=record.outcome))
        address = message.address or record.plan.addresses[message.slot.place]
        try:
            message_id = message.message_id or await self._sending.find(message.slot, address, content)
            await self._feishu.patch(message_id, content)
        except FeishuRefused as refused:
            _log.warning("a card of question %s stays as it is: %s", record.plan.question_id, refused)
        await self._ledger.shows(message.slot, Shown.FINAL)

    async def _replace_older(self, delivery: QuestionDelivery) -> None:
        """The cards that newer ones follow lose their buttons, as far as Feishu lets them."""
        record = await self._record(delivery.question_id)
        if record.outcome is not None:
            return  # the end is on its way to all of them
        content = self._content(QuestionShowing(plan=record.plan, replaced=True))
        for message in record.messages:
            is_older = message.slot.place == delivery.place and message.slot.generation < delivery.generation
            if not is_older or message.message_id is None or message.shown is Shown.REPLACED:
                continue
            try:
                await self._feishu.patch(message.message_id, content)
                now = await self._record(delivery.question_id)
                if now.outcome is not None:
                    await self._bring(now, message)  # it ended meanwhile: what was shown may have covered the end
                else:
                    await self._ledger.shows(message.slot, Shown.REPLACED)
            except FeishuError as error:
                _log.warning("an older card of question %s keeps its buttons: %s", delivery.question_id, error)
