"""`assent policy`: a file is checked, and a call is tried against it or against what is in force."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assent.cli.main import Exit, cli
from assent.cli.policy import explanation
from assent.contracts.approvers import Approvers
from assent.contracts.permission import Execution, Permission
from assent.payload import sha256
from assent.policy.rules import NO_RULES, Rules
from tests.support.command_line import CommandLine, call, command_line, shown
from tests.support.policies import asking, manifest, rule

POLICY = (
    rule('tools = ["pay_*"]', 'execution = "deny"', 'reason = "Month-end closing."', name="closing")
    + rule('requesters = ["open_id:ou_boss"]', 'execution = "auto"', name="boss")
    + rule('conversations = ["oc_9"]', 'execution = "auto"', name="elsewhere")
    + rule(
        'tools = ["send_*"]',
        'when = "arguments.amount > 1000"',
        'execution = "ask-always"',
        'approvers = [{people = ["open_id:a", "open_id:b"], threshold = 2, exclude_requester = true}, {chat = "oc_1"}]',
        'ttl = "4h"',
        "remind_after = 0.25",
        "escalate_after = 0.5",
        'escalate_to = ["open_id:ou_boss"]',
        'result = "always"',
        'result_ttl = "1d"',
        'result_fallback = "release"',
        'warnings = [{text = "More than a thousand."}]',
        name="large",
    )
)


def check(file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["policy", "check", str(file), *options])


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The lines under a heading, by their first column."""
    lines = text[text.index(heading) :].split("\n")[1:]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    end = next((number for number, line in enumerate(cells) if not line), len(cells))
    return {line[0]: line[1:] for line in cells[:end]}


# check


def test_good_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    checked = check(tmp_path / "policy.toml")
    assert checked.exit_code == Exit.DONE
    assert checked.stdout.startswith(f"4 rules, sha256 {sha256(POLICY)}\n")
    lines = table(checked.stdout, "NUMBER")
    assert lines["1"] == ["closing", "tools: pay_*", "execution deny"]
    assert lines["4"][:2] == ["large", "tools: send_*; when: arguments.amount > 1000"]
    data = json.loads(check(tmp_path / "policy.toml", "--json").stdout)
    assert data == {
        "valid": True,
        "sha256": sha256(POLICY),
        "rules": ["closing", "boss", "elsewhere", "large"],
        "problems": [],
    }


def test_wrong_file_is_told_all_its_problems(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(rule("ttl = 0", 'risk = "huge"') + rule())
    checked = check(tmp_path / "policy.toml")
    assert (checked.exit_code, checked.stdout) == (Exit.USAGE, "")
    assert [line.split(": ")[:2] for line in checked.stderr.strip().split("\n")[1:]] == [
        ["  rule 1 ('r')", "risk"],
        ["  rule 1 ('r')", "ttl"],
        ["  rule 2 ('r')", "name"],
    ]
    told = check(tmp_path / "policy.toml", "--json")
    assert told.exit_code == Exit.USAGE
    assert len(json.loads(told.stdout)["problems"]) == 3


def test_missing_file_is_said(tmp_path: Path) -> None:
    checked = check(tmp_path / "none.toml")
    assert checked.exit_code == Exit.USAGE
    assert "it cannot be read: No such file or directory" in checked.stderr


def test_file_without_rules_is_good(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("# none yet\n")
    checked = check(tmp_path / "policy.toml")
    assert checked.exit_code == Exit.DONE
    assert "0 rules" in checked.stdout
    assert "It has no rules" in checked.stdout


# explain


def test_explanation_says_which_rule_applies_and_why_none_before_it() -> None:
    answer = explanation(Rules.parse(POLICY), manifest(), asking(amount=2000))
    said = shown(answer)
    assert said.startswith("Rule 'large', 4 of 4, applies.\n")
    assert table(said, "RULE") == {
        "closing": ["no", "tools: send_mail is none of pay_*"],
        "boss": ["no", "requesters: open_id:ou_me is none of open_id:ou_boss"],
        "elsewhere": ["no", "conversations: oc_1 is none of oc_9"],
        "large": ["yes", "tools, when match"],
    }
    assert table(said, "WHAT") == {
        "execution": ["ask-always", "the rule"],
        "approvers": [
            "2 of open_id:a, open_id:b, not the requester, then members of oc_1",
            "the rule",
        ],
        "risk": ["medium", "the tool"],
        "ttl": ["4 h", "the rule"],
        "result": ["always", "the rule"],
        "result_ttl": ["1 d", "the rule"],
        "result_fallback": ["release", "the rule"],
        "remind_after": ["25% of its time", "the rule"],
        "escalate_after": ["50% of its time", "the rule"],
        "escalate_to": ["open_id:ou_boss", "the rule"],
        "warning": ["More than a thousand.", "the rule"],
    }
    assert isinstance(answer.data, dict)
    assert answer.data["policy_sha256"] == sha256(POLICY)
    assert [trial["applies"] for trial in answer.data["trials"]] == [False, False, False, True]
    assert answer.data["effective"]["permission"] == {"execution": "ask-always", "result": "always"}
    assert json.loads(json.dumps(answer.data)) == answer.data


def test_explanation_says_that_no_rule_applies() -> None:
    tool = manifest(
        permission=Permission(execution=Execution.AUTO),
        approvers=Approvers.of("anyone"),
        max_ttl=timedelta(minutes=5),
    )
    said = shown(explanation(Rules.parse(POLICY), tool, asking(amount=1)))
    assert said.startswith("None of 4 rules applies: what the tool says holds.\n")
    assert table(said, "RULE")["large"] == ["no", "when: arguments.amount > 1000 is false"]
    holds = table(said, "WHAT")
    assert holds["execution"] == ["auto", "the tool"]
    assert holds["approvers"] == ["anyone", "the tool"]
    assert {said_by for *_, said_by in holds.values()} == {"the tool"}
    assert "There are no rules." in shown(explanation(NO_RULES, tool, asking()))


def test_explanation_of_a_rule_that_cannot_be_applied_says_what_to_do() -> None:
    said = shown(explanation(Rules.parse(POLICY), manifest(), asking()))
    assert said.startswith("Rule 'large', 4 of 4, cannot be applied, so the call is denied.\n")
    assert "there is no 'amount'" in table(said, "RULE")["large"][1]
    holds = table(said, "WHAT")
    assert holds["execution"] == ["deny", "the rule"]
    assert "has(arguments.x)" in holds["denied"][0]
    assert holds["ttl"] == ["1 h", "the tool"]


def test_explanation_of_a_denied_call_gives_the_reason() -> None:
    pay = asking().model_copy(update={"tool": "pay_bill"})
    said = shown(explanation(Rules.parse(POLICY), manifest(name="pay_bill"), pay))
    assert said.startswith("Rule 'closing', 1 of 4, applies.\n")
    assert table(said, "WHAT")["denied"] == [
        "the operator's rule 'closing' does not allow it: Month-end closing.",
        "the rule",
    ]


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("policy"), temporal_address, next(namespaces))


async def test_command_explains_what_is_in_force_and_what_is_in_a_file(assent: CommandLine, tmp_path: Path) -> None:
    explain = ("policy", "explain", "mark", *call(tmp_path), "--as", "open_id:ou_me", "--json")
    assert (await assent(*explain)).data["trials"] == []
    deny = rule('tools = ["mark"]', 'requesters = ["open_id:ou_me"]', 'execution = "deny"')
    async with assent.service.policy(deny):
        told = await assent(*explain)
    assert told.code == Exit.DONE
    assert told.data["policy_sha256"] == sha256(deny)
    assert told.data["effective"]["permission"]["execution"] == "deny"
    assert told.data["effective"]["rule"]["name"] == "r"
    file = write(tmp_path, rule("when = \"arguments.note.startsWith('x')\"", name="noted"))
    from_file = await assent(*explain[:-1], "--file", str(file))
    assert from_file.code == Exit.DONE
    assert "noted" in table(from_file.out, "RULE")


async def test_command_refuses_what_it_cannot_explain(assent: CommandLine, tmp_path: Path) -> None:
    unknown = await assent("policy", "explain", "nothing", "--arguments", "{}")
    assert unknown.code == Exit.NOT_FOUND
    assert "No worker has published a tool named 'nothing'." in unknown.err
    invalid = await assent("policy", "explain", "mark", "--arguments", '{"pth": 1}')
    assert invalid.code == Exit.USAGE
    wrong = await assent("policy", "explain", "mark", *call(tmp_path), "--file", str(write(tmp_path, rule("ttl = 0"))))
    assert wrong.code == Exit.USAGE
    assert "rule 1 ('r'): ttl: it must be positive" in wrong.err


def write(directory: Path, text: str) -> Path:
    file = directory / "policy.toml"
    file.write_text(text)
    return file
