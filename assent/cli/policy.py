"""The commands for the operator's policy: `assent policy check` reads a file, `assent policy explain` tries a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Group, RenderableType
from rich.table import Table

from assent import agent_calls
from assent.arguments import schema
from assent.cli import common, tables, typed
from assent.cli.listings import Listing
from assent.cli.tables import coloured, span, table_of, text
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.payload import canonical_payload
from assent.policy.file import InvalidPolicy, WrittenRule
from assent.policy.rules import NO_RULES, Asking, Effective, Rules, Trial
from assent.safe import one_line
from assent.temporal.door import TemporalDoor

SOMEBODY = Identity(open_id="somebody")
"""Who asks where nobody is named."""

_policy_file = click.Path(path_type=Path, dir_okay=False)
_MATCHERS = ("tools", "requesters", "conversations", "when")


@common.cli.group("policy")
def _policy() -> None:
    """Check the operator's rules, and try them on a call."""


@_policy.command("check", params=[click.Argument(["file"], type=_policy_file), common.json_option()])
def _check(file: Path, as_json: bool) -> NoReturn:
    """Say whether FILE can be followed, with all that is wrong with it."""
    try:
        answer = _checked(Rules.load(file))
    except InvalidPolicy as error:
        answer = _problems(file, error)
    with suppress(BrokenPipeError):  # whoever stopped reading still gets the exit code
        if as_json:
            tables.print_for_programs(answer.data)
        else:
            tables.print_for_people(answer.shown, to_stderr=answer.to_stderr)
    click.get_current_context().exit(answer.code)


@common.command("explain", _policy)
@click.argument("tool")
@click.option(
    "--arguments",
    required=True,
    metavar="JSON",
    callback=typed.read(typed.arguments),
    help="Their JSON, - for stdin, or @file.",
)
@common.identity("--as", "requester", help="On whose behalf: open_id:…, union_id:… or user_id:…")
@click.option("--chat", "conversation", metavar="CHAT", help="The chat that it is asked for in.")
@click.option(
    "--file",
    "rules",
    metavar="FILE",
    callback=typed.read(lambda path: Rules.load(Path(path))),
    help="A policy that is not in force.  [default: the one that is]",
)
async def _explain(
    door: TemporalDoor,
    tool: str,
    arguments: dict[str, Any],
    requester: Identity | None,
    conversation: str | None,
    rules: Rules | None,
) -> common.Answer:
    """Say which rule applies to a call of TOOL and why, and what holds for it."""
    published = (agent_calls.MANIFEST, *await door.manifests())
    manifest = next((found for found in published if found.name == tool), None)
    if manifest is None:
        sentence = f"No worker has published a tool named {one_line(repr(tool))}."
        return common.Answer(sentence, {"tool": tool, "known": False}, common.Exit.NOT_FOUND, to_stderr=True)
    if rules is None:
        rules = Rules.published(await door.policy())
    payload = canonical_payload(tool, schema.complete(manifest.parameters, arguments))
    return explanation(rules, manifest, Asking.of(payload, requester or SOMEBODY, conversation))


def explanation(rules: Rules, manifest: Manifest, asking: Asking) -> common.Answer:
    """Which rule applies to a call and why none before it, and what holds."""
    trials, effective = list(rules.trials(asking)), rules.effective(manifest, asking)
    named = Listing(
        ("RULE", "APPLIES", "WHY"),
        [(text(trial.rule), text(_answer(trial)), text(trial.why)) for trial in trials],
        "There are no rules.",
    )
    data = {
        "policy_sha256": rules.sha256 if rules is not NO_RULES else None,
        "trials": [trial.model_dump(mode="json") for trial in trials],
        "effective": effective.model_dump(mode="json"),
    }
    parts: list[RenderableType] = [
        text(_verdict(rules, trials, effective)),
        text(""),
        named,
        text(""),
        _what_holds(effective, _said_by_rule(rules, trials, effective)),
    ]
    return common.Answer(Group(*parts), data)


def _answer(trial: Trial) -> str:
    return "yes" if trial.applies else "unknown" if trial.in_doubt else "no"


def _verdict(rules: Rules, trials: Sequence[Trial], effective: Effective) -> str:
    if effective.rule is not None and effective.in_doubt and effective.denied:
        return f"Whether rule {effective.rule.name!r} applies cannot be said, so the call is denied."
    if effective.rule is None:
        return f"None of {len(trials)} rules applies: what the tool says holds."
    stands = "cannot be applied, so the call is denied" if trials[-1].is_broken else "applies"
    return f"Rule {effective.rule.name!r}, {len(trials)} of {len(rules.names)}, {stands}."


def _what_holds(effective: Effective, by_rule: Collection[str]) -> Table:
    """What holds for the call, and who says so."""
    holds = {
        "execution": effective.permission.execution,
        "denied": effective.denied,
        "approvers": tables.who(effective.approvers),
        "risk": effective.risk,
        "ttl": _span(effective.ttl),
        "result": effective.permission.result,
        "result_ttl": _span(effective.result_ttl),
        "result_fallback": effective.result_fallback,
        "remember_for": _span(effective.remember_for),
        "remind_after": _part(effective.remind_after),
        "escalate_after": _part(effective.escalate_after),
        "escalate_to": ", ".join(map(str, effective.escalate_to)) or None,
    }
    table = table_of("WHAT", "HOLDS", "AS SAID BY")
    for name, value in holds.items():
        if value is not None:
            table.add_row(text(name), coloured(value), text("the rule" if name in by_rule else "the tool"))
    for sentence in effective.warnings:
        table.add_row(text("warning"), text(sentence), text("the rule"))
    return table


def _said_by_rule(rules: Rules, trials: Sequence[Trial], effective: Effective) -> frozenset[str]:
    """The keys that the rule which applies speaks of."""
    if effective.in_doubt and effective.denied:
        return frozenset(("execution", "denied"))
    if not trials or not trials[-1].applies:
        return frozenset()
    said = frozenset(rules.rules[len(trials) - 1].model_fields_set)
    if trials[-1].is_broken:
        return frozenset(("execution", "denied"))
    return said | {"denied"} if "execution" in said else said


def _span(length: timedelta | None) -> str | None:
    return span(int(length.total_seconds())) if length is not None else None


def _part(part: float | None) -> str | None:
    return f"{part:.0%} of its time" if part is not None else None


def _checked(rules: Rules) -> common.Answer:
    lines = [
        (text(str(number)), text(rule.name), text(_about(rule)), text(_sets(rule)))
        for number, rule in enumerate(rules.rules, 1)
    ]
    sentence = f"{len(lines)} rules, sha256 {rules.sha256}"
    listing = Listing(("NUMBER", "RULE", "ABOUT", "SETS"), lines, "It has no rules: what the tools say holds.")
    data = {"valid": True, "sha256": rules.sha256, "rules": list(rules.names), "problems": []}
    return common.Answer(Group(text(sentence), text(""), listing), data)


def _about(rule: WrittenRule) -> str:
    named = []
    for key in _MATCHERS:
        value = getattr(rule, key)
        if value is not None:
            named.append(f"{key}: {rule.when.text if key == 'when' and rule.when else ', '.join(map(str, value))}")
    return "; ".join(named) or "every call"


def _sets(rule: WrittenRule) -> str:
    told = rule.model_fields_set - {"name", "reason", *_MATCHERS}
    words = [f"{key} {getattr(rule, key)}" if key in ("execution", "result", "risk") else key for key in sorted(told)]
    return ", ".join(words) or "nothing: what the tool says holds"


def _problems(file: Path, error: InvalidPolicy) -> common.Answer:
    lines = [text(f"{file} cannot be followed:"), *(text(f"  {problem}") for problem in error.problems)]
    data = {"valid": False, "sha256": None, "rules": [], "problems": list(error.problems)}
    return common.Answer(Group(*lines), data, common.Exit.USAGE, to_stderr=True)
