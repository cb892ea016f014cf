"""What the documents name exists, and the other way round; and their links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import re
import tomllib
from pathlib import Path

import pytest
from temporalio.client import Client

from assent import Status, content, errors, payload, tool
from assent.api.problems import Code, problem
from assent.api.wire import MAX_WAIT, NewApproval, NewRuling
from assent.cli.main import cli
from assent.core.cards import FRESH_FOR
from assent.settings import Settings
from assent.tools import definition as tools
from assent.types import VerdictKind
from cards.controls import MOST_REASON
from ledger import Reader
from simulator import people
from tests.support.documents import (
    API,
    DOCUMENTS,
    FEISHU,
    GUARANTEES,
    OPERATIONS,
    README,
    ROOT,
    TOOLS,
    commands,
    headings,
    rows,
    section,
    slug,
)
from tests.support.web import write_tokens
from workers import api, dev, edge, webhook

# The commands, variables and names exist


def test_assent_commands_parse() -> None:
    seen = set()
    for command, *words in commands():
        if Path(command).name == "assent":
            seen.add(words[0])
            end = words.index(">>") if ">>" in words else None
            cli.commands[words[0]].make_context(words[0], words[1:end])
    assert seen == cli.commands.keys()
    for document in DOCUMENTS:
        assert set(re.findall(r"`assent (\w+)", document.read_text())) <= cli.commands.keys()


def test_modules_files_and_make_targets_exist() -> None:
    for command, *words in commands():
        if (command, *words[:1]) == ("docker", "compose"):
            assert (ROOT / words[words.index("-f") + 1]).exists()
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        assert set(re.findall(r"\bmake (\w+)`?$", document.read_text(), re.MULTILINE)) <= set(targets)
        for module in re.findall(r"python -m ([\w.]+\w)", document.read_text()):
            assert importlib.util.find_spec(module), module


def test_variables_are_those_that_are_read() -> None:
    settings = {f"ASSENT_{field.upper()}" for field in Settings.model_fields} | {"ASSENT_DEV_DIR"}
    settings |= {f"ASSENT_DEV_{name}PORT" for name in dev._PORTS}
    assert {name for name in rows(OPERATIONS, "Settings") if name.startswith("ASSENT_")} == settings
    compose = set(re.findall(r"ASSENT_\w+", (ROOT / "docker-compose.temporal.yml").read_text()))
    for document in DOCUMENTS:
        assert set(re.findall(r"ASSENT_\w+", document.read_text())) <= settings | compose | {
            "ASSENT_URL",
            "ASSENT_TOKEN",
            "ASSENT_RUN_ID",
        }


def test_defaults_are_those_of_the_code() -> None:
    said = {name: cells[-1] for name, cells in rows(OPERATIONS, "Settings").items()}
    for name, port in dev._PORTS.items():
        assert said[f"ASSENT_DEV_{name}PORT"] == str(port)
    for name in ("host", "requester_pending", "chat_requests_per_hour"):
        assert said[f"ASSENT_{name.upper()}"].strip("`") == str(Settings.model_fields[name].default)
    assert said["ASSENT_PORT"] == f"the API {api.PORT}, the webhook {webhook.PORT}"
    assert f"http://127.0.0.1:{dev._PORTS['CHAT_']}>" in README.read_text()


def test_people_and_chats_to_try_it_with_are_there() -> None:
    (asked,) = [words for words in commands(README) if words[1:2] == ["request"]]
    given = dict(itertools.pairwise(asked))
    kind, _, identifier = given["--requester"].partition(":")
    assert people.find(kind, identifier)
    assert given["--chat-id"] in [chat.chat_id for chat in people.GROUPS if chat.has_bot]


def test_start_up_errors_are_said_by_the_code() -> None:
    code = "".join(path.read_text() for room in ("workers", "assent") for path in (ROOT / room).rglob("*.py"))
    said = re.findall(r"^\| (`.*?) \|", section(OPERATIONS, "When a process does not start"), re.MULTILINE)
    assert len(said) == 24
    phrases = re.findall(r"`([^`]+)`", "".join(said))
    for phrase in phrases:
        assert phrase in code, phrase
    for sentence in _start_up_errors():
        assert any(phrase in sentence for phrase in phrases), sentence


def _start_up_errors() -> list[str]:
    """What processes say when they do not start, without what is filled in."""
    found = []
    for path in sorted((ROOT / "workers").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Misconfigured"):
                parts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                found.append("".join(part for part in parts if isinstance(part, str)))
    assert len(found) > 15
    return [sentence for sentence in found if sentence]


def _is_error(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, Exception)


async def test_endpoints_fields_and_errors_are_those_of_the_api(tmp_path: Path) -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True)
    reader = Reader.open(f"sqlite+aiosqlite:///{tmp_path}/ledger.db")
    openapi = api.create_app(Settings(tokens=write_tokens(tmp_path)), client, reader).openapi()
    operations = {f"{method.upper()} {path}" for path, methods in openapi["paths"].items() for method in methods}
    assert rows(API, "HTTP API").keys() == operations
    assert rows(OPERATIONS, "Health").keys() <= operations
    assert rows(API, "Asking").keys() == NewApproval.model_fields.keys()
    assert rows(API, "Frozen calls").keys() == NewRuling.model_fields.keys()
    assert {code: cells[0] for code, cells in rows(API, "Errors").items()} == {
        code: str(problem(code, "").status) for code in Code
    }
    raised = re.findall(r"`([A-Z]\w+)`", section(API, "Errors"))
    assert set(raised) - {"Allow"} == {name for name, found in vars(errors).items() if _is_error(found)} - {
        "AssentError",
        "FileGone",
        "FileTooLarge",
        "FileUnavailable",
        "InvalidTool",
        "LedgerNeeded",
        "MissingExtra",
    }
    assert f"{MAX_WAIT} at most" in section(API, "Waiting")
    assert edge.MAX_BODY == 1_000_000
    assert "1 MB" in section(API, "Asking")


def test_cards_states_verdicts_and_limits_are_those_of_the_code() -> None:
    texts = tomllib.loads((ROOT / "cards" / "texts" / "en.toml").read_text())
    assert rows(FEISHU, "What a card says").keys() == set(texts["state"].values())
    told = rows(FEISHU, "What a click is told")
    assert told.keys() == rows(GUARANTEES, "A click counts once").keys() == set(VerdictKind)
    for verdict, (sentence,) in told.items():
        for key in ("approved", "rejected") if verdict == "accepted" else (verdict,):
            assert texts["toast"][key] in sentence
    assert texts["toast"]["not_recorded"] in section(FEISHU, "What a click is told")
    assert texts["toast"]["not_in_time"] in section(FEISHU, "The operators' card")
    limits = rows(FEISHU, "Limits")
    assert f"After {FRESH_FOR.days} days" in limits["the age of a card"][0]
    assert str(MOST_REASON) in limits["a reason for rejecting"][0]
    endings = rows(GUARANTEES, "What cannot be known is never called done or failed")
    assert endings.keys() == set(Status)


def test_tool_options_and_limits_are_those_of_the_code() -> None:
    words = TOOLS.read_text()
    options = inspect.signature(tool).parameters.keys() - {"function", "registry", "in_camel_case"}
    assert set(re.findall(r"^\| `(\w+)` \|", words, re.MULTILINE)) == options
    for outcome in tools.ToolOutcome:
        assert outcome.name in section(TOOLS, "How a tool ends")
    limits = section(TOOLS, "Limits")
    assert f"{payload.MAX_PAYLOAD_BYTES // 1024} KiB of canonical JSON, {payload.MAX_DEPTH} levels deep" in limits
    assert f"{payload.MAX_VALUES} values" in limits
    assert f"{content.MAX_INLINE_BYTES // 1024} KiB travel" in limits
    assert f"{content.MAX_STORED_BYTES // 1024**2} MiB" in limits


# The links lead somewhere


@pytest.mark.parametrize("document", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_links_resolve(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if target.startswith(("https://", "http://localhost:8233/")):
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
