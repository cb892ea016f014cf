"""The operators' card: a call that may have happened, all that is known of it, and the way to settle it."""

from __future__ import annotations

from itertools import accumulate

from assent.safe import one_line, shortened
from cards.arguments import Argument, Fitted, arguments_of, names
from cards.attempts import AMPLE, TIGHT, Room, late_truths, reported
from cards.elements import Element, box, div, link, local_time, markdown, panel, row, weight
from cards.framing import Style, filled, fingerprint, framed, has_room, headed
from cards.headline import headline
from cards.hiding import hidden_review
from cards.paragraphs import paragraph
from cards.people import mentions, named, requester_rows
from cards.safe import web_address
from cards.settled import STYLES, settled, settled_state
from cards.settling import settling
from cards.showing import ReviewShowing
from cards.wording import Both, Wording

_MOST_ROWS = 8
"""Arguments beyond these are shown together: there is more to say here than on an approval's card."""
_JOINED_BYTES = 600
_OPERATORS_BYTES = 900
_KEY_CHARACTERS = 400
_STYLES = {
    **STYLES,
    "frozen": Style("purple", "purple", "warning_outlined"),
    "replaced": Style("grey", "neutral", "info_outlined"),
}


def review_card(showing: ReviewShowing, wording: Wording) -> str:
    """The card of a frozen review as it stands, as card JSON 2.0."""
    showing = hidden_review(showing)
    arguments = arguments_of(showing.plan)
    draft = _Draft(showing, wording, arguments, AMPLE)
    if not has_room(draft.card(Fitted([], []))):
        draft = _Draft(showing, wording, arguments, TIGHT)
    return filled(draft.arguments, wording, draft.card, is_cut=bool(draft.others), most_rows=_MOST_ROWS).text


class _Draft:
    """A review's card before it is known which arguments it can hold."""

    def __init__(self, showing: ReviewShowing, wording: Wording, arguments: list[Argument], room: Room) -> None:
        plan = showing.plan
        self.arguments = arguments
        self._showing = showing
        self._say = wording
        self._room = room
        self._state = _state_of(showing)
        self._description = paragraph(plan.description.strip().split("\n\n")[0], room.words, wording, "grey")
        self._headline = headline(plan)
        self._reason = paragraph(plan.request_reason or "", room.words, wording)
        parts = {"line.the_description": self._description, "line.the_reason": self._reason}
        self.others = [wording(key) for key, part in parts.items() if part.is_cut]

    def card(self, fitted: Fitted) -> Element:
        """The whole card with these arguments."""
        plan, say = self._showing.plan, self._say
        head = self._headline
        call = head.call
        state = say(f"state.{self._state}")
        is_open = self._state == "frozen"
        title = say("card.review_title", tool=head.title) if is_open else head.title
        preview = say("card.review_title", tool=call) if is_open else say("card.preview_state", call=call, state=state)
        header = headed(_STYLES[self._state], title, head.about, state, plan.risk, say)
        return framed(preview, header, self._body(fitted))

    def _body(self, fitted: Fitted) -> list[Element]:
        showing, say = self._showing, self._say
        is_open = self._state == "frozen"
        return [
            *self._standing(),
            *late_truths(showing.examined, say, self._room),
            *self._known(),
            {"tag": "hr"},
            markdown(say("card.approved_call"), text_size="notation"),
            *self._asked_for(fitted),
            *([settling(showing.frozen, showing.examined, self._headline.call, say)] if is_open else []),
            *self._link(),
        ]

    def _standing(self) -> list[Element]:
        """How the review stands, and what there is to beware of."""
        showing, say = self._showing, self._say
        if showing.settlement:
            return settled(showing.settlement, say, more=[])
        if showing.replaced:
            return [box([markdown(say("line.review_replaced"))], "grey-50")]
        asked = mentions(showing.operators, _OPERATORS_BYTES)
        lines = [box([markdown(say("line.review")), markdown(say("line.review_todo")), *asked], "purple-50")]
        if showing.examined.may_go_on:
            lines.append(box([markdown(say("line.may_go_on"))], "red-50"))
        return lines

    def _known(self) -> list[Element]:
        """Since when it is not known, what was reported, who waits for it."""
        frozen, say = self._showing.frozen, self._say
        rows = [row(say("card.frozen_since"), markdown(local_time(frozen.frozen_at)))]
        rows += reported(frozen, self._showing.examined, say, self._room)
        rows.append(row(say("card.probed"), div(self._probed())))
        if retries := self._showing.examined.retries:
            rows.append(row(say("card.retries"), div(str(retries))))
        return rows

    def _probed(self) -> Both:
        frozen, say = self._showing.frozen, self._say
        if not frozen.has_probe:
            return say("card.no_probe")
        if not frozen.probes:
            return say("card.not_probed")
        return say("card.probes_made" if self._showing.settlement else "card.probes", count=str(frozen.probes))

    def _asked_for(self, fitted: Fitted) -> list[Element]:
        """What was approved, by whom and for whom."""
        showing, say = self._showing, self._say
        decided_by = showing.frozen.decided_by
        rows = [*self._description.elements, *requester_rows(showing.plan, say)]
        if self._reason.elements:
            rows += [row(say("card.reason"), self._reason.elements[0]), *self._reason.elements[1:]]
        if decided_by is not None:
            rows.append(row(say("card.approved_by"), markdown(named(decided_by))))
        return [
            *rows,
            *self._arguments(fitted),
            *self._notice(fitted),
            row(say("card.approval"), div(one_line(showing.frozen.call.approval_id), text_color="grey")),
            row(say("card.key"), div(shortened(one_line(showing.plan.idempotency_key), _KEY_CHARACTERS))),
            *self._joined(),
            fingerprint(showing.plan, say),
        ]

    def _arguments(self, fitted: Fitted) -> list[Element]:
        if not self.arguments:
            return [div(self._say("card.no_arguments"), text_color="grey")]
        if not fitted.elements:
            return []
        title = self._say("card.arguments", count=str(len(self.arguments)))
        return [panel(markdown(title, text_size="normal"), fitted.elements, expanded=True)]

    def _notice(self, fitted: Fitted) -> list[Element]:
        """What the card could not hold, and where that is."""
        if not (fitted.missing or self.others):
            return []
        missing = names(fitted.missing, self._say, self.others)
        return [box([markdown(self._say("line.in_conversation", names=missing))], "grey-50")]

    def _joined(self) -> list[Element]:
        """The other approvals that wait for the same answer, as many as there is room for."""
        examined, say = self._showing.examined, self._say
        if not examined.joined:
            return []
        others = max(examined.waiting - 1, len(examined.joined))
        listed = list(map(one_line, examined.joined))
        room = accumulate(weight(each) + 2 for each in listed)
        fitting = [each for each, so_far in zip(listed, room, strict=True) if so_far <= _JOINED_BYTES]
        text = ", ".join(fitting if len(fitting) == others else [*fitting, "…"])
        label = "card.also_settled" if self._showing.settlement else "card.joined"
        return [row(say(label, count=str(others)), div(text, text_color="grey"))]

    def _link(self) -> list[Element]:
        found = web_address(self._showing.url) if self._showing.url else None
        return [link("temporal", self._say("card.open_temporal"), found[0], "primary_text")] if found else []


def _state_of(showing: ReviewShowing) -> str:
    if showing.settlement:
        return settled_state(showing.settlement)
    return "replaced" if showing.replaced else "frozen"
