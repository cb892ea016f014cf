"""What a question needs of the ledger: prepare it, record its end, find those that a call left open."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import activity

from activities.callback_secrets import CallbackSecrets
from activities.cards import sent_before
from activities.learning import learn_people
from activities.planning import addresses_of
from activities.question_cards import QuestionCards
from assent import names
from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers, Deciders, DecidingGroup
from assent.contracts.asking import (
    FoundQuestions,
    OpenQuestions,
    QuestionConclusion,
    QuestionPlan,
    QuestionPreparation,
    QuestionPrepared,
    QuestionRecorded,
)
from assent.contracts.identity import Identity
from assent.contracts.prepare import Unknowns
from assent.contracts.questions import AskingCall, QuestionRequest, canonical_questions
from assent.contracts.quotas import Limits
from assent.errors import InvalidRequest
from assent.payload import sha256
from assent.settings import Settings
from ledger import Ledger

_TOO_LARGE = "questions: no card can hold them, with all that cannot be seen written out; ask less at once"
_WORTH_REMINDING = timedelta(minutes=2)
"""How long a question must wait for people to be reminded of it."""


class QuestionActivities:
    """The activities of the approvals queue that are about questions."""

    def __init__(self, ledger: Ledger, settings: Settings, cards: QuestionCards | None = None) -> None:
        self._ledger = ledger
        self._settings = settings
        self._secrets = CallbackSecrets(settings)
        self._cards = cards

    @activity.defn(name=names.PREPARE_QUESTION)
    async def prepare_question(self, preparation: QuestionPreparation) -> QuestionPrepared:
        """Fix what is shown and who may answer, once."""
        request, settings = preparation.request, self._settings
        try:
            request.sha256  # noqa: B018 - past the client nobody has checked that it can be hashed
            found = await self._plan(preparation)
        except InvalidRequest as error:
            return await self._ledger.prepared_question(request) or QuestionPrepared(refused=str(error))
        if isinstance(found, QuestionPlan) and found.addresses and self._cards and not self._cards.can_show(found):
            return await self._ledger.prepared_question(request) or QuestionPrepared(refused=_TOO_LARGE)
        if isinstance(found, Unknowns):
            return await self._ledger.prepared_question(request) or QuestionPrepared(unknown=found)
        limits = Limits(
            agent=preparation.limits,
            chat_requests_per_hour=settings.chat_requests_per_hour or None,
            requester_pending=settings.requester_pending or None,
        )
        namespace = activity.info().namespace
        prepared = await self._ledger.register_question(
            request, found, now=preparation.now, namespace=namespace, limits=limits
        )
        if prepared.plan is None or prepared.plan.asked_at == preparation.now or prepared.outcome is not None:
            return prepared
        record = await self._ledger.question_record(request.question_id)
        before = sent_before(record.messages if record else ())
        return prepared.model_copy(update={"sent_before": before}) if before.message_ids else prepared

    @activity.defn(name=names.RECORD_ANSWER)
    async def record_answer(self, conclusion: QuestionConclusion) -> QuestionRecorded:
        """Put the ending on record, then on the cards; the record stands whatever Feishu does."""
        outcome = await self._ledger.conclude_question(conclusion)
        await learn_people(self._ledger, self._settings, conclusion.judged)
        shown = self._cards is None or await self._cards.finish(outcome.question_id)
        return QuestionRecorded(outcome=outcome, cards_due=not shown)

    @activity.defn(name=names.OPEN_QUESTIONS)
    async def open_questions(self, asked: OpenQuestions) -> FoundQuestions:
        """What the tool of an ended call has asked, and nobody has answered: no more will come."""
        return FoundQuestions(question_ids=await self._ledger.open_questions(asked.consent))

    # The plan

    async def _plan(self, preparation: QuestionPreparation) -> QuestionPlan | Unknowns:
        """The plan of a question, or what Feishu must be asked first. Raises InvalidRequest."""
        request, settings, resolved = preparation.request, self._settings, preparation.resolved
        tenant = settings.feishu_tenant_key or None
        if request.callback_url and not self._secrets.of(request.asked_by):
            raise InvalidRequest("callback_url: this service announces nothing; set ASSENT_CALLBACK_SECRET")
        if resolved is not None and resolved.refused is not None:
            raise InvalidRequest(resolved.refused)
        if any(person.is_outside(tenant) for person in (request.requester, *request.people)):
            raise InvalidRequest("tenant_key: it is not the one of this installation; leave it out")
        if request.members and not settings.feishu_app_id:
            raise InvalidRequest("members: this service talks to no Feishu, and cannot ask who belongs to a chat")
        named = request.requester.within(tenant)
        person = await self._ledger.person((resolved.requester if resolved else None) or named)
        if resolved is None and settings.feishu_app_id and (person.is_unproved or person.is_mixed_up):
            return Unknowns(requester=named)
        if person.is_mixed_up:
            raise InvalidRequest("requester: its ids are known to be of two people; name the requester by one of them")
        requester = person.named(named)
        approvers = _approvers(request).within(tenant)
        asked_at = preparation.deadline - request.ttl
        return QuestionPlan(
            question_id=request.question_id,
            request_sha256=request.sha256,
            questions=request.questions,
            questions_sha256=sha256(canonical_questions(request.questions)),
            requester=requester,
            deciders=_deciders(request.call, requester, approvers),
            thread_id=request.thread_id,
            asked_by=await self._agent(request),
            reason=request.reason,
            asked_at=preparation.now,
            deadline=preparation.deadline,
            grace=settings.grace,
            remind_at=asked_at + request.ttl * settings.question_remind_after if self._reminds(request) else None,
            tenant_key=tenant,
            addresses=await self._addresses(request, requester, approvers),
            callback_url=request.callback_url,
            **_of_the_call(request.call),
            run=request.run,
        )

    async def _agent(self, request: QuestionRequest) -> str | None:
        """The agent that asks; of a tool's question the one that asked for the call: it does not answer either."""
        plan = await self._ledger.plan(request.call.approval_id) if request.call else None
        return plan.asked_by if plan else request.asked_by

    def _reminds(self, request: QuestionRequest) -> bool:
        return bool(self._settings.question_remind_after) and request.ttl >= _WORTH_REMINDING

    async def _addresses(
        self, request: QuestionRequest, requester: Identity, approvers: Approvers
    ) -> tuple[Address, ...]:
        """Where the card goes; that of a tool's question, where the card of its call went."""
        plan = await self._ledger.plan(request.call.approval_id) if request.call else None
        if plan is not None and request.call is not None:
            in_private = all(each.kind is not AddressKind.CHAT_ID and not each.reply_to for each in plan.addresses)
            if request.call.deciders is not None or not in_private:
                return plan.addresses
        return addresses_of(self._settings, requester, approvers, request.chat_id, request.reply_to)


def _approvers(request: QuestionRequest) -> Approvers:
    if request.members:
        return Approvers(kind=Approvers.Kind.CHAT, chat_id=request.chat_id)
    return Approvers.of(request.people) if request.people else Approvers()


def _deciders(call: AskingCall | None, requester: Identity, approvers: Approvers) -> Deciders:
    if call is not None and call.deciders is not None:
        return call.deciders
    return Deciders(requester=requester, groups=(DecidingGroup(approvers=approvers),))


def _of_the_call(call: AskingCall | None) -> dict[str, Any]:
    return {"approval_id": call.approval_id, "consent": call.consent, "tool": call.tool} if call else {}
