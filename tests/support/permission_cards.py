"""Cards of calls with approvers, forms and remembered decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Judged, Remember
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution, Permission
from tests.support.cards import APPROVED, NOW

ANN, BEN, CAT, DAN = (Identity(open_id=f"ou_{name}") for name in ("ann", "ben", "cat", "dan"))


ONCE: dict[str, Any] = {
    "permission": Permission(execution=Execution.ASK_ONCE),
    "remember_for": timedelta(days=7),
    "conversation": "oc_team",
}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "api_key": {"type": "string"},
        "lines": {"type": "array"},
        "urgent": {"type": "boolean"},
    },
}


TWO = Approvers(
    kind=Approvers.Kind.PEOPLE,
    people=(BEN, CAT, DAN),
    threshold=2,
    exclude_requester=True,
    rejections=2,
    then=(Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_board"),),
)


GRANT = Grant(
    grant_id="grant-1",
    scope=Remember.EXACT,
    tool="send_invoice",
    payload_sha256="0" * 64,
    requester=ANN,
    decision=DecisionKind.APPROVE,
    granted_by=BEN,
    approval_id="inv-41",
    granted_at=NOW,
    expires_at=NOW + timedelta(days=7),
    manifest_sha256="0" * 64,
    risk=Risk.MEDIUM,
)


def by(who: Identity, kind: DecisionKind = DecisionKind.APPROVE) -> Judged:
    return APPROVED.model_copy(update={"actor": who, "kind": kind})
