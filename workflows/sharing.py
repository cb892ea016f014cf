"""An approval's part in a card that it shares with the calls that were asked for together with it."""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.bundles import BundleAsked, Carded, Member


class Share:
    """Tells the bundle how an approval stands, in order. A bundle that is gone holds up nobody."""

    def __init__(self, bundle_id: str | None, card: Carded | None) -> None:
        self.bundle_id = bundle_id
        self.card = card
        """The card on which it is shown among others."""
        self.is_gone = False
        """Whether there is no bundle to speak to."""
        self._next: Member | None = None
        self._telling: asyncio.Task[None] | None = None

    def tell(self, member: Member) -> None:
        """Tell the bundle in passing; what was not told yet is overtaken."""
        if self.bundle_id is None:
            return
        self._next = member
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def told(self) -> None:
        """Wait until the bundle knows, or is known to be gone."""
        if self._telling is not None:
            await self._telling

    async def _tell(self) -> None:
        try:
            while (member := self._next) is not None:
                self._next = None
                self.is_gone = not (await self._signal(member) or await self._revived(member))
        finally:
            self._telling = None

    async def _signal(self, member: Member) -> bool:
        assert self.bundle_id is not None
        try:
            bundle = workflow.get_external_workflow_handle(names.bundle_workflow(self.bundle_id))
            await bundle.signal(names.NEWS, member)
        except FailureError:
            return False
        return True

    async def _revived(self, member: Member) -> bool:
        """The card that is shared needs somebody who writes it: where the bundle was ended by hand, it begins anew."""
        if self.card is None:
            return False
        assert self.bundle_id is not None
        anew = BundleAsked(
            bundle_id=self.bundle_id,
            approval_ids=self.card.approval_ids,
            members=(member,),
            sent_at=workflow.now(),
        )
        try:
            await workflow.start_child_workflow(
                names.BUNDLE,
                anew,
                id=names.bundle_workflow(self.bundle_id),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            return await self._signal(member)
        return True
