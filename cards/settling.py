"""The form by which an operator settles a frozen call, and what it sends back."""

from __future__ import annotations

from typing import NamedTuple

from assent.contracts.review import Examined, FrozenCall
from assent.contracts.ruling import RulingKind
from assent.payload import SHORT_HASH
from cards.controls import MOST_REASON, VALUE_VERSION
from cards.elements import Element, in_a_row, plain
from cards.wording import Both, Wording

MOST_CONTENT = 1000
"""Characters of a result that a person writes down; Feishu takes no more."""


class _Button(NamedTuple):
    """The texts and the look of one way to settle."""

    look: str
    label: str
    title: str
    meaning: str


_BUTTONS = {
    RulingKind.EXECUTED: _Button(
        "primary", "card.settle_executed", "card.settle_executed_title", "card.settle_executed_meaning"
    ),
    RulingKind.NOT_EXECUTED: _Button(
        "danger", "card.settle_not_executed", "card.settle_not_executed_title", "card.settle_not_executed_meaning"
    ),
    RulingKind.RETRY: _Button("default", "card.settle_retry", "card.settle_retry_title", "card.settle_retry_meaning"),
}


def settling(frozen: FrozenCall, examined: Examined, call: Both, wording: Wording) -> Element:
    """Executed, not executed or once more; each asks why, and asks back what is meant.

    call: the call in a line, for who is asked back.
    """
    retry = examined.may_retry(frozen)
    kinds = [kind for kind in RulingKind if retry or kind is not RulingKind.RETRY]
    inputs = [
        _input("reason", wording("card.settle_reason"), most=MOST_REASON, required=True),
        _input("content", wording("card.settle_content"), most=MOST_CONTENT),
    ]
    if retry:
        inputs.append(_hash(wording))
    buttons = [_button(kind, frozen, examined, call, wording) for kind in kinds]
    return {"tag": "form", "name": "settling", "elements": [*inputs, in_a_row(buttons)]}


def _input(name: str, label: Both, *, most: int, required: bool = False) -> Element:
    return {
        "tag": "input",
        "name": name,
        "input_type": "multiline_text",
        "rows": 2,
        "auto_resize": True,
        "max_rows": 8,
        "max_length": most,
        "width": "fill",
        "required": required,
        "label": plain(label),
        "label_position": "top",
    }


def _hash(wording: Wording) -> Element:
    return {
        "tag": "input",
        "name": "payload_hash",
        "max_length": 64,
        "width": "fill",
        "required": False,
        "label": plain(wording("card.settle_hash", count=str(SHORT_HASH))),
        "label_position": "top",
    }


def _button(kind: RulingKind, frozen: FrozenCall, examined: Examined, call: Both, wording: Wording) -> Element:
    button = _BUTTONS[kind]
    value = {
        "assent": VALUE_VERSION,
        "review": frozen.call.approval_id,
        "ruling": kind.value,
        "payload_sha256": frozen.call.payload_sha256,
        "retries": examined.retries,
    }
    return {
        "tag": "button",
        "name": kind.value,
        "type": button.look,
        "form_action_type": "submit",
        "text": plain(wording(button.label)),
        "confirm": {"title": plain(wording(button.title)), "text": plain(wording(button.meaning, call=call))},
        "behaviors": [{"type": "callback", "value": value}],
    }
