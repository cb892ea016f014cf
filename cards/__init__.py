"""Approvals shown as Feishu cards, and clicks read back: pure functions, no input or output of their own."""

from cards.attachments import overflow
from cards.building import card
from cards.clicks import Challenge, Click, Event, ForeignClick, parse_event
from cards.showing import Attachment, File, Showing
from cards.toasts import Toast, not_recorded, toast, unreadable
from cards.verifier import Refused, Verifier
from cards.wording import Wording

__all__ = [
    "Attachment",
    "Challenge",
    "Click",
    "Event",
    "File",
    "ForeignClick",
    "Refused",
    "Showing",
    "Toast",
    "Verifier",
    "Wording",
    "card",
    "not_recorded",
    "overflow",
    "parse_event",
    "toast",
    "unreadable",
]
