"""Consents that claim, and how a claim ends."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from assent import Approvers, Identity
from assent.content import Content
from assent.contracts.execute import Closing, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.request import Request
from assent.payload import canonical_payload, idempotency_key, scope_key, sha256
from assent.types import Risk
from ledger import ClaimState, Ending, Holder, Ledger
from tests.conftest import new_database

NOW = datetime.now(UTC)


ME = Identity(open_id="ou_me")


EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of({"sent": True}))


UNKNOWN = Ending(state=ClaimState.UNKNOWN, error="RuntimeError: lost")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("claims")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


async def consent(ledger: Ledger, *, message: str | None = None, retry_safe: bool = False) -> ToolCall:
    """A call that a person consented to, registered in the ledger."""
    request = Request(
        approval_id=uuid.uuid4().hex, tool="send", arguments={}, requester=ME, message_id=message or uuid.uuid4().hex
    )
    payload = canonical_payload("send", {"in": request.message_id})  # the same call only within the same message
    call = ToolCall(
        approval_id=request.approval_id,
        consent=request.approval_id,
        tool="send",
        payload=payload,
        payload_sha256=sha256(payload),
        idempotency_key=idempotency_key("test", f"message:{request.message_id}", "open_id:ou_me", sha256(payload)),
        scope_key=scope_key("test", f"message:{request.message_id}", sha256(payload)),
        manifest_sha256="",
        requester=ME,
        retry_safe=retry_safe,
        attempts=2 if retry_safe else 1,
        timeout=timedelta(minutes=1),
        start_within=timedelta(minutes=1),
    )
    shared = call.model_dump(include={*Plan.model_fields} & {*ToolCall.model_fields})
    plan = Plan(
        asked_at=NOW,
        **shared,
        request_sha256=request.sha256,
        description="",
        queue="q",
        approvers=Approvers(),
        risk=Risk.LOW,
        sensitive=(),
        has_probe=False,
        deadline=NOW + timedelta(hours=1),
        heartbeat_timeout=timedelta(seconds=3),
        grace=timedelta(seconds=1),
    )
    await ledger.register(request, plan, None, now=NOW, open_until=NOW + timedelta(hours=1))
    return call


def holder(turn: int = 0, activity: str | None = None) -> Holder:
    return Holder(token=uuid.uuid4().hex, worker="a worker", activity=activity, turn=turn)


def closing(call: ToolCall) -> Closing:
    return Closing(
        approval_id=call.approval_id,
        consent=call.consent,
        idempotency_key=call.idempotency_key,
        payload_sha256=call.payload_sha256,
        now=NOW,
        reason="no worker came",
    )
