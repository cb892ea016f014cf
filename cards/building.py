"""From an approval to its card: one visual language for every state, always within Feishu's limits."""

from __future__ import annotations

from assent.contracts.manifest import Risk
from assent.payload import short_hash
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.arguments import MOST_ROWS, Argument, Fitted, arguments_of, names
from cards.controls import Editing, controls, delegation
from cards.edited import edited
from cards.editing import editing, fields_in
from cards.elements import NO_ROOM, Element, Room, box, div, link, markdown, panel, row
from cards.endings import ending, state_of
from cards.files import files_of
from cards.framing import Filled, Style, details, filled, folded_details, framed, headed
from cards.headline import headline
from cards.hiding import hidden
from cards.paragraphs import paragraph
from cards.people import (
    approvers_row,
    deadline_row,
    progress_rows,
    requester_row,
    room_for_progress,
)
from cards.safe import web_address
from cards.settled import STYLES
from cards.showing import Showing
from cards.ways import agent_runs, command_row
from cards.wording import Both, Wording

_DESCRIPTION_BYTES = 1200
_REASON_BYTES = 2400
_WARNINGS_BYTES = 2400

_PENDING = {
    Risk.LOW: Style("blue", "blue", "approval_outlined"),
    Risk.MEDIUM: Style("orange", "blue", "approval_outlined"),
    Risk.HIGH: Style("red", "blue", "approval_outlined"),
}
_STYLES = {
    **STYLES,
    "replaced": Style("grey", "neutral", "info_outlined"),
    "running": Style("wathet", "wathet", "time_outlined"),
    "reviewing": Style("indigo", "indigo", "time_outlined"),
    "denied": Style("grey", "red", "close_outlined"),
    "executed": Style("green", "green", "done_outlined"),
    "replayed": Style("green", "turquoise", "done_outlined"),
    "approved": Style("green", "green", "done_outlined"),
    "failed": Style("carmine", "carmine", "close_outlined"),
    "frozen": Style("violet", "violet", "warning_outlined"),
    "rejected": Style("grey", "red", "close_outlined"),
    "expired": Style("grey", "neutral", "time_outlined"),
    "superseded": Style("grey", "neutral", "info_outlined"),
    "cancelled": Style("grey", "neutral", "close_outlined"),
}


def card(showing: Showing, wording: Wording) -> str:
    """The card of an approval as it stands, as card JSON 2.0."""
    draft = _Draft(showing, wording, with_form=True)
    if not draft.may_be_edited:
        return _Draft(showing, wording).filled().text
    with_form = draft.filled()
    if with_form.fits and with_form.is_whole:
        return with_form.text
    built = _Draft(showing, wording).filled()
    keeps_all = with_form.fits and [each.name for each in with_form.missing] == [each.name for each in built.missing]
    return with_form.text if keeps_all else built.text


def left_out(showing: Showing, wording: Wording) -> bool:
    """Whether the card lacks a part of what was asked for, or may come to lack it."""
    return not _Draft(showing, wording).filled(room_for_progress(showing.plan)).is_whole


class _Draft:
    """A card before it is known which arguments it can hold."""

    def __init__(self, showing: Showing, wording: Wording, *, with_form: bool = False) -> None:
        showing = hidden(showing)
        plan = showing.plan
        arguments = arguments_of(plan)
        self._showing = showing
        self._say = wording
        self._with_form = with_form
        self.arguments: list[Argument] = arguments
        self._state = state_of(showing)
        self._pending = self._state == "pending"
        self._headline = headline(plan)
        self._description = paragraph(plan.description.strip().split("\n\n")[0], _DESCRIPTION_BYTES, wording, "grey")
        self._reason = paragraph(plan.request_reason or "", _REASON_BYTES, wording)
        self._warnings = paragraph("\n".join(map(_one_warning, plan.warnings)), _WARNINGS_BYTES, wording)
        self._fields = fields_in(plan, showing.parameters) if self._pending else []
        cut = {
            "line.the_warnings": self._warnings,
            "line.the_description": self._description,
            "line.the_reason": self._reason,
        }
        self.others = [wording(key) for key, part in cut.items() if part.is_cut]

    @property
    def may_be_edited(self) -> bool:
        """Whether there is an argument that a form could change."""
        return bool(self._fields)

    def filled(self, kept: Room = NO_ROOM) -> Filled:
        """The card with as many arguments as there is room for."""
        cut = bool(self.others)
        return filled(self.arguments, self._say, self.card, is_cut=cut, most_rows=MOST_ROWS, kept=kept)

    def card(self, fitted: Fitted) -> Element:
        """The whole card with these arguments."""
        state = self._say(f"state.{self._state}")
        head = self._headline
        call, about = head.call, head.about
        risk = self._showing.plan.risk
        if self._pending:
            title, preview = self._titles()
            header = headed(_PENDING[risk], self._say(title, tool=head.question), about, state, risk, self._say)
            return framed(self._say(preview, call=call), header, self._pending_body(fitted))
        header = headed(_STYLES[self._state], head.title, about, state, risk, self._say)
        return framed(self._say("card.preview_state", call=call, state=state), header, self._closed_body(fitted))

    def _titles(self) -> tuple[str, str]:
        """The names of the title's text and of the preview's."""
        if self._showing.reminder:
            return "card.title_reminder", "card.preview_reminder"
        return (
            ("card.title_edited", "card.preview_edited") if self._showing.plan.edit else ("card.title", "card.preview")
        )

    def _pending_body(self, fitted: Fitted) -> list[Element]:
        showing, plan, say = self._showing, self._showing.plan, self._say
        may_approve = self._readable(fitted)
        return [
            *self._warned(),
            *agent_runs(plan, say),
            *self._twin(),
            *([*edited(plan.edit, plan, "line.edited", say), {"tag": "hr"}] if plan.edit else []),
            *self._description.elements,
            *self._request(),
            *command_row(plan, say),
            *self._listed(fitted),
            *files_of(plan, say, with_previews=True),
            *self._notice(fitted),
            approvers_row(plan, showing.progress, say),
            *progress_rows(plan, showing.progress, say),
            deadline_row(plan.deadline, say),
            *([div(say("card.no_room_to_edit"), text_color="grey")] if may_approve and self._lacks_fields else []),
            *controls(plan, self._headline.call, say, may_approve=may_approve, editing=self._editing()),
            delegation(plan, say, details(plan, say)),
        ]

    def _warned(self) -> list[Element]:
        """What whoever decides should know of these arguments, before anything else."""
        if not self._warnings.elements:
            return []
        return [box([markdown(self._say("line.warning")), *self._warnings.elements], "red-50")]

    @property
    def _lacks_fields(self) -> bool:
        """Whether arguments could be changed, but for the room that it takes."""
        return bool(self._fields) and not self._with_form

    def _editing(self) -> Editing | None:
        """The fields in which the arguments can be changed, where there is room for them."""
        if not self._fields or not self._with_form:
            return None
        return editing(self._showing.plan, self._fields, self._say)

    def _closed_body(self, fitted: Fitted) -> list[Element]:
        count = str(len(self.arguments))
        title = markdown(self._say("card.arguments", count=count), text_size="normal")
        nothing_fits = not fitted.elements and bool(fitted.missing)
        folded = [] if nothing_fits else [panel(title, fitted.elements)] if self.arguments else self._listed(fitted)
        return [
            *ending(self._showing, self._state, self._say),
            {"tag": "hr"},
            *self._description.elements,
            *self._request(),
            *folded,
            *files_of(self._showing.plan, self._say),
            *self._notice(fitted),
            folded_details(self._showing.plan, self._say),
        ]

    def _twin(self) -> list[Element]:
        """That the very same call is frozen, and what that means for this one."""
        plan, say = self._showing.plan, self._say
        if not plan.has_frozen_twin:
            return []
        whose = say("card.twin", approval=one_line(plan.frozen_twin)) if plan.frozen_twin else say("card.others_twin")
        lines = [
            markdown(say("line.twin_retry_safe" if plan.retry_safe else "line.twin")),
            div(whose, text_color="grey"),
        ]
        found = web_address(self._showing.twin_url) if self._showing.twin_url else None
        return [box(lines, "violet-50"), *([link("twin", say("card.open_twin"), found[0])] if found else [])]

    def _request(self) -> list[Element]:
        rows = [requester_row(self._showing.plan, self._say)]
        if self._reason.elements:
            rows.append(row(self._say("card.reason"), self._reason.elements[0]))
            rows.extend(self._reason.elements[1:])
        return rows

    def _listed(self, fitted: Fitted) -> list[Element]:
        if not self.arguments:
            return [div(self._say("card.no_arguments"), text_color="grey")]
        return [{"tag": "hr"}, *fitted.elements, {"tag": "hr"}]

    def _notice(self, fitted: Fitted) -> list[Element]:
        """Where the rest can be read, and what it is."""
        attachment, say = self._showing.attachment, self._say
        lines: list[Both] = []
        if attachment:
            file = {"name": escaped(shortened(attachment.name, 60)), "size": f"{attachment.size:,}"}
            key = "line.attached" if self._pending else "line.attached_final"
            lines.append(say(key, hash=escaped(short_hash(attachment.sha256)), **file))
        if fitted.missing or self.others:
            key = "line.only_attached" if attachment else "line.not_shown" if self._pending else "line.not_shown_final"
            lines.append(say(key, names=names(fitted.missing, say, self.others)))
        return [box([markdown(line) for line in lines], "orange-50" if self._pending else "grey-50")] if lines else []

    def _readable(self, fitted: Fitted) -> bool:
        """Whether everything can be read, here or in the attached file: nobody approves what could not be."""
        return self._showing.attachment is not None or not (fitted.missing or self.others)


def _one_warning(text: str) -> str:
    return f"• {text.strip()}"
