"""`make dev` and a browser on the same machine: a page from elsewhere can file, decide and run nothing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from playwright.async_api import Browser, Page, Route

from simulator.guard import objection as simulator_objection
from tests.support import servers
from tests.support.chromium import chromium
from tests.support.http_server import Server, listening
from tests.support.slow_requests import door
from tests.support.waiting import until
from workers import dev, ui_guard
from workers.dev import Installation
from workers.edge import Edge

EVIL = "evil.example"
_TRUSTING = (
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights"
)
"""A browser that protects nobody: what is refused is refused by us."""
START = {"workflowType": {"name": "X"}, "taskQueue": {"name": "q"}, "requestId": "1"}


@dataclass
class ReachableDev:
    """What of `make dev` a browser can reach, and a server in the agents' place that counts who asks."""

    place: Installation
    http_port: int
    agents: Server
    browser: Browser

    async def faults(self) -> Any:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self.place.chat}/api/faults")).json()

    async def workflows(self) -> int:
        client = await servers.connect(self.place.address, "default")
        return (await client.count_workflows()).count


@asynccontextmanager
async def living(directory: Path) -> AsyncIterator[ReachableDev]:
    ports = {"": 0, "UI_": 0, "CHAT_": 0, "API_": 0, "WEBHOOK_": 0}
    async with AsyncExitStack() as stack:
        agents = await stack.enter_async_context(listening())
        agents.answers(200, '{"approval_id": "a", "status": "pending"}')
        for name in ports:
            ports[name] = servers.free_port()
        api_port = int(agents.url.rpartition(":")[2])
        place = Installation(
            directory, ports[""], ports["UI_"], ports["CHAT_"], api_port, ports["WEBHOOK_"], "t" * 32, "c" * 32
        )
        behind = dev._apart()
        commands = {
            "temporal": dev._temporal(place, behind),
            "ui": [sys.executable, "-m", "workers.ui_guard", str(place.ui_port), f"{behind[0]}:{behind[1]}"],
            "simulator": [sys.executable, "-m", "simulator"],
        }
        processes = [_started(command, place) for command in commands.values()]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)

        async def up() -> bool:
            return all(dev._is_busy(port) for port in (place.port, place.ui_port, place.chat_port))

        await until(up, 240)
        browser = await stack.enter_async_context(chromium(f"--host-resolver-rules=MAP {EVIL} 127.0.0.1", _TRUSTING))
        yield ReachableDev(place, await _http_port(processes[0].pid, place, behind), agents, browser)


def _started(command: list[str], place: Installation) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=place.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _http_port(pid: int, place: Installation, behind: tuple[str, int]) -> int:
    """Where Temporal's HTTP API listens: the port that answers to HTTP."""
    found: list[int] = []

    async def answers() -> bool:
        ports = {each.laddr.port for each in psutil.Process(pid).net_connections("tcp") if each.status == "LISTEN"}
        async with httpx.AsyncClient(timeout=5) as client:
            for port in sorted(ports - {place.port, behind[1]}):
                try:
                    answer = await client.get(f"http://127.0.0.1:{port}/api/v1/namespaces/default/workflows")
                except httpx.HTTPError:
                    continue
                if answer.status_code in (200, 403) and "metrics" not in answer.text[:200]:
                    found.append(port)
                    return True
        return False

    await until(answers, 240)
    return found[0]


@pytest.fixture(scope="module")
async def reachable(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReachableDev]:
    async with living(tmp_path_factory.mktemp("pages") / "dev") as own:
        yield own


async def _shown(reachable: ReachableDev, address: str) -> Page:
    """A page of the adversary's, as if it came from *address*."""
    page = await reachable.browser.new_page()

    async def serve(route: Route) -> None:
        await route.fulfill(status=200, content_type="text/html", body="<h1>free kittens</h1>")

    await page.route(address, serve)
    await page.goto(address)
    return page


SEND = """async ([url, type, body]) => {
    try {
        const answer = await fetch(url, {method: "POST", headers: {"Content-Type": type}, body, mode: "no-cors"});
        return answer.type + " " + answer.status;
    } catch (error) { return "failed"; }
}"""
SUBMIT = """([url, body]) => new Promise(done => {
    const frame = document.createElement("iframe"); frame.name = "f"; document.body.append(frame);
    const form = document.createElement("form");
    form.method = "POST"; form.action = url; form.enctype = "text/plain"; form.target = "f";
    const field = document.createElement("input");
    field.name = body.slice(0, -1) + ', "x": "'; field.value = '"}'; form.append(field);
    document.body.append(form); frame.onload = () => done(true); form.submit();
    setTimeout(() => done(false), 5000);
})"""
SOCKET = """url => new Promise(done => {
    const socket = new WebSocket(url);
    socket.onopen = () => done(true); socket.onerror = () => done(false);
})"""
PRESS = """async ([path, body]) => {
    const headers = {"Content-Type": "application/json"};
    return (await fetch(path, {method: "POST", body, headers})).status;
}"""
CALL = """async ([path, body]) => {
    const token = (document.cookie.match(/_csrf=([^;]*)/) || [])[1] || "";
    const headers = {"Content-Type": "application/json", "X-CSRF-Token": token};
    const read = await fetch(path.split("?")[0], {headers});
    const answer = await fetch(path, {method: "POST", headers, body});
    return [read.status, answer.status];
}"""


async def test_a_page_of_another_origin_changes_nothing(reachable: ReachableDev) -> None:
    fault = {"on": "send", "kind": "5xx"}
    async with httpx.AsyncClient() as client:
        put = await client.put(f"{reachable.place.chat}/api/faults", json=[fault])
    assert put.status_code == 200, put.text
    before = await reachable.faults()
    assert before, "programs on this machine may"
    started = await reachable.workflows()
    temporal = f"http://127.0.0.1:{reachable.http_port}/api/v1/namespaces/default/workflows/w"
    ui = f"http://127.0.0.1:{reachable.place.ui_port}/api/v1/namespaces/default/workflows/w"
    chat = reachable.place.chat
    press = json.dumps({"open_id": "ou_requester", "chat_id": "oc_team"})
    call = json.dumps({"tool": "send_invoice", "arguments": {}, "open_id": "ou_requester", "chat_id": "oc_team"})
    page = await _shown(reachable, f"http://{EVIL}:4000/")
    for url, body in (
        (temporal, json.dumps(START)),
        (ui, json.dumps(START)),
        (f"{chat}/api/reset", ""),
        (f"{chat}/api/expire_tokens", ""),
        (f"{chat}/api/shortcuts/0", press),
        (f"{chat}/api/tools", call),
        (f"{chat}/api/say", json.dumps({"open_id": "ou_requester", "text": "hi"})),
        (f"{chat}/api/clicks", "{}"),
        (f"{chat}/open-apis/auth/v3/tenant_access_token/internal", "{}"),
    ):
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            await page.evaluate(SEND, [url, kind, body])
        await page.evaluate(SUBMIT, [url, body or "{}"])
    assert await page.evaluate(SOCKET, f"ws://127.0.0.1:{reachable.place.chat_port}/ws/v2?ticket=x") is False
    assert await reachable.faults() == before
    assert await reachable.workflows() == started
    assert reachable.agents.received == [], "nothing was asked for"
    await page.close()


async def test_a_name_that_leads_here_opens_nothing(reachable: ReachableDev) -> None:
    started, before = await reachable.workflows(), await reachable.faults()
    press = json.dumps({"open_id": "ou_requester", "chat_id": "oc_team"})
    for port, path, body in (
        (reachable.place.chat_port, "/api/shortcuts/0", press),
        (reachable.place.chat_port, "/api/tools", press),
        (reachable.place.chat_port, "/api/reset", "{}"),
        (reachable.place.ui_port, "/api/v1/namespaces/default/workflows/w?x=1", json.dumps(START)),
        (reachable.http_port, "/api/v1/namespaces/default/workflows/w?x=1", json.dumps(START)),
    ):
        page = await _shown(reachable, f"http://{EVIL}:{port}/page-of-the-adversary")
        assert await page.evaluate(CALL, [path, body]) == [403, 403], (port, path)
        await page.close()
    assert await reachable.workflows() == started
    assert await reachable.faults() == before
    assert reachable.agents.received == []


async def test_our_own_pages_work(reachable: ReachableDev) -> None:
    page = await reachable.browser.new_page()
    await page.goto(f"{reachable.place.chat}/")
    press = json.dumps({"open_id": "ou_requester", "chat_id": "oc_team"})
    assert await page.evaluate(PRESS, ["/api/shortcuts/0", press]) == 200

    async def both() -> list[tuple[str, str]] | None:
        asked = sorted((each.method, each.target) for each in reachable.agents.received)
        return asked if len(asked) > 1 else None

    assert await until(both) == [("GET", "/v1/tools"), ("POST", "/v1/approvals")]  # what can be asked for, and what was
    reachable.agents.received.clear()
    shown = await page.goto(f"http://127.0.0.1:{reachable.place.ui_port}/")
    assert shown is not None
    assert shown.status == 200
    await page.get_by_text("Workflows").first.wait_for()
    await page.close()


def test_secrets_are_of_this_installation_and_its_owner(tmp_path: Path) -> None:
    places = [Installation(tmp_path / name, 1, 2, 3, 4, 5, "t", "c") for name in ("a", "b", "a")]
    one, other, again = (place.environment for place in places)
    for name in ("APP_SECRET", "ENCRYPT_KEY", "VERIFICATION_TOKEN"):
        assert one[f"ASSENT_FEISHU_{name}"] == one[f"SIMULATOR_{name}"] == again[f"SIMULATOR_{name}"]
        assert one[f"ASSENT_FEISHU_{name}"] != other[f"ASSENT_FEISHU_{name}"]
        assert len(one[f"ASSENT_FEISHU_{name}"]) >= 32
    files = [file for file in (tmp_path / "a").rglob("*") if file.is_file()]
    assert len(files) == 3
    assert {stat.S_IMODE(os.stat(file).st_mode) for file in files} == {0o600}


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"host": "127.0.0.1:8400"}, True),
        ({"host": "localhost:8400"}, True),
        ({"host": "[::1]:8400"}, True),
        ({"host": "127.0.0.1:8400", "origin": "http://127.0.0.1:8400"}, True),
        ({"host": "127.0.0.1:8400", "origin": "http://127.0.0.1:3000"}, False),
        ({"host": "127.0.0.1:8400", "origin": "null"}, False),
        ({"host": "127.0.0.1:8400", "origin": "https://127.0.0.1:8400"}, False),
        ({"host": "127.0.0.1:8400", "sec-fetch-site": "cross-site"}, False),
        ({"host": "evil.example:8400"}, False),
        ({"host": "127.0.0.1.evil.example:8400"}, False),
        ({"host": "evil.example", "origin": "http://evil.example"}, False),
        ({}, False),
    ],
)
def test_whom_the_simulator_answers(headers: dict[str, str], is_let_in: bool) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    for scope in ({"type": "http", "method": "POST", "headers": raw}, {"type": "websocket", "headers": raw}):
        assert (simulator_objection(scope) is None) is is_let_in


@pytest.mark.parametrize(
    ("head", "is_let_in"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8233\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nhost: LOCALHOST:8233\r\nOrigin: http://localhost:8233\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: evil.example:8233\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8233\r\nHost: evil.example\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8233\r\nOrigin: http://evil.example\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
    ],
)
def test_whom_the_guard_of_the_ui_lets_in(head: bytes, is_let_in: bool) -> None:
    allowed = frozenset({"127.0.0.1:8233", "localhost:8233"})
    assert (ui_guard.objection(head, allowed) is None) is is_let_in


async def test_the_doors_answer_under_their_names_only() -> None:
    named = httpx.ASGITransport(Edge(door(), hosts=["127.0.0.1", "Assent.Example"]))
    async with httpx.AsyncClient(transport=named) as client:
        for url, status in (
            ("http://127.0.0.1:8500/healthz", 200),
            ("http://assent.example/healthz", 200),
            ("http://evil.example:8500/healthz", 403),
        ):
            assert (await client.get(url)).status_code == status
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Edge(door()))) as client:
        assert (await client.get("http://any.example/healthz")).status_code == 200
