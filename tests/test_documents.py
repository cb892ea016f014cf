"""What the documents say is true: their code runs, their commands parse, their names exist, their links resolve."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from assent import Assent, Decision, Identity, Outcome, content, names, payload, tool, tools
from assent.command import cli
from assent.settings import Settings
from assent.tools import Registry, Tool
from ledger import Ledger
from ledger.engine import open_engine, reading
from tests import parts
from tests.conftest import HEARTBEAT, Service, new_database
from workers.approvals import approvals_worker
from workers.setup import set_up
from workers.tools import tool_workers

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").glob("*.md"))]
OPERATIONS = ROOT / "docs" / "operations.md"
TOOLS = ROOT / "docs" / "tools.md"
ME = Identity(open_id="ou_me")


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a document."""

    document: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"

    @property
    def declares_tools(self) -> bool:
        return "@tool" in self.code or "http_tool(" in self.code

    async def run(self) -> None:
        """Run it as a program if it is one, else as one types it into a prompt that knows `await`."""
        if "asyncio.run(" in self.code:
            program = await asyncio.create_subprocess_exec(sys.executable, "-uc", self.code, stdout=subprocess.PIPE)
            try:
                said, _ = await program.communicate()
            finally:
                with suppress(ProcessLookupError):
                    program.kill()
            assert "\nexecuted {" in said.decode()
            return
        code = compile(self.code, str(self), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(running := eval(code, {"__name__": "__main__"})):
            await running


def snippets(language: str, *documents: Path) -> Iterator[Snippet]:
    for document in documents or DOCUMENTS:
        words = document.read_text()
        for found in re.finditer(rf"^( *)```{language}\n(.*?)^\1```$", words, re.MULTILINE | re.DOTALL):
            yield Snippet(document, words[: found.start()].count("\n") + 2, textwrap.dedent(found[2]))


def commands() -> Iterator[list[str]]:
    """Every command line of the documents, in words."""
    for snippet in snippets("sh"):
        for line in snippet.code.replace("\\\n", " ").splitlines():
            yield shlex.split(line, comments=True)


# The code runs, against the real service


@asynccontextmanager
async def registering() -> AsyncIterator[dict[str, Tool]]:
    """A moment in which `@tool` registers into an empty registry, so that no other test meets these tools."""
    before, tools.registry.tools = tools.registry.tools, {}
    try:
        yield tools.registry.tools
    finally:
        tools.registry.tools = before


@pytest.fixture(scope="module")
async def samples() -> dict[str, Tool]:
    async with registering():
        from workers import samples
    return {found.name: found for found in vars(samples).values() if isinstance(found, Tool)}


@pytest.fixture(scope="module")
async def documented(
    samples: dict[str, Tool],
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[Service]:
    """A service that offers the samples and all tools that the documents declare."""
    async with registering() as declared:
        for snippet in snippets("python"):
            if snippet.declares_tools:
                await snippet.run()
    registry = Registry()
    registry.tools = {**samples, **declared}
    client = await parts.connect(temporal_address, next(namespaces))
    settings = Settings(
        database_url=await new_database("sqlite", tmp_path_factory.mktemp("documents")), heartbeat_timeout=HEARTBEAT
    )
    await set_up(client, settings)
    async with AsyncExitStack() as stack:
        ledger = Ledger.open(settings.database_url)
        stack.push_async_callback(ledger.dispose)
        await ledger.publish((tool.manifest for tool in registry.tools.values()), datetime.now(UTC))
        for worker in (approvals_worker(client, ledger, settings), *tool_workers(client, ledger, registry)):
            await stack.enter_async_context(worker)
        yield Service(client, ledger, settings, await Assent.connect(client=client))


@pytest.fixture(autouse=True)
def outbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSENT_DEV_DIR", str(tmp_path))


async def approve_whatever_i_ask(gate: Assent) -> None:
    """The person in the other terminal."""
    while True:
        async for approval in gate.approvals(status="pending"):
            if approval.requester == str(ME):
                handle = gate.approval(approval.approval_id)
                await handle.decide("approve", actor=ME, payload_sha256=(await handle.state()).payload_sha256)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("snippet", [found for found in snippets("python") if not found.declares_tools], ids=str)
async def test_python_runs(
    snippet: Snippet, documented: Service, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", documented.client.namespace)
    async with asyncio.timeout(60), asyncio.TaskGroup() as together:
        person = together.create_task(approve_whatever_i_ask(documented.gate))
        await snippet.run()
        person.cancel()


SAMPLE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "send_invoice": {"to": "ada@example.com", "amount": "120.00"},
    "read_mailbox": {},
    "transfer_money": {"to": "DE00", "amount": "5000"},
    "rebuild_index": {"name": "customers"},
    "book_room": {"room": "Turing", "day": "2030-01-02"},
    "delete_customer": {"customer": "c-1", "password": "hunter2"},
}


@pytest.mark.parametrize("name", SAMPLE_ARGUMENTS)
async def test_sample_ends_as_it_says(name: str, documented: Service, samples: dict[str, Tool]) -> None:
    assert samples.keys() == SAMPLE_ARGUMENTS.keys()
    outcome = await approved(documented, name, SAMPLE_ARGUMENTS[name])
    assert f"Ends `{outcome.status}`" in samples[name].manifest.description
    assert ("authorize_url" in samples[name].manifest.description) == (outcome.authorize_url is not None)


@pytest.mark.parametrize(
    ("name", "arguments", "status", "content"),
    [
        ("refund", {"order": "A-1", "amount": "20"}, "executed", {"order": "A-1", "refunded": "20 EUR"}),
        ("refund", {"order": "A-1", "amount": "2000"}, "failed", "Refunds beyond 1000 are made by accounting."),
        ("read_calendar", {"week": 54}, "failed", "There is no week 54."),
        ("read_calendar", {"week": 1}, "failed", "The calendar is not connected yet."),
        ("order_paper", {"boxes": 3}, "executed", "3 boxes"),
        ("send_letter", {"to": "Bob"}, "executed", {"to": "Bob", "found": True}),
        ("greet", {"name": "Bob"}, "executed", "open_id:ou_me greets Bob"),
        (
            "book_flight",
            {"to": "Lisbon", "day": "2030-01-02", "card_number": "4000"},
            "executed",
            {"to": "Lisbon", "day": "2030-01-02", "seat": "aisle", "for": "open_id:ou_me"},
        ),
    ],
)
async def test_documented_tool_ends_as_the_text_says(
    name: str, arguments: dict[str, Any], status: str, content: object, documented: Service
) -> None:
    actor = Identity(open_id="ou_grace") if name == "book_flight" else ME
    outcome = await approved(documented, name, arguments, actor)
    assert (outcome.status, outcome.content) == (status, content)


async def approved(service: Service, name: str, arguments: dict[str, Any], actor: Identity = ME) -> Outcome:
    return await service.decided(await service.gate.request(name, arguments, requester=ME), actor=actor)


async def test_signals_have_the_documented_form(documented: Service) -> None:
    decide, cancel = (json.loads(snippet.code) for snippet in snippets("json", OPERATIONS))
    fields = re.findall(r"^\| `(\w+)` \|", section(OPERATIONS, "Deciding from Temporal's UI"), re.MULTILINE)
    assert decide.keys() <= set(fields) <= Decision.model_fields.keys()
    for name, form, status in (("decide", decide, "executed"), ("cancel", cancel, "cancelled")):
        handle = await documented.gate.request("send_invoice", SAMPLE_ARGUMENTS["send_invoice"], requester=ME)
        state = await handle.state()
        known = {"approval_id": handle.id, "payload_sha256": state.payload_sha256} if name == "decide" else {}
        await documented.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(name, {**form, **known})
        assert (await handle.outcome()).status == status


async def test_saved_views_can_be_queried(documented: Service) -> None:
    queries = [line for snippet in snippets("text", OPERATIONS) for line in snippet.code.splitlines()]
    assert len(queries) > 5
    for query in queries:
        await documented.client.count_workflows(query)
    assert {key.name for key in names.SEARCH_ATTRIBUTES} == set(re.findall(r"`(Assent\w+)`", OPERATIONS.read_text()))


async def test_sql_can_be_asked(documented: Service) -> None:
    engine = open_engine(documented.settings.database_url)
    async with reading(engine) as connection:
        for snippet in snippets("sql"):
            for statement in snippet.code.strip().split("\n"):
                await connection.execute(text(statement))
    await engine.dispose()


# The commands, variables and names exist


def test_assent_commands_parse() -> None:
    seen = set()
    for command, *words in commands():
        if Path(command).name == "assent":
            seen.add(words[0])
            cli.commands[words[0]].make_context(words[0], words[1:])
    assert seen == cli.commands.keys()
    for document in DOCUMENTS:
        assert set(re.findall(r"`assent (\w+)", document.read_text())) <= cli.commands.keys()


def test_modules_and_make_targets_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        assert set(re.findall(r"\bmake (\w+)`?$", document.read_text(), re.MULTILINE)) <= set(targets)
        for module in re.findall(r"python -m ([\w.]+\w)", document.read_text()):
            assert importlib.util.find_spec(module), module


def test_variables_are_those_that_are_read() -> None:
    settings = {f"ASSENT_{field.upper()}" for field in Settings.model_fields}
    settings |= set(re.findall(r"ASSENT_DEV_\w+", (ROOT / "workers" / "dev.py").read_text()))
    assert set(re.findall(r"^\| `(ASSENT_\w+)` \|", OPERATIONS.read_text(), re.MULTILINE)) == settings
    for document in DOCUMENTS:
        assert set(re.findall(r"ASSENT_\w+", document.read_text())) <= settings


def test_start_up_errors_are_said_by_the_code() -> None:
    code = "".join(path.read_text() for path in (*(ROOT / "workers").glob("*.py"), *(ROOT / "assent").glob("*.py")))
    rows = re.findall(r"^\| (`.*?) \|", section(OPERATIONS, "When a process does not start"), re.MULTILINE)
    assert len(rows) == 11
    for phrase in re.findall(r"`([^`]+)`", "".join(rows)):
        assert phrase in code, phrase


def test_tool_options_and_limits_are_those_of_the_code() -> None:
    words = TOOLS.read_text()
    options = inspect.signature(tool).parameters.keys() - {"function", "registry"}
    assert set(re.findall(r"^\| `(\w+)` \|", words, re.MULTILINE)) == options
    for outcome in tools.ToolOutcome:
        assert outcome.name in section(TOOLS, "How a tool ends")
    limits = section(TOOLS, "Limits")
    assert f"{payload.MAX_PAYLOAD_BYTES // 1024} KiB of canonical JSON, {payload.MAX_DEPTH} levels" in limits
    assert f"{content.MAX_INLINE_BYTES // 1024} KiB travel" in limits
    assert f"{content.MAX_STORED_BYTES // 1024**2} MiB" in limits


# The links lead somewhere


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_resolve(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = (document.parent / file).resolve() if file else document
        assert linked.exists(), target
        if anchor:
            assert anchor in [slug(heading) for heading in headings(linked)], target


def test_every_document_is_reached_from_the_readme() -> None:
    assert {f"docs/{document.name}" for document in DOCUMENTS[1:]} <= set(
        re.findall(r"\]\(([^)]+)\)", README.read_text())
    )


def headings(document: Path) -> list[str]:
    without_code = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section(document: Path, heading: str) -> str:
    """What stands under a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", document.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{document.name} has no heading {heading!r}"
    return found[1]
