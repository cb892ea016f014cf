"""The open question of a call that may have happened: probed, shown to the operators, settled by one of them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from assent import names, sizes
    from assent.contracts.execute import Report, ReportKind
    from assent.contracts.review import Examination, Examined, FrozenCall, Telling
    from assent.contracts.ruling import Ruled, RuledKind, Ruling, RulingKind, Settlement
    from assent.payload import SHORT_HASH
    from assent.steps import EXAMINE, RULE, SHOW_REVIEW, TELL
    from assent.temporal import search
    from workflows import calls
    from workflows.details import review_page
    from workflows.steps import HERE, LOCAL, OUTBOUND, take, try_to

_LONGEST_PAUSE = timedelta(hours=1)
_TRIED_SINCE = "it was tried again since you looked: look anew"


@workflow.defn(name=names.FROZEN_REVIEW)
class FrozenReviewWorkflow:
    """Stays open until it is known whether the call took effect, and everybody who waited has been told.

    Who waits, what was promised and what was settled stands in the ledger: a review that is terminated and opened
    again goes on where it was.
    """

    @workflow.init
    def __init__(self, frozen: FrozenCall) -> None:
        self._frozen = frozen
        self._examined: Examined | None = None
        self._settled: Settlement | None = frozen.settlement
        self._news = True
        self._retry: str | None = None
        """The consent under which the call is to be tried again."""
        self._ruling = asyncio.Lock()
        self._unshown = False

    @workflow.run
    async def run(self, frozen: FrozenCall) -> Settlement:
        showing = asyncio.create_task(self._keep_shown())
        while self._settled is None:
            if self._news:
                await self._look()
            elif self._retry is not None:
                await self._try_again(self._retry)
            elif self._probe_is_due:
                await self._probe()
            elif workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self._frozen)
            else:
                await self._wait()
        await workflow.wait_condition(workflow.all_handlers_finished)
        showing.cancel()
        workflow.upsert_search_attributes([search.STATUS.value_set(f"settled_{self._settled.kind}")])
        self._describe()
        await self._tell()
        return self._settled

    # The steps

    async def _look(self) -> None:
        """See what the ledger knows, and show it; what it knows for certain settles the question."""
        self._news = False
        self._examined = await take(EXAMINE, self._examination(), HERE)
        if self._examined.retry is not None:
            self._retry = self._examined.retry.consent
        if self._examined.is_known and self._settled is None:
            await self._conclude(self._examination())
        self._describe()
        self._unshown = True

    async def _probe(self) -> None:
        """Ask the tool's probe. One that raises, hangs or does not know changes nothing."""
        self._update(probes=self._frozen.probes + 1)
        frozen = self._frozen
        found = await calls.probe(frozen.call, queue=frozen.queue, heartbeat=frozen.heartbeat_timeout)
        certain = (ReportKind.EXECUTED, ReportKind.REPLAYED, ReportKind.NOT_EXECUTED)
        if found.kind in certain and self._settled is None:
            await self._conclude(self._examination(report=found))

    async def _wait(self) -> None:
        """Until somebody says something, there is news, or it is time to probe or to remind."""
        now = workflow.now()
        wake = min(self._next_probe or datetime.max.replace(tzinfo=now.tzinfo), self._next_reminder)
        try:
            await workflow.wait_condition(
                lambda: (
                    self._news
                    or self._settled is not None
                    or self._retry is not None
                    or workflow.info().is_continue_as_new_suggested()
                ),
                timeout=max(wake - now, timedelta(0)),
            )
        except TimeoutError:
            if workflow.now() >= self._next_reminder:
                self._update(reminders=self._frozen.reminders + 1)
                self._news = True

    async def _conclude(self, examination: Examination) -> Ruled:
        """Settle through the ledger, which lets only the first do so."""
        ruled = await take(RULE, examination, HERE)
        if ruled.settlement is not None:
            self._settled = ruled.settlement
        return ruled

    async def _try_again(self, consent: str) -> None:
        """Make the call once more, under a consent of its own. What comes of it is what is settled."""
        again = {"consent": consent, "retries": self._frozen.call.approval_id, "grant_id": None}
        call = self._frozen.call.model_copy(update=again)
        report = await calls.make(call, queue=self._frozen.queue, heartbeat=self._frozen.heartbeat_timeout)
        self._news = True
        if self._retry == consent:  # else another was promised as soon as the ledger knew how this one ended
            self._retry = None
        self._update(error=report.reason[:2000] if report.reason else None)

    async def _keep_shown(self) -> None:
        """Show the review to the operators as it stands; finding out does not wait for Feishu."""
        while True:
            await workflow.wait_condition(lambda: self._unshown)
            self._unshown = False
            if self._frozen.has_cards:
                await take(SHOW_REVIEW, self._examination(), OUTBOUND)

    async def _tell(self) -> None:
        """Tell everyone what was settled: the audits of all who waited say so, and their cards show it."""
        if self._examined is not None and self._examined.told:
            return  # who comes later finds it in the ledger, and says so itself
        telling = Telling(approval_id=self._frozen.call.approval_id)
        told = await take(TELL, telling, LOCAL)
        await self._show_settled(told.approval_ids)
        while told.after is not None:
            telling = telling.model_copy(update={"after": told.after})
            told = await take(TELL, telling, LOCAL)
            if told.approval_ids:
                await self._show_settled(told.approval_ids)

    async def _show_settled(self, approval_ids: tuple[str, ...]) -> None:
        """Show what was settled; what resists is left to a workflow that goes on trying."""
        if not self._frozen.has_cards and not approval_ids:
            return
        examination = self._examination().model_copy(update={"told": approval_ids})
        if await try_to(SHOW_REVIEW, examination):
            return
        await workflow.start_child_workflow(
            names.SHOW_SETTLED,
            examination,
            id=names.show_settled_workflow(self._frozen.call.approval_id, str(workflow.uuid4())),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )

    # What operators and other workflows say

    @workflow.update(name=names.SETTLE_REVIEW, description="Settle it; docs/operations.md has the form.")
    async def _on_settle(self, said: Ruling) -> Ruled:
        said = _named(said)
        async with self._ruling:
            if self._settled is not None:
                return Ruled.of(self._settled, said)
            ruled = await self._conclude(self._examination(ruling=said))
            if ruled.settlement is None and self._settled is not None:
                return Ruled.of(self._settled, said)  # while the ledger's answer was on its way
            if ruled.kind is RuledKind.RETRYING and ruled.consent is None:
                raise ApplicationError(_TRIED_SINCE, type="TriedAgain")
            if ruled.kind is RuledKind.RETRYING:
                self._retry = ruled.consent
            return ruled

    @_on_settle.validator
    def _check(self, said: Ruling) -> None:
        """Refuse, before it is history, what cannot be meant."""
        if sizes.size(said) > sizes.RULING:
            raise ApplicationError(
                f"a ruling holds at most {sizes.RULING} bytes, its content included", type="TooLarge"
            )
        if sizes.is_too_deep(said):
            raise ApplicationError("the content of a ruling is nested too deep; give it as text", type="TooDeep")
        if self._examined is not None and said.retries is not None and said.retries < self._examined.retries:
            raise ApplicationError(_TRIED_SINCE, type="TriedAgain")
        if said.kind is not RulingKind.RETRY:
            return
        if not self._frozen.call.retry_safe and not (self._examined and self._examined.did_not_run):
            raise ApplicationError(
                "it is not certain that the call did not run, and the tool is not retry_safe: find out first",
                type="NotCertain",
            )
        expected = self._frozen.call.payload_sha256
        typed = said.payload_hash or ""
        if len(typed) < SHORT_HASH or not expected.startswith(typed.lower()):
            raise ApplicationError(
                f"type the first {SHORT_HASH} characters of the payload's hash to have it tried again", type="WrongHash"
            )

    @workflow.signal(name=names.JOIN, description="Another approval waits for the same answer.")
    def _on_join(self, *_: Any) -> None:
        self._news = True

    @workflow.signal(name=names.NEWS, description="The ledger has something new: look again.")
    def _on_news(self, *_: Any) -> None:
        self._news = True

    @workflow.query(name=names.STATE, description="What may have happened.")
    def _state(self) -> FrozenCall:
        return self._frozen

    @workflow.query(name=names.EXAMINED, description="What the ledger knew of it when it was last looked at.")
    def _last_examined(self) -> Examined:
        return self._examined or Examined()

    # Small things

    @property
    def _next_probe(self) -> datetime | None:
        """When the probe is asked again: soon at first, then ever more seldom, and not at all after its limit."""
        frozen = self._frozen
        if not frozen.has_probe:
            return None
        pauses = (min(timedelta(seconds=5 * 2**n), _LONGEST_PAUSE) for n in range(frozen.probes))
        due = frozen.frozen_at + sum(pauses, timedelta(0))
        return due if due <= frozen.frozen_at + frozen.probe_for else None

    @property
    def _probe_is_due(self) -> bool:
        return self._next_probe is not None and workflow.now() >= self._next_probe

    @property
    def _next_reminder(self) -> datetime:
        return self._frozen.frozen_at + self._frozen.remind_every * (self._frozen.reminders + 1)

    def _examination(self, *, ruling: Ruling | None = None, report: Report | None = None) -> Examination:
        frozen = self._frozen.model_copy(update={"settlement": self._settled})
        return Examination(frozen=frozen, ruling=ruling, report=report, now=workflow.now())

    def _update(self, **changed: Any) -> None:
        self._frozen = self._frozen.model_copy(update=changed)

    def _describe(self) -> None:
        workflow.set_current_details(review_page(self._frozen, self._examined or Examined(), self._settled))


def _named(said: Ruling) -> Ruling:
    """A ruling with its id; without one, that of the update, which a reset keeps: it is the same word then."""
    info = workflow.current_update_info()
    if said.ruling_id is not None or info is None:
        return said
    return said.model_copy(update={"ruling_id": info.id})
