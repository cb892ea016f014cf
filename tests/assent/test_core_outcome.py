"""What an outcome says of what was found in the ledger."""

from __future__ import annotations

from assent.contracts.execute import Report, ReportKind
from assent.contracts.outcome import Outcome
from assent.contracts.status import Status
from assent.core import concluded


def test_an_outcome_does_not_tell_the_hash_of_what_is_sealed() -> None:
    """As after a reset, where the ledger knows of a sealed execution before an end without one."""
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="f" * 64, content_bytes=4)
    outcome = concluded(Outcome(approval_id="a", status=Status.EXPIRED), sealed)
    assert (outcome.withheld, outcome.content_sha256, outcome.content_bytes) == (True, None, None)
