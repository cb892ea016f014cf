"""The operator's policy as the ledger has it: what all workers agree on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.plan import Plan
from assent.contracts.policy import Override
from assent.policy.rules import NO_RULES, Asking, Effective, Rules, beside
from ledger import Ledger, Numbers

FRESH_FOR = 1.0
"""How many seconds the rules are used before the ledger is asked again whether they are still in force."""


@dataclass(frozen=True)
class InForce:
    """The rules and overrides that hold."""

    number: int
    """Which policy the rules are."""
    rules: Rules
    overrides: Mapping[str, Override]

    def numbers(self, tool: str) -> Numbers:
        """What is in force for a tool, as *begin* compares it."""
        override = self.overrides.get(tool)
        return self.number, override.n if override else 0


NOTHING = InForce(0, NO_RULES, {})


async def effective_now(ledger: Ledger, in_force: InForce, manifest: Manifest, plan: Plan) -> Effective:
    """What holds for a plan's call by what is in force, with all that is known by now of who asked for it."""

    async def by(requester: Identity) -> Effective:
        asking = Asking.of(plan.payload, requester, plan.conversation, chat_is_known=plan.chat_is_known)
        return await effective_by(in_force, manifest, asking)

    effective = await by(plan.requester)
    if not effective.in_doubt:
        return effective
    return await by((await ledger.person(plan.requester)).named(plan.requester))


async def effective_by(in_force: InForce, manifest: Manifest, asking: Asking) -> Effective:
    """What holds for a call. What may take long is waited for in a thread: others go on meanwhile."""
    rules, of_all, of_subject = in_force.rules, in_force.overrides.get(manifest.name), None
    if asking.subject != manifest.name:  # what an agent runs itself has a name of its own
        of_subject = in_force.overrides.get(asking.subject)
    given = manifest, asking, of_subject or of_all
    effective = await asyncio.to_thread(rules.effective, *given) if rules.may_take_long else rules.effective(*given)
    return beside(effective, of_all) if of_subject and of_all else effective


class PolicyInForce:
    """The rules and overrides in force, read again when they have changed, at most once a second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._in_force = NOTHING
        self._fresh_until = 0.0
        self._asking = asyncio.Lock()

    async def now(self) -> InForce:
        """Raises what the ledger raises, and InvalidPolicy: where nobody can say what is in force, nothing runs."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now >= self._fresh_until:
                self._in_force = await read(self._ledger, self._in_force.rules)
                self._fresh_until = now + FRESH_FOR
            return self._in_force

    def forget(self) -> None:
        """Others are in force by now: read them before they are used again."""
        self._fresh_until = 0.0


async def read(ledger: Ledger, known: Rules = NO_RULES) -> InForce:
    """What is in force; rules that are *known* already are not parsed again."""
    overrides, policy = await ledger.overrides(), await ledger.policy()
    if policy is None:
        return InForce(0, NO_RULES, overrides)
    return InForce(policy.n, known if policy.sha256 == known.sha256 else Rules.published(policy), overrides)
