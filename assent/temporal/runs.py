"""Telling the workflow of a run how far it is."""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

from pydantic import BaseModel
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts.runs import ClaimedLine, LineClaim, LineReport, LineWritten, RunNews, RunStart
from assent.errors import QuestionNotFound, Unavailable
from assent.temporal.connection import unavailable

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer", bound=BaseModel)
_UPDATED_WITHIN = 10.0


async def claim_line(client: Client, claim: LineClaim) -> ClaimedLine:
    """Take the line that answers an interaction, to write it once. Raises Unavailable, QuestionNotFound."""
    return await _update(client, names.CLAIM_LINE, claim, ClaimedLine, claim.token)


async def confirm_line(client: Client, written: LineWritten) -> LineReport:
    """Say that it was written. Raises Unavailable, QuestionNotFound."""
    return await _update(client, names.CONFIRM_LINE, written, LineReport, f"{written.token}:written")


async def _update(
    client: Client, name: str, said: LineClaim | LineWritten, answer: type[_Answer], update_id: str
) -> _Answer:
    handle = client.get_workflow_handle(names.question_workflow(said.question_id))
    try:
        async with asyncio.timeout(_UPDATED_WITHIN):
            done: _Answer = await handle.execute_update(name, said, id=update_id, result_type=answer)
            return done
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise QuestionNotFound(said.question_id) from None
        raise unavailable(error) from error
    except (TimeoutError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
        raise Unavailable("no approvals worker answers; the line is not lost. Ask again with the same token.") from None


async def tell_run(client: Client, start: RunStart, news: RunNews) -> bool:
    """Tell a run's conversation something, beginning it with the first word; whether it was heard.

    Nothing depends on a summary: where Temporal does not answer, the next one says more.
    """
    try:
        await client.start_workflow(
            names.RUN,
            start,
            id=names.run_workflow(start.run_id),
            task_queue=names.APPROVALS_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            start_signal=names.PROGRESS,
            start_signal_args=[news],
            static_summary=f"a run of {start.tool}"[:190],
        )
    except WorkflowAlreadyStartedError:
        return False  # it has ended
    except RPCError as error:
        _log.warning("a summary of run %s was not sent: %s", start.run_id, type(error).__name__)
        return False
    return True
