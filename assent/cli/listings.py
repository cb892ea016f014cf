"""Lists on the command line: one thing on each line, with as many columns as fit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from assent.cli.tables import UNLIMITED, coloured, span, table_of, text
from assent.client.door import Approval, FrozenReview
from assent.contracts.asking import QuestionState
from assent.contracts.decision import Remember
from assent.contracts.grants import Grant
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.payload import short_hash

_FEWEST_COLUMNS = 3


class Listing:
    """Lines of a table with as many columns as fit; a pipe gets them all."""

    def __init__(self, columns: Sequence[str], lines: Sequence[Sequence[Text]], nothing: str) -> None:
        self._columns = columns
        self._lines = lines
        self._nothing = nothing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._lines:
            yield Text(self._nothing)
            return
        unbounded = options.update(max_width=UNLIMITED)
        table = self._table(len(self._columns))
        while len(table.columns) > _FEWEST_COLUMNS:
            if console.measure(table, options=unbounded).maximum <= options.max_width:
                break
            table = self._table(len(table.columns) - 1)
        yield table

    def _table(self, columns: int) -> Table:
        table = table_of(*self._columns[:columns])
        for cells in self._lines:
            table.add_row(*cells[:columns])
        return table


def listing(approvals: Sequence[Approval]) -> Listing:
    """Approvals, one on each line."""
    lines = [
        (
            text(approval.approval_id),
            coloured(approval.status),
            text(approval.tool or "-"),
            text(f"{approval.requested_at.astimezone():%Y-%m-%d %H:%M}"),
            coloured(approval.risk or "-"),
            text(approval.requester or "-"),
        )
        for approval in approvals
    ]
    return Listing(("ID", "STATUS", "TOOL", "REQUESTED", "RISK", "REQUESTER"), lines, "No approvals.")


def frozen_listing(reviews: Sequence[FrozenReview]) -> Listing:
    """Frozen calls, one on each line."""
    now = datetime.now(UTC)
    lines = [
        (
            text(review.approval_id),
            text(span(int((now - review.frozen_at).total_seconds()))),
            text(review.tool or "-"),
            coloured(review.risk or "-"),
            text(review.requester or "-"),
        )
        for review in reviews
    ]
    return Listing(("ID", "AGE", "TOOL", "RISK", "REQUESTER"), lines, "Nothing is frozen.")


def inbox_listing(states: Sequence[State | QuestionState]) -> Listing:
    """What waits for a person, one on each line."""
    now = datetime.now(UTC)
    lines = [
        (
            text(state.question_id if isinstance(state, QuestionState) else state.approval_id),
            text(_waits(state)),
            text(state.tool or "-"),
            coloured("-" if isinstance(state, QuestionState) else state.risk or "-"),
            text(_left(state, now)),
            text(str(state.requester)),
        )
        for state in states
    ]
    return Listing(("ID", "WAITS", "TOOL", "RISK", "LEFT", "REQUESTER"), lines, "Nothing waits for you.")


def _waits(state: State | QuestionState) -> str:
    if isinstance(state, QuestionState):
        return "question"
    return "result" if state.phase is Phase.REVIEWING else "call"


def _left(state: State | QuestionState, now: datetime) -> str:
    is_result = isinstance(state, State) and state.phase is Phase.REVIEWING
    until = state.result_deadline if isinstance(state, State) and is_result else state.deadline
    return span(int((until - now).total_seconds())) if until else "-"


def grant_listing(grants: Sequence[Grant]) -> Listing:
    """Remembered decisions, one on each line."""
    now = datetime.now(UTC)
    lines = [
        (
            text(grant.grant_id),
            coloured(grant_state(grant, now)),
            text(grant.tool),
            text(_scope(grant)),
            text(str(grant.decision)),
            text(str(grant.requester)),
            text(str(grant.granted_by)),
            text(f"{grant.expires_at.astimezone():%Y-%m-%d %H:%M}"),
        )
        for grant in grants
    ]
    columns = ("ID", "STATE", "TOOL", "SCOPE", "DECISION", "FOR", "BY", "UNTIL")
    return Listing(columns, lines, "No decision is remembered.")


def grant_state(grant: Grant, now: datetime) -> str:
    """Whether a remembered decision still counts, as far as time and people go."""
    if grant.revoked_at is not None:
        return "revoked"
    return "live" if now < grant.expires_at else "expired"


def _scope(grant: Grant) -> str:
    if grant.scope is Remember.TOOL:
        return f"tool in {grant.chat_id}"
    return f"call {short_hash(grant.payload_sha256 or '')}"
