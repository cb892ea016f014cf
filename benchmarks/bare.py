"""`python -m benchmarks.bare endpoint|worker`: what the webhook is measured against, with nothing of ours in it.

The endpoint reads what it is sent and answers like a toast. At another address it also signals a bare workflow and
asks it what became of that: the least that a click costs when it has to be durable.
"""

from __future__ import annotations

import sys
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from temporalio.client import Client
from temporalio.worker import Worker

from assent.settings import Settings
from assent.temporal.connection import connect_temporal
from benchmarks.workflows import QUEUE, BareWorkflow
from workers import process, serving

TOAST: dict[str, Any] = {
    "toast": {
        "type": "success",
        "content": "Approved. It runs now.",
        "i18n": {"zh_cn": "已同意，正在执行。", "en_us": "Approved. It runs now."},
    }
}


async def answer(request: Request) -> JSONResponse:
    await request.body()
    return JSONResponse(TOAST)


async def answer_durably(request: Request) -> JSONResponse:
    client: Client = request.app.state.client
    flow = client.get_workflow_handle((await request.body()).decode())
    await flow.signal("decide", "approve")
    assert await flow.query("decided", result_type=bool)
    return JSONResponse(TOAST)


async def endpoint(settings: Settings) -> None:
    """Served just as the webhook is."""
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.client = await connect_temporal()
    app.add_api_route("/bare", answer, methods=["POST"])
    app.add_api_route("/durable", answer_durably, methods=["POST"])
    listener = serving.listen(settings, 0)
    print(f"served at http://{settings.host}:{listener.getsockname()[1]}", flush=True)
    await serving.serve(app, listener)


async def worker(_settings: Settings) -> None:
    """Workflows only: what they decide upon waits for nobody, as the approvals do meanwhile."""
    client = await connect_temporal()
    print("served", flush=True)
    await process.serve([Worker(client, task_queue=QUEUE, workflows=[BareWorkflow])])


if __name__ == "__main__":
    process.run({"endpoint": endpoint, "worker": worker}[sys.argv[1]])
