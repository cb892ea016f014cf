"""Telling the workflow of a run how far it is."""

from __future__ import annotations

import logging

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from assent import names
from assent.contracts.runs import RunNews, RunStart

_log = logging.getLogger(__name__)


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
