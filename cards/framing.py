"""What every card has: its frame, a header in the colour of its state, and the arguments as far as there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.payload import short_hash
from assent.safe import one_line, shortened
from cards.arguments import Argument, Fitted, fit
from cards.elements import (
    NO_ROOM,
    RISK_COLORS,
    Element,
    Room,
    div,
    markdown,
    panel,
    plain,
    row,
    summary,
    tags,
    to_json,
    weight,
)
from cards.people import rule_of
from cards.wording import Both, Wording

MOST_BYTES = 28_000
"""Of the 30 KB that Feishu takes, counted as the card travels: a string within the request."""
MOST_TAGS = 190
"""Of the 200 elements."""
TOOL_CHARACTERS = 200
"""How much of a tool's name stands in a header."""
_DETAIL_CHARACTERS = 200
_NOTICE_BYTES = 5000
"""Room that the notice of missing arguments takes at most."""
_NOTICE_TAGS = 8


class Filled(NamedTuple):
    """A card with as many arguments as there was room for."""

    text: str
    missing: list[Argument]
    is_whole: bool
    """Whether nothing of the call is missing."""

    @property
    def fits(self) -> bool:
        return weight(self.text) <= MOST_BYTES and tags(self.text) <= MOST_TAGS


class Style(NamedTuple):
    """How a state looks."""

    template: str
    tag: str
    icon: str


def framed(preview: Both, header: Element, elements: list[Element]) -> Element:
    """A whole card."""
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "enable_forward": False, "summary": summary(preview)},
        "header": header,
        "body": {"vertical_spacing": "8px", "elements": elements},
    }


def headed(style: Style, title: str | Both, about: Both, state: Both, risk: Risk, wording: Wording) -> Element:
    """The header: what it is, what it is about, where it stands and how much harm it can do."""
    header: Element = {
        "template": style.template,
        "icon": {"tag": "standard_icon", "token": style.icon},
        "title": plain(title),
        "text_tag_list": [_tag(state, style.tag), _tag(wording(f"risk.{risk}"), RISK_COLORS[risk])],
    }
    if about.en or about.zh:
        header["subtitle"] = plain(about)
    return header


def _tag(text: Both, color: str) -> Element:
    return {"tag": "text_tag", "text": plain(text), "color": color}


def fingerprint(plan: Plan, wording: Wording) -> Element:
    """The short hash of the payload."""
    return row(wording("card.payload"), div(short_hash(plan.payload_sha256), text_color="grey"))


def details(plan: Plan, wording: Wording) -> Element:
    """What few look at: the agent, the tool's own name, the rule that says who decides, the payload's hash."""
    known = {
        "card.through": shortened(one_line(plan.asked_by), _DETAIL_CHARACTERS) if plan.asked_by else "",
        "card.tool": shortened(one_line(plan.tool), _DETAIL_CHARACTERS) if plan.presentation.title else "",
        "card.rule": rule_of(plan),
        "card.payload": short_hash(plan.payload_sha256),
    }
    lines = [wording("card.detail", label=wording(key), value=value) for key, value in known.items() if value]
    text = Both("\n".join(each.en for each in lines), "\n".join(each.zh for each in lines))
    return div(text, text_color="grey")


def folded_details(plan: Plan, wording: Wording) -> Element:
    """The same, folded."""
    return panel(markdown(wording("card.details"), text_size="normal"), [details(plan, wording)])


def has_room(without: Element) -> bool:
    """Whether a card that has no arguments yet can also say which of them are missing."""
    text = to_json(without)
    return weight(text) <= MOST_BYTES - _NOTICE_BYTES and tags(text) <= MOST_TAGS - _NOTICE_TAGS


def filled(
    arguments: list[Argument],
    wording: Wording,
    made: Callable[[Fitted], Element],
    *,
    is_cut: bool,
    most_rows: int,
    kept: Room = NO_ROOM,
) -> Filled:
    """The card with every argument, or with those that fit.

    made: the whole card, given its arguments.
    is_cut: whether something else of the call is missing anyway.
    kept: what is kept free for what the card may have to say later.
    """
    most_bytes, most_tags = MOST_BYTES - kept.bytes, MOST_TAGS - kept.tags
    every = fit(arguments, wording, most_bytes=most_bytes, most_tags=most_tags, most_rows=most_rows)
    if not is_cut and not every.missing:
        text = to_json(made(every))
        if weight(text) <= most_bytes and tags(text) <= most_tags:
            return Filled(text, [], True)
    without = to_json(made(Fitted([], [])))
    some = fit(
        arguments,
        wording,
        most_bytes=most_bytes - _NOTICE_BYTES - weight(without),
        most_tags=most_tags - _NOTICE_TAGS - tags(without),
        most_rows=most_rows,
    )
    return Filled(to_json(made(some)), some.missing, False)
