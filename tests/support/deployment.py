"""The whole service as it is deployed: every part a process of its own, spoken to by wire only."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

import simulator
from assent import ApprovalHandle
from assent.tls import trusted
from cards import Wording
from tests.conftest import new_database, open_service
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import APP, Chat, FeishuService, settings_of
from tests.support.fork_server import spawn
from tests.support.servers import connect
from tests.support.simulated_feishu import served
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import write_tokens
from tests.support.worker_processes import Process
from workers import callbacks, webhook

WORDING = Wording.load()


def said(key: str) -> str:
    """Our words for it, in English."""
    return WORDING(key).en


RECEIVED = (said("toast.received"), "info")


class Part(Process):
    """One process of a deployment."""

    @property
    def lives(self) -> bool:
        return self._running.returncode is None


def speaking(url: str, **more: Any) -> httpx.AsyncClient:
    """A client that lets go of an idle connection before the server does: else now and then both do, and one loses."""
    return httpx.AsyncClient(
        base_url=url, timeout=60, limits=httpx.Limits(keepalive_expiry=2), verify=trusted(), **more
    )


class Seen(Chat):
    """The chat, over such a client."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = speaking(url)


class Told:
    """What came of one click, as the person sees it."""

    def __init__(self, result: dict[str, Any], times: int = 1) -> None:
        self.times = times
        """How often it was pressed: who is asked to click again does so."""
        self.error: str | None = result["error"]
        self.toast: str | None = result["toast"]["i18n"]["en_us"] if result["toast"] else None
        self.kind: str | None = result["toast"]["type"] if result["toast"] else None
        self.delivery_id: str = result["delivery_id"]

    def was(self, toast: str, kind: str) -> bool:
        """Answered in time, with this toast; on a busy machine perhaps only that it was received."""
        return self.error is None and (self.toast, self.kind) in ((said(f"toast.{toast}"), kind), RECEIVED)

    def __repr__(self) -> str:
        return f"{self.error or self.toast}"


class Deployment:
    """Processes, started and killed one by one."""

    def __init__(self, address: str, namespace: str, database: str, directory: Path) -> None:
        self.namespace = namespace
        self.database = database
        self.chat: Chat = Seen("http://127.0.0.1:1")
        self.agent = httpx.AsyncClient(verify=trusted())
        self.parts: dict[str, Part] = {}
        self._address = address
        self._directory = directory
        self._tokens = write_tokens(directory)
        self._processes: list[Part] = []
        self._ports: dict[str, int] = {}

    async def open(self) -> None:
        """Start everything, in an order that gives each the addresses it needs."""
        assert await (await self._spawn("workers.setup")).ended() == 0
        await asyncio.gather(self.start("api"), self.start("webhook"), self.start("tools"))
        await self.start("simulator")
        self.chat = Seen(self.url("simulator"))
        self.agent = speaking(self.url("api"), headers={"Authorization": "Bearer secret-agent"})
        await self.start("approvals")

    async def close(self) -> None:
        await self.chat.http.aclose()
        await self.agent.aclose()
        for process in self._processes:
            await process.kill()

    async def start(self, name: str, part: str = "", **different: str) -> Part:
        """Start a part again where it was, or under another name; and wait until it serves."""
        module = name if name == "simulator" else f"workers.{name}"
        process = await self._spawn(module, **{"ASSENT_PORT": str(self._ports.get(part or name, 0)), **different})
        self.parts[part or name] = process
        log = await until(lambda: self._serving(process), 60)
        if port := re.search(r"served at http://127\.0\.0\.1:(\d+)", log):
            self._ports[part or name] = int(port[1])
        return process

    async def kill(self, *names: str) -> None:
        for name in names:
            await self.parts.pop(name).kill()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def callback(self, name: str) -> str:
        """Where a webhook takes clicks."""
        return f"{self.url(name)}/feishu/callback"

    # What an agent does

    async def ask(self, directory: Path, tool: str = "mark", **asked: Any) -> str:
        """Ask over HTTP; returns the approval's id."""
        body = {
            "tool": tool,
            "requester": {"open_id": "ou_requester"},
            **asked,
            "arguments": {"path": str(directory / "marks"), **asked.get("arguments", {})},
        }
        answer = await self.agent.post("/v1/approvals", json=body)
        assert answer.status_code == 201, answer.text
        approval_id: str = answer.json()["approval_id"]
        return approval_id

    async def status(self, approval_id: str, wait: int = 0) -> str | None:
        async def answered() -> httpx.Response | None:
            answer = await self.agent.get(f"/v1/approvals/{approval_id}", params={"wait": wait})
            return answer if answer.status_code != 503 else None  # nobody can tell while no worker runs

        status: str | None = (await until(answered, 90)).raise_for_status().json()["status"]
        return status

    async def events(self, approval_id: str) -> list[str]:
        """What the audit says of it."""
        answer = await self.agent.get(f"/v1/audit/{approval_id}")
        return [line["entry"]["event"] for line in answer.raise_for_status().json()["entries"]]

    async def executed_once(self, approval_id: str, directory: Path) -> None:
        """It was approved and ran: one message, one side effect, one line for each step, and no button left."""
        assert await self.status(approval_id, wait=60) == "executed"
        final = await self.chat.final(approval_id, said("line.executed"))
        assert [message["message_id"] for message in await self.chat.cards(approval_id)] == [final["message_id"]]
        assert marks(directory / "marks") == 1
        assert await self.events(approval_id) == ["write_request", "deliver", "confirm", "execute"]

    # What a person does

    async def press(self, message: dict[str, Any], name: str, who: str = "ou_requester", **filled: str) -> Told:
        """Press a button of a card as a client does: it has to be there."""
        click = {"message_id": message["message_id"], "open_id": who, "name": name}
        times = count(1)

        async def pressed() -> Told | None:
            answer = await self.chat.http.post("/api/clicks", json=click | ({"form_value": filled} if filled else {}))
            told = Told(answer.raise_for_status().json(), next(times))
            return told if told.toast != said("toast.not_recorded") else None

        return await until(pressed)

    # What happens between Feishu and a webhook

    async def press_at(self, webhook: str, message: dict[str, Any], name: str) -> Told:
        """Press a button so that this webhook is called, whichever one the platform knows."""
        await self.chat.misbehave({"on": "callback", "kind": "refuse", "times": 1})
        lost = await self.press(message, name)
        assert lost.error == "unreachable"
        return await self.replay(lost, url=self.callback(webhook), fresh=True)

    async def replay(self, told: Told, **how: Any) -> Told:
        """The delivery of a click once more."""
        answer = await self.chat.http.post(f"/api/deliveries/{told.delivery_id}/replay", json=how)
        return Told(answer.raise_for_status().json())

    async def duplicate(self, told: Told, webhook: str, *, fresh: bool) -> None:
        """The click is brought to a webhook again, and all that happens is that the person is told so."""

        async def judged() -> Told | None:
            again = await self.replay(told, url=self.callback(webhook), fresh=fresh)
            return again if (again.toast, again.kind) != RECEIVED else None

        again = await until(judged)
        assert (again.error, again.toast) == (None, said("toast.duplicate"))

    async def connections(self) -> int:
        """How many long connections the platform sees."""
        found: int = (await self.chat.http.get("/api/connections")).json()["open"]
        return found

    async def _serving(self, process: Part) -> str | None:
        assert process.lives, process.said()
        return process.said() if "served" in process.said() else None

    async def _spawn(self, module: str, **different: str) -> Part:
        feishu = {f"ASSENT_FEISHU_{name.upper()}": value for name, value in APP.items()}
        if "simulator" in self._ports:
            feishu["ASSENT_FEISHU_DOMAIN"] = self.url("simulator")
        platform = {f"SIMULATOR_{name.upper()}": value for name, value in APP.items()}
        if "webhook" in self._ports:
            platform["SIMULATOR_CALLBACK_URL"] = self.callback("webhook")
        environment = {
            "TEMPORAL_ADDRESS": self._address,
            "TEMPORAL_NAMESPACE": self.namespace,
            "ASSENT_DATABASE_URL": self.database,
            "ASSENT_TOOLS": "tests.support.tools",
            "ASSENT_TOKENS": str(self._tokens),
            "ASSENT_GRACE": "0.5",
            "ASSENT_CHAT_REQUESTS_PER_HOUR": "0",
            "SIMULATOR_PORT": "0",
            **feishu,
            **platform,
            **different,
        }
        log = self._directory / f"{module}-{len(self._processes)}.log"
        running = await spawn(
            *("-m", module),
            env=worker_environment(**environment),
            cwd=ROOT,
            stdout=log.open("wb"),
            stderr=asyncio.subprocess.STDOUT,
        )
        self._processes.append(Part(running, log))
        return self._processes[-1]


@asynccontextmanager
async def opened_deployment(address: str, namespace: str, kind: str, directory: Path) -> AsyncIterator[Deployment]:
    deployment = Deployment(address, namespace, await new_database(kind, directory), directory)
    try:
        await deployment.open()
        yield deployment
    finally:
        await deployment.close()


class FeishuServiceWithWebhook(FeishuService):
    """A service and a simulated Feishu in this process, with a real webhook between them."""

    door: str
    """Where clicks are taken."""
    platform: simulator.Simulator

    async def toast(self, message: dict[str, Any], value: object, **how: Any) -> str:
        """What a forged click is told, in English."""
        told = await self.chat.force(message, value, **how)
        assert told["error"] is None, told
        text: str = told["toast"]["i18n"]["en_us"]
        return text

    async def audited(self, handle: ApprovalHandle, lines: int) -> list[str]:
        """The audit of an approval, once it has so many lines."""

        async def written() -> list[str] | None:
            events = await self.service.events(handle.id)
            return events if len(events) >= lines else None

        return await until(written)


@asynccontextmanager
async def opened_feishu_service_with_webhook(
    address: str,
    namespace: str,
    directory: Path,
    kind: str = "sqlite",
    *,
    patience: float | None = None,
    **platform: Any,
) -> AsyncIterator[FeishuServiceWithWebhook]:
    """Open one on this kind of ledger.

    patience: the seconds in which a click is answered, where more than the platform's own three are meant.
    platform: settings of the simulator.
    """
    client = await connect(address, namespace)
    async with AsyncExitStack() as stack:
        if patience is not None:
            stack.enter_context(patch.object(callbacks, "_ANSWER_WITHIN", patience))
            platform["click_timeout"] = patience * 2
        app = simulator.create_app(simulator.Settings(**APP, **platform))
        chat = Seen(await stack.enter_async_context(served(app)))
        stack.push_async_callback(chat.http.aclose)
        url = await new_database(kind, directory)
        service = await open_service(stack, client, url, **settings_of(chat.url))
        door = await stack.enter_async_context(served(webhook.create_app(service.settings, client)))
        feishu = FeishuServiceWithWebhook(service, chat)
        feishu.platform, feishu.door = app.state.simulator, f"{door}/feishu/callback"
        feishu.platform.settings = dataclasses.replace(feishu.platform.settings, callback_url=feishu.door)
        yield feishu
