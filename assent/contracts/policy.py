"""The operator's policy file as it is in force, and the rule of it that applied."""

from __future__ import annotations

from datetime import datetime

from assent.contracts.values import Frozen


class Rule(Frozen):
    """The operator's rule that a plan was made by."""

    name: str
    policy_sha256: str
    """The hash of the file that holds it."""


class Policy(Frozen):
    """The operator's policy file, as it is in force."""

    n: int = 0
    """Its number: one that is put in force later has a higher one."""
    text: str
    sha256: str
    since: datetime
