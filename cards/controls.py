"""The buttons of a pending card, and what they send back."""

from __future__ import annotations

from assent.contracts import DecisionKind, Plan, Risk, Stage
from cards.elements import Element, beside, plain
from cards.safe import shortened
from cards.wording import Wording

VALUE_VERSION = "1"
"""The form of a button's value; a click on a card of another form is not ours."""
MOST_REASON = 500
"""Characters of a reason for rejecting."""


def controls(plan: Plan, call: str, wording: Wording, *, may_approve: bool) -> list[Element]:
    """Approve, and Reject with an optional reason."""
    rejection = _rejection(plan, wording)
    return [_approval(plan, call, wording), rejection] if may_approve else [rejection]


def _approval(plan: Plan, call: str, wording: Wording) -> Element:
    button: Element = {
        "tag": "button",
        "name": "approve",
        "type": "primary_filled",
        "width": "fill",
        "text": plain(wording("card.approve")),
        "behaviors": [_callback(plan, DecisionKind.APPROVE)],
    }
    if plan.risk is Risk.HIGH:
        button["confirm"] = {
            "title": plain(wording("card.confirm_title")),
            "text": plain(wording("card.confirm", call=shortened(call, 160))),
        }
    return button


def _rejection(plan: Plan, wording: Wording) -> Element:
    reason: Element = {
        "tag": "input",
        "name": "reason",
        "input_type": "multiline_text",
        "rows": 1,
        "auto_resize": True,
        "max_rows": 5,
        "max_length": MOST_REASON,
        "width": "fill",
        "required": False,
        "placeholder": plain(wording("card.reject_hint")),
    }
    button: Element = {
        "tag": "button",
        "name": "reject",
        "type": "danger",
        "form_action_type": "submit",
        "text": plain(wording("card.reject")),
        "behaviors": [_callback(plan, DecisionKind.REJECT)],
    }
    return {"tag": "form", "name": "rejection", "elements": [beside(reason, button)]}


def _callback(plan: Plan, kind: DecisionKind) -> Element:
    value = {
        "assent": VALUE_VERSION,
        "approval_id": plan.approval_id,
        "decision": kind.value,
        "stage": Stage.CALL.value,
        "payload_sha256": plan.payload_sha256,
    }
    return {"type": "callback", "value": value}
