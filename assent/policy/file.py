"""The operator's policy as it is written: a TOML file of rules, read strictly. All that is wrong is said at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)

from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.permission import Execution, Fallback, ResultReview
from assent.contracts.request import MAX_TTL
from assent.contracts.values import Id
from assent.durations import parse_duration
from assent.errors import AssentError
from assent.names import AGENT_CALL
from assent.policy.conditions import Condition

MAX_BYTES = 256 * 1024
MAX_RULES = 500
MAX_STAGES = 5


class InvalidPolicy(AssentError, ValueError):
    """A policy that cannot be followed as it is written; `problems` has everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def _person(given: object) -> object:
    if not isinstance(given, str):
        raise ValueError("name a person as open_id:…, union_id:… or user_id:…")
    return Identity.parse(given)


def _condition(given: object) -> object:
    if not isinstance(given, str):
        raise ValueError("write the condition as a string")
    return Condition.parse(given)


def _span(given: object) -> object:
    if isinstance(given, str):
        return parse_duration(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return timedelta(seconds=given)
        except (OverflowError, ValueError):
            raise ValueError(f"longer than the {MAX_TTL.days} days that anything waits") from None
    raise ValueError("write 90s, 15m, 4h or 1d, or a number of seconds")


def _bounded(span: timedelta) -> timedelta:
    if not timedelta(0) < span <= MAX_TTL:
        raise ValueError(f"it must be positive and at most {MAX_TTL.days} days")
    return span


def _distinct(people: tuple[Identity, ...]) -> tuple[Identity, ...]:
    for one, other in combinations(people, 2):
        if _overlap(one, other):
            raise ValueError(f"{other} is named twice; name a person once, with all ids: open_id:…,union_id:…")
    return people


def _overlap(one: Identity, other: Identity) -> bool:
    return one.tenant_key == other.tenant_key and not one.keys.isdisjoint(other.keys)


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("it must be one line of printable characters")
    return text


_Person = Annotated[Identity, PlainValidator(_person)]
_People = Annotated[tuple[_Person, ...], Field(min_length=1, max_length=100), AfterValidator(_distinct)]
_When = Annotated[Condition, PlainValidator(_condition)]
_Span = Annotated[timedelta, BeforeValidator(_span), AfterValidator(_bounded)]
_Part = Annotated[float, Field(gt=0, lt=1)]
_Sentence = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=500), AfterValidator(_printable)]
_Several = Annotated[tuple[Id, ...], Field(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Warning(_Strict):
    """A sentence for whoever decides, where a condition holds."""

    when: _When | None = None
    text: _Sentence


class Group(_Strict):
    """One stage of approvers: who, and how many of them."""

    who: Approvers.Kind | None = None
    people: _People | None = None
    chat: Id | None = None
    threshold: Annotated[int, Field(ge=1, le=100)] = 1
    exclude_requester: bool = False
    rejections: Annotated[int, Field(ge=1, le=100)] = 1

    @model_validator(mode="after")
    def _says_who(self) -> Self:
        if sum(named is not None for named in (self.who, self.people, self.chat)) != 1:
            raise ValueError('say who: one of people, chat, and who = "requester" or "anyone"')
        if self.who in (Approvers.Kind.PEOPLE, Approvers.Kind.CHAT):
            raise ValueError(f'who = "{self.who}": say people = […] or chat = "oc_…" instead')
        self.approvers  # noqa: B018 - refuses what nobody could follow
        return self

    @property
    def approvers(self) -> Approvers:
        kind = self.who or (Approvers.Kind.PEOPLE if self.people else Approvers.Kind.CHAT)
        return Approvers(
            kind=kind,
            people=self.people or (),
            chat_id=self.chat,
            threshold=self.threshold,
            exclude_requester=self.exclude_requester,
            rejections=self.rejections,
        )


def _can_all_be_passed(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Nobody counts twice for one call: stages that share people may need more of them than there are."""
    if sum(group.who is Approvers.Kind.REQUESTER for group in groups) > 1:
        raise ValueError("the requester counts once; name them in one stage")
    named = [group for group in groups if group.people]
    for many in range(2, len(named) + 1):
        for some in combinations(named, many):
            people: list[Identity] = []
            for person in (person for group in some for person in group.people or ()):
                if not any(_overlap(person, other) for other in people):
                    people.append(person)
            if sum(group.threshold for group in some) > len(people):
                raise ValueError("everyone counts once; these stages need more people than they name")
    return groups


_Groups = Annotated[
    tuple[Group, ...],
    Field(min_length=1, max_length=MAX_STAGES),
    AfterValidator(_can_all_be_passed),
]


class WrittenRule(_Strict):
    """One `[[rule]]`: which calls it is about, and what it sets for them."""

    name: Annotated[Id, Field(max_length=100), AfterValidator(_printable)]

    tools: _Several | None = None
    """Patterns of their names, such as `send_*`; all, if nothing is said."""
    requesters: _People | None = None
    conversations: _Several | None = None
    when: _When | None = None

    execution: Execution | None = None
    result: ResultReview | None = None
    approvers: _Groups | None = None
    risk: Risk | None = None
    ttl: _Span | None = None
    warnings: Annotated[tuple[Warning, ...], Field(max_length=20)] = ()
    reason: _Sentence | None = None
    """Why it is denied."""
    remember_for: _Span | None = None
    remind_after: _Part | None = None
    escalate_after: _Part | None = None
    escalate_to: _People | None = None
    result_ttl: _Span | None = None
    result_fallback: Fallback | None = None

    def is_about(self, tool: str) -> bool:
        """Whether it is about a tool, or about an agent's own, which is named `agent_call:NAME`."""
        names = (tool, AGENT_CALL) if tool.startswith(f"{AGENT_CALL}:") else (tool,)
        return self.tools is None or any(fnmatchcase(name, pattern) for name in names for pattern in self.tools)

    def leaves_nothing_to(self, later: WrittenRule) -> bool:
        """Whether this one, standing earlier, surely applies wherever the later one would, and not to stop it.

        A rule that denies is a switch, put before the others for a while: they are not wrong for that.
        """
        return (
            self.execution is not Execution.DENY
            and (self.when is None or self.when == later.when)
            and (self.tools is None or _covered(later.tools or ("*",), self.tools))
            and (self.requesters is None or _contains(self.requesters, later.requesters))
            and (self.conversations is None or _contains(self.conversations, later.conversations))
        )


def _covered(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    """Whether tools that match one of the narrow patterns surely match a wide one."""

    def is_covered(pattern: str) -> bool:
        plain = not any(c in pattern for c in "*?[")
        return any(pattern == other or other == "*" or (plain and fnmatchcase(pattern, other)) for other in wide)

    return all(map(is_covered, narrow))


def _contains(wide: Sequence[object], narrow: Sequence[object] | None) -> bool:
    return narrow is not None and all(each in wide for each in narrow)


def read(text: str) -> tuple[WrittenRule, ...]:
    """The rules of a policy. Raises InvalidPolicy with every problem, each by rule and key."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise InvalidPolicy([f"the policy is larger than {MAX_BYTES // 1024} KiB"])
    if not text.strip():
        raise InvalidPolicy(["the policy is empty; one that is meant to have no rules says so in a comment"])
    try:
        written = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy([f"not TOML: {error}"]) from None
    entries = written.pop("rule", [])
    problems = [f"{key}: not a key of a policy; rules are written as [[rule]]" for key in written]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidPolicy([*problems, "rule: rules are written as [[rule]]"])
    if len(entries) > MAX_RULES:
        raise InvalidPolicy([*problems, f"rule: there are more than {MAX_RULES}"])
    rules: dict[int, WrittenRule] = {}
    for number, entry in enumerate(entries, 1):
        try:
            rules[number] = WrittenRule.model_validate_json(json.dumps(_spelled_out(entry), default=_not_json))
        except ValidationError as error:
            problems += [f"{_named(entry, number)}: {flaw}" for flaw in _flaws(error, entry)]
        problems += [f"{_named(entry, number)}: {flaw}" for flaw in _contradictions(entry)]
    problems += _repeated_names(entries)
    problems += _out_of_reach(rules)
    if problems:
        raise InvalidPolicy(problems)
    return tuple(rules.values())


def _spelled_out(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with its approvers as a list of tables, in whichever of the shorter forms they are written."""
    if "approvers" not in entry:
        return entry
    given = entry["approvers"]
    stages = given if isinstance(given, list) else [given]
    return {**entry, "approvers": [{"who": each} if isinstance(each, str) else each for each in stages]}


def _not_json(value: object) -> object:
    return {"a date or time": str(value)}  # no key takes one, and a table is refused everywhere


def _named(entry: dict[str, Any], number: int) -> str:
    name = entry.get("name")
    return f"rule {number} ({name!r})" if isinstance(name, str) and name else f"rule {number}"


def _flaws(error: ValidationError, entry: dict[str, Any]) -> Iterator[str]:
    flaws = error.errors(include_input=False, include_url=False)
    for flaw in flaws:
        where = flaw["loc"]
        said = flaw["msg"].removeprefix("Value error, ")
        match flaw["type"]:
            case "extra_forbidden":
                said = "there is no such key"
            case "missing":
                said = "it is missing"
            case "json_invalid":
                said = "it is nested too deeply"
            case "too_short":
                if any(other is not flaw and other["loc"][: len(where)] == where for other in flaws):
                    continue  # it is only short of what is wrong in it
                said = "it is empty; leave it out, or say at least one"
        if where[:1] == ("approvers",) and not isinstance(entry["approvers"], list):
            where = where[:1] + where[2:]
        yield ": ".join(part for part in (".".join(map(str, where)), said) if part)


def _contradictions(entry: dict[str, Any]) -> Iterator[str]:
    """Keys that are wrong only beside each other."""
    if "reason" in entry and entry.get("execution") != Execution.DENY:
        yield 'reason: it says why a call is denied, and goes with execution = "deny"'
    if ("escalate_after" in entry) != ("escalate_to" in entry):
        yield "escalate_after: it goes with escalate_to, and neither without the other"
    reminded, escalated = entry.get("remind_after"), entry.get("escalate_after")
    if isinstance(reminded, float) and isinstance(escalated, float) and escalated <= reminded:
        yield "escalate_after: it must come after remind_after"


def _repeated_names(entries: list[dict[str, Any]]) -> list[str]:
    first: dict[str, int] = {}
    problems = []
    for number, entry in enumerate(entries, 1):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, number) != number:
            problems.append(f"{_named(entry, number)}: name: it is already the name of rule {first[name]}")
    return problems


def _out_of_reach(rules: dict[int, WrittenRule]) -> list[str]:
    problems = []
    for number, rule in rules.items():
        earlier = [place for place, other in rules.items() if place < number and other.leaves_nothing_to(rule)]
        if earlier:
            before = f"rule {earlier[0]} ({rules[earlier[0]].name!r})"
            problems.append(f"rule {number} ({rule.name!r}): it can never apply: {before} does wherever it would")
    return problems
