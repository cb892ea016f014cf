"""A frame of the operator's own around our card: its header's words and colour, and elements before and after ours."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from assent.contracts.values import Frozen
from cards.elements import Element, plain, tags, to_json, weight
from cards.framing import MOST_BYTES, MOST_TAGS
from cards.wording import Both

_SHOWN = frozenset(
    (
        *("markdown", "div", "hr", "img", "column_set", "column", "plain_text", "lark_md", "standard_icon"),
        *("custom_icon", "text_tag", "person", "person_list", "table"),
    )
)
"""What only shows something: what sends something back is ours alone."""
_MOST_ELEMENTS = 20


def _showing(element: Element) -> Element:
    """Refuse what a person could press."""
    waiting: list[Any] = [element]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "behaviors" in part or "confirm" in part or part.get("tag", "div") not in _SHOWN:
                raise ValueError(f"{part.get('tag')!r} is not for a frame: it may show, and send nothing back")
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    if "tag" not in element:
        raise ValueError("an element has a tag")
    return element


_Elements = Annotated[tuple[Annotated[dict[str, Any], AfterValidator(_showing)], ...], Field(max_length=_MOST_ELEMENTS)]
_Words = Annotated[str, Field(min_length=1, max_length=200)]


class Titles(Frozen):
    """What a header says in both languages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    en: _Words
    zh: _Words


class FrameHeader(Frozen):
    """What a frame may change of a header. Where the approval stands and its risk are always said by us."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: _Words | Titles | None = None
    subtitle: _Words | Titles | None = None
    template: Annotated[str, Field(pattern=r"^[a-z]{2,20}$")] | None = None


class CardFrame(Frozen):
    """What a builder of one's own returns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    header: FrameHeader = FrameHeader()
    before: _Elements = ()
    after: _Elements = ()


def in_frame(card: str, frame: CardFrame) -> str:
    """Our card with the frame around it; without, where that would not fit: nothing of ours gives way to it."""
    whole = json.loads(card)
    header = whole["header"]
    if frame.header.title is not None:
        header["title"] = plain(_both(frame.header.title))
    if frame.header.subtitle is not None:
        header["subtitle"] = plain(_both(frame.header.subtitle))
    if frame.header.template is not None:
        header["template"] = frame.header.template
    whole["body"]["elements"] = [*frame.before, *whole["body"]["elements"], *frame.after]
    text = to_json(whole)
    return text if weight(text) <= MOST_BYTES and tags(text) <= MOST_TAGS else card


def _both(words: str | Titles) -> Both | str:
    return Both(words.en, words.zh) if isinstance(words, Titles) else words
