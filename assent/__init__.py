"""Assent: AI agents act with a person's consent, at most once, and never lie about what happened.

Here is what an agent, a tool's author and an operator's program begin with; `assent.types` has the values that they
read and pass on.
"""

from typing import TYPE_CHECKING, Any

from assent.client.client import Assent
from assent.client.handle import ApprovalHandle
from assent.client.question import QuestionHandle
from assent.client.sync import SyncAssent
from assent.contracts.answers import QuestionOutcome
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Decision
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Permission
from assent.contracts.questions import Question
from assent.contracts.status import Status
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    ConversationBusy,
    InvalidRequest,
    InvalidTool,
    NotAllowed,
    QuestionConflict,
    QuestionNotFound,
    QuotaExceeded,
    Unavailable,
)
from assent.files.shared_file import SharedFile
from assent.tools.asking import AskInterrupted
from assent.tools.definition import ProbeAnswer, ProbeResult, Registry, Tool, ToolContext, ToolOutcome, ToolResult, tool
from assent.tools.programs import program_tool

if TYPE_CHECKING:
    from assent.tools.http import http_tool

__version__ = "0.1.0.dev0"

__all__ = [
    "ApprovalConflict",
    "ApprovalHandle",
    "ApprovalInterrupted",
    "ApprovalNotFound",
    "Approvers",
    "AskInterrupted",
    "Assent",
    "AssentError",
    "ConversationBusy",
    "Decision",
    "Identity",
    "InvalidRequest",
    "InvalidTool",
    "NotAllowed",
    "Outcome",
    "Permission",
    "ProbeAnswer",
    "ProbeResult",
    "Question",
    "QuestionConflict",
    "QuestionHandle",
    "QuestionNotFound",
    "QuestionOutcome",
    "QuotaExceeded",
    "Registry",
    "SharedFile",
    "Status",
    "SyncAssent",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolResult",
    "Unavailable",
    "http_tool",
    "program_tool",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "http_tool":  # brings httpx along, which takes a moment
        from assent.tools.http import http_tool

        return http_tool
    raise AttributeError(f"module 'assent' has no attribute {name!r}")
