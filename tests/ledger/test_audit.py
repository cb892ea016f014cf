"""The audit says who, what, when and which payload; and `verify` notices whatever is done to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from assent import Identity, Outcome, Status
from assent.contracts.audit import AuditBatch
from assent.contracts.conclude import Conclusion
from assent.contracts.request import Request
from assent.types import Surface
from ledger import Ledger, audit, verifying
from tests.conftest import ME, Service, new_database
from tests.support.audit_entries import NOW, conclusion, entry
from tests.support.environment import worker_environment
from tests.support.fork_server import spawn
from tests.support.stepwise import writing
from tests.support.waiting import until


async def test_audit_names_actor_surface_payload_and_event(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request(
        "mark", {"path": str(tmp_path / "m")}, requester=ME, message_id="om_1", event_id="evt_ask", reason="why"
    )
    state = await handle.state()
    await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256, event_id="evt_click", reason="fine")
    outcome = await handle.outcome()
    asked, confirmed, executed = await service.ledger.entries(handle.id)
    assert (asked.actor, asked.message_id, asked.event_id, asked.reason) == (ME, "om_1", "evt_ask", "why")
    assert (confirmed.actor, confirmed.surface, confirmed.proof) == (ME, Surface.CLIENT, "temporal")
    assert (confirmed.event_id, confirmed.decision, confirmed.reason) == ("evt_click", "approve", "fine")
    assert {entry.payload_sha256 for entry in (asked, confirmed, executed)} == {state.payload_sha256}
    assert executed.content_sha256 == outcome.content_sha256


async def test_whole_service_verifies(service: Service) -> None:
    assert await service.ledger.verify() == []


async def test_forbidden_click_is_audited_while_the_approval_waits(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    state = await handle.state()
    stranger = Identity(open_id="ou_stranger")
    await handle.decide("approve", actor=stranger, payload_sha256=state.payload_sha256)

    async def audited() -> bool | None:
        return await service.events(handle.id) == ["write_request", "forbid"] or None

    await until(audited)
    await handle.cancel()
    await handle.outcome()


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    """A ledger with three closed approvals of four entries each, and an open one."""
    url = await new_database(request.param, tmp_path)
    ledger = Ledger.open(url)
    await ledger.upgrade()
    for name in ("a1", "a2", "a3", "open"):
        await ledger.register(
            Request(approval_id=name, tool="t", arguments={}, requester=ME), None, "x", now=NOW, open_until=NOW
        )
        await ledger.append(AuditBatch(approval_id=name, entries=(entry("forbid", 1), entry("forbid", 2))))
        if name != "open":
            await ledger.conclude(conclusion(name, entry("cancel", 3)))
    assert await ledger.verify() == []
    yield ledger
    await ledger.dispose()


async def run(ledger: Ledger, *statements: str) -> None:
    async with writing(ledger._engine) as connection:
        for statement in statements:
            await connection.execute(text(statement))


@pytest.mark.parametrize(
    ("attack", "finding"),
    [
        (["UPDATE audit SET body = replace(body, 'forbid', 'cancel') WHERE approval_id = 'a2' AND seq = 2"], "altered"),
        (["UPDATE audit SET once = 'x' WHERE approval_id = 'a2' AND seq = 2"], "altered"),
        (["DELETE FROM audit WHERE approval_id = 'a2' AND seq = 2"], "gone"),
        (["DELETE FROM audit WHERE approval_id = 'a2' AND seq = 4"], "only 3 are left"),
        (
            [
                "UPDATE audit SET seq = 9 WHERE approval_id = 'a2' AND seq = 2",
                "UPDATE audit SET seq = 2 WHERE approval_id = 'a2' AND seq = 3",
                "UPDATE audit SET seq = 3 WHERE approval_id = 'a2' AND seq = 9",
            ],
            "does not follow",
        ),
        (
            ["DELETE FROM audit WHERE approval_id = 'a2'", "DELETE FROM approvals WHERE approval_id = 'a2'"],
            "whole audit is gone",
        ),
        (["DELETE FROM approvals WHERE approval_id = 'a2'"], "record is gone"),
        (["DELETE FROM audit WHERE approval_id = 'open'"], "its audit is gone"),
        (["DELETE FROM seals WHERE n = 2"], "gone"),
        (["UPDATE seals SET head = 'x' WHERE n = 2"], "altered"),
        (["DELETE FROM seals WHERE n = 3"], "not sealed"),
        *(
            (
                [
                    "DELETE FROM seals WHERE n = 3",
                    f"UPDATE approvals SET unsealed_since = '{since}' WHERE approval_id = 'a3'",
                ],
                "not sealed",
            )
            for since in ("2026-01-02T00:00:00.000000+00:00", "9999-01-01T00:00:00.000000+00:00")
        ),
    ],
)
async def test_verify_finds_what_was_done(ledger: Ledger, attack: list[str], finding: str) -> None:
    await run(ledger, *attack)
    problems = await ledger.verify()
    assert any(finding in problem for problem in problems), problems


async def test_a_kept_head_shows_that_the_end_was_cut_off_whole(ledger: Ledger) -> None:
    _, head = await ledger.head()
    tables = ("audit", "approvals", "seals")
    await run(ledger, *(f"DELETE FROM {table} WHERE approval_id = 'a3'" for table in tables))
    assert await ledger.verify() == [], "nothing inside can tell"
    assert await ledger.verify(head) == ["the expected head is not among the seals: the end was cut off or rewritten"]


async def test_a_retried_writing_appends_nothing_twice(ledger: Ledger) -> None:
    batch = AuditBatch(approval_id="open", entries=(entry("forbid", 2), entry("forbid", 5)))
    for _ in range(3):
        await ledger.append(batch)
        await ledger.conclude(conclusion("a1", entry("cancel", 3)))
    assert len(await ledger.entries("open")) == 4
    assert len(await ledger.entries("a1")) == 4
    assert (await ledger.head())[0] == 3
    assert await ledger.verify() == []


async def test_many_closing_at_once_make_one_chain(ledger: Ledger) -> None:
    names = [f"many-{n}" for n in range(20)]

    async def live(name: str) -> None:
        request = Request(approval_id=name, tool="t", arguments={}, requester=ME)
        await ledger.register(request, None, "x", now=NOW, open_until=NOW)
        await ledger.conclude(conclusion(name, entry("cancel", 1)))

    await asyncio.gather(*(live(name) for name in names))
    await ledger.seal()
    assert (await ledger.head())[0] == 23
    assert await ledger.verify() == []


async def test_the_first_ending_stands(ledger: Ledger) -> None:
    other = Outcome(approval_id="a1", status=Status.EXPIRED)
    stands = await ledger.conclude(Conclusion(outcome=other, entries=(), judged=(), closed_at=NOW))
    assert stands.status == "cancelled"


async def test_verify_command_tells_by_its_exit_code(ledger: Ledger) -> None:
    url = ledger._engine.url.render_as_string(hide_password=False)

    async def verify(*more: str) -> tuple[int | None, str]:
        process = await spawn(
            *("-m", "ledger", "verify", *more),
            env=worker_environment(ASSENT_DATABASE_URL=url),
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    code, said = await verify()
    assert (code, "3 seals" in said) == (0, True)
    head = said.partition("Head: ")[2].split()[0]
    assert (await verify("--head", head))[0] == 0
    await run(ledger, "DELETE FROM audit WHERE approval_id = 'a2' AND seq = 4")
    code, said = await verify()
    assert code == 1
    assert "approval a2" in said
    assert os.linesep in said


async def test_an_ending_waits_for_nobody_who_seals(tmp_path: Path) -> None:
    """A process was stopped while it sealed: what ends meanwhile is on record, and sealed by the next."""
    ledger = Ledger.open(await new_database("postgres", tmp_path))
    await ledger.upgrade()
    async with writing(ledger._engine) as stopped:
        await stopped.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": audit._SEALING})
        for name in ("b1", "b2"):
            request = Request(approval_id=name, tool="t", arguments={}, requester=ME)
            await ledger.register(request, None, "x", now=NOW, open_until=NOW)
            await ledger.conclude(conclusion(name, entry("cancel", 1)))
            assert (await ledger.state(name)) is not None
            assert (await ledger.outcome(name)) is not None
        assert (await ledger.head())[0] == 0
        assert await ledger.verify() == [], "it has not waited for long"
    await ledger.conclude(conclusion("b1", entry("forbid", 2)))
    assert (await ledger.head())[0] == 2
    await ledger.dispose()


async def test_a_process_that_is_stopped_within_a_transaction_holds_nobody_up_for_long(tmp_path: Path) -> None:
    """It sleeps with the row locked, as a machine that was suspended does; PostgreSQL sends it away."""
    url = await new_database("postgres", tmp_path)
    ledger = Ledger.open(url)
    await ledger.upgrade()
    request = Request(approval_id="held", tool="t", arguments={}, requester=ME)
    await ledger.register(request, None, "x", now=NOW, open_until=NOW)
    stopped = await spawn(
        *("-c", _STOPS_ITSELF, url),
        env=worker_environment(),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert stopped.stdout is not None
        assert (await stopped.stdout.readline()).decode().strip() == "locked"
        assert (await ledger.conclude(conclusion("held", entry("cancel", 1)))).status == "cancelled"
        assert (await ledger.outcome("held")) is not None
    finally:
        stopped.kill()
        await stopped.communicate()
        await ledger.dispose()


_STOPS_ITSELF = """
import asyncio, os, signal, sys
from ledger import Ledger, audit
from tests.support.stepwise import writing

async def main():
    async with writing(Ledger.open(sys.argv[1])._engine) as connection:
        await audit.lock(connection, "held")
        print("locked", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_verify_cries_no_tampering_while_approvals_come_and_go(kind: str, tmp_path: Path) -> None:
    ledger = Ledger.open(await new_database(kind, tmp_path))
    await ledger.upgrade()
    over = False

    async def live(name: str) -> None:
        n = 0
        while not over:
            n += 1
            request = Request(approval_id=f"{name}-{n}", tool="t", arguments={}, requester=ME)
            await ledger.register(request, None, "x", now=NOW, open_until=NOW)
            await ledger.conclude(conclusion(request.approval_id, entry("cancel", 1)))
            await ledger.append(AuditBatch(approval_id=request.approval_id, entries=(entry("forbid", 2),)))

    traffic = [asyncio.create_task(live(f"live-{n}")) for n in range(4)]
    try:
        for _ in range(12):
            assert await ledger.verify() == []
    finally:
        over = True
        await asyncio.gather(*traffic)
    await ledger.seal()
    assert await ledger.verify() == []
    assert (await ledger.head())[0] > 0
    await ledger.dispose()


async def test_verify_reads_some_approvals_at_a_time(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their order, and wherever a page ends, what was done is found."""
    monkeypatch.setattr(verifying, "_PAGE", 1)
    assert await ledger.verify() == []
    await run(ledger, "UPDATE audit SET body = replace(body, 'forbid', 'cancel') WHERE approval_id = 'a3' AND seq = 2")
    assert await ledger.verify() == ["approval a3, entry 2: it was altered"]
