"""The simulator as a process: `python -m simulator`."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from simulator import BadSettings, Settings
from tests.support.fork_server import Started, spawn
from tests.support.servers import free_port
from tests.support.simulated_feishu import button, card, feishu, webhook

ROOT = Path(__file__).parents[2]
OURS = {"assent", "workflows", "activities", "cards", "ledger", "workers"}


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SIMULATOR_")}
    return {**inherited, **{f"SIMULATOR_{name}": value for name, value in variables.items()}}


@asynccontextmanager
async def process(**variables: str) -> AsyncIterator[Started]:
    running = await spawn(
        *("-m", "simulator"),
        cwd=ROOT,
        env=environment(**variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def test_it_says_where_it_is_serves_its_page_and_leaves_when_told() -> None:
    port = free_port()
    async with process(PORT=str(port)) as running:
        assert running.stdout is not None
        assert f"http://127.0.0.1:{port}" in (await running.stdout.readline()).decode()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            assert (await http.get("/healthz")).status_code == 200
            page = await http.get("/")
            assert page.headers["content-type"].startswith("text/html")
            assert (await http.get("/static/index.html")).content == page.content
            async with http.stream("GET", "/api/stream") as stream:
                assert stream.status_code == 200
                running.send_signal(signal.SIGINT)
                # Somebody still watches, and yet it ends, without having to break anything off.
                _, complaints = await asyncio.wait_for(running.communicate(), 300)
        assert (running.returncode, complaints) == (0, b"")


async def test_a_busy_port_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with process(PORT=str(port)) as running:
            _, complaints = await running.communicate()
            assert running.returncode == 1
    assert complaints.decode().strip() == (
        f"Port {port} is in use; stop what uses it, or choose another with SIMULATOR_PORT=…."
    )


async def test_a_second_start_finds_everything_again(tmp_path: Path) -> None:
    async with webhook() as hook:
        settings = Settings(data=tmp_path / "deep" / "simulator.db", callback_url=hook.url)
        async with feishu(settings) as first:
            uploaded = await first.call(
                "POST",
                "/im/v1/files",
                data={"file_type": "stream", "file_name": "a.txt"},
                files={"file": ("a.txt", b"\x00bytes")},
            )
            file_key = uploaded.json()["data"]["file_key"]
            await first.sent({"file_key": file_key}, "ou_requester", kind="open_id", msg_type="file")
            message_id = await first.sent(card(button({"a": 1})), uuid="kept")
            await first.patch(message_id, card(button({"a": 2})))
            delivery_id = (await first.click(message_id, value={"a": 2}))["delivery_id"]
            before = [
                (await first.http.get(path)).json() for path in ("/api/messages", "/api/deliveries", "/api/chats")
            ]
        async with feishu(settings) as second:
            after = [
                (await second.http.get(path)).json() for path in ("/api/messages", "/api/deliveries", "/api/chats")
            ]
            assert after == before
            assert len((await second.shown(message_id))["revisions"]) == 2
            assert (await second.http.get(f"/api/files/{file_key}")).content == b"\x00bytes"
            assert await second.sent(card(), uuid="kept") == message_id
            await second.http.post(f"/api/deliveries/{delivery_id}/replay")
            assert hook.received[0][1] == hook.received[1][1]
            await second.http.post("/api/reset")
        async with feishu(settings) as third:
            assert (await third.http.get("/api/messages")).json() == {"messages": []}


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1:8500/feishu/callback",
        "https://open.feishu.cn/",
        "http://127.0.0.1.example.com/",
        "http://0.0.0.0/",
        "ftp://127.0.0.1/",
        "nowhere",
    ],
)
def test_an_address_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="SIMULATOR_CALLBACK_URL"):
        Settings.from_environment({"SIMULATOR_CALLBACK_URL": url})
    with pytest.raises(BadSettings, match="SIMULATOR_SHORTCUTS"):
        Settings.from_environment({"SIMULATOR_SHORTCUTS": f'[{{"url": "{url}"}}]'})


@pytest.mark.parametrize(
    "variables", [{"SIMULATOR_PORT": "many"}, {"SIMULATOR_LINKS": "{}"}, {"SIMULATOR_SHORTCUTS": "["}]
)
def test_a_variable_that_makes_no_sense_is_named(variables: dict[str, str]) -> None:
    with pytest.raises(BadSettings, match=next(iter(variables))):
        Settings.from_environment(variables)


def test_the_environment_says_it_all(tmp_path: Path) -> None:
    said = Settings.from_environment(
        {
            "SIMULATOR_PORT": "8499",
            "SIMULATOR_DATA": str(tmp_path / "x.db"),
            "SIMULATOR_APP_ID": "cli_x",
            "SIMULATOR_ENCRYPT_KEY": "",
            "SIMULATOR_CALLBACK_URL": "http://localhost:8500/feishu/callback",
            "SIMULATOR_LINKS": '[{"label": "Temporal", "url": "http://127.0.0.1:8233"}]',
            "SIMULATOR_LIMITS": "off",
        }
    )
    assert (said.port, said.data, said.app_id, said.encrypt_key) == (8499, tmp_path / "x.db", "cli_x", "")
    assert (said.app_secret, said.limits, len(said.links)) == ("secret", False, 1)
    assert Settings.from_environment({}) == Settings()


def test_it_imports_nothing_of_ours() -> None:
    for module in (ROOT / "simulator").glob("**/*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            assert not OURS & {name.partition(".")[0] for name in names}, module
