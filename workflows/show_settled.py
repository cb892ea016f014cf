"""Showing how a review ended when Feishu was out of reach as it did."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.review import Examination
    from assent.steps import SHOW_REVIEW
    from workflows.steps import OUTBOUND, take


@workflow.defn(name=names.SHOW_SETTLED)
class ShowSettledWorkflow:
    """Tries until everyone is told; whoever waits for the settlement already has it."""

    @workflow.run
    async def run(self, examination: Examination) -> None:
        await take(SHOW_REVIEW, examination, OUTBOUND)
