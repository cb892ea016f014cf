"""Conditions that could take long: evaluated apart, within a limit of computing time, while others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from activities.policy import InForce, effective_by
from assent.policy import conditions
from assent.policy.conditions import Condition, Known, NotEvaluable
from assent.policy.evaluator import Evaluator
from assent.policy.rules import Asking, Rules
from tests.conftest import ME
from tests.support.policies import manifest, rule

SLOW = r"arguments.l.exists(x, arguments.t.matches('(\\w{0,60}é){3}\\d'))"
"""It takes a second of computing for each item of the list."""
HEAVY = {"l": ["q"] * 100, "t": "éa" * 60_000}


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluator]:
    own = Evaluator(seconds=0.3)
    monkeypatch.setattr(conditions, "evaluator", own)
    yield own
    own.close()


def known(arguments: dict[str, Any]) -> Known:
    return Known(arguments=arguments, tool="t", requester={}, conversation=None)


def test_a_condition_that_takes_too_long_has_no_answer_and_the_next_one_has(evaluator: Evaluator) -> None:
    condition = Condition.parse(SLOW)
    with pytest.raises(NotEvaluable, match=r"more than 0\.3 seconds of computing"):
        condition.holds(known(HEAVY))
    assert condition.holds(known({"l": ["q"], "t": "éaéaé1"}))
    assert not condition.holds(known({"l": ["q"], "t": "x"}))


def test_a_rule_whose_condition_takes_too_long_denies(evaluator: Evaluator) -> None:
    rules = Rules.parse(rule('execution = "auto"', f"when = '''{SLOW}'''", name="slow"))
    effective = rules.effective(manifest(), asking(HEAVY))
    assert effective.denied is not None
    assert "seconds of computing" in effective.denied
    assert effective.rule is not None
    assert effective.rule.name == "slow"


def asking(arguments: dict[str, Any]) -> Asking:
    return Asking(tool="pay", arguments=arguments, requester=ME, conversation=None)


async def test_others_go_on_meanwhile(evaluator: Evaluator) -> None:
    rules = Rules.parse(rule('execution = "auto"', f"when = '''{SLOW}'''", name="slow"))
    assert rules.may_take_long
    evaluating = asyncio.ensure_future(effective_by(InForce(0, rules, {}), manifest(), asking(HEAVY)))
    turns = 0
    while not evaluating.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert evaluating.result().denied is not None
    assert turns > 5, "the loop was free while it was computed"


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("arguments.l.exists(x, x > 2)", {"l": [1, 2, 3]}, True),
        ("arguments.t.matches('^a+$')", {"t": "aaa"}, True),
        ("arguments.t.matches('^a+$')", {"t": "b"}, False),
        ("arguments.l.all(x, x < 'a')", {"l": [1]}, "types"),
        ("arguments.l.exists(x, arguments.gone == x)", {"l": [1]}, "there is no 'gone'"),
        ("arguments.l.exists(x, arguments.l[7] == x)", {"l": [1]}, "a list is shorter|a function does not take"),
        ("arguments.l.exists(x, 1 / 0 == x)", {"l": [1]}, "divided by zero|a function does not take"),
        ("arguments.t.matches('(')", {"t": "b"}, "a function does not take|could not be computed"),
        ("arguments.l.map(x, x)", {"l": [1]}, "neither true nor false"),
    ],
)
def test_what_is_evaluated_apart_says_the_same(
    text: str, arguments: dict[str, Any], said: bool | str, evaluator: Evaluator
) -> None:
    condition = Condition.parse(text)
    assert condition.may_take_long
    if isinstance(said, bool):
        assert condition.holds(known(arguments)) is said
        return
    with pytest.raises(NotEvaluable, match=said):
        condition.holds(known(arguments))


def test_what_is_quick_is_evaluated_at_once() -> None:
    condition = Condition.parse("arguments.amount > 5 && arguments.t.contains('x')")
    assert not condition.may_take_long
    assert condition.holds(known({"amount": 6, "t": "x"}))
