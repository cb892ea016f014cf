"""Assent: AI agents act with a person's consent, at most once, and never lie about what happened."""

from typing import TYPE_CHECKING, Any

from assent.client.client import Assent
from assent.client.door import Approval, FrozenReview, ToolDescription
from assent.client.handle import ApprovalHandle
from assent.client.reader import LedgerReader
from assent.client.sync import SyncApproval, SyncAssent
from assent.contracts.approvers import Approvers
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import Decision, DecisionKind, Remember, Stage, Verdict, VerdictKind
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Execution, Permission, ResultReview
from assent.contracts.plan import Edit
from assent.contracts.request import WhenPending
from assent.contracts.ruling import Ruled, RuledKind, Ruling, RulingKind, Settlement
from assent.contracts.state import Progress, State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
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
from assent.tools.tool import ProbeAnswer, ProbeResult, Registry, Tool, ToolContext, ToolOutcome, ToolResult, tool

if TYPE_CHECKING:
    from assent.tools.http import http_tool

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
        from assent.tools.http import http_tool

        return http_tool
    raise AttributeError(f"module 'assent' has no attribute {name!r}")
