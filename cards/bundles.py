"""Several calls on one card, with a decision for each: what is not wholly on it cannot be decided there."""

from __future__ import annotations

from enum import IntEnum
from itertools import chain

from assent.contracts.decision import DecisionKind
from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.contracts.values import Frozen
from assent.payload import short_hash
from assent.safe import markdown as escaped
from assent.safe import one_line
from cards.arguments import MOST_ROWS, Argument, Fitted, arguments_of, as_markdown, fit
from cards.attachments import overflow
from cards.controls import VALUE_VERSION, ask_again, ask_twice, button, decision, form, is_remembered, risk_tag, submits
from cards.elements import Element, box, div, in_a_row, markdown, panel, row, tag, tags, to_json, weight
from cards.endings import ending, state_of
from cards.files import files_of
from cards.framing import MOST_BYTES, MOST_TAGS, Style, framed, headed
from cards.headline import CALL_CHARACTERS, cut, headline
from cards.hiding import hidden
from cards.paragraphs import paragraph
from cards.people import approvers_row, deadline_row, first, named, requester_rows
from cards.safe import fitting
from cards.showing import Showing
from cards.spans import span
from cards.ways import agent_runs, command_row
from cards.wording import Both, Wording

_DESCRIPTION_BYTES = 600
_WARNINGS_BYTES = 2400
_REASON_BYTES = 2400
MOST_TOGETHER = 10
"""How many calls share a card: more of them nobody reads as one."""
_MOST_NAMED = 3
_RULE_BYTES = 100
_PROGRESS_BYTES = 800
"""Room that is kept for those who approve a call that takes several."""
_LEAST_FOR_ALL = 2
"""How many calls of low risk it takes to approve them all at once."""

_WAITING = {Risk.LOW: "blue", Risk.MEDIUM: "orange", Risk.HIGH: "red"}
_COLORS = {
    "pending": "blue",
    "running": "wathet",
    "reviewing": "indigo",
    "executed": "green",
    "approved": "green",
    "replayed": "turquoise",
    "failed": "carmine",
    "frozen": "violet",
    "rejected": "red",
    "denied": "red",
    "settled_executed": "green",
}
_RISKS = list(Risk)


class BundledCall(Frozen):
    """One of the calls on a card."""

    showing: Showing
    apart: bool = False
    """Whether it has a card of its own by now."""
    begun: bool = False
    """Whether the ledger knows that it was begun, though nobody said so."""

    @property
    def state(self) -> str:
        state = state_of(self.showing)
        return "running" if self.begun and state == "pending" else state

    @property
    def is_open(self) -> bool:
        """Whether it can be decided here."""
        return self.state == "pending" and not self.apart

    @property
    def is_harmless(self) -> bool:
        """Whether it may be approved together with others, without a look at each."""
        plan = self.showing.plan
        one_is_enough = len(plan.approvers.stages) == 1 and plan.approvers.threshold == 1
        unremarkable = not plan.warnings and not plan.has_frozen_twin and plan.edit is None
        return self.is_open and plan.risk is Risk.LOW and one_is_enough and unremarkable


class _Detail(IntEnum):
    """How much is said of calls that have ended, as far as there is room."""

    WHOLE = 0
    ENDING = 1
    LINE = 2


def may_be_bundled(plan: Plan, wording: Wording) -> bool:
    """Whether a call can be read on a card without a file beside it."""
    cut = (
        paragraph("\n".join(plan.warnings), _WARNINGS_BYTES, wording).is_cut
        or paragraph(plan.request_reason or "", _REASON_BYTES, wording).is_cut
        or paragraph(_description(plan), _DESCRIPTION_BYTES, wording).is_cut
    )
    return not cut and overflow(plan, wording) is None


def shares(calls: tuple[BundledCall, ...], wording: Wording) -> tuple[tuple[BundledCall, ...], ...]:
    """Calls in their order, as many together as one card holds while all of them wait."""
    cards: list[tuple[BundledCall, ...]] = []
    for call in calls:
        waiting = BundledCall(showing=Showing(plan=call.showing.plan))
        together = (*(cards[-1] if cards else ()), waiting)
        if len(together) <= MOST_TOGETHER and bundle_card("", together, wording, is_new=True) is not None:
            cards[-1:] = [together]
        else:
            cards.append((waiting,))
    given = {call.showing.plan.approval_id: call for call in calls}
    return tuple(tuple(given[call.showing.plan.approval_id] for call in card) for card in cards)


def bundle_card(bundle_id: str, calls: tuple[BundledCall, ...], wording: Wording, *, is_new: bool) -> str | None:
    """The card of several calls as they stand, as card JSON 2.0; None if they do not fit on one.

    is_new: whether it is not sent yet, so that room is kept for what it may have to say later.
    """
    several = sum(call.showing.plan.approvers.threshold > 1 for call in calls)
    kept = _PROGRESS_BYTES * several if is_new else 0
    for detail in _Detail:
        draft = _Draft(bundle_id, calls, wording, detail)
        text = to_json(draft.card())
        if draft.is_whole and weight(text) + kept <= MOST_BYTES and tags(text) <= MOST_TAGS:
            return text
    return None


class _Draft:
    def __init__(self, bundle_id: str, calls: tuple[BundledCall, ...], wording: Wording, detail: _Detail) -> None:
        calls = tuple(call.model_copy(update={"showing": hidden(call.showing)}) for call in calls)
        self._bundle_id = bundle_id
        self._calls = calls
        self._open = [call for call in calls if call.is_open]
        self._say = wording
        self._detail = detail
        rows = [_rows(call.showing, wording) for call in self._open]
        common = [each for each in rows[0] if all(each in other for other in rows)] if rows else []
        self._common = common

    @property
    def is_whole(self) -> bool:
        """Whether nothing of what can be decided is missing."""
        return not any(_listed(call.showing.plan, self._say).missing for call in self._open)

    def card(self) -> Element:
        say, count, is_open = self._say, str(len(self._calls)), bool(self._open)
        risk = max((call.showing.plan.risk for call in self._open or self._calls), key=_RISKS.index)
        style = (
            Style(_WAITING[risk], "blue", "approval_outlined") if is_open else Style("grey", "neutral", "done_outlined")
        )
        state = say("card.bundle_waiting", count=str(len(self._open))) if is_open else say("card.bundle_over")
        if len(self._calls) == 1:
            head = headline(self._calls[0].showing.plan)
            title = say("card.title", tool=head.question) if is_open else head.title
            preview = say("card.preview", call=head.call) if is_open else title
        else:
            title = say("card.bundle" if is_open else "card.bundle_closed", count=count)
            preview = say("card.bundle_preview" if is_open else "card.bundle_closed", count=count)
        return framed(preview, headed(style, title, Both("", ""), state, risk, say), self._body())

    def _body(self) -> list[Element]:
        parts = [self._call(number, call) for number, call in enumerate(self._calls, 1)]
        body = [*self._common, *chain.from_iterable(parts), *self._all_harmless()]
        return [form("decisions", body)] if self._is_remembered else body

    @property
    def _is_remembered(self) -> bool:
        """Whether one can ask to be asked again: Feishu sends what was ticked only with a button of the same form."""
        return any(is_remembered(call.showing.plan) for call in self._open)

    def _pressed(self, pressed: Element) -> Element:
        return submits(pressed) if self._is_remembered else pressed

    def _call(self, number: int, call: BundledCall) -> list[Element]:
        return [
            {"tag": "hr"},
            self._title(number, call),
            *(self._pending(number, call) if call.is_open else self._past(call)),
        ]

    def _title(self, number: int, call: BundledCall) -> Element:
        plan, state = call.showing.plan, "replaced" if call.apart and call.state == "pending" else call.state
        where = tag(self._say(f"state.{state}"), _COLORS.get(state, "neutral"))
        head = headline(plan)
        said = head.title if call.is_open and not head.is_told else head.call  # the arguments follow
        name = Both(*(f"**{number}&#46; {as_markdown(each)}** " for each in cut(said, 2 * CALL_CHARACTERS)))
        return markdown(name + where + Both(" ", " ") + risk_tag(plan.risk, self._say))

    def _pending(self, number: int, call: BundledCall) -> list[Element]:
        showing, plan, say = call.showing, call.showing.plan, self._say
        return [
            *self._warned(plan),
            *agent_runs(plan, say),
            *command_row(plan, say),
            *(_listed(plan, say).elements or [div(say("card.no_arguments"), text_color="grey")]),
            *files_of(plan, say),
            *(each for each in _rows(showing, say) if each not in self._common),
            *_progress(showing, say),
            *self._remembered(plan),
            *self._buttons(number, plan),
            self._details(plan),
        ]

    def _details(self, plan: Plan) -> Element:
        """What few look at, folded."""
        said = [
            *paragraph(_description(plan), _DESCRIPTION_BYTES, self._say, "grey").elements,
            div(_fingerprint(plan, self._say), text_color="grey", text_size="notation"),
        ]
        return panel(markdown(self._say("card.details"), text_size="normal"), said)

    def _warned(self, plan: Plan) -> list[Element]:
        lines: list[Element] = []
        if plan.warnings:
            warnings = "\n".join(f"• {text.strip()}" for text in plan.warnings)
            lines += [markdown(self._say("line.warning")), *paragraph(warnings, _WARNINGS_BYTES, self._say).elements]
        if plan.has_frozen_twin:
            lines.append(markdown(self._say("line.twin_retry_safe" if plan.retry_safe else "line.twin")))
        return [box(lines, "red-50" if plan.warnings else "violet-50")] if lines else []

    def _remembered(self, plan: Plan) -> list[Element]:
        if not is_remembered(plan):
            return []
        note = self._say("card.remembered", span=span(plan.remember_for, self._say))
        return [div(note, text_color="grey", text_size="notation")]

    def _buttons(self, number: int, plan: Plan) -> list[Element]:
        again = ask_again(plan, self._say, number)
        box = {"again": again[0]["name"]} if again else {}
        value = {**decision(plan, DecisionKind.APPROVE), **box}
        yes = button(f"approve_{number}", "primary", value, self._say("card.approve"))
        meaning = self._say("card.confirm", call=headline(plan).call)
        value = {**decision(plan, DecisionKind.REJECT), **box}
        no = button(f"reject_{number}", "danger", value, self._say("card.reject"))
        both = (ask_twice(yes, plan, meaning, self._say), no)
        return [*again, in_a_row([{**self._pressed(each), "width": "default"} for each in both])]

    def _all_harmless(self) -> list[Element]:
        """One button for all that can do little harm."""
        harmless = [call.showing.plan for call in self._open if call.is_harmless]
        if len(harmless) < _LEAST_FOR_ALL:
            return []
        value: Element = {
            "assent": VALUE_VERSION,
            "bundle": self._bundle_id,
            "approve": [[plan.approval_id, plan.payload_sha256] for plan in harmless],
        }
        text = self._say("card.approve_all", count=str(len(harmless)))
        return [{"tag": "hr"}, self._pressed(button("approve_all", "primary_filled", value, text))]

    def _past(self, call: BundledCall) -> list[Element]:
        """What became of a call that can no longer be decided here."""
        if call.state == "pending":
            return [markdown(self._say("line.bundle_apart"))]
        if self._detail is _Detail.LINE:
            return [markdown(self._say(f"line.{call.state}"))]
        told = ending(call.showing, call.state, self._say)
        arguments = arguments_of(call.showing.plan)
        if self._detail is _Detail.ENDING or not arguments:
            return told
        title = markdown(self._say("card.arguments", count=str(len(arguments))), text_size="normal")
        return [*told, panel(title, _listed(call.showing.plan, self._say).elements)]


def _listed(plan: Plan, wording: Wording) -> Fitted:
    """The arguments: short ones each on a line of one text, long ones folded."""
    arguments = arguments_of(plan)
    short = [each for each in arguments if each.masked or (each.is_short and "\n" not in each.text)]
    lines = [_line(each, wording) for each in short]
    text = Both("\n".join(each.en for each in lines), "\n".join(each.zh for each in lines))
    long = [each for each in arguments if each not in short]
    room = MOST_BYTES - (weight(to_json(text)) if lines else 0)
    fitted = fit(long, wording, most_bytes=room, most_tags=MOST_TAGS, most_rows=MOST_ROWS)
    return Fitted([*([div(text)] if lines else []), *fitted.elements], fitted.missing)


def _line(argument: Argument, wording: Wording) -> Both:
    """One argument on one line: nothing in it can be taken for another."""
    value = wording("card.masked") if argument.masked else Both(*(one_line(argument.text) for _ in range(2)))
    names = (one_line(label) or '""' for label in argument.label)
    return Both(*(f"{name}: {said}" for name, said in zip(names, value, strict=True)))


def _rows(showing: Showing, wording: Wording) -> list[Element]:
    """Who asks and why, who may decide and until when; said once where it is the same for all."""
    plan = showing.plan
    reason = paragraph(plan.request_reason or "", _REASON_BYTES, wording).elements
    return [
        *requester_rows(plan, wording),
        *([row(wording("card.reason"), *reason)] if reason else []),
        approvers_row(plan, showing.progress, wording),
        deadline_row(plan.deadline.replace(second=0, microsecond=0), wording),  # as people read it
    ]


def _progress(showing: Showing, wording: Wording) -> list[Element]:
    """How many have approved, where it takes several."""
    plan, progress = showing.plan, showing.progress or first(showing.plan)
    if progress.approvers.threshold == 1 and progress.stages == 1 and plan.approvers.rejections == 1:
        return []
    count = wording("card.progress", approved=str(progress.approved), needed=str(progress.approvers.threshold))
    if progress.stages > 1:
        count = count + wording("card.stage", stage=str(progress.stage), stages=str(progress.stages))
    people = " ".join(named(each.actor) for each in progress.approvals[-_MOST_NAMED:])
    label = wording("card.approvals")
    said = (f"**{as_markdown(what)}** {escaped(number)} {people}" for what, number in zip(label, count, strict=True))
    shown = [markdown(Both(*said))]
    if plan.approvers.rejections > 1:
        shown.append(div(wording("card.rejections", count=str(plan.approvers.rejections)), text_color="grey"))
    return shown


def _fingerprint(plan: Plan, wording: Wording) -> Both:
    rule = [one_line(fitting(plan.rule.name, _RULE_BYTES)), short_hash(plan.rule.policy_sha256)] if plan.rule else []
    said = " · ".join([short_hash(plan.payload_sha256), *rule])
    return Both(*(f"{label} {said}" for label in wording("card.payload")))


def _description(plan: Plan) -> str:
    return plan.description.strip().split("\n\n")[0]
