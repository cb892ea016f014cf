"""What a card without buttons says first: who decided, when, and what came of it."""

from __future__ import annotations

from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.release import UNDECIDED
from assent.contracts.status import Status
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.controls import revocation
from cards.edited import edited
from cards.elements import Element, box, link, local_time, markdown
from cards.paragraphs import result, said
from cards.people import named
from cards.safe import web_address
from cards.settled import settled, settled_state
from cards.showing import Showing
from cards.wording import Both, Wording

_GROUNDS = {
    "running": "wathet-50",
    "reviewing": "indigo-50",
    "executed": "green-50",
    "replayed": "green-50",
    "approved": "green-50",
    "failed": "carmine-50",
    "frozen": "violet-50",
}
_TELLS_WHY = (Status.EXECUTED, Status.FAILED, Status.FROZEN, Status.CANCELLED)
"""Endings whose reason says something that the sentence does not."""
_HAS_CONTENT = (Status.EXECUTED, Status.REPLAYED, Status.FAILED)
_TOOL_CHARACTERS = 80
_MOST_PEOPLE = 6
"""How many of those who approved are listed."""
_RAN = {"running", "reviewing", "executed", "replayed", "failed", "frozen", "settled_executed", "settled_not_executed"}
"""Where the call itself was begun, so that what ran is what somebody may have changed."""


def state_of(showing: Showing) -> str:
    """Where the approval stands, by the name of its texts."""
    if showing.settlement and _may_be_settled(showing):
        return settled_state(showing.settlement)
    if showing.outcome:
        return "denied" if _is_denied(showing, showing.outcome) else showing.outcome.status.value
    if showing.reviewing:
        return "reviewing"
    if showing.decided:
        begun = "approved" if showing.plan.is_consent_only else "running"
        return "rejected" if showing.decided.kind is DecisionKind.REJECT else begun
    return "replaced" if showing.replaced else "pending"


def _is_denied(showing: Showing, outcome: Outcome) -> bool:
    """Whether nobody rejected it but the operator's policy."""
    if outcome.status is not Status.REJECTED or _stood_in(showing):
        return False
    return outcome.decided_by is None and (showing.decided is None or showing.decided.kind is not DecisionKind.REJECT)


def ending(showing: Showing, state: str, wording: Wording) -> list[Element]:
    """What came of it, by whom and when, what was changed, then what the tool reported."""
    changes = _changes(showing, state, wording)
    if showing.settlement and _may_be_settled(showing):
        told = settled(showing.settlement, wording, more=_decided_by(showing, wording))
        return [*told, *changes, *_grant(showing, wording)]
    moved = state == "replaced" and showing.moved
    lines = [markdown(wording("line.moved" if moved else f"line.{state}"))]
    if state == "approved":
        lines.append(markdown(wording("line.agent_runs")))
    if state == "frozen":
        lines.append(markdown(wording("line.frozen_todo")))
    if state == "running" and showing.asking:
        lines.append(markdown(wording("line.running_asks")))
    if showing.reviewing and not showing.outcome:
        lines.append(markdown(wording(f"line.reviewing_{showing.reviewing}")))
    if showing.outcome and showing.outcome.withheld:
        lines.append(markdown(wording("line.withheld")))
    lines += [markdown(line, text_size="notation") for line in _by_whom(showing, wording)]
    shown = [box(lines, _GROUNDS.get(state, "grey-50")), *changes, *_grant(showing, wording)]
    if (why := _rejection(showing)) is not None:
        shown += said("card.denial" if state == "denied" else "card.rejection", why, wording)
    if showing.outcome:
        shown += _reported(showing.outcome, wording, is_sealed=_is_sealed(showing))
    return shown


def _is_sealed(showing: Showing) -> bool:
    """Whether the result is for those alone who may release it, and for the agent: this card may be read by others."""
    return showing.outcome is not None and showing.plan.permission.result.covers(showing.outcome.status)


def _changes(showing: Showing, state: str, wording: Wording) -> list[Element]:
    edit = (showing.outcome.edit if showing.outcome else None) or showing.plan.edit
    if edit is None:
        return []
    return edited(edit, showing.plan, "line.edited_ran" if state in _RAN else "line.edited", wording)


def _may_be_settled(showing: Showing) -> bool:
    """Only a call whose end was not known can have been settled."""
    return showing.outcome is None or showing.outcome.status is Status.FROZEN


def _by_whom(showing: Showing, wording: Wording) -> list[Both]:
    lines = _decided_by(showing, wording)
    if showing.ended_at and not (showing.outcome and showing.outcome.status is Status.REJECTED):
        lines.append(wording("line.ended_at", time=local_time(showing.ended_at)))
    return lines


def _decided_by(showing: Showing, wording: Wording) -> list[Both]:
    """Everybody whose decision counted; the decision that was remembered, where nobody was asked."""
    if grant := _stood_in(showing):
        return _remembered(grant, wording)
    decided, outcome = showing.decided, showing.outcome
    if decided and decided.kind is DecisionKind.REJECT:
        return [wording("line.rejected_by", person=named(decided.actor), time=local_time(decided.received_at))]
    if approvals := showing.approvals or ((decided,) if decided else ()):
        hidden = max(0, len(approvals) - _MOST_PEOPLE)
        lines = [
            wording("line.approved_by", person=named(each.actor), time=local_time(each.received_at))
            for each in approvals[hidden:]
        ]
        return [*lines, wording("line.more_approvals", count=str(hidden))] if hidden else lines
    if outcome and outcome.approved_by:
        return [_names(outcome.approved_by, wording)]
    if outcome and outcome.decided_by:
        return [wording("line.decided_by", person=named(outcome.decided_by))]
    return []


def _names(people: tuple[Identity, ...], wording: Wording) -> Both:
    said = wording("line.approved_by_all", people=" ".join(named(person) for person in people[:_MOST_PEOPLE]))
    hidden = len(people) - _MOST_PEOPLE
    return said + wording("line.and_more", count=str(hidden)) if hidden > 0 else said


def _stood_in(showing: Showing) -> Grant | None:
    """The remembered decision that stood in for a person, if nobody was asked."""
    return None if showing.decided or showing.approvals else showing.plan.grant


def _remembered(grant: Grant, wording: Wording) -> list[Both]:
    key = "line.let_through" if grant.decision is DecisionKind.APPROVE else "line.kept_from"
    return [wording(key, person=named(grant.granted_by), time=local_time(grant.granted_at))]


def _grant(showing: Showing, wording: Wording) -> list[Element]:
    """What of a decision counts from now on, for which calls and how long, and the way to end that."""
    grant = showing.grant or _stood_in(showing)
    if grant is None or not (showing.outcome or showing.settlement):
        return []
    if grant.revoked_at is not None:
        by = named(grant.revoked_by) if grant.revoked_by else ""
        return [box([markdown(wording("line.grant_revoked", person=by, time=local_time(grant.revoked_at)))], "grey-50")]
    what = "tool" if grant.scope is Remember.TOOL else "exact" if grant.decision is DecisionKind.APPROVE else "rejected"
    tool = escaped(shortened(one_line(grant.tool), _TOOL_CHARACTERS))
    said = wording(f"line.grant_{what}", tool=tool, until=local_time(grant.expires_at))
    return [box([markdown(said)], "yellow-50"), revocation(grant.grant_id, showing.plan.approval_id, wording)]


def _rejection(showing: Showing) -> str | None:
    decided, outcome = showing.decided, showing.outcome
    if outcome and outcome.status is not Status.REJECTED:
        return None
    if decided and decided.kind is DecisionKind.REJECT and decided.reason:
        return decided.reason
    return outcome.reason if outcome else None


def _reported(outcome: Outcome, wording: Wording, *, is_sealed: bool) -> list[Element]:
    shown: list[Element] = []
    if is_sealed and not outcome.withheld:
        return [markdown(wording("line.released"))]
    if outcome.reason and outcome.status in _TELLS_WHY and not outcome.withheld:
        label = "card.withdrawal" if outcome.status is Status.CANCELLED else "card.error"
        shown += said(label, outcome.reason, wording)
    has_content = outcome.content is not None and outcome.status in _HAS_CONTENT and not outcome.withheld
    if has_content and outcome.content != outcome.reason:
        shown += result(outcome.content, wording, truncated=outcome.truncated, whole=outcome.content_bytes)
    if outcome.withheld and outcome.withheld_reason not in (None, UNDECIDED):
        shown += said("card.withheld_reason", outcome.withheld_reason, wording)
    if outcome.authorize_url and not outcome.withheld:
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
