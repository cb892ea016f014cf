"""The card of a result that waits: what ran, what came back, and whether the agent may have it."""

from __future__ import annotations

import re
from typing import NamedTuple

from assent.contracts.decision import DecisionKind, Stage
from assent.contracts.permission import Fallback
from assent.contracts.status import Status
from assent.masking import Mask
from assent.payload import short_hash
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened, visible
from cards.arguments import Argument, Fitted, arguments_of, names
from cards.attachments import barred, both, section
from cards.controls import bound, button, with_reason
from cards.elements import Element, box, div, local_time, markdown, panel, row
from cards.framing import Style, filled, framed, headed
from cards.headline import headline
from cards.hiding import hidden_result, readable, readable_start
from cards.paragraphs import beginning, said
from cards.people import deadline_row, named, requester_rows, reviewers_row
from cards.safe import size
from cards.showing import File, ResultShowing
from cards.wording import Both, Wording

_MOST_ROWS = 8
_RESULT_BYTES, _RESULT_LINES = 2400, 40
"""What of a result a card holds, open; a larger one is sent as a file."""
_PREVIEW_BYTES = 1200
_LAID_OUT_BYTES = 2_000_000
"""A result up to this size is laid out for people; a larger one stays as it is."""
_FILE_BYTES = 20_000_000
"""What Feishu takes as a file, with room to spare."""
_STYLES = {
    "result": Style("indigo", "indigo", "approval_outlined"),
    "released": Style("green", "green", "done_outlined"),
    "withheld": Style("grey", "red", "close_outlined"),
    "replaced": Style("grey", "neutral", "info_outlined"),
}
_TITLES = {False: "card.title_result", True: "card.title_result_reminder"}
_PREVIEWS = {False: "card.preview_result", True: "card.preview_result_reminder"}
_THEN = {Fallback.RELEASE: "card.then_release", Fallback.WITHHOLD: "card.then_withhold"}
_GROUNDS = {Status.FAILED: "carmine-50", Status.FROZEN: "violet-50"}


class _Result(NamedTuple):
    """The result as people may read it."""

    text: str
    size: int

    @property
    def fits(self) -> bool:
        is_short = self.text.count("\n") < _RESULT_LINES
        return is_short and len(beginning(self.text, _RESULT_BYTES)) == len(self.text)


def result_card(showing: ResultShowing, wording: Wording) -> str:
    """The card of a result as it stands, as card JSON 2.0."""
    draft = _Draft(hidden_result(showing), wording)
    return filled(draft.arguments, wording, draft.card, is_cut=False, most_rows=_MOST_ROWS).text


def result_overflow(showing: ResultShowing, wording: Wording) -> File | None:
    """The result as a text file, if the card cannot hold all of it."""
    found = _result(showing)
    if found is None or found.fits:
        return None
    plan = showing.plan
    tool = re.sub(r"[^A-Za-z0-9_-]+", "-", plan.tool).strip("-")[:40] or "call"
    parts = [
        both(wording("file.result_title")),
        both(wording("file.note")),
        section(wording("file.tool"), one_line(plan.tool)),
        section(wording("file.approval"), one_line(plan.approval_id)),
        section(wording("file.result_sha256"), showing.content_sha256),
        f"== {both(wording('file.result'))} ==",
        barred(visible(found.text)),
    ]
    data = ("\n\n".join(parts) + "\n").encode()
    if found.size > _FILE_BYTES:
        data += f"\n{both(wording('file.cut', size=size(found.size)))}\n".encode()
    return File(name=f"{tool}-result-{short_hash(showing.content_sha256)}.txt", data=data)


def _result(showing: ResultShowing) -> _Result | None:
    if showing.content is None or showing.content == b"null":
        return None
    mask, data = Mask.of(showing.plan), showing.content
    is_large = len(data) > _LAID_OUT_BYTES
    return _Result(readable_start(data, _FILE_BYTES, mask) if is_large else readable(data, mask), len(data))


def _state_of(showing: ResultShowing) -> str:
    if showing.outcome:
        return "withheld" if showing.outcome.withheld else "released"
    if showing.decided:
        return "withheld" if showing.decided.kind is DecisionKind.REJECT else "released"
    return "replaced" if showing.replaced else "result"


class _Draft:
    """A result's card before it is known which arguments it can hold."""

    def __init__(self, showing: ResultShowing, wording: Wording) -> None:
        self._showing = showing
        self._say = wording
        self._state = _state_of(showing)
        self._result = _result(showing)
        self.arguments: list[Argument] = arguments_of(showing.plan)

    def card(self, fitted: Fitted) -> Element:
        """The whole card with these arguments."""
        plan, say = self._showing.plan, self._say
        head = headline(plan)
        call = head.call
        is_open = self._state == "result"
        state = say(f"state.{self._state}")
        again = self._showing.reminder
        title = say(_TITLES[again], tool=head.title) if is_open else head.title
        preview = say(_PREVIEWS[again], call=call) if is_open else say("card.preview_state", call=call, state=state)
        header = headed(_STYLES[self._state], title, head.about, state, plan.risk, say)
        return framed(preview, header, self._open(fitted) if is_open else self._closed(fitted))

    def _open(self, fitted: Fitted) -> list[Element]:
        showing, say = self._showing, self._say
        ended = box([markdown(say(f"line.result_{showing.status}"))], _GROUNDS.get(showing.status, "indigo-50"))
        return [
            ended,
            *self._reported(),
            *self._returned(),
            *self._known(),
            {"tag": "hr"},
            *self._asked_for(fitted),
            {"tag": "hr"},
            reviewers_row(showing.plan, showing.progress, say),
            deadline_row(showing.deadline, say),
            div(say(_THEN[showing.plan.result_fallback]), text_color="grey"),
            *self._controls(),
        ]

    def _closed(self, fitted: Fitted) -> list[Element]:
        showing, say = self._showing, self._say
        lines = [markdown(say(f"line.{self._closing}"))]
        lines += [markdown(line, text_size="notation") for line in self._by_whom()]
        shown = [box(lines, {"released": "green-50"}.get(self._state, "grey-50"))]
        reason = showing.outcome.withheld_reason if showing.outcome else None
        reason = reason or (showing.decided.reason if showing.decided else None)
        if self._state == "withheld" and reason and showing.decided:
            shown += said("card.withheld_reason", reason, say)
        return [*shown, *self._known(), *self._asked_for(fitted)]

    @property
    def _closing(self) -> str:
        return "result_replaced" if self._state == "replaced" else f"result_{self._state}"

    def _by_whom(self) -> list[Both]:
        decided, say = self._showing.decided, self._say
        if self._state == "replaced":
            return []
        if decided:
            return [say(f"line.{self._state}_by", person=named(decided.actor), time=local_time(decided.received_at))]
        lines = [say(f"line.{self._state}_by_timeout")]
        return (
            [*lines, say("line.ended_at", time=local_time(self._showing.ended_at))] if self._showing.ended_at else lines
        )

    def _reported(self) -> list[Element]:
        error = self._showing.error
        return said("card.error", error, self._say) if error else []

    def _returned(self) -> list[Element]:
        """The result: all of it, open, or its beginning and where the rest is. Nobody releases what was not shown."""
        say, attachment = self._say, self._showing.attachment
        if self._result is None:
            return [div(say("card.no_result"), text_color="grey")]
        kept = self._result.text if self._result.fits else beginning(self._result.text, _PREVIEW_BYTES)
        inside = [div(visible(kept))]
        if len(kept) < len(self._result.text):
            inside.append(div(say("card.beginning", size=size(self._result.size)), text_color="grey"))
        shown = [panel(markdown(say("line.the_result", size=size(self._result.size))), inside, expanded=True)]
        if attachment:
            file = {"name": escaped(shortened(attachment.name, 60)), "size": f"{attachment.size:,}"}
            line = say("line.result_attached", hash=escaped(short_hash(attachment.sha256)), **file)
            shown.append(box([markdown(line)], "orange-50"))
        elif not self._result.fits:
            shown.append(box([markdown(say("line.result_not_shown"))], "orange-50"))
        return shown

    def _known(self) -> list[Element]:
        showing, say = self._showing, self._say
        return [row(say("card.result_hash"), div(short_hash(showing.content_sha256), text_color="grey"))]

    def _asked_for(self, fitted: Fitted) -> list[Element]:
        """What ran."""
        say, plan = self._say, self._showing.plan
        rows = requester_rows(plan, say)
        if self.arguments and fitted.elements:
            title = say("card.arguments", count=str(len(self.arguments)))
            rows.append(panel(markdown(title, text_size="normal"), fitted.elements))
        if fitted.missing:
            missing = names(fitted.missing, say, [])
            rows.append(box([markdown(say("line.in_conversation", names=missing))], "grey-50"))
        return [*rows, row(say("card.payload"), div(short_hash(plan.payload_sha256), text_color="grey"))]

    def _controls(self) -> list[Element]:
        showing, say = self._showing, self._say
        about = (showing.plan.approval_id, Stage.RESULT, showing.content_sha256)
        released = bound(about[0], DecisionKind.APPROVE, *about[1:])
        withheld = bound(about[0], DecisionKind.REJECT, *about[1:])
        withhold = with_reason("withhold", "withholding", withheld, say("card.withhold"), say("card.withhold_hint"))
        readable = self._result is None or self._result.fits or showing.attachment is not None
        return (
            [button("release", "primary_filled", released, say("card.release")), withhold] if readable else [withhold]
        )
