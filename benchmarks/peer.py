"""The same flow on DBOS, for comparison: start, wait for a message, one step, done. Runs with DBOS's own packages.

`python peer.py DATABASE_URL LANES`: reads how many flows to run from each line, and writes how long they took.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from collections.abc import Iterator

from dbos import DBOS, WorkflowHandleAsync


@DBOS.step()
async def work(flow_id: str) -> str:
    return flow_id


@DBOS.workflow()
async def flow(flow_id: str) -> str:
    await DBOS.recv_async("decide", timeout_seconds=900)
    return await work(flow_id)


async def lane(left: Iterator[int]) -> None:
    """As ours: each is decided after the next has been started."""
    waiting = None
    for _ in left:
        following = await DBOS.start_workflow_async(flow, str(uuid.uuid4()))
        if waiting is not None:
            await see_through(waiting)
        waiting = following
    if waiting is not None:
        await see_through(waiting)


async def see_through(waiting: WorkflowHandleAsync[str]) -> None:
    await DBOS.send_async(waiting.workflow_id, "approve", "decide")
    await waiting.get_result(polling_interval_sec=0.01)


async def main(url: str, lanes: int) -> None:
    logging.disable(logging.CRITICAL)
    DBOS(config={"name": "peer", "system_database_url": url, "run_admin_server": False})
    DBOS.launch()
    while line := await asyncio.to_thread(sys.stdin.readline):
        left = iter(range(int(line)))
        began, spent = time.monotonic(), time.process_time()
        await asyncio.gather(*(lane(left) for _ in range(lanes)))
        print(json.dumps({"seconds": time.monotonic() - began, "cpu": time.process_time() - spent}), flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
