"""What the tables say is compared with the audit, and the audit with what was kept elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from assent import Outcome, Status
from assent.contracts.audit import AuditBatch, AuditEntry, AuditEvent
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.grants import Remembering
from assent.contracts.request import Request
from assent.payload import canonical_json, sha256
from assent.types import RulingKind, Surface
from ledger import Ledger, crosscheck
from tests.conftest import ME, new_database
from tests.support.environment import worker_environment
from tests.support.fork_server import spawn
from tests.support.frozen_ledger_calls import lost, said
from tests.support.ledgers import NOW, propose
from tests.support.stepwise import reading, writing

GRANTED = ("kept", "revoked")


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    """A ledger with three closed approvals, and two remembered decisions of which one was revoked."""
    ledger = Ledger.open(await new_database(request.param, tmp_path))
    await ledger.upgrade()
    for name in ("a1", "a2", "a3", "open"):
        asked = Request(approval_id=name, tool="t", arguments={}, requester=ME)
        await ledger.register(asked, None, "x", now=NOW, open_until=NOW)
        if name != "open":
            outcome = Outcome(approval_id=name, status=Status.CANCELLED, reason="of no use")
            cancelled = AuditEntry(event=AuditEvent.CANCEL, at=NOW, once="cancel")
            await ledger.conclude(Conclusion(outcome=outcome, entries=(cancelled,), judged=(), closed_at=NOW))
    for name in GRANTED:
        plan = await propose(ledger, remember_for=timedelta(days=1))
        grant = await ledger.remember(
            Remembering(
                approval_id=plan.approval_id,
                payload_sha256=plan.payload_sha256,
                decision=DecisionKind.APPROVE,
                reason=name,
                scope=Remember.EXACT,
                actor=ME,
                now=NOW,
            )
        )
        assert grant is not None
        if name == "revoked":
            await ledger.revoke(grant.grant_id, ME, may_all=False, surface=Surface.CLIENT, now=NOW)
    assert await ledger.verify() == []
    yield ledger
    await ledger.dispose()


async def run(ledger: Ledger, *statements: str) -> None:
    async with writing(ledger._engine) as connection:
        for statement in statements:
            await connection.execute(text(statement))


KEPT, REVOKED = (f"WHERE granted LIKE '%reason%{name}%'" for name in GRANTED)


@pytest.mark.parametrize(
    ("attack", "finding"),
    [
        ("UPDATE approvals SET outcome = replace(outcome, 'of no use', 'of great use') WHERE approval_id = 'a2'", "a2"),
        ("UPDATE approvals SET outcome = replace(outcome, 'cancelled', 'executed') WHERE approval_id = 'a2'", "a2"),
        ("UPDATE approvals SET status = 'executed' WHERE approval_id = 'a2'", "a2"),
        ("UPDATE approvals SET outcome = NULL, status = NULL, closed_at = NULL WHERE approval_id = 'a2'", "a2"),
        (
            "UPDATE approvals SET status = 'cancelled',"
            " outcome = (SELECT outcome FROM approvals WHERE approval_id = 'a1') WHERE approval_id = 'open'",
            "open: it has an outcome, and was never closed",
        ),
        (f"UPDATE grants SET granted = replace(granted, 'approve', 'reject') {KEPT}", "not what the audit says"),
        (f"UPDATE grants SET tool = 'another' {KEPT}", "not what the audit says"),
        (f"UPDATE grants SET payload_sha256 = NULL {KEPT}", "not what the audit says"),
        (f"UPDATE grants SET granted_at = '2026-05-05T00:00:00.000000+00:00' {KEPT}", "not what the audit says"),
        (f"UPDATE grants SET grant_id = 'g_new' {KEPT}", "not what the audit says"),
        (f"DELETE FROM grants {KEPT}", "the audit knows it, and it is gone"),
        (f"UPDATE grants SET revoked_at = NULL, revoked_by = NULL {REVOKED}", "whether it was revoked"),
        (f"UPDATE grants SET revoked_by = replace(revoked_by, 'ou_', 'oo_') {REVOKED}", "whether it was revoked"),
        (f"UPDATE grants SET revoked_at = granted_at, revoked_by = NULL {KEPT}", "whether it was revoked"),
    ],
)
async def test_what_was_changed_beside_the_audit_is_found(ledger: Ledger, attack: str, finding: str) -> None:
    before = await _dump(ledger)
    await run(ledger, attack)
    assert await _dump(ledger) != before, "the attack did something"
    problems = await ledger.verify()
    assert any(finding in problem for problem in problems), problems


@pytest.mark.parametrize("is_former", [False, True], ids=["today", "as it was written at first"])
@pytest.mark.parametrize(
    ("attack", "finding"),
    [
        ("UPDATE settlements SET settlement = replace(settlement, 'not_executed', 'executed')", "what was settled"),
        ("UPDATE settlements SET settlement = replace(settlement, 'ou_operator', 'ou_other')", "what was settled"),
        ("UPDATE settlements SET settlement = replace(settlement, 'I looked', 'The bank said so')", "what was settled"),
        ("UPDATE settlements SET settlement = replace(settlement, '{', '{\"content\": 7, ')", "what was settled"),
        (
            "UPDATE settlements SET settlement = replace(settlement, 'not_executed', 'executed'),"
            " entry = replace(entry, 'not_executed', 'executed')",
            "what was settled",
        ),
        ("DELETE FROM settlements", "what its audit says was settled"),
    ],
)
async def test_a_settlement_that_was_changed_beside_the_audit_is_found(
    ledger: Ledger, attack: str, finding: str, is_former: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_former:  # before an entry had the hash of what was settled
        monkeypatch.setattr(crosscheck, "settlement_sha256", lambda *_: None)
    plan = await lost(ledger)
    await ledger.rule(said(plan, RulingKind.NOT_EXECUTED))
    monkeypatch.undo()
    await ledger.seal()
    assert await ledger.verify() == []
    before = await _dump(ledger)
    await run(ledger, attack)
    assert await _dump(ledger) != before, "the attack did something"
    problems = await ledger.verify()
    assert any(finding in problem and plan.approval_id in problem for problem in problems), problems


async def test_a_settlement_that_nobody_made_or_that_was_moved_is_found(ledger: Ledger) -> None:
    settled, other = await lost(ledger), await lost(ledger)
    await ledger.rule(said(settled, RulingKind.NOT_EXECUTED))
    columns = "settlement, entry, settled_at, told"
    await run(
        ledger,
        f"INSERT INTO settlements (consent, {columns}) SELECT '{other.approval_id}', {columns} FROM settlements",
    )
    assert await ledger.verify() == [f"consent {other.approval_id}: what was settled of it is not what the audit says"]


async def _dump(ledger: Ledger) -> list[Any]:
    async with reading(ledger._engine) as connection:
        return [
            sorted(map(str, (await connection.execute(text(f"SELECT * FROM {table}"))).all()))
            for table in ("approvals", "grants", "settlements")
        ]


async def _rewrite(ledger: Ledger, approval_id: str) -> None:
    """What somebody does who writes the database and knows how it is chained."""
    async with writing(ledger._engine) as connection:
        found = await connection.execute(text("SELECT * FROM audit ORDER BY approval_id, seq"))
        rows = [row._asdict() for row in found]
        head, heads = "", {}
        for row in rows:
            head = "" if row["seq"] == 1 else head
            body = json.loads(row["body"])
            if row["approval_id"] == approval_id and body["event"] == "cancel":
                body["event"] = "expire"
            written, previous = canonical_json(body).decode(), head
            head = heads[row["approval_id"]] = sha256(previous + written)
            values = {"body": written, "previous": previous, "hash": head, "id": row["approval_id"], "seq": row["seq"]}
            await connection.execute(
                text(
                    "UPDATE audit SET body = :body, previous = :previous, hash = :hash"
                    " WHERE approval_id = :id AND seq = :seq"
                ),
                values,
            )
        previous = ""
        found = await connection.execute(text("SELECT * FROM seals ORDER BY n"))
        for row in [each._asdict() for each in found]:
            sealed = {name: row[name] for name in ("n", "approval_id", "entries", "outcome_sha256")}
            sealed |= {"head": heads[row["approval_id"]], "previous": previous}
            previous = sha256(canonical_json({name: value for name, value in sealed.items() if value is not None}))
            await connection.execute(
                text("UPDATE seals SET head = :head, previous = :previous, hash = :hash WHERE n = :n"),
                {**sealed, "hash": previous},
            )


async def test_only_what_was_kept_elsewhere_finds_a_chain_that_was_computed_anew(ledger: Ledger) -> None:
    kept = await ledger.heads()
    _, last = await ledger.head()
    assert await ledger.verify(last, kept) == []
    await _rewrite(ledger, "a2")
    assert await ledger.verify() == [], "nothing inside can tell"
    assert await ledger.verify(last) == ["the expected head is not among the seals: the end was cut off or rewritten"]
    assert await ledger.verify(kept=kept) == ["approval a2: entry 2 is not the one that was kept elsewhere"]


async def test_a_kept_head_finds_an_approval_that_was_cut_out_and_an_outcome_that_was_sealed_anew(
    ledger: Ledger,
) -> None:
    kept = await ledger.heads()
    tables = ("audit", "approvals", "seals")
    await run(ledger, *(f"DELETE FROM {table} WHERE approval_id = 'a3'" for table in tables))
    assert await ledger.verify() == []
    (cut, *more) = await ledger.verify(kept=kept)
    assert cut == "approval a3: 2 entries were kept elsewhere, only 0 are left"
    assert more == ["approval a3: the recorded outcome is not the one that was kept elsewhere"]


async def test_the_closing_head_stays_when_more_is_added_to_the_audit(ledger: Ledger) -> None:
    closing = await ledger.closing_head("a1")
    assert closing is not None
    assert (closing.entries, len(closing.head)) == (2, 64)
    late = AuditEntry(event=AuditEvent.LATE, at=NOW, once="late")
    await ledger.append(AuditBatch(approval_id="a1", entries=(late,)))
    await ledger.seal()
    assert await ledger.closing_head("a1") == closing
    assert [head.entries for head in await ledger.heads() if head.approval_id == "a1"] == [2, 3]
    assert await ledger.verify(kept=[closing]) == []
    assert await ledger.closing_head("open") is None


async def test_heads_are_written_and_checked_from_the_command_line(ledger: Ledger, tmp_path: Path) -> None:
    url = ledger._engine.url.render_as_string(hide_password=False)

    async def command(*arguments: str) -> tuple[int | None, str, str]:
        process = await spawn(
            *("-m", "ledger", *arguments),
            env=worker_environment(ASSENT_DATABASE_URL=url),
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    code, written, _ = await command("heads")
    assert code == 0
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["approval_id"] for line in lines] == ["a1", "a2", "a3"]
    assert all(re.fullmatch("[0-9a-f]{64}", line["head"]) and line["entries"] == 2 for line in lines)
    heads = tmp_path / "heads.jsonl"
    heads.write_text(written + "\n")
    code, said, _ = await command("verify", "--heads", str(heads))
    assert (code, "All 3 heads are part of it." in said) == (0, True)
    await _rewrite(ledger, "a2")
    assert (await command("verify"))[0] == 0
    code, _, told = await command("verify", "--heads", str(heads))
    assert (code, "approval a2" in told) == (1, True)
    heads.write_text(written + "{}\n")
    code, _, told = await command("verify", "--heads", str(heads))
    assert (code, told.strip()) == (2, f"{heads}, line 4: this is no head")
    code, _, told = await command("verify", "--heads", str(tmp_path / "none"))
    assert (code, told.strip()) == (2, f"{tmp_path / 'none'} cannot be read.")
