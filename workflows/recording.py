"""Putting an ending on record and on its cards when the ledger or Feishu was out of reach as the approval ended."""

from __future__ import annotations

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.conclude import Conclusion
    from assent.contracts.deliver import Revision
    from assent.steps import RECORD, SHOW
    from workflows.steps import HERE, OUTBOUND, OUTBOUND_ATTEMPT, take


@workflow.defn(name=names.RECORDING)
class RecordingWorkflow:
    """Tries until the ledger has the outcome and no card shows buttons; the agent already has it."""

    @workflow.run
    async def run(self, conclusion: Conclusion) -> None:
        done = await take(RECORD, conclusion, HERE)
        if done.cards_due:
            if conclusion.cards_later:
                await asyncio.sleep(OUTBOUND_ATTEMPT.total_seconds())  # then what is on its way is there, or given up
            await take(SHOW, Revision(approval_id=done.outcome.approval_id), OUTBOUND)
