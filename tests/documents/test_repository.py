"""What a newcomer relies on: two commands, a run in CI that is nothing else, and files that say what they should."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import assent
from assent.cli.main import cli
from tests.support import chromium
from tests.support.documents import CONTRIBUTING, README, ROOT, commands, section
from tests.support.skips import NO_BROWSER

MAKEFILE = (ROOT / "Makefile").read_text()


def recipe(target: str) -> list[str]:
    """What make runs for a target, in plain words."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    return [line.strip().lstrip("@").replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


# Two commands


def test_the_readme_and_ci_run_the_same_two_commands() -> None:
    """CI is the README's command for the tests, and lint: what one of them does, so does the other."""
    first = re.findall(r"^```sh\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)[0]
    offered = [line.partition("#")[0].strip() for line in first.splitlines()]
    assert offered == ["make dev", "make test"]
    assert first in section(CONTRIBUTING, "Setting up")
    lines = [line.partition(" #")[0] for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert lines == [
        "#!/usr/bin/env bash",
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        "export CI=true",
        "make lint",
        offered[1],
    ]


@pytest.mark.parametrize("target", ["dev", "test", "lint"])
def test_each_command_installs_what_it_needs(target: str) -> None:
    needs = re.search(rf"^{target}: (.*)$", MAKEFILE, re.MULTILINE)
    assert needs
    assert "setup" in needs[1].split()
    assert (".venv/.browser" in needs[1].split()) == (target == "test")


def test_commands_of_contributors_are_there() -> None:
    targets = set(re.findall(r"^(\w+):", MAKEFILE, re.MULTILINE))
    asked = {words[1] for words in commands(CONTRIBUTING) if words and words[0] == "make"}
    assert asked <= targets
    assert {"setup", "lock", "browser"} <= targets
    assert set(re.findall(r"`make (\w+)`", CONTRIBUTING.read_text())) <= targets
    assert chromium.VARIABLE in CONTRIBUTING.read_text()


def test_pre_commit_runs_what_lint_runs() -> None:
    configured = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in configured["repos"] for hook in repository["hooks"]]
    assert [hook["entry"] for hook in hooks] == recipe("lint")
    assert all(hook["pass_filenames"] is False and hook["language"] == "system" for hook in hooks)


# No test is left out in silence


_SOME_ARE_SKIPPED = f"""
import pytest
from tests.support.skips import Skips

def test_that_runs(): pass
def test_one(): pytest.skip("a reason of its own")
@pytest.mark.parametrize("n", range(3))
def test_of_a_page(n): pytest.skip({NO_BROWSER!r})
"""


def run_with_skips(directory: Path, code: str = _SOME_ARE_SKIPPED, **environment: str) -> tuple[int, list[str]]:
    (directory / "conftest.py").write_text(
        "from tests.support.skips import Skips\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        config.pluginmanager.register(Skips())\n"
    )
    (directory / "test_some.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", str(directory)],
        cwd=directory,
        env={**os.environ, "CI": "", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_skipped_tests_are_named_and_the_last_line_says_what_to_do(tmp_path: Path) -> None:
    code, said = run_with_skips(tmp_path)
    assert code == 0
    assert said[-1] == f"3 tests were skipped: {NO_BROWSER}"
    assert said[-2] == "1 test was skipped: a reason of its own"
    assert {f"SKIPPED test_some.py::test_of_a_page[{n}]" for n in range(3)} <= set(said)


def test_in_ci_a_skipped_test_fails_the_run(tmp_path: Path) -> None:
    code, said = run_with_skips(tmp_path, CI="true")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert said[-1].startswith("3 tests were skipped, which fails this run")


def test_where_nothing_is_skipped_nothing_is_said_of_it(tmp_path: Path) -> None:
    code, said = run_with_skips(tmp_path, "def test_that_runs(): pass\n", CI="true")
    assert (code, "skipped" in "".join(said)) == (0, False)


# The browser


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without browsers; what is put into the directory is on its PATH."""
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "_NAMES", [name for name in chromium._NAMES if not Path(name).is_absolute()])
    return tmp_path


def program(path: Path, *, ends_with: int = 0) -> str:
    path.write_text(f"#!/bin/sh\nexit {ends_with}\n")
    path.chmod(0o755)
    return str(path)


def test_the_browser_is_the_named_one_else_the_machines(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chromium.found() is None
    program(bare / "chromium", ends_with=127)  # a library is missing
    assert chromium.found() is None
    own = program(bare / "google-chrome")
    assert chromium.found() == own
    named = program(bare / "mine")
    monkeypatch.setenv(chromium.VARIABLE, named)
    assert chromium.found() == named
    monkeypatch.setenv(chromium.VARIABLE, str(bare / "not there"))
    with pytest.raises(AssertionError, match="does not start"):
        chromium.found()


_ON_SUCH_A_MACHINE = """
from tests.support import chromium
chromium._NAMES, chromium._as_root = (), lambda: None
chromium.get()
"""


def test_where_no_browser_can_be_had_that_is_said_and_nothing_fails(tmp_path: Path) -> None:
    nowhere = {"PLAYWRIGHT_BROWSERS_PATH": str(tmp_path), "PLAYWRIGHT_DOWNLOAD_HOST": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", _ON_SUCH_A_MACHINE],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != chromium.VARIABLE} | nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "Downloading a browser for the tests …"
    assert done.stdout.splitlines()[-1] == NO_BROWSER


# What the package says of itself


def test_the_version_has_one_source() -> None:
    assert importlib.metadata.version("assent") == assent.__version__
    told = CliRunner().invoke(cli, ["--version"])
    assert (told.exit_code, told.output) == (0, f"assent {assent.__version__}\n")
    released = assent.__version__.partition(".dev")[0]
    assert re.search(rf"^## {re.escape(released)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_license_is_named_and_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    words = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0" in words
    assert "END OF TERMS AND CONDITIONS" in words
    assert project["authors"] == [{"name": "The Assent authors"}]
