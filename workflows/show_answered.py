"""Showing on its cards how a question ended, where Feishu was out of reach as it did."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.asking import QuestionRevision
    from assent.steps import SHOW_QUESTION
    from workflows.steps import OUTBOUND, take


@workflow.defn(name=names.SHOW_ANSWERED)
class ShowAnsweredWorkflow:
    """Tries until no card has buttons; the agent already has the answer."""

    @workflow.run
    async def run(self, revision: QuestionRevision) -> None:
        await take(SHOW_QUESTION, revision, OUTBOUND)
