"""What a person is asked through a channel, and the answer to an approval."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from assent.contracts.values import Frozen, Text


class HitlKind(StrEnum):
    """What a person is asked for."""

    CONFIRM = "confirm"
    APPROVE = "approve"
    ASK = "ask"


class HitlRequest(Frozen):
    """One request that waits for a person."""

    question_id: str
    """For approvals, the id of the tool call."""
    kind: HitlKind
    thread_id: str | None
    payload: dict[str, Any]
    """Of an approval `tool_name`, `tool_call_id`, `args` and `details`; of a confirmation `prompt` and `details`; of
    questions `questions`."""
    created_at: datetime
    deadline: datetime
    """Until when it can be answered, whoever waits for it."""


class ApproveAnswer(Frozen):
    """What a person decided about a call that the agent makes itself."""

    decision: Literal["approve", "deny", "edit"]
    edited_args: dict[str, Any] | None = None
    """Of an edit, all arguments that the call is to be made with."""
    reason: Text | None = None
