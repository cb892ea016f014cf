"""What the ledger's database can say instead of an answer.

LedgerError
├── Refused       it understood and said no: asking again is in vain
└── OutOfReach    it cannot be reached, or cannot just now: whether anything was done is not certain, so ask again

None of them carries a parameter: a payload must not reach a log through an error.
"""

from __future__ import annotations


class LedgerError(Exception):
    """The ledger's database did not do what it was asked."""


class Refused(LedgerError):
    """The database understood and said no, so that asking again is in vain."""


class OutOfReach(LedgerError):
    """The database did not answer, or not in time. What was asked was done as a whole or not at all."""


def is_refusal(error: Exception) -> bool:
    """Whether the database understood and said no, so that asking again is in vain."""
    return isinstance(error, Refused)
