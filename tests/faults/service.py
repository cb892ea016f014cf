"""Where faults strike: a service whose workers are real processes, and calls brought to a moment and held there."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import STDOUT
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from sqlalchemy import make_url, text
from temporalio.client import Client

from assent import ApprovalHandle, Assent, Outcome, names
from assent.payload import sha256
from assent.settings import Settings
from ledger import Ledger, MessageKind, Reader, Slot
from tests.faults.proxies import HeldRow, LedgerProxy, Line, Loss, TemporalProxy
from tests.faults.table import Moment, Seen
from tests.faults.waiting import PATIENCE, until
from tests.support.environment import ROOT, worker_environment
from tests.support.feishu_service import REQUESTER, Chat, settings_of
from tests.support.fork_server import spawn
from tests.support.stepwise import reading
from tests.support.worker_processes import Process
from workers.setup import set_up

_UNFINISHED = ("", "Waiting", "Running")


class Worker(Process):
    """A worker process, however it was started."""

    @property
    def lives(self) -> bool:
        return self._running.returncode is None


@dataclass
class ToolsWorker:
    """A tools worker that a fault will strike, and the proxies through which it speaks."""

    queue: str
    process: Worker
    temporal: TemporalProxy
    ledger: LedgerProxy


@dataclass
class Case:
    """One approved call on its way to a moment."""

    moment: Moment
    tool: str
    path: Path
    gate: Path
    asked: dict[str, Any]
    """What else was asked for."""
    handle: ApprovalHandle = field(init=False)
    digest: str | None = field(init=False)
    gates: list[HeldRow] = field(default_factory=list)
    counted: Counter[str] | None = None
    """How often each key had taken effect when everything seemed over."""
    line: Line | None = None

    @property
    def effects(self) -> Counter[str]:
        """How often each idempotency key took effect, as the outside counts it."""
        return Counter(self.path.read_text().splitlines() if self.path.exists() else ())

    def let_end(self) -> None:
        self.gate.touch()

    async def begun(self, times: int = 1) -> None:
        async def marked() -> bool:
            return self.effects.total() >= times

        await until(marked)

    async def let_go(self) -> None:
        """Open every gate that still holds it."""
        self.let_end()
        for gate in self.gates:
            await gate.release()
        if self.line is not None:
            self.line.release()

    async def approve(self) -> None:
        verdict = await self.handle.decide("approve", actor=REQUESTER, payload_sha256=self.digest)
        assert verdict.kind in ("accepted", "received"), verdict


class ServiceUnderFault:
    """A service on one ledger and one Temporal namespace; its workers are started as real processes."""

    def __init__(
        self,
        client: Client,
        address: str,
        directory: Path,
        url: str,
        *,
        chat: Chat | None = None,
        settings: Mapping[str, str],
    ) -> None:
        self.client, self.address, self.url, self.chat = client, address, url, chat
        self.directory = directory
        self._settings = settings
        self._stack = AsyncExitStack()
        self._looked_at: list[Case] = []
        self._started = self._asked = 0
        self._denied: set[str] = set()
        self._ruling = asyncio.Lock()
        self.ledger = Ledger.open(url)

    async def open(self) -> None:
        self._stack.push_async_callback(self.ledger.dispose)
        await set_up(self.client, Settings(database_url=self.url))
        self.gate = await Assent.connect(client=self.client, reader=Reader(self.ledger))
        await self.renew_approvals()

    async def renew_approvals(self) -> None:
        self.approvals = await self.start("approvals", self.address, self.url)

    @property
    def heartbeat(self) -> float:
        """After how many seconds of silence a worker is given up on."""
        return float(self._settings["heartbeat_timeout"])

    async def deny(self, queue: str) -> None:
        """Let the policy stop the tools of a queue; nobody else's."""
        self._denied.add(queue)
        await self._put_policy()

    async def allow(self, queue: str) -> None:
        if queue in self._denied:
            self._denied.remove(queue)
            await self._put_policy()

    async def _put_policy(self) -> None:
        async with self._ruling:
            rules = [
                f'[[rule]]\nname = "stop {queue}"\ntools = ["{queue}.*"]\nexecution = "deny"\n'
                for queue in sorted(self._denied)
            ]
            await self.ledger.put_policy("".join(rules), sha256("".join(rules)), datetime.now(UTC))

    async def close(self) -> None:
        await self._stack.aclose()
        for case in self._looked_at:
            assert case.effects == case.counted, f"{case.path.name} took effect after it was over"

    async def worker(self, queue: str, **more: str) -> ToolsWorker:
        """Start a tools worker on a queue of its own, behind proxies of its own."""
        temporal, ledger = TemporalProxy(self.address), LedgerProxy(self._host)
        address, port = await temporal.start(), await ledger.start()
        self._stack.push_async_callback(temporal.close)
        self._stack.push_async_callback(ledger.close)
        url = self.url
        if url.startswith("postgresql"):
            url = f"postgresql+asyncpg://postgres@127.0.0.1:{port}/{make_url(url).database}"
        process = await self.start("tools", address, url, FAULTS_QUEUE=queue, **more)
        return ToolsWorker(queue, process, temporal, ledger)

    async def dismiss(self, worker: ToolsWorker) -> None:
        """End a worker and its proxies."""
        await worker.process.kill()
        await worker.temporal.close()
        await worker.ledger.close()

    async def start(self, kind: str, address: str, url: str, **more: str) -> Worker:
        """Start `python -m workers.{kind}`, and wait until it serves."""
        self._started += 1
        log = self.directory / f"{kind}-{self._started}.log"
        feishu = settings_of(self.chat.url) if self.chat else {}
        settings = {"chat_requests_per_hour": 0, **feishu, **self._settings}
        environment = worker_environment(
            TEMPORAL_ADDRESS=address,
            TEMPORAL_NAMESPACE=self.client.namespace,
            ASSENT_DATABASE_URL=url,
            ASSENT_TOOLS="tests.faults.tools",
            ASSENT_OPERATORS="open_id:ou_operator",
            **{f"ASSENT_{name.upper()}": str(value) for name, value in settings.items()},
            **more,
        )
        with log.open("wb") as output:
            running = await spawn("-m", f"workers.{kind}", env=environment, cwd=ROOT, stdout=output, stderr=STDOUT)
        process = Worker(running, log)
        self._stack.push_async_callback(process.kill)
        await self.says(process, "are served")
        return process

    async def says(self, process: Worker, words: str) -> None:
        """Wait until a worker's log holds these words."""

        async def said() -> bool:
            lived = process.lives
            if words in process.said():
                return True
            assert lived, f"it never said {words!r}: {process.said()[-3000:]}"
            return False

        await until(said)

    async def ask(
        self, worker: ToolsWorker, moment: Moment, tool: str = "effect", *, path: Path | None = None, **more: Any
    ) -> Case:
        """A call that was asked for and shown, and not decided yet."""
        self._asked += 1
        path = path or self.directory / f"{worker.queue}-{moment.name}-{tool}-{self._asked}"
        case = Case(moment, f"{worker.queue}.{tool}", path, path.with_suffix(".gate"), more)
        await self._request(case)
        return case

    async def _request(self, case: Case) -> None:
        arguments = {"path": str(case.path), "gate": str(case.gate)}
        case.handle = await self.gate.request(case.tool, arguments, requester=REQUESTER, **case.asked)
        case.digest = (await case.handle.state()).payload_sha256

        async def shown() -> bool:
            return bool(await self.card(case))

        if self.chat is not None:
            await until(shown)

    async def held(self, worker: ToolsWorker, case: Case) -> HeldRow:
        """Hold whoever writes of this call's claim."""
        row = HeldRow(self.connect, worker.ledger)
        await row.take(case.handle.id)
        case.gates.append(row)
        return row

    async def bring(self, worker: ToolsWorker, case: Case) -> None:
        """Bring a call to its moment, and hold it there."""
        if case.moment is Moment.CLAIM:
            row = await self.held(worker, case)
            await case.approve()
            case.line = await row.reached()
            return
        await self.run(case)
        if case.moment in (Moment.RECORD, Moment.RECORDED):
            await self.bring_record(worker, case)
        elif case.moment is Moment.REPORT:
            await self.bring_report(worker, case)

    async def bring_record(self, worker: ToolsWorker, case: Case) -> None:
        """From a running call to one that has ended, and is not recorded, or of which the worker has not heard so."""
        row = await self.held(worker, case)
        case.let_end()
        case.line = await row.reached()
        if case.moment is Moment.RECORDED:
            case.line.arm(Loss.HELD)
            await row.release()
            await case.line.struck.wait()
            await self.stands(case, "executed")

    async def run(self, case: Case) -> None:
        """Let a call begin. Where a loaded machine was too slow for the time it may begin in, ask for it again."""
        while True:
            await case.approve()

            async def known() -> str | None:
                return "begun" if case.effects else await self.claim(case)

            if await until(known) != "closed":
                await case.begun()
                return
            await self._request(case)

    async def bring_report(self, worker: ToolsWorker, case: Case) -> None:
        """From a running call to one that is recorded, and of which Temporal cannot be told."""
        worker.temporal.silence()
        case.let_end()
        await self.stands(case, "executed")

    async def waited_for(self, worker: ToolsWorker, number: int) -> None:
        """Wait until so many connections wait for locks that this worker's connections hold."""
        connection = await self.connect()

        async def blocked() -> bool:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_blocking_pids(pid) && $1::int[]"
            return bool(await connection.fetchval(waiting, worker.ledger.pids) == number)

        try:
            await until(blocked)
        finally:
            await connection.close()

    async def refuse(self, case: Case, state: str) -> None:
        """Let the database raise when this call's claim is to say this."""
        connection = await self.connect()
        name = f"refuse_{state}_{case.handle.id.replace('-', '')}"
        body = "BEGIN RAISE EXCEPTION 'out of order'; END"
        await connection.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        await connection.execute(
            f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON claims FOR EACH ROW"
            f" WHEN (NEW.consent = '{case.handle.id}' AND NEW.state = '{state}') EXECUTE FUNCTION {name}()"
        )
        await connection.close()

    async def arranged(
        self, worker: ToolsWorker, moments: tuple[Moment, ...] = tuple(Moment), tool: str = "effect"
    ) -> list[Case]:
        """One call at each moment, all in the hands of one worker. The one that silences it comes last."""
        cases = await asyncio.gather(*(self.ask(worker, moment, tool) for moment in moments))
        await asyncio.gather(*(self.bring(worker, case) for case in cases if case.moment is not Moment.REPORT))
        for case in cases:
            if case.moment is Moment.REPORT:
                await self.bring(worker, case)
        return list(cases)

    async def claim(self, case: Case) -> str | None:
        """What the ledger's row says."""
        try:
            async with reading(self.ledger._engine) as connection:
                found = await connection.execute(
                    text("SELECT state FROM claims WHERE consent = :id"), {"id": case.handle.id}
                )
                late = await connection.execute(
                    text("SELECT state FROM late_results WHERE consent = :id"), {"id": case.handle.id}
                )
                state: str | None = found.scalar_one_or_none()
                return " + late ".join([str(state), *sorted(late.scalars())]) if state else None
        except Exception:
            return None  # a database that was just restarted; whoever asks, asks again

    async def stands(self, case: Case, state: str) -> None:
        async def there() -> bool:
            return await self.claim(case) == state

        await until(there)

    async def attempt(self, case: Case, name: str) -> Any:
        """The pending activity of a call by its type's name, None if there is none."""
        workflow = self.client.get_workflow_handle(names.approval_workflow(case.handle.id))
        pending = (await workflow.describe()).raw_description.pending_activities
        return next((activity for activity in pending if activity.activity_type.name == name), None)

    async def pending(self, case: Case, name: str, *, attempt: int = 1) -> None:
        """Wait until an activity of this name is under way for the nth time."""

        async def there() -> bool:
            found = await self.attempt(case, name)
            return found is not None and found.attempt >= attempt

        await until(there)

    async def card(self, case: Case) -> str:
        """The word by which the card says where the call stands."""
        assert self.chat is not None
        slot = Slot(approval_id=case.handle.id, kind=MessageKind.CARD, generation=1, place=0)
        try:
            messages = await self.chat.messages()
        except httpx.TransportError:
            return ""  # the simulator closed an idle connection just then
        card = next((message["content"] for message in messages if message["uuid"] == slot.uuid), None)
        return str(card["header"]["text_tag_list"][0]["text"]["content"]) if card else ""

    async def outcome(self, case: Case) -> Outcome:
        return await asyncio.wait_for(case.handle.outcome(), PATIENCE)

    async def seen(self, case: Case, expected: Seen | None) -> Seen:
        """What there is to see of a call once it has ended: as expected, or whatever it is when patience ends."""
        outcome = await self.outcome(case)
        last: list[Seen] = []

        async def settled_down() -> bool:
            counted = sorted(case.effects.values())
            effects = str(counted[0]) if counted else "0"
            if len(counted) > 1:
                effects = " + ".join(map(str, counted)) + " under several keys"
            elif counted and counted[0] > 1:
                effects += " under one key"
            found = Seen(outcome.status.value, effects, await self.claim(case) or "", await self.card(case))
            last[:] = [found]
            return found == expected if expected else found.card not in _UNFINISHED

        with suppress(TimeoutError):
            await until(settled_down, 40)
        case.counted = case.effects
        self._looked_at.append(case)
        return last[0]

    @property
    def _host(self) -> str:
        return str(make_url(self.url).query.get("host", ""))

    async def connect(self) -> Any:
        url = make_url(self.url)
        return await asyncpg.connect(user="postgres", database=url.database, host=self._host)
