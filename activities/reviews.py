"""What a frozen review asks for: what the ledger knows, and settling by those who may."""

from __future__ import annotations

from temporalio import activity

from activities.review_cards import ReviewCards
from assent import names
from assent.contracts.identity import Identity
from assent.contracts.review import Examination, Examined, Telling, Told
from assent.contracts.ruling import Ruled, RuledKind
from assent.settings import Settings
from ledger import ClaimState, Ledger

_UNKNOWN = (ClaimState.STARTED, ClaimState.UNKNOWN)


class ReviewActivities:
    """The activities of frozen reviews."""

    def __init__(self, ledger: Ledger, settings: Settings, cards: ReviewCards | None = None) -> None:
        self._ledger = ledger
        self._settings = settings
        self._cards = cards

    @activity.defn(name=names.EXAMINE)
    async def examine(self, examination: Examination) -> Examined:
        """See what the ledger knows of a frozen call."""
        approval_id = examination.frozen.call.approval_id
        chain, wait = (
            await self._ledger.chain_sights(approval_id),
            await self._ledger.waits(approval_id, activity.info().namespace),
        )
        assert chain, "a frozen call has a claim"
        assert wait is not None, "a frozen call has a claim"
        begun = {seen.consent for seen in chain}
        own = [seen for seen in await self._ledger.attempts_of(approval_id) if seen.consent not in begun]
        standing = await self._ledger.begun(approval_id)
        root = chain[-1]
        return Examined(
            attempts=(*own, *chain),
            is_known=root.state not in _UNKNOWN,
            did_not_run=root.state == ClaimState.UNKNOWN and standing.nothing_happened,
            waiting=wait.count,
            joined=tuple(each for each in wait.some if each != approval_id),
            retries=wait.retries,
            retry=wait.retry,
            told=wait.told,
        )

    @activity.defn(name=names.RULE)
    async def rule(self, examination: Examination) -> Ruled:
        """Settle a frozen call, if whoever says so is an operator."""
        ruling = examination.ruling
        if ruling is not None and not self._is_operator(ruling.operator):
            return Ruled(kind=RuledKind.FORBIDDEN)
        return await self._ledger.rule(examination, activity.info().namespace)

    @activity.defn(name=names.TELL)
    async def tell(self, telling: Telling) -> Told:
        """Let the audit of some of those who waited say what was settled."""
        return await self._ledger.tell(telling)

    @activity.defn(name=names.SHOW_REVIEW)
    async def show_review(self, examination: Examination) -> None:
        """Show a review to the operators, and what was settled also to those who asked."""
        if self._cards is not None:
            await self._cards.show(examination, await self.examine(examination))

    def _is_operator(self, person: Identity) -> bool:
        tenant = self._settings.feishu_tenant_key or None
        return not person.is_outside(tenant) and any(
            person.within(tenant).is_same_person(operator.within(tenant)) for operator in self._settings.operators
        )
