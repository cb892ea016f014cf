"""remember: what was planned, who decided, what ran and how it ended, in SQL."""

from ledger.approvals import Open
from ledger.attempts import BegunAttempts, Holder
from ledger.claims import Beginning, Ending, Right
from ledger.database import Ledger
from ledger.errors import LedgerError, OutOfReach, Refused, is_refusal
from ledger.files import LedgerFiles
from ledger.messages import Message, MessageKind, Record, Shown, Slot, bundle_slot
from ledger.pins import Pin
from ledger.policies import Numbers
from ledger.questions import OpenQuestion, QuestionRecord
from ledger.reader import Reader
from ledger.requesters import Twin, told_of_twin
from ledger.reviews import Orphan, Untold
from ledger.schema import ClaimState
from ledger.threads import LedgerCheckpointer

__all__ = [
    "Beginning",
    "ClaimState",
    "Ending",
    "Holder",
    "Ledger",
    "LedgerCheckpointer",
    "LedgerError",
    "LedgerFiles",
    "Message",
    "MessageKind",
    "Numbers",
    "Open",
    "OpenQuestion",
    "Orphan",
    "OutOfReach",
    "Untold",
    "Pin",
    "Reader",
    "QuestionRecord",
    "Record",
    "Refused",
    "Right",
    "Shown",
    "Slot",
    "BegunAttempts",
    "Twin",
    "bundle_slot",
    "is_refusal",
    "told_of_twin",
]
