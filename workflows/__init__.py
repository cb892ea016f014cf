"""decide: deterministic Temporal workflows."""

from workflows.announcing import AnnouncingWorkflow
from workflows.approval import ApprovalWorkflow
from workflows.awaiting import InboxReplyWorkflow
from workflows.bundle import BundleWorkflow
from workflows.frozen import FrozenReviewWorkflow
from workflows.recall import RecallWorkflow
from workflows.settling import SettlingWorkflow
from workflows.showing import ShowingWorkflow

ALL = [
    AnnouncingWorkflow,
    ApprovalWorkflow,
    BundleWorkflow,
    FrozenReviewWorkflow,
    InboxReplyWorkflow,
    RecallWorkflow,
    SettlingWorkflow,
    ShowingWorkflow,
]

__all__ = [
    "ALL",
    "AnnouncingWorkflow",
    "ApprovalWorkflow",
    "BundleWorkflow",
    "FrozenReviewWorkflow",
    "InboxReplyWorkflow",
    "RecallWorkflow",
    "SettlingWorkflow",
    "ShowingWorkflow",
]
