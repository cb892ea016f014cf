"""What `pip install assent` alone can do: the wheel, with nothing importable but what it says it requires."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.environment import ROOT
from tests.support.http_server import listening

_EXTRAS = (
    "temporalio",
    "click",
    "rich",
    "jsonschema_rs",
    "sqlalchemy",
    "cel",
    "fastapi",
    "pydantic_settings",
    "opentelemetry",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, and beside it the distributions that it requires without any extra."""
    built, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = built.glob("assent-*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (metadata,) = site.glob("assent-*.dist-info")
    for name in _required(importlib.metadata.PathDistribution(metadata).requires):
        _link(importlib.metadata.distribution(name), site)
    return site


def _required(requirements: list[str] | None) -> Iterator[str]:
    for requirement in map(Requirement, requirements or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
            yield from _required(importlib.metadata.requires(requirement.name))


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))


def run(site: Path, code: str, *, ok: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=site, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (ran.returncode == 0) == ok, ran.stderr
    return ran


def test_the_base_requires_three_libraries(site: Path) -> None:
    (metadata,) = site.glob("assent-*.dist-info")
    declared = [Requirement(line) for line in importlib.metadata.PathDistribution(metadata).requires or ()]
    assert {each.name for each in declared if each.marker is None} == {"pydantic", "rfc8785", "httpx"}
    found = run(site, f"from importlib.util import find_spec; print([n for n in {_EXTRAS} if find_spec(n)])").stdout
    assert found == "[]\n"


_ASKING = """
import asyncio
from assent import Assent, Identity, SyncAssent, Tool, ToolContext, ToolResult, http_tool, tool
from assent.types import State, Verdict

async def ask():
    async with await Assent.connect({url!r}, token="t") as gate:
        outcome = await gate.call("send_mail", {{"to": "a"}}, requester=Identity(open_id="ou_1"), approval_id="a-1")
        print(outcome.status, outcome.content)

asyncio.run(ask())
with SyncAssent.connect({url!r}, token="t") as gate:
    print(gate.call("send_mail", {{"to": "a"}}, requester=Identity(open_id="ou_1"), approval_id="a-1").status)
"""


async def test_an_agent_asks_over_http_with_the_base_alone(site: Path) -> None:
    ended = {"approval_id": "a-1", "status": "executed", "content": {"sent": True}}
    async with listening() as server:
        server.answers(
            200,
            json.dumps({"approval_id": "a-1", "phase": "closed", "outcome": ended}),
            "Content-Type: application/json",
        )
        ran = await asyncio.to_thread(run, site, _ASKING.format(url=server.url))
    assert ran.stdout == "executed {'sent': True}\nexecuted\n"
    assert [(each.method, each.target.partition("?")[0]) for each in server.received] == [
        ("POST", "/v1/approvals"),
        ("GET", "/v1/approvals/a-1"),
    ] * 2
    assert json.loads(server.received[0].body)["arguments"] == {"to": "a"}


_SHARING = """
import asyncio
from assent.files import InMemorySharedFileStore, SharedFileResolver, SqliteSharedFileStore

class Client:
    async def download(self, message_id, file_key, resource_type):
        return b"three"

async def read(store):
    user, message = {"open_id": "ou_1"}, {"message_id": "om_1"}
    file = await store.register(user, {"key": "file_1"}, message=message, ttl_seconds=60)
    print((await SharedFileResolver(store, Client()).read_bytes(user, file.file_id))[0])

asyncio.run(read(InMemorySharedFileStore()))
asyncio.run(read(SqliteSharedFileStore("files.db")))
"""


def test_a_bot_of_one_s_own_keeps_files_with_the_base_alone(site: Path) -> None:
    assert run(site, _SHARING).stdout == "b'three'\n" * 2


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import asyncio, assent; asyncio.run(assent.Assent.connect())", "temporal"),
        ("import assent.temporal.door", "temporal"),
        ("import assent.cli.main", "cli"),
        ("import assent\n@assent.tool\ndef send(to: str) -> None: 'Send.'\nsend.manifest", "tools"),
    ],
)
def test_what_needs_an_extra_says_which(site: Path, code: str, extra: str) -> None:
    said = run(site, code, ok=False).stderr.splitlines()[-1]
    assert said.startswith("assent.errors.MissingExtra: ")
    assert said.endswith(f"which is not installed: pip install 'assent[{extra}]'")


_LOOPING = """
import asyncio
from assent.hitl import Agent, FileCheckpointer, LocalChannel
from assent.hitl.testing import ScriptedChannel

async def model(messages, tools):
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    return {"tool_calls": [{"id": "1", "name": "double", "arguments": {"n": 4}}]}

async def double(n: int) -> int:
    return 2 * n

channel = ScriptedChannel(answers=["approve"])
agent = Agent(model, [double], channel=channel, thread_id="t", checkpointer=FileCheckpointer("threads"))
print(asyncio.run(agent.run("double 4"))["content"])
"""


def test_an_agent_loop_runs_with_the_base_alone_and_without_tracing(site: Path) -> None:
    assert run(site, _LOOPING).stdout == "8\n"


def test_the_command_without_its_extra_says_what_to_install(site: Path) -> None:
    (metadata,) = site.glob("assent-*.dist-info")
    (command,) = importlib.metadata.PathDistribution(metadata).entry_points.select(name="assent")
    module, _, function = command.value.partition(":")
    ran = run(site, f"from {module} import {function}; {function}()", ok=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == ("assent: the command line needs click, which is not installed: pip install 'assent[cli]'\n")
