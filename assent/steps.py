"""Every step that a workflow takes outside itself: its name, what it takes and what it gives, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from assent import names
from assent.contracts.asking import (
    FoundQuestions,
    OpenQuestions,
    QuestionConclusion,
    QuestionDelivery,
    QuestionPreparation,
    QuestionPrepared,
    QuestionRecorded,
    QuestionRevision,
)
from assent.contracts.audit import AuditBatch
from assent.contracts.bundles import BundleDelivered, BundleShown, SharedCalls
from assent.contracts.conclude import Announcement, Conclusion, Recorded
from assent.contracts.deliver import Delivered, Delivery, Revision
from assent.contracts.execute import Closing, PlannedCall, Report
from assent.contracts.files import FileMessage, ReceivedFiles
from assent.contracts.grants import Remembered, Remembering
from assent.contracts.inbox import Enquiry
from assent.contracts.prepare import Preparation, Prepared, Resolved, Unknowns, Warned, WarningQuestion
from assent.contracts.recall import Recall, Recalled
from assent.contracts.release import Release
from assent.contracts.review import Examination, Examined, Telling, Told
from assent.contracts.ruling import Ruled
from assent.contracts.runs import (
    ClaimedLine,
    LineClaim,
    LineOffer,
    LineOffered,
    LineQuestion,
    LineReport,
    LineWritten,
    RunShowing,
)
from assent.contracts.weigh import Weighed, Weighing
from assent.names import REPLY_INBOX

Taken = TypeVar("Taken", bound=BaseModel)
Given = TypeVar("Given", bound=BaseModel | None)


@dataclass(frozen=True)
class Step(Generic[Taken, Given]):
    """An activity by its persisted name; mypy checks what a workflow hands to it and gets from it."""

    name: str
    takes: type[Taken]
    gives: type[Given]


PREPARE = Step(names.PREPARE, Preparation, Prepared)
RESOLVE = Step(names.RESOLVE, Unknowns, Resolved)
WRITE_AUDIT = Step(names.WRITE_AUDIT, AuditBatch, type(None))
WEIGH = Step(names.WEIGH, Weighing, Weighed)
REMEMBER = Step(names.REMEMBER, Remembering, Remembered)
EXECUTE = Step(names.EXECUTE, PlannedCall, Report)
PROBE = Step(names.PROBE, PlannedCall, Report)
WARN = Step(names.WARN, WarningQuestion, Warned)
CLOSE_CLAIM = Step(names.CLOSE_CLAIM, Closing, Report)
RELEASE = Step(names.RELEASE, Release, Report)
RECORD = Step(names.RECORD, Conclusion, Recorded)
ANNOUNCE = Step(names.ANNOUNCE, Announcement, type(None))
DELIVER = Step(names.DELIVER, Delivery, Delivered)
SHOW = Step(names.SHOW, Revision, type(None))
DELIVER_BUNDLE = Step(names.DELIVER_BUNDLE, SharedCalls, BundleDelivered)
SHOW_BUNDLE = Step(names.SHOW_BUNDLE, SharedCalls, BundleShown)
EXAMINE = Step(names.EXAMINE, Examination, Examined)
RULE = Step(names.RULE, Examination, Ruled)
TELL = Step(names.TELL, Telling, Told)
SHOW_REVIEW = Step(names.SHOW_REVIEW, Examination, type(None))
RECALL = Step(names.RECALL_RECORD, Recall, Recalled)
REGISTER_FILES = Step(names.REGISTER_FILES, FileMessage, ReceivedFiles)
ANSWER_FILES = Step(names.ANSWER_FILES, ReceivedFiles, type(None))
REPLY_TO_MESSAGE = Step(REPLY_INBOX, Enquiry, type(None))
PREPARE_QUESTION = Step(names.PREPARE_QUESTION, QuestionPreparation, QuestionPrepared)
DELIVER_QUESTION = Step(names.DELIVER_QUESTION, QuestionDelivery, Delivered)
SHOW_QUESTION = Step(names.SHOW_QUESTION, QuestionRevision, type(None))
RECORD_ANSWER = Step(names.RECORD_ANSWER, QuestionConclusion, QuestionRecorded)
OPEN_QUESTIONS = Step(names.OPEN_QUESTIONS, OpenQuestions, FoundQuestions)
OFFER_LINE = Step(names.OFFER_LINE, LineOffer, LineOffered)
CLAIM_LINE = Step(names.CLAIM_LINE, LineClaim, ClaimedLine)
WRITE_LINE = Step(names.WRITE_LINE, LineQuestion, LineReport)
CONFIRM_LINE = Step(names.CONFIRM_LINE, LineWritten, LineReport)
CLOSE_LINE = Step(names.CLOSE_LINE, LineQuestion, LineReport)
SHOW_RUN = Step(names.SHOW_RUN, RunShowing, type(None))
