"""`make dev`: it comes up, works, remembers, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from click.testing import CliRunner

from assent import Assent, Identity
from assent.cli.main import cli
from tests.support import servers
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import buttons
from workers import api, webhook
from workers.dev import Installation

ME = Identity(open_id="ou_requester")


class Dev:
    """`python -m workers.dev` on free ports, with a directory of its own."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.directory = directory
        self.port, self.ui_port, self.chat_port, self.api_port, self.webhook_port = (
            servers.free_port() for _ in range(5)
        )
        self._environment = environment
        self._output = directory.with_name(f"{self.port}.output")

    def start(self) -> None:
        environment = {f"ASSENT_DEV_{name}": str(port) for name, port in self.ports.items()}
        environment["ASSENT_DEV_DIR"] = str(self.directory)
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.dev"],
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                env=worker_environment(**environment, **self._environment),
            )

    @property
    def ports(self) -> dict[str, int]:
        return {
            "PORT": self.port,
            "UI_PORT": self.ui_port,
            "CHAT_PORT": self.chat_port,
            "API_PORT": self.api_port,
            "WEBHOOK_PORT": self.webhook_port,
        }

    @property
    def said(self) -> str:
        return self._output.read_text()

    def comes_up(self) -> None:
        eventually(lambda: "Assent is running" in self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def refused(self) -> str:
        """What it says when it does not come up."""
        self.start()
        assert self.process.wait(300) == 1, self.said
        return self.said

    def family(self) -> list[psutil.Process]:
        family: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return family

    def press_ctrl_c(self) -> None:
        """As a terminal does it: to every process of the foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def printed_commands(self) -> list[list[str]]:
        lines = (line.strip() for line in self.said.splitlines())
        return [shlex.split(line)[1:] for line in lines if line.partition(" ")[0].endswith("bin/assent")]


def eventually(holds: Callable[[], bool], seconds: float = 300) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, "it never came true"
        time.sleep(0.05)


def all_gone(family: list[psutil.Process]) -> bool:
    return all(map(is_gone, family))


def is_gone(member: psutil.Process) -> bool:
    try:
        return not member.is_running() or member.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # just now
        return True


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path / "dev")
    yield dev
    if dev.process.poll() is None:
        for member in dev.family():
            member.kill()
        dev.process.kill()
        dev.process.wait()


def test_it_works_as_printed_remembers_and_leaves_nothing_behind(dev: Dev, monkeypatch: pytest.MonkeyPatch) -> None:
    dev.start()
    dev.comes_up()
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{dev.port}")
    commands = dev.printed_commands()
    assert [command[0] for command in commands] == ["request", "list", "decide", "show"]
    answers = [CliRunner().invoke(cli, command) for command in commands]
    assert [answer.exit_code for answer in answers] == [0, 0, 0, 0], [answer.output for answer in answers]
    eventually(lambda: "executed" in CliRunner().invoke(cli, commands[-1]).output)
    outbox = dev.directory / "outbox" / "invoices.jsonl"
    assert len(outbox.read_text().splitlines()) == 1

    assert (
        Dev(dev.directory).refused()
        == f"{dev.directory} is in use by another `make dev`; choose another with ASSENT_DEV_DIR=….\n"
    )

    family = dev.family()
    assert len(family) == 7
    dev.press_ctrl_c()
    assert dev.process.wait(300) == 0, dev.said
    assert all_gone(family)

    dev.start()
    dev.comes_up()
    asyncio.run(finds_the_earlier_approval_and_asks_anew(dev, commands[-1][-1]))

    family = dev.family()
    approvals = next(member for member in family if "workers.approvals" in member.cmdline())
    approvals.kill()
    assert dev.process.wait(300) == 1
    assert "approvals ended with code -9. The end of " in dev.said
    assert "approvals are served" in dev.said.rpartition("The end of")[2]
    assert all_gone(family)


async def finds_the_earlier_approval_and_asks_anew(dev: Dev, earlier: str) -> None:
    gate = await Assent.connect(client=await servers.connect(f"127.0.0.1:{dev.port}"))
    assert (await gate.approval(earlier).outcome()).status == "executed"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{dev.chat_port}") as chat:
        found = (await chat.get("/api/messages")).json()["messages"]
        assert [card["content"]["schema"] for card in found] == ["2.0"]
    handle = await gate.request("send_invoice", {"to": "bob@example.com", "amount": "1"}, requester=ME)
    state = await handle.state()
    verdict = await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content["invoice"]) == ("executed", 2)
    assert verdict.kind in ("accepted", "received")


def test_a_tool_that_takes_its_worker_with_it_freezes_and_the_worker_is_started_again(dev: Dev) -> None:
    dev.start()
    dev.comes_up()
    with httpx.Client(base_url=f"http://127.0.0.1:{dev.chat_port}", timeout=300) as chat:
        labels = [shortcut["label"]["en"] for shortcut in chat.get("/api/shortcuts").json()]
        asked = {"open_id": "ou_requester", "chat_id": "oc_team"}
        filed = chat.post(f"/api/shortcuts/{labels.index('Migrate a database')}", json=asked)
        assert filed.json()["status"] == 201, filed.text

        def card() -> dict[str, Any]:
            found: list[dict[str, Any]] = chat.get("/api/messages").json()["messages"]
            return found[-1] if found else {"content": {}}

        eventually(lambda: "approve" in buttons(card()["content"]))
        press = {"message_id": card()["message_id"], "open_id": "ou_requester"}
        pressed = chat.post("/api/clicks", json=press | {"value": value_of(card(), "approve")})
        assert pressed.json()["toast"]["type"] in ("success", "info")  # approved; or received, on a busy machine
        eventually(lambda: card()["content"]["header"]["template"] in ("violet", "purple"))
    assert "tools was killed in the middle of its work; it is started again." in dev.said
    assert len((dev.directory / "outbox" / "migrations.jsonl").read_text().splitlines()) == 1


def value_of(message: dict[str, Any], decision: str) -> Any:
    return buttons(message["content"])[decision]["behaviors"][0]["value"]


def test_ctrl_c_and_even_a_kill_while_it_starts_leave_nothing_behind(dev: Dev) -> None:
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        dev.start()
        eventually(lambda: bool(dev.family()))
        family = dev.family()
        dev.process.send_signal(stop)
        assert dev.process.wait(300) == (-9 if stop is signal.SIGKILL else 0), dev.said
        eventually(lambda family=family: all_gone(family))  # type: ignore[misc]


_KILLED_WHILE_IT_STARTS_A_PART = """
import os, signal, sys, time
from pathlib import Path
from workers import supervisor

tie, here, directory = supervisor._prctl, os.getpid(), Path(sys.argv[1])


def tie_too_late(*how):
    (directory / "part").write_text(str(os.getpid()))
    os.kill(here, signal.SIGKILL)
    while os.getppid() == here:
        time.sleep(0.01)
    tie(*how)


supervisor._prctl = tie_too_late
supervisor.Part("sleeper", ["sleep", "3600"], directory, os.environ)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_part_leaves_that_is_started_just_when_all_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED_WHILE_IT_STARTS_A_PART, str(tmp_path)]
    assert subprocess.run(command, env=worker_environment(), cwd=ROOT, timeout=300).returncode == -signal.SIGKILL
    written = tmp_path / "part"
    eventually(lambda: written.exists() and bool(written.read_text()))
    pid = int(written.read_text())
    part = [psutil.Process(pid)] if psutil.pid_exists(pid) else []
    try:
        eventually(lambda: all_gone(part), seconds=30)
    finally:
        for left in part:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()


def test_busy_port_is_named_with_the_way_out(dev: Dev) -> None:
    for name, port in dev.ports.items():
        with socket.create_server(("127.0.0.1", port)):
            said = dev.refused()
        assert said == f"Port {port} is in use; stop what uses it, or choose another with ASSENT_DEV_{name}=….\n"


def test_a_part_that_cannot_start_says_why(tmp_path: Path) -> None:
    said = Dev(tmp_path / "dev", ASSENT_GRACE="never").refused()
    assert "setup ended with code 1. The end of " in said
    assert "ASSENT_GRACE: " in said


def test_the_ports_are_those_that_the_documents_name_unless_others_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENT_DEV_DIR", str(tmp_path))
    chosen = ("DEV_PORT", "DEV_UI_PORT", "DEV_CHAT_PORT", "DEV_API_PORT", "DEV_WEBHOOK_PORT", "FEISHU_APP_ID", "TOOLS")
    for name in chosen:
        monkeypatch.delenv(f"ASSENT_{name}", raising=False)
    place = Installation.of_environment()
    assert place.ports == (7233, 8233, 8400, 8500, 8501)
    assert (place.api_port, place.webhook_port) == (api.PORT, webhook.PORT) == (8500, 8501)
    assert place.api == "http://127.0.0.1:8500"
    told = place.environment
    assert told["SIMULATOR_CALLBACK_URL"] == "http://127.0.0.1:8501/feishu/callback"
    assert {shortcut["url"] for shortcut in json.loads(told["SIMULATOR_SHORTCUTS"])} == {
        f"{place.api}/v1/{what}" for what in ("approvals", "questions")
    }
    monkeypatch.setenv("ASSENT_DEV_API_PORT", "9500")
    assert Installation.of_environment().ports == (7233, 8233, 8400, 9500, 8501)
