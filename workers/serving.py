"""What both doors do alike: an edge, health, a server that drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import uvicorn
from fastapi import FastAPI
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from assent.api.problems import Code
from assent.names import APPROVALS_QUEUE
from assent.settings import Settings
from workers import problems, process
from workers.edge import Edge, server_config

_log = logging.getLogger(__name__)

_READY_WITHIN = timedelta(seconds=2)
_POLLED_WITHIN = timedelta(seconds=90)
"""How long ago a worker may have asked for work and still count as there: one question takes up to a minute."""


def new_app(client: Client, settings: Settings, description: str = "", *, described: bool = False) -> FastAPI:
    """An application whose errors are problems, and whose requests are bounded; with OpenAPI if it is described."""
    app = FastAPI(
        title="Assent",
        description=description,
        version="1",
        openapi_url="/openapi.json" if described else None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    app.add_middleware(Edge, hosts=settings.hosts)
    app.state.client = client
    app.add_api_route("/healthz", healthz, methods=["GET"], tags=["operation"])
    return app


async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "alive"}


async def temporal_is_ready(client: Client) -> None:
    """Refuse while Temporal does not answer, or nobody works on approvals."""
    try:
        async with asyncio.timeout(_READY_WITHIN.total_seconds() + 0.5):
            found = await client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=APPROVALS_QUEUE),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                ),
                timeout=_READY_WITHIN,
            )
    except (RPCError, TimeoutError):
        raise problems.refuse(Code.UNAVAILABLE, "Temporal does not answer") from None
    since = datetime.now(UTC) - _POLLED_WITHIN
    if not any(poller.last_access_time.ToDatetime(UTC) > since for poller in found.pollers):
        raise problems.refuse(Code.UNAVAILABLE, "no approvals worker runs; start `python -m workers.approvals`")


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: FastAPI, listener: socket.socket, stopping: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun; a second signal leaves at once.

    stopping: is told when it is to end.
    """
    # It would log exceptions whole, and their texts may quote what was sent; `problems` logs where they come from.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server = _Server(server_config(app))

    def stop() -> None:
        if server.should_exit:
            os._exit(1)
        _log.info("draining: nobody new is let in, whoever waits is told how it stands")
        server.should_exit = True
        stopping()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await server.serve([listener])


def listen(settings: Settings, port: int) -> socket.socket:
    """The socket, bound before anything is promised; on *port* where the settings name none."""
    port = settings.port if settings.port is not None else port
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP, or asyncio leaves out TCP_NODELAY and answers wait for acknowledgements.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise process.Misconfigured(
            f"{settings.host}:{port} cannot be listened on ({error.strerror}); "
            "end what listens there, or set ASSENT_HOST and ASSENT_PORT."
        ) from None
    return listener


def address(listener: socket.socket) -> str:
    """Where a socket listens, as one would type it."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
