"""Putting an ending on record and on its cards when the ledger or Feishu was out of reach as the approval ended."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.conclude import Conclusion, Settled
    from assent.contracts.deliver import Revision
    from workflows import steps


@workflow.defn(name=names.SETTLING)
class SettlingWorkflow:
    """Tries until the ledger has the outcome and no card shows buttons; the agent already has it."""

    @workflow.run
    async def run(self, conclusion: Conclusion) -> None:
        done = await steps.durable(names.SETTLE, conclusion, Settled)
        if done.cards_due:
            await steps.outbound(names.SHOW, Revision(approval_id=done.outcome.approval_id), None)
