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
from assent.client.client import Assent
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.permission import Execution, ResultReview
from assent.contracts.policy import Override
from assent.contracts.values import Surface
from assent.durations import parse_duration
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
    """Check the operator's rules, try them on a call, and override what tools say of themselves."""


@_policy.command("check", params=[click.Argument(["file"], type=_policy_file), common.json_option()])
def _check(file: Path, as_json: bool) -> NoReturn:
    """Say whether FILE can be used, and everything that is wrong with it."""
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
    override = None
    if rules is None:
        rules = Rules.published(await door.policy())
        override = next((each for each in await door.overrides() if each.tool == tool), None)
    payload = canonical_payload(tool, schema.complete(manifest.parameters, arguments))
    return explanation(rules, manifest, Asking.of(payload, requester or SOMEBODY, conversation), override)


@common.command("override", _policy)
@click.argument("tool")
@click.option(
    "--execution", type=click.Choice([*map(str, Execution)]), help="Whether a person is asked before it runs."
)
@click.option(
    "--result", type=click.Choice([*map(str, ResultReview)]), help="Whether a person looks at its result first."
)
@click.option(
    "--for",
    "lasting",
    metavar="DURATION",
    callback=typed.read(parse_duration),
    help="How long: 90s, 15m, 2h, 1d.  [default: until another replaces it]",
)
@click.option("--end", "ends", is_flag=True, help="End the override that the tool has.")
@common.identity("--as", "actor", help="Who wants it. Only operators loosen.")
@click.option("--reason", help="Why, for the record.")
async def _override(
    door: TemporalDoor, tool: str, lasting: timedelta | None, ends: bool, actor: Identity | None, **said: Any
) -> common.Answer:
    """Override for a while what TOOL says of itself.

    Where the policy's file says something about a call, the stricter of the two holds. What is denied stays denied.
    """
    if ends == (said["execution"] is not None or said["result"] is not None):
        raise click.UsageError("say --execution, --result or both; or --end, to end the tool's override")
    made = await Assent(door).policy.override(tool, until=lasting, actor=actor, surface=Surface.COMMAND_LINE, **said)
    until = f" until {made.until:%Y-%m-%d %H:%M:%S} UTC" if made.until else ""
    words = [f"{name} {value}" for name, value in (("execution", made.execution), ("result", made.result)) if value]
    sentence = f"{', '.join(words)} holds{until}" if words else "nothing but the file and the tool holds"
    return common.Answer(f"For {one_line(tool)} {sentence}.", made.model_dump(mode="json"))


@common.command("overrides", _policy)
async def _overrides(door: TemporalDoor) -> common.Answer:
    """List the overrides that are in force."""
    found = await door.overrides()
    lines = [
        (
            text(each.tool),
            coloured(each.execution or ""),
            coloured(each.result or ""),
            text(f"{each.until:%Y-%m-%d %H:%M:%S}" if each.until else ""),
            text(str(each.actor or "")),
            text(each.reason or ""),
        )
        for each in found
    ]
    listing = Listing(("TOOL", "EXECUTION", "RESULT", "UNTIL (UTC)", "BY", "REASON"), lines, "No override is in force.")
    return common.Answer(listing, [each.model_dump(mode="json") for each in found])


def explanation(rules: Rules, manifest: Manifest, asking: Asking, override: Override | None = None) -> common.Answer:
    """Which rule applies to a call and why none before it, and what holds."""
    trials, effective = list(rules.trials(asking)), rules.effective(manifest, asking, override)
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
        _what_holds(effective, _said_by_rule(rules, trials, effective), override, manifest),
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


def _what_holds(effective: Effective, by_rule: Collection[str], override: Override | None, manifest: Manifest) -> Table:
    """What holds for the call, and who says so."""
    said_by = {**dict.fromkeys(by_rule, "the rule"), **_overridden(effective, override, by_rule)}
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
            table.add_row(text(name), coloured(value), text(said_by.get(name, "the tool")))
    for place, sentence in enumerate(effective.warnings):
        by_tool = place < len(manifest.warnings)
        table.add_row(text("warning"), text(sentence), text("the tool" if by_tool else "the rule"))
    return table


def _overridden(effective: Effective, override: Override | None, by_rule: Collection[str]) -> dict[str, str]:
    """The keys that hold because an override says so."""
    if override is None:
        return {}
    said = {"execution": override.execution, "result": override.result}
    holds = {"execution": effective.permission.execution, "result": effective.permission.result}
    found = {key for key, word in said.items() if word is not None and word == holds[key] and key not in by_rule}
    found |= {"denied"} if override.execution is Execution.DENY and "denied" not in by_rule else set()
    return dict.fromkeys(found, "the override")


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
