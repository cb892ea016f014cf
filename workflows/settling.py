"""Putting an ending on record when the ledger was out of reach as the approval ended."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts import Outcome
    from assent.messages import Settlement
    from workflows import steps


@workflow.defn(name=names.SETTLING)
class SettlingWorkflow:
    """Tries until the ledger has the outcome; the agent already does."""

    @workflow.run
    async def run(self, settlement: Settlement) -> Outcome:
        return await steps.durable(names.SETTLE, settlement, Outcome)
