"""What became of a call that was frozen, as every card says it."""

from __future__ import annotations

from assent.contracts.ruling import RulingKind, Settlement
from cards.elements import Element, box, local_time, markdown
from cards.framing import Style
from cards.paragraphs import result, said
from cards.people import named
from cards.wording import Both, Wording

STYLES = {
    "settled_executed": Style("green", "green", "done_outlined"),
    "settled_not_executed": Style("grey", "carmine", "close_outlined"),
}
_GROUNDS = {"settled_executed": "green-50", "settled_not_executed": "grey-50"}


def settled_state(settlement: Settlement) -> str:
    """What was settled, by the name of its texts."""
    return "settled_executed" if settlement.kind is RulingKind.EXECUTED else "settled_not_executed"


def settled(settlement: Settlement, wording: Wording, *, more: list[Both]) -> list[Element]:
    """What was settled, by whom, when and why, and the result if there is one.

    more: further lines in small print.
    """
    state = settled_state(settlement)
    lines = [markdown(wording(f"line.{state}"))]
    if settlement.retried:
        lines.append(markdown(wording("line.retried")))
    lines += [markdown(line, text_size="notation") for line in (_by_whom(settlement, wording), *more)]
    shown = [box(lines, _GROUNDS[state])]
    if settlement.reason:
        shown += said("card.settled_reason", settlement.reason, wording)
    if settlement.content is not None and settlement.kind is RulingKind.EXECUTED:
        shown += result(settlement.content, wording, truncated=settlement.truncated)
    return shown


def _by_whom(settlement: Settlement, wording: Wording) -> Both:
    time = local_time(settlement.settled_at)
    if settlement.settled_by is None:
        return wording("line.settled_by_probe", time=time)
    return wording("line.settled_by", person=named(settlement.settled_by), time=time)
