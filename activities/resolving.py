"""Asking Feishu who somebody is and which chat a message is in, before a plan depends on it."""

from __future__ import annotations

from temporalio import activity

from activities.cards import prompt, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused
from assent import names
from assent.contracts.address import Address, AddressKind
from assent.contracts.identity import Identity
from assent.contracts.prepare import Resolved, Unknowns
from ledger import Ledger

_TWO_PEOPLE = "requester: its ids are not all of one person, as Feishu says; name the requester by one of them"


class ResolvingActivities:
    """What Feishu knows of people and messages; of people it is remembered."""

    def __init__(self, ledger: Ledger, feishu: Feishu) -> None:
        self._ledger = ledger
        self._feishu = feishu

    @activity.defn(name=names.RESOLVE)
    async def resolve(self, unknown: Unknowns) -> Resolved:
        """Say what was asked for, or why Feishu never will; while it cannot answer, this is tried again."""
        with prompt(), told():
            try:
                requester = await self._person(unknown.requester) if unknown.requester else None
            except FeishuRefused as refused:
                return Resolved(refused=f"requester: who {unknown.requester} is could not be found out. {refused}")
            if unknown.requester and requester is None:
                return Resolved(refused=_TWO_PEOPLE)
            try:
                chat_id = await self._feishu.chat_of(unknown.message_id) if unknown.message_id else None
            except FeishuRefused as refused:
                return Resolved(refused=f"reply_to: which chat the message is in could not be found out. {refused}")
        return Resolved(requester=requester, chat_id=chat_id)

    async def _person(self, named: Identity) -> Identity | None:
        """The person, by every id that Feishu tells, which is remembered; None if the ids are of more than one."""
        found = await self._asked(named, Address.of(named))
        if unconfirmed := named.keys - found.keys:
            kind, _, value = min(unconfirmed).partition(":")
            other = await self._asked(named, Address(kind=AddressKind(kind), id=value))
            if other.open_id != found.open_id or len(unconfirmed) > 1:
                return None
            found = found.model_copy(update={kind: value})
        await self._ledger.learn(found)
        return found

    async def _asked(self, named: Identity, by: Address) -> Identity:
        ids = await self._feishu.ids(by)
        return Identity(**ids, tenant_key=named.tenant_key)
