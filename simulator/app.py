"""The simulator as one web application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from simulator import api, longconn, platform
from simulator.delivery import Courier
from simulator.guard import Guard
from simulator.longconn import Hub
from simulator.settings import Settings
from simulator.state import Simulator

PAGE = Path(__file__).parent / "page"


class _Application(FastAPI):
    """FastAPI that lets an endpoint have its connection, to close it without an answer or to write a wrong one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["simulator.transport"] = _transport(send)
        await super().__call__(scope, receive, send)


class _Page(StaticFiles):
    """The page's files. A browser asks each time whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def _transport(send: Send) -> asyncio.Transport | None:
    """The connection behind `send`, if uvicorn is there."""
    return getattr(getattr(send, "__self__", None), "transport", None)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application. Its state is `app.state.simulator`."""
    simulator = Simulator(settings or Settings())
    hub = Hub()
    courier = Courier(simulator, hub)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        courier.close()
        simulator.close()

    app = _Application(title="Feishu simulator", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Guard)
    app.state.simulator = simulator
    app.state.hub = hub
    app.state.courier = courier
    app.include_router(platform.router)
    app.include_router(longconn.router)
    app.include_router(api.router)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    app.mount("/static", _Page(directory=PAGE, check_dir=False))
    app.mount("/", _Page(directory=PAGE, html=True, check_dir=False))
    return app
