"""How much memory processes have resident while something happens to them, and whether they answer meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

_EVERY = 0.05
"""Seconds between two looks at a process."""
_ASKED_EVERY = 0.25
_ANSWERED_WITHIN = 30.0
_CALM = 1.0
"""Seconds after which it is looked at what stayed."""
_RESET_PEAK = "5"
"""What makes Linux count a process's peak anew."""


@dataclass
class Health:
    """How `/healthz` was answered."""

    asked: int = 0
    answered: int = 0
    slowest: float = 0.0


@dataclass
class Resident:
    """Bytes of one process before, at most during, and after what happened."""

    before: int
    peak: int
    after: int = 0
    health: Health | None = None

    @property
    def grown(self) -> int:
        return self.peak - self.before


@dataclass
class Observed:
    """What was seen of all processes."""

    of: dict[str, Resident] = field(default_factory=dict)


@asynccontextmanager
async def observed(processes: Mapping[str, psutil.Process], doors: Mapping[str, str]) -> AsyncIterator[Observed]:
    """Look at these processes for as long as it takes.

    doors: the addresses of those that have a `/healthz`.
    """
    seen = Observed({name: Resident(rss := _resident(process), rss) for name, process in processes.items()})
    for process in processes.values():
        _forget_peak(process)
    peaks = {name: _peak(process) for name, process in processes.items()}
    ended = threading.Event()
    looking = threading.Thread(target=_look, args=(processes, seen, ended))
    asking = [asyncio.create_task(_ask(url, _health(seen.of[name]))) for name, url in doors.items()]
    looking.start()
    try:
        yield seen
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        ended.set()
        looking.join()
    await asyncio.sleep(_CALM)
    for name, process in processes.items():
        own, peak = seen.of[name], _peak(process)
        own.peak = max(own.peak, peak if peak > peaks[name] else 0)
        own.after = _resident(process)


def _health(own: Resident) -> Health:
    own.health = Health()
    return own.health


def _look(processes: Mapping[str, psutil.Process], seen: Observed, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        for name, process in processes.items():
            seen.of[name].peak = max(seen.of[name].peak, _resident(process))


async def _ask(url: str, health: Health) -> None:
    """Ask again and again, each time as somebody new."""
    while True:
        began = time.monotonic()
        async with httpx.AsyncClient(base_url=url, timeout=_ANSWERED_WITHIN, trust_env=False) as newcomer:
            with suppress(httpx.HTTPError):
                answer = await newcomer.get("/healthz")
                health.answered += answer.status_code == 200
            health.asked += 1
        health.slowest = max(health.slowest, time.monotonic() - began)
        await asyncio.sleep(_ASKED_EVERY)


def _resident(process: psutil.Process) -> int:
    found: int = process.memory_info().rss
    return found


def _forget_peak(process: psutil.Process) -> None:
    with suppress(OSError):  # where that cannot be, a peak counts if it is higher than the one before
        Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK)


def _peak(process: psutil.Process) -> int:
    """The most that was ever resident, or since that was forgotten: between two looks, too."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        return 0
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
