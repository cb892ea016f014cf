"""Approvals shown as Feishu cards, and clicks read back: pure functions, no input or output of their own."""

from cards.answers import AnswerClick, answer_toast
from cards.attachments import overflow
from cards.building import card
from cards.bundles import BundledCall, bundle_card, may_be_bundled, shares
from cards.clicks import BundleClick, Challenge, Click, Event, ForeignClick, RevokeClick, parse_event
from cards.notices import settled_notice
from cards.questions import QuestionShowing, can_be_shown, question_card
from cards.results import result_card, result_overflow
from cards.reviews import review_card
from cards.rulings import RulingClick, UnfitRuling
from cards.runs import run_card
from cards.showing import Attachment, File, ResultShowing, ReviewShowing, Showing
from cards.toasts import (
    Toast,
    bundle_toast,
    not_in_time,
    not_recorded,
    refused_ruling,
    revoked_toast,
    ruled_toast,
    toast,
    unreadable,
)
from cards.wording import Wording

__all__ = [
    "AnswerClick",
    "Attachment",
    "BundleClick",
    "BundledCall",
    "Challenge",
    "Click",
    "Event",
    "File",
    "ForeignClick",
    "QuestionShowing",
    "ResultShowing",
    "ReviewShowing",
    "RevokeClick",
    "RulingClick",
    "Showing",
    "Toast",
    "UnfitRuling",
    "Wording",
    "answer_toast",
    "bundle_card",
    "bundle_toast",
    "can_be_shown",
    "card",
    "may_be_bundled",
    "shares",
    "not_in_time",
    "not_recorded",
    "overflow",
    "parse_event",
    "question_card",
    "refused_ruling",
    "result_card",
    "result_overflow",
    "review_card",
    "revoked_toast",
    "ruled_toast",
    "run_card",
    "settled_notice",
    "toast",
    "unreadable",
]
