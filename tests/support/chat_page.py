"""The simulator's page in a real Chromium, over a service whose tools run in a process that can really die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, expect
from temporalio.client import Client

import simulator
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from cards import Wording
from ledger import Reader
from tests.conftest import HEARTBEAT, Service, new_database, open_service
from tests.support.chromium import chromium
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import APP, Chat, settings_of
from tests.support.fork_server import spawn
from tests.support.servers import free_port
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from tests.support.web import write_tokens
from tests.support.worker_processes import Process
from workers import api, callbacks, webhook
from workers.approvals import approvals_worker, outbound_worker
from workers.dev import Installation

PATIENCE = 90_000
"""Milliseconds that a busy machine may need for anything on the page."""
PICTURES = ROOT / "docs" / "cards"
LANGUAGES = ("en", "zh")
APPROVE = "Approve as proposed"
WORDING = Wording.load(None)
expect.set_options(timeout=PATIENCE)


@dataclass(frozen=True)
class Asked:
    """A request, and the message that holds its card."""

    approval_id: str
    message_id: str
    state: dict[str, Any]


@dataclass
class Surprises:
    """What the page did that it should never do."""

    hosts: list[str] = field(default_factory=list)
    """Addresses outside this machine that it asked for something."""
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("request", self._on_request)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self._on_console)
        context.on("dialog", self._on_dialog)

    def taken(self) -> tuple[list[str], list[str], list[str]]:
        """All there were since the last time."""
        found = self.hosts, self.errors, self.dialogs
        self.hosts, self.errors, self.dialogs = [], [], []
        return found

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1":
            self.hosts.append(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        # The platform answers 409 to a click on a button that has just gone; the browser notes it, the page says it.
        if message.type == "error" and "409 (Conflict)" not in message.text:
            self.errors.append(message.text)

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        await dialog.dismiss()


_LISTEN = """() => {
  const box = document.getElementById("toasts");
  box.replaceChildren();
  window.told = [];
  window.listening?.disconnect();
  window.listening = new MutationObserver((changes) => {
    for (const toast of changes.flatMap((change) => [...change.addedNodes]))
      window.told.push([toast.dataset.type, toast.innerText]);
  });
  window.listening.observe(box, { childList: true });
}"""
"""Keeps every notice from now on."""


_NOTICED_WITHIN = 3.0


async def _until_done(button: Locator, is_done: Callable[[], Awaitable[bool]]) -> None:
    while True:
        await button.click()
        with contextlib.suppress(TimeoutError):
            await until(is_done, _NOTICED_WITHIN)
            return


class Seat:
    """A person at the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks: list[dict[str, Any]] = []
        """What the page sent on behalf of the person."""
        page.on("request", self._on_request)

    def _on_request(self, request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/api/clicks"):
            self.clicks.append(json.loads(request.post_data or "{}"))

    def message(self, asked: Asked) -> Locator:
        return self.page.locator(f'#messages > [data-message-id="{asked.message_id}"]')

    def card(self, asked: Asked) -> Locator:
        return self.message(asked).locator("article.card")

    def button(self, asked: Asked, name: str) -> Locator:
        return self.card(asked).get_by_role("button", name=name, exact=True)

    async def press(self, asked: Asked, name: str) -> tuple[str, str]:
        """Press a button of a card; the notice that follows."""
        return await self.told(self._sent(self.button(asked, name)))

    async def _sent(self, button: Locator) -> None:
        """Press it until the page has sent the click: what is redrawn under the pointer swallows one."""
        before = len(self.clicks)

        async def is_sent() -> bool:
            return len(self.clicks) > before

        await _until_done(button, is_sent)

    async def asked_back(self, asked: Asked, name: str) -> Locator:
        """Press a button that asks back; the dialog."""
        dialog = self.page.get_by_role("dialog")
        await _until_done(self.button(asked, name), dialog.is_visible)
        return dialog

    async def told(self, act: Awaitable[object]) -> tuple[str, str]:
        """The kind and the text of the notice that an act brings, even if it has left before anybody looks."""
        await self.page.evaluate(_LISTEN)
        await act

        async def heard() -> list[list[str]] | None:
            return await self.page.evaluate("window.told") or None

        ((kind, text),) = await until(heard)
        return kind, text

    async def approve_after_a_second_look(self, asked: Asked, name: str = APPROVE) -> tuple[str, str]:
        """Approve a high-risk call, which asks back."""
        await self.asked_back(asked, name)
        return await self.told(self.page.get_by_test_id("confirm-ok").click())

    async def shows(self, asked: Asked, state: str, lang: str = "en") -> None:
        """Wait until the card stands at a state."""
        word = getattr(WORDING(f"state.{state}"), lang)
        try:
            await expect(self.card(asked).locator(".card-header .text-tag").first).to_have_text(word)
        except AssertionError as error:
            raise AssertionError(f"it shows: {await self.card(asked).inner_text()}") from error

    async def has_no_buttons(self, asked: Asked) -> bool:
        return await self.card(asked).locator("button, input, textarea").count() == 0

    async def rows(self, asked: Asked) -> dict[str, str]:
        """What a card says, by its labels."""
        rows: list[list[str]] = await self.card(asked).evaluate(
            """card => [...card.querySelectorAll('.columns')].map(
                 row => [...row.children].map(column => column.innerText.trim()))"""
        )
        return {row[0]: row[1] for row in rows if len(row) == 2 and row[0]}

    async def conversation(self) -> list[list[str]]:
        """Every message as it is read now."""
        found: list[list[str]] = await self.page.locator("#messages > [data-message-id]").evaluate_all(
            "nodes => nodes.map(node => [node.dataset.messageId, node.dataset.revision, node.innerText])"
        )
        return found


class Tools:
    """`python -m workers.tools` with the sample tools."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self._environment = environment
        self._directory = directory
        self._lives = 0
        self.process: Process

    async def start(self) -> None:
        self._lives += 1
        log = self._directory / f"tools-{self._lives}.log"
        with log.open("wb") as output:
            running = await spawn(
                *("-m", "workers.tools"),
                env=self._environment,
                cwd=ROOT,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
            )
        self.process = Process(running, log)
        await self.process.ready()

    def done(self, name: str) -> list[dict[str, Any]]:
        """What the tools have really done."""
        file = self._directory / "outbox" / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def close(self) -> None:
        await self.process.kill()


@dataclass
class Scene:
    """The page, the people at it, the agent that asks, and the tools that run."""

    service: Service
    chat: Chat
    agent: httpx.AsyncClient
    tools: Tools
    browser: Browser
    surprises: Surprises = field(default_factory=Surprises)
    _seats: dict[str, Seat] = field(default_factory=dict)

    async def seat(
        self,
        who: str = "requester",
        *,
        lang: str = "en",
        theme: str = "light",
        chat: str = "oc_team",
        size: tuple[int, int] = (1280, 1000),
        timezone: str = "Asia/Shanghai",
        phone: bool = False,
        calm: bool = False,
    ) -> Seat:
        """Somebody who opens the page in a browser of their own."""
        context = await self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            timezone_id=timezone,
            locale="en-US",
            is_mobile=phone,
            has_touch=phone,
            reduced_motion="reduce" if calm else "no-preference",
        )
        context.set_default_timeout(PATIENCE)
        self.surprises.watch(context)
        page = await context.new_page()
        await page.goto(f"{self.chat.url}/?as=ou_{who}&chat={chat}&lang={lang}&theme={theme}")
        await expect(page.locator("body[data-connected=true]")).to_be_visible()
        return Seat(page)

    async def known(self, who: str) -> Seat:
        """Somebody who has the page open all the time, in English."""
        if who not in self._seats:
            self._seats[who] = await self.seat(who, calm=True)
        return self._seats[who]

    async def ask(self, tool: str, arguments: dict[str, Any], **more: Any) -> Asked:
        """What an agent asks for, once its card is in the chat."""
        asked = {"requester": {"open_id": "ou_requester"}, "chat_id": "oc_team", **more}
        answer = await self.agent.post("/v1/approvals", json={"tool": tool, "arguments": arguments, **asked})
        assert answer.is_success, answer.text
        return await self.asked(answer.json())

    async def asked(self, answer: dict[str, Any]) -> Asked:
        message = await self.chat.card(answer["approval_id"])
        state = (await self.agent.get(f"/v1/approvals/{answer['approval_id']}")).json()["state"]
        return Asked(answer["approval_id"], message["message_id"], state)

    async def press_sample(self, seat: Seat, number: int) -> tuple[tuple[str, str], Asked]:
        """Press one of the page's own sample buttons; its notice, and the request that it filed."""
        async with seat.page.expect_response(f"**/api/shortcuts/{number}") as answer:
            notice = await seat.told(seat.page.get_by_test_id(f"shortcut-{number}").click())
        return notice, await self.asked((await (await answer.value).json())["body"])

    async def phase(self, asked: Asked) -> str:
        answer = await self.agent.get(f"/v1/approvals/{asked.approval_id}")
        phase: str = answer.json()["phase"]
        return phase


@asynccontextmanager
async def opened(client: Client, address: str, directory: Path) -> AsyncIterator[Scene]:
    """Everything that `make dev` starts, on the test run's Temporal: its own page, buttons, webhook and tools."""
    place = Installation(
        directory, 0, free_port(), free_port(), free_port(), free_port(), "secret-agent", "secret-console"
    )
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", directory)
        tokens = write_tokens(directory)
        service = await open_service(stack, client, url, workers=False, tokens=tokens, **settings_of(place.chat))
        feishu = Feishu.of(service.settings)
        assert feishu is not None
        stack.push_async_callback(feishu.close)
        # On a busy machine a click may take longer than the platform's patience; how that ends is tested elsewhere.
        stack.enter_context(patch.object(callbacks, "_ANSWER_WITHIN", PATIENCE / 1000))
        told = simulator.Settings.from_environment(place.environment)
        assert told.app_id == APP["app_id"]
        told = replace(told, **APP, click_timeout=PATIENCE / 1000)  # its own secrets are random
        await stack.enter_async_context(served(simulator.create_app(told), place.chat_port))
        await stack.enter_async_context(
            served(webhook.create_app(service.settings, client, feishu.name), place.webhook_port)
        )
        agents = api.create_app(service.settings, client, Reader(service.ledger))
        await stack.enter_async_context(served(agents, place.api_port))
        cards = CardActivities(service.ledger, feishu, WORDING)
        await stack.enter_async_context(approvals_worker(client, service.ledger, service.settings, cards))
        await stack.enter_async_context(outbound_worker(client, service.ledger, service.settings, cards))
        environment = worker_environment(
            TEMPORAL_ADDRESS=address,
            TEMPORAL_NAMESPACE=client.namespace,
            ASSENT_DATABASE_URL=url,
            ASSENT_TOOLS="workers.samples",
            ASSENT_DEV_DIR=str(directory),
            ASSENT_HEARTBEAT_TIMEOUT=str(HEARTBEAT.total_seconds()),
        )
        tools = Tools(environment, directory)
        starting = asyncio.create_task(tools.start())
        browser = await stack.enter_async_context(chromium())
        await starting
        stack.push_async_callback(tools.close)
        chat = Chat(place.chat)
        stack.push_async_callback(chat.http.aclose)
        agent = httpx.AsyncClient(
            base_url=place.api, headers={"Authorization": f"Bearer {place.token}"}, timeout=PATIENCE / 1000
        )
        yield Scene(service, chat, await stack.enter_async_context(agent), tools, browser)


class Album:
    """Pictures of cards. They go to `docs/cards` if `UPDATE_SCREENSHOTS` is set, else where nobody keeps them."""

    def __init__(self, directory: Path, cameras: dict[str, Seat]) -> None:
        self._directory = PICTURES if os.environ.get("UPDATE_SCREENSHOTS") else directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._cameras = cameras

    def of(self, cameras: dict[str, Seat]) -> Album:
        """The same album, with others who look."""
        return Album(self._directory, cameras)

    async def take(self, name: str, asked: Asked, state: str | None, *, unfold: str | None = None) -> None:
        """One picture of a card in each language, when it stands at that state, or as it is.

        unfold: the text of a part that is opened before.
        """
        await asyncio.gather(*(self._card(name, asked, state, lang, unfold) for lang in LANGUAGES))

    async def _card(self, name: str, asked: Asked, state: str | None, lang: str, unfold: str | None) -> None:
        camera = self._cameras[lang]
        if state:
            await camera.shows(asked, state, lang)
        if unfold:
            await camera.card(asked).get_by_text(getattr(WORDING(unfold), lang)).click()
            await camera.page.mouse.move(0, 0)
        # The card as it is now, not as it looked before its last revision was drawn.
        await camera.card(asked).screenshot(path=self._file(name, lang), animations="disabled")
        width, height = looked_at(self._file(name, lang))
        assert width == 600
        assert 100 <= height <= 1000, f"{name} is {height} pixels high"

    async def page(self, name: str, lang: str, seat: Seat) -> None:
        """A picture of all that somebody sees."""
        await seat.page.screenshot(path=self._file(name, lang), animations="disabled")
        shown = seat.page.viewport_size
        assert shown is not None
        assert looked_at(self._file(name, lang)) == (shown["width"], shown["height"])

    def _file(self, name: str, lang: str) -> Path:
        return self._directory / f"{name}.{lang}.png"


def looked_at(picture: Path) -> tuple[int, int]:
    """The size of a picture on which there is something to see."""
    chunks = list(_chunks(picture.read_bytes()))
    header = next(data for kind, data in chunks if kind == b"IHDR")
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    stride = len(pixels) // height
    lines = {pixels[at : at + stride] for at in range(0, len(pixels), stride)}
    assert len(lines) > height // 5, f"{picture.name} is all but blank"
    return width, height


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at = 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def unique(words: str) -> str:
    """An identifier that no other run has used."""
    return f"{words}-{uuid.uuid4().hex[:8]}"
