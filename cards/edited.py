"""What somebody changed in a call: from what to what, and by whom."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from assent.contracts.plan import Edit
from assent.masking import MASK
from assent.payload import argument_values, short_hash
from assent.safe import visible
from cards.arguments import as_markdown, written
from cards.elements import Element, box, div, markdown, row
from cards.paragraphs import beginning
from cards.people import named
from cards.safe import fitting
from cards.wording import Wording

_MOST_CHANGES = 6
_SIDE_BYTES = 200
_NAME_BYTES = 120


class _Change(NamedTuple):
    name: str
    before: str
    after: str


def edited(edit: Edit, sensitive: tuple[str, ...], line: str, wording: Wording) -> list[Element]:
    """Who changed it, each argument before and after, and both hashes.

    line: the name of the sentence that says what this means.
    """
    changes = _changes(edit, sensitive)
    rows = [
        row(as_markdown(fitting(change.name, _NAME_BYTES)), div(f"{change.before} → {change.after}"))
        for change in changes[:_MOST_CHANGES]
    ]
    if hidden := len(changes) - _MOST_CHANGES:
        rows += [div(wording("card.more_changes", count=str(hidden)), text_color="grey")] if hidden > 0 else []
    hashes = f"{short_hash(edit.proposed_payload_sha256)} → {short_hash(edit.payload_sha256)}"
    return [
        box([markdown(wording(line, person=named(edit.by)))], "yellow-50"),
        *rows,
        row(wording("card.payloads"), div(hashes, text_color="grey")),
    ]


def _changes(edit: Edit, sensitive: tuple[str, ...]) -> list[_Change]:
    before, after = (argument_values(text) for text in (edit.proposed_payload, edit.payload))
    names = [*before, *(name for name in after if name not in before)]
    return [
        _Change(name, _side(before, name, sensitive), _side(after, name, sensitive))
        for name in names
        if name not in before or name not in after or json.dumps(before[name]) != json.dumps(after[name])
    ]


def _side(arguments: dict[str, Any], name: str, sensitive: tuple[str, ...]) -> str:
    if name not in arguments:
        return "–"
    if name in sensitive:
        return MASK
    text = written(arguments[name])
    kept = beginning(text, _SIDE_BYTES)
    return visible(kept) if len(kept) == len(text) else f"{visible(kept)}…"
