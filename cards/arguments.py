"""The arguments of a call: how each is written, which of them a card can hold, and what the call is about."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any, NamedTuple

from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.masking import MASK
from assent.payload import argument_values, payload_files
from assent.reading import written
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened, visible
from cards.elements import Element, div, markdown, panel, row, tags, to_json, weight
from cards.safe import size
from cards.wording import Both, Wording

MOST_ROWS = 20
"""Arguments beyond these are shown together, as one JSON text: a card holds 200 elements."""
_INLINE_CHARACTERS = 240
_INLINE_LINES = 6
_BEGINNING, _END = 240, 160
"""Characters of a long argument that stand open where much depends on it."""
_NAMES_BYTES = 1000
"""Room for the names of what a card could not hold, in one language."""
_NAMES_LISTED = 12


class Ends(NamedTuple):
    """The beginning and the end of a long value, and how many characters lie between."""

    beginning: str
    between: int
    end: str


class Argument(NamedTuple):
    """One argument as people read it."""

    name: str
    value: Any
    text: str
    """The whole value, with nothing invisible left in it."""
    bytes: int
    masked: bool
    is_scalar: bool
    ends: Ends | None = None
    """Where it is long and much depends on it, what stands open on the card."""
    label: Both = Both("", "")
    """What people call it."""

    @property
    def is_short(self) -> bool:
        return len(self.text) <= _INLINE_CHARACTERS and self.text.count("\n") < _INLINE_LINES


class Fitted(NamedTuple):
    """The arguments in a card, and those that it could not hold."""

    elements: list[Element]
    missing: list[Argument]


def arguments_of(plan: Plan) -> list[Argument]:
    """The arguments of the call, in the order in which its tool declares them."""
    values, read, files = argument_values(plan.payload), plan.presentation, payload_files(plan.payload)
    return [
        _argument(
            name,
            values[name],
            masked=name in plan.sensitive,
            is_open=plan.risk is Risk.HIGH,
            is_decimal=name in read.decimals,
            file_name=files[values[name]]["name"] if isinstance(values[name], str) and values[name] in files else None,
        )._replace(label=label_of(name, plan))
        for name in read.sorted(values)
    ]


def label_of(name: str, plan: Plan) -> Both:
    """What people call an argument: as its tool says, or else by its name."""
    said = plan.presentation.labels.get(name)
    return Both(said.en, said.zh) if said else Both(name, name)


def _argument(
    name: str, value: Any, *, masked: bool, is_open: bool, is_decimal: bool, file_name: str | None = None
) -> Argument:
    """file_name: what the file is called that the argument names, if it names one."""
    if masked:
        return Argument(name, MASK, MASK, 0, True, False)
    text = written(value, is_decimal=is_decimal) if file_name is None else f"{one_line(file_name)} ({value})"
    is_scalar = not isinstance(value, dict | list)
    found = Argument(name, value, visible(text), len(text.encode()), False, is_scalar)
    return found._replace(ends=_ends(text)) if is_open and not found.is_short else found


def _ends(text: str) -> Ends:
    between = max(0, len(text) - _BEGINNING - _END)
    if between == 0:
        return Ends(visible(text), 0, "")
    return Ends(visible(text[:_BEGINNING]), between, visible(text[-_END:]))


def fit(
    arguments: list[Argument], wording: Wording, *, most_bytes: int, most_tags: int, most_rows: int = MOST_ROWS
) -> Fitted:
    """As many whole arguments as there is room for, the smallest first, shown in their order."""
    together = arguments[most_rows:]
    listed = arguments[:most_rows]
    room = _Room(most_bytes, most_tags)
    # The ends of the long ones first: a card that shows nothing of what matters most would be the worst.
    ends = {each.name: row for each in listed if each.ends and room.takes(row := _open(each, each.ends, wording))}
    rendered = {each.name: _rendered(each, wording) for each in listed if each.name in ends or not each.ends}
    smallest_first = sorted((each for each in listed if each.name in rendered), key=lambda each: len(each.text))
    chosen = {each.name for each in smallest_first if room.takes(rendered[each.name])}
    elements = [
        element
        for each in listed
        for element in (ends.get(each.name), rendered[each.name] if each.name in chosen else None)
        if element is not None
    ]
    missing = [each for each in listed if each.name not in chosen]
    if together:
        rest = _together(together, wording, room.bytes, room.tags)
        elements, missing = elements + rest.elements, missing + rest.missing
    return Fitted(elements, missing)


class _Room:
    """What is left of a card."""

    def __init__(self, most_bytes: int, most_tags: int) -> None:
        self.bytes = most_bytes
        self.tags = most_tags

    def takes(self, element: Element | None) -> bool:
        """Whether there is room for an element, which is taken then."""
        if element is None:
            return True
        text = to_json(element)
        cost, count = weight(text) + 1, tags(text)
        if cost > self.bytes or count > self.tags:
            return False
        self.bytes -= cost
        self.tags -= count
        return True


def _open(argument: Argument, ends: Ends, wording: Wording) -> Element:
    """The beginning and the end of a long argument, and how much lies between."""
    shown = [div(ends.beginning)]
    if ends.between:
        between = wording("card.between", count=f"{ends.between:,}")
        shown += [div(between, text_color="red"), div(ends.end)]
    return row(in_markdown(argument.label), *shown)


def _rendered(argument: Argument, wording: Wording) -> Element | None:
    """An argument whole, or nothing where its ends are all of it."""
    name = in_markdown(argument.label)
    if argument.masked:
        return row(name, div(wording("card.masked"), text_color="grey"))
    if argument.is_short:
        return row(name, div(argument.text))
    if argument.ends and not argument.ends.between:
        return None
    title = wording("line.folded", name=Both(*(f"**{each}**" for each in name)), size=size(argument.bytes))
    return panel(markdown(title), [div(argument.text)])


def in_markdown(label: Both) -> Both:
    """What people call an argument, as it can stand in bold."""
    return Both(*map(as_markdown, label))


def as_markdown(name: str) -> str:
    """A name that can stand in bold: a space beside the asterisks would keep them from meaning that."""
    return escaped(name or '""').replace(" ", "&#32;")


def _together(arguments: list[Argument], wording: Wording, most_bytes: int, most_tags: int) -> Fitted:
    """Many arguments in one folded text, each on lines of its own behind its quoted name."""
    shown: list[str] = []
    missing: list[Argument] = []
    room = most_bytes - weight(to_json(_folded_text(arguments, [], wording))) - 20
    for argument in arguments:
        text = _as_json(argument)
        cost = weight(to_json(text))
        if cost > room or most_tags < 4:
            missing.append(argument)
        else:
            shown.append(text)
            room -= cost
    return Fitted([_folded_text(arguments, shown, wording)] if shown else [], missing)


def _as_json(argument: Argument) -> str:
    """An argument in which no line can be taken for another argument."""
    value = MASK if argument.masked else json.dumps(argument.value, ensure_ascii=False, indent=2)
    return visible(f"{json.dumps(argument.name, ensure_ascii=False)}: {value}")


def _folded_text(arguments: list[Argument], lines: list[str], wording: Wording) -> Element:
    text = "\n".join(lines)
    title = wording("line.more_arguments", count=str(len(lines) or len(arguments)), size=size(len(text.encode())))
    return panel(markdown(title), [div(text)], expanded=any(each.ends for each in arguments))


def names(missing: list[Argument], wording: Wording, others: list[Both]) -> Both:
    """What a card could not hold, as a list for people, in markdown."""
    listed = others + [_listed(each) for each in missing]
    weights = list(accumulate(max(weight(each.en), weight(each.zh)) + 3 for each in listed))
    count = max(1, sum(so_far <= _NAMES_BYTES for so_far in weights))
    shown = Both(", ".join(each.en for each in listed[:count]), "、".join(each.zh for each in listed[:count]))
    hidden = len(listed) - count
    return wording("line.more_names", names=shown, count=str(hidden)) if hidden > 0 else shown


def names_of(others: list[str]) -> str:
    """Names as a plain list, as many as there is room for."""
    shown = [one_line(shortened(name, 40)) or '""' for name in others[:_NAMES_LISTED]]
    return ", ".join(shown if len(shown) == len(others) else [*shown, f"… (+{len(others) - len(shown)})"])


def _listed(argument: Argument) -> Both:
    en, zh = (escaped(shortened(each, 40)) for each in argument.label)
    return Both(f"{en} ({size(argument.bytes)})", f"{zh}（{size(argument.bytes)}）")
