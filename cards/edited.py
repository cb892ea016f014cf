"""What somebody changed in a call: from what to what, and by whom."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from assent.contracts.plan import Edit, Plan
from assent.masking import MASK
from assent.payload import argument_values, short_hash
from assent.reading import written
from assent.safe import visible
from cards.arguments import in_markdown, label_of
from cards.elements import Element, box, div, markdown, row
from cards.paragraphs import beginning
from cards.people import named
from cards.safe import fitting
from cards.wording import Both, Wording

_MOST_CHANGES = 6
_SIDE_BYTES = 200
_NAME_BYTES = 120


class _Change(NamedTuple):
    name: str
    before: str
    after: str


def edited(edit: Edit, plan: Plan, line: str, wording: Wording) -> list[Element]:
    """Who changed it, each argument before and after, and both hashes.

    plan: what it is a part of.
    line: the name of the sentence that says what this means.
    """
    changes = _changes(edit, plan)
    rows = [
        row(_label(change.name, plan), div(f"{change.before} → {change.after}")) for change in changes[:_MOST_CHANGES]
    ]
    if hidden := len(changes) - _MOST_CHANGES:
        rows += [div(wording("card.more_changes", count=str(hidden)), text_color="grey")] if hidden > 0 else []
    hashes = f"{short_hash(edit.proposed_payload_sha256)} → {short_hash(edit.payload_sha256)}"
    return [
        box([markdown(wording(line, person=named(edit.by)))], "yellow-50"),
        *rows,
        row(wording("card.payloads"), div(hashes, text_color="grey")),
    ]


def _label(name: str, plan: Plan) -> Both:
    return in_markdown(Both(*(fitting(each, _NAME_BYTES) for each in label_of(name, plan))))


def _changes(edit: Edit, plan: Plan) -> list[_Change]:
    before, after = (argument_values(text) for text in (edit.proposed_payload, edit.payload))
    names = plan.presentation.sorted({**before, **after})
    return [
        _Change(name, _side(before, name, plan), _side(after, name, plan))
        for name in names
        if name not in before or name not in after or json.dumps(before[name]) != json.dumps(after[name])
    ]


def _side(arguments: dict[str, Any], name: str, plan: Plan) -> str:
    if name not in arguments:
        return "–"
    if name in plan.sensitive:
        return MASK
    text = written(arguments[name], is_decimal=name in plan.presentation.decimals)
    kept = beginning(text, _SIDE_BYTES)
    return visible(kept) if len(kept) == len(text) else f"{visible(kept)}…"
