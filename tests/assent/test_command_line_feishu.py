"""`assent feishu check`, as an administrator runs it: against the simulator, and a webhook's own verifier."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request, Response

from activities.feishu.verifier import Refused, Verifier
from cards.clicks import Challenge
from simulator.settings import Settings
from tests.support.environment import worker_environment
from tests.support.fork_server import spawn
from tests.support.simulated_feishu import Feishu, feishu, served

APP = Settings(app_secret="s3cret", encrypt_key="key", verification_token="token", tenant_key="tenant_1")


@asynccontextmanager
async def webhook(app: Settings) -> AsyncIterator[str]:
    verifier = Verifier(
        app_id=app.app_id,
        tenant_key=app.tenant_key,
        encrypt_key=app.encrypt_key,
        verification_token=app.verification_token,
    )
    door = FastAPI()

    @door.post("/feishu/callback")
    async def callback(request: Request) -> Response:
        assert "authorization" not in request.headers
        try:
            opened = verifier.open(request.headers, await request.body(), datetime.now(UTC))
        except Refused:
            return Response(status_code=401)
        assert isinstance(opened, Challenge)
        return Response(json.dumps({"challenge": opened.challenge}), media_type="application/json")

    async with served(door) as url:
        yield f"{url}/feishu/callback"


async def check(platform: Feishu, *options: str, app: Settings = APP) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, what was found, and all that was printed."""
    variables = ("app_id", "app_secret", "encrypt_key", "verification_token", "tenant_key")
    environment = {f"ASSENT_FEISHU_{name.upper()}": str(getattr(app, name)) for name in variables}
    process = await spawn(
        *("-m", "assent", "feishu", "check", *options, "--json"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=worker_environment(**environment, ASSENT_FEISHU_DOMAIN=platform.url),
    )
    out, err = await asyncio.wait_for(process.communicate(b""), 300)
    assert err == b""
    return process.returncode or 0, json.loads(out), out.decode()


def found(checked: list[dict[str, Any]], what: str) -> set[str]:
    return {each["found"] for each in checked if each["what"] == what}


async def test_an_app_that_is_set_up_is_found_right_and_a_test_card_arrives() -> None:
    async with feishu(APP) as platform, webhook(APP) as callback:
        options = ("--callback", callback, "--to", "open_id:ou_requester", "--chat-id", "oc_team")
        code, checked, said = await check(platform, *options)
        messages = (await platform.http.get("/api/messages")).json()["messages"]
    assert code == 0
    assert {each["found"] for each in checked} == {"ok"}, said
    assert {"credentials", "bot", "company", "scope", "callback", "test card"} == {each["what"] for each in checked}
    assert {message["chat_id"] for message in messages} == {"oc_team", "oc_p2p_requester"}
    assert APP.app_secret not in said


async def test_each_thing_that_is_wrong_is_named_with_what_to_do() -> None:
    async with feishu(APP) as platform, webhook(APP) as callback:
        other = replace(APP, tenant_key="another", encrypt_key="other", verification_token="other")
        code, checked, said = await check(platform, "--callback", callback, "--chat-id", "oc_elsewhere", app=other)
        assert code == 1
        assert found(checked, "credentials") == found(checked, "bot") == {"ok"}
        assert found(checked, "company") == found(checked, "callback") == found(checked, "test card") == {"wrong"}
        assert "set ASSENT_FEISHU_TENANT_KEY=tenant_1" in said
        code, checked, said = await check(platform, app=replace(APP, app_secret="no"))
        assert (code, found(checked, "credentials")) == (1, {"wrong"})
        code, checked, _ = await check(platform)
        assert (code, found(checked, "callback"), found(checked, "test card")) == (0, {"not checked"}, {"not checked"})
