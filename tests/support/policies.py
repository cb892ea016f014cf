"""Rules, tools, calls and plans for the tests of the policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.plan import Plan
from assent.contracts.request import Request
from assent.payload import canonical_payload, sha256
from assent.policy.rules import Asking

ME = Identity(open_id="ou_me", tenant_key="t")


def rule(*lines: str, name: str = "r") -> str:
    return "\n".join(["[[rule]]", f'name = "{name}"', *lines, ""])


def manifest(**said: Any) -> Manifest:
    declared: dict[str, Any] = {
        "name": "send_mail",
        "description": "",
        "queue": "q",
        "parameters": {},
        "risk": Risk.MEDIUM,
        "approvers": Approvers(),
        "retry_safe": False,
        "attempts": 1,
        "timeout": timedelta(minutes=1),
        "has_probe": False,
        "sensitive": (),
        "max_ttl": timedelta(hours=1),
    }
    return Manifest(**{**declared, **said})


def asking(**arguments: Any) -> Asking:
    return Asking(tool="send_mail", arguments=arguments, requester=ME, conversation="oc_1")


def plan(**said: Any) -> Plan:
    payload = canonical_payload("send_mail", {})
    given: dict[str, Any] = {
        "approval_id": "a",
        "request_sha256": "",
        "tool": "send_mail",
        "description": "",
        "queue": "q",
        "payload": payload,
        "payload_sha256": sha256(payload),
        "idempotency_key": "k",
        "manifest_sha256": "",
        "requester": ME,
        "approvers": Approvers(),
        "risk": Risk.MEDIUM,
        "sensitive": (),
        "retry_safe": False,
        "attempts": 1,
        "has_probe": False,
        "deadline": datetime.now(UTC),
        "timeout": timedelta(minutes=1),
        "start_within": timedelta(minutes=1),
        "heartbeat_timeout": timedelta(seconds=20),
        "grace": timedelta(seconds=3),
        "asked_at": datetime.now(UTC),
        "tenant_key": "t",
        "conversation": "oc_1",
    }
    return Plan(**{**given, **said})


def request(plan: Plan) -> Request:
    """What a plan was made of."""
    return Request(approval_id=plan.approval_id, tool=plan.tool, arguments={}, requester=plan.requester)


def grant(by: Identity) -> Grant:
    return Grant(
        grant_id="g",
        scope=Remember.EXACT,
        tool="send_mail",
        requester=ME,
        decision=DecisionKind.APPROVE,
        granted_by=by,
        approval_id="a",
        granted_at=datetime.now(UTC),
        expires_at=datetime.now(UTC),
        manifest_sha256="",
        risk=Risk.MEDIUM,
    )
