"""What docs/policy.md says is true: its keys are those of the code, and its examples decide as their tables say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from assent.arguments import schema
from assent.cli.policy import explanation
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.permission import Execution, Fallback, ResultReview
from assent.payload import canonical_payload
from assent.policy import conditions
from assent.policy import file as policy_file
from assent.policy.rules import Asking, Rules
from assent.settings import Settings
from assent.tools.definition import Registry, Tool
from tests.support.command_line import shown
from tests.support.documents import ROOT, commands, rows, section, snippets

POLICY = ROOT / "docs" / "policy.md"
EXAMPLES = ("Amounts decide", "People and places decide", "Everything is stopped")
REQUESTER = Identity(open_id="ou_requester")
MATCHERS = {"tools", "requesters", "conversations", "when"}


@pytest.fixture(scope="module")
def manifests() -> dict[str, Manifest]:
    """The tools that `make dev` offers, without registering them for other tests."""
    from assent.tools import definition as tools

    before, tools.registry.tools = tools.registry.tools, Registry().tools
    try:
        from workers import samples
    finally:
        tools.registry.tools = before
    return {found.name: found.manifest for found in vars(samples).values() if isinstance(found, Tool)}


def example(heading: str) -> tuple[Rules, list[dict[str, str]]]:
    """The policy of an example, and the lines of its table."""
    words = section(POLICY, heading)
    (code,) = re.findall(r"^```toml\n(.*?)^```$", words, re.MULTILINE | re.DOTALL)
    head, _, *lines = (
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", words, re.M)
    )
    return Rules.parse(code), [dict(zip(head, line, strict=True)) for line in lines]


def asked(manifest: Manifest, arguments: dict[str, Any]) -> Asking:
    payload = canonical_payload(manifest.name, schema.complete(manifest.parameters, arguments))
    return Asking.of(payload, REQUESTER, "oc_customers")


@pytest.mark.parametrize("heading", EXAMPLES)
def test_example_decides_as_its_table_says(heading: str, manifests: dict[str, Manifest]) -> None:
    rules, lines = example(heading)
    assert len(lines) >= 3
    assert {line["rule"] for line in lines} - {"none"} <= set(rules.names)
    for line in lines:
        manifest = manifests[line["tool"]]
        effective = rules.effective(manifest, asked(manifest, json.loads(line["arguments"])))
        found = effective.rule.name if effective.rule else "none"
        assert (found, effective.permission.execution, str(len(effective.warnings))) == (
            line["rule"],
            line["execution"],
            line["warnings"],
        )


def test_every_file_in_it_is_a_policy() -> None:
    files = list(snippets("toml", POLICY))
    assert len(files) == len(EXAMPLES) + 1
    for file in files:
        assert Rules.parse(file.code).names


def test_keys_are_those_of_the_code() -> None:
    keys = policy_file.WrittenRule.model_fields.keys()
    tables = rows(POLICY, "Rules")
    assert tables.keys() - {"key"} == keys
    assert set(re.findall(r"^\| `(\w+)` \|", section(POLICY, "Rules"), re.MULTILINE)[:4]) == MATCHERS
    assert rows(POLICY, "Approvers").keys() == policy_file.Group.model_fields.keys()
    assert tuple(rows(POLICY, "Conditions")) == conditions.VARIABLES
    for key, words in (
        ("execution", Execution),
        ("result", ResultReview),
        ("risk", Risk),
        ("result_fallback", Fallback),
    ):
        assert set(re.findall('"([a-z-]+)"', tables[key][0])) == set(words)


def test_functions_and_limits_are_those_of_the_code() -> None:
    words = section(POLICY, "Conditions")
    named = set(re.findall(r"`(\w+)`", words))
    missing = {*conditions.LOOPS, *conditions.FUNCTIONS} - named
    assert all(name.startswith("get") for name in missing), missing
    assert f"at most {conditions.MAX_CHARACTERS} characters" in words
    assert f"more than {conditions.MAX_VALUES} values" in words
    assert f"Up to {policy_file.MAX_RULES} rules and {policy_file.MAX_BYTES // 1024} KiB" in section(POLICY, "Rules")
    assert Settings.model_fields["policy_every"].default.total_seconds() == 2
    assert "looks every two seconds (`ASSENT_POLICY_EVERY`)" in POLICY.read_text()


def test_explain_says_what_is_shown(manifests: dict[str, Manifest]) -> None:
    (command,) = [words for words in commands(POLICY) if words[1:3] == ["policy", "explain"]]
    arguments = json.loads(command[command.index("--arguments") + 1])
    rules, _ = example(EXAMPLES[0])
    manifest = manifests[command[3]]
    (printed,) = snippets("text", POLICY)
    said = [
        line.rstrip() for line in shown(explanation(rules, manifest, asked(manifest, arguments))).strip().split("\n")
    ]
    assert said == printed.code.rstrip("\n").split("\n")
