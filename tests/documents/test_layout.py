"""Every test lies where one looks for it: in the folder of what it tests; and none leans on another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.environment import ROOT

TESTS = ROOT / "tests"
ROOMS = ("assent", "workflows", "activities", "cards", "ledger", "workers", "simulator")
FOLDERS = (*ROOMS, "processes", "browser", "documents")
"""Where tests may be: in a room's folder, on real processes, in a browser, on the documents and the repository."""
WITHOUT_TESTS = ("support", "recording", "histories", "faults", "world")
"""What stands beside them: helpers, what records histories and those histories, and two programs of their own."""
MODULES = sorted(path for path in TESTS.rglob("*.py") if path.name != "__init__.py")


def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def _imported(path: Path) -> Iterator[str]:
    """Every module that a file may import, by its dotted name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{_name(path)} imports from where it happens to be"
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_every_test_module_lies_in_one_of_the_folders() -> None:
    for path in MODULES:
        folder = path.relative_to(TESTS).parts[:-1]
        if path.name.startswith("test_"):
            assert folder in {(each,) for each in FOLDERS}, f"tests/{_name(path)} lies where nobody looks for it"
        elif path.name != "conftest.py":
            assert folder in {(each,) for each in WITHOUT_TESTS}, f"tests/{_name(path)} is a helper: tests/support"


def test_every_folder_is_a_package_so_that_two_may_hold_a_module_of_one_name() -> None:
    folders = {path.parent for path in MODULES}
    assert {folder.name for folder in folders} == {"tests", *FOLDERS, *WITHOUT_TESTS} - {"histories"}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_module_imports_a_test_module() -> None:
    found = {_name(path): [name for name in _imported(path) if name.startswith("tests.")] for path in MODULES}
    leaning = {path: tests for path, names in found.items() if (tests := [name for name in names if ".test_" in name])}
    assert leaning == {}, "what they share belongs into tests/support"
