"""Policies, tools and calls in plain Python, and what the issue says of them: an oracle that shares no code with ours.

A rule is a dict as it would be written in TOML, except that a condition is an expression of tuples, which is written
as CEL and also computed here, with None for what cannot be answered.
"""

from __future__ import annotations

import json
import re
from typing import Any

Rule = dict[str, Any]
Call = dict[str, Any]
Expression = tuple[Any, ...]

# The policy as TOML


def as_cel(expression: Expression) -> str:
    match expression:
        case ("has", name):
            return f"has(arguments.{name})"
        case ("more", name, number):
            return f"arguments.{name} > {number}"
        case ("is", name, value):
            return f"arguments.{name} == {json.dumps(value)}"
        case ("starts", name, value):
            return f"arguments.{name}.startsWith({json.dumps(value)})"
        case ("any", name, value):
            return f"arguments.{name}.exists(each, each == {json.dumps(value)})"
        case ("itself", name):
            return f"arguments.{name}"
        case ("called", value):
            return f"tool == {json.dumps(value)}"
        case ("in", value):
            return f"conversation == {json.dumps(value)}"
        case ("asked by", kind, value):
            return f"requester.{kind} == {json.dumps(value)}"
        case ("not", one):
            return f"!({as_cel(one)})"
        case ("and", one, other):
            return f"({as_cel(one)}) && ({as_cel(other)})"
        case ("or", one, other):
            return f"({as_cel(one)}) || ({as_cel(other)})"
    raise AssertionError(expression)


def as_toml(rules: list[Rule]) -> str:
    return "# rules\n" + "\n".join(
        "[[rule]]\n" + "".join(f"{key} = {_value(key, value)}\n" for key, value in rule.items()) for rule in rules
    )


def _value(key: str, value: Any) -> str:
    if key == "when":
        return _value("", as_cel(value))
    match value:
        case dict():
            return "{" + ", ".join(f"{name} = {_value(name, each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(_value("", each) for each in value) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


# What the issue says


def answer(expression: Expression, call: Call) -> bool | None:
    """Whether a condition holds; None where that cannot be said."""
    arguments = call["arguments"]
    match expression:
        case ("has", name):
            return name in arguments
        case ("more", name, number):
            value = arguments.get(name)
            return value > number if type(value) in (int, float) else None
        case ("is", name, value):
            return arguments[name] == value if name in arguments else None
        case ("starts", name, value):
            found = arguments.get(name)
            return found.startswith(value) if isinstance(found, str) else None
        case ("any", name, value):
            found = arguments.get(name)
            return value in found if isinstance(found, list) else None
        case ("itself", name):
            found = arguments.get(name)
            return found if isinstance(found, bool) else None
        case ("called", value):
            return bool(call["tool"] == value)
        case ("in", value):
            return bool(call["conversation"] == value)
        case ("asked by", kind, value):
            return call["requester"][kind] == value if kind in call["requester"] else None
        case ("not", one):
            said = answer(one, call)
            return None if said is None else not said
        case ("and", one, other):
            said_of_both = (answer(one, call), answer(other, call))
            return False if False in said_of_both else None if None in said_of_both else True
        case ("or", one, other):
            said_of_both = (answer(one, call), answer(other, call))
            return True if True in said_of_both else None if None in said_of_both else False
    raise AssertionError(expression)


def person(text: str) -> dict[str, str]:
    return dict(part.split(":") for part in text.split(","))


def is_same(written: dict[str, str], other: dict[str, str]) -> bool:
    """People are one where every id that can be compared agrees; who names no tenant means that of the other."""
    if "tenant_key" in written and written["tenant_key"] != other.get("tenant_key"):
        return False
    both = (written.keys() & other.keys()) - {"tenant_key"}
    return bool(both) and all(written[kind] == other[kind] for kind in both)


def fits(pattern: str, name: str) -> bool:
    return re.fullmatch("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), name) is not None


IN_DOUBT = "in doubt"


def may_be(written: dict[str, str], other: dict[str, str]) -> bool:
    """Whether nothing tells two people of one tenant apart: no id can be compared, or one agrees."""
    if "tenant_key" in written and written["tenant_key"] != other.get("tenant_key"):
        return False
    both = (written.keys() & other.keys()) - {"tenant_key"}
    return not both or any(written[kind] == other[kind] for kind in both)


def applies(rule: Rule, call: Call) -> tuple[bool | str, bool]:
    """Whether a rule is about a call, or nobody can say; and whether its condition has no answer."""
    doubt = False
    if "tools" in rule and not any(fits(pattern, call["tool"]) for pattern in rule["tools"]):
        return False, False
    if "requesters" in rule:
        people = [person(text) for text in rule["requesters"]]
        if not any(is_same(each, call["requester"]) for each in people):
            if not any(may_be(each, call["requester"]) for each in people):
                return False, False
            doubt = True
    if "conversations" in rule and call["conversation"] not in rule["conversations"]:
        return False, False
    said = answer(rule["when"], call) if "when" in rule else True
    if said is False:
        return False, False
    return IN_DOUBT if doubt else True, said is None


def seconds(text: str | int) -> int:
    return text if isinstance(text, int) else int(text[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[text[-1]]


def stage(written: str | dict[str, Any]) -> dict[str, Any]:
    group = {"who": written} if isinstance(written, str) else written
    kind = group.get("who") or ("people" if "people" in group else "chat")
    return {
        "kind": kind,
        "people": [person(text) for text in group.get("people", [])],
        "chat_id": group.get("chat"),
        "threshold": group.get("threshold", 1),
        "exclude_requester": group.get("exclude_requester", False),
        "rejections": group.get("rejections", 1),
    }


def expected(rules: list[Rule], tool: dict[str, Any], call: Call) -> dict[str, Any]:
    """What holds for the call: what the first rule that applies names, the rest as the tool says.

    tool: execution, result, approvers, risk and ttl as it declares them.
    """
    holds = {
        **tool,
        "approvers": [stage(tool["approvers"])],
        "warnings": [],
        "denied": tool["execution"] == "deny",
        "rule": None,
        **dict.fromkeys(("remember_for", "remind_after", "escalate_after", "result_ttl", "result_fallback")),
        "escalate_to": [],
    }
    tools_own = holds
    either_way = []
    for rule in rules:
        about, is_broken = applies(rule, call)
        if about is False:
            continue
        denied = {**tools_own, "execution": "deny", "denied": True, "rule": rule["name"]}
        ruled = denied if is_broken else {**tools_own, **_said(rule, call, tool), "rule": rule["name"]}
        if about is True:
            holds = ruled
            break
        either_way.append((ruled, denied))
    for ruled, denied in either_way:
        both_denied = ruled["denied"] and holds["denied"]
        if not both_denied and {**ruled, "rule": None} != {**holds, "rule": None}:
            return denied
    return holds


def _said(rule: Rule, call: Call, tool: dict[str, Any]) -> dict[str, Any]:
    as_written = ("execution", "result", "risk", "remind_after", "escalate_after", "result_fallback")
    said: dict[str, Any] = {key: rule[key] for key in as_written if key in rule}
    said |= {key: seconds(rule[key]) for key in ("ttl", "remember_for", "result_ttl") if key in rule}
    if "approvers" in rule:
        written = rule["approvers"]
        said["approvers"] = [stage(each) for each in (written if isinstance(written, list) else [written])]
    said["escalate_to"] = [person(text) for text in rule.get("escalate_to", [])]
    said["warnings"] = [
        warning["text"]
        for warning in rule.get("warnings", [])
        if "when" not in warning or answer(warning["when"], call) is not False
    ]
    said["denied"] = rule.get("execution", tool["execution"]) == "deny"
    return said
