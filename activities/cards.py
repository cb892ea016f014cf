"""What Feishu is shown of an approval: deliver its cards, and bring them to how it stands."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.card_builder import CardBuilder
from activities.feishu.answers import Sent
from activities.feishu.breaker import hurried
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuSilent, FeishuUnavailable
from activities.feishu.pacing import Memory
from activities.showings import CardContent, CardState, Showings
from assent import names
from assent.contracts.address import Address
from assent.contracts.deliver import CardKind, Delivered, Delivery, Revision
from assent.contracts.prepare import SentBefore
from assent.contracts.state import Progress
from assent.contracts.status import Status
from cards import Wording
from ledger import Ledger, Message, MessageKind, Record, Shown, Slot

_log = logging.getLogger(__name__)
_TOO_OLD = 230031
"""Feishu changes no card that is older than fourteen days."""
_SILENCE, _LONGEST_SILENCE = 3.0, 60.0
"""How many seconds after it first did not answer Feishu is tried again; ever later, up to this."""
_AT_ONCE = 8
"""How many cards of one activity are brought up to date at the same time."""
_MOST_BROUGHT = 10_000
_LEAVING = 0.5
"""How many seconds before its time is over a try is given up."""
_KINDS = {CardKind.CALL: MessageKind.CARD, CardKind.RESULT: MessageKind.RESULT}


class Sending:
    """Sends messages once, each noted in the ledger before it is tried and when it is there."""

    def __init__(self, ledger: Ledger, feishu: Feishu) -> None:
        self._ledger = ledger
        self._feishu = feishu

    async def send(
        self, slot: Slot, address: Address, kind: str, content: str, shown: Shown, *, after_end: bool = False
    ) -> str | None:
        """Send one message unless it is known to be there; None if what it is about has ended meanwhile."""
        intended = await self._ledger.intend(slot, address=address, after_end=after_end)
        if intended is None or intended.message_id is not None:
            return intended.message_id if intended else None
        sent = await self._feishu.send(intended.address or address, kind, content, uuid=slot.uuid)
        await self._note(slot, sent, shown)
        return sent.message_id

    async def find(self, slot: Slot, address: Address, content: str) -> str:
        """A card that was tried and never confirmed: sent again under its uuid it is found, or sent as it should be."""
        sent = await self._feishu.send(address, "interactive", content, uuid=slot.uuid)
        await self._note(slot, sent, Shown.PENDING)
        return sent.message_id

    async def _note(self, slot: Slot, sent: Sent, shown: Shown) -> None:
        """The moment a message id is known it is in the ledger; being cut off just now must not lose it."""
        await asyncio.shield(self._ledger.sent(slot, sent.message_id, sent.chat_id, shown))


class CardActivities:
    """The cards of one Feishu app. One writer per card: the approval, or the workflow it was handed to."""

    def __init__(
        self,
        ledger: Ledger,
        feishu: Feishu,
        wording: Wording,
        temporal_ui: str = "",
        builder: CardBuilder | None = None,
    ) -> None:
        self._ledger = ledger
        self.feishu, self.wording = feishu, wording
        self.showings = Showings(ledger, wording, temporal_ui, builder)
        self._sending = Sending(ledger, feishu)
        self._brought: Memory[None] = Memory(_MOST_BROUGHT)
        self._turns: Memory[int] = Memory(_MOST_BROUGHT)
        self._next_turn = itertools.count(1)

    @activity.defn(name=names.DELIVER)
    async def deliver(self, delivery: Delivery) -> Delivered:
        """Send one card, once; before it the file that holds what the card cannot."""
        return await self.deliver_of(delivery, None)

    async def deliver_of(self, delivery: Delivery, record: Record | None) -> Delivered:
        """The same, of an approval that is known already."""
        with prompt():
            return await self._deliver(delivery, record)

    async def _deliver(self, delivery: Delivery, record: Record | None) -> Delivered:
        if delivery.address is not None:
            with told():
                self.feishu.check(delivery.address)
        record = record or await self._record(delivery.approval_id)
        slot = Slot(
            approval_id=delivery.approval_id,
            kind=_KINDS[delivery.kind],
            generation=delivery.generation,
            place=delivery.place,
        )
        address = delivery.address or record.plan.addresses[delivery.place]
        is_same = delivery.payload_sha256 in (None, record.plan.payload_sha256)
        progress = delivery.progress if is_same else None  # nobody has approved what an edit made of it
        is_overtaken = any(
            each.slot.kind is slot.kind and each.slot.generation > slot.generation for each in record.messages
        )
        card_state = CardState(
            progress=progress, reminder=delivery.reminder, deadline=delivery.deadline, replaced=is_overtaken
        )
        try:
            content = await self.showings.content(slot.kind, record, card_state)
            await self._attach(record, slot, address, content)
            message_id = await self._sending.send(slot, address, "interactive", content.card, Shown.PENDING)
        except FeishuRefused as refused:
            return Delivered(refused=str(refused))
        except FeishuUnavailable as error:
            raise later(error) from error
        if message_id is None:
            return Delivered()
        shared = tuple(
            each.message_id for each in record.messages if each.slot.kind is MessageKind.BUNDLE and each.message_id
        )
        left = False
        if slot.generation > 1:
            with hurried():  # until this step is over, no click on the new card is judged
                left = not await self._replace_older(slot, delivery)
        return Delivered(message_id=message_id, shared=shared, leaves_older=left)

    @activity.defn(name=names.SHOW)
    async def show(self, revision: Revision) -> None:
        """Bring every card to how the approval stands."""
        record = await self._ledger.record(revision.approval_id)
        if record is None:
            return  # nobody was asked: there is no card
        if record.decided is None and revision.decided is not None:
            record = record.model_copy(update={"decided": revision.decided})
        if record.outcome is None and revision.payload_sha256 not in (None, record.plan.payload_sha256):
            return  # newer cards show what an edit made of it
        card_state = CardState.of(revision)
        step = _step()
        cards = sorted(_cards(record), key=partial(self._last_turn, step))
        with told():
            async with in_time():
                await together(
                    *(self._bring_in_time(record, each, card_state, step) for each in cards), self._notify(record)
                )

    async def finish(self, approval_id: str) -> bool:
        """Show the ending promptly; False if that has to be tried again later."""
        try:
            with hurried():
                await self.show(Revision(approval_id=approval_id))
        except ApplicationError:
            return False
        except Exception as error:  # whatever is wrong with a card, the ending is told; another workflow goes on trying
            _log.warning("approval %s has ended, and its cards cannot show it: %s", approval_id, type(error).__name__)
            return False
        return True

    async def _record(self, approval_id: str) -> Record:
        record = await self._ledger.record(approval_id)
        assert record is not None, "a plan is stored before anything is shown of it"
        return record

    async def _attach(self, record: Record, card_slot: Slot, address: Address, content: CardContent) -> None:
        """What the card cannot hold goes to the conversation first: nobody approves what could not be read."""
        slot = _file_of(card_slot)
        if content.file is None or any(message.slot == slot and message.message_id for message in record.messages):
            return
        key = await self.feishu.upload(content.file.name, content.file.data)
        await self._sending.send(slot, address, "file", json.dumps({"file_key": key}), Shown.FINAL)

    async def _bring_in_time(self, record: Record, message: Message, card_state: CardState, step: str) -> None:
        """Bring one card to how the approval stands; the next try begins with those that waited longest for a turn."""
        try:
            await self._bring(record, message, card_state)
        except (FeishuUnavailable, asyncio.CancelledError):
            self._turns.keep(f"{step} {message.message_id}", next(self._next_turn), 2 * _LONGEST_SILENCE)
            raise

    def _last_turn(self, step: str, message: Message) -> int:
        """When a card was tried last in a step, in the order of all that were tried in vain."""
        return self._turns.get(f"{step} {message.message_id}", 0)

    async def _bring(self, record: Record, message: Message, card_state: CardState) -> None:
        """Bring one card to how the approval stands, unless it says that already."""
        if message.message_id is not None and _is_followed(record, message, card_state):
            replaced = f"{_step()} {message.message_id} replaced"
            if replaced not in self._brought:
                self.feishu.check_message(message.message_id)
                await self._replace(record, message, card_state.progress)
                self._brought.keep(replaced, None, 2 * _LONGEST_SILENCE)
            return
        if not _is_behind(record, message, card_state):
            return
        shown = _shown(record, card_state, message.slot.kind)
        done = f"{_step()} {message.slot.uuid} {shown} {_is_revoked(record)}"
        if done not in self._brought:  # else an earlier try did it, and only another card resisted
            await self._change(record, message, card_state)
        self._brought.keep(done, None, 2 * _LONGEST_SILENCE)

    async def _change(self, record: Record, message: Message, card_state: CardState) -> None:
        """Change one card, and once more if that may have covered what became of the approval meanwhile."""
        if message.message_id is not None:
            self.feishu.check_message(message.message_id)
        content = (await self.showings.content(message.slot.kind, record, card_state)).card
        try:
            message_id = message.message_id or await self._sending.find(
                message.slot, address_of(record, message), content
            )
            await self.feishu.patch(message_id, content)
        except FeishuRefused as refused:
            await self._give_up(record, message, content, refused)
        now = await self._ledger.record(record.plan.approval_id) if _may_go_on(record) else None
        if now is not None and _end_of(now) != _end_of(record):
            await self._change(now, message, CardState())
        elif now is not None and now.outcome is None and _was_followed(now, message, card_state):
            await self._replace(now, message, card_state.progress)
        else:
            await self._ledger.shows(message.slot, _shown(record, card_state, message.slot.kind))

    async def _give_up(self, record: Record, message: Message, content: str, refused: FeishuRefused) -> None:
        """A card that cannot be changed any more: one that is too old is followed by a new one."""
        newest = _newest(record, message.slot.kind)
        is_settled = message.shown is Shown.SETTLED  # there, or on the one that followed it
        if refused.code != _TOO_OLD or message.slot.generation != newest or record.outcome is None or is_settled:
            _log.warning("a card of approval %s stays as it is: %s", record.plan.approval_id, refused)
            return
        tried = max(each.slot.generation for each in _cards(record) if each.slot.kind is message.slot.kind)
        slot = message.slot.model_copy(update={"generation": tried + 1})
        try:
            sent = await self.feishu.send(address_of(record, message), "interactive", content, uuid=slot.uuid)
            if record.settlement is not None:  # what was sent under this uuid before says that nobody knows
                await self.feishu.patch(sent.message_id, content)
        except FeishuRefused as again:
            _log.warning("the ending of approval %s cannot be shown: %s", record.plan.approval_id, again)

    async def _notify(self, record: Record) -> None:
        """Where a remembered decision stood in for a person, those who would have been asked are told of the end."""
        if record.outcome is None or record.plan.grant is None:
            return
        calls = [message for message in _cards(record) if message.slot.kind is MessageKind.CARD]
        known = {message.slot.place for message in calls if message.message_id}
        for place, address in enumerate(record.plan.addresses):
            if place in known:
                continue
            slot = Slot(approval_id=record.plan.approval_id, kind=MessageKind.CARD, generation=1, place=place)
            content = await self.showings.content(slot.kind, record, CardState())
            shown = _shown(record, CardState(), slot.kind)
            try:
                await self._sending.send(slot, address, "interactive", content.card, shown, after_end=True)
            except FeishuRefused as refused:
                _log.warning("nobody is told how approval %s ended: %s", slot.approval_id, refused)
                continue
            if _may_be_settled(record):
                await self._bring_settled(slot)

    async def _bring_settled(self, slot: Slot) -> None:
        """Bring a card that says that nobody knows to what was settled as it was sent."""
        now = await self._record(slot.approval_id)
        if now.settlement is not None:
            (message,) = (each for each in now.messages if each.slot == slot)
            await self._change(now, message, CardState())

    async def _replace_older(self, slot: Slot, delivery: Delivery) -> bool:
        """The cards that newer ones follow lose their buttons; tells whether that has to be tried again."""
        record = await self._record(slot.approval_id)
        if record.outcome is not None:
            return True  # the end is on its way to all of them
        older = [
            each for each in _cards(record) if each.slot.kind is slot.kind and each.slot.generation < slot.generation
        ]
        are_replaced = True
        for message in older:
            if message.message_id is None or message.shown is Shown.REPLACED:
                continue
            try:
                await self._replace(record, message, delivery.progress)
            except FeishuUnavailable as error:
                are_replaced = False
                _log.warning("an older card of approval %s keeps its buttons for now: %s", slot.approval_id, error)
        return are_replaced

    async def _replace(self, record: Record, message: Message, progress: Progress | None) -> None:
        """Say on a card that newer ones took its place, unless nobody can change it any more."""
        kind, newest = message.slot.kind, _newest(record, message.slot.kind)
        newer = (each for each in _cards(record) if each.slot.kind is kind and each.slot.generation == newest)
        moved = address_of(record, message) not in {address_of(record, each) for each in newer}
        content = await self.showings.content(kind, record, CardState(progress=progress, replaced=True, moved=moved))
        try:
            await self.feishu.patch(message.message_id or "", content.card)
        except FeishuRefused as refused:
            await self._give_up(record, message, content.card, refused)
        now = await self._record(record.plan.approval_id)
        if now.outcome is not None:
            await self._change(now, message, CardState())  # it ended meanwhile: what was shown may have covered the end
        else:
            await self._ledger.shows(message.slot, Shown.REPLACED)


def sent_before(messages: Iterable[Message]) -> SentBefore:
    """What is there of the cards of an approval, or of a question, that was prepared before."""
    there = [(each.slot, each.message_id) for each in messages if each.message_id]
    cards = {message_id: slot.generation for slot, message_id in there if slot.kind is MessageKind.CARD}
    others = [message_id for slot, message_id in there if slot.kind in (MessageKind.BUNDLE, MessageKind.RESULT)]
    return SentBefore(generation=max(cards.values(), default=0), message_ids=tuple(cards), others=tuple(others))


def address_of(record: Record, message: Message) -> Address:
    """Where a message went."""
    return message.address or record.plan.addresses[message.slot.place]


def _shown(record: Record, card_state: CardState, kind: MessageKind) -> Shown:
    """What a card of this kind says from now on."""
    if record.settlement is not None and kind is MessageKind.CARD:
        return Shown.SETTLED
    if record.outcome is not None:
        return Shown.FINAL
    waits = kind is MessageKind.RESULT or card_state.is_pending
    return Shown.PENDING if waits else Shown.DECIDED


def _end_of(record: Record) -> tuple[bool, bool] | None:
    """Whether it is settled what became of an approval that has ended, and whether its grant was revoked.

    Each of it happens once, and is never undone.
    """
    return (record.settlement is not None, _is_revoked(record)) if record.outcome is not None else None


def _is_revoked(record: Record) -> bool:
    return record.grant is not None and record.grant.revoked_at is not None


def _may_be_settled(record: Record) -> bool:
    """Whether nobody knows yet what became of the call of an approval that has ended."""
    return record.outcome is not None and record.outcome.status is Status.FROZEN and record.settlement is None


def _may_go_on(record: Record) -> bool:
    """Whether more may become of an approval that its cards tell."""
    may_be_revoked = record.grant is not None and not _is_revoked(record)
    return record.outcome is None or may_be_revoked or _may_be_settled(record)


def _is_behind(record: Record, message: Message, card_state: CardState) -> bool:
    """Whether a card may not say how the approval stands.

    What was settled is said in every step: what was said before may have come after it.
    """
    if record.outcome is not None:
        shown = _shown(record, card_state, message.slot.kind)
        return message.shown is not shown or shown is Shown.SETTLED or _is_revoked(record)
    if message.shown is Shown.REPLACED or (card_state.is_pending and message.message_id is None):
        return False
    if card_state.is_pending:  # how far the approvers have come: on the newest cards of what they decide about now
        newest = _newest(record, _asks(record))
        is_newest = message.slot.generation == newest and newest <= (card_state.generation or newest)
        return card_state.progress is not None and message.slot.kind is _asks(record) and is_newest
    if message.slot.kind is MessageKind.RESULT:
        return False
    return card_state.reviewing or card_state.asking is not None or message.shown is not Shown.DECIDED


def _is_followed(record: Record, message: Message, card_state: CardState) -> bool:
    """Whether a card still says that it may be clicked, or may do so, though newer ones are there."""
    if record.outcome is not None:
        return False
    if message.shown is Shown.REPLACED:
        return card_state.doubts_older
    asks = _asks(record)
    if message.slot.kind is not asks or not record.plan.is_shown_in_turn:
        return False
    if not card_state.is_pending or card_state.progress is None:
        return False
    return message.slot.generation < _newest(record, asks) <= (card_state.generation or 0)


def _was_followed(record: Record, message: Message, card_state: CardState) -> bool:
    """Whether a newer card took its place: it was told so, or is being told just now, and what it says covers that."""
    if any(each.slot == message.slot and each.shown is Shown.REPLACED for each in record.messages):
        return True
    return card_state.is_pending and message.slot.generation < _newest(record, message.slot.kind)


def _asks(record: Record) -> MessageKind:
    """The cards of what is decided about now."""
    is_result = any(each.slot.kind is MessageKind.RESULT for each in _cards(record))
    return MessageKind.RESULT if is_result else MessageKind.CARD


def _newest(record: Record, kind: MessageKind) -> int:
    """The newest of them that are there: some are tried, and refused."""
    return max(
        (each.slot.generation for each in _cards(record) if each.slot.kind is kind and each.message_id), default=0
    )


def _file_of(slot: Slot) -> Slot:
    """The place of the file before a card; those before a result's card are counted downwards."""
    generation = -slot.generation if slot.kind is MessageKind.RESULT else slot.generation
    return slot.model_copy(update={"kind": MessageKind.FILE, "generation": generation})


def _cards(record: Record) -> list[Message]:
    return [message for message in record.messages if message.slot.kind in _KINDS.values()]


@contextmanager
def prompt() -> Iterator[None]:
    """Be quick where a workflow's own task waits, or others on our own queue."""
    if activity.in_activity() and activity.info().task_queue == names.APPROVALS_QUEUE:
        with hurried():
            yield
    else:
        yield


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Leave before Temporal takes a try for lost, so that the next one does not meet it at work."""
    try:
        async with asyncio.timeout(_time_left()):
            yield
    except TimeoutError as error:
        raise FeishuSilent("Feishu did not answer in time") from error


def _time_left() -> float | None:
    """How many seconds this try has; of what all tries have together, some were spent before it."""
    if not activity.in_activity():
        return None
    info = activity.info()
    limits = []
    if info.start_to_close_timeout:
        limits.append(info.start_to_close_timeout)
    if info.schedule_to_close_timeout:
        limits.append(info.schedule_to_close_timeout - (info.started_time - info.scheduled_time))
    return max(min(limits).total_seconds() - _LEAVING, _LEAVING) if limits else None


@contextmanager
def told() -> Iterator[None]:
    """Tell Temporal when to try again."""
    try:
        yield
    except FeishuUnavailable as error:
        raise later(error) from error


async def together(*doing: Coroutine[Any, Any, None]) -> None:
    """Do all of it, a few at a time: what is in trouble holds up nothing else, and is told of at the end."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def done(each: Coroutine[Any, Any, None]) -> None:
        try:
            async with few:
                await each
        finally:
            each.close()  # it may not have begun

    ended = await asyncio.gather(*map(done, doing), return_exceptions=True)
    troubles = [each for each in ended if each is not None]
    with told():
        if troubles:
            raise min(troubles, key=lambda trouble: isinstance(trouble, FeishuUnavailable | ApplicationError))


def later(error: FeishuUnavailable) -> ApplicationError:
    seconds = _silence() if isinstance(error, FeishuSilent) else error.retry_after
    delay = timedelta(seconds=seconds) if seconds else None
    return ApplicationError(
        str(error), type="FeishuUnavailable", next_retry_delay=delay, category=ApplicationErrorCategory.BENIGN
    )


def _step() -> str:
    """What all tries of one step have in common."""
    if not activity.in_activity():
        return uuid4().hex
    info = activity.info()
    return f"{info.workflow_run_id} {info.activity_id}"


def _silence() -> float:
    """How long to leave alone who does not answer; not all who wait for it come back at once."""
    attempt = activity.info().attempt if activity.in_activity() else 1
    return min(_SILENCE * 2.0 ** min(attempt - 1, 10), _LONGEST_SILENCE) * random.uniform(0.75, 1)
