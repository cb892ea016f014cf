"""An approval's part in a card that it shares with the calls that were asked for together with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.bundles import BundleAsked, Carded, Member


class BundleMember:
    """Tells the bundle how an approval stands, in order. A bundle that is gone holds up nobody."""

    def __init__(self, bundle_id: str | None, card: Callable[[], Carded | None], is_gone: Callable[[], None]) -> None:
        """
        card: the card on which the approval is shown among others, if there is one by now.
        is_gone: called when there is no bundle to speak to.
        """
        self._bundle_id = bundle_id
        self._card = card
        self._is_gone = is_gone
        self._next: Member | None = None
        self._telling: asyncio.Task[None] | None = None

    def tell(self, member: Member) -> None:
        """Tell the bundle in passing; what was not told yet is overtaken."""
        if self._bundle_id is None:
            return
        self._next = member
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(self._bundle_id))

    async def told(self) -> None:
        """Wait until the bundle knows, or is known to be gone."""
        if self._telling is not None:
            await self._telling

    async def _tell(self, bundle_id: str) -> None:
        try:
            while (member := self._next) is not None:
                self._next = None
                if not (await _signal(bundle_id, member) or await self._revive(bundle_id, member)):
                    self._is_gone()
        finally:
            self._telling = None

    async def _revive(self, bundle_id: str, member: Member) -> bool:
        """The card that is shared needs somebody who writes it: where the bundle was ended by hand, it begins anew."""
        card = self._card()
        if card is None:
            return False
        anew = BundleAsked(
            bundle_id=bundle_id, approval_ids=card.approval_ids, members=(member,), sent_at=workflow.now()
        )
        try:
            await workflow.start_child_workflow(
                names.BUNDLE,
                anew,
                id=names.bundle_workflow(bundle_id),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            return await _signal(bundle_id, member)
        return True


async def _signal(bundle_id: str, member: Member) -> bool:
    try:
        bundle = workflow.get_external_workflow_handle(names.bundle_workflow(bundle_id))
        await bundle.signal(names.NEWS, member)
    except FailureError:
        return False
    return True
