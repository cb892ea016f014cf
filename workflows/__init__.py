"""decide: deterministic Temporal workflows."""

from workflows.approval import ApprovalWorkflow
from workflows.frozen import FrozenReviewWorkflow
from workflows.recall import RecallWorkflow
from workflows.settling import SettlingWorkflow

ALL = [ApprovalWorkflow, FrozenReviewWorkflow, RecallWorkflow, SettlingWorkflow]

__all__ = ["ALL", "ApprovalWorkflow", "FrozenReviewWorkflow", "RecallWorkflow", "SettlingWorkflow"]
