"""What the operator's policy makes of a call: whether it may run, who decides, and what they are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from assent import reasons
from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.permission import Execution, Fallback, Permission
from assent.contracts.plan import Plan
from assent.contracts.policy import Override, Policy, Rule
from assent.contracts.values import Frozen
from assent.names import AGENT_CALL
from assent.payload import sha256
from assent.policy.conditions import ID_KINDS, Condition, Known, NotEvaluable, NotKnown
from assent.policy.file import MAX_BYTES, InvalidPolicy, WrittenRule, read

_RISKS = list(Risk)


class Asking(Frozen):
    """A call, as far as rules can tell calls apart."""

    tool: str
    arguments: dict[str, Any]
    """All of them, with the defaults that were left out."""
    requester: Identity
    conversation: str | None
    """The chat that it was asked for in."""
    chat_is_known: bool = True
    """Whether that is so: not where it answers a message, and nobody has said in which chat that is."""

    @classmethod
    def of(cls, payload: str, requester: Identity, conversation: str | None, *, chat_is_known: bool = True) -> Self:
        """The call of a canonical payload: conditions see what was shown and hashed, and nothing else."""
        call = json.loads(payload)
        return cls(
            tool=call["tool"],
            arguments=call["arguments"],
            requester=requester,
            conversation=conversation,
            chat_is_known=chat_is_known,
        )

    @property
    def subject(self) -> str:
        """The tool's name as rules have it: of an agent's own, `agent_call:NAME`."""
        return f"{AGENT_CALL}:{self.arguments.get('name')}" if self.tool == AGENT_CALL else self.tool

    @property
    def unknown(self) -> frozenset[str]:
        """What a rule may ask for and nobody knows of who asks, and where: everybody has ids of every kind."""
        kinds = (kind for kind in ID_KINDS if getattr(self.requester, kind) is None)
        return frozenset((*kinds, *(() if self.chat_is_known else ("conversation",))))


class Effective(Frozen):
    """What holds for one call: what the rule that applies says, and what the tool says where the rule is silent."""

    permission: Permission
    approvers: Approvers
    risk: Risk
    ttl: timedelta | None
    """The longest that it may wait."""
    warnings: tuple[str, ...]
    denied: str | None
    """Why it may not run at all."""
    rule: Rule | None
    """The rule that applies, if one does."""
    remember_for: timedelta | None
    remind_after: float | None
    """After which part of its time it is shown again."""
    escalate_after: float | None
    """After which part of its time others may decide too,"""
    escalate_to: tuple[Identity, ...]
    """and who."""
    result_ttl: timedelta | None
    result_fallback: Fallback | None
    override: int | None = None
    """The number of the override that stands beside it, if one does."""
    in_doubt: tuple[str, ...] = ()
    """What would have to be known to be sure of it: ids of the requester, the conversation."""


class Trial(Frozen):
    """Whether one rule applies to a call, and why."""

    rule: str
    applies: bool
    why: str
    is_broken: bool = False
    """Whether it applies only because nobody can say whether it does: such a call is denied."""
    in_doubt: tuple[str, ...] = ()
    """What would have to be known to say whether it applies."""


class Rules:
    """The operator's rules in order. The first that applies to a call wins."""

    def __init__(self, rules: tuple[WrittenRule, ...], text: str) -> None:
        self.rules = rules
        self.text = text
        """What they were read from."""
        self.sha256 = sha256(text)

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Read a policy. Raises InvalidPolicy, which names every problem with its rule and key."""
        return cls(read(text), text)

    @classmethod
    def load(cls, path: Path) -> Rules:
        """Read a policy file. One that cannot be read is as invalid as one that cannot be understood."""
        try:
            with path.open("rb") as file:
                return cls.parse(file.read(MAX_BYTES + 1).decode())
        except OSError as error:
            raise InvalidPolicy([f"it cannot be read: {error.strerror}"]) from None
        except UnicodeDecodeError:
            raise InvalidPolicy([f"it is not UTF-8, or larger than {MAX_BYTES // 1024} KiB"]) from None

    @classmethod
    def published(cls, policy: Policy | None) -> Rules:
        """The rules as the ledger has them; none, where none or an empty policy was ever published."""
        if policy is None or policy.sha256 == NO_RULES.sha256:
            return NO_RULES
        if sha256(policy.text) != policy.sha256:
            raise InvalidPolicy(["the policy in the ledger is not the one that was published; publish it again"])
        return cls.parse(policy.text)

    @property
    def may_take_long(self) -> bool:
        """Whether a condition of theirs is evaluated in a process of its own."""
        conditions = [when for rule in self.rules for when in (rule.when, *(each.when for each in rule.warnings))]
        return any(condition is not None and condition.may_take_long for condition in conditions)

    def ask_who(self, tool: str) -> bool:
        """Whether a rule about this tool depends on who asks for it.

        tool: its name, or `agent_call:NAME` of an agent's own.
        """
        about_it = (rule for rule in self.rules if rule.is_about(tool))
        return any(rule.requesters is not None or (rule.when and rule.when.asks_who) for rule in about_it)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    def trials(self, asking: Asking) -> Iterator[Trial]:
        """Every rule in order, up to the one that applies."""
        known = _known(asking)
        for rule in self.rules:
            trial = _trial(rule, asking, known)
            yield trial
            if trial.applies:
                return

    def effective(self, manifest: Manifest, asking: Asking, override: Override | None = None) -> Effective:
        """What holds for a call of this tool. Where rules are in doubt, it must hold whether they apply or not.

        override: what stands beside them for the tool: in the place of its own word, and where a rule says something,
        the stricter of both holds.
        """
        if override is None:
            return self._effective(manifest, asking)
        said = manifest.model_copy(update={"permission": override.over(manifest.permission)})
        return beside(self._effective(said, asking), override)

    def _effective(self, manifest: Manifest, asking: Asking) -> Effective:
        holds = _declared(manifest)
        doubtful: list[tuple[WrittenRule, Trial]] = []
        for rule, trial in zip(self.rules, self.trials(asking), strict=False):
            if trial.applies:
                holds = self._as_ruled(manifest, asking, rule, trial)
            elif trial.in_doubt:
                doubtful.append((rule, trial))
        for rule, trial in doubtful:
            if _differ(holds, self._as_ruled(manifest, asking, rule, trial)):
                return _doubted(manifest, Rule(name=rule.name, policy_sha256=self.sha256), trial)
        return holds

    def _as_ruled(self, manifest: Manifest, asking: Asking, rule: WrittenRule, trial: Trial) -> Effective:
        found = Rule(name=rule.name, policy_sha256=self.sha256)
        return _broken(manifest, found, trial) if trial.is_broken else _ruled(manifest, asking, rule, found)


NO_RULES = Rules((), "")
"""The policy of an operator who has none: what the tools say of themselves."""


def _known(asking: Asking) -> Known:
    """The call as conditions see it."""
    return Known(
        arguments=asking.arguments,
        tool=asking.tool,
        requester=asking.requester.model_dump(exclude_none=True),
        conversation=asking.conversation,
        unknown=asking.unknown,
    )


def _trial(rule: WrittenRule, asking: Asking, known: Known) -> Trial:
    def misses(why: str) -> Trial:
        return Trial(rule=rule.name, applies=False, why=why)

    doubts: dict[str, frozenset[str]] = {}
    if rule.tools is not None and not rule.is_about(asking.subject):
        return misses(f"tools: {asking.subject} is none of {', '.join(rule.tools)}")
    if rule.requesters is not None and not _is_one_of(asking.requester, rule.requesters):
        kinds = _telling_apart(asking.requester, rule.requesters)
        if not kinds:
            return misses(f"requesters: {asking.requester} is none of {', '.join(map(str, rule.requesters))}")
        doubts["requesters"] = kinds
    if rule.conversations is not None and not asking.chat_is_known:
        doubts["conversations"] = frozenset({"conversation"})
    elif rule.conversations is not None and asking.conversation not in rule.conversations:
        said = asking.conversation or "no conversation"
        return misses(f"conversations: {said} is none of {', '.join(rule.conversations)}")
    broken, missing = None, frozenset[str]()
    try:
        if rule.when is not None and not rule.when.holds(known):
            return misses(f"when: {rule.when.text} is false")
    except NotKnown as error:
        missing = error.facts
        if error.is_expected:
            doubts["when"] = missing
        else:
            broken = f"when: {_unknown(rule.when, error)}"
    except NotEvaluable as error:
        broken = f"when: {_unknown(rule.when, error)}"
    in_doubt = tuple(sorted(missing.union(*doubts.values())))
    if doubts:
        why = f"{', '.join(doubts)}: not known: {', '.join(in_doubt)}"
        return Trial(rule=rule.name, applies=False, why=why, is_broken=broken is not None, in_doubt=in_doubt)
    if broken is not None:
        return Trial(rule=rule.name, applies=True, why=broken, is_broken=True, in_doubt=in_doubt)
    named = [key for key in ("tools", "requesters", "conversations", "when") if getattr(rule, key) is not None]
    return Trial(rule=rule.name, applies=True, why=f"{', '.join(named)} match" if named else "it is about every call")


def _is_one_of(person: Identity, people: tuple[Identity, ...]) -> bool:
    return any(other.within(person.tenant_key).is_same_person(person) for other in people)


def _telling_apart(person: Identity, people: tuple[Identity, ...]) -> frozenset[str]:
    """The kinds of id by which it could be said whether a person is one of those who may be this one or another."""
    here = (other for other in people if other.within(person.tenant_key).tenant_key == person.tenant_key)
    doubtful = (other for other in here if other.may_be(person))
    return frozenset(kind for other in doubtful for kind in ID_KINDS if getattr(other, kind) is not None)


def _unknown(condition: Condition | None, error: NotEvaluable) -> str:
    text = condition.text if condition else ""
    return f"{text} cannot be answered for these arguments: {error}"


def _declared(manifest: Manifest) -> Effective:
    """What the tool says of itself."""
    denies = manifest.permission.execution is Execution.DENY
    return Effective(
        permission=manifest.permission,
        approvers=manifest.approvers,
        risk=manifest.risk,
        ttl=manifest.max_ttl,
        warnings=manifest.warnings,
        denied=f"the tool {manifest.name!r} lets nobody run it" if denies else None,
        rule=None,
        remember_for=None,
        remind_after=None,
        escalate_after=None,
        escalate_to=(),
        result_ttl=None,
        result_fallback=None,
    )


def _ruled(manifest: Manifest, asking: Asking, rule: WrittenRule, found: Rule) -> Effective:
    declared = _declared(manifest)
    permission = Permission(
        execution=rule.execution or declared.permission.execution, result=rule.result or declared.permission.result
    )
    denied = declared.denied if permission.execution is Execution.DENY else None
    if rule.execution is Execution.DENY:
        denied = f"the operator's rule {rule.name!r} does not allow it" + (f": {rule.reason}" if rule.reason else "")
    warnings, in_doubt = _warnings(rule, _known(asking))
    set_here = {
        "approvers": _stages(rule),
        **{name: getattr(rule, name) for name in ("risk", "ttl", "remember_for", "remind_after", "escalate_after")},
        **{name: getattr(rule, name) for name in ("escalate_to", "result_ttl", "result_fallback")},
    }
    return declared.model_copy(
        update={
            **{name: value for name, value in set_here.items() if value is not None},
            "permission": permission,
            "denied": denied,
            "warnings": (*declared.warnings, *warnings),
            "in_doubt": in_doubt,
            "rule": found,
        }
    )


def beside(holds: Effective, override: Override) -> Effective:
    """What holds where an override stands beside it: the stricter of both."""
    permission, denied = override.beside(holds.permission), holds.denied
    if override.execution is Execution.DENY:
        why = override.reason
        overridden = reasons.OVERRIDE_DENIES_BECAUSE(why=why) if why else reasons.OVERRIDE_DENIES()
        denied = holds.denied if holds.rule and holds.denied else overridden
    return holds.model_copy(update={"permission": permission, "denied": denied, "override": override.n})


def _differ(one: Effective, other: Effective) -> bool:
    """Whether it makes a difference for a call which of the two holds; one that may not run may not run either way."""
    if one.denied and other.denied:
        return False
    by_name = {"rule", "in_doubt"}
    return one.model_dump(exclude=by_name) != other.model_dump(exclude=by_name)


def _doubted(manifest: Manifest, found: Rule, trial: Trial) -> Effective:
    """Nobody can say whether the rule applies, and it makes a difference: as long as that is so, nothing runs."""
    denied = (
        f"whether the operator's rule {found.name!r} applies cannot be said ({trial.why}), and it would make a "
        "difference, so it is denied; name the requester by these ids, and the chat"
    )
    return _stopped(manifest, found, denied).model_copy(update={"in_doubt": trial.in_doubt})


def _stopped(manifest: Manifest, found: Rule, denied: str) -> Effective:
    declared = _declared(manifest)
    permission = declared.permission.model_copy(update={"execution": Execution.DENY})
    return declared.model_copy(update={"permission": permission, "denied": denied, "rule": found})


def _broken(manifest: Manifest, found: Rule, trial: Trial) -> Effective:
    """Nobody can say whether the rule applies: as long as that is so, nothing runs."""
    denied = (
        f"the operator's rule {found.name!r} cannot be applied ({trial.why}), so it is denied; "
        "let the condition ask first whether a value is there, as in has(arguments.x) && …"
    )
    return _stopped(manifest, found, denied).model_copy(update={"in_doubt": trial.in_doubt})


def _stages(rule: WrittenRule) -> Approvers | None:
    if rule.approvers is None:
        return None
    first, *then = (group.approvers for group in rule.approvers)
    return first.model_copy(update={"then": tuple(then)})


def _warnings(rule: WrittenRule, known: Known) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sentences whose condition holds or cannot be answered; and what would have to be known for that."""
    said, unknown = [], set[str]()
    for warning in rule.warnings:
        try:
            holds = warning.when is None or warning.when.holds(known)
        except NotKnown as error:
            holds, unknown = True, unknown | error.facts
        except NotEvaluable:
            holds = True
        said += [warning.text] if holds else []
    return tuple(said), tuple(sorted(unknown))


def objection(plan: Plan, effective: Effective, approved_by: tuple[Identity, ...]) -> str | None:
    """Why a call that was planned so may not run under what is in force now; None if it may.

    approved_by: who let it run, in order; nobody, where it runs by itself or by a remembered decision.
    """
    if effective.permission.execution is Execution.DENY:
        return effective.denied or "it is denied"
    if not approved_by and effective.permission.execution.strictness > plan.permission.execution.strictness:
        return f"{_since(effective)}: a person must be asked ({effective.permission.execution}), and nobody was"
    if _RISKS.index(effective.risk) > _RISKS.index(plan.risk):
        return f"{_since(effective)}: its risk was {plan.risk} when it was decided, and is {effective.risk}"
    if effective.permission.result.strictness > plan.permission.result.strictness:
        return f"{_since(effective)}: its result must be reviewed ({effective.permission.result})"
    approvers = effective.approvers.within(plan.tenant_key)
    asks = effective.permission.execution is not Execution.AUTO
    if asks and approvers != plan.approvers and not _is_satisfied(approvers, _consenting(plan, approved_by), plan):
        return f"{_since(effective)}: those who approved it are not those, or not as many, who must"
    return None


def _since(effective: Effective) -> str:
    return f"the policy has changed (rule {effective.rule.name!r})" if effective.rule else "the policy has changed"


def _consenting(plan: Plan, approved_by: tuple[Identity, ...]) -> tuple[Identity, ...]:
    return approved_by or ((plan.grant.granted_by,) if plan.grant else ())


def _is_satisfied(approvers: Approvers, consenting: tuple[Identity, ...], plan: Plan) -> bool:
    """Whether they pass all stages in order, everyone counting once; of a chat, as far as can be said here."""
    left = list(approvers.stages)
    asked = {stage.chat_id for stage in plan.approvers.stages}
    if any(stage.chat_id not in asked for stage in left if stage.kind is Approvers.Kind.CHAT):
        return False  # nobody has asked that chat who belongs to it
    counted: list[Identity] = []
    missing = left[0].threshold
    for person in (person.within(plan.tenant_key) for person in consenting):
        if any(person.may_be(other) for other in counted) or not left[0].include(person, plan.requester):
            continue
        counted.append(person)
        missing -= 1
        if missing == 0:
            del left[0]
            if not left:
                return True
            missing = left[0].threshold
    return False
