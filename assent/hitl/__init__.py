"""The channel for agent loops: an agent that runs its own tools asks people, and survives its own process.

`Agent` is a small loop that keeps all promises; a loop of one's own asks through a `HitlChannel`.
"""

from assent.contracts.questions import Option, Question, QuestionKind
from assent.hitl.agent import Agent
from assent.hitl.channel import HitlChannel
from assent.hitl.checkpointed import CheckpointedChannel
from assent.hitl.checkpoints import Checkpointer, FileCheckpointer
from assent.hitl.events import AgentAbortedEvent, AgentSuspendedEvent, HitlAnswerEvent, HitlEvent, HitlRequestEvent
from assent.hitl.exceptions import (
    HitlAborted,
    HitlCancelled,
    HitlConcurrencyError,
    HitlControlException,
    HitlDetached,
    HitlDurabilityNotGuaranteed,
    HitlError,
    HitlNoPendingRequest,
    HitlStaleAnswer,
    HitlTimedOut,
)
from assent.hitl.local import LocalChannel
from assent.hitl.requests import ApproveAnswer, HitlKind, HitlRequest
from assent.hitl.service import ServiceTool, service_tools
from assent.hitl.tools import AgentTool, Subagent, ask_user

__all__ = [
    "Agent",
    "AgentAbortedEvent",
    "AgentSuspendedEvent",
    "AgentTool",
    "ApproveAnswer",
    "CheckpointedChannel",
    "Checkpointer",
    "FileCheckpointer",
    "HitlAborted",
    "HitlAnswerEvent",
    "HitlCancelled",
    "HitlChannel",
    "HitlConcurrencyError",
    "HitlControlException",
    "HitlDetached",
    "HitlDurabilityNotGuaranteed",
    "HitlError",
    "HitlEvent",
    "HitlKind",
    "HitlNoPendingRequest",
    "HitlRequest",
    "HitlRequestEvent",
    "HitlStaleAnswer",
    "HitlTimedOut",
    "LocalChannel",
    "Option",
    "Question",
    "QuestionKind",
    "ServiceTool",
    "Subagent",
    "ask_user",
    "service_tools",
]
