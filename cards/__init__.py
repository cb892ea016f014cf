"""Approvals shown as Feishu cards, and clicks read back: pure functions, no input or output of their own."""

from cards.attachments import overflow
from cards.building import card
from cards.clicks import Challenge, Click, Event, ForeignClick, parse_event
from cards.notices import settled_notice
from cards.reviews import review_card
from cards.rulings import RulingClick, UnfitRuling
from cards.showing import Attachment, File, ReviewShowing, Showing
from cards.toasts import Toast, not_in_time, not_recorded, refused_ruling, ruled_toast, toast, unreadable
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
    "ReviewShowing",
    "RulingClick",
    "Showing",
    "Toast",
    "UnfitRuling",
    "Verifier",
    "Wording",
    "card",
    "not_in_time",
    "not_recorded",
    "overflow",
    "parse_event",
    "refused_ruling",
    "review_card",
    "ruled_toast",
    "settled_notice",
    "toast",
    "unreadable",
]
