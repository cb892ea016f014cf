"""Long texts of others, cut only with a word about how much is missing."""

from __future__ import annotations

from typing import Any, NamedTuple

from assent.reading import written
from assent.safe import visible
from cards.elements import Element, div, row, to_json, weight
from cards.reasons import reason_of
from cards.safe import size
from cards.wording import Both, Wording

_RESULT_BYTES = 900
_SAID_BYTES = 1600


class Paragraph(NamedTuple):
    """A text as elements of a card."""

    elements: list[Element]
    is_cut: bool


def paragraph(text: str, most_bytes: int, wording: Wording, color: str = "default") -> Paragraph:
    """A text, or as much of it as *most_bytes* hold and how many characters more there are."""
    if not text:
        return Paragraph([], False)
    kept = beginning(text, most_bytes)
    if len(kept) == len(text):
        return Paragraph([_colored(visible(text), color)], False)
    note = wording("card.cut", count=f"{len(text) - len(kept):,}")
    return Paragraph([_colored(visible(kept), color), div(note, text_color="grey")], True)


def reason(text: str, most_bytes: int, wording: Wording, color: str = "default") -> list[Element]:
    """What was given as a reason; the service's own words in the reader's language."""
    both = reason_of(text, wording)
    if both == (text, text):
        return paragraph(text, most_bytes, wording, color).elements
    return [_colored(Both(*(visible(beginning(each, most_bytes)) for each in both)), color)]


def said(label: str, text: str, wording: Wording, most_bytes: int = _SAID_BYTES) -> list[Element]:
    """Somebody's words beside the label of this name; the service's own in the reader's language."""
    first, *more = reason(text, most_bytes, wording) or [div('""')]
    return [row(wording(label), first), *more]


def result(content: Any, wording: Wording, *, truncated: bool, whole: int | None = None) -> list[Element]:
    """The beginning of what a call returned, with a word about its size where that is not all.

    whole: how many bytes there are in all, where *content* is not the whole and that is known.
    """
    text = written(content)
    kept = beginning(text, _RESULT_BYTES)
    shown = [row(wording("card.result"), div(visible(kept)))]
    if whole is None and truncated:
        shown.append(div(wording("card.truncated"), text_color="grey"))
    elif truncated or len(kept) < len(text):
        shown.append(div(wording("card.beginning", size=size(whole or len(text.encode()))), text_color="grey"))
    return shown


def beginning(text: str, most_bytes: int) -> str:
    """As much of the start of a text as *most_bytes* of a card hold."""
    kept = text[:most_bytes]
    while kept and weight(to_json(visible(kept))) > most_bytes:
        kept = kept[: len(kept) * 2 // 3]
    return kept


def _colored(text: str | Both, color: str) -> Element:
    return div(text) if color == "default" else div(text, text_color=color)
