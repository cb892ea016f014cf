"""The operator's policy as the ledger has it: what all workers agree on."""

from __future__ import annotations

import asyncio

from assent.policy import NO_RULES, Rules
from ledger import Ledger

FRESH_FOR = 1.0
"""How many seconds the rules are used before the ledger is asked again whether they are still in force."""


class PolicyInForce:
    """The rules in force, read again when they have changed, at most once a second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rules = NO_RULES
        self._fresh_until = 0.0
        self._asking = asyncio.Lock()

    async def rules(self) -> Rules:
        """Raises what the ledger raises, and InvalidPolicy: where nobody can say what is in force, nothing runs."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now >= self._fresh_until:
                self._rules = await self._read()
                self._fresh_until = now + FRESH_FOR
            return self._rules

    async def _read(self) -> Rules:
        policy = await self._ledger.policy()
        if policy is not None and policy.sha256 == self._rules.sha256:
            return self._rules
        return Rules.published(policy)
