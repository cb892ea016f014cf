"""The threat model names a test for every row, and each of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.documents import ROOT

MODEL = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(\w+/test_\w+\.py)::(test_\w+)`")


def test_every_row_names_tests_that_exist() -> None:
    rows = [
        line
        for line in MODEL.read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| who |", "|---"))
    ]
    assert len(rows) > 30
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 5, row
        assert all(cells), row
        named = NAMED.findall(cells[-1])
        assert named, f"no test is named: {row}"
        for file, test in named:
            assert test in _tests(ROOT / "tests" / file), f"{file}::{test} does not exist"


def _tests(file: Path) -> set[str]:
    assert file.exists(), file
    found = ast.walk(ast.parse(file.read_text("utf-8")))
    return {each.name for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
