"""What a card shows, without the values that are nobody's to see."""

from __future__ import annotations

import json

from assent.contracts.plan import Plan
from assent.masking import Mask
from assent.reading import written
from cards.showing import ResultShowing, ReviewShowing, Showing


def hidden(showing: Showing) -> Showing:
    """An approval in which none of them stands, whoever repeats them."""
    mask = Mask.of(showing.plan)
    return showing.model_copy(
        update={
            "plan": _asked(showing.plan, mask),
            "decided": mask.judged(showing.decided) if showing.decided else None,
            "outcome": mask.outcome(showing.outcome) if showing.outcome else None,
            "settlement": mask.settlement(showing.settlement) if showing.settlement else None,
            "approvals": tuple(map(mask.judged, showing.approvals)),
        }
    )


def hidden_result(showing: ResultShowing) -> ResultShowing:
    """A result's showing in which none of them stands, but for the result itself."""
    mask = Mask.of(showing.plan)
    return showing.model_copy(
        update={
            "plan": _asked(showing.plan, mask),
            "error": mask.text(showing.error) if showing.error else showing.error,
            "decided": mask.judged(showing.decided) if showing.decided else None,
            "outcome": mask.outcome(showing.outcome) if showing.outcome else None,
        }
    )


def hidden_review(showing: ReviewShowing) -> ReviewShowing:
    """A frozen call in which none of them stands."""
    mask = Mask.of(showing.plan)
    return showing.model_copy(
        update={
            "plan": _asked(showing.plan, mask),
            "frozen": mask.frozen(showing.frozen),
            "examined": mask.examined(showing.examined),
            "settlement": mask.settlement(showing.settlement) if showing.settlement else None,
        }
    )


def hidden_call(plan: Plan) -> Plan:
    """A call as its agent described it, without them."""
    return _asked(plan, Mask.of(plan))


def _asked(plan: Plan, mask: Mask) -> Plan:
    return plan.model_copy(update={"request_reason": mask.text(plan.request_reason)}) if plan.request_reason else plan


def readable(data: bytes, mask: Mask) -> str:
    """JSON as people read it, in which none of them stands."""
    try:
        return mask.text(written(mask.value(json.loads(data))))
    except (ValueError, RecursionError):
        return mask.text(data.decode("utf-8", "replace"))


def readable_start(data: bytes, most_bytes: int, mask: Mask) -> str:
    """The beginning of JSON that is too large to be laid out, in which none of them stands, nor a part of one."""
    return mask.text(data[:most_bytes].decode("utf-8", "ignore"))
