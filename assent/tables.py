"""What the command line prints: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assent.contracts import (
    Approvers,
    DecisionKind,
    Identity,
    Judged,
    Outcome,
    Ruled,
    RuledKind,
    RulingKind,
    Settlement,
    State,
    Status,
    Verdict,
    VerdictKind,
)
from assent.door import Approval, FrozenReview

MASK = "•••"
"""What stands in the place of a sensitive argument."""
_UNLIMITED = 1_000_000
"""The width of a pipe: nothing is wrapped or cut where no terminal asks for it."""
MAY_GO_ON = "The worker that ran it is not known to be dead: the call may still take effect."
_FEWEST_COLUMNS = 3
_SHORT = ("STATUS", "REQUESTED", "RISK", "AGE", "WHEN", "DECISION", "VERDICT")
"""Columns that are never wrapped."""
_SHORT_HASH = 12
_STYLES: Mapping[str, str] = {
    "pending": "yellow",
    "executing": "cyan",
    "reviewing": "cyan",
    "executed": "green",
    "replayed": "green",
    "rejected": "red",
    "failed": "red",
    "frozen": "bold magenta",
    "low": "green",
    "medium": "yellow",
    "high": "bold red",
}


def print_for_people(shown: RenderableType, *, to_stderr: bool = False) -> None:
    """Print a table or a sentence: fitted to a terminal; plain and complete in a pipe."""
    stream = sys.stderr if to_stderr else sys.stdout
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not stream.isatty():
        console.width = _UNLIMITED
    with console.capture() as captured:
        console.print(shown, soft_wrap=isinstance(shown, str))
    lines = captured.get().rstrip("\n").split("\n")
    stream.write("".join(f"{line.rstrip()}\n" for line in lines))
    stream.flush()


def print_for_programs(data: object) -> None:
    """Print JSON; characters that a terminal would obey or hide are written as escapes."""
    lines = json.dumps(data, ensure_ascii=False, indent=2).split("\n")
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()


def visible(text: str) -> str:
    """The text on one line; whatever could hide, reorder or fake a part of it is written as JSON's escape."""
    return "".join(c if c.isprintable() or c == "\u3000" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def state_data(state: State) -> dict[str, Any]:
    """A state for programs: its arguments in the payload's place, the sensitive ones masked."""
    return {**state.model_dump(mode="json", exclude={"payload"}), "arguments": _arguments(state)}


def _arguments(state: State) -> dict[str, Any] | None:
    if state.payload is None:
        return None
    arguments: dict[str, Any] = json.loads(state.payload)["arguments"]
    return {name: MASK if name in state.sensitive else value for name, value in arguments.items()}


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
        unbounded = options.update(max_width=_UNLIMITED)
        table = self._table(len(self._columns))
        while len(table.columns) > _FEWEST_COLUMNS:
            if console.measure(table, options=unbounded).maximum <= options.max_width:
                break
            table = self._table(len(table.columns) - 1)
        yield table

    def _table(self, columns: int) -> Table:
        table = _table(*self._columns[:columns])
        for cells in self._lines:
            table.add_row(*cells[:columns])
        return table


def listing(approvals: Sequence[Approval]) -> Listing:
    """Approvals, one on each line."""
    lines = [
        (
            _text(approval.approval_id),
            _coloured(approval.status),
            _text(approval.tool or "-"),
            _text(f"{approval.requested_at.astimezone():%Y-%m-%d %H:%M}"),
            _coloured(approval.risk or "-"),
            _text(approval.requester or "-"),
        )
        for approval in approvals
    ]
    return Listing(("ID", "STATUS", "TOOL", "REQUESTED", "RISK", "REQUESTER"), lines, "No approvals.")


def frozen_listing(reviews: Sequence[FrozenReview]) -> Listing:
    """Frozen calls, one on each line."""
    now = datetime.now(UTC)
    lines = [
        (
            _text(review.approval_id),
            _text(_span(int((now - review.frozen_at).total_seconds()))),
            _text(review.tool or "-"),
            _coloured(review.risk or "-"),
            _text(review.requester or "-"),
        )
        for review in reviews
    ]
    return Listing(("ID", "AGE", "TOOL", "RISK", "REQUESTER"), lines, "Nothing is frozen.")


def approval_page(state: State, outcome: Outcome | None = None, settlement: Settlement | None = None) -> RenderableType:
    """One approval: what it is, what would run, what was decided, how it ended."""
    parts = [call_page(state)]
    if state.decisions:
        parts.append(_section("Decisions", _decisions_table(state.decisions)))
    if outcome is not None:
        parts.append(_result(outcome))
    if state.status is Status.FROZEN:
        parts.append(_settlement(state.approval_id, settlement))
    return Group(*parts)


def call_page(state: State) -> RenderableType:
    """What an approval is about, and what would run."""
    arguments = _arguments(state)
    if arguments is None:
        return _facts(state)
    return Group(_facts(state), _section("Arguments", _arguments_table(arguments, state.sensitive)))


def outcome_page(outcome: Outcome) -> RenderableType:
    """How an approval ended, and what came of it."""
    facts = _pairs(
        {
            "Approval": _text(outcome.approval_id),
            "Status": _coloured(outcome.status),
            "Decided by": _optional(outcome.decided_by),
            "Reason": _optional(outcome.reason),
        }
    )
    return Group(facts, _result(outcome))


def verdict_sentence(verdict: Verdict, approval_id: str, kind: DecisionKind, actor: Identity) -> str:
    """What became of a decision, in a sentence that says what to do next."""
    look = f"assent show {visible(approval_id)}"
    match verdict.kind:
        case VerdictKind.ACCEPTED:
            done = "Approved" if kind is DecisionKind.APPROVE else "Rejected"
            return f"{done}. What became of it: {look}"
        case VerdictKind.DUPLICATE:
            return f"This decision was counted before. What became of it: {look}"
        case VerdictKind.RECEIVED:
            return f"Received, and kept until a worker judges it. What became of it: {look}"
        case VerdictKind.TAMPERED:
            return f"Not counted: the hash is not that of the call as it stands. Look at the call again: {look}"
        case VerdictKind.FORBIDDEN:
            return f"Not counted: {visible(str(actor))} may not decide this call. Who may: {look}"
        case VerdictKind.ALREADY_DECIDED:
            return f"Not counted: {_already(verdict)}."
        case VerdictKind.SUPERSEDED:
            return "Not counted: a newer request replaced this one."
        case VerdictKind.EXPIRED:
            return "Not counted: the deadline has passed."
        case VerdictKind.MISSING:
            return f"approval {visible(repr(approval_id))} is not known."


def _already(verdict: Verdict) -> str:
    who = f"{visible(str(verdict.decided_by))} has already decided" if verdict.decided_by else "it was already decided"
    return f"{who}, and it ended as {verdict.status}" if verdict.status else who


def ruled_sentence(ruled: Ruled, approval_id: str, operator: Identity) -> str:
    """What became of a ruling, in a sentence."""
    match ruled.kind:
        case RuledKind.SETTLED:
            return f"Settled: {_happened(ruled.settlement)}."
        case RuledKind.RETRYING:
            return f"It is being tried again. What became of it: assent show {visible(approval_id)}"
        case RuledKind.FORBIDDEN:
            return f"Not settled: {visible(str(operator))} is no operator (ASSENT_OPERATORS)."
        case RuledKind.ALREADY_SETTLED:
            return f"Not settled: {_settler(ruled.settlement)} settled it before: {_happened(ruled.settlement)}."


def _happened(settlement: Settlement | None) -> str:
    if settlement is None:
        return "it is known what became of it"
    return "it was executed" if settlement.kind is RulingKind.EXECUTED else "it was not executed"


def _settler(settlement: Settlement | None) -> str:
    person = settlement.settled_by if settlement else None
    return visible(str(person)) if person else "the tool's probe"


def _settlement(approval_id: str, settlement: Settlement | None) -> RenderableType:
    """What a frozen call turned out to be."""
    if settlement is None:
        ways = f"assent settle {approval_id} executed|not-executed|retry --as … --reason …"
        return _section("Settlement", _text("Open: find out whether it took effect, then"), _text(ways))
    facts = _pairs(
        {
            "Found": _text(_happened(settlement) + (", after it was tried again" if settlement.retried else "")),
            "By": _text(_settler(settlement)),
            "When": _text(_moment(settlement.settled_at)),
            "Reason": _optional(settlement.reason),
            "Result": _text(json.dumps(settlement.content, ensure_ascii=False)) if settlement.content else None,
        }
    )
    return _section("Settlement", facts)


def _facts(state: State) -> Table:
    return _pairs(
        {
            "Approval": _text(state.approval_id),
            "Status": _coloured(state.status or state.phase),
            "Reason": _optional(state.reason),
            "Decided by": _optional(state.decided_by),
            "Tool": _text(state.tool),
            "Risk": _coloured(state.risk) if state.risk else None,
            "Requester": _text(str(state.requester)),
            "Why": _optional(state.request_reason),
            "May decide": _text(_who(state.approvers)) if state.approvers else None,
            "Deadline": _text(_deadline(state)) if state.deadline else None,
            "Payload": _text(state.payload_sha256[:_SHORT_HASH]) if state.payload_sha256 else None,
            "Set aside": _text(f"{state.malformed} messages that could not be read") if state.malformed else None,
        }
    )


def _who(approvers: Approvers) -> str:
    match approvers.kind:
        case Approvers.Kind.REQUESTER:
            return "the requester"
        case Approvers.Kind.ANYONE:
            return "anyone"
        case Approvers.Kind.PEOPLE:
            return ", ".join(map(str, approvers.people))


def _deadline(state: State) -> str:
    assert state.deadline is not None
    left = int((state.deadline - datetime.now(UTC)).total_seconds())
    if state.status is not None or state.decided_by is not None or left <= 0:
        return _moment(state.deadline)
    return f"{_moment(state.deadline)} (in {_span(left)})"


def _span(seconds: int) -> str:
    """A time in the largest unit that says enough."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{max(seconds, 0)} s"


def _moment(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _arguments_table(arguments: Mapping[str, Any], sensitive: Sequence[str]) -> RenderableType:
    if not arguments:
        return _text("none", "dim")
    values = {
        name: _text(MASK, "dim") if name in sensitive else _text(json.dumps(value, ensure_ascii=False))
        for name, value in arguments.items()
    }
    return _pairs(values)


def _decisions_table(decisions: Sequence[Judged]) -> Table:
    table = _table("WHEN", "DECISION", "VERDICT", "BY")
    for judged in sorted(decisions, key=lambda judged: judged.received_at):
        colour = "green" if judged.verdict is VerdictKind.ACCEPTED else "red"
        table.add_row(
            _text(f"{judged.received_at.astimezone():%Y-%m-%d %H:%M:%S}"),
            _text(judged.kind),
            _text(judged.verdict, colour),
            _text(str(judged.actor)),
        )
    return table


def _result(outcome: Outcome) -> RenderableType:
    content = outcome.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    parts: list[RenderableType] = [_text(line) for line in text.split("\n")]
    if outcome.truncated:
        parts.append(_text(f"(the start of {outcome.content_bytes} bytes; a program can read the whole)", "dim"))
    if outcome.authorize_url:
        parts.append(_text(f"Authorize first: {outcome.authorize_url}"))
    return _section("Outcome" if outcome.is_error else "Result", *parts)


def _section(title: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(""), Text(title, "bold"), Padding(Group(*parts), (0, 0, 0, 2), expand=False))


def _pairs(values: Mapping[str, Text | None]) -> Table:
    """Names and values, one pair on each line; a pair without a value is left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", style="dim")
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None:
            grid.add_row(_text(name), value)
    return grid


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=heading in _SHORT, overflow="fold")
    return table


def _optional(value: object) -> Text | None:
    return _text(str(value)) if value is not None else None


def _coloured(word: str) -> Text:
    return _text(word, _STYLES.get(word, ""))


def _text(text: str, style: str = "") -> Text:
    return Text(visible(text), style)
