"""What the command line prints: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assent.cli.sentences import happened, settler
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Judged, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Edit
from assent.contracts.policy import Rule
from assent.contracts.presentation import Presentation
from assent.contracts.ruling import Settlement
from assent.contracts.state import PendingItem, Progress, State
from assent.contracts.status import Phase, Status
from assent.masking import MASK, Mask
from assent.payload import argument_values, short_hash
from assent.reading import Line, Spoken, written
from assent.safe import one_line
from assent.temporal.reviews import Review

UNLIMITED = 1_000_000
"""The width of a pipe: nothing is wrapped or cut where no terminal asks for it."""
MAY_GO_ON = "The worker that ran it is not known to be dead: the call may still take effect."
_SHORT = ("ID", "STATUS", "REQUESTED", "RISK", "AGE", "WHEN", "DECISION", "VERDICT", "WAITS", "LEFT", "STATE", "UNTIL")
"""Columns that are never wrapped."""
_STYLES: Mapping[str, str] = {
    "ok": "green",
    "wrong": "bold red",
    "missing": "yellow",
    "not checked": "dim",
    "pending": "yellow",
    "executing": "cyan",
    "reviewing": "cyan",
    "executed": "green",
    "replayed": "green",
    "approved": "green",
    "rejected": "red",
    "failed": "red",
    "frozen": "bold magenta",
    "low": "green",
    "medium": "yellow",
    "high": "bold red",
}


def unmasked(arguments: dict[str, Any], state: State) -> dict[str, Any]:
    """Arguments as a person meant them who was shown masks: what was left masked stays as it is."""
    original = argument_values(state.payload) if state.payload else {}
    hidden = {name: original[name] for name in state.sensitive if name in original and arguments.get(name) == MASK}
    return {**arguments, **hidden}


def print_for_people(shown: RenderableType, *, to_stderr: bool = False) -> None:
    """Print a table or a sentence: fitted to a terminal; plain and complete in a pipe."""
    stream = sys.stderr if to_stderr else sys.stdout
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not stream.isatty():
        console.width = UNLIMITED
    with console.capture() as captured:
        console.print(shown, soft_wrap=isinstance(shown, str))
    lines = captured.get().rstrip("\n").split("\n")
    stream.write("".join(f"{line.rstrip()}\n" for line in lines))
    stream.flush()


def print_for_programs(data: object) -> None:
    """Print JSON; characters that a terminal would obey or hide are written as escapes."""
    lines = json.dumps(data, ensure_ascii=False, indent=2).split("\n")
    sys.stdout.write("".join(f"{_as_escapes(line)}\n" for line in lines))
    sys.stdout.flush()


def _as_escapes(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\u3000" else _escape(c) for c in line)


def _escape(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def state_data(state: State) -> dict[str, Any]:
    """A state for programs: its arguments in the payload's place, the sensitive ones masked."""
    shown = state.model_dump(mode="json", exclude={"payload", "edit"})
    if isinstance(state, PendingItem) and state.result is not None:
        shown["result"]["preview"] = Mask.of(state).text(state.result.preview)
    return {**shown, "arguments": _arguments(state), "edit": _edit_data(state.edit, state.sensitive)}


def outcome_data(outcome: Outcome, sensitive: Sequence[str]) -> dict[str, Any]:
    """An outcome for programs; of an edit both sets of arguments, the sensitive ones masked."""
    return {**outcome.model_dump(mode="json", exclude={"edit"}), "edit": _edit_data(outcome.edit, sensitive)}


def _edit_data(edit: Edit | None, sensitive: Sequence[str]) -> dict[str, Any] | None:
    if edit is None:
        return None
    kept = edit.model_dump(mode="json", exclude={"payload", "proposed_payload"})
    proposed, edited = masked(edit.proposed_payload, sensitive), masked(edit.payload, sensitive)
    return {**kept, "proposed_arguments": proposed, "arguments": edited}


def _arguments(state: State) -> dict[str, Any] | None:
    """The arguments as their tool declares them one after the other."""
    if state.payload is None:
        return None
    found = masked(state.payload, state.sensitive)
    return {name: found[name] for name in state.presentation.sorted(found)}


def masked(payload: str, sensitive: Sequence[str]) -> dict[str, Any]:
    """The arguments of a payload, the sensitive ones masked."""
    arguments = argument_values(payload)
    return {name: MASK if name in sensitive else value for name, value in arguments.items()}


def approval_page(
    state: State,
    outcome: Outcome | None = None,
    settlement: Settlement | None = None,
    review: Review | None = None,
) -> RenderableType:
    """One approval: what it is, what would run, what was decided, how it ended, and how it can be settled."""
    mask = Mask.of(state)
    outcome = mask.outcome(outcome) if outcome else None
    settlement = mask.settlement(settlement) if settlement else None
    parts = [call_page(state, outcome)]
    if state.decisions:
        parts.append(_section("Decisions", _decisions_table(state.decisions)))
    if outcome is not None:
        parts.append(_result(outcome))
    if state.status is Status.FROZEN:
        parts.append(_settled(settlement) if settlement else _open(state, review))
    return Group(*parts)


def call_page(state: State, outcome: Outcome | None = None) -> RenderableType:
    """What an approval is about, and what would run."""
    mask = Mask.of(state)
    said = {name: mask.text(getattr(state, name) or "") or None for name in ("reason", "request_reason")}
    state = state.model_copy(update=said)
    parts: list[RenderableType] = [_facts(state, outcome)]
    if state.warnings:
        parts.append(_section("Warnings", *(text(warning, "bold red") for warning in state.warnings)))
    arguments = _arguments(state)
    if arguments is not None:
        parts.append(_section("Arguments", _arguments_table(arguments, state.sensitive, state.presentation)))
    if state.edit is not None:
        parts.append(_edit(state.edit, state.sensitive, state.presentation))
    return Group(*parts)


def result_page(result: str, state: State) -> RenderableType:
    """A result that waits to be released, whole, but for the values that are nobody's to see."""
    result = Mask.of(state).text(result)
    return _section("Result, not yet released", *(text(line) for line in result.split("\n")))


def outcome_page(outcome: Outcome, state: State | None = None) -> RenderableType:
    """How an approval ended, and what came of it.

    state: what it was about, where that is known: it names the values that are nobody's to see.
    """
    sensitive = state.sensitive if state else ()
    outcome = Mask.of(state).outcome(outcome) if state else outcome
    facts = _pairs(
        {
            "Approval": text(outcome.approval_id),
            "Status": coloured(outcome.status),
            "Decided by": _optional(outcome.decided_by),
            **_endorsed(outcome),
            "Reason": _optional(outcome.reason),
        }
    )
    read = state.presentation if state else Presentation()
    edit = [_edit(outcome.edit, sensitive, read)] if outcome.edit else []
    return Group(facts, *edit, _result(outcome))


def _endorsed(outcome: Outcome) -> dict[str, Text | None]:
    """By whose word and by which rule it ended so."""
    several = outcome.approved_by if outcome.approved_by not in ((), (outcome.decided_by,)) else None
    return {
        "Approved by": text(", ".join(map(str, several))) if several else None,
        "Rule": _rule(outcome.rule),
        "Grant": _optional(outcome.grant_id),
        "Withheld": text(outcome.withheld_reason or "its result is kept from the agent") if outcome.withheld else None,
    }


def _rule(rule: Rule | None) -> Text | None:
    return text(f"{rule.name} (policy {short_hash(rule.policy_sha256)})") if rule else None


def _edit(edit: Edit, sensitive: Sequence[str], read: Presentation) -> RenderableType:
    """What was proposed instead."""
    facts = _pairs({"By": text(str(edit.by)), "Payload": text(short_hash(edit.proposed_payload_sha256))})
    proposed = masked(edit.proposed_payload, sensitive)
    return _section("Edited; proposed was", facts, _arguments_table(proposed, sensitive, read))


def frozen_page(state: State, review: Review) -> RenderableType:
    """A frozen call, for who is about to say what became of it."""
    return Group(call_page(state), _section("What is known", *_known(state, review)))


def _open(state: State, review: Review | None) -> RenderableType:
    """What is known of a frozen call that nobody has settled, and how it can be."""
    settle, said = f"assent settle {state.approval_id}", "--as … --reason …"
    cannot = "not possible: the tool is not retry_safe, and no attempt said that nothing happened"
    may_retry = review is None or review.examined.may_retry(review.frozen)
    ways = {
        "It happened": text(f"{settle} executed {said} --content RESULT"),
        "It did not, and no longer can": text(f"{settle} not-executed {said}"),
        "Try it again": text(f"{settle} retry {said}" if may_retry else cannot),
    }
    todo = text("Open: look into the system that it would have changed, then say what you found.")
    known = _known(state, review) if review else []
    return _section("Settlement", *known, todo, _pairs(ways))


def _known(state: State, review: Review) -> list[RenderableType]:
    """What is known of a frozen call: what to search for at the other end, and what its last attempt left."""
    review = Review(Mask.of(state).frozen(review.frozen), Mask.of(state).examined(review.examined))
    frozen, seen = review.frozen, review.examined.attempts[-1] if review.examined.attempts else None
    facts = {
        "Idempotency key": text(frozen.call.idempotency_key),
        "Frozen since": text(_moment(frozen.frozen_at)),
        "Error": _optional((seen.error if seen else None) or frozen.error),
        "Worker": _optional(seen.worker if seen else None),
        "Began": text(_moment(seen.began_at)) if seen and seen.began_at else None,
        "Ended": text(_moment(seen.ended_at)) if seen and seen.ended_at else None,
        "Probed": text(f"{frozen.probes} times" if frozen.has_probe else "the tool has no probe"),
    }
    late = [
        text(f"It ended after all, at {_moment(each.at)}: {each.state} {each.content or each.error or ''}".rstrip())
        for attempt in review.examined.attempts
        for each in attempt.late
    ]
    return [_pairs(facts), *late, *([text(MAY_GO_ON, "bold red")] if review.may_go_on else [])]


def _settled(settlement: Settlement) -> RenderableType:
    """What a frozen call turned out to be."""
    facts = _pairs(
        {
            "Found": text(happened(settlement) + (", after it was tried again" if settlement.retried else "")),
            "By": text(settler(settlement)),
            "When": text(_moment(settlement.settled_at)),
            "Reason": _optional(settlement.reason),
            "Result": text(json.dumps(settlement.content, ensure_ascii=False)) if settlement.content else None,
        }
    )
    return _section("Settlement", facts)


def _facts(state: State, outcome: Outcome | None) -> Table:
    return _pairs(
        {
            "Approval": text(state.approval_id),
            "Status": coloured(state.status or state.phase),
            "Reason": _optional(state.reason),
            "Decided by": _optional(state.decided_by),
            **(_endorsed(outcome) if outcome else {}),
            "Tool": text(state.tool),
            "Risk": coloured(state.risk) if state.risk else None,
            "Requester": text(str(state.requester)),
            "Why": _optional(state.request_reason),
            "May decide": text(_may_decide(state, state.approvers)) if state.approvers else None,
            "Progress": text(_progress(state.progress)) if state.progress and _is_shared(state.progress) else None,
            "Delegated": text(_delegated(state.progress)) if state.progress and state.progress.delegations else None,
            **({} if outcome else {"Rule": _rule(state.rule), "Grant": _optional(state.grant_id)}),
            "Deadline": text(_deadline(state)) if state.deadline else None,
            "Payload": text(short_hash(state.payload_sha256)) if state.payload_sha256 else None,
            "Result": text(short_hash(state.result_sha256)) if state.result_sha256 else None,
            "Release by": text(_moment(state.result_deadline)) if state.result_deadline else None,
            "Set aside": text(f"{state.malformed} messages that could not be read") if state.malformed else None,
        }
    )


def who(approvers: Approvers) -> str:
    """Who may decide, stage by stage."""
    return ", then ".join(map(_group, approvers.stages))


def _may_decide(state: State, approvers: Approvers) -> str:
    """Who may decide, stage by stage: of the stage that is asked those who still can, and of those after it all."""
    progress = state.progress
    if progress is None or state.phase is not Phase.PENDING:
        return who(approvers)
    gone = [*(judged.actor for judged in progress.approvals), *(giver for giver, _ in progress.delegations)]
    named = _named(progress.approvers, state.requester)
    for each in (*(taker for _, taker in progress.delegations), *progress.called):
        named += [] if each.is_among(named) else [each]
    is_requester = progress.approvers.kind is Approvers.Kind.REQUESTER
    people = [
        "the requester" if is_requester and each.is_same_person(state.requester) else str(each)
        for each in named
        if not each.is_among(gone)
    ]
    return ", then ".join([_asked(progress, people), *map(_group, approvers.stages[progress.stage :])])


def _named(group: Approvers, requester: Identity) -> list[Identity]:
    return [requester] if group.kind is Approvers.Kind.REQUESTER else [*group.people]


def _asked(progress: Progress, people: list[str]) -> str:
    """Those whose turn it is, and how many more of them must approve."""
    group, more = progress.approvers, progress.approvers.threshold - progress.approved
    others = [_in_words(group)] if group.kind in (Approvers.Kind.ANYONE, Approvers.Kind.CHAT) else []
    several = f"{more} {'more ' if progress.approved else ''}of " if group.threshold > 1 else ""
    return several + ", ".join([*others, *people]) + _not_requester(group)


def _group(group: Approvers) -> str:
    several = f"{group.threshold} of " if group.threshold > 1 else ""
    return several + _in_words(group) + _not_requester(group)


def _in_words(group: Approvers) -> str:
    match group.kind:
        case Approvers.Kind.REQUESTER:
            return "the requester"
        case Approvers.Kind.ANYONE:
            return "anyone"
        case Approvers.Kind.CHAT:
            return f"members of {group.chat_id}"
        case Approvers.Kind.PEOPLE:
            return ", ".join(map(str, group.people))


def _not_requester(group: Approvers) -> str:
    return ", not the requester" if group.exclude_requester else ""


def _is_shared(progress: Progress) -> bool:
    """Whether more than one approval is needed."""
    return progress.stages > 1 or progress.approvers.threshold > 1


def _progress(progress: Progress) -> str:
    stage = f"stage {progress.stage} of {progress.stages}: " if progress.stages > 1 else ""
    people = ", ".join(str(judged.actor) for judged in progress.approvals)
    return f"{stage}{progress.approved} of {progress.approvers.threshold}" + (f" ({people})" if people else "")


def _delegated(progress: Progress) -> str:
    return ", ".join(f"{giver} to {taker}" for giver, taker in progress.delegations)


def _deadline(state: State) -> str:
    assert state.deadline is not None
    left = int((state.deadline - datetime.now(UTC)).total_seconds())
    if state.status is not None or state.decided_by is not None or left <= 0:
        return _moment(state.deadline)
    return f"{_moment(state.deadline)} (in {span(left)})"


def span(seconds: int) -> str:
    """A length of time in its two largest units that matter: 3 d 4 h, 2 h 59 min, 14 min, 4 min 30 s."""
    left, parts = max(seconds, 0), list[str]()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if unit == "s" and seconds >= 600:
            break
        if left >= length or (unit == "s" and not parts):
            parts.append(f"{left // length} {unit}")
            left %= length
        elif parts:
            break
    return " ".join(parts[:2])


def moment(at: datetime) -> str:
    """A time as lists show it; their headings name the zone, which is the same everywhere: that of this machine."""
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def zone() -> str:
    return f"{datetime.now().astimezone():%Z}"


def _moment(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def call_lines(states: Iterable[State]) -> dict[str, str]:
    """What each call is about on one line, by its approval: as its tool says it, or else by all of its arguments.

    What tells the calls of a tool apart comes first. Sensitive ones are masked, and what is null says nothing.
    """
    found = {state.approval_id: state for state in states}
    calls = {name: _spoken(state) for name, state in found.items()}
    said: dict[tuple[str, str], set[str]] = {}
    for name, arguments in calls.items():
        for each in arguments:
            said.setdefault((found[name].tool, each.name), set()).add(each.said(UNLIMITED))
    lines = {}
    for name, arguments in calls.items():
        tool, summary = found[name].tool, found[name].presentation.summary
        apart_first = sorted(arguments, key=lambda each: len(said[tool, each.name]) == 1)
        pairs = " · ".join(each.pair(UNLIMITED) for each in apart_first)
        lines[name] = (Line(summary.en, arguments).within(UNLIMITED) if summary else pairs) or "-"
    return lines


def _spoken(state: State) -> tuple[Spoken, ...]:
    values = argument_values(state.payload) if state.payload is not None else {}
    spoken = Spoken.all_of(values, state.presentation, state.sensitive)
    return tuple(each for each in spoken if each.value is not None)


def _arguments_table(arguments: Mapping[str, Any], sensitive: Sequence[str], read: Presentation) -> RenderableType:
    """Each as JSON, and decimals as numbers, as their tool declares them one after the other."""
    if not arguments:
        return text("none", "dim")
    values = {
        name: text(MASK, "dim")
        if name in sensitive
        else text(written(value, is_decimal=True) if name in read.decimals else json.dumps(value, ensure_ascii=False))
        for name, value in ((name, arguments[name]) for name in read.sorted(arguments))
    }
    return _pairs(values)


def _decisions_table(decisions: Sequence[Judged]) -> Table:
    table = table_of(f"WHEN ({zone()})", "DECISION", "VERDICT", "BY")
    for judged in sorted(decisions, key=lambda judged: judged.received_at):
        colour = "green" if judged.verdict is VerdictKind.ACCEPTED else "red"
        table.add_row(
            text(f"{judged.received_at.astimezone():%Y-%m-%d %H:%M:%S}"),
            text(judged.kind),
            text(judged.verdict, colour),
            text(str(judged.actor)),
        )
    return table


def _result(outcome: Outcome) -> RenderableType:
    content = outcome.content
    told = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    parts: list[RenderableType] = [text(line) for line in told.split("\n")]
    if outcome.truncated:
        parts.append(text(f"(the start of {outcome.content_bytes} bytes; a program can read the whole)", "dim"))
    if outcome.authorize_url:
        parts.append(text(f"Authorize first: {outcome.authorize_url}"))
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
            grid.add_row(text(name), value)
    return grid


def table_of(*headings: str) -> Table:
    """A table without lines yet."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=heading.partition(" ")[0] in _SHORT, overflow="fold")
    return table


def _optional(value: object) -> Text | None:
    return text(str(value)) if value is not None else None


def coloured(word: str) -> Text:
    """A word in the colour of what it says."""
    return text(word, _STYLES.get(word, ""))


def text(said: str, style: str = "") -> Text:
    """Words of others, on one line and with nothing hidden in them."""
    return Text(one_line(said), style)
