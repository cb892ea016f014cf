"""What an operator does to workflows with Temporal's own means."""

from __future__ import annotations

import uuid

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyExcludeType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from assent import ApprovalHandle, QuestionHandle, names
from tests.conftest import Service
from tests.support.waiting import until


async def purge(service: Service, approval_id: str) -> None:
    """What Temporal's retention does in the end to an approval."""
    await forget(service, names.approval_workflow(approval_id))


async def forget(service: Service, workflow_id: str) -> None:
    """What Temporal's retention does in the end. A busy server may take the order back: it is given again."""
    order = DeleteWorkflowExecutionRequest(
        namespace=service.client.namespace, workflow_execution=WorkflowExecution(workflow_id=workflow_id)
    )

    async def gone() -> bool:
        try:
            await service.client.workflow_service.delete_workflow_execution(order)
            await service.client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return False

    await until(gone)


async def finished(service: Service, *workflow_ids: str) -> None:
    """Wait until these have ended."""
    for workflow_id in workflow_ids:
        await service.client.get_workflow_handle(workflow_id).result()


async def reset(
    service: Service, handle: ApprovalHandle | QuestionHandle | str, *, nth_task: int, keep_signals: bool
) -> None:
    """Reset a workflow to the end of its nth task; an approval's, a question's, or the one of this id."""
    if isinstance(handle, str):
        workflow_id = handle
    else:
        name_of = names.question_workflow if isinstance(handle, QuestionHandle) else names.approval_workflow
        workflow_id = name_of(handle.id)
    workflow = service.client.get_workflow_handle(workflow_id)
    tasks = [
        event.event_id
        async for event in workflow.fetch_history_events()
        if event.HasField("workflow_task_completed_event_attributes")
    ]
    excluded = [] if keep_signals else [ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL]
    await service.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=service.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow.id),
            reason="test",
            workflow_task_finish_event_id=tasks[nth_task],
            request_id=uuid.uuid4().hex,
            reset_reapply_exclude_types=excluded,
        )
    )
