"""Whom an approval waits for, as far as its state tells. Its workflow has the last word when a decision comes."""

from __future__ import annotations

from assent.contracts.decision import DecisionKind, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.state import State
from assent.contracts.status import Phase


def awaits(state: State, actor: Identity) -> bool:
    """Whether *actor* can decide something about it now; of a chat's members, as far as can be said without asking."""
    person = actor.within(state.requester.tenant_key)
    match state.phase:
        case Phase.PENDING:
            return _may_decide(state, person) and not _has_decided(state, person)
        case Phase.REVIEWING:
            return state.result_sha256 is not None and _may_review(state, person)
        case _:
            return False


def _may_decide(state: State, person: Identity) -> bool:
    """Whether it is this person's turn."""
    group = state.progress.approvers if state.progress else state.approvers
    if group is None or _left_it(state, person):
        return False
    if group.exclude_requester and person.may_be(state.requester):
        return False
    return _was_called_in(state, person) or group.include(person, state.requester)


def _may_review(state: State, person: Identity) -> bool:
    """Whether the result is this person's to release: whoever may decide in any stage."""
    if state.approvers is None or _left_it(state, person):
        return False
    stages = state.approvers.stages
    if all(stage.exclude_requester for stage in stages) and person.may_be(state.requester):
        return False
    return _was_called_in(state, person) or any(stage.include(person, state.requester) for stage in stages)


def _left_it(state: State, person: Identity) -> bool:
    return state.progress is not None and any(person.is_same_person(giver) for giver, _ in state.progress.delegations)


def _was_called_in(state: State, person: Identity) -> bool:
    if state.progress is None:
        return False
    called = (*(taker for _, taker in state.progress.delegations), *state.progress.called)
    return any(person.is_same_person(other) for other in called)


def _has_decided(state: State, person: Identity) -> bool:
    """Whether this person has approved or rejected the call as it stands: one person counts once."""
    approvals = state.progress.approvals if state.progress else ()
    rejections = (
        judged
        for judged in state.decisions
        if judged.verdict is VerdictKind.ACCEPTED
        and judged.kind is DecisionKind.REJECT
        and judged.payload_sha256 == state.payload_sha256
    )
    return any(
        judged.actor.within(state.requester.tenant_key).is_same_person(person) for judged in (*approvals, *rejections)
    )
