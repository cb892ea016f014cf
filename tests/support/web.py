"""Both doors for tests: tokens of agents, requests as Feishu sends them, and the applications in this process."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from fastapi import FastAPI

from assent import Assent
from assent.api.door import HttpDoor
from ledger import Reader
from tests.conftest import Service, new_database, open_service
from tests.support import servers
from workers import api, webhook

APP_ID, TENANT, KEY, TOKEN = "cli_assent", "tenant_1", "encrypt-key", "verification-token"

AGENTS: dict[str, dict[str, Any]] = {
    "agent": {
        "tools": ["*"],
        "on_behalf_of": ["*"],
        "may_list_files": True,
        "callbacks": ["https://agent.example/hooks/"],
    },
    "approver": {"tools": ["*"], "on_behalf_of": ["*"], "may_decide": True},
    "narrow": {"tools": ["open_*"], "on_behalf_of": ["open_id:ou_narrow"], "chats": ["oc_narrow"]},
    "narrow_approver": {"tools": ["open_*"], "on_behalf_of": ["open_id:ou_narrow"], "may_decide": True},
    "operator": {"tools": ["*"], "on_behalf_of": ["*"], "may_settle": True},
    "narrow_operator": {
        "tools": ["open_*", "raises"],
        "on_behalf_of": ["open_id:ou_narrow", "open_id:ou_operator"],
        "may_settle": True,
    },
    "console": {
        "tools": ["*"],
        "on_behalf_of": ["*"],
        "may_decide": True,
        "may_settle": True,
        "may_read_policy": True,
        "may_list_files": True,
    },
    "reader": {"tools": ["count_*"], "on_behalf_of": ["open_id:ou_requester"], "may_list_files": True},
    "nothing": {},
}
"""How far each token of the tests reaches; a token is called `secret-` and its name."""


def write_tokens(directory: Path, agents: dict[str, dict[str, Any]] | None = None) -> Path:
    """A file of tokens."""
    lines = []
    for name, rights in (AGENTS if agents is None else agents).items():
        digest = hashlib.sha256(f"secret-{name}".encode()).hexdigest()
        lines += ["[[token]]", f'name = "{name}"', f'sha256 = "{digest}"']
        plenty = {"requests_per_minute": 1_000_000, "pending": 100_000, "bytes_per_day": 10**12}
        lines += [f"{key} = {json.dumps(value)}" for key, value in {**plenty, **rights}.items()]
    path = directory / f"tokens-{uuid.uuid4().hex}.toml"
    path.write_text("\n".join(lines))
    return path


class Web:
    """The API over a service, and where it talks to Feishu the webhook, in this process, without sockets."""

    def __init__(self, service: Service, directory: Path, agents: dict[str, dict[str, Any]] | None = None) -> None:
        self.service = service
        self._agents = agents
        self.app = self.another(directory)
        self.hook = self.another_hook() if service.settings.feishu_app_id else None

    def another(self, directory: Path) -> FastAPI:
        """Another process's API: the same settings, nothing in common."""
        settings = self.service.settings.model_copy(update={"tokens": write_tokens(directory, self._agents)})
        return api.create_app(settings, self.service.client, Reader(self.service.ledger))

    def another_hook(self) -> FastAPI:
        """Another process's webhook."""
        return webhook.create_app(self.service.settings, self.service.client)

    def transport(self, app: FastAPI | None = None) -> httpx.ASGITransport:
        return httpx.ASGITransport(app or self.app, raise_app_exceptions=False)

    def http(self, name: str | None = "agent", app: FastAPI | None = None) -> httpx.AsyncClient:
        """A plain HTTP client with the token of that name."""
        headers = {"Authorization": f"Bearer secret-{name}"} if name else {}
        return httpx.AsyncClient(base_url="http://door", headers=headers, transport=self.transport(app), timeout=60)

    def gate(self, name: str = "agent") -> Assent:
        """Our own client over HTTP."""
        return Assent(HttpDoor("http://127.0.0.1", f"secret-{name}", transport=self.transport()))


@asynccontextmanager
async def web_of_its_own(temporal_address: str, namespace: str, directory: Path) -> AsyncIterator[Web]:
    """A webhook over a service that nobody else uses."""
    client = await servers.connect(temporal_address, namespace)
    async with AsyncExitStack() as stack:
        yield Web(await open_service(stack, client, await new_database("sqlite", directory)), directory)


def click_event(value: Any, message_id: str, *, open_id: str = "ou_requester", **header: Any) -> dict[str, Any]:
    """A click as the platform tells it."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": uuid.uuid4().hex,
            "token": TOKEN,
            "create_time": str(time.time_ns() // 1000),
            "event_type": "card.action.trigger",
            "tenant_key": TENANT,
            "app_id": APP_ID,
            **header,
        },
        "event": {
            "operator": {"tenant_key": TENANT, "open_id": open_id, "union_id": f"on_{open_id}"},
            "token": "c-token",
            "action": {"value": value, "tag": "button"},
            "host": "im_message",
            "context": {"open_message_id": message_id, "open_chat_id": "oc_p2p_requester"},
        },
    }


def sealed(event: dict[str, Any], key: str = KEY) -> bytes:
    """An event, encrypted as the platform does it."""
    return sealed_text(json.dumps(event), key)


def sealed_text(text: str, key: str = KEY) -> bytes:
    """Any text, encrypted in the same way."""
    padder = PKCS7(128).padder()
    plain = padder.update(text.encode()) + padder.finalize()
    start = os.urandom(16)
    encryptor = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(start)).encryptor()
    secret = base64.b64encode(start + encryptor.update(plain) + encryptor.finalize())
    return json.dumps({"encrypt": secret.decode()}).encode()


def signed(body: bytes, *, key: str = KEY, age: float = 0) -> dict[str, str]:
    """The headers that prove a body."""
    timestamp, nonce = str(int(time.time() - age)), uuid.uuid4().hex
    signature = hashlib.sha256((timestamp + nonce + key).encode() + body).hexdigest()
    return {
        "X-Lark-Request-Timestamp": timestamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": signature,
        "Content-Type": "application/json",
    }


def is_problem(answer: httpx.Response, status: int, code: str) -> bool:
    found = answer.json()
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert found["type"].endswith(code), answer.text
    assert all(found[member] for member in ("title", "detail", "certain", "advice")), answer.text
    return (answer.status_code, found["status"], found["code"]) == (status, status, code)
