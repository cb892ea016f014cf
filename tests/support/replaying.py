"""Whether a workflow that runs or ran here is what its history makes of it."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

import workflows
from assent import ApprovalHandle, names


async def replays(client: Client, handle: ApprovalHandle | str) -> bool:
    """Of an approval, or of the workflow of this id."""
    workflow_id = handle if isinstance(handle, str) else names.approval_workflow(handle.id)
    workflow = client.get_workflow_handle(workflow_id)
    replayer = Replayer(
        workflows=workflows.ALL, data_converter=pydantic_data_converter, workflow_runner=UnsandboxedWorkflowRunner()
    )
    replayed = await replayer.replay_workflow(await workflow.fetch_history(), raise_on_replay_failure=False)
    return replayed.replay_failure is None
