"""The documents as tests read them: their snippets, commands, tables and sections."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import json
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.fork_server import spawn

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_TRANSLATED = ".zh-CN.md"
DOCUMENTS = [README, *(path for path in sorted((ROOT / "docs").glob("*.md")) if not path.name.endswith(_TRANSLATED))]
"""What users read; translations are compared with it."""
API, APPROVERS, FEISHU, GUARANTEES, OPERATIONS, TOOLS = (
    ROOT / "docs" / f"{name}.md" for name in ("api", "approvers", "feishu", "guarantees", "operations", "tools")
)
ADDRESS = "https://assent.example.com"
"""Where the documents say that the webhook is."""


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

    def at(self, address: str) -> Snippet:
        """The same with the webhook where it really is."""
        return dataclasses.replace(self, code=self.code.replace(ADDRESS, address))

    async def run(self) -> dict[str, Any]:
        """Run it as a program if it is one, else as one types it into a prompt that knows `await`."""
        known: dict[str, Any] = {"__name__": "__main__"}
        if "asyncio.run(" in self.code:
            await self._run_as_program()
            return known
        code = compile(self.code, str(self), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "SyncAssent" in self.code:  # it blocks, and what it waits for runs here
            await asyncio.to_thread(eval, code, known)
        elif inspect.iscoroutine(running := eval(code, known)):
            await running
        return known

    async def _run_as_program(self) -> None:
        program = await spawn("-c", self.code, stdout=subprocess.PIPE)
        try:
            said, _ = await program.communicate()
        finally:
            with suppress(ProcessLookupError):
                program.kill()
        assert "\nexecuted {" in said.decode()


def snippets(language: str, *documents: Path) -> Iterator[Snippet]:
    for document in documents or DOCUMENTS:
        words = document.read_text()
        for found in re.finditer(rf"^( *)```{language}\n(.*?)^\1```$", words, re.MULTILINE | re.DOTALL):
            yield Snippet(document, words[: found.start()].count("\n") + 2, textwrap.dedent(found[2]))


def commands(*documents: Path) -> Iterator[list[str]]:
    """Every command of the documents, in words."""
    for snippet in snippets("sh", *documents):
        yield from _in_words(snippet.code)


def _in_words(code: str) -> Iterator[list[str]]:
    begun = ""
    for line in code.replace("\\\n", " ").splitlines(keepends=True):
        begun += line
        with suppress(ValueError):  # a quotation goes on in the next line
            words = shlex.split(begun, comments=True)
            begun = ""
            yield words
    assert not begun, f"this never ends: {begun}"


@dataclass(frozen=True)
class Curl:
    """A call of the HTTP API, and what the document says that it answers."""

    method: str
    target: str
    headers: dict[str, str]
    body: str | None
    answer: Any

    @classmethod
    def of(cls, words: list[str], answer: Any) -> Self:
        method, target, headers, body = None, "", {}, None
        rest = iter(words[1:])
        for word in rest:
            match word:
                case "-X":
                    method = next(rest)
                case "-H":
                    name, _, value = next(rest).partition(": ")
                    headers[name] = value
                case "-d":
                    body = next(rest)
                case _:
                    assert word.startswith(ADDRESS), word
                    target = word.removeprefix(ADDRESS)
        return cls(method or ("POST" if body else "GET"), target, headers, body, answer)

    @property
    def approval_id(self) -> str | None:
        """The approval that it is about, by its path."""
        found = re.match(r"/v1/(?:approvals|audit|frozen)/([^/?]+)", self.target)
        return found[1] if found else None


def calls(document: Path) -> Iterator[Curl]:
    """What a document does with curl. An answer stands right below its call."""
    blocks = re.finditer(
        r"^```sh\n(.*?)^```$(?:\n\n```json\n(.*?)^```$)?", document.read_text(), re.MULTILINE | re.DOTALL
    )
    for found in blocks:
        called = [words for words in _in_words(found[1]) if words and words[0] == "curl"]
        assert len(called) == 1 or not found[2] or not called
        yield from (Curl.of(words, json.loads(found[2]) if found[2] else None) for words in called)


def agrees(shown: Any, told: Any) -> bool:
    """Whether an answer is as a document shows it, which may leave things out and write … for what varies."""
    if isinstance(shown, dict):
        return isinstance(told, dict) and all(key in told and agrees(shown[key], told[key]) for key in shown)
    if isinstance(shown, list):
        return isinstance(told, list) and len(shown) <= len(told) and all(map(agrees, shown, told))
    if isinstance(shown, str) and "…" in shown:
        if shown == "…":
            return told is not None
        pattern = ".*".join(map(re.escape, shown.split("…")))
        return isinstance(told, str) and re.fullmatch(pattern, told, re.DOTALL) is not None
    return bool(shown == told)


def rows(document: Path, heading: str) -> dict[str, list[str]]:
    """The rows of the tables in a section, by what stands in their first column."""
    found: dict[str, list[str]] = {}
    for table in re.findall(r"(?:^ *\|.*\|\n)+", section(document, heading), re.MULTILINE):
        for line in table.splitlines()[2:]:
            first, *rest = (cell.strip() for cell in line.strip().strip("|").split("|"))
            found[first.strip("`")] = rest
    return found


def without_code(document: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(document: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", without_code(document), re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section(document: Path, heading: str) -> str:
    """What stands under a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", document.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{document.name} has no heading {heading!r}"
    return found[1]
