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
    from workflows.deliveries import A_WHILE, Deliveries, wait_a_while
    from workflows.open_approval import OpenApproval
    from workflows.steps import HERE, take


async def show_asking(approval: OpenApproval, call: asyncio.Task[Report], deliveries: Deliveries) -> None:
    """Say on the cards, while the call runs, whether its tool waits for an answer."""
    if approval.plan.waits_for_no_chat:
        await _keep_showing(approval, call, deliveries)
        return
    shown = False
    while not call.done():
        await workflow.wait_condition(partial(_has_news, approval, call, shown))
        if call.done() or not core.has_cards(approval.state):
            return
        shown = bool(approval.state.questions)
        await deliveries.tell(call, asking=shown)


async def _keep_showing(approval: OpenApproval, call: asyncio.Task[Report], deliveries: Deliveries) -> None:
    """The same, until every card says it: those that could not be told are told again."""
    shown: bool | None = False
    pause = A_WHILE
    while True:
        await workflow.wait_condition(partial(_is_due, approval, call, shown))
        if call.done():
            return
        asking = bool(approval.state.questions)
        if await deliveries.tell(call, asking=asking):
            shown, pause = asking, A_WHILE
        else:
            shown, pause = None, await wait_a_while(partial(_has_news, approval, call, asking), pause)


def _is_due(approval: OpenApproval, call: asyncio.Task[Report], shown: bool | None) -> bool:
    return call.done() or (core.has_cards(approval.state) and bool(approval.state.questions) != shown)


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
