"""Asking the ledger on behalf of a client that reaches only Temporal."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.deliver import Revision
    from assent.contracts.recall import Recall, Recalled
    from assent.steps import RECALL
    from workflows.steps import LOCAL, take


@workflow.defn(name=names.RECALL)
class RecallWorkflow:
    """One question, one answer."""

    @workflow.run
    async def run(self, question: Recall) -> Recalled:
        recalled = await take(RECALL, question, LOCAL, within=timedelta(seconds=20))
        for approval_id in recalled.redraw:
            await workflow.start_child_workflow(
                names.REDRAWING,
                Revision(approval_id=approval_id),
                id=names.redrawing_workflow(approval_id, str(workflow.uuid4())),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        return recalled
