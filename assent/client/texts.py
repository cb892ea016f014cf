"""The neutral sentences an agent reads when a call did not run to its end, or its result is kept from it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from assent.contracts.outcome import Outcome
from assent.contracts.plan import Edit
from assent.contracts.status import Status
from assent.payload import argument_values

SENTENCES: Mapping[Status, str] = {
    Status.REJECTED: "A person rejected this call. It did not run.",
    Status.SUPERSEDED: "A newer request replaced this call. It did not run.",
    Status.FROZEN: (
        "This call was approved and begun, but nobody knows whether it took effect. "
        "Do not repeat it: a person is finding out."
    ),
    Status.EXPIRED: "Nobody decided in time. The call did not run.",
    Status.FAILED: "This call failed.",
    Status.CANCELLED: "The request was withdrawn. The call did not run.",
}
"""One sentence for each ending without a result."""

_REMEMBERED = "A person rejected exactly this call before, and that is remembered. It did not run."
_NOT_ALLOWED = "The rules of this installation do not let this call run. It did not run."
_WITHHELD: Mapping[Status, str] = {
    Status.FAILED: "This call failed; what it reported is withheld.",
    Status.FROZEN: f"{SENTENCES[Status.FROZEN]} What it reported is withheld.",
}
_RESULT_WITHHELD = "The call ran; its result is withheld."
"""By a person, or because nobody released it in time: the reason says which."""
_BEGUN = (Status.FAILED, Status.FROZEN)


def with_sentence(outcome: Outcome, sentences: Mapping[Status, str]) -> Outcome:
    """The outcome with a sentence for the model where the tool left no content, or where that is withheld."""
    if outcome.withheld:
        return outcome.model_copy(update=_nothing_but(_withheld(outcome)))
    sentence = sentences.get(outcome.status) or _neutral(outcome)
    if outcome.content is not None or sentence is None:
        return outcome
    edited = _edited(outcome.edit) if outcome.status in _BEGUN else ""
    return outcome.model_copy(update={"content": sentence + _reason(outcome.reason) + edited})


def _neutral(outcome: Outcome) -> str | None:
    if outcome.status is not Status.REJECTED:
        return SENTENCES.get(outcome.status)
    if outcome.grant_id is not None:
        return _REMEMBERED
    by_nobody = outcome.decided_by is None or outcome.decided_by in outcome.approved_by
    return _NOT_ALLOWED if by_nobody else SENTENCES[Status.REJECTED]


def _withheld(outcome: Outcome) -> str:
    sentence = _WITHHELD.get(outcome.status, _RESULT_WITHHELD)
    return sentence + _reason(outcome.withheld_reason) + _edited(outcome.edit)


def _nothing_but(sentence: str) -> dict[str, object]:
    """What is told of a withheld result: not its size nor its hash either, from which a short one could be guessed."""
    silent = {"authorize_url": None, "truncated": False, "content_bytes": None, "content_sha256": None}
    return {"content": sentence, **silent}


def _reason(reason: str | None) -> str:
    return f" Reason: {reason}" if reason else ""


def _edited(edit: Edit | None) -> str:
    """What an agent must know before it goes on: something else ran than it proposed."""
    if edit is None:
        return ""
    ran = json.dumps(argument_values(edit.payload), ensure_ascii=False)
    return f" A person changed the arguments before approving; they were: {ran}"
