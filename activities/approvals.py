"""What an approval needs of the ledger: prepare, close, audit, record, recall."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cards import CardActivities, sent_before
from activities.learning import learn_people
from activities.planning import Planner, Unresolved
from assent import core, names
from assent.contracts.audit import AuditBatch
from assent.contracts.conclude import Conclusion, Recorded
from assent.contracts.deliver import Delivered, Delivery
from assent.contracts.execute import Closing, Report
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.policy import NewOverride, Overridden
from assent.contracts.prepare import Preparation, Prepared
from assent.contracts.quotas import Limits
from assent.contracts.recall import Recall, Recalled, RecallKind
from assent.contracts.release import Release
from assent.contracts.status import Status
from assent.errors import InvalidRequest
from assent.settings import Settings
from ledger import Ledger, Record

_CHANGEABLE = timedelta(days=14)
"""How long Feishu lets a card be changed."""
_MOST_REDRAWN = 50
"""How many cards are redrawn at once when a remembered decision is revoked."""


class ApprovalActivities:
    """The activities of the approvals queue."""

    def __init__(
        self, ledger: Ledger, settings: Settings, planner: Planner, cards: CardActivities | None = None
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._planner = planner
        self._cards = cards

    @activity.defn(name=names.PREPARE)
    async def prepare(self, preparation: Preparation) -> Prepared:
        """Fix the plan, once, and try to send its first cards, if there is time."""
        began, within = asyncio.get_running_loop().time(), preparation.cards_within
        prepared = await self._prepared(preparation)
        if prepared.plan is not None and prepared.outcome is None and not prepared.is_new:
            record = await self._ledger.record(prepared.plan.approval_id)
            prepared = prepared.model_copy(update={"sent_before": sent_before(record.messages if record else ())})
        if within is None or self._cards is None or prepared.plan is None or prepared.outcome is not None:
            return prepared
        deliveries = core.first_cards(preparation.request, prepared.plan, preparation.now, prepared.sent_before)
        until = began + within.total_seconds()
        record = Record.of_new(prepared.plan) if prepared.is_new else None
        tries = await asyncio.gather(
            *(_delivered(self._cards, each, record, until) for each in deliveries), return_exceptions=True
        )
        delivered = tuple(each if isinstance(each, Delivered) else None for each in tries)
        return prepared.model_copy(update={"delivered": delivered})

    async def _prepared(self, preparation: Preparation) -> Prepared:
        """Whatever is shown and run later is what is stored here first."""
        request = preparation.request
        plan, refused = None, None
        limits = Limits(
            agent=preparation.limits,
            chat_requests_per_hour=self._settings.chat_requests_per_hour or None,
            requester_pending=self._settings.requester_pending or None,
        )
        try:
            request.sha256  # noqa: B018 - past the client nobody has checked that it can be hashed
        except InvalidRequest as error:
            raise ApplicationError(str(error), type="InvalidRequest", non_retryable=True) from None
        try:
            plan = await self._planner.plan(preparation)
            open_until = plan.open_until
        except Unresolved as unresolved:
            if known := await self._ledger.prepared(request):
                return known
            if unresolved.unknown.files and (over := await self._ledger.exceeded(request, limits, preparation.now)):
                return Prepared(exceeded=over)  # before anything is fetched for it
            return Prepared(unknown=unresolved.unknown)
        except InvalidRequest as error:
            refused = str(error)
            open_until = preparation.now
        return await self._ledger.register(
            request,
            plan,
            refused,
            now=preparation.now,
            open_until=open_until,
            namespace=activity.info().namespace,
            limits=limits,
        )

    @activity.defn(name=names.CLOSE_CLAIM)
    async def close_claim(self, closing: Closing) -> Report:
        return await self._ledger.close(closing)

    @activity.defn(name=names.WRITE_AUDIT)
    async def write_audit(self, batch: AuditBatch) -> None:
        await self._ledger.append(batch)

    @activity.defn(name=names.RECORD)
    async def record_ending(self, conclusion: Conclusion) -> Recorded:
        """Put the ending on record, then on the cards; the record stands whatever Feishu does."""
        outcome = await self._ledger.conclude(conclusion, await self._objection(conclusion))
        await learn_people(self._ledger, self._settings, conclusion.judged)
        shown = self._cards is None or (not conclusion.cards_later and await self._cards.finish(outcome.approval_id))
        return Recorded(outcome=outcome, cards_due=not shown)

    async def _objection(self, conclusion: Conclusion) -> str | None:
        """Why the policy in force no longer lets the agent make the call that was approved, if it does not."""
        outcome = conclusion.outcome
        if outcome.status is not Status.APPROVED:
            return None
        plan = await self._ledger.plan(outcome.approval_id, outcome.payload_sha256)
        return await self._planner.objection(plan, outcome.approved_by) if plan is not None else None

    @activity.defn(name=names.RELEASE)
    async def release(self, release: Release) -> Report:
        """Hand over a result, or keep it: from here on every way of reading it knows."""
        return await self._ledger.release(release)

    @activity.defn(name=names.RECALL_RECORD)
    async def recall(self, question: Recall) -> Recalled:
        """Answer from the ledger for a door that has none."""
        match question.kind:
            case RecallKind.VERDICT:
                assert question.decision is not None, "a verdict is asked for a decision"
                return Recalled(verdict=await self._ledger.judge_late(question.decision.decision()))
            case RecallKind.ANSWER:
                assert question.answer is not None, "a verdict is asked for an answer"
                return Recalled(answered=await self._ledger.judge_late_answer(question.answer.answer()))
            case RecallKind.REVOKE:
                revoked = await self._revoke(question)
                return Recalled(revoked=revoked, redraw=await self._outdated(question, revoked))
            case RecallKind.OVERRIDE:
                assert question.override is not None, "something is to be overridden"
                return Recalled(overridden=await self._override(question.override))
            case RecallKind.REVIEW:
                review = await self._ledger.review(question.approval_id)
                return Recalled(review=review.without_words() if review else None)

    async def _outdated(self, question: Recall, revoked: RevokedKind) -> tuple[str, ...]:
        """Whose cards still show a grant that has ended: where it was given, and where it stood in for people.

        Of very many, and after Feishu lets no card be changed any more, one says so to whoever presses its button.
        """
        if self._cards is None or revoked not in (RevokedKind.REVOKED, RevokedKind.ALREADY_REVOKED):
            return ()
        grant = await self._ledger.grant(question.grant_id)
        shown = [grant.approval_id if grant else "", question.approval_id]
        if revoked is RevokedKind.REVOKED:
            since = datetime.now(UTC) - _CHANGEABLE
            shown += await self._ledger.stood_in(question.grant_id, since=since, limit=_MOST_REDRAWN)
        return tuple(dict.fromkeys(filter(None, shown)))

    async def _revoke(self, question: Recall) -> RevokedKind:
        assert question.actor is not None, "somebody revokes a grant"
        if question.actor.is_outside(self._settings.feishu_tenant_key or None):
            return RevokedKind.FORBIDDEN
        actor = question.actor.within(self._settings.feishu_tenant_key or None)
        return await self._ledger.revoke(
            question.grant_id,
            actor,
            may_all=self._is_operator(actor),
            surface=question.surface,
            now=datetime.now(UTC),
        )

    async def _override(self, wish: NewOverride) -> Overridden:
        """Only operators loosen; whoever reaches this may ask for more."""
        return await self._ledger.override(wish, may_loosen=wish.actor is not None and self._is_operator(wish.actor))

    def _is_operator(self, person: Identity) -> bool:
        tenant = self._settings.feishu_tenant_key or None
        if person.is_outside(tenant):
            return False
        return any(person.within(tenant).is_same_person(each.within(tenant)) for each in self._settings.operators)


async def _delivered(cards: CardActivities, delivery: Delivery, record: Record | None, until: float) -> Delivered:
    """Send a card until a moment of the event loop's clock; whatever is in the way is left to the next try."""
    async with asyncio.timeout_at(until):
        return await cards.deliver_of(delivery, record)
