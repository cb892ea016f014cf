"""Putting an ending on record and on its cards when the ledger or Feishu was out of reach as the approval ended."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.messages import Revision, Settled, Settlement
    from workflows import steps


@workflow.defn(name=names.SETTLING)
class SettlingWorkflow:
    """Tries until the ledger has the outcome and no card shows buttons; the agent already has it."""

    @workflow.run
    async def run(self, settlement: Settlement) -> None:
        done = await steps.durable(names.SETTLE, settlement, Settled)
        if done.cards_due:
            await steps.outbound(names.SHOW, Revision(approval_id=done.outcome.approval_id), None)
