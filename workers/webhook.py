"""`python -m workers.webhook`: Feishu's door. Public and thin: it knows Temporal and Feishu, and no ledger.

Stateless: run any number of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from temporalio.client import Client

from activities.feishu.client import Feishu
from activities.feishu.verifier import Refused, Verifier
from assent import Assent
from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from cards import BundleClick, Challenge, Click, Event, ForeignClick, RevokeClick, RulingClick, Wording, unreadable
from workers import problems, process, serving
from workers.clicks import Names, answer_bundle, answer_click, answer_revoke, answer_ruling
from workers.words import Ear

_log = logging.getLogger(__name__)

PORT = 8501
_CLICK_WITHIN = 2.0
"""How long a click waits for its verdict; Feishu waits 3 seconds."""


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
    if not settings.feishu_app_id:
        raise process.Misconfigured("The webhook takes clicks from Feishu: set ASSENT_FEISHU_APP_ID.")
    app = serving.new_app(client, settings)
    ear, gate = Ear(client, settings.feishu_tenant_key), Assent(TemporalDoor(client))
    app.state.callbacks = Callbacks(gate, _verifier(settings), process.load_wording(settings), names, ear)
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
