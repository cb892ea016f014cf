"""Every fault, acted out: calls are brought to their moments, the fault strikes, what it held back is let go."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

from sqlalchemy import make_url

from assent import names
from tests.conftest import Service
from tests.faults import commits
from tests.faults.proxies import Loss
from tests.faults.servers import OwnPostgres
from tests.faults.service import Case, ServiceUnderFault, ToolsWorker
from tests.faults.table import Fault, Moment
from tests.faults.waiting import until
from tests.support.servers import TemporalServer
from tests.support.stepped_clock import SteppedClock
from tests.support.temporal_operations import reset

Struck = dict[Fault, list[Case]]
"""What is left to look at: the calls that each fault struck."""

_DAY = timedelta(days=1)
_BEFORE_REPORT = tuple(moment for moment in Moment if moment is not Moment.REPORT)


async def let_go(worker: ToolsWorker, cases: Iterable[Case], *, resume: bool = True) -> None:
    if resume:
        worker.temporal.resume()
    for case in cases:
        await case.let_go()


# Signals


async def killed(service: ServiceUnderFault) -> Struck:
    doomed = await service.worker("kill")
    early = await asyncio.gather(
        service.arranged(doomed, _BEFORE_REPORT), service.arranged(doomed, _BEFORE_REPORT, "safe")
    )
    late = await asyncio.gather(*(service.ask(doomed, Moment.REPORT, tool) for tool in ("effect", "safe")))
    await asyncio.gather(*(service.run(case) for case in late))
    for case in late:
        await service.bring_report(doomed, case)
    await doomed.process.kill()
    plain, safe = [*early[0], late[0]], [*early[1], late[1]]
    await let_go(doomed, (*plain, *safe), resume=False)
    await service.worker("kill")
    return {Fault.KILL: plain, Fault.KILL_SAFE: safe}


async def stopped(service: ServiceUnderFault) -> Struck:
    """The time for a statement and for a transaction passes, stopped or not: here it is enough for a busy machine."""
    zombie = await service.worker("stop", FAULTS_STATEMENT="120", FAULTS_IDLE="120")
    cases = await asyncio.gather(*(service.ask(zombie, moment) for moment in Moment))
    claim, *others = cases
    await asyncio.gather(*(service.run(case) for case in others))
    await service.bring(zombie, claim)
    await service.worker("stop", FAULTS_STATEMENT="120")  # it finds nothing to do: everything is in the zombie's hands
    body, record, recorded, report = others
    await asyncio.gather(*(service.bring_record(zombie, case) for case in (record, recorded)))
    await service.bring_report(zombie, report)
    zombie.process.send(signal.SIGSTOP)
    for case in (claim, record):
        for gate in case.gates:
            await gate.release()
    # Past the heartbeat the other one tries: twice it waits for a row that the stopped one holds, else it finds out.
    await service.waited_for(zombie, 2)
    zombie.process.send(signal.SIGCONT)
    for case in (claim, record, recorded):
        await case.let_go()
    await asyncio.gather(*(service.outcome(case) for case in (body, report)))
    await let_go(zombie, cases)
    return {Fault.STOP: list(cases)}


async def sent_away(service: ServiceUnderFault) -> Struck:
    """Stopped within its transactions for so long that PostgreSQL ends them: the others go on meanwhile."""
    zombie = await service.worker("away", FAULTS_STATEMENT="120")
    claim, record = cases = await asyncio.gather(
        *(service.ask(zombie, moment) for moment in (Moment.CLAIM, Moment.RECORD))
    )
    await service.run(record)
    await service.bring(zombie, claim)
    await service.worker("away", FAULTS_STATEMENT="120")
    await service.bring_record(zombie, record)
    zombie.process.send(signal.SIGSTOP)
    for case in cases:
        for gate in case.gates:
            await gate.release()
    claim.let_end()
    await asyncio.gather(*(service.outcome(case) for case in cases))
    zombie.process.send(signal.SIGCONT)
    await let_go(zombie, cases)
    return {Fault.SENT_AWAY: list(cases)}


async def drained(service: ServiceUnderFault) -> Struck:
    leaving = await service.worker("drain")
    cases = await service.arranged(leaving)
    leaving.process.send(signal.SIGTERM)
    await service.says(leaving.process, "draining")
    await let_go(leaving, cases)
    assert await leaving.process.ended() == 0
    return {Fault.DRAIN: cases}


async def abandoned(service: ServiceUnderFault) -> Struck:
    """The worker dies, and nobody comes until Temporal's last limit has passed."""
    doomed = await service.worker("abandon", FAULTS_TIMEOUT="8")
    cases = await service.arranged(doomed)
    await doomed.process.kill()
    await let_go(doomed, cases, resume=False)
    return {Fault.HARD_TIMEOUT: cases}


# People


async def denied(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("deny")
    cases = await service.arranged(worker)
    await service.deny(worker.queue)
    await let_go(worker, cases)
    return {Fault.DENIED: cases}


async def started_over(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("reset")
    claim, body, record, recorded, report = cases = await service.arranged(worker)
    for case in cases:
        await reset(cast("Service", service), case.handle, nth_task=1, keep_signals=True)
    worker.temporal.resume()
    for case in (claim, record):  # the one that was there first goes on first
        for gate in case.gates:
            await gate.release()
    await asyncio.gather(*(service.outcome(case) for case in (claim, body)))
    await let_go(worker, (claim, body, record, recorded, report))
    return {Fault.RESET: cases}


# The network to the ledger


async def cut_for_a_moment(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("cut")

    async def lost(fault: Fault, moment: Moment, loss: Loss) -> tuple[Fault, Case]:
        case = await service.ask(worker, Moment.RECORD if moment is Moment.RECORDED else moment)
        await service.bring(worker, case)
        assert case.line is not None
        case.line.arm(loss)
        case.let_end()
        for gate in case.gates:
            await gate.release()
        await case.line.struck.wait()
        case.moment = moment
        return fault, case

    struck = await asyncio.gather(
        lost(Fault.LOST_REQUEST, Moment.CLAIM, Loss.REQUEST),
        lost(Fault.LOST_REQUEST, Moment.RECORD, Loss.REQUEST),
        lost(Fault.LOST_ANSWER, Moment.CLAIM, Loss.ANSWER),
        lost(Fault.LOST_ANSWER, Moment.RECORDED, Loss.ANSWER),
    )
    idle = await service.arranged(worker, (Moment.TOOL, Moment.REPORT))
    worker.ledger.drop()
    await let_go(worker, idle)
    acted: Struck = {Fault.LOST_REQUEST: idle, Fault.LOST_ANSWER: []}
    for fault, case in struck:
        acted[fault].append(case)
    return acted


async def cut_for_long(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("cut-long", FAULTS_TIMEOUT="20")
    cases = await service.arranged(worker)
    worker.ledger.cut()
    await let_go(worker, cases)
    await asyncio.gather(*(service.outcome(case) for case in cases))
    return {Fault.CUT_LONG: cases}


# What the tool, the ledger and the network do


async def raising(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("raise", FAULTS_TIMEOUT="8")
    claim, body, record = await asyncio.gather(
        service.ask(worker, Moment.CLAIM),
        service.ask(worker, Moment.TOOL, "raises"),
        service.ask(worker, Moment.RECORD),
    )
    await service.refuse(claim, "started")
    await claim.approve()
    await asyncio.gather(service.run(body), service.run(record))
    await service.refuse(record, "executed")
    for case in (body, record):
        case.let_end()
    return {Fault.EXCEPTION: [claim, body, record]}


async def hanging(service: ServiceUnderFault) -> Struck:
    """The tool, the ledger and the network to Temporal keep silent, each for longer than it is waited for."""
    worker = await service.worker("hang", FAULTS_TIMEOUT="8")
    report = await service.ask(worker, Moment.REPORT)
    await service.bring(worker, report)
    await service.pending(report, names.EXECUTE, attempt=2)
    worker.temporal.resume()
    claim, body, record, recorded = await service.arranged(
        worker, (Moment.CLAIM, Moment.TOOL, Moment.RECORD, Moment.RECORDED)
    )

    async def until_given_up(case: Case) -> None:
        await service.pending(case, names.CLOSE_CLAIM)
        await case.let_go()

    async def until_timed_out(case: Case) -> None:
        await service.outcome(case)
        case.let_end()

    await asyncio.gather(
        until_given_up(claim), until_timed_out(body), until_given_up(record), service.outcome(recorded)
    )
    return {Fault.HANG: [claim, body, record, recorded, report]}


# The disk


async def disk_full(service: ServiceUnderFault) -> Struck:
    worker = await service.worker("disk")
    file = Path(str(make_url(service.url).database))
    claim, body, record, report = await asyncio.gather(
        *(service.ask(worker, moment) for moment in Moment if moment is not Moment.RECORDED)
    )
    await asyncio.gather(*(service.run(case) for case in (body, record, report)))
    await service.bring_report(worker, report)
    filler = file.with_name("filler")
    _fill(file, filler)
    worker.temporal.resume()
    record.let_end()
    await claim.approve()

    async def in_vain() -> bool:
        found = await service.attempt(claim, names.EXECUTE)
        return found is not None and "out of reach" in found.last_failure.message

    await until(in_vain)
    await service.says(worker.process, "nor could it be without its content")
    filler.unlink()
    for case in (claim, body):
        case.let_end()
    return {Fault.DISK_FULL: [claim, body, record, report]}


async def killed_in_a_group(service: ServiceUnderFault) -> Struck:
    """Two operations are committed together, and the worker dies: before they are, or before anybody is told."""
    gate = service.directory / "commits"
    doomed = await service.worker("group", FAULTS_COMMITS=str(gate))
    cases = await asyncio.gather(
        *(service.ask(doomed, moment) for moment in (Moment.CLAIM, Moment.TOOL, Moment.RECORD))
    )
    claim, body, record = cases
    await asyncio.gather(*(service.run(case) for case in (body, record)))
    gate.with_suffix(commits.BEFORE).touch()
    record.let_end()
    await claim.approve()
    await _killed_while_held(doomed, gate)
    assert [await service.claim(case) for case in (claim, record)] == [None, "started"], "nothing is there by half"
    gate = service.directory / "more-commits"
    doomed = await service.worker("group", FAULTS_COMMITS=str(gate))
    for case in cases:
        await case.let_go()
    await asyncio.gather(*(service.outcome(case) for case in cases))
    recorded = await asyncio.gather(*(service.ask(doomed, Moment.RECORDED) for _ in range(2)))
    await asyncio.gather(*(service.run(case) for case in recorded))
    gate.with_suffix(commits.AFTER).touch()
    for case in recorded:
        case.let_end()
    await _killed_while_held(doomed, gate)
    assert [await service.claim(case) for case in recorded] == ["executed"] * 2, "what is there is there for all"
    await service.worker("group")
    return {Fault.GROUP: [*cases, *recorded]}


async def _killed_while_held(worker: ToolsWorker, gate: Path) -> None:
    async def reached() -> bool:
        held = gate.with_suffix(commits.HELD)
        return held.exists() and held.read_text() == "2"

    await until(reached)
    await worker.process.kill()


def _fill(database: Path, filler: Path) -> None:
    """Leave not one block: neither on the file system, nor in the journal that could be written over."""
    connection = sqlite3.connect(database, timeout=60)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    assert os.statvfs(filler.parent).f_bfree == 0


# Servers


async def servers_restarted(service: ServiceUnderFault, temporal: TemporalServer, postgres: OwnPostgres) -> Struck:
    worker = await service.worker("restart")
    before = await service.arranged(worker)
    await postgres.restart()
    await let_go(worker, before)
    await asyncio.gather(*(service.outcome(case) for case in before))
    cases = await service.arranged(worker)
    temporal.kill()
    await let_go(worker, cases)
    await asyncio.gather(*(service.stands(case, "executed") for case in cases))
    temporal.start()
    await temporal.client()
    return {Fault.POSTGRES: before, Fault.TEMPORAL: cases}


async def temporal_away(service: ServiceUnderFault, temporal: TemporalServer) -> Struck:
    """Temporal is away for longer than the heartbeat: whoever is heard first then, it has given up on the worker."""
    worker = await service.worker("away", FAULTS_STATEMENT="120", FAULTS_IDLE="120")
    early = await service.arranged(worker, _BEFORE_REPORT)
    claim, body, record, _ = early
    report = await service.ask(worker, Moment.REPORT)
    await service.run(report)
    cases = [*early, report]
    temporal.kill()
    report.let_end()
    await service.stands(report, "executed")
    await asyncio.sleep(service.heartbeat + 1)
    assert await service.claim(body) == "started", "it is in good hands"
    worker.temporal.silence()  # else it depends on who is faster: the server's timer, or the worker's next heartbeat
    temporal.start()
    await temporal.client()
    await asyncio.gather(*(service.pending(case, names.EXECUTE, attempt=2) for case in cases))
    worker.temporal.resume()
    for case in (claim, record):  # the attempt that was there first goes on first
        for gate in case.gates:
            await gate.release()
    await asyncio.gather(*(service.outcome(case) for case in (claim, body)))
    await let_go(worker, cases)
    return {Fault.TEMPORAL_AWAY: cases}


# The clock


async def clock_stepped(service: ServiceUnderFault, clock: SteppedClock) -> Struck:
    """A worker whose clock the test sets; that it moved is read from its heartbeats: the ledger's time is its own."""
    worker = await service.worker("clock", **clock.environment)
    acted: Struck = {}
    for fault, step in ((Fault.CLOCK_AHEAD, _DAY), (Fault.CLOCK_BACK, -_DAY)):
        clock.set(timedelta(0))
        held = await service.arranged(worker, (Moment.TOOL, Moment.RECORD, Moment.RECORDED, Moment.REPORT))
        claim = await service.ask(worker, Moment.CLAIM)
        clock.set(step)
        claim.let_end()
        await let_go(worker, held)
        await claim.approve()
        acted[fault] = [claim, *held]
        await asyncio.gather(*(service.outcome(case) for case in acted[fault]))
        running = await service.ask(worker, Moment.TOOL)
        await service.run(running)
        await until(partial(_is_elsewhere, service, running))
        running.let_end()
    return acted


async def another_clock(service: ServiceUnderFault, clock: SteppedClock) -> Struck:
    """The worker dies, and the next one lives two hours ahead."""
    doomed = await service.worker("other-clock")
    cases = await service.arranged(doomed)
    await doomed.process.kill()
    await let_go(doomed, cases, resume=False)
    clock.set(timedelta(hours=2))
    await service.worker("other-clock", **clock.environment)
    return {Fault.OTHER_CLOCK: cases}


async def _is_elsewhere(service: ServiceUnderFault, case: Case) -> bool:
    """Whether the clock of the worker that runs a call is far from this process's."""
    found = await service.attempt(case, names.EXECUTE)
    if found is None or not found.heartbeat_details.payloads:
        return False
    beaten = datetime.fromisoformat(json.loads(found.heartbeat_details.payloads[0].data))
    return abs(beaten - datetime.now(UTC)) > _DAY / 2
