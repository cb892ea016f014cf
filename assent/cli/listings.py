"""Lists on the command line: one thing on each line, and nothing left out without a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from assent.cli.tables import UNLIMITED, call_lines, coloured, moment, span, table_of, text, zone
from assent.client.door import Approval, FrozenReview, ToolDescription
from assent.contracts.asking import QuestionState
from assent.contracts.decision import Remember
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.payload import short_hash

_FEWEST_COLUMNS = 3
_PREFIX = 8
"""How many characters of an id are shown at least where there is no room for all of them."""
_ID, _CALL, _NARROWEST_CALL = "ID", "CALL", 30


class Listing:
    """Lines of a table. A pipe gets all of it; on a terminal, what has no room is shortened, or named below."""

    def __init__(
        self, columns: Sequence[str], lines: Sequence[Sequence[Text]], nothing: str, *, flexible: str = _CALL
    ) -> None:
        """
        flexible: the column that is cut first.
        """
        self._flexible = flexible
        self._columns = columns
        self._lines = lines
        self._nothing = nothing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._lines:
            yield Text(self._nothing)
            return
        width = options.max_width

        def fits(table: Table) -> bool:
            return console.measure(table, options=options.update(max_width=UNLIMITED)).maximum <= width

        table = self._table(self._lines, len(self._columns))
        if fits(table):
            yield table
            return
        lines = _with_short_ids(self._lines) if self._columns[0] == _ID else self._lines
        for columns in range(len(self._columns), _FEWEST_COLUMNS - 1, -1):
            longest = self._longest_call(lines)
            room = next(
                (most for most in range(longest, _NARROWEST_CALL - 1, -1) if fits(self._table(lines, columns, most))),
                None,
            )
            if room is not None or columns == _FEWEST_COLUMNS:
                yield self._table(lines, columns, room or _NARROWEST_CALL)
                if left_out := self._columns[columns:]:
                    yield Text(f"No room for {', '.join(left_out)}: widen the terminal, or say --json.", "dim")
                return

    def _longest_call(self, lines: Sequence[Sequence[Text]]) -> int:
        if self._flexible not in self._columns:
            return _NARROWEST_CALL
        place = self._columns.index(self._flexible)
        return max(_NARROWEST_CALL, *(line[place].cell_len for line in lines))

    def _table(self, lines: Sequence[Sequence[Text]], columns: int, most: int | None = None) -> Table:
        table = table_of(*self._columns[:columns])
        for cells in lines:
            table.add_row(*cells[:columns])
        if most is not None and self._flexible in self._columns[:columns]:
            call = table.columns[self._columns.index(self._flexible)]
            call.max_width, call.no_wrap, call.overflow = most, True, "ellipsis"
        return table


def _with_short_ids(lines: Sequence[Sequence[Text]]) -> list[Sequence[Text]]:
    """The lines with as much of each id as tells it from the others; every command takes that for the id."""
    ids = [line[0].plain for line in lines]
    most = max(map(len, ids))
    length = next((n for n in range(_PREFIX, most) if len({each[:n] for each in ids}) == len({*ids})), most)
    return [(Text(line[0].plain[:length]), *line[1:]) for line in lines]


def listing(approvals: Sequence[Approval], states: Mapping[str, State]) -> Listing:
    """Approvals, one on each line: those with the least time left first, then what has ended, the newest first."""
    now, calls = datetime.now(UTC), call_lines(states.values())
    lines = [
        (
            text(approval.approval_id),
            coloured(approval.status),
            text(approval.tool or "-"),
            text(calls.get(approval.approval_id, "-")),
            text(_left(states.get(approval.approval_id), now)),
            coloured(approval.risk or "-"),
            text(approval.requester or "-"),
            text(moment(approval.requested_at)),
        )
        for approval in sorted(approvals, key=lambda each: _urgency(states.get(each.approval_id)))
    ]
    columns = ("ID", "STATUS", "TOOL", _CALL, "LEFT", "RISK", "REQUESTER", f"REQUESTED ({zone()})")
    return Listing(columns, lines, "No approvals.")


def file_listing(files: Sequence[FileSummary]) -> Listing:
    """Files that somebody shared, one on each line."""
    lines = [
        (
            text(file.file_id),
            text(file.name),
            text(file.kind),
            text("-" if file.size is None else f"{file.size:,}"),
            text(_epoch(file.received_at)),
            text(_epoch(file.expires_at) if file.expires_at else "never"),
            text(file.media_type or "-"),
        )
        for file in files
    ]
    return Listing(("ID", "NAME", "KIND", "BYTES", "RECEIVED", "EXPIRES", "TYPE"), lines, "No files.")


def _epoch(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%Y-%m-%d %H:%M}"


def frozen_listing(reviews: Sequence[FrozenReview], states: Mapping[str, State]) -> Listing:
    """Frozen calls, one on each line."""
    now, calls = datetime.now(UTC), call_lines(states.values())
    lines = [
        (
            text(review.approval_id),
            text(span(int((now - review.frozen_at).total_seconds()))),
            text(review.tool or "-"),
            text(calls.get(review.approval_id, "-")),
            coloured(review.risk or "-"),
            text(review.requester or "-"),
        )
        for review in reviews
    ]
    return Listing(("ID", "AGE", "TOOL", _CALL, "RISK", "REQUESTER"), lines, "Nothing is frozen.")


def inbox_listing(states: Sequence[State | QuestionState]) -> Listing:
    """What waits for a person, one on each line."""
    now, calls = datetime.now(UTC), call_lines(each for each in states if isinstance(each, State))
    lines = [
        (
            text(_id(state)),
            text(_left(state, now)),
            text(_waits(state)),
            text(state.tool or "-"),
            text(state.questions[0].prompt if isinstance(state, QuestionState) else calls[state.approval_id]),
            coloured("-" if isinstance(state, QuestionState) else state.risk or "-"),
            text(str(state.requester)),
        )
        for state in states
    ]
    return Listing(("ID", "LEFT", "WAITS", "TOOL", _CALL, "RISK", "REQUESTER"), lines, "Nothing waits for you.")


def _id(state: State | QuestionState) -> str:
    return state.question_id if isinstance(state, QuestionState) else state.approval_id


def _waits(state: State | QuestionState) -> str:
    if isinstance(state, QuestionState):
        return "question"
    return "result" if state.phase is Phase.REVIEWING else "call"


def by_time_left(states: Sequence[State | QuestionState]) -> list[State | QuestionState]:
    """Those with the least time left first."""
    return sorted(states, key=_urgency)


def _urgency(state: State | QuestionState | None) -> datetime:
    return (_until(state) if state else None) or datetime.max.replace(tzinfo=UTC)


def _until(state: State | QuestionState) -> datetime | None:
    """Until when somebody can decide or answer; None where nobody can any more."""
    if isinstance(state, QuestionState):
        return state.deadline
    if state.phase is Phase.REVIEWING:
        return state.result_deadline
    return state.deadline if state.phase is Phase.PENDING else None


def _left(state: State | QuestionState | None, now: datetime) -> str:
    until = _until(state) if state else None
    return span(int((until - now).total_seconds())) if until else "-"


def tool_listing(tools: Sequence[ToolDescription]) -> Listing:
    """Tools, one on each line."""
    lines = [
        (
            text(tool.name),
            text(tool.description.strip().partition("\n")[0]),
            text(", ".join(_parameters(tool.parameters)) or "none"),
            coloured(tool.risk),
            text(str(tool.approvers)),
        )
        for tool in tools
    ]
    columns = ("TOOL", "DOES", "ARGUMENTS", "RISK", "DECIDES")
    return Listing(columns, lines, "No worker has published a tool.", flexible="DOES")


def _parameters(schema: Mapping[str, Any]) -> list[str]:
    """The names of the arguments; those that may be left out in brackets."""
    required = schema.get("required", ())
    return [name if name in required else f"[{name}]" for name in schema.get("properties", {})]


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
            text(moment(grant.expires_at)),
        )
        for grant in grants
    ]
    columns = ("ID", "STATE", "TOOL", "SCOPE", "DECISION", "FOR", "BY", f"UNTIL ({zone()})")
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


def check_listing(checked: Sequence[tuple[str, str, str]]) -> Table:
    """What was looked at, how it stands, and what there is to say of it."""
    table = table_of("WHAT", "FOUND", "SAID")
    for what, found, said in checked:
        table.add_row(text(what), coloured(found), text(said))
    return table
