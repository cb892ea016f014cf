"""decide: deterministic Temporal workflows."""

from workflows.announcing import AnnouncingWorkflow
from workflows.approval import ApprovalWorkflow
from workflows.bundle import BundleWorkflow
from workflows.frozen import FrozenReviewWorkflow
from workflows.inbox_reply import InboxReplyWorkflow
from workflows.question import QuestionWorkflow
from workflows.recall import RecallWorkflow
from workflows.receiving import ReceiveFilesWorkflow
from workflows.recording import RecordingWorkflow
from workflows.redrawing import RedrawingWorkflow
from workflows.run import RunWorkflow
from workflows.show_answered import ShowAnsweredWorkflow
from workflows.show_settled import ShowSettledWorkflow
from workflows.warning import WarningWorkflow

ALL = [
    AnnouncingWorkflow,
    ApprovalWorkflow,
    BundleWorkflow,
    FrozenReviewWorkflow,
    InboxReplyWorkflow,
    QuestionWorkflow,
    RecallWorkflow,
    ReceiveFilesWorkflow,
    RecordingWorkflow,
    RedrawingWorkflow,
    RunWorkflow,
    ShowAnsweredWorkflow,
    ShowSettledWorkflow,
    WarningWorkflow,
]

__all__ = [
    "ALL",
    "AnnouncingWorkflow",
    "ApprovalWorkflow",
    "BundleWorkflow",
    "FrozenReviewWorkflow",
    "InboxReplyWorkflow",
    "QuestionWorkflow",
    "RecallWorkflow",
    "ReceiveFilesWorkflow",
    "RecordingWorkflow",
    "RedrawingWorkflow",
    "RunWorkflow",
    "ShowAnsweredWorkflow",
    "ShowSettledWorkflow",
    "WarningWorkflow",
]
