"""Handing a call whose end is unknown to its review: opening one, or joining the one that is open."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.review import FrozenCall
    from assent.temporal import search


_LONGEST_PAUSE = timedelta(seconds=30)


async def freeze(frozen: FrozenCall) -> None:
    """Open the review of this key, or join the one that is open; it outlives the approval.

    Who is answered stands in the ledger. Joining only lets an open review look who waits; where the call has been
    settled meanwhile, the review that is opened finds that, and ends.
    """
    call = frozen.call
    review = names.review_workflow(call.idempotency_key)
    pause = timedelta(milliseconds=200)
    while True:
        try:
            await workflow.start_child_workflow(
                names.FROZEN_REVIEW,
                frozen,
                id=review,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                search_attributes=search.review_attributes(call.tool, str(call.requester), frozen.risk),
                memo={names.APPROVAL_MEMO: call.approval_id, names.FROZEN_AT_MEMO: frozen.frozen_at.isoformat()},
                static_summary=names.review_summary(call.tool),
            )
            return
        except WorkflowAlreadyStartedError:
            try:
                await workflow.get_external_workflow_handle(review).signal(names.JOIN)
                return
            except ApplicationError:  # it closed between the two: open it again
                await workflow.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
