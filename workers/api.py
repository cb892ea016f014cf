"""`python -m workers.api`: the agents' door, the HTTP API under `/v1`. It reads the ledger, and writes nothing there.

Stateless: run any number of them.
"""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from temporalio.client import Client

from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from assent.watched import Watched
from ledger import Reader
from workers import (
    approvals_api,
    bridge_api,
    docs,
    files_api,
    frozen_api,
    inbox_api,
    problems,
    process,
    questions_api,
    runs_api,
    serving,
)
from workers.api_context import ApiContext
from workers.tokens import Tokens

_log = logging.getLogger(__name__)

PORT = 8500


def create_app(settings: Settings, client: Client, reader: Reader) -> FastAPI:
    """The API as these settings want it. Raises Misconfigured where nobody could come in."""
    description = "AI agents act with a person's consent, at most once, and never lie about what happened."
    app = serving.new_app(client, settings, description, described=True)
    app.state.context = ApiContext(TemporalDoor(client, reader), reader, _tokens(settings), client)
    rooms = (approvals_api, questions_api, runs_api, bridge_api, frozen_api, inbox_api, files_api)
    for room in rooms:
        app.router.routes.extend(room.router.routes)
    app.add_api_route("/readyz", readyz, methods=["GET"], tags=["operation"], responses=problems.documented(503))
    docs.install(app)
    return app


def _tokens(settings: Settings) -> Watched[Tokens]:
    if settings.tokens is None:
        raise process.Misconfigured("The API knows agents by their tokens: set ASSENT_TOKENS.")
    try:
        return Watched(settings.tokens, lambda path: Tokens.load(path, settings.feishu_tenant_key))
    except ValueError as error:
        raise process.Misconfigured(f"ASSENT_TOKENS: {error}.") from None


async def readyz(request: Request) -> dict[str, str]:
    """Temporal answers, a worker asks it for approvals to work on, and the ledger answers."""
    await serving.temporal_is_ready(request.app.state.client)
    await request.app.state.context.reader.policy()
    return {"status": "ready"}


async def main(settings: Settings) -> None:
    client = await process.open_temporal()
    ledger = await process.open_ledger(settings)
    try:
        app = create_app(settings, client, Reader(ledger, client.namespace))
        listener = serving.listen(settings, PORT)
        _log.info("agents are served at %s", serving.address(listener))
        await serving.serve(app, listener, app.state.context.stopping.set)
    finally:
        await ledger.dispose()


if __name__ == "__main__":
    process.run(main)
