"""What the service itself gives as a reason, sentence by sentence.

Agents, the audit and the command line read these as they stand here. Cards and toasts know them again and say them in
the reader's language: each has a text `reason.…` in both (`cards/texts`). What people, agents and tools say goes
through as it is.
"""

from __future__ import annotations

import re
from string import Formatter


class Reason:
    """A sentence with `{placeholders}`."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = list(Formatter().parse(text))
        self.placeholders = frozenset(name for _, name, _, _ in parts if name)
        groups = (re.escape(literal) + (f"(?P<{name}>.*)" if name else "") for literal, name, _, _ in parts)
        self._pattern = re.compile("".join(groups), re.DOTALL)

    def __call__(self, **values: object) -> str:
        return self.text.format(**values)

    def values(self, said: str) -> dict[str, str] | None:
        """What fills the placeholders, if this is what was said."""
        found = self._pattern.fullmatch(said)
        return found.groupdict() if found else None


# A decision that cannot be taken

CHANGED = Reason("arguments were changed in the form: approve with these changes, or put them back")
TOO_FEW = Reason(
    "too few people would be left who can approve: leave it to somebody who is no approver of this call yet"
)


ALL: dict[str, Reason] = {name.lower(): each for name, each in list(globals().items()) if isinstance(each, Reason)}
"""Every one of them, by the name of its text."""


def known(said: str) -> tuple[str, dict[str, str]] | None:
    """The name of the text that says the same, and what fills it; None of what others said."""
    found = ((name, each.values(said)) for name, each in ALL.items())
    return next(((name, values) for name, values in found if values is not None), None)
