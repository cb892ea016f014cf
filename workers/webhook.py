"""`python -m workers.webhook`: clicks from Feishu, and the HTTP API for agents. Stateless: run any number of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.feishu import Feishu
from assent import Assent
from assent.names import APPROVALS_QUEUE
from assent.problems import Code
from assent.settings import Settings
from assent.temporal_door import TemporalDoor
from cards import (
    BundleClick,
    Challenge,
    Click,
    Event,
    ForeignClick,
    Refused,
    RevokeClick,
    RulingClick,
    Verifier,
    Wording,
    unreadable,
)
from workers import api, docs, frozen_api, inbox_api, problems, process
from workers.clicks import Names, answer_bundle, answer_click, answer_revoke, answer_ruling
from workers.desk import Desk
from workers.tokens import Tokens
from workers.words import Ear

_log = logging.getLogger(__name__)

MAX_BODY = 1_000_000
"""The largest body that is read, in bytes."""
_CLICK_WITHIN = 2.0
"""How long a click waits for its verdict; Feishu waits 3 seconds."""
_READY_WITHIN = timedelta(seconds=2)
_POLLED_WITHIN = timedelta(seconds=90)
"""How long ago a worker may have asked for work and still count as there: one question takes up to a minute."""
_DRAIN_SECONDS = 4


@dataclass(frozen=True)
class Callbacks:
    """What is needed to take clicks from Feishu."""

    gate: Assent
    verifier: Verifier
    wording: Wording
    names: Names | None
    ear: Ear


def create_app(settings: Settings, client: Client, names: Names | None = None) -> FastAPI:
    """The webhook as these settings want it. Raises Misconfigured where they would leave a door open.

    names: tells what a person is called, for those who click too late.
    """
    if not settings.feishu_app_id and settings.tokens is None:
        raise process.Misconfigured(
            "There is nobody to serve: set ASSENT_FEISHU_APP_ID for clicks from Feishu, "
            "or ASSENT_TOKENS for agents over HTTP, or both."
        )
    app = FastAPI(
        title="Assent",
        description="AI agents act with a person's consent, at most once, and never lie about what happened.",
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    app.add_middleware(_Edge)
    app.state.client = client
    door = TemporalDoor(client)
    if settings.feishu_app_id:
        ear = Ear(client, settings.feishu_tenant_key)
        app.state.callbacks = Callbacks(Assent(door), _verifier(settings), process.load_wording(settings), names, ear)
        app.add_api_route("/feishu/callback", feishu_callback, methods=["POST"], include_in_schema=False)
    if settings.tokens is not None:
        app.state.desk = Desk(door, _tokens(settings))
        app.router.routes.extend([*api.router.routes, *frozen_api.router.routes, *inbox_api.router.routes])
    app.add_api_route("/healthz", healthz, methods=["GET"], tags=["operation"])
    app.add_api_route("/readyz", readyz, methods=["GET"], tags=["operation"], responses=problems.documented(503))
    docs.install(app)
    return app


def _verifier(settings: Settings) -> Verifier:
    try:
        return Verifier(
            app_id=settings.feishu_app_id,
            tenant_key=settings.feishu_tenant_key,
            encrypt_key=settings.feishu_encrypt_key.get_secret_value(),
            verification_token=settings.feishu_verification_token.get_secret_value(),
        )
    except ValueError as error:
        raise process.Misconfigured(f"Callbacks from Feishu cannot be verified: {error}") from None


def _tokens(settings: Settings) -> Tokens:
    assert settings.tokens is not None
    try:
        return Tokens.load(settings.tokens, settings.feishu_tenant_key)
    except ValueError as error:
        raise process.Misconfigured(f"ASSENT_TOKENS: {error}.") from None


class _Edge:
    """What is done with every request before it is looked at: its path stays as sent, its body stays bounded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        left = MAX_BODY

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise problems.refuse(Code.TOO_LARGE, f"a body holds at most {MAX_BODY} bytes")
            return message

        # Decoded, a slash inside an approval's id could not be told from one between two parts of the path.
        sent = scope["raw_path"].decode("latin-1")
        await self._app({**scope, "path": sent} if sent.startswith("/v1/") else scope, bounded, send)


async def feishu_callback(request: Request) -> JSONResponse:
    """Whatever Feishu sends. Only what is proved to come from it is looked at, and one answer refuses all else."""
    callbacks: Callbacks = request.app.state.callbacks
    body = await request.body()
    try:
        found = callbacks.verifier.open(request.headers, body, datetime.now(UTC))
    except Refused as refused:
        _log.warning("a callback was refused: %s", refused.why)
        return JSONResponse({"error": "refused"}, 401)
    match found:
        case Challenge():
            return JSONResponse({"challenge": found.challenge})
        case Click():
            answer = await answer_click(
                callbacks.gate, found, callbacks.wording, within=_CLICK_WITHIN, names=callbacks.names
            )
            return JSONResponse(answer)
        case RulingClick():
            answer = await answer_ruling(
                callbacks.gate, found, callbacks.wording, within=_CLICK_WITHIN, names=callbacks.names
            )
            return JSONResponse(answer)
        case BundleClick():
            return JSONResponse(await answer_bundle(callbacks.gate, found, callbacks.wording, within=_CLICK_WITHIN))
        case RevokeClick():
            return JSONResponse(await answer_revoke(callbacks.gate, found, callbacks.wording, within=_CLICK_WITHIN))
        case ForeignClick():
            _log.warning("a click (event %s) is about nothing of ours: %s", found.event_id, found.why)
            return JSONResponse(unreadable(callbacks.wording).answer())
        case Event() if await callbacks.ear.hear(found):
            return JSONResponse({})
        case Event():
            _log.info("event %s of type %s is not for us", found.event_id, found.event_type)
            return JSONResponse({})


async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "alive"}


async def readyz(request: Request) -> dict[str, str]:
    """Temporal answers, and a worker asks it for approvals to work on."""
    client: Client = request.app.state.client
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
    return {"status": "ready"}


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun; a second signal leaves at once."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = _Server(config)

    def stop() -> None:
        if server.should_exit:
            os._exit(1)
        _log.info("draining: nobody new is let in, whoever waits is told how it stands")
        server.should_exit = True
        if hasattr(app.state, "desk"):
            app.state.desk.stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await server.serve([listener])


def listen(settings: Settings) -> socket.socket:
    """The socket, bound before anything is promised."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP, or asyncio leaves out TCP_NODELAY and answers wait for acknowledgements.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise process.Misconfigured(
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror}); "
            "end what listens there, or set ASSENT_HOST and ASSENT_PORT."
        ) from None
    return listener


async def main(settings: Settings) -> None:
    # It would log exceptions whole, and their texts may quote what was sent; `problems` logs where they come from.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    client = await process.open_temporal()
    feishu = Feishu.of(settings)
    try:
        app = create_app(settings, client, feishu.name if feishu else None)
        listener = listen(settings)
        host, port, *_ = listener.getsockname()
        _log.info("callbacks and agents are served at http://%s:%s", f"[{host}]" if ":" in host else host, port)
        await serve(app, listener)
    finally:
        if feishu:
            await feishu.close()


if __name__ == "__main__":
    process.run(main)
