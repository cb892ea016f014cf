"""The values that agents, tools and operators read and pass on, and the errors that only some of them meet."""

from assent.client.door import Approval, AskedQuestion, FrozenReview, ToolDescription
from assent.client.reader import LedgerReader
from assent.client.sync import SyncApproval, SyncQuestion
from assent.contracts.answers import Answer, AnswerVerdict, Flaw, FlawKind, JudgedAnswer, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditEntry, AuditEvent, AuditRecord
from assent.contracts.decision import DecisionKind, Judged, Remember, Stage, Verdict, VerdictKind
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution, ResultReview
from assent.contracts.plan import Edit
from assent.contracts.policy import Override, Rule
from assent.contracts.questions import Option, QuestionKind
from assent.contracts.request import WhenPending
from assent.contracts.ruling import Ruled, RuledKind, Ruling, RulingKind, Settlement
from assent.contracts.state import PendingItem, PendingType, Progress, ResultPreview, State
from assent.contracts.status import Phase
from assent.contracts.values import Surface
from assent.errors import LedgerNeeded, MissingExtra, NotFrozen, QuestionInterrupted, RulingRefused, Unhashable

__all__ = [
    "Answer",
    "AnswerVerdict",
    "Approval",
    "AskedQuestion",
    "AuditEntry",
    "AuditEvent",
    "AuditRecord",
    "DecisionKind",
    "Edit",
    "Execution",
    "FileSummary",
    "Flaw",
    "FlawKind",
    "FrozenReview",
    "Grant",
    "Judged",
    "JudgedAnswer",
    "LedgerNeeded",
    "LedgerReader",
    "MissingExtra",
    "NotFrozen",
    "Option",
    "Override",
    "PendingItem",
    "PendingType",
    "Phase",
    "Progress",
    "QuestionInterrupted",
    "QuestionKind",
    "QuestionState",
    "QuestionStatus",
    "Remember",
    "ResultPreview",
    "ResultReview",
    "RevokedKind",
    "Risk",
    "Ruled",
    "RuledKind",
    "Rule",
    "Ruling",
    "RulingKind",
    "RulingRefused",
    "Settlement",
    "Stage",
    "State",
    "Surface",
    "SyncApproval",
    "SyncQuestion",
    "ToolDescription",
    "Unhashable",
    "Verdict",
    "VerdictKind",
    "WhenPending",
]
