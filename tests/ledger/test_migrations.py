"""A ledger that an older version wrote is brought to this one, and what it holds stays what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from assent.content import Content
from assent.contracts.audit import AuditBatch, AuditEntry, AuditEvent
from assent.contracts.execute import ToolCall
from assent.payload import canonical_json, sha256
from ledger import ClaimState, Ending, Ledger
from ledger.migrate import upgrade
from tests.conftest import new_database
from tests.support.ledgers import NOW, holder, propose
from tests.support.stepwise import writing


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_ledger_of_the_version_before_goes_on_working(kind: str, tmp_path: Path) -> None:
    ledger = Ledger.open(await new_database(kind, tmp_path, has_schema=False))
    await upgrade(ledger.engine, "0003")
    async with writing(ledger._engine) as connection:
        for table, row in _rows_of_version_3().items():
            names = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            await connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)
    assert await ledger.version() == "0003"
    await ledger.upgrade()
    assert await ledger.verify() == [], "the chains are what they were"
    assert await ledger.content("old") == b"1"
    state = await ledger.state("old")
    assert state is not None
    assert state.payload_sha256 == sha256("{}")
    async with writing(ledger._engine) as connection:
        begun = (await connection.execute(text("SELECT scope_key, requester FROM claims"))).one()
    assert (begun.scope_key, json.loads(begun.requester)) == ("test:k:h", {"open_id": "ou_me"})
    await ledger.append(AuditBatch(approval_id="old", entries=(AuditEntry(event=AuditEvent.LATE, at=NOW, once="l"),)))
    call, running = ToolCall.of(await propose(ledger)), holder()
    await ledger.begin(call, running)
    await ledger.finish(call, running, 1, Ending(state=ClaimState.EXECUTED, content=Content.of(1)))
    assert [entry.event for entry in await ledger.entries("old")] == ["execute", "late"]
    assert await ledger.verify() == []
    await ledger.dispose()


def _rows_of_version_3() -> dict[str, dict[str, object]]:
    """An executed call as version 0003 wrote it; its audit entry has the fields that entries had then, all of them."""
    none = ("actor", "decision", "error", "event_id", "message_id", "proof", "reason", "ruling", "surface")
    body = canonical_json(
        {
            **dict.fromkeys(none),
            "approval_id": "old",
            "at": "2026-01-02T00:00:00Z",
            "content_sha256": sha256(b"1"),
            "event": "execute",
            "once": "execute:old",
            "payload_sha256": sha256("{}"),
            "seq": 1,
        }
    ).decode()
    plan = {
        "approval_id": "old",
        "request_sha256": "r",
        "tool": "t",
        "description": "",
        "queue": "q",
        "payload": "{}",
        "payload_sha256": sha256("{}"),
        "idempotency_key": "test:k:h",
        "manifest_sha256": "m",
        "risk": "low",
        "requester": {"open_id": "ou_me"},
        "approvers": {"kind": "requester", "people": []},
        "sensitive": [],
        "retry_safe": False,
        "attempts": 1,
        "has_probe": False,
        "deadline": "2026-01-02T00:00:00Z",
        "timeout": "PT1M",
        "start_within": "PT1M",
        "heartbeat_timeout": "PT3S",
        "grace": "PT1S",
        "asked_at": "2026-01-02T00:00:00Z",
    }
    when = "2026-01-02T00:00:00.000000+00:00"
    return {
        "approvals": {
            "approval_id": "old",
            "request_sha256": "r",
            "tool": "t",
            "requester": '{"open_id": "ou_me"}',
            "plan": json.dumps(plan),
            "created_at": when,
            "open_until": when,
        },
        "claims": {
            "consent": "old",
            "idempotency_key": "test:k:h",
            "approval_id": "old",
            "payload_sha256": sha256("{}"),
            "state": "executed",
            "attempt": 1,
            "content": b"1",
        },
        "audit": {
            "approval_id": "old",
            "seq": 1,
            "once": "execute:old",
            "body": body,
            "previous": "",
            "hash": sha256(body),
        },
    }
