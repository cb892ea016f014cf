"""A reason in the reader's language, where the service gave it; what others said, as they said it."""

from __future__ import annotations

from assent import reasons
from cards.wording import Both, Wording

_REFUSED = "invalid arguments: "


def reason_of(said: str, wording: Wording) -> Both:
    """What was given as a reason, in both languages."""
    found = reasons.known(said)
    if found is None:
        return Both(said, said)
    name, values = found
    filled: dict[str, str | Both] = dict(values)
    if reasons.ALL[name] is reasons.ARGUMENTS_REFUSED:
        filled["why"] = problems_of(said, wording)
    return wording(f"reason.{name}", **filled)


def problems_of(said: str, wording: Wording) -> Both:
    """What is wrong with arguments, one after the other; or, if it is something else, that."""
    if not said.startswith(_REFUSED):
        return reason_of(said, wording)
    each = [_problem(part, wording) for part in said.removeprefix(_REFUSED).split("; ")]
    return Both("; ".join(one.en for one in each), "；".join(one.zh for one in each))


def _problem(said: str, wording: Wording) -> Both:
    """One of them, behind the name of its argument; what the check of a schema says is said in general."""
    name, _, what = said.partition(": ")
    if (found := reasons.known(what)) is not None:
        what_of = wording(f"reason.{found[0]}", **found[1])
    else:
        what_of = Both(what, wording("card.unfit").zh)
    return wording("card.detail", label=name, value=what_of)
