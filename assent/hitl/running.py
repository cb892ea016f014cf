"""Which tool's body runs just now: what it asks is named after its call, and what it starts keeps its channel."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.hitl.agent import Agent


@dataclass
class RunningTool:
    """The body of a tool, while an agent's loop runs it."""

    agent: Agent
    tool_call_id: str
    """The question id of its own approval; in an agent within an agent, beginning with that of the outer call."""
    begins_anew: bool
    """Whether it would begin anew if its process died while it waits for a person."""
    asked: int = 0

    def next_question_id(self) -> str:
        """The name of what it asks next: the same each time that it runs."""
        self.asked += 1
        is_all = self.asked == 1 and not self.begins_anew
        return self.tool_call_id if is_all else f"{self.tool_call_id}:{self.asked}"


running_tool: ContextVar[RunningTool | None] = ContextVar("assent_running_tool", default=None)
