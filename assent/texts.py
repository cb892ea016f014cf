"""The neutral sentences an agent reads when a call did not run to its end."""

from __future__ import annotations

from collections.abc import Mapping

from assent.contracts import Outcome, Status

SENTENCES: Mapping[Status, str] = {
    Status.REJECTED: "A person rejected this call. It did not run.",
    Status.SUPERSEDED: "A newer request replaced this call. It did not run.",
    Status.FROZEN: (
        "This call was approved and begun, but whether it took effect is not known. "
        "Do not repeat it: a person is finding out."
    ),
    Status.EXPIRED: "Nobody decided in time. The call did not run.",
    Status.FAILED: "This call failed.",
    Status.CANCELLED: "The request was withdrawn. The call did not run.",
}
"""One sentence for each ending without a result."""


def with_sentence(outcome: Outcome, sentences: Mapping[Status, str]) -> Outcome:
    """The outcome with a sentence for the model where the tool left no content."""
    sentence = sentences.get(outcome.status, SENTENCES.get(outcome.status))
    if outcome.content is not None or sentence is None:
        return outcome
    reason = f" Reason: {outcome.reason}" if outcome.reason else ""
    return outcome.model_copy(update={"content": sentence + reason})
