"""Beginning a workflow anew whose history no longer replays.

A workflow task that fails for that reason fails for ever, and what the workflow was to do stays undone. Nothing is lost
by going back to its first task: signals are heard again, and the ledger knows what was done.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryReverseRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from assent import names

_log = logging.getLogger(__name__)
STUCK = (
    'TemporalReportedProblems = "category=WorkflowTaskFailed" AND ExecutionStatus = "Running" '
    f'AND TaskQueue = "{names.APPROVALS_QUEUE}"'
)
"""What Temporal lists once a workflow's task has failed several times in a row."""
_LAST_EVENTS = 20


async def heal(client: Client) -> None:
    """Look at what Temporal says is stuck. Any number may do so at once: each run begins anew once."""
    try:
        async for found in client.list_workflows(STUCK):
            await _begin_anew(client, found)
    except RPCError as error:
        _log.info("what is stuck could not be looked at: %s", error)  # an older server does not know of it


async def _begin_anew(client: Client, found: WorkflowExecution) -> None:
    """Send a workflow back to its first task, if its history no longer replays."""
    run = Execution(workflow_id=found.id, run_id=found.run_id)
    if not _no_longer_replays(await _last_events(client, run)):
        return
    first = await _first_task(client, found)
    if first is None:
        return
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=run,
            reason="its history no longer replays: it begins anew, and the ledger knows what was done",
            workflow_task_finish_event_id=first,
            request_id=str(uuid.uuid5(uuid.NAMESPACE_OID, found.run_id)),
        )
    )
    _log.warning("%s no longer replayed its history, and begins anew", found.id)


async def _last_events(client: Client, run: Execution) -> Sequence[HistoryEvent]:
    """The end of its history, the newest first."""
    asked = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace, execution=run, maximum_page_size=_LAST_EVENTS
    )
    return (await client.workflow_service.get_workflow_execution_history_reverse(asked)).history.events


def _no_longer_replays(newest_first: Sequence[HistoryEvent]) -> bool:
    failures = (
        event.workflow_task_failed_event_attributes.cause
        for event in newest_first
        if event.HasField("workflow_task_failed_event_attributes")
    )
    return next(failures, None) == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR


async def _first_task(client: Client, found: WorkflowExecution) -> int | None:
    """The event with which its first task ended."""
    workflow = client.get_workflow_handle(found.id, run_id=found.run_id)
    async for event in workflow.fetch_history_events(page_size=_LAST_EVENTS):
        if event.HasField("workflow_task_completed_event_attributes"):
            return event.event_id
    return None
