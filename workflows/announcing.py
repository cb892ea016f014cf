"""Telling an agent that its approval has ended, where it asked to be told."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.conclude import Announcement
    from workflows import steps

_FOR = timedelta(days=3)
_RARELY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(hours=1))
"""An address that never takes it is asked some eighty times, not thousands."""


@workflow.defn(name=names.ANNOUNCING)
class AnnouncingWorkflow:
    """Posts the outcome until it is taken, for some days; it can always be asked for instead."""

    @workflow.run
    async def run(self, announcement: Announcement) -> None:
        try:
            await steps.outbound(names.ANNOUNCE, announcement, None, _FOR, _RARELY)
        except FailureError as error:
            workflow.logger.warning("the outcome of %s was not taken: %s", announcement.outcome.approval_id, error)
