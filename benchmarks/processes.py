"""Processes of their own: started from their modules, ready when they say so, ended by their id."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import psutil

from tests.support.environment import worker_environment
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
FEISHU = {
    "APP_ID": "cli_assent",
    "APP_SECRET": "secret",
    "ENCRYPT_KEY": "encrypt-key",
    "VERIFICATION_TOKEN": "verification-token",
    "TENANT_KEY": "tenant_1",
}
"""The app that our processes and the simulated platform agree on."""
PLATFORM = {f"SIMULATOR_{name}": value for name, value in FEISHU.items()}
"""The same, as the simulated platform is told."""
_SERVED = re.compile(r"served(?: at (http://\S+))?")
_START_WITHIN = 60.0
_LEAVE_WITHIN = 10.0


class Process:
    """One process, started and serving."""

    def __init__(self, running: asyncio.subprocess.Process, url: str) -> None:
        self.url = url
        self._running = running
        self.seen = psutil.Process(running.pid)

    async def stop(self) -> None:
        if self._running.returncode is None:
            self._running.terminate()
        try:
            await asyncio.wait_for(self._running.wait(), _LEAVE_WITHIN)
        except TimeoutError:
            self._running.kill()
            await self._running.wait()


async def start(directory: Path, module: str, *arguments: str, **environment: str) -> Process:
    """Run `python -m module` and wait until it serves. What it says goes to a file, and is shown if it dies."""
    log = directory / f"{'-'.join((module, *arguments))}.log"
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        env=worker_environment(**environment),
        cwd=ROOT,
        stdout=log.open("wb"),
        stderr=asyncio.subprocess.STDOUT,
    )

    async def serving() -> re.Match[str] | None:
        said = log.read_text()
        assert running.returncode is None, f"{module} ended: {said}"
        return _SERVED.search(said)

    served = await until(serving, _START_WITHIN)
    return Process(running, served.group(1) or "")


async def start_simulator(directory: Path) -> Process:
    """The simulated Feishu, without its limits."""
    return await start(directory, "simulator", SIMULATOR_PORT="0", SIMULATOR_LIMITS="off", **PLATFORM)
