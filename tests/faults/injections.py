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
from tests.faults.proxies import Loss
from tests.faults.servers import OwnPostgres
from tests.faults.service import Case, Hand, Stage
from tests.faults.table import Fault, Moment
from tests.faults.waiting import until
from tests.support.servers import TemporalServer
from tests.support.stepped_clock import SteppedClock
from tests.workflows.test_resets import reset

Acted = dict[Fault, list[Case]]
"""What is left to look at: the calls that each fault struck."""

_DAY = timedelta(days=1)
_BEFORE_REPORT = tuple(moment for moment in Moment if moment is not Moment.REPORT)


async def let_go(hand: Hand, cases: Iterable[Case], *, resume: bool = True) -> None:
    if resume:
        hand.temporal.resume()
    for case in cases:
        await case.let_go()


# Signals


async def killed(stage: Stage) -> Acted:
    doomed = await stage.hand("kill")
    early = await asyncio.gather(stage.arranged(doomed, _BEFORE_REPORT), stage.arranged(doomed, _BEFORE_REPORT, "safe"))
    late = await asyncio.gather(*(stage.ask(doomed, Moment.REPORT, tool) for tool in ("effect", "safe")))
    await asyncio.gather(*(stage.run(case) for case in late))
    for case in late:
        await stage.bring_report(doomed, case)
    await doomed.process.kill()
    plain, safe = [*early[0], late[0]], [*early[1], late[1]]
    await let_go(doomed, (*plain, *safe), resume=False)
    await stage.hand("kill")
    return {Fault.KILL: plain, Fault.KILL_SAFE: safe}


async def stopped(stage: Stage) -> Acted:
    """The time for a statement and for a transaction passes, stopped or not: here it is enough for a busy machine."""
    zombie = await stage.hand("stop", FAULTS_STATEMENT="120", FAULTS_IDLE="120")
    cases = await asyncio.gather(*(stage.ask(zombie, moment) for moment in Moment))
    claim, *others = cases
    await asyncio.gather(*(stage.run(case) for case in others))
    await stage.bring(zombie, claim)
    await stage.hand("stop", FAULTS_STATEMENT="120")  # it finds nothing to do: everything is in the zombie's hands
    body, record, recorded, report = others
    await asyncio.gather(*(stage.bring_record(zombie, case) for case in (record, recorded)))
    await stage.bring_report(zombie, report)
    zombie.process.send(signal.SIGSTOP)
    for case in (claim, record):
        for gate in case.gates:
            await gate.release()
    # Past the heartbeat the other one tries: twice it waits for a row that the stopped one holds, else it finds out.
    await stage.waited_for(zombie, 2)
    zombie.process.send(signal.SIGCONT)
    for case in (claim, record, recorded):
        await case.let_go()
    await asyncio.gather(*(stage.outcome(case) for case in (body, report)))
    await let_go(zombie, cases)
    return {Fault.STOP: list(cases)}


async def sent_away(stage: Stage) -> Acted:
    """Stopped within its transactions for so long that PostgreSQL ends them: the others go on meanwhile."""
    zombie = await stage.hand("away", FAULTS_STATEMENT="120")
    claim, record = cases = await asyncio.gather(
        *(stage.ask(zombie, moment) for moment in (Moment.CLAIM, Moment.RECORD))
    )
    await stage.run(record)
    await stage.bring(zombie, claim)
    await stage.hand("away", FAULTS_STATEMENT="120")
    await stage.bring_record(zombie, record)
    zombie.process.send(signal.SIGSTOP)
    for case in cases:
        for gate in case.gates:
            await gate.release()
    claim.let_end()
    await asyncio.gather(*(stage.outcome(case) for case in cases))
    zombie.process.send(signal.SIGCONT)
    await let_go(zombie, cases)
    return {Fault.SENT_AWAY: list(cases)}


async def drained(stage: Stage) -> Acted:
    leaving = await stage.hand("drain")
    cases = await stage.arranged(leaving)
    leaving.process.send(signal.SIGTERM)
    await stage.says(leaving.process, "draining")
    await let_go(leaving, cases)
    assert await leaving.process.ended() == 0
    return {Fault.DRAIN: cases}


async def abandoned(stage: Stage) -> Acted:
    """The worker dies, and nobody comes until Temporal's last limit has passed."""
    doomed = await stage.hand("abandon", FAULTS_TIMEOUT="8")
    cases = await stage.arranged(doomed)
    await doomed.process.kill()
    await let_go(doomed, cases, resume=False)
    return {Fault.HARD_TIMEOUT: cases}


# People


async def denied(stage: Stage) -> Acted:
    hand = await stage.hand("deny")
    cases = await stage.arranged(hand)
    await stage.deny(hand.queue)
    await let_go(hand, cases)
    return {Fault.DENIED: cases}


async def started_over(stage: Stage) -> Acted:
    hand = await stage.hand("reset")
    claim, body, record, recorded, report = cases = await stage.arranged(hand)
    for case in cases:
        await reset(cast("Service", stage), case.handle, nth_task=1, keep_signals=True)
    hand.temporal.resume()
    for case in (claim, record):  # the one that was there first goes on first
        for gate in case.gates:
            await gate.release()
    await asyncio.gather(*(stage.outcome(case) for case in (claim, body)))
    await let_go(hand, (claim, body, record, recorded, report))
    return {Fault.RESET: cases}


# The network to the ledger


async def cut_for_a_moment(stage: Stage) -> Acted:
    hand = await stage.hand("cut")

    async def lost(fault: Fault, moment: Moment, loss: Loss) -> tuple[Fault, Case]:
        case = await stage.ask(hand, Moment.RECORD if moment is Moment.RECORDED else moment)
        await stage.bring(hand, case)
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
    idle = await stage.arranged(hand, (Moment.TOOL, Moment.REPORT))
    hand.ledger.drop()
    await let_go(hand, idle)
    acted: Acted = {Fault.LOST_REQUEST: idle, Fault.LOST_ANSWER: []}
    for fault, case in struck:
        acted[fault].append(case)
    return acted


async def cut_for_long(stage: Stage) -> Acted:
    hand = await stage.hand("cut-long", FAULTS_TIMEOUT="20")
    cases = await stage.arranged(hand)
    hand.ledger.cut()
    await let_go(hand, cases)
    await asyncio.gather(*(stage.outcome(case) for case in cases))
    return {Fault.CUT_LONG: cases}


# What the tool, the ledger and the network do


async def raising(stage: Stage) -> Acted:
    hand = await stage.hand("raise", FAULTS_TIMEOUT="8")
    claim, body, record = await asyncio.gather(
        stage.ask(hand, Moment.CLAIM), stage.ask(hand, Moment.TOOL, "raises"), stage.ask(hand, Moment.RECORD)
    )
    await stage.refuse(claim, "started")
    await claim.approve()
    await asyncio.gather(stage.run(body), stage.run(record))
    await stage.refuse(record, "executed")
    for case in (body, record):
        case.let_end()
    return {Fault.EXCEPTION: [claim, body, record]}


async def hanging(stage: Stage) -> Acted:
    """The tool, the ledger and the network to Temporal keep silent, each for longer than it is waited for."""
    hand = await stage.hand("hang", FAULTS_TIMEOUT="8")
    report = await stage.ask(hand, Moment.REPORT)
    await stage.bring(hand, report)
    await stage.pending(report, names.EXECUTE, attempt=2)
    hand.temporal.resume()
    claim, body, record, recorded = await stage.arranged(
        hand, (Moment.CLAIM, Moment.TOOL, Moment.RECORD, Moment.RECORDED)
    )

    async def until_given_up(case: Case) -> None:
        await stage.pending(case, names.CLOSE_CLAIM)
        await case.let_go()

    async def until_timed_out(case: Case) -> None:
        await stage.outcome(case)
        case.let_end()

    await asyncio.gather(until_given_up(claim), until_timed_out(body), until_given_up(record), stage.outcome(recorded))
    return {Fault.HANG: [claim, body, record, recorded, report]}


# The disk


async def disk_full(stage: Stage) -> Acted:
    hand = await stage.hand("disk")
    file = Path(str(make_url(stage.url).database))
    claim, body, record, report = await asyncio.gather(
        *(stage.ask(hand, moment) for moment in Moment if moment is not Moment.RECORDED)
    )
    await asyncio.gather(*(stage.run(case) for case in (body, record, report)))
    await stage.bring_report(hand, report)
    filler = file.with_name("filler")
    _fill(file, filler)
    hand.temporal.resume()
    record.let_end()
    await claim.approve()

    async def in_vain() -> bool:
        found = await stage.attempt(claim, names.EXECUTE)
        return found is not None and "out of reach" in found.last_failure.message

    await until(in_vain)
    await stage.says(hand.process, "nor could it be without its content")
    filler.unlink()
    for case in (claim, body):
        case.let_end()
    return {Fault.DISK_FULL: [claim, body, record, report]}


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


async def servers_restarted(stage: Stage, temporal: TemporalServer, postgres: OwnPostgres) -> Acted:
    hand = await stage.hand("restart")
    before = await stage.arranged(hand)
    await postgres.restart()
    await let_go(hand, before)
    await asyncio.gather(*(stage.outcome(case) for case in before))
    cases = await stage.arranged(hand)
    temporal.kill()
    await let_go(hand, cases)
    await asyncio.gather(*(stage.stands(case, "executed") for case in cases))
    temporal.start()
    await temporal.client()
    return {Fault.POSTGRES: before, Fault.TEMPORAL: cases}


async def temporal_away(stage: Stage, temporal: TemporalServer) -> Acted:
    """Temporal is away for longer than the heartbeat: whoever is heard first then, it has given up on the worker."""
    hand = await stage.hand("away", FAULTS_STATEMENT="120", FAULTS_IDLE="120")
    early = await stage.arranged(hand, _BEFORE_REPORT)
    claim, body, record, _ = early
    report = await stage.ask(hand, Moment.REPORT)
    await stage.run(report)
    cases = [*early, report]
    temporal.kill()
    report.let_end()
    await stage.stands(report, "executed")
    await asyncio.sleep(stage.heartbeat + 1)
    assert await stage.claim(body) == "started", "it is in good hands"
    hand.temporal.silence()  # else it depends on who is faster: the server's timer, or the worker's next heartbeat
    temporal.start()
    await temporal.client()
    await asyncio.gather(*(stage.pending(case, names.EXECUTE, attempt=2) for case in cases))
    hand.temporal.resume()
    for case in (claim, record):  # the attempt that was there first goes on first
        for gate in case.gates:
            await gate.release()
    await asyncio.gather(*(stage.outcome(case) for case in (claim, body)))
    await let_go(hand, cases)
    return {Fault.TEMPORAL_AWAY: cases}


# The clock


async def clock_stepped(stage: Stage, clock: SteppedClock) -> Acted:
    """A worker whose clock the test sets; that it moved is read from its heartbeats: the ledger's time is its own."""
    hand = await stage.hand("clock", **clock.environment)
    acted: Acted = {}
    for fault, step in ((Fault.CLOCK_AHEAD, _DAY), (Fault.CLOCK_BACK, -_DAY)):
        clock.set(timedelta(0))
        held = await stage.arranged(hand, (Moment.TOOL, Moment.RECORD, Moment.RECORDED, Moment.REPORT))
        claim = await stage.ask(hand, Moment.CLAIM)
        clock.set(step)
        claim.let_end()
        await let_go(hand, held)
        await claim.approve()
        acted[fault] = [claim, *held]
        await asyncio.gather(*(stage.outcome(case) for case in acted[fault]))
        running = await stage.ask(hand, Moment.TOOL)
        await stage.run(running)
        await until(partial(_is_elsewhere, stage, running))
        running.let_end()
    return acted


async def another_clock(stage: Stage, clock: SteppedClock) -> Acted:
    """The worker dies, and the next one lives two hours ahead."""
    doomed = await stage.hand("other-clock")
    cases = await stage.arranged(doomed)
    await doomed.process.kill()
    await let_go(doomed, cases, resume=False)
    clock.set(timedelta(hours=2))
    await stage.hand("other-clock", **clock.environment)
    return {Fault.OTHER_CLOCK: cases}


async def _is_elsewhere(stage: Stage, case: Case) -> bool:
    """Whether the clock of the worker that runs a call is far from this process's."""
    found = await stage.attempt(case, names.EXECUTE)
    if found is None or not found.heartbeat_details.payloads:
        return False
    beaten = datetime.fromisoformat(json.loads(found.heartbeat_details.payloads[0].data))
    return abs(beaten - datetime.now(UTC)) > _DAY / 2
