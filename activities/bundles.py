"""The cards that calls share which were asked for together: send each once, and bring it to how they stand."""

from __future__ import annotations

import asyncio
import logging

from temporalio import activity

from activities.cards import in_time, later, prompt, together, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.showings import CardState, Showings
from assent import names
from assent.contracts.address import Address
from assent.contracts.bundles import BundleDelivered, BundleShown, Member, SharedCalls, SharedCard
from assent.contracts.status import Status
from cards import BundledCall, bundle_card, may_be_bundled, shares
from ledger import Ledger, Message, MessageKind, Record, Shown, bundle_slot

_log = logging.getLogger(__name__)
_MOST_ADDRESSES = 1000
"""The cards of one address are numbered in steps of this: the first of each is the address's own number."""
_LEAST = 2
"""How many calls share a card: a single one has its own, on which more can be done."""


class BundleActivities:
    """The shared cards of one Feishu app. One writer per card: the workflow of its bundle."""

    def __init__(self, ledger: Ledger, feishu: Feishu, showings: Showings) -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._showings = showings
        self._wording = showings.wording

    @activity.defn(name=names.DELIVER_BUNDLE)
    async def deliver_bundle(self, shared_calls: SharedCalls) -> BundleDelivered:
        """Send the cards of each address, once, with the calls that go there and can be read on them.

        Where it is too late for that, only say which are there.
        """
        with prompt():
            return await self._deliver_all(shared_calls)

    async def _deliver_all(self, shared_calls: SharedCalls) -> BundleDelivered:
        records = await self._records(shared_calls)
        tried = {message.slot.place: message for message in await self._ledger.bundle(shared_calls.bundle_id)}
        if not tried and sum(map(self._belongs, records.values())) < _LEAST:
            return BundleDelivered()
        if not shared_calls.is_late:
            await self._send_all(shared_calls, records, tried)
        shared = {each: _shared_messages(record) for each, record in (await self._records(shared_calls)).items()}
        return BundleDelivered(
            shared=tuple(SharedCard(approval_id=each, message_ids=found) for each, found in shared.items() if found)
        )

    async def _send_all(self, shared_calls: SharedCalls, records: dict[str, Record], tried: dict[int, Message]) -> None:
        trouble: FeishuUnavailable | None = None
        for place, address, there in await self._placed(shared_calls, records):
            try:
                await self._deliver(shared_calls, place, address, there, tried.get(place))
            except FeishuRefused as refused:
                _log.warning("the card of bundle %s cannot be delivered: %s", shared_calls.bundle_id, refused)
            except FeishuUnavailable as error:
                trouble = error
        if trouble is not None:
            raise later(trouble) from trouble

    @activity.defn(name=names.SHOW_BUNDLE)
    async def show_bundle(self, shared_calls: SharedCalls) -> BundleShown:
        """Bring every card to how the calls stand."""
        with told():
            async with in_time():
                return await self._show_all(shared_calls)

    async def _show_all(self, shared_calls: SharedCalls) -> BundleShown:
        records, before = await self._records(shared_calls), None
        while _endings(records) != before:  # what ended meanwhile may have been shown by another, and covered here
            before = _endings(records)
            await self._bring_all(shared_calls, records)
            records = await self._records(shared_calls)
        return BundleShown(
            open=tuple(each for each, record in records.items() if record.outcome is None),
            frozen=tuple(each for each, record in records.items() if _is_frozen(record)),
        )

    async def _bring_all(self, shared_calls: SharedCalls, records: dict[str, Record]) -> None:
        messages = await self._ledger.bundle(shared_calls.bundle_id)
        await together(*(self._bring(shared_calls, message, records) for message in messages))

    async def _records(self, shared_calls: SharedCalls) -> dict[str, Record]:
        """What the ledger knows of the calls that belong to the bundle by their own plan, and ask somebody."""
        found = [await self._ledger.record(member.approval_id) for member in shared_calls.members]
        return {
            record.plan.approval_id: record
            for record in found
            if record is not None
            and record.plan.bundle_id == shared_calls.bundle_id
            and not record.plan.asks_nobody
            and record.plan.denied is None
        }

    async def _placed(
        self, shared_calls: SharedCalls, records: dict[str, Record]
    ) -> list[tuple[int, Address, dict[str, Record]]]:
        """Each card: its place, where it goes, and whose calls it is for.

        Calls are shared out by what they ask for, whatever became of some of them meanwhile: tried again, each is on
        the same card.
        """
        readable = {each: record for each, record in records.items() if may_be_bundled(record.plan, self._wording)}
        addresses = dict.fromkeys(address for record in records.values() for address in record.plan.addresses)
        members = {member.approval_id: member for member in shared_calls.members}
        placed = []
        for first, address in enumerate(addresses):
            there = [record for record in readable.values() if address in record.plan.addresses]
            calls = [await self._call(members[record.plan.approval_id], record) for record in there]
            for number, share in enumerate(await asyncio.to_thread(shares, tuple(calls), self._wording)):
                its = {each.showing.plan.approval_id: readable[each.showing.plan.approval_id] for each in share}
                placed.append((first + number * _MOST_ADDRESSES, address, its))
        return placed

    async def _deliver(
        self, shared_calls: SharedCalls, place: int, address: Address, there: dict[str, Record], tried: Message | None
    ) -> None:
        if tried is not None and tried.message_id is not None:
            return
        shown = {each: record for each, record in there.items() if self._belongs(record)}
        if tried is not None:  # it may have arrived, with those that have ended since: it is found under its uuid
            shown = there
        content = await self._card(shared_calls, shown, is_new=True) if shown else None
        if content is None:
            return
        slot = bundle_slot(shared_calls.bundle_id, place)
        await self._ledger.intend(slot, address=address, after_end=True)
        sent = await self._feishu.send(address, "interactive", content, uuid=slot.uuid)
        # The moment a message id is known it is in the ledger; being cut off just now must not lose it.
        await asyncio.shield(self._ledger.shared(slot, sent.message_id, sent.chat_id, tuple(shown)))

    def _belongs(self, record: Record) -> bool:
        """Whether a call is to be decided on the shared card: it is open, has no card of its own, and can be read."""
        return record.outcome is None and not _is_apart(record) and may_be_bundled(record.plan, self._wording)

    async def _bring(self, shared_calls: SharedCalls, message: Message, records: dict[str, Record]) -> None:
        on_it = {each: record for each, record in records.items() if message.message_id in _shared_messages(record)}
        if message.message_id is None or not on_it:
            return
        done = all(record.outcome is not None and not _is_frozen(record) for record in on_it.values())
        content = await self._card(shared_calls, on_it, is_new=False)
        if content is None:
            return
        try:
            await self._feishu.patch(message.message_id, content)
        except FeishuRefused as refused:
            _log.warning("a card of bundle %s stays as it is: %s", shared_calls.bundle_id, refused)
            return
        if done:
            await self._ledger.shows(message.slot, Shown.FINAL)

    async def _card(self, shared_calls: SharedCalls, records: dict[str, Record], *, is_new: bool) -> str | None:
        members = {member.approval_id: member for member in shared_calls.members}
        calls = [await self._call(members[each], record) for each, record in records.items()]
        return bundle_card(shared_calls.bundle_id, tuple(calls), self._wording, is_new=is_new)

    async def _call(self, member: Member, record: Record) -> BundledCall:
        card_state = CardState(decided=member.decided, progress=member.progress, reviewing=member.reviewing)
        showing = (await self._showings.showing(record, card_state)).model_copy(update={"grant": None})
        return BundledCall(showing=showing, apart=_is_apart(record), begun=await self._is_begun(member, record))

    async def _is_begun(self, member: Member, record: Record) -> bool:
        """Whether a call that has not said how it stands was begun: it can no longer be decided."""
        has_said = member.progress is not None or member.decided is not None
        if has_said or record.outcome is not None:
            return False
        return bool(await self._ledger.attempts_of(record.plan.approval_id))


def _is_apart(record: Record) -> bool:
    """Whether the approval has cards of its own, or was tried to have."""
    return record.plan.edit is not None or any(each.slot.kind is MessageKind.CARD for each in record.messages)


def _endings(records: dict[str, Record]) -> set[str]:
    """What is certain of the calls from now on."""
    ended = {each for each, record in records.items() if record.outcome}
    return ended | {f"{each} settled" for each, record in records.items() if record.settlement}


def _is_frozen(record: Record) -> bool:
    ended = record.outcome
    return ended is not None and ended.status is Status.FROZEN and record.settlement is None


def _shared_messages(record: Record) -> tuple[str, ...]:
    """The messages on which the approval is shown among others."""
    shared = (each for each in record.messages if each.slot.kind is MessageKind.BUNDLE and each.slot.generation)
    return tuple(each.message_id for each in shared if each.message_id)
