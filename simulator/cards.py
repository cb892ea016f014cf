"""Whether the platform takes a card: JSON 2.0, as documented, with nothing undocumented.

Where the documentation is silent the stricter reading is taken: every object with a tag is one of the 200 elements,
and every component within another is one of the 5 levels. The inner error codes 200861, 200621 and 11310 are seen in
the wild; which of them a given mistake gets is a guess, the outer 230099 is documented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulator.components import CARD
from simulator.errors import bad_card
from simulator.shapes import MALFORMED, OVER_LIMIT, UNSUPPORTED_TAG, Reading, words

MOST_BYTES = 30 * 1024
MOST_TABLES = 5

_FIELDS = frozenset(
    words(
        "input select_static multi_select_static select_person multi_select_person "
        "date_picker picker_time picker_datetime select_img checker"
    )
)
"""Components that hold a value, and hand it over with the form they stand in."""
INTERACTIVE = _FIELDS | {"button", "overflow", "interactive_container"}
_ONLY_IN_FORM = frozenset({"multi_select_static", "multi_select_person"})
_ONLY_AT_ROOT = frozenset({"form", "table"})


@dataclass(frozen=True)
class Element:
    """A component where it stands."""

    tag: str
    properties: dict[str, Any]
    path: str
    form: dict[str, Any] | None
    """The form around it."""

    @property
    def name(self) -> str | None:
        name = self.properties.get("name")
        return name if isinstance(name, str) else None

    @property
    def callback(self) -> dict[str, Any] | None:
        """The behaviour that makes a click on it known to the app."""
        behaviors: list[dict[str, Any]] = self.properties.get("behaviors") or []
        return next((behavior for behavior in behaviors if behavior.get("type") == "callback"), None)

    @property
    def is_field(self) -> bool:
        return self.tag in _FIELDS


def check_card(card: Any) -> dict[str, Any]:
    """The card, if the platform takes it."""
    if not isinstance(card, dict):
        raise bad_card(MALFORMED, "a card must be an object")
    if card.get("schema") != "2.0":
        raise bad_card(MALFORMED, 'the simulator knows cards with "schema": "2.0" only')
    style = _object(_object(card.get("config")).get("style"))
    reading = Reading(
        text_sizes=frozenset(_object(style.get("text_size"))), colors=frozenset(_object(style.get("color")))
    )
    CARD(card, reading, "card")
    if _object(card.get("config")).get("update_multi", True) is not True:
        raise bad_card(MALFORMED, "a JSON 2.0 card must have config.update_multi true")
    _check_places(card)
    _check_forms(card)
    return card


def require_shared(card: dict[str, Any]) -> None:
    """A card is updated only if it says, before and after, that it is a shared one."""
    if _object(card.get("config")).get("update_multi") is not True:
        raise bad_card(MALFORMED, "config.update_multi must be true for a card to be updated")


def components(card: dict[str, Any]) -> Iterator[Element]:
    """Every component of a checked card, from top to bottom."""
    yield from _within(_object(card.get("body")).get("elements") or [], "card.body.elements", None)


def _within(elements: list[dict[str, Any]], path: str, form: dict[str, Any] | None) -> Iterator[Element]:
    for index, element in enumerate(elements):
        here = f"{path}[{index}]"
        yield Element(element["tag"], element, here, form)
        inner_form = element if element["tag"] == "form" else form
        for name in ("elements", "columns"):
            # The columns of a table are no components.
            if name == "elements" or element["tag"] == "column_set":
                yield from _within(element.get(name) or [], f"{here}.{name}", inner_form)
        if element["tag"] == "checker":
            buttons = _object(element.get("button_area")).get("buttons") or []
            yield from _within(buttons, f"{here}.button_area.buttons", inner_form)


def _check_places(card: dict[str, Any]) -> None:
    tables = 0
    for element in components(card):
        if element.tag in _ONLY_AT_ROOT and element.path.count("[") > 1:
            raise bad_card(
                UNSUPPORTED_TAG, f"{element.tag} may stand at the root of the body only, not at {element.path}"
            )
        if element.tag in _ONLY_IN_FORM and element.form is None:
            raise bad_card(UNSUPPORTED_TAG, f"{element.tag} may stand in a form only, not at {element.path}")
        if "form_action_type" in element.properties and element.form is None:
            raise bad_card(MALFORMED, f"form_action_type outside a form at {element.path}")
        tables += element.tag == "table"
    if tables > MOST_TABLES:
        raise bad_card(OVER_LIMIT, f"card table number over limit of {MOST_TABLES}")


def _check_forms(card: dict[str, Any]) -> None:
    names: set[str] = set()
    submits: dict[int, bool] = {}
    for element in components(card):
        if element.tag == "form":
            submits[id(element.properties)] = False
        elif element.form is not None and (element.is_field or element.tag == "button") and not element.name:
            raise bad_card(MALFORMED, f"{element.tag} in a form must have a name, at {element.path}")
        if element.name:
            if element.name in names:
                raise bad_card(MALFORMED, f"the name {element.name} is used twice, at {element.path}")
            names.add(element.name)
        if element.form is not None and element.properties.get("form_action_type") == "submit":
            submits[id(element.form)] = True
    if not all(submits.values()):
        raise bad_card(MALFORMED, "a form must have a button with form_action_type submit")


def _object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: its place in the schema is checked elsewhere."""
    return value if isinstance(value, dict) else {}
