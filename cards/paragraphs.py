"""Long texts of others, cut only with a word about how much is missing."""

from __future__ import annotations

from typing import NamedTuple

from cards.elements import Element, div, to_json, weight
from cards.safe import visible
from cards.wording import Both, Wording


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


def beginning(text: str, most_bytes: int) -> str:
    """As much of the start of a text as *most_bytes* of a card hold."""
    kept = text[:most_bytes]
    while kept and weight(to_json(visible(kept))) > most_bytes:
        kept = kept[: len(kept) * 2 // 3]
    return kept


def _colored(text: str | Both, color: str) -> Element:
    return div(text) if color == "default" else div(text, text_color=color)
