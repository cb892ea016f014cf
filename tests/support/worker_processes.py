"""Real worker processes, and the means to hold, cut off and kill them from outside."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import text

from assent import ApprovalHandle, Assent, names
from assent.types import State
from ledger import Ledger
from tests.conftest import HEARTBEAT, ME, Service, accepted
from tests.support.environment import ROOT, worker_environment
from tests.support.fork_server import Started, spawn
from tests.support.stepped_clock import SteppedClock
from tests.support.stepwise import writing
from tests.support.tools import marks
from tests.support.waiting import until


class Process:
    """One worker process."""

    def __init__(self, running: Started, log: Path) -> None:
        self._running = running
        self._log = log

    async def ready(self) -> None:
        async def serving() -> bool | None:
            assert self._running.returncode is None, self.said()
            return "are served" in self.said() or None

        await until(serving)

    def said(self) -> str:
        return self._log.read_text()

    def send(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.wait_for(self._running.wait(), 300)

    async def kill(self) -> None:
        """SIGKILL: no chance to say anything to anyone."""
        if self._running.returncode is None:
            self._running.kill()
        await self.ended()


class Proxy:
    """A TCP proxy that can stop what one side says from arriving."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.partition(":")
        self._port = int(port)
        self._open = asyncio.Event()
        self._open.set()
        self._carried: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def silence(self) -> None:
        """From now on nothing that the client says arrives; it still hears."""
        self._open.clear()

    def hang_up(self) -> None:
        """Let the other side learn that the client is gone; else it goes on handing it tasks for a minute."""
        for carried in self._carried:
            carried.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        pipes = {
            asyncio.create_task(self._pipe(reader, upstream_writer, held=True)),
            asyncio.create_task(self._pipe(upstream_reader, writer, held=False)),
        }
        self._carried |= pipes
        await asyncio.gather(*pipes, return_exceptions=True)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        try:
            while data := await reader.read(65536):
                if held:
                    await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


class WorkerProcesses:
    """A service whose workers are real processes."""

    def __init__(self, service: Service, address: str, directory: Path) -> None:
        self.service = service
        self.gate: Assent = service.gate
        self.ledger: Ledger = service.ledger
        self._address = address
        self._directory = directory
        self._processes: list[Process] = []

    async def start(self, kind: str, *, through: Proxy | None = None, clock: SteppedClock | None = None) -> Process:
        """Start `python -m workers.{kind}`, and wait until it serves; with a clock, its wall clock can be stepped."""
        log = self._directory / f"{kind}-{len(self._processes)}.log"
        environment = worker_environment(
            TEMPORAL_ADDRESS=await through.start() if through else self._address,
            TEMPORAL_NAMESPACE=self.service.client.namespace,
            ASSENT_DATABASE_URL=self.service.settings.database_url,
            ASSENT_TOOLS="tests.support.tools",
            ASSENT_HEARTBEAT_TIMEOUT=str(HEARTBEAT.total_seconds()),
            ASSENT_GRACE="0.5",
            **(clock.environment if clock else {}),
        )
        running = await spawn(
            *("-m", f"workers.{kind}"),
            env=environment,
            cwd=ROOT,
            stdout=log.open("wb"),
            stderr=asyncio.subprocess.STDOUT,
        )
        process = Process(running, log)
        self._processes.append(process)
        await process.ready()
        return process

    async def close(self) -> None:
        for process in self._processes:
            await process.kill()

    async def approve(self, handle: ApprovalHandle) -> None:
        async def shown() -> State | None:
            state = await handle.state()
            return state if state.phase == "pending" else None

        state = await until(shown)  # after a death the next worker waits for the dead one's task to time out
        await accepted(handle, state)

    async def scheduled(self, handle: ApprovalHandle, *, started: bool) -> None:
        """Wait until a worker has taken the approval's activity (or one was at least scheduled)."""
        workflow = self.service.client.get_workflow_handle(names.approval_workflow(handle.id))

        async def taken() -> bool | None:
            pending = (await workflow.describe()).raw_description.pending_activities
            return any(activity.HasField("last_started_time") or not started for activity in pending) or None

        await until(taken)

    async def claim(self, handle: ApprovalHandle, state: str) -> None:
        """Wait until the ledger's claim stands at *state*."""

        async def stands() -> bool | None:
            async with writing(self.ledger._engine) as connection:
                found = await connection.execute(
                    text("SELECT state FROM claims WHERE consent = :id"), {"id": handle.id}
                )
                return found.scalar_one_or_none() == state or None

        await until(stands)

    async def settled(self, handle: ApprovalHandle) -> None:
        """Wait until the ledger has the outcome."""

        async def on_record() -> bool | None:
            return await self.ledger.outcome(handle.id) is not None or None

        await until(on_record)

    async def late_results(self, handle: ApprovalHandle) -> list[str]:
        async with writing(self.ledger._engine) as connection:
            rows = await connection.execute(
                text("SELECT state FROM late_results WHERE consent = :id"), {"id": handle.id}
            )
            return list(rows.scalars())

    @asynccontextmanager
    async def ledger_held(self) -> AsyncIterator[None]:
        """Nobody can write to the ledger: whoever has to is held right there."""
        async with writing(self.ledger._engine) as connection:
            if connection.dialect.name == "postgresql":
                await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                await connection.execute(text("LOCK TABLE claims, approvals, audit IN EXCLUSIVE MODE"))
            yield


class Call:
    """A gated call: it leaves a mark, then waits until the test lets it end."""

    def __init__(self, tmp_path: Path) -> None:
        self.path, self._gate = tmp_path / "marks", tmp_path / "gate"

    async def ask(self, processes: WorkerProcesses, tool: str = "gated", **more: str) -> ApprovalHandle:
        arguments = {"path": str(self.path), "gate": str(self._gate), **more}
        return await processes.gate.request(tool, arguments, requester=ME)

    async def begun(self, times: int = 1) -> None:
        async def marked() -> bool | None:
            return marks(self.path) == times or None

        await until(marked)

    def let_end(self) -> None:
        self._gate.touch()


async def run(module: str, **environment: str) -> tuple[int | None, str]:
    """Run a worker that ends by itself; its exit code and all that it said."""
    process = await spawn(
        *("-m", module),
        env=worker_environment(**environment),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 300)
    return process.returncode, said.decode()


def is_one_sentence(said: str) -> bool:
    return "Traceback" not in said and len(said.strip().splitlines()) == 1
