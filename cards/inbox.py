"""The bot's answer to "what awaits me": one card that lists it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assent.contracts.asking import QuestionPlan
from assent.contracts.decision import Stage
from assent.contracts.plan import Plan
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.elements import Element, box, div, local_time, markdown, plain, row, to_json
from cards.framing import framed
from cards.headline import cut, headline
from cards.people import named
from cards.safe import web_address
from cards.wording import Both, Wording

MOST_LISTED = 10
"""How many are listed: a person reads no more, and a card holds no more elements."""
_TOOL_CHARACTERS, _CHAT_CHARACTERS, _LONGEST_LINK = 60, 40, 120


class Place(NamedTuple):
    """Where a card is."""

    chat: str
    """What the chat is called."""
    url: str | None
    """What opens it."""


class Waiting(NamedTuple):
    """Something that waits for a person."""

    plan: Plan
    stage: Stage
    """Whether the call waits, or its result."""
    place: Place | None = None
    """Where its card is, unless it is in the chat that is answered."""


def inbox_card(waiting: Sequence[Waiting | QuestionPlan], more: int, wording: Wording) -> str:
    """What waits for whoever asked, as card JSON 2.0.

    more: how many wait besides those.
    """
    count = str(len(waiting) + more)
    said = wording("inbox.waiting", count=count) if waiting else wording("inbox.nothing")
    elements: list[Element] = [
        _asked(each, wording) if isinstance(each, QuestionPlan) else _listed(each, wording) for each in waiting
    ]
    if more:
        elements.append(div(wording("inbox.more", count=str(more)), text_color="grey"))
    elements.append(div(wording("inbox.where" if waiting else "inbox.idle"), text_color="grey"))
    return to_json(framed(said, _header(said, is_empty=not waiting), elements))


def _header(said: Both, *, is_empty: bool) -> Element:
    icon = {"tag": "standard_icon", "token": "done_outlined" if is_empty else "approval_outlined"}
    return {"template": "green" if is_empty else "blue", "icon": icon, "title": plain(said)}


def _asked(plan: QuestionPlan, wording: Wording) -> Element:
    """What is asked, on whose behalf and until when."""
    rows = [
        div(wording("inbox.question"), text_color="turquoise"),
        div(shortened(one_line(plan.questions[0].prompt), _TOOL_CHARACTERS)),
        row(wording("question.for"), markdown(named(plan.requester))),
        row(wording("question.deadline"), markdown(local_time(plan.deadline))),
    ]
    return box(rows, "turquoise-50")


def _listed(waiting: Waiting, wording: Wording) -> Element:
    """What would run, who asks for it and until when."""
    plan = waiting.plan
    head = headline(plan)
    title, about = cut(head.title, _TOOL_CHARACTERS), head.about
    what = wording("inbox.result", call=title) if waiting.stage is Stage.RESULT else title
    rows = [div(what), *([div(about, text_color="grey")] if about.en else [])]
    person = named(plan.requester)
    if waiting.stage is Stage.CALL:
        rows.append(markdown(wording("inbox.asked_until", person=person, time=local_time(plan.deadline))))
    else:
        rows.append(markdown(wording("inbox.asked", person=person)))
    if waiting.place is not None:
        rows.append(markdown(wording("inbox.in_chat", chat=_linked(waiting.place))))
    rows.append(div(wording(f"risk.{plan.risk}"), text_color="grey"))
    return box(rows, "grey-50")


def _linked(place: Place) -> str:
    """A chat by its name, which opens it where an address does."""
    name = escaped(shortened(one_line(place.chat), _CHAT_CHARACTERS))
    found = web_address(place.url) if place.url else None
    return f"[{name}]({found[0]})" if found and len(found[0]) <= _LONGEST_LINK else name
