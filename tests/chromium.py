"""The browser that the tests look through; `python -m tests.chromium` gets one where there is none.

It is what `ASSENT_CHROMIUM` names, else a Chromium or Chrome of this machine, else Debian's package where we may
install it, else Playwright's own download. Where none can be had, the tests that need one are skipped, and say so.
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

from tests.skips import NO_BROWSER

VARIABLE = "ASSENT_CHROMIUM"
_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_BROWSER, *_FONTS = "chromium", "fontconfig", "fonts-wqy-microhei"
"""Debian's packages. Cards hold Chinese: without a font for it, pictures of them hold boxes."""
_PATIENCE = 600
"""Seconds that a download may take."""
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A running browser; where there is none, the test is skipped."""
    async with async_playwright() as playwright:
        path = found(playwright.chromium.executable_path)
        if path is None:
            pytest.skip(NO_BROWSER)
        browser = await playwright.chromium.launch(executable_path=path, args=_FLAGS.split())
        try:
            yield browser
        finally:
            await browser.close()


def found(downloaded: str) -> str | None:
    """The browser to look through, if there is one that starts; *downloaded*: where Playwright's own would be."""
    if named := os.environ.get(VARIABLE):
        assert _starts(named), f"{VARIABLE}={named} does not start; name a Chromium, or unset it"
        return named
    return next((path for path in (*map(shutil.which, _NAMES), downloaded) if path and _starts(path)), None)


def _starts(path: str) -> bool:
    """Whether it is a program that finds the libraries it needs."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def get() -> None:
    """Get a browser and a font for Chinese, as far as this machine lets us, and say what becomes of it."""
    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    as_root = _as_root()
    if _is_debian() and as_root is not None:
        lacking = [*([] if found(downloaded) else [_BROWSER]), *([] if _has_chinese() else _FONTS)]
        if lacking:
            _install(lacking, as_root)
    if found(downloaded) is None:
        _download(with_libraries=as_root is not None and shutil.which("apt-get") is not None)
    print(f"The tests look through {found(downloaded)}." if found(downloaded) else NO_BROWSER, flush=True)


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
