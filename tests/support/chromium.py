"""The browser that the tests look through; `python -m tests.support.chromium` gets one where there is none.

It is what `ASSENT_CHROMIUM` names, else a Chromium or Chrome of this machine, else Debian's package where we may
install it, else Playwright's own download. Where none can be had, the tests that need one are skipped, and say so. One
that can only run without a window comes first: it takes a third of the processor's time.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright
from playwright.sync_api import sync_playwright

from tests.support.skips import NO_BROWSER, NO_DRIVER

VARIABLE = "ASSENT_CHROMIUM"
_PACKAGE = "chromium-headless-shell"
_NAMES = (
    _PACKAGE,
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_FONTS = ("fontconfig", "fonts-wqy-microhei")
"""Cards hold Chinese: without a font for it, pictures of them hold boxes."""
_LIBRARY = "libatomic1"
"""What drives the browser needs it, and a small Debian has it not."""
_PATIENCE = 600
"""Seconds that a download may take."""
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)


@asynccontextmanager
async def chromium(*flags: str) -> AsyncIterator[Browser]:
    """A running browser; where there is none, the test is skipped."""
    if not _driver_starts():
        pytest.skip(NO_DRIVER)
    async with async_playwright() as driver:
        path = found()
        if path is None and not _own(driver.chromium.executable_path):
            pytest.skip(NO_BROWSER)
        # Without a path it is Playwright's, in the form that has no window.
        browser = await driver.chromium.launch(executable_path=path, args=[*_FLAGS.split(), *flags])
        try:
            yield browser
        finally:
            await browser.close()


def found() -> str | None:
    """The browser of this machine, if it has one that starts."""
    if named := os.environ.get(VARIABLE):
        assert _starts(named), f"{VARIABLE}={named} does not start; name a Chromium, or unset it"
        return named
    return next((path for path in map(shutil.which, _NAMES) if path and _starts(path)), None)


def _own(path: str) -> str | None:
    """Playwright's own browser, if it was downloaded and starts."""
    return path if _starts(path) else None


def _starts(*command: str) -> bool:
    """Whether it is a program that finds the libraries it needs."""
    try:
        return subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _driver_starts() -> bool:
    """Whether the Node.js program that drives the browser runs here."""
    return _starts(sys.executable, "-m", "playwright")


def get() -> None:
    """Get a browser and a font for Chinese, as far as this machine lets us, and say what came of it."""
    as_root = _as_root()
    if _is_debian() and as_root is not None:
        lacking = [] if _driver_starts() else [_LIBRARY]
        lacking += [] if found() else [_PACKAGE]
        lacking += [] if _has_chinese() else _FONTS
        if lacking:
            _install(lacking, as_root)
    if not _driver_starts():
        print(NO_DRIVER, flush=True)
        return
    path = found()
    if path is None:
        with sync_playwright() as driver:
            own = driver.chromium.executable_path
        if not _starts(own):
            _download(with_libraries=as_root is not None and shutil.which("apt-get") is not None)
        path = _own(own)
    print(f"The tests look through {path}." if path else NO_BROWSER, flush=True)


def _as_root() -> list[str] | None:
    """How to run something as root without asking anybody; None: not at all."""
    if os.geteuid() == 0:
        return []
    may = shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ["sudo", "-n"] if may and may.returncode == 0 else None


def _is_debian() -> bool:
    """Others that look like it have no package of that name, or one that needs a desktop."""
    try:
        return platform.freedesktop_os_release()["ID"] == "debian"
    except OSError:
        return False


def _has_chinese() -> bool:
    lister = shutil.which("fc-list")
    return bool(lister and subprocess.run([lister, ":lang=zh"], capture_output=True, check=False).stdout.strip())


def _install(packages: list[str], as_root: list[str]) -> None:
    print(f"Installing {', '.join(packages)} for the tests …", flush=True)
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run([*apt, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


def _download(*, with_libraries: bool) -> None:
    print("Downloading a browser for the tests …", flush=True)
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    command += ["--with-deps"] if with_libraries else []
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        print(f"The download took longer than {_PATIENCE} seconds.")
    else:
        if done.returncode != 0:
            print(done.stderr.strip().partition("\n")[0] or done.stdout.strip()[-300:])


if __name__ == "__main__":
    get()
