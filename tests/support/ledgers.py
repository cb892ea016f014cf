"""Approvals as a ledger knows them, for tests that need no workflow."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from assent import Approvers, Identity
from assent.contracts.conclude import Conclusion
from assent.contracts.execute import Closing, ToolCall
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Edit, Plan
from assent.contracts.request import Request, WhenPending
from assent.contracts.status import Status
from assent.payload import canonical_payload, idempotency_key, scope_key, scope_of, sha256
from assent.persons import Person
from assent.types import Risk
from ledger import Holder, Ledger

NOW = datetime.now(UTC)
ME = Identity(open_id="ou_me", union_id="on_me")
SOMEONE = Identity(open_id="ou_someone")


async def propose(ledger: Ledger, arguments: dict[str, Any] | None = None, **more: Any) -> Plan:
    """The plan of a call that waits for a decision. more: other fields of the plan; `message`, the scope of its key;
    `register`, whether it is stored.
    """
    message, is_registered = more.pop("message", None) or uuid.uuid4().hex, more.pop("register", True)
    requester = more.get("requester", ME)
    request = Request(
        approval_id=uuid.uuid4().hex,
        tool="send",
        arguments=arguments or {},
        requester=requester,
        message_id=message,
        thread_id=more.pop("thread_id", None),
        when_pending=more.pop("when_pending", WhenPending.ALLOW),
        asked_by=more.get("asked_by"),
    )
    plan = Plan(
        approval_id=request.approval_id,
        request_sha256=request.sha256,
        **call_of("send", arguments or {"in": message}, message, requester),
        **{
            "description": "",
            "queue": "q",
            "manifest_sha256": "m" * 64,
            "requester": ME,
            "approvers": Approvers(),
            "risk": Risk.LOW,
            "sensitive": (),
            "retry_safe": False,
            "attempts": 1,
            "has_probe": False,
            "deadline": NOW + timedelta(hours=1),
            "timeout": timedelta(minutes=1),
            "start_within": timedelta(minutes=1),
            "heartbeat_timeout": timedelta(seconds=3),
            "grace": timedelta(seconds=1),
            "asked_at": NOW,
            "remember_for": timedelta(hours=1),
            **more,
        },
    )
    if not is_registered:
        return plan
    prepared = await ledger.register(request, plan, None, now=NOW, open_until=NOW + timedelta(hours=1))
    return prepared.plan or plan


def call_of(tool: str, arguments: dict[str, Any], message: str, requester: Identity = ME) -> dict[str, str]:
    payload = canonical_payload(tool, arguments)
    scope = scope_of(approval_id="", message_id=message, scope=None)
    return {
        "tool": tool,
        "payload": payload,
        "payload_sha256": sha256(payload),
        "idempotency_key": idempotency_key("test", scope, Person.of(requester).canonical, sha256(payload)),
        "scope_key": scope_key("test", scope, sha256(payload)),
    }


def edited(plan: Plan, arguments: dict[str, Any]) -> Plan:
    """What the plan becomes when a person changes its arguments."""
    changed = call_of(plan.tool, arguments, plan.approval_id)
    edit = Edit(
        by=ME,
        proposed_payload=plan.payload,
        proposed_payload_sha256=plan.payload_sha256,
        payload=changed["payload"],
        payload_sha256=changed["payload_sha256"],
    )
    former = (*plan.former_sha256, plan.payload_sha256)
    return plan.model_copy(update={**changed, "edit": edit, "former_sha256": former})


def arguments_of(plan: Plan) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(plan.payload)["arguments"]
    return arguments


def holder() -> Holder:
    return Holder(token=uuid.uuid4().hex, worker="a worker")


def closing(call: ToolCall) -> Closing:
    shared = call.model_dump(include={"approval_id", "consent", "idempotency_key", "payload_sha256"})
    return Closing(**shared, now=NOW, reason="no worker came")


def ended(plan: Plan, status: Status, **more: Any) -> Conclusion:
    outcome = Outcome(
        approval_id=plan.approval_id,
        status=status,
        payload_sha256=plan.payload_sha256,
        idempotency_key=plan.idempotency_key,
    )
    return Conclusion(outcome=outcome, **{"entries": (), "judged": (), "closed_at": NOW, **more})
