"""What a decision needs to know of the world outside: who belongs to a chat, and whether edited arguments will do."""

from __future__ import annotations

import contextlib

from temporalio import activity

from activities.cards import prompt, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuUnavailable
from activities.memberships import members_now
from activities.planning import Planner, Unresolved
from activities.resolving import ResolvingActivities
from assent import names
from assent.arguments.fields import typed
from assent.contracts.decision import Decision
from assent.contracts.grants import Remembered, Remembering
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.weigh import Weighed, Weighing
from assent.errors import InvalidRequest
from assent.payload import argument_values, canonical_payload
from ledger import Ledger, LedgerError


class WeighingActivities:
    """The activities by which a decision is judged, and by which it is remembered."""

    def __init__(
        self, ledger: Ledger, planner: Planner, feishu: Feishu | None, resolving: ResolvingActivities | None = None
    ) -> None:
        self._ledger = ledger
        self._planner = planner
        self._feishu = feishu
        self._resolving = resolving or ResolvingActivities(ledger, feishu)

    @activity.defn(name=names.WEIGH)
    async def weigh(self, weighing: Weighing) -> Weighed:
        """Say who does not belong, and what the plan becomes by an edit."""
        with prompt(), told():
            outsiders = await self._outsiders(weighing)
            if outsiders or weighing.decision is None:
                return Weighed(outsiders=outsiders)
            return await self._edited(weighing, weighing.decision)

    @activity.defn(name=names.REMEMBER)
    async def remember(self, remembering: Remembering) -> Remembered:
        return Remembered(grant=await self._ledger.remember(remembering))

    async def _outsiders(self, weighing: Weighing) -> tuple[Identity, ...]:
        members: set[str] = set()
        for chat_id in weighing.chats if weighing.actors else ():
            members |= await self._members(chat_id)
        return tuple(person for person in weighing.actors if person.open_id not in members)

    async def _members(self, chat_id: str) -> frozenset[str]:
        if self._feishu is None:
            return frozenset()
        members = await members_now(self._feishu, chat_id)
        with contextlib.suppress(LedgerError):  # only inboxes rest on it
            await self._ledger.keep_members(chat_id, members)
        return members

    async def _edited(self, weighing: Weighing, decision: Decision) -> Weighed:
        plan = await self._ledger.plan(weighing.approval_id, weighing.payload_sha256)
        if plan is None:
            return Weighed(invalid="the ledger holds no plan for this approval")
        try:
            arguments = await self._arguments(plan, decision)
            revised = await self._revised(plan, arguments, decision.actor.within(plan.tenant_key))
        except InvalidRequest as error:
            return Weighed(invalid=str(error))
        return Weighed(plan=await self._ledger.revise(revised, decision.event_id))

    async def _revised(self, plan: Plan, arguments: dict[str, object], by: Identity) -> Plan:
        """What an edit makes of a plan; Feishu is asked first where that depends on who asked, and where."""
        try:
            return await self._planner.edited(plan, arguments, by)
        except Unresolved as unresolved:
            if unresolved.unknown.files and activity.info().is_local:
                raise FeishuUnavailable("later") from None  # no task of a workflow waits for a file
            return await self._planner.edited(plan, arguments, by, await self._resolving.resolve(unresolved.unknown))

    async def _arguments(self, plan: Plan, decision: Decision) -> dict[str, object]:
        """The edited arguments; an edit without any is none, and never means those that were there."""
        if decision.arguments is not None:
            canonical_payload(plan.tool, decision.arguments)  # refuses what cannot be hashed
            return decision.arguments
        if not decision.fields:
            raise InvalidRequest("an edit needs arguments")
        manifest = await self._ledger.manifest(plan.tool)
        if manifest is None:
            raise InvalidRequest(f"no worker has published a tool named {plan.tool!r}")
        current = argument_values(plan.payload)
        return typed(manifest.parameters, current, decision.fields, plan.sensitive)
