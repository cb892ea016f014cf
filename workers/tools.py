"""`python -m workers.tools`: publishes the tools of `ASSENT_TOOLS` and runs the calls that were consented to."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.tools import OWN_PACE, SLOTS, ToolActivities
from assent.settings import Settings
from assent.tools.definition import Registry
from ledger import Ledger
from workers import process

_log = logging.getLogger(__name__)
_RECORDING = timedelta(seconds=30)


def tool_workers(
    client: Client, ledger: Ledger, registry: Registry, activities: ToolActivities | None = None
) -> list[Worker]:
    """One worker for each queue that the tools name."""
    own = activities or ToolActivities(ledger, registry)
    workers = [
        Worker(
            client,
            task_queue=queue,
            activities=[own.execute, own.probe, own.warn],
            max_concurrent_activities=SLOTS,
            max_heartbeat_throttle_interval=OWN_PACE,
            graceful_shutdown_timeout=_leaving_time(registry),
        )
        for queue in sorted({tool.manifest.queue for tool in registry.tools.values()})
    ]
    if any(tool.program is not None for tool in registry.tools.values()):
        # Only this process holds the pipes to the programs that it runs.
        workers.append(Worker(client, task_queue=own.programs.queue, activities=[own.programs.write_line]))
    return workers


def _leaving_time(registry: Registry) -> timedelta:
    """How long a worker that is told to leave may take to see everything through."""
    times = (tool.manifest.timeout + tool.manifest.asks for tool in registry.tools.values())
    return max(times, default=timedelta(0)) + _RECORDING


async def main(settings: Settings) -> None:
    tools = process.load_tools(settings)
    client = await process.open_temporal()
    ledger = await process.open_ledger(settings)
    try:
        await ledger.publish((tool.manifest for tool in tools.tools.values()), datetime.now(UTC))
        own = ToolActivities(ledger, tools)
        workers = tool_workers(client, ledger, tools, own)
        _log.info("tools are served: %s", ", ".join(sorted(tools.tools)))
        leaving_since = await process.serve(workers)
        leave_by = leaving_since + _leaving_time(tools).total_seconds()
        await own.drain(leave_by - asyncio.get_running_loop().time())
    finally:
        await ledger.dispose()


if __name__ == "__main__":
    process.run(main)
