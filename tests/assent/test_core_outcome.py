"""What an outcome says of what was found in the ledger."""

from __future__ import annotations

from assent.contracts import Outcome, Status
from assent.core import concluded
from assent.messages import Report, ReportKind


def test_an_outcome_does_not_tell_the_hash_of_what_is_sealed() -> None:
    """As after a reset, where the ledger knows of a sealed execution before an end without one."""
    sealed = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="f" * 64, content_bytes=4)
    outcome = concluded(Outcome(approval_id="a", status=Status.EXPIRED), sealed)
    assert (outcome.withheld, outcome.content_sha256, outcome.content_bytes) == (True, None, None)
