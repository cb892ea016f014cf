"""Tests that this machine cannot run: named at the end, with what to do about it; in CI they fail the run."""

from __future__ import annotations

import os
from collections import Counter

import pytest

NO_BROWSER = (
    "There is no browser. Install Chromium or Chrome, or name one by ASSENT_CHROMIUM=/path/to/it; "
    "`make browser` tries again to get one."
)
NO_DRIVER = (
    "No browser can be driven: Playwright does not start. It needs the library libatomic; as root on Debian, "
    "`make browser` installs it."
)


class Skips:
    """Watches a whole run, from the process that reports it."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._why[report.nodeid] = _reason(report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._why[report.nodeid] = _reason(report.longrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._why and _may_not_skip() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name in self._why:
            terminalreporter.write_line(f"SKIPPED {name}")

    def pytest_unconfigure(self) -> None:
        """The very last lines of the run."""
        for why, count in sorted(
            Counter(self._why.values()).items(), key=lambda each: each[0] in (NO_BROWSER, NO_DRIVER)
        ):
            what = "1 test was" if count == 1 else f"{count} tests were"
            verdict = ", which fails this run (CI is set)" if _may_not_skip() else ""
            print(f"{what} skipped{verdict}: {why}", flush=True)


def _may_not_skip() -> bool:
    return bool(os.environ.get("CI"))


def _reason(longrepr: object) -> str:
    """What was said to `pytest.skip`."""
    return str(longrepr[2]).removeprefix("Skipped: ") if isinstance(longrepr, tuple) else str(longrepr)
