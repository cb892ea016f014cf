"""The form in which the arguments of a call can be changed, and what was typed into it."""

from __future__ import annotations

from typing import Any

from assent.arguments.fields import MOST_CHARACTERS, Field, FieldKind, fields_of
from assent.contracts.decision import DecisionKind
from assent.contracts.plan import Plan
from assent.payload import argument_values, sha256
from assent.safe import one_line, shortened
from cards.arguments import label_of, names_of
from cards.controls import Editing, ask_twice, button, decision, submits
from cards.elements import Element, div, markdown, panel, plain
from cards.wording import Both, Wording

_LABEL_CHARACTERS = 100
_PREFIX = "arg_"


def fields_in(plan: Plan, parameters: dict[str, Any] | None) -> list[Field]:
    """The arguments that the card's form can change; none where the tool's schema is not known."""
    if parameters is None:
        return []
    fields = fields_of(parameters, argument_values(plan.payload), plan.sensitive)
    return [field for field in fields if not (plan.is_consent_only and field.name == "name")]


def editing(plan: Plan, fields: list[Field], wording: Wording) -> Editing:
    """A field for each argument that can be changed here, folded."""
    value = {**decision(plan, DecisionKind.EDIT), "fields": [field.name for field in fields]}
    meaning = wording("card.confirm_edit")
    submit = submits(ask_twice(button("edit", "primary", value, wording("card.edit")), plan, meaning, wording))
    inside = [
        div(wording("card.edit_note"), text_color="grey"),
        *(
            element
            for number, field in enumerate(fields)
            for element in _field(f"{_PREFIX}{number}", field, label_of(field.name, plan), wording)
        ),
        *_others(plan, fields, wording),
        submit,
    ]
    title = markdown(wording("card.edit_title"), text_size="normal")
    as_shown = {"fields": value["fields"], "shown": [_fingerprint(field.text) for field in fields]}
    return Editing(panel(title, inside), as_shown)


def _field(name: str, field: Field, called: Both, wording: Wording) -> list[Element]:
    label = Both(*(one_line(shortened(each, _LABEL_CHARACTERS)) or '""' for each in called))
    if field.kind is FieldKind.CHOICE:
        choices = [{"text": plain(one_line(each.text)), "value": each.text} for each in field.choices]
        picker = {"tag": "select_static", "name": name, "width": "fill", "required": True, "options": choices}
        return [div(label, text_color="grey", text_size="notation"), {**picker, "initial_option": field.text}]
    element: Element = {
        "tag": "input",
        "name": name,
        "width": "fill",
        "required": False,
        "max_length": MOST_CHARACTERS,
        "label": plain(label),
        "label_position": "top",
        "default_value": field.text,
    }
    if field.kind is FieldKind.LINES:
        element |= {"input_type": "multiline_text", "rows": 2, "auto_resize": True, "max_rows": 8}
    if field.may_be_empty:
        element["placeholder"] = plain(wording("card.empty_means_null"))
    elif field.is_json:
        element["placeholder"] = plain(wording("card.as_json"))
    return [element]


def _others(plan: Plan, fields: list[Field], wording: Wording) -> list[Element]:
    """Those that cannot be changed here: hidden ones, and those that no field can hold."""
    known = {field.name for field in fields}
    others = [name for name in argument_values(plan.payload) if name not in known]
    return [div(wording("card.not_editable", names=names_of(others)), text_color="grey")] if others else []


def filled_in(names: object, form: dict[str, Any]) -> dict[str, str]:
    """What was typed, by the name of the argument. Raises ValueError where that cannot be told.

    names: the arguments that the form has fields for, as the button says.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the button does not say which arguments its form changes")
    typed: dict[str, str] = {}
    for number, name in enumerate(names):
        text = form.get(f"{_PREFIX}{number}")
        if text is None:
            continue  # what was not sent along stays as it was
        if not isinstance(text, str) or len(text) > MOST_CHARACTERS or _is_broken(text) or _is_broken(name):
            raise ValueError("a field holds something else than a text")
        typed[name] = text
    return typed


def changed_in(names: object, shown: object, form: dict[str, Any]) -> dict[str, str]:
    """What was typed into fields that no longer hold what they were shown with. Raises ValueError as above.

    shown: the fingerprints of what they were shown with, as the button says.
    """
    typed = filled_in(names, form)
    if not isinstance(names, list) or not isinstance(shown, list) or len(names) != len(shown):
        raise ValueError("the button does not say what its fields were shown with")
    # Where some fields were sent along and one was not, it may have been emptied.
    sent = {**dict.fromkeys(names, ""), **typed} if typed else {}
    return {
        name: sent[name] for name, was in zip(names, shown, strict=True) if name in sent and _differs(sent[name], was)
    }


def _differs(text: str, shown: object) -> bool:
    return _fingerprint(text) != shown


def _fingerprint(text: str) -> str:
    """By which it is seen that a field was left as it was; a form may write its line ends in another way."""
    return sha256(text.replace("\r\n", "\n"))[:16]


def _is_broken(text: str) -> bool:
    """Whether a text cannot be kept: half characters."""
    return any("\ud800" <= character <= "\udfff" for character in text)
