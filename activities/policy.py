"""The operator's policy as the ledger has it: what all workers agree on."""

from __future__ import annotations

import asyncio

from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.plan import Plan
from assent.policy.rules import NO_RULES, Asking, Effective, Rules
from ledger import Ledger

FRESH_FOR = 1.0
"""How many seconds the rules are used before the ledger is asked again whether they are still in force."""


async def effective_now(ledger: Ledger, rules: Rules, manifest: Manifest, plan: Plan) -> Effective:
    """What holds for a plan's call by these rules, with all that is known by now of who asked for it."""

    async def by(requester: Identity) -> Effective:
        asking = Asking.of(plan.payload, requester, plan.conversation, chat_is_known=plan.chat_is_known)
        return await effective_by(rules, manifest, asking)

    effective = await by(plan.requester)
    if not effective.in_doubt:
        return effective
    return await by((await ledger.person(plan.requester)).named(plan.requester))


async def effective_by(rules: Rules, manifest: Manifest, asking: Asking) -> Effective:
    """What holds for a call by these rules. What may take long is waited for in a thread: others go on meanwhile."""
    if rules.may_take_long:
        return await asyncio.to_thread(rules.effective, manifest, asking)
    return rules.effective(manifest, asking)


class PolicyInForce:
    """The rules in force, read again when they have changed, at most once a second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._number, self._rules = 0, NO_RULES
        self._fresh_until = 0.0
        self._asking = asyncio.Lock()

    async def rules(self) -> Rules:
        """Raises what the ledger raises, and InvalidPolicy: where nobody can say what is in force, nothing runs."""
        return (await self.numbered())[1]

    async def numbered(self) -> tuple[int, Rules]:
        """The rules, and the number of the policy that they are."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now >= self._fresh_until:
                self._number, self._rules = await self._read()
                self._fresh_until = now + FRESH_FOR
            return self._number, self._rules

    def forget(self) -> None:
        """Others are in force by now: read them before they are used again."""
        self._fresh_until = 0.0

    async def _read(self) -> tuple[int, Rules]:
        policy = await self._ledger.policy()
        number = policy.n if policy is not None else 0
        if policy is not None and policy.sha256 == self._rules.sha256:
            return number, self._rules
        return number, Rules.published(policy)
