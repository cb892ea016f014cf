"""`python -m workers.tools`: publishes the tools of `ASSENT_TOOLS` and runs the calls that were consented to."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.tools import ToolActivities
from assent.settings import Settings
from assent.tools import Registry
from ledger import Ledger
from workers import process

_log = logging.getLogger(__name__)
_RECORDING = timedelta(seconds=30)


def tool_workers(client: Client, ledger: Ledger, registry: Registry) -> list[Worker]:
    """One worker for each queue that the tools name."""
    own = ToolActivities(ledger, registry)
    manifests = [tool.manifest for tool in registry.tools.values()]
    longest = max((manifest.timeout for manifest in manifests), default=timedelta(0))
    return [
        Worker(
            client,
            task_queue=queue,
            activities=[own.execute, own.probe],
            graceful_shutdown_timeout=longest + _RECORDING,
        )
        for queue in sorted({manifest.queue for manifest in manifests})
    ]


async def main(settings: Settings) -> None:
    tools = process.load_tools(settings)
    client = await process.open_temporal()
    ledger = await process.open_ledger(settings)
    try:
        await ledger.publish((tool.manifest for tool in tools.tools.values()), datetime.now(UTC))
        workers = tool_workers(client, ledger, tools)
        _log.info("tools are served: %s", ", ".join(sorted(tools.tools)))
        await process.serve(workers)
    finally:
        await ledger.dispose()


if __name__ == "__main__":
    process.run(main)
