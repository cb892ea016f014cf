"""What the person who asked is told once it is known what became of a frozen call."""

from __future__ import annotations

from assent.contracts.plan import Plan
from assent.contracts.ruling import Settlement
from assent.masking import Mask
from assent.safe import one_line
from cards.elements import div, markdown, row, to_json
from cards.framing import framed, headed
from cards.headline import headline
from cards.people import mentioned
from cards.settled import STYLES, settled, settled_state
from cards.wording import Wording


def settled_notice(settlement: Settlement, plan: Plan, wording: Wording) -> str:
    """A small card for the approval's conversation, as card JSON 2.0. It notifies the person who asked."""
    state = settled_state(settlement)
    named, head = wording(f"state.{state}"), headline(plan)
    elements = [
        markdown(wording("line.settled_notice", person=mentioned(plan.requester))),
        *settled(Mask.of(plan).settlement(settlement), wording, more=[]),
        row(wording("card.approval"), div(one_line(plan.approval_id), text_color="grey")),
    ]
    header = headed(STYLES[state], head.title, head.about, named, plan.risk, wording)
    return to_json(framed(wording("card.preview_state", call=head.call, state=named), header, elements))
