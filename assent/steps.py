"""Every step that a workflow takes outside itself: its name, what it takes and what it gives, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from assent import names
from assent.awaiting import REPLY_INBOX, Enquiry
from assent.contracts import Ruled
from assent.messages import (
    Announcement,
    AuditBatch,
    BundleDelivered,
    BundleShown,
    Closing,
    Conclusion,
    Delivered,
    Delivery,
    Examination,
    Examined,
    Preparation,
    Prepared,
    Recall,
    Recalled,
    Recorded,
    Release,
    Remembered,
    Remembering,
    Report,
    Resolved,
    Revision,
    Sheet,
    Telling,
    Told,
    ToolCall,
    Unknowns,
    Weighed,
    Weighing,
)

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
EXECUTE = Step(names.EXECUTE, ToolCall, Report)
PROBE = Step(names.PROBE, ToolCall, Report)
CLOSE_CLAIM = Step(names.CLOSE_CLAIM, Closing, Report)
RELEASE = Step(names.RELEASE, Release, Report)
RECORD = Step(names.RECORD, Conclusion, Recorded)
ANNOUNCE = Step(names.ANNOUNCE, Announcement, type(None))
DELIVER = Step(names.DELIVER, Delivery, Delivered)
SHOW = Step(names.SHOW, Revision, type(None))
DELIVER_BUNDLE = Step(names.DELIVER_BUNDLE, Sheet, BundleDelivered)
SHOW_BUNDLE = Step(names.SHOW_BUNDLE, Sheet, BundleShown)
EXAMINE = Step(names.EXAMINE, Examination, Examined)
RULE = Step(names.RULE, Examination, Ruled)
TELL = Step(names.TELL, Telling, Told)
SHOW_REVIEW = Step(names.SHOW_REVIEW, Examination, type(None))
RECALL = Step(names.RECALL_RECORD, Recall, Recalled)
REPLY_TO_MESSAGE = Step(REPLY_INBOX, Enquiry, type(None))
