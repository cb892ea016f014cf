"""The buttons of a pending card, and what they send back."""

from __future__ import annotations

from typing import NamedTuple

from assent.contracts.address import AddressKind
from assent.contracts.decision import DecisionKind, Remember, Stage
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution
from assent.contracts.plan import Plan
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.elements import RISK_COLORS, Element, beside, div, markdown, panel, plain, tag
from cards.spans import span
from cards.wording import Both, Wording

VALUE_VERSION = "1"
"""The form of a button's value; a click on a card of another form is not ours."""
ASK_AGAIN = "ask_again"
"""The box in which one ticks that the decision is not to be remembered."""
_TOOL_CHARACTERS = 60
_WARNED_CHARACTERS = 240
_MOST_WARNED = 6
"""Warnings that a question repeats, each in its share of that room."""
MOST_REASON = 500
"""Characters of a reason for rejecting."""


class Editing(NamedTuple):
    """The fields in which arguments can be changed."""

    panel: Element
    """They, and the button that approves what stands in them."""
    as_shown: Element
    """What a button that approves the call as proposed adds to its value: by it is seen whether a field was changed."""


def controls(
    plan: Plan, call: Both, wording: Wording, *, may_approve: bool, editing: Editing | None = None
) -> list[Element]:
    """Approve, with what would run right above it, and Reject with an optional reason; where it is remembered, how far.

    editing: where arguments can be changed here. One form then holds every button, as it does where the decision may
    be forgotten: Feishu sends what was typed or ticked only with a button of the same form, and whoever typed
    something has not agreed to what stood there before.
    """
    value, texts = decision(plan, DecisionKind.REJECT), (wording("card.reject"), wording("card.reject_hint"))
    rejection = _reason_beside("reject", value, *texts)
    again = ask_again(plan, wording)
    if not may_approve:
        return [form("rejection", [*again, rejection])]
    approvals = _approvals(plan, call, wording, editing.as_shown if editing else {})
    if editing is None and not again:
        return [*approvals, form("rejection", [rejection])]
    submitting = [submits(each) if each["tag"] == "button" else each for each in approvals]
    return [form("decision", [*([editing.panel] if editing else []), *submitting, *again, rejection])]


def _approvals(plan: Plan, call: Both, wording: Wording, as_shown: Element) -> list[Element]:
    """The buttons that approve the call as proposed, and what of that is remembered.

    What they approve is said once more: on a phone the card's head is out of sight here.
    """
    what = markdown(_in_bold(call) + Both(" ", " ") + risk_tag(plan.risk, wording))
    text = wording("card.approve_as_proposed" if as_shown else "card.approve")
    value = {**decision(plan, DecisionKind.APPROVE), **as_shown}
    meaning = wording("card.confirm", call=call)
    approval = ask_twice(button("approve", "primary_filled", value, text), plan, meaning, wording)
    if not is_remembered(plan):
        return [what, approval]
    note = wording("card.remembered", span=span(plan.remember_for, wording))
    remembered = [what, approval, div(note, text_color="grey", text_size="notation")]
    return [*remembered, _for_the_tool(plan, value, wording)] if _is_asked_in_a_chat(plan) else remembered


def _in_bold(text: Both) -> Both:
    return Both(*(f"**{escaped(each).replace(' ', '&#32;')}**" for each in text))


def risk_tag(risk: Risk, wording: Wording) -> Both:
    """How much harm a call can do, as markdown."""
    return tag(wording(f"risk.{risk}"), RISK_COLORS[risk])


def _for_the_tool(plan: Plan, value: Element, wording: Wording) -> Element:
    """The button that lets a decision count for whatever else the tool is asked to do here. It always asks back.

    Only what is asked for in a chat can be meant by it.
    """
    tool, how_long = shortened(one_line(plan.subject), _TOOL_CHARACTERS), span(plan.remember_for, wording)
    pressed = button(
        "approve_tool",
        "default",
        {**value, "remember": Remember.TOOL.value},
        wording("card.approve_tool", tool=tool, span=how_long),
    )
    title = wording("card.approve_tool_title", tool=tool)
    text = wording("card.approve_tool_meaning", tool=tool, span=how_long)
    return _asking_back(pressed, title, text + _warned(plan))


def _is_asked_in_a_chat(plan: Plan) -> bool:
    return plan.conversation is not None or any(
        each.kind is AddressKind.CHAT_ID or each.reply_to for each in plan.addresses
    )


def is_remembered(plan: Plan) -> bool:
    """Whether the decision counts for the next time, too, unless somebody says otherwise."""
    return plan.permission.execution is Execution.ASK_ONCE and bool(plan.remember_for)


def ask_again(plan: Plan, wording: Wording, number: int | None = None) -> list[Element]:
    """The way to have the decision forgotten, whichever it is; nothing where it is not remembered anyway.

    number: of the call, on a card of several: no two boxes of a card have one name.
    """
    name = ASK_AGAIN if number is None else f"{ASK_AGAIN}_{number}"
    box = {"tag": "checker", "name": name, "checked": False, "text": plain(wording("card.ask_again"))}
    return [box] if is_remembered(plan) else []


def is_ticked(form: Element, box: object = None) -> bool:
    """Whether a form says that somebody is to be asked again; in doubt they are.

    box: the one that counts for what was pressed; any, if it does not say.
    """
    boxes = (box,) if isinstance(box, str) else tuple(each for each in form if each.startswith(ASK_AGAIN))
    return any(form.get(each) not in (None, False) for each in boxes)


def delegation(plan: Plan, wording: Wording, details: Element) -> Element:
    """The way to leave the decision to somebody else, folded together with what few look at.

    details: that.
    """
    picker: Element = {
        "tag": "select_person",
        "name": "delegate_to",
        "width": "fill",
        "required": True,
        "placeholder": plain(wording("card.delegate_hint")),
    }
    chosen = button("delegate", "default", decision(plan, DecisionKind.DELEGATE), wording("card.delegate"))
    submit = submits({**chosen, "width": "default"})
    title = markdown(wording("card.delegate_title") + Both(" · ", " · ") + wording("card.details"), text_size="normal")
    note = div(wording("card.delegate_note"), text_color="grey")
    folded = panel(title, [details, {"tag": "hr"}, note, picker, submit])
    return form("delegation", [folded])


def with_reason(name: str, form_name: str, value: Element, text: Both, hint: Both) -> Element:
    """A form with a button that says no, and room for why."""
    return form(form_name, [_reason_beside(name, value, text, hint)])


def _reason_beside(name: str, value: Element, text: Both, hint: Both) -> Element:
    reason: Element = {
        "tag": "input",
        "name": "reason",
        "max_length": MOST_REASON,
        "width": "fill",
        "required": False,
        "placeholder": plain(hint),
    }
    return beside(reason, submits({**button(name, "danger", value, text), "width": "default"}))


def form(name: str, elements: list[Element]) -> Element:
    """What is sent along together: its fields, with any of its buttons."""
    return {"tag": "form", "name": name, "elements": elements}


def button(name: str, look: str, value: Element, text: str | Both) -> Element:
    """A button that sends a value back."""
    return {
        "tag": "button",
        "name": name,
        "type": look,
        "width": "fill",
        "text": plain(text),
        "behaviors": [{"type": "callback", "value": value}],
    }


def submits(pressed: Element) -> Element:
    """A button that sends the form around it along."""
    return {**pressed, "form_action_type": "submit"}


def ask_twice(pressed: Element, plan: Plan, meaning: Both, wording: Wording) -> Element:
    """A button that asks back, with the warnings there are, where the call can do much harm.

    meaning: what pressing it does.
    """
    if plan.risk is not Risk.HIGH:
        return pressed
    return _asking_back(pressed, wording("card.confirm_title"), meaning + _warned(plan))


def _asking_back(pressed: Element, title: Both, text: Both) -> Element:
    return {**pressed, "confirm": {"title": plain(title), "text": plain(text)}}


def _warned(plan: Plan) -> Both:
    """What whoever decides should know of these arguments."""
    shown = plan.warnings[:_MOST_WARNED]
    each_has = _WARNED_CHARACTERS // max(1, len(shown))
    lines = "".join(f"\n⚠ {shortened(one_line(each.strip()), each_has)}" for each in shown)
    more = f"\n⚠ +{len(plan.warnings) - len(shown)}" if len(plan.warnings) > len(shown) else ""
    return Both(lines + more, lines + more)


def decision(plan: Plan, kind: DecisionKind) -> Element:
    """What a button sends back: which decision, about which approval and which payload."""
    return bound(plan.approval_id, kind, Stage.CALL, plan.payload_sha256)


def bound(approval_id: str, kind: DecisionKind, stage: Stage, payload_sha256: str) -> Element:
    return {
        "assent": VALUE_VERSION,
        "approval_id": approval_id,
        "decision": kind.value,
        "stage": stage.value,
        "payload_sha256": payload_sha256,
    }


def revocation(grant_id: str, approval_id: str, wording: Wording) -> Element:
    """The button by which a remembered decision is taken back.

    approval_id: the approval on whose card it stands.
    """
    value = {"assent": VALUE_VERSION, "revoke": grant_id, "on": approval_id}
    pressed = button("revoke", "default", value, wording("card.revoke"))
    asked = {"title": plain(wording("card.revoke_title")), "text": plain(wording("card.revoke_meaning"))}
    return {**pressed, "width": "default", "confirm": asked}
