"""Assent: AI agents act with a person's consent, at most once, and never lie about what happened."""

from typing import TYPE_CHECKING, Any

from assent.client import Assent
from assent.contracts import (
    Approvers,
    Decision,
    DecisionKind,
    Edit,
    Execution,
    Grant,
    Identity,
    Outcome,
    Permission,
    Phase,
    Progress,
    Remember,
    ResultReview,
    Risk,
    Ruled,
    RuledKind,
    Ruling,
    RulingKind,
    Settlement,
    Stage,
    State,
    Status,
    Surface,
    Verdict,
    VerdictKind,
    WhenPending,
)
from assent.door import Approval, FrozenReview, ToolDescription
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    ConversationBusy,
    InvalidRequest,
    InvalidTool,
    LedgerNeeded,
    NotAllowed,
    NotFrozen,
    QuotaExceeded,
    RulingRefused,
    Unavailable,
    Unhashable,
)
from assent.handle import ApprovalHandle
from assent.messages import AuditRecord, RevokedKind
from assent.reader import LedgerReader
from assent.sync import SyncApproval, SyncAssent
from assent.tools import ProbeAnswer, ProbeResult, Registry, Tool, ToolContext, ToolOutcome, ToolResult, tool

if TYPE_CHECKING:
    from assent.http import http_tool

__version__ = "0.1.0.dev0"

__all__ = [
    "Approval",
    "ApprovalConflict",
    "ApprovalHandle",
    "ApprovalInterrupted",
    "ApprovalNotFound",
    "Approvers",
    "Assent",
    "AssentError",
    "AuditRecord",
    "ConversationBusy",
    "Decision",
    "DecisionKind",
    "Edit",
    "Execution",
    "FrozenReview",
    "Grant",
    "Identity",
    "InvalidRequest",
    "InvalidTool",
    "LedgerNeeded",
    "LedgerReader",
    "NotAllowed",
    "NotFrozen",
    "Outcome",
    "Permission",
    "Phase",
    "ProbeAnswer",
    "ProbeResult",
    "Progress",
    "QuotaExceeded",
    "Registry",
    "Remember",
    "ResultReview",
    "RevokedKind",
    "Risk",
    "Ruled",
    "RuledKind",
    "Ruling",
    "RulingKind",
    "RulingRefused",
    "Settlement",
    "Stage",
    "State",
    "Status",
    "Surface",
    "SyncApproval",
    "SyncAssent",
    "Tool",
    "ToolContext",
    "ToolDescription",
    "ToolOutcome",
    "ToolResult",
    "Unavailable",
    "Unhashable",
    "Verdict",
    "VerdictKind",
    "WhenPending",
    "http_tool",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "http_tool":  # brings httpx along, which not every agent needs
        from assent.http import http_tool

        return http_tool
    raise AttributeError(f"module 'assent' has no attribute {name!r}")
