"""do: all I/O that a workflow asks for."""

from activities.approvals import ApprovalActivities
from activities.tools import ToolActivities

__all__ = ["ApprovalActivities", "ToolActivities"]
