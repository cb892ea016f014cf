"""The built-in tool `agent_call`: consent to a call that the agent makes itself, with a tool of its own."""

from __future__ import annotations

import json
from datetime import timedelta

from assent.contracts.approvers import Approvers
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.permission import Permission, ResultReview
from assent.errors import InvalidRequest
from assent.names import AGENT_CALL

MAX_ARGUMENTS_BYTES = 60 * 1024
"""How large such a call may be: its arguments are its outcome, and travel whole."""

MANIFEST = Manifest(
    name=AGENT_CALL,
    description="",
    queue="",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "arguments": {"type": "object"},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
    risk=Risk.MEDIUM,
    approvers=Approvers.of("requester"),
    retry_safe=False,
    attempts=1,
    timeout=timedelta(seconds=1),
    has_probe=False,
    sensitive=(),
    max_ttl=None,
    is_consent_only=True,
)
"""What the service says of it; no worker runs it, so none publishes it."""


def subject_of(payload: str) -> str:
    """What rules and remembered decisions call the tool of a canonical payload: `agent_call:NAME`, or its name."""
    call = json.loads(payload)
    return f"{AGENT_CALL}:{call['arguments']['name']}" if call["tool"] == AGENT_CALL else str(call["tool"])


def refuse_what_cannot_be_consented_to(payload: str, before: str | None = None) -> None:
    """Raise InvalidRequest for a call of the agent's own that is too large, or that an edit made another tool's."""
    if len(payload.encode()) > MAX_ARGUMENTS_BYTES:
        raise InvalidRequest(
            f"the agent's call holds more than {MAX_ARGUMENTS_BYTES} bytes; keep the large part elsewhere, and name it"
        )
    if before is not None and subject_of(payload) != subject_of(before):
        raise InvalidRequest("name: which of its tools the agent calls cannot be changed; reject the call instead")


def without_result_review(permission: Permission) -> Permission:
    """What of a permission can hold here: what the agent's own tool returns, the service never sees."""
    return permission.model_copy(update={"result": ResultReview.NEVER})
