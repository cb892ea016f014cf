"""`python -m workers.webhook`: Feishu's door. Public and thin: it knows Temporal and Feishu, and no ledger.

Stateless: run any number of them.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from temporalio.client import Client

from activities.feishu.client import Feishu
from activities.feishu.verifier import Refused, Verifier
from assent import Assent
from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from cards import Challenge
from workers import problems, process, serving
from workers.callbacks import Callbacks
from workers.clicks import Names
from workers.private_messages import PrivateMessages

_log = logging.getLogger(__name__)

PORT = 8501


def create_app(settings: Settings, client: Client, names: Names | None = None) -> FastAPI:
    """The webhook as these settings want it. Raises Misconfigured where they would leave a door open.

    names: tells what a person is called, for those who click too late.
    """
    if not settings.feishu_app_id:
        raise process.Misconfigured("The webhook takes clicks from Feishu: set ASSENT_FEISHU_APP_ID.")
    app = serving.new_app(client, settings)
    app.state.verifier = _verifier(settings)
    app.state.callbacks = Callbacks(
        gate=Assent(TemporalDoor(client)),
        wording=process.load_wording(settings),
        names=names,
        messages=PrivateMessages(client, settings.feishu_tenant_key, in_groups=settings.files_in_groups),
    )
    app.add_api_route("/feishu/callback", feishu_callback, methods=["POST"], include_in_schema=False)
    app.add_api_route("/readyz", readyz, methods=["GET"], responses=problems.documented(503))
    return app


async def readyz(request: Request) -> dict[str, str]:
    """Temporal answers, and a worker asks it for approvals to work on."""
    await serving.temporal_is_ready(request.app.state.client)
    return {"status": "ready"}


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


async def feishu_callback(request: Request) -> JSONResponse:
    """Whatever Feishu sends. Only what is proved to come from it is looked at, and one answer refuses all else."""
    callbacks: Callbacks = request.app.state.callbacks
    verifier: Verifier = request.app.state.verifier
    body = await request.body()
    try:
        found = verifier.open(request.headers, body, datetime.now(UTC))
    except Refused as refused:
        _log.warning("a callback was refused: %s", refused.why)
        return JSONResponse({"error": "refused"}, 401)
    if isinstance(found, Challenge):
        return JSONResponse({"challenge": found.challenge})
    return JSONResponse(await callbacks.answer(found) or {})


async def main(settings: Settings) -> None:
    client = await process.open_temporal()
    feishu = Feishu.of(settings)
    try:
        app = create_app(settings, client, feishu.name if feishu else None)
        listener = serving.listen(settings, PORT)
        _log.info("callbacks are served at %s", serving.address(listener))
        await serving.serve(app, listener)
    finally:
        if feishu:
            await feishu.close()


if __name__ == "__main__":
    process.run(main)
