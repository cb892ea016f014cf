"""A reason in the reader's language, where the service gave it; what others said, as they said it."""

from __future__ import annotations

from assent import reasons
from cards.wording import Both, Wording


def reason_of(said: str, wording: Wording) -> Both:
    """What was given as a reason, in both languages."""
    found = reasons.known(said)
    if found is None:
        return Both(said, said)
    name, values = found
    return wording(f"reason.{name}", **values)
