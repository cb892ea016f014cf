"""From an approval to its card: one visual language for every state, always within Feishu's limits."""

from __future__ import annotations

from typing import NamedTuple

from assent.contracts import Risk
from cards.arguments import Argument, Fitted, arguments_of, fit, names, target
from cards.controls import controls
from cards.elements import Element, box, div, markdown, panel, plain, row, summary, tags, to_json, weight
from cards.endings import ending, state_of
from cards.paragraphs import paragraph
from cards.people import approvers_row, deadline_row, requester_rows
from cards.safe import markdown as escaped
from cards.safe import one_line, shortened
from cards.showing import Showing
from cards.wording import Both, Wording

MOST_BYTES = 28_000
"""Of the 30 KB that Feishu takes, counted as the card travels: a string within the request."""
MOST_TAGS = 190
"""Of the 200 elements."""
_TOOL_CHARACTERS = 200
_DESCRIPTION_BYTES = 1200
_REASON_BYTES = 2400
_NOTICE_BYTES = 5000
"""Room that the notice of missing arguments takes at most."""
_NOTICE_TAGS = 8


class Style(NamedTuple):
    """How a state looks."""

    template: str
    tag: str
    icon: str


_PENDING = {
    Risk.LOW: Style("blue", "blue", "approval_outlined"),
    Risk.MEDIUM: Style("orange", "blue", "approval_outlined"),
    Risk.HIGH: Style("red", "blue", "approval_outlined"),
}
_STYLES = {
    "replaced": Style("grey", "neutral", "info_outlined"),
    "running": Style("wathet", "wathet", "time_outlined"),
    "executed": Style("green", "green", "done_outlined"),
    "replayed": Style("green", "turquoise", "done_outlined"),
    "failed": Style("carmine", "carmine", "close_outlined"),
    "frozen": Style("violet", "violet", "warning_outlined"),
    "rejected": Style("grey", "red", "close_outlined"),
    "expired": Style("grey", "neutral", "time_outlined"),
    "superseded": Style("grey", "neutral", "info_outlined"),
    "cancelled": Style("grey", "neutral", "close_outlined"),
}
_RISK_COLORS = {Risk.LOW: "green", Risk.MEDIUM: "orange", Risk.HIGH: "red"}


def card(showing: Showing, wording: Wording) -> str:
    """The card of an approval as it stands, as card JSON 2.0."""
    text, _ = _built(showing, wording)
    return text


def left_out(showing: Showing, wording: Wording) -> bool:
    """Whether the card lacks a part of what was asked for."""
    _, missing = _built(showing, wording)
    return missing


def _built(showing: Showing, wording: Wording) -> tuple[str, bool]:
    draft = _Draft(showing, wording, arguments_of(showing.plan))
    if not draft.others and (text := draft.whole()) is not None:
        return text, False
    return to_json(draft.with_arguments(draft.fitted())), True


class _Draft:
    """A card before it is known which arguments it can hold."""

    def __init__(self, showing: Showing, wording: Wording, arguments: list[Argument]) -> None:
        plan = showing.plan
        self._showing = showing
        self._say = wording
        self._arguments = arguments
        self._state = state_of(showing)
        self._pending = self._state == "pending"
        self._tool = shortened(one_line(plan.tool), _TOOL_CHARACTERS)
        self._call = " · ".join(filter(None, (self._tool, target(arguments))))
        self._description = paragraph(plan.description.strip().split("\n\n")[0], _DESCRIPTION_BYTES, wording, "grey")
        self._reason = paragraph(plan.request_reason or "", _REASON_BYTES, wording)
        cut = {"line.the_description": self._description, "line.the_reason": self._reason}
        self.others = [wording(key) for key, part in cut.items() if part.is_cut]

    def whole(self) -> str | None:
        """The card with every argument, if that is not too much."""
        fitted = fit(self._arguments, self._say, most_bytes=MOST_BYTES, most_tags=MOST_TAGS)
        if fitted.missing:
            return None
        text = to_json(self.with_arguments(fitted))
        return text if weight(text) <= MOST_BYTES and tags(text) <= MOST_TAGS else None

    def fitted(self) -> Fitted:
        """The arguments that fit beside everything else and the notice of what is missing."""
        without = to_json(self.with_arguments(Fitted([], [])))
        return fit(
            self._arguments,
            self._say,
            most_bytes=MOST_BYTES - _NOTICE_BYTES - weight(without),
            most_tags=MOST_TAGS - _NOTICE_TAGS - tags(without),
        )

    def with_arguments(self, fitted: Fitted) -> Element:
        """The whole card."""
        body = self._pending_body(fitted) if self._pending else self._closed_body(fitted)
        preview = "card.preview" if self._pending else "card.preview_state"
        named = {} if self._pending else {"state": self._say(f"state.{self._state}")}
        return {
            "schema": "2.0",
            "config": {
                "update_multi": True,
                "enable_forward": False,
                "summary": summary(self._say(preview, call=shortened(self._call, 120), **named)),
            },
            "header": self._header(),
            "body": {"vertical_spacing": "8px", "elements": body},
        }

    def _header(self) -> Element:
        plan = self._showing.plan
        style = _PENDING[plan.risk] if self._pending else _STYLES[self._state]
        header: Element = {
            "template": style.template,
            "icon": {"tag": "standard_icon", "token": style.icon},
            "title": plain(self._say("card.title", tool=self._tool) if self._pending else self._tool),
            "text_tag_list": [
                _tag(self._say(f"state.{self._state}"), style.tag),
                _tag(self._say(f"risk.{plan.risk}"), _RISK_COLORS[plan.risk]),
            ],
        }
        if about := target(self._arguments):
            header["subtitle"] = plain(about)
        return header

    def _pending_body(self, fitted: Fitted) -> list[Element]:
        plan, say = self._showing.plan, self._say
        return [
            *self._description.elements,
            *self._request(),
            *self._listed(fitted),
            *self._notice(fitted),
            {"tag": "hr"},
            *approvers_row(plan, say),
            deadline_row(plan, say),
            self._fingerprint(),
            *controls(plan, self._call, say, may_approve=self._readable(fitted)),
        ]

    def _closed_body(self, fitted: Fitted) -> list[Element]:
        count = str(len(self._arguments))
        title = markdown(self._say("card.arguments", count=count), text_size="normal")
        nothing_fits = not fitted.elements and bool(fitted.missing)
        folded = [] if nothing_fits else [panel(title, fitted.elements)] if self._arguments else self._listed(fitted)
        return [
            *ending(self._showing, self._state, self._say),
            {"tag": "hr"},
            *self._description.elements,
            *self._request(),
            *folded,
            *self._notice(fitted),
            self._fingerprint(),
        ]

    def _request(self) -> list[Element]:
        rows = requester_rows(self._showing.plan, self._say)
        if self._reason.elements:
            rows.append(row(self._say("card.reason"), self._reason.elements[0]))
            rows.extend(self._reason.elements[1:])
        return rows

    def _listed(self, fitted: Fitted) -> list[Element]:
        if not self._arguments:
            return [div(self._say("card.no_arguments"), text_color="grey")]
        count = str(len(self._arguments))
        return [
            {"tag": "hr"},
            markdown(self._say("card.arguments", count=count), text_size="notation"),
            *fitted.elements,
        ]

    def _notice(self, fitted: Fitted) -> list[Element]:
        """Where the rest can be read, and what it is."""
        attachment, say = self._showing.attachment, self._say
        lines: list[Both] = []
        if attachment:
            file = {"name": escaped(shortened(attachment.name, 60)), "size": f"{attachment.size:,}"}
            key = "line.attached" if self._pending else "line.attached_final"
            lines.append(say(key, hash=escaped(attachment.sha256[:12]), **file))
        if fitted.missing or self.others:
            key = "line.only_attached" if attachment else "line.not_shown" if self._pending else "line.not_shown_final"
            lines.append(say(key, names=names(fitted.missing, say, self.others)))
        return [box([markdown(line) for line in lines], "orange-50" if self._pending else "grey-50")] if lines else []

    def _readable(self, fitted: Fitted) -> bool:
        """Whether everything can be read, here or in the attached file: nobody approves what could not be."""
        return self._showing.attachment is not None or not (fitted.missing or self.others)

    def _fingerprint(self) -> Element:
        return row(self._say("card.payload"), div(self._showing.plan.payload_sha256[:12], text_color="grey"))


def _tag(text: Both, color: str) -> Element:
    return {"tag": "text_tag", "text": plain(text), "color": color}
