"""The simulator for tests: served on a free port, with a client that speaks to it and a webhook that it speaks to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from fastapi import FastAPI, Request, Response

from assent.tls import trusted
from simulator import Settings, Simulator, create_app

_KEPT_OPEN = 75
"""Seconds that a connection waits for the next request. Closed just as one is on its way, it would be lost: httpx gives
a connection up after five."""


class _Server(uvicorn.Server):
    """A server inside a test leaves the signals to the test."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: FastAPI, port: int = 0) -> AsyncIterator[str]:
    """Serve an application on this or a free port; its address."""
    # Named as TCP, or asyncio leaves out TCP_NODELAY and every answer waits 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_keep_alive=_KEPT_OPEN, timeout_graceful_shutdown=1
        )
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        while True:
            if server.started:
                break
            await asyncio.sleep(0.001)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@dataclass
class Feishu:
    """A running simulator and an HTTP client for it."""

    url: str
    simulator: Simulator
    http: httpx.AsyncClient
    token: str = ""

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Call the open API with a token."""
        if not self.token:
            await self.renew()
        headers = {"authorization": f"Bearer {self.token}"}
        return await self.http.request(method, f"/open-apis{path}", headers=headers, **more)

    async def renew(self) -> None:
        known = self.simulator.settings
        asked = {"app_id": known.app_id, "app_secret": known.app_secret}
        answer = await self.http.post("/open-apis/auth/v3/tenant_access_token/internal", json=asked)
        self.token = answer.json()["tenant_access_token"]

    async def send(
        self,
        content: dict[str, Any],
        to: str = "oc_team",
        *,
        kind: str = "chat_id",
        msg_type: str = "interactive",
        uuid: str | None = None,
    ) -> httpx.Response:
        body = {"receive_id": to, "msg_type": msg_type, "content": json.dumps(content, ensure_ascii=False)}
        if uuid is not None:
            body["uuid"] = uuid
        return await self.call("POST", f"/im/v1/messages?receive_id_type={kind}", json=body)

    async def sent(self, content: dict[str, Any], to: str = "oc_team", **more: Any) -> str:
        """Send something that must be taken; its message id."""
        answer = await self.send(content, to, **more)
        assert answer.json()["code"] == 0, answer.text
        return str(answer.json()["data"]["message_id"])

    async def patch(self, message_id: str, card: dict[str, Any]) -> httpx.Response:
        return await self.call("PATCH", f"/im/v1/messages/{message_id}", json={"content": json.dumps(card)})

    async def click(self, message_id: str, open_id: str = "ou_approver", **more: Any) -> dict[str, Any]:
        answer = await self.http.post("/api/clicks", json={"message_id": message_id, "open_id": open_id, **more})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    async def shown(self, message_id: str) -> dict[str, Any]:
        message: dict[str, Any] = (await self.http.get(f"/api/messages/{message_id}")).json()
        return message

    async def misbehave(self, **fault: Any) -> None:
        answer = await self.http.put("/api/faults", json=[fault])
        assert answer.status_code == 200, answer.text


@asynccontextmanager
async def feishu(settings: Settings | None = None) -> AsyncIterator[Feishu]:
    """A simulator on a free port."""
    app = create_app(settings)
    async with served(app) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=trusted()) as http:
        yield Feishu(url, app.state.simulator, http)


Answering = Callable[[Request], Awaitable[Response]]


@dataclass
class Webhook:
    """Where clicks arrive: keeps them, and answers as it is told."""

    url: str
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answer: Answering | None = None

    def opened(self, key: str = "encrypt-key", index: int = -1) -> dict[str, Any]:
        """A delivery, decrypted by other code than the simulator's."""
        sealed = base64.b64decode(json.loads(self.received[index][1])["encrypt"])
        cipher = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(sealed[:16])).decryptor()
        padded = cipher.update(sealed[16:]) + cipher.finalize()
        unpadder = PKCS7(128).unpadder()
        event: dict[str, Any] = json.loads(unpadder.update(padded) + unpadder.finalize())
        return event

    def answers(self, content: Any, status: int = 200) -> None:
        """From now on, this JSON."""

        async def answer(_: Request) -> Response:
            return Response(json.dumps(content), status, media_type="application/json")

        self.answer = answer


@asynccontextmanager
async def webhook(port: int = 0) -> AsyncIterator[Webhook]:
    app = FastAPI()
    hook = Webhook("")

    @app.post("/callback")
    async def callback(request: Request) -> Response:
        hook.received.append((dict(request.headers), await request.body()))
        if hook.answer is None:
            return Response("{}", media_type="application/json")
        return await hook.answer(request)

    async with served(app, port) as url:
        hook.url = f"{url}/callback"
        yield hook


def text(content: str) -> dict[str, Any]:
    return {"tag": "plain_text", "content": content}


def button(value: Any, **more: Any) -> dict[str, Any]:
    return {"tag": "button", "text": text("Go"), "behaviors": [{"type": "callback", "value": value}], **more}


def card(*elements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": "2.0",
        "config": {"update_multi": True},
        "header": {"template": "orange", "title": text("Approve?")},
        "body": {"elements": list(elements) or [{"tag": "markdown", "content": "**hello**"}]},
        **more,
    }


def form(*fields: dict[str, Any], **submit: Any) -> dict[str, Any]:
    send = button({"decision": "reject"}, name="reject", form_action_type="submit", **submit)
    return {"tag": "form", "name": "rejection", "elements": [*fields, send]}
