"""Asking a tool what should be known of a call before it is decided."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.prepare import Warned, WarningQuestion
    from assent.steps import WARN

_WITHIN = timedelta(seconds=8)


@workflow.defn(name=names.WARNING)
class WarningWorkflow:
    """Has the tool's own worker answer, once: an activity, which plans, cannot ask another worker by itself."""

    @workflow.run
    async def run(self, question: WarningQuestion) -> Warned:
        warned: Warned = await workflow.execute_activity(
            WARN.name,
            question,
            result_type=WARN.gives,
            task_queue=question.queue,
            schedule_to_close_timeout=_WITHIN,
        )
        return warned
