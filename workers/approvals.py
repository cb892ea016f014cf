"""`python -m workers.approvals`: the workflows, and the activities they run by themselves."""

from __future__ import annotations

import logging
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import workflows
from activities import ApprovalActivities
from assent import names
from assent.settings import Settings
from ledger import Ledger
from workers import process

_log = logging.getLogger(__name__)

# Importing our workflows anew for every workflow took almost half of this process's time. What that would guard
# against is guarded otherwise: they import contracts only, which the linter checks, and their histories are replayed.
RESTRICTIONS = SandboxRestrictions.default.with_passthrough_modules("workflows", "assent")


def approvals_worker(client: Client, ledger: Ledger, settings: Settings) -> Worker:
    own = ApprovalActivities(ledger, settings)
    return Worker(
        client,
        task_queue=names.APPROVALS_QUEUE,
        workflows=workflows.ALL,
        workflow_runner=SandboxedWorkflowRunner(RESTRICTIONS),
        activities=[own.prepare, own.close_claim, own.write_audit, own.settle, own.recall],
        # When this worker dies, its workflows wait this long for it before another takes them.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=5),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


async def main(settings: Settings) -> None:
    client = await process.open_temporal()
    ledger = await process.open_ledger(settings)
    try:
        _log.info("approvals are served in namespace %s", client.namespace)
        await process.serve([approvals_worker(client, ledger, settings)])
    finally:
        await ledger.dispose()


if __name__ == "__main__":
    process.run(main)
