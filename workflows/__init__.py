"""decide: deterministic Temporal workflows."""

from workflows.announcing import AnnouncingWorkflow
from workflows.approval import ApprovalWorkflow
from workflows.bundle import BundleWorkflow
from workflows.frozen import FrozenReviewWorkflow
from workflows.inbox_reply import InboxReplyWorkflow
from workflows.recall import RecallWorkflow
from workflows.recording import RecordingWorkflow
from workflows.redrawing import RedrawingWorkflow
from workflows.show_settled import ShowSettledWorkflow

ALL = [
    AnnouncingWorkflow,
    ApprovalWorkflow,
    BundleWorkflow,
    FrozenReviewWorkflow,
    InboxReplyWorkflow,
    RecallWorkflow,
    RecordingWorkflow,
    RedrawingWorkflow,
    ShowSettledWorkflow,
]

__all__ = [
    "ALL",
    "AnnouncingWorkflow",
    "ApprovalWorkflow",
    "BundleWorkflow",
    "FrozenReviewWorkflow",
    "InboxReplyWorkflow",
    "RecallWorkflow",
    "RecordingWorkflow",
    "RedrawingWorkflow",
    "ShowSettledWorkflow",
]
