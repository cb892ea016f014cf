"""What it costs to have a process at all: the time of its imports, and the memory it holds after them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from statistics import median

from benchmarks.processes import ROOT
from tests.support.environment import worker_environment

REPETITIONS = 3
PYTHON = "Python with asyncio"
_MODULES = {
    PYTHON: ("asyncio",),
    "temporalio, as a worker has it": ("temporalio.worker", "temporalio.contrib.pydantic"),
    "FastAPI with uvicorn": ("fastapi", "uvicorn"),
    "assent": ("assent",),
    "assent over HTTP": ("assent", "assent.api.door"),
    "assent on Temporal": ("assent", "assent.temporal.door"),
    "workers.approvals": ("workers.approvals",),
    "workers.tools": ("workers.tools",),
    "workers.api": ("workers.api",),
    "workers.webhook": ("workers.webhook",),
    "workers.longconn": ("workers.longconn",),
    "workers.longconn, connected": ("workers.longconn", "workers.lark"),
    "workers.setup": ("workers.setup",),
    "simulator": ("simulator.__main__",),
}
"""What is measured, by name. The first three are what ours stand on."""
_PROBE = """
import time
began = time.perf_counter(), time.process_time()
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
spent = time.perf_counter() - began[0], time.process_time() - began[1]
import json
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([*spent, int(peak), len(sys.modules)]))
"""


@dataclass(frozen=True)
class Footprint:
    seconds: float
    cpu: float
    """Seconds of processor time: steadier than the clock on a busy machine."""
    megabytes: float
    """The most that was resident at once."""
    modules: int


async def footprints() -> dict[str, Footprint]:
    """Each in fresh processes, in turn: where the first has to compile its modules, the median does not show it."""
    cores = asyncio.Semaphore(os.cpu_count() or 1)
    names = [name for _ in range(REPETITIONS) for name in _MODULES]
    seen = await asyncio.gather(*(_import(_MODULES[name], cores) for name in names))
    return {name: _median([each for of, each in zip(names, seen, strict=True) if of == name]) for name in _MODULES}


async def _import(modules: tuple[str, ...], cores: asyncio.Semaphore) -> Footprint:
    command = (sys.executable, "-c", _PROBE, *modules)
    async with cores:
        running = await asyncio.create_subprocess_exec(
            *command, env=worker_environment(), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await running.communicate()
    assert running.returncode == 0, f"{modules} cannot be imported"
    seconds, cpu, kilobytes, count = json.loads(said)
    return Footprint(seconds, cpu, kilobytes / 1024, count)


def _median(values: list[Footprint]) -> Footprint:
    return Footprint(
        median(value.seconds for value in values),
        median(value.cpu for value in values),
        median(value.megabytes for value in values),
        max(value.modules for value in values),
    )
