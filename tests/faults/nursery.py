"""A process that has imported everything a worker needs, and forks workers which start at once.

Each child is a process of its own that runs `workers.tools` or `workers.approvals` as `python -m` would.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import runpy
import select
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from tests.faults.waiting import until
from tests.parts import worker_environment

_NEEDED = (
    "aiosqlite",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "temporalio.worker.workflow_sandbox",
    "activities.announcements",
    "activities.approvals",
    "activities.review_cards",
    "activities.reviews",
    "activities.tools",
    "workers.process",
    "workers.sweeping",
    "workflows",
)


class Nursling:
    """One worker process that the nursery forked, held by a descriptor: its number may soon be another's."""

    def __init__(self, descriptor: int, log: Path) -> None:
        self._descriptor, self._log = descriptor, log
        self._ending = select.poll()
        self._ending.register(descriptor, select.POLLIN)
        self._over = False

    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def send(self, number: signal.Signals) -> None:
        if not self.lives:
            raise ProcessLookupError("it has ended")
        signal.pidfd_send_signal(self._descriptor, number)

    @property
    def lives(self) -> bool:
        if not self._over and self._ending.poll(0):
            self._over = True
            os.close(self._descriptor)
        return not self._over

    async def ended(self) -> None:
        async def gone() -> bool:
            return not self.lives

        await until(gone)

    async def kill(self) -> None:
        if self.lives:
            self.send(signal.SIGKILL)
            await self.ended()


class Nursery:
    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.nursery"),
            env=worker_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._turn = asyncio.Lock()
        assert await self._answer() == "ready"

    async def fork(self, kind: str, log: Path, environment: dict[str, str]) -> Nursling:
        async with self._turn:
            assert self._process.stdin is not None
            order = {"kind": kind, "log": str(log), "environment": worker_environment(**environment)}
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            # The nursery forgets nobody who ended before its next order: until then this number is the child's.
            return Nursling(os.pidfd_open(int(await self._answer())), log)

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _answer(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()


def _be_born(kind: str, log: str, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, theirs in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(mine, theirs)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = [f"workers.{kind}"]
    runpy.run_module(f"workers.{kind}", run_name="__main__", alter_sys=True)


def _forget_the_dead() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def main() -> None:
    for module in _NEEDED:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        _forget_the_dead()
        pid = os.fork()
        if pid == 0:
            try:
                _be_born(**order)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
