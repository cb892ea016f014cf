"""What a call's approval does about the questions that its tool asks."""

from __future__ import annotations

import asyncio
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from assent import core, names
    from assent.contracts.asking import OpenQuestions
    from assent.contracts.execute import Report, ToolCall
    from assent.contracts.signals import Withdrawal
    from assent.contracts.values import Surface
    from assent.steps import OPEN_QUESTIONS
    from workflows.deliveries import Deliveries
    from workflows.open_approval import OpenApproval
    from workflows.steps import HERE, take


async def show_asking(approval: OpenApproval, call: asyncio.Task[Report], deliveries: Deliveries) -> None:
    """Say on the cards, while the call runs, whether its tool waits for an answer."""
    shown = False
    while not call.done():
        await workflow.wait_condition(partial(_has_news, approval, call, shown))
        if call.done() or not core.has_cards(approval.state):
            return
        shown = bool(approval.state.questions)
        await deliveries.tell(call, asking=shown)


def _has_news(approval: OpenApproval, call: asyncio.Task[Report], shown: bool) -> bool:
    return call.done() or bool(approval.state.questions) != shown


_ENDED = "the call that asked has ended"


async def withdraw_questions(call: ToolCall) -> None:
    """Withdraw what the tool has asked and nobody has answered: its call has ended, and the ledger takes no more."""
    found = await take(OPEN_QUESTIONS, OpenQuestions(consent=call.consent), HERE)
    for question_id in found.question_ids:
        handle = workflow.get_external_workflow_handle(names.question_workflow(question_id))
        try:
            await handle.signal(names.CANCEL, Withdrawal(reason=_ENDED, surface=Surface.TEMPORAL))
        except ApplicationError:
            continue  # it ended meanwhile
