"""Telling an agent that its approval, or its question, has ended, where it asked to be told."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.conclude import Announcement
    from assent.steps import ANNOUNCE
    from workflows.steps import OUTBOUND, RARELY, take

_FOR = timedelta(days=3)


@workflow.defn(name=names.ANNOUNCING)
class AnnouncingWorkflow:
    """Posts the outcome until it is taken, for some days; it can always be asked for instead."""

    @workflow.run
    async def run(self, announcement: Announcement) -> None:
        try:
            await take(ANNOUNCE, announcement, OUTBOUND, within=_FOR, retry=RARELY)
        except FailureError as error:
            workflow.logger.warning("the outcome of %s was not taken: %s", announcement.record, error)


async def announce(announcement: Announcement) -> None:
    """See to it that whoever asked is told; that it may take days is not the concern of what has ended."""
    with contextlib.suppress(WorkflowAlreadyStartedError):  # a reset: it was announced before
        await workflow.start_child_workflow(
            names.ANNOUNCING,
            announcement,
            id=names.announcing_workflow(announcement.record),
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )
