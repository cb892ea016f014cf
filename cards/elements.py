"""The pieces of a Feishu card in JSON 2.0, in the documented form, and what they weigh."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from assent.contracts.manifest import Risk
from assent.safe import markdown as escaped
from cards.wording import Both

RISK_COLORS = {Risk.LOW: "green", Risk.MEDIUM: "orange", Risk.HIGH: "red"}
Element = dict[str, Any]
"""One object of the card's JSON."""


class Room(NamedTuple):
    """A part of what a card holds."""

    bytes: int
    tags: int


NO_ROOM = Room(0, 0)

to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""The compact JSON of a card or a part of it."""


def weight(text: str) -> int:
    """How many bytes a card's JSON takes within a request, where it travels as a string."""
    return len(text.encode()) + text.count('"') + text.count("\\")


def tags(text: str) -> int:
    """How many elements there are in a card's JSON: every object with a tag counts.

    Within a string the second quotation mark would stand behind a backslash.
    """
    return text.count('"tag":')


def plain(text: str | Both, **style: str) -> Element:
    """Text in which nothing is markup: the place for whatever others wrote."""
    return {"tag": "plain_text", **_content(text), **style}


def markdown(text: str | Both, **style: str) -> Element:
    """Text in which markup counts: our own words, and others' only as entities."""
    return {"tag": "markdown", **_content(text), **style}


def _content(text: str | Both) -> Element:
    if isinstance(text, str):
        return {"content": text}
    if text.en == text.zh:
        return {"content": text.en}
    return {"content": text.en, "i18n_content": {"zh_cn": text.zh, "en_us": text.en}}


def summary(text: Both) -> Element:
    """What the list of chats and a push notification show."""
    return _content(text)


def div(text: str | Both, **style: str) -> Element:
    """A paragraph of plain text."""
    return {"tag": "div", "text": plain(text, **style)}


def bold(text: str | Both) -> str | Both:
    """Markdown in bold."""
    return f"**{text}**" if isinstance(text, str) else Both(f"**{text.en}**", f"**{text.zh}**")


def row(label: str | Both, *values: Element) -> Element:
    """A label in markdown, and beside it what it is about."""
    return {
        "tag": "column_set",
        "horizontal_spacing": "medium",
        "columns": [_column(2, [markdown(bold(label))]), _column(5, list(values))],
    }


def box(elements: list[Element], color: str) -> Element:
    """Elements on a coloured ground."""
    column = {"tag": "column", "width": "weighted", "weight": 1, "padding": "8px 12px", "vertical_spacing": "4px"}
    return {"tag": "column_set", "background_style": color, "columns": [{**column, "elements": elements}]}


def beside(wide: Element, narrow: Element) -> Element:
    """Two elements on one line, the first of which takes the room that is left."""
    auto = {"tag": "column", "width": "auto", "vertical_align": "top", "elements": [narrow]}
    return {"tag": "column_set", "columns": [_column(1, [wide]), auto]}


def in_a_row(elements: list[Element]) -> Element:
    """Small elements on one line, or on several where that is too narrow."""
    columns = [{"tag": "column", "width": "auto", "elements": [each]} for each in elements]
    return {"tag": "column_set", "flex_mode": "flow", "horizontal_spacing": "8px", "columns": columns}


def _column(share: int, elements: list[Element]) -> Element:
    return {"tag": "column", "width": "weighted", "weight": share, "elements": elements}


def panel(title: Element, elements: list[Element], *, expanded: bool = False) -> Element:
    """Elements under a title, folded unless they are *expanded*."""
    return {
        "tag": "collapsible_panel",
        "expanded": expanded,
        "header": {
            "title": title,
            "icon": {"tag": "standard_icon", "token": "down-small-ccm_outlined", "size": "16px 16px"},
            "icon_position": "follow_text",
            "icon_expanded_angle": -180,
        },
        "border": {"color": "grey", "corner_radius": "6px"},
        "padding": "8px",
        "elements": elements,
    }


def link(name: str, text: Both, address: str, kind: str = "default") -> Element:
    """A button that opens an address which is known to be a plain one."""
    return {
        "tag": "button",
        "name": name,
        "type": kind,
        "text": plain(text),
        "behaviors": [{"type": "open_url", "default_url": address}],
    }


def tag(text: Both, color: str) -> Both:
    """A small coloured label, as markdown."""
    return Both(*(f"<text_tag color='{color}'>{escaped(each)}</text_tag>" for each in text))


def local_time(moment: datetime) -> str:
    """A moment in the reader's own time, as markdown."""
    at = int(moment.timestamp() * 1000)
    return " ".join(
        f"<local_datetime millisecond='{at}' format_type='{form}'></local_datetime>" for form in ("date_num", "time")
    )


def person(identifier: str) -> str:
    """A person by name and picture, as markdown; nobody is notified."""
    return f"<person id='{identifier}' show_name=true show_avatar=true style='normal'></person>"


def mention(identifier: str) -> str:
    """A person who is notified, as markdown."""
    return f"<at id={identifier}></at>"
