"""What a card without buttons says first: who decided, when, and what came of it."""

from __future__ import annotations

from assent.contracts import DecisionKind, Outcome, Status
from cards.elements import Element, box, link, local_time, markdown
from cards.paragraphs import result, said
from cards.people import named
from cards.safe import web_address
from cards.settled import settled, settled_state
from cards.showing import Showing
from cards.wording import Both, Wording

_GROUNDS = {
    "running": "wathet-50",
    "executed": "green-50",
    "replayed": "green-50",
    "failed": "carmine-50",
    "frozen": "violet-50",
}
_TELLS_WHY = (Status.EXECUTED, Status.FAILED, Status.FROZEN, Status.CANCELLED)
"""Endings whose reason says something that the sentence does not."""
_HAS_CONTENT = (Status.EXECUTED, Status.REPLAYED, Status.FAILED)


def state_of(showing: Showing) -> str:
    """Where the approval stands, by the name of its texts."""
    if showing.settlement and _may_be_settled(showing):
        return settled_state(showing.settlement)
    if showing.outcome:
        return showing.outcome.status.value
    if showing.decided:
        return "running" if showing.decided.kind is DecisionKind.APPROVE else "rejected"
    return "replaced" if showing.replaced else "pending"


def ending(showing: Showing, state: str, wording: Wording) -> list[Element]:
    """What came of it, by whom and when, then what the tool reported."""
    if showing.settlement and _may_be_settled(showing):
        return settled(showing.settlement, wording, more=_decided_by(showing, wording))
    lines = [markdown(wording(f"line.{state}"))]
    if state == "frozen":
        lines.append(markdown(wording("line.frozen_todo")))
    lines += [markdown(line, text_size="notation") for line in _by_whom(showing, wording)]
    shown = [box(lines, _GROUNDS.get(state, "grey-50"))]
    if (why := _rejection(showing)) is not None:
        shown += said("card.rejection", why, wording)
    if showing.outcome:
        shown += _reported(showing.outcome, wording)
    return shown


def _may_be_settled(showing: Showing) -> bool:
    """Only a call whose end was not known can have been settled."""
    return showing.outcome is None or showing.outcome.status is Status.FROZEN


def _by_whom(showing: Showing, wording: Wording) -> list[Both]:
    lines = _decided_by(showing, wording)
    if showing.ended_at and not (showing.outcome and showing.outcome.status is Status.REJECTED):
        lines.append(wording("line.ended_at", time=local_time(showing.ended_at)))
    return lines


def _decided_by(showing: Showing, wording: Wording) -> list[Both]:
    if decided := showing.decided:
        key = "line.approved_by" if decided.kind is DecisionKind.APPROVE else "line.rejected_by"
        return [wording(key, person=named(decided.actor), time=local_time(decided.received_at))]
    if showing.outcome and showing.outcome.decided_by:
        return [wording("line.decided_by", person=named(showing.outcome.decided_by))]
    return []


def _rejection(showing: Showing) -> str | None:
    decided, outcome = showing.decided, showing.outcome
    if outcome and outcome.status is not Status.REJECTED:
        return None
    if decided and decided.kind is DecisionKind.REJECT and decided.reason:
        return decided.reason
    return outcome.reason if outcome else None


def _reported(outcome: Outcome, wording: Wording) -> list[Element]:
    shown: list[Element] = []
    if outcome.reason and outcome.status in _TELLS_WHY:
        label = "card.withdrawal" if outcome.status is Status.CANCELLED else "card.error"
        shown += said(label, outcome.reason, wording)
    if outcome.content is not None and outcome.status in _HAS_CONTENT and outcome.content != outcome.reason:
        shown += result(outcome.content, wording, truncated=outcome.truncated, whole=outcome.content_bytes)
    if outcome.authorize_url:
        shown += _authorization(outcome.authorize_url, wording)
    return shown


def _authorization(url: str, wording: Wording) -> list[Element]:
    found = web_address(url)
    if found is None:
        return [markdown(wording("line.bad_address"))]
    address, host = found
    return [
        markdown(wording("line.authorize")),
        link("authorize", wording("card.authorize", host=host), address, "primary_filled"),
    ]
