"""The operator's policy: what a file may say, what conditions can be asked, and what stops a call that was planned."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution, Permission
from assent.contracts.policy import Override, Policy
from assent.payload import canonical_payload, sha256
from assent.policy.conditions import MAX_VALUES, Condition, Known, NotEvaluable
from assent.policy.file import MAX_BYTES, MAX_RULES, InvalidPolicy
from assent.policy.rules import NO_RULES, Asking, Rules
from tests.support.documents import ROOT
from tests.support.policies import ME, asking, manifest, rule


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidPolicy) as raised:
        Rules.parse(text)
    return raised.value.problems


# What a file may say


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('executes = "auto"', "executes: there is no such key"),
        ('execution = "sometimes"', "execution: Input should be 'auto', 'ask-once', 'ask-always' or 'deny'"),
        ("execution = true", "execution: Input should be 'auto', 'ask-once', 'ask-always' or 'deny'"),
        ('result = "on_error"', "result: Input should be 'never', 'on-error' or 'always'"),
        ('risk = "huge"', "risk: Input should be 'low', 'medium' or 'high'"),
        ('tools = "send_*"', "tools: Input should be a valid array"),
        ("tools = []", "tools: it is empty; leave it out, or say at least one"),
        ("tools = [1]", "tools.0: Input should be a valid string"),
        ('tools = [""]', "tools.0: String should have at least 1 character"),
        ('requesters = ["ou_1"]', "requesters.0: 'ou_1' is not an identity; write open_id:…, union_id:… or user_id:…"),
        ("requesters = [7]", "requesters.0: name a person as open_id:…, union_id:… or user_id:…"),
        ('conversations = "oc_1"', "conversations: Input should be a valid array"),
        ('ttl = "soon"', "ttl: 'soon' is not a duration; write 90s, 15m, 4h or 1d"),
        ("ttl = 0", "ttl: it must be positive and at most 365 days"),
        ('ttl = "366d"', "ttl: it must be positive and at most 365 days"),
        ("ttl = 1e300", "ttl: longer than the 365 days that anything waits"),
        ("ttl = true", "ttl: write 90s, 15m, 4h or 1d, or a number of seconds"),
        ("ttl = 2030-01-01", "ttl: write 90s, 15m, 4h or 1d, or a number of seconds"),
        ("result_ttl = -1", "result_ttl: it must be positive and at most 365 days"),
        ('remember_for = ""', "remember_for: '' is not a duration; write 90s, 15m, 4h or 1d"),
        ('result_fallback = "drop"', "result_fallback: Input should be 'release' or 'withhold'"),
        ("remind_after = 0", "remind_after: Input should be greater than 0"),
        ("remind_after = 1", "remind_after: Input should be less than 1"),
        ("remind_after = nan", "remind_after: Input should be less than 1"),
        ('remind_after = "0.5"', "remind_after: Input should be a valid number"),
        ("escalate_after = 0.5", "escalate_after: it goes with escalate_to, and neither without the other"),
        (
            'remind_after = 0.5\nescalate_after = 0.5\nescalate_to = ["open_id:a"]',
            "escalate_after: it must come after remind_after",
        ),
        ('reason = "No."', 'reason: it says why a call is denied, and goes with execution = "deny"'),
        ('execution = "deny"\nreason = ""', "reason: String should have at least 1 character"),
        (f'execution = "deny"\nreason = "{"x" * 501}"', "reason: String should have at most 500 characters"),
        ('execution = "deny"\nreason = "a\\nb"', "reason: it must be one line of printable characters"),
        ('warnings = ["Careful."]', "warnings.0: Input should be an object"),
        ('warnings = [{when = "true"}]', "warnings.0.text: it is missing"),
        (
            'warnings = [{text = "A"}, {text = "B", when = "nothing"}]',
            "warnings.1.when: unknown: nothing; there are arguments, tool, requester, conversation, and CEL's",
        ),
        ('approvers = "everyone"', "approvers.who: Input should be 'requester', 'anyone', 'people' or 'chat'"),
        ('approvers = "people"', 'approvers: who = "people": say people = […] or chat = "oc_…" instead'),
        ("approvers = []", "approvers: it is empty; leave it out, or say at least one"),
        ("approvers = {}", 'approvers: say who: one of people, chat, and who = "requester" or "anyone"'),
        (
            'approvers = {people = ["open_id:a"], chat = "oc_1"}',
            'approvers: say who: one of people, chat, and who = "requester" or "anyone"',
        ),
        ('approvers = {chats = "oc_1"}', "approvers.chats: there is no such key"),
        ('approvers = [{chat = "oc_1"}, {who = "nobody"}]', "approvers.1.who: Input should be 'requester', 'anyone'"),
        ('approvers = {people = ["open_id:a"], threshold = 2}', "approvers: approvers: 2 of 1 people can never agree"),
        ('approvers = {chat = "oc_1", threshold = 0}', "approvers.threshold: Input should be greater than or equal"),
        ('approvers = {chat = "oc_1", threshold = "2"}', "approvers.threshold: Input should be a valid integer"),
        ('approvers = {who = "requester", exclude_requester = true}', "approvers: approvers: the requester alone can"),
        (
            'approvers = {people = ["open_id:a", "open_id:a,union_id:b"]}',
            "approvers.people: open_id:a is named twice; name a person once, with all ids: open_id:…,union_id:…",
        ),
        (
            'approvers = [{people = ["open_id:a", "open_id:b"]}, {people = ["open_id:b", "open_id:a"], threshold = 2}]',
            "approvers: everyone counts once; these stages need more people than they name",
        ),
        ('approvers = ["requester", "anyone", "requester"]', "approvers: the requester counts once; name them in one"),
        ("when = true", "when: write the condition as a string"),
        ('when = "arguments.amount >"', "when: not an expression of CEL: mismatched input '<EOF>' (at character 19)"),
        ('when = "amount > 1"', "when: unknown: amount; there are arguments, tool, requester, conversation"),
        ('when = "arguments.to.lower() == tool"', "when: unknown: lower(); there are arguments"),
        ('when = "now() > max(1, 2)"', "when: unknown: max(), now(); there are"),
        ('when = "arguments.a.all(x, x.all(y, y > 1))"', "when: a loop within a loop takes too long"),
        (f'when = "{"true && " * 300}true"', "when: a condition holds at most 2000 characters"),
        ('when = "tool == \\"\\u0001\\""', "when: a condition holds no control characters"),
    ],
)
def test_each_problem_names_its_rule_and_key(line: str, said: str) -> None:
    found = problems(rule(line))
    assert len(found) == 1, found
    assert found[0].startswith(f"rule 1 ('r'): {said}"), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the policy is empty; one that is meant to have no rules says so in a comment"),
        (" \n\t\n", "the policy is empty; one that is meant to have no rules says so in a comment"),
        ("[[rule]", "not TOML: Expected ']]' at the end of an array declaration (at line 1, column 7)"),
        ("x = 1", "x: not a key of a policy; rules are written as [[rule]]"),
        ("[rule]\nname = 'r'", "rule: rules are written as [[rule]]"),
        ("rule = ['r']", "rule: rules are written as [[rule]]"),
        ("[[rule]]", "rule 1: name: it is missing"),
        ("[[rule]]\nname = 7", "rule 1: name: Input should be a valid string"),
        ("[[rule]]\nname = ''", "rule 1: name: String should have at least 1 character"),
        ("[[rule]]\nname = 'a\\nb'".replace("'", '"'), "rule 1 ('a\\nb'): name: an id is one line"),
        (f"# {'x' * MAX_BYTES}", "the policy is larger than 256 KiB"),
        ("[[rule]]\n" * (MAX_RULES + 1), f"rule: there are more than {MAX_RULES}"),
        ("x = " + "[" * 5000, "not TOML"),
        ("[[rule]]\nname = " + "[" * 250 + "]" * 250, "rule 1: it is nested too deeply"),
    ],
)
def test_file_that_is_no_policy_is_refused(text: str, said: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_all_problems_are_told_at_once() -> None:
    text = rule('execution = "x"', "ttl = 0", 'reason = "y"') + "[[rule]]\nfoo = 1\n" + rule(name="r") + "\n[more]\n"
    assert [problem.split(": ")[:2] for problem in problems(text)] == [
        ["more", "not a key of a policy; rules are written as [[rule]]"],
        ["rule 1 ('r')", "execution"],
        ["rule 1 ('r')", "ttl"],
        ["rule 1 ('r')", "reason"],
        ["rule 2", "name"],
        ["rule 2", "foo"],
        ["rule 3 ('r')", "name"],
    ]


@pytest.mark.parametrize(
    ("earlier", "later", "is_reachable"),
    [
        ((), ('tools = ["a"]',), False),
        (('tools = ["*"]',), (), False),
        (('tools = ["send_*", "b"]',), ('tools = ["send_mail"]',), False),
        (('tools = ["send_*"]',), ('tools = ["send_*"]', 'conversations = ["oc_1"]'), False),
        (('conversations = ["oc_1", "oc_2"]',), ('conversations = ["oc_2"]', 'when = "true"'), False),
        (('requesters = ["open_id:a"]',), ('requesters = ["open_id:a"]', 'tools = ["a"]'), False),
        (('when = "has(arguments.a)"',), ('when = "has(arguments.a)"', 'tools = ["a"]'), False),
        (('execution = "deny"',), ('tools = ["a"]',), True),
        (('tools = ["send_mail"]',), ('tools = ["send_*"]',), True),
        (('tools = ["send_*"]',), ('tools = ["send_mail", "read"]',), True),
        (('tools = ["send_*"]',), (), True),
        (('when = "has(arguments.a)"',), ('tools = ["a"]',), True),
        (('requesters = ["open_id:a"]',), (), True),
        (('conversations = ["oc_1"]',), ('conversations = ["oc_2", "oc_1"]',), True),
    ],
)
def test_rule_that_can_never_apply_is_a_problem(
    earlier: tuple[str, ...], later: tuple[str, ...], is_reachable: bool
) -> None:
    text = rule(*earlier, name="one") + rule(*later, name="two")
    if is_reachable:
        assert Rules.parse(text).names == ("one", "two")
    else:
        assert problems(text) == ("rule 2 ('two'): it can never apply: rule 1 ('one') does wherever it would",)


def test_policy_without_rules_leaves_everything_to_the_tools() -> None:
    tool = manifest(permission=Permission(execution=Execution.AUTO))
    rules = Rules.parse("# none\n")
    assert rules.names == ()
    assert rules.effective(tool, asking()) == NO_RULES.effective(tool, asking())
    assert NO_RULES.effective(tool, asking()).permission == tool.permission


def test_file_is_read_from_disk_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(rule('reason = "仅限周末"', 'execution = "deny"'))
    assert Rules.load(file).sha256 == sha256(file.read_bytes())
    for prepare, said in (
        (lambda: file.write_bytes(b"# \xff"), "it is not UTF-8, or larger than 256 KiB"),
        (lambda: file.write_bytes(b"#" * (MAX_BYTES + 1)), "the policy is larger than 256 KiB"),
        (lambda: file.unlink(), "it cannot be read: No such file or directory"),
        (lambda: file.mkdir(), "it cannot be read: Is a directory"),
    ):
        prepare()
        with pytest.raises(InvalidPolicy, match=said):
            Rules.load(file)


def test_published_policy_is_the_one_that_was_hashed() -> None:
    text, now = rule(), datetime.now(UTC)
    assert Rules.published(None) is NO_RULES
    assert Rules.published(Policy(text="", sha256=sha256(""), since=now)) is NO_RULES
    assert Rules.published(Policy(text=text, sha256=sha256(text), since=now)).names == ("r",)
    with pytest.raises(InvalidPolicy, match="not the one that was published"):
        Rules.published(Policy(text=text + "# more", sha256=sha256(text), since=now))


def test_neither_the_package_nor_a_policy_without_conditions_needs_cel() -> None:
    with_condition = rule('when = "true"')
    code = (
        "import sys; sys.modules['cel'] = None\n"
        "import assent, assent.policy.rules as policy\n"
        f"assert policy.Rules.parse({rule()!r}).names == ('r',)\n"
        f"try: policy.Rules.parse({with_condition!r})\n"
        "except policy.InvalidPolicy as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "pip install 'assent[policy]'" in ran.stdout


# Conditions


def known(arguments: Any) -> Known:
    return Known(arguments=arguments, tool="t", requester={"open_id": "a"}, conversation=None)


@pytest.mark.parametrize(
    ("text", "arguments", "holds"),
    [
        ("arguments.amount > 100", {"amount": 100.5}, True),
        ("arguments.amount * 2 > 100", {"amount": 50}, False),
        ("has(arguments.amount) && arguments.amount > 1", {}, False),
        ("arguments.to.endsWith('@example.com') || size(arguments.to) > 30", {"to": "a@example.com"}, True),
        ("arguments.to.matches('^[a-z]+$')", {"to": "abc"}, True),
        ("arguments.rows.exists(row, row.price > 5)", {"rows": [{"price": 3}, {"price": 7}]}, True),
        ("arguments.rows.all(row, row > 1) && arguments.rows.all(row, row < 5)", {"rows": [2, 3]}, True),
        ("arguments['odd name'] == null", {"odd name": None}, True),
        ("type(arguments.a) == string", {"a": "1"}, True),
        ("timestamp(arguments.at).getHours() >= 12", {"at": "2030-01-01T12:00:00Z"}, True),
        ("requester.open_id == 'a' && tool == 't' && conversation == null", {}, True),
        ("r'\\' == tool || true // and so on", {}, True),
        ("'''it's .all( ''' == tool", {}, False),
    ],
)
def test_condition_is_asked_of_the_arguments(text: str, arguments: dict[str, Any], holds: bool) -> None:
    assert Condition.parse(text).holds(known(arguments)) is holds


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        ("arguments.amount > 1", {}, "there is no 'amount'"),
        ("arguments.a.b.c == 1", {"a": {}}, "there is no 'b'"),
        ("requester.user_id == 'a'", {}, "there is no 'user_id'"),
        ("arguments.amount > 1", {"amount": "secret"}, "values of these types cannot be compared"),
        ("arguments.amount + 1.5 > 1", {"amount": 1}, "values of these types cannot be compared or computed"),
        ("arguments.a[3] == 1", {"a": [1]}, "a list is shorter than that"),
        ("1 / arguments.a == 1", {"a": 0}, "divided by zero"),
        ("int(arguments.a) == 1", {"a": "secret"}, "a function does not take such a value"),
        ("arguments.a.matches('(')", {"a": "secret"}, "a function does not take such a value"),
        ("arguments.a", {"a": 1}, "it is neither true nor false"),
        ("conversation", {}, "it is neither true nor false"),
        ("arguments.a.all(x, x > 0)", {"a": [1] * MAX_VALUES}, f"more than the {MAX_VALUES} values"),
        ("arguments.a.all(x, y > 0)".replace("y", "x"), {"a": ["secret"]}, "values of these types"),
    ],
)
def test_condition_without_an_answer_says_why_and_quotes_nothing(text: str, arguments: Any, why: str) -> None:
    with pytest.raises(NotEvaluable, match=why) as raised:
        Condition.parse(text).holds(known(arguments))
    assert "secret" not in str(raised.value)


def test_call_is_denied_where_nobody_can_say_whether_a_rule_applies() -> None:
    rules = Rules.parse(rule('execution = "auto"', 'when = "arguments.amount < 10"', name="small"))
    assert rules.effective(manifest(), asking(amount=5)).permission.execution is Execution.AUTO
    for arguments in ({}, {"amount": "5"}, {"amount": None}):
        effective = rules.effective(manifest(), asking(**arguments))
        assert effective.permission.execution is Execution.DENY
        assert effective.rule is not None
        assert effective.rule.name == "small"
        assert "rule 'small' cannot be applied" in (effective.denied or "")
        assert "has(arguments.x)" in (effective.denied or "")


def test_rule_is_not_asked_about_calls_that_it_is_not_about() -> None:
    rules = Rules.parse(rule('tools = ["pay"]', 'when = "arguments.amount < 10"', 'execution = "deny"'))
    assert rules.effective(manifest(), asking()).denied is None


def test_warning_without_an_answer_is_shown() -> None:
    line = 'warnings = [{when = "arguments.amount > 10", text = "Large."}, {when = "false", text = "Never."}]'
    rules = Rules.parse(rule(line))
    assert rules.effective(manifest(), asking(amount=5)).warnings == ()
    assert rules.effective(manifest(), asking(amount=50)).warnings == ("Large.",)
    assert rules.effective(manifest(), asking()).warnings == ("Large.",)


def test_people_in_a_rule_are_of_the_requesters_company_unless_it_is_named() -> None:
    def applies(text: str, requester: Identity) -> bool:
        rules = Rules.parse(rule(f'requesters = ["{text}"]', 'execution = "deny"'))
        return rules.effective(manifest(), asking().model_copy(update={"requester": requester})).rule is not None

    assert applies("open_id:ou_me", ME)
    assert applies("open_id:ou_me", Identity(open_id="ou_me"))
    assert applies("union_id:on_1,tenant_key:t", Identity(open_id="x", union_id="on_1", tenant_key="t"))
    assert not applies("open_id:ou_me,tenant_key:u", ME)
    assert not applies("open_id:ou_me,tenant_key:t", Identity(open_id="ou_me"))
    assert not applies("open_id:ou_you", ME)


# What is not known of who asks, and where


SAME = asking().model_copy(update={"requester": Identity(union_id="on_me", tenant_key="t")})
"""The same person, named by another id."""
SOMEWHERE = asking().model_copy(update={"conversation": None, "chat_is_known": False})


@pytest.mark.parametrize(
    ("about", "call", "in_doubt"),
    [
        ('requesters = ["open_id:ou_me"]', SAME, ("open_id",)),
        ('requesters = ["open_id:ou_me", "user_id:me"]', SAME, ("open_id", "user_id")),
        ('conversations = ["oc_1"]', SOMEWHERE, ("conversation",)),
        ("when = \"has(requester.open_id) && requester.open_id == 'ou_me'\"", SAME, ("open_id",)),
        ("when = \"requester.open_id == 'ou_me'\"", SAME, ("open_id",)),
        ("when = \"'open_id' in requester\"", SAME, ("open_id", "user_id")),
        ("when = \"conversation == 'oc_1'\"", SOMEWHERE, ("conversation",)),
        ("when = \"conversation != 'oc_2'\"", SOMEWHERE, ("conversation",)),
    ],
)
def test_a_rule_is_not_evaded_by_what_the_agent_leaves_out(about: str, call: Asking, in_doubt: tuple[str, ...]) -> None:
    rules = Rules.parse(rule(about, 'execution = "deny"', name="stop"))
    effective = rules.effective(manifest(), call)
    assert effective.denied is not None
    assert "rule 'stop'" in effective.denied
    assert effective.in_doubt == in_doubt
    whole = Identity(open_id="ou_me", union_id="on_me", user_id="me", tenant_key="t")
    known = asking().model_copy(update={"requester": whole})
    assert rules.effective(manifest(), known).denied == "the operator's rule 'stop' does not allow it"


def test_a_rule_that_would_let_it_run_is_not_claimed_by_what_the_agent_leaves_out() -> None:
    rules = Rules.parse(rule('requesters = ["open_id:ou_me"]', 'execution = "auto"', name="trusted"))
    assert rules.effective(manifest(), SAME).permission.execution is Execution.DENY
    assert rules.effective(manifest(), asking()).permission.execution is Execution.AUTO


def test_doubt_that_makes_no_difference_stops_nothing() -> None:
    same_for_all = rule('requesters = ["open_id:ou_me"]', 'risk = "high"', name="a") + rule('risk = "high"', name="b")
    effective = Rules.parse(same_for_all).effective(manifest(), SAME)
    assert (effective.denied, effective.risk, effective.in_doubt) == (None, Risk.HIGH, ())
    denied_for_all = rule('requesters = ["open_id:ou_me"]', 'execution = "deny"', name="a") + rule(
        'execution = "deny"', name="b"
    )
    stopped = Rules.parse(denied_for_all).effective(manifest(), SAME)
    assert stopped.denied == "the operator's rule 'b' does not allow it"


@pytest.mark.parametrize(
    "about",
    [
        'tools = ["pay"]\nrequesters = ["open_id:ou_me"]',
        'requesters = ["union_id:on_you"]',
        "when = \"arguments.amount > 5 && requester.open_id == 'ou_me'\"",
        "when = \"arguments.requester == 'ou_me' && 'requester.open_id' != ''\"",
    ],
)
def test_what_a_rule_need_not_ask_for_is_not_missed(about: str) -> None:
    call = SAME.model_copy(update={"arguments": {"amount": 1, "requester": "x"}})
    effective = Rules.parse(rule(about, 'execution = "deny"')).effective(manifest(), call)
    assert (effective.denied, effective.in_doubt) == (None, ())


def test_a_warning_that_depends_on_what_is_not_known_is_shown() -> None:
    line = 'warnings = [{when = "has(requester.open_id) && requester.open_id == \'ou_me\'", text = "Me."}]'
    effective = Rules.parse(rule(line)).effective(manifest(), SAME)
    assert (effective.warnings, effective.in_doubt, effective.denied) == (("Me.",), ("open_id",), None)


def test_what_conditions_see_is_what_was_hashed() -> None:
    payload = canonical_payload("send_mail", {"amount": 5.0, "to": "a"})
    seen = Asking.of(payload, ME, "oc_1")
    assert seen == asking(amount=5, to="a")
    assert type(seen.arguments["amount"]) is int


def test_looping_condition_over_as_much_as_it_may_takes_no_long_time() -> None:
    condition = Condition.parse("arguments.a.map(x, x + 1).size() > 0 && arguments.a.all(x, x in arguments.a)")
    began = time.process_time()
    assert condition.holds(known({"a": list(range(MAX_VALUES - 2))}))
    assert time.process_time() - began < 5


def test_effective_survives_json() -> None:
    rules = Rules.parse(
        rule(
            'approvers = ["requester", {chat = "oc_1", threshold = 2}]',
            'ttl = "4h"',
            "remind_after = 0.5",
            'execution = "deny"',
        )
    )
    effective = rules.effective(manifest(), asking())
    assert type(effective).model_validate_json(effective.model_dump_json()) == effective
    assert json.loads(effective.model_dump_json())["ttl"] == "PT4H"


# Overrides


def overriding(**said: Any) -> Override:
    return Override(n=7, tool="send", since=datetime.now(UTC), once="x", by_operator=True, **said)


@pytest.mark.parametrize(
    ("tool_says", "file_says", "override_says", "holds"),
    [
        ("ask-always", None, "auto", "auto"),
        ("auto", None, "ask-always", "ask-always"),
        ("deny", None, "auto", "deny"),
        ("ask-always", "auto", "ask-once", "ask-once"),
        ("auto", "ask-always", "auto", "ask-always"),
        ("auto", "deny", "auto", "deny"),
        ("auto", "auto", "deny", "deny"),
        ("ask-once", "auto", None, "auto"),
    ],
)
def test_an_override_replaces_the_tools_word_and_is_held_against_the_files(
    tool_says: str, file_says: str | None, override_says: str | None, holds: str
) -> None:
    rule = f'execution = "{file_says}"' if file_says else 'risk = "high"'
    rules = Rules.parse(f'[[rule]]\nname = "all"\n{rule}\n')
    said = manifest(permission=Permission(execution=Execution(tool_says)))
    override = overriding(execution=override_says, result="always")
    effective = rules.effective(said, asking(), override)
    assert (effective.permission.execution, effective.permission.result) == (holds, "always")
    assert (effective.denied is not None, effective.override) == (holds == "deny", 7)
