"""What the policy makes of a call, for hundreds of policies, tools and calls, against an oracle in plain Python."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.permission import Permission
from assent.policy.file import InvalidPolicy
from assent.policy.rules import Asking, Effective, Rules
from tests.support.hypothesis_settings import unhurried
from tests.support.policies import manifest
from tests.support.policy_oracle import Call, Rule, as_toml, expected

TOOLS = ("send_mail", "send_money", "read")
CHATS = ("oc_1", "oc_2")
IDS = ("a", "b")
PEOPLE = ("open_id:a", "open_id:b", "union_id:a", "open_id:a,union_id:b", "open_id:a,tenant_key:t", "user_id:b")
EXECUTIONS = ("auto", "ask-once", "ask-always", "deny")
RESULTS = ("never", "on-error", "always")
RISKS = ("low", "medium", "high")
SPANS = ("90s", "15m", "4h", "1d", 60)


# What ours says, in the oracle's words


def manifest_of(tool: dict[str, Any], name: str = "send_mail") -> Manifest:
    ttl = timedelta(seconds=tool["ttl"]) if tool["ttl"] is not None else None
    approvers = tool["approvers"]
    people = [Identity.parse(text) for text in approvers["people"]] if isinstance(approvers, dict) else None
    return manifest(
        name=name,
        risk=Risk(tool["risk"]),
        approvers=Approvers.of(people if people is not None else approvers),
        max_ttl=ttl,
        permission=Permission(execution=tool["execution"], result=tool["result"]),
    )


def decided(rules: Rules, tool: dict[str, Any], call: Call) -> tuple[dict[str, Any], Effective]:
    asking = Asking(
        tool=call["tool"],
        arguments=call["arguments"],
        requester=Identity(**call["requester"]),
        conversation=call["conversation"],
    )
    effective = rules.effective(manifest_of(tool, call["tool"]), asking)
    return plain(effective), effective


def plain(effective: Effective) -> dict[str, Any]:
    assert effective.rule is None or re.fullmatch("[0-9a-f]{64}", effective.rule.policy_sha256)
    said = effective.model_dump(mode="python", exclude_none=True)
    stages = [
        {"chat_id": None, **{key: value for key, value in stage.model_dump(exclude_none=True).items() if key != "then"}}
        for stage in effective.approvers.stages
    ]
    return {
        "execution": said["permission"]["execution"],
        "result": said["permission"]["result"],
        "approvers": [{**stage, "people": list(stage["people"])} for stage in stages],
        "risk": said["risk"],
        "warnings": list(effective.warnings),
        "denied": effective.denied is not None,
        "rule": effective.rule.name if effective.rule else None,
        "remind_after": effective.remind_after,
        "escalate_after": effective.escalate_after,
        "escalate_to": list(said["escalate_to"]),
        "result_fallback": said.get("result_fallback"),
        **{
            key: getattr(effective, key).total_seconds() if getattr(effective, key) is not None else None
            for key in ("ttl", "remember_for", "result_ttl")
        },
    }


# Properties


VALUES = st.sampled_from([0, 5, 100, 100.5, 250, "a", "ab", "", True, False, None])
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"amount": VALUES, "to": VALUES, "tags": st.lists(st.sampled_from(["vip", "old"]), max_size=3)}
)
REQUESTERS = st.fixed_dictionaries(
    {},
    optional={**dict.fromkeys(("open_id", "union_id", "user_id"), st.sampled_from(IDS)), "tenant_key": st.just("t")},
).filter(lambda ids: bool(ids.keys() - {"tenant_key"}))
CALLS = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(TOOLS),
        "arguments": ARGUMENTS,
        "requester": REQUESTERS,
        "conversation": st.none() | st.sampled_from(CHATS),
    }
)
NAMES = st.sampled_from(["amount", "to"])
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(st.just("has"), st.sampled_from(["amount", "to", "tags"])),
        st.tuples(st.just("more"), NAMES, st.sampled_from([0, 99, 100, 100.25])),
        st.tuples(st.just("is"), NAMES, st.sampled_from(["a", "", 'quote"d'])),
        st.tuples(st.just("starts"), NAMES, st.sampled_from(["a", "b", ""])),
        st.tuples(st.just("any"), st.just("tags"), st.sampled_from(["vip", "new"])),
        st.tuples(st.just("called"), st.sampled_from(TOOLS)),
        st.tuples(st.just("in"), st.sampled_from(CHATS)),
        st.tuples(st.just("asked by"), st.sampled_from(["open_id", "user_id"]), st.sampled_from(IDS)),
    ),
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=4,
) | st.tuples(st.just("itself"), NAMES)
SOME_PEOPLE = st.lists(st.sampled_from(["open_id:a", "open_id:b", "user_id:c,tenant_key:t"]), min_size=1, unique=True)


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["people", "chat", "anyone", "requester"]))
    several = draw(st.fixed_dictionaries({}, optional={"rejections": st.integers(1, 3)}))
    if kind == "requester":
        return {"who": kind, **several}
    several |= draw(st.fixed_dictionaries({}, optional={"exclude_requester": st.booleans()}))
    if kind == "people":
        people = draw(SOME_PEOPLE)
        return {"people": people, "threshold": draw(st.integers(1, len(people))), **several}
    named = {"who": kind} if kind == "anyone" else {"chat": draw(st.sampled_from(CHATS))}
    return {**named, **draw(st.fixed_dictionaries({}, optional={"threshold": st.integers(1, 9)})), **several}


def can_be_passed(stages: list[dict[str, Any]]) -> bool:
    """Whether the stages are surely such as a policy may have: nobody is needed in two of them."""
    named = [text for stage in stages for text in stage.get("people", [])]
    return len(named) == len(set(named)) and [stage.get("who") for stage in stages].count("requester") < 2


APPROVERS = st.one_of(
    st.sampled_from(["requester", "anyone"]),
    groups(),
    st.lists(groups(), min_size=1, max_size=3).filter(can_be_passed),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    rule: Rule = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "tools": st.lists(st.sampled_from([*TOOLS, "send_*", "*", "?ead", "s*m*"]), min_size=1, max_size=2),
                "requesters": st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=1),
                "conversations": st.lists(st.sampled_from(CHATS), min_size=1, max_size=2),
                "when": CONDITIONS,
                "execution": st.sampled_from(EXECUTIONS),
                "result": st.sampled_from(RESULTS),
                "approvers": APPROVERS,
                "ttl": st.sampled_from(SPANS),
                "risk": st.sampled_from(RISKS),
                "remember_for": st.sampled_from(SPANS),
                "remind_after": st.sampled_from([0.25, 0.5]),
                "result_ttl": st.sampled_from(SPANS),
                "result_fallback": st.sampled_from(["release", "withhold"]),
                "warnings": st.lists(
                    st.fixed_dictionaries(
                        {"text": st.sampled_from(["Look twice.", "金额很大。"])}, optional={"when": CONDITIONS}
                    ),
                    max_size=2,
                ),
            },
        )
    )
    if draw(st.booleans()):
        rule |= {"escalate_after": 0.75, "escalate_to": draw(SOME_PEOPLE)}
    if rule.get("execution") == "deny" and draw(st.booleans()):
        rule["reason"] = "Not this week."
    return rule


DECLARED = st.fixed_dictionaries(
    {
        "execution": st.sampled_from(EXECUTIONS),
        "result": st.sampled_from(RESULTS),
        "approvers": st.sampled_from(["requester", "anyone"]) | SOME_PEOPLE.map(lambda people: {"people": people}),
        "risk": st.sampled_from(RISKS),
        "ttl": st.none() | st.sampled_from([60, 3600]),
    }
)


def parsed(written: list[Rule]) -> Rules:
    """The rules without those that ours calls out of reach; nothing else may be wrong with them."""
    try:
        return Rules.parse(as_toml(written))
    except InvalidPolicy as error:
        problems = error.problems
    dead = [re.fullmatch(r"rule (\d+) \('\w+'\): it can never apply: .*", problem) for problem in problems]
    assert all(dead), problems
    numbers = {int(found[1]) for found in dead if found}
    return Rules.parse(as_toml([rule for number, rule in enumerate(written, 1) if number not in numbers]))


@settings(unhurried, max_examples=80)
@given(st.lists(rules(), max_size=5), DECLARED, st.lists(CALLS, min_size=6, max_size=6))
def test_policy_decides_as_the_oracle_does(written: list[Rule], tool: dict[str, Any], calls: list[Call]) -> None:
    named = [{"name": f"r{number}", **rule} for number, rule in enumerate(written)]
    policy = parsed(named)
    for call in calls:
        ours, effective = decided(policy, tool, call)
        # The oracle knows all rules: those that ours calls out of reach never were in reach.
        assert ours == expected(named, tool, call)
        trials = list(policy.trials(Asking(**{**call, "requester": Identity(**call["requester"])})))
        doubted = [trial.rule for trial in trials if trial.in_doubt and not trial.applies]
        if ours["rule"] in doubted:
            assert f"whether the operator's rule {ours['rule']!r} applies cannot be said" in (effective.denied or "")
            assert effective.in_doubt
            continue
        assert [trial.rule for trial in trials if trial.applies] == ([ours["rule"]] if ours["rule"] else [])
        assert all(trial.why for trial in trials)
        if ours["denied"] and ours["rule"]:
            reason = next(rule.get("reason", "") for rule in named if rule["name"] == ours["rule"])
            assert reason in (effective.denied or "") or trials[-1].is_broken


# The table


ME = {"open_id": "a", "union_id": "a"}
CALL: Call = {"tool": "send_mail", "arguments": {"amount": 250, "to": "ab"}, "requester": ME, "conversation": "oc_1"}
MATCHERS: dict[str, Rule] = {
    "none": {},
    "tools fit": {"tools": ["read", "send_*"]},
    "tools do not fit": {"tools": ["Send_*", "send_"]},
    "requester fits": {"requesters": ["open_id:b", "union_id:a"]},
    "requester does not fit": {"requesters": ["open_id:b", "union_id:c"]},
    "requester may fit": {"requesters": ["user_id:a"]},
    "conversation fits": {"conversations": ["oc_2", "oc_1"]},
    "conversation does not fit": {"conversations": ["oc_2"]},
    "condition holds": {"when": ("more", "amount", 200)},
    "condition does not hold": {"when": ("not", ("more", "amount", 200))},
    "condition cannot be answered": {"when": ("more", "to", 200)},
    "condition is about what is not there": {"when": ("more", "limit", 200)},
    "condition need not be answered": {"tools": ["read"], "when": ("more", "limit", 200)},
    "all fit": {"tools": ["*"], "requesters": ["open_id:a"], "conversations": ["oc_1"], "when": ("has", "to")},
}
AFTER: Rule = {"name": "after", "tools": ["send_mail", "other"], "execution": "ask-once", "risk": "high", "ttl": "2h"}


def test_decision_table() -> None:
    seen: dict[tuple[str, ...], str] = {}
    for matcher, execution, result, declared in itertools.product(
        MATCHERS, (None, *EXECUTIONS), (None, *RESULTS), EXECUTIONS
    ):
        first: Rule = {"name": "first", **MATCHERS[matcher]}
        first |= {key: value for key, value in (("execution", execution), ("result", result)) if value}
        written = [first] if matcher == "none" else [first, AFTER]
        tool = {"execution": declared, "result": "on-error", "approvers": "anyone", "risk": "low", "ttl": None}
        ours, _ = decided(Rules.parse(as_toml(written)), tool, CALL)
        assert ours == expected(written, tool, CALL), (matcher, execution, result, declared)
        seen[matcher, str(execution), str(result), declared] = f"{ours['rule']} {ours['execution']} {ours['result']}"
    assert len(seen) == 14 * 5 * 4 * 4
    # A few lines of it, written by hand: an oracle that is wrong in the same way as ours would not say these.
    assert seen["none", "None", "None", "deny"] == "first deny on-error"
    assert seen["none", "auto", "always", "deny"] == "first auto always"
    assert seen["tools fit", "deny", "None", "auto"] == "first deny on-error"
    assert seen["tools do not fit", "deny", "always", "auto"] == "after ask-once on-error"
    assert seen["condition cannot be answered", "auto", "never", "auto"] == "first deny on-error"
    assert seen["requester does not fit", "deny", "None", "auto"] == "after ask-once on-error"
    assert seen["requester may fit", "deny", "None", "auto"] == "first deny on-error"
    assert seen["requester may fit", "auto", "never", "auto"] == "first deny on-error"
    assert seen["condition need not be answered", "auto", "never", "auto"] == "after ask-once on-error"
