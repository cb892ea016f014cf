"""The operator's policy file: read at the start, watched while running, and published for all workers."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.policy import InForce, effective_now, read
from assent import names
from assent.contracts.manifest import Manifest
from assent.contracts.permission import Execution
from assent.contracts.plan import Plan
from assent.contracts.signals import Withdrawal
from assent.contracts.values import Surface
from assent.payload import short_hash
from assent.policy.file import InvalidPolicy
from assent.policy.rules import Rules
from assent.settings import Settings
from ledger import Ledger
from workers.process import Misconfigured

PAGE = 100
SAME_FOR = 0.2
"""How many seconds a file must stay the same to count as written, not as being written."""
PASSES = 3
"""How often open calls are looked through: one that was planned by the former rules may come up after the first."""

_log = logging.getLogger(__name__)


def load(settings: Settings) -> Rules | None:
    """The rules that ASSENT_POLICY names, None if it names none. A worker does not start with a file that is wrong."""
    if settings.policy is None:
        return None
    try:
        return Rules.load(settings.policy)
    except InvalidPolicy as error:
        raise Misconfigured(_refusal(settings.policy, error)) from None


def _refusal(path: Path, error: InvalidPolicy) -> str:
    problems = "".join(f"\n  {problem}" for problem in error.problems)
    return f"ASSENT_POLICY: the policy in {path} cannot be followed:{problems}\nCorrect it: assent policy check {path}"


async def publish(ledger: Ledger, settings: Settings) -> None:
    """Put the policy in force before the first call is planned by this worker."""
    if (rules := load(settings)) is not None:
        await _put(ledger, rules)


async def _put(ledger: Ledger, rules: Rules) -> None:
    in_force = await ledger.policy()
    if in_force is not None and in_force.sha256 == rules.sha256:
        return
    await ledger.put_policy(rules.text, rules.sha256, datetime.now(UTC))
    _log.info("the policy %s is in force, rules: %d", short_hash(rules.sha256), len(rules.names))


async def keep_policy(ledger: Ledger, client: Client, settings: Settings) -> None:
    """Publish the policy and whatever it becomes, and carry out what it or an override denies, until cancelled.

    Any number may do so at once, with the same file.
    """
    if settings.policy is None:
        await _say_what_stays(ledger)
    watch = _Watch(ledger, client, settings.policy)
    while True:
        try:
            await watch.look()
        except Exception as error:
            _log.warning("the policy is looked at again, since this failed: %s: %s", type(error).__name__, error)
        await asyncio.sleep(settings.policy_every.total_seconds())


async def _say_what_stays(ledger: Ledger) -> None:
    try:
        policy = await ledger.policy()
    except Exception as error:
        _log.warning("the policy in force could not be read: %s", type(error).__name__)
        return
    if policy is not None:
        _log.warning("ASSENT_POLICY names no file; the policy %s stays in force", short_hash(policy.sha256))


class _Watch:
    """One file, and how far what it says has been carried out."""

    def __init__(self, ledger: Ledger, client: Client, path: Path | None) -> None:
        self._ledger = ledger
        self._client = client
        self._path = path
        self._rules: Rules | None = None
        """The last that were good."""
        self._refused: str | None = None
        """What was said last of a file that is not good."""
        self._overrides: frozenset[int] = frozenset()
        """Those that were in force."""
        self._passes_left = 0
        self._told: set[str] = set()
        """The approvals that were told that they are denied."""

    async def look(self) -> None:
        """Take over what has changed in the file or among the overrides, then let denied calls end."""
        if self._path is not None and (rules := await self._changed(self._path)) is not None:
            await _put(self._ledger, rules)
            self._rules = rules
            self._look_through()
        overrides = await self._ledger.overrides()
        denying = frozenset(each.n for each in overrides.values() if each.execution is Execution.DENY)
        if denying - self._overrides:
            self._look_through()
        self._overrides = denying
        if self._passes_left:
            found = await self._end_denied(await read(self._ledger))
            self._passes_left = max(self._passes_left - 1, 1 if found else 0)

    def _look_through(self) -> None:
        """Open calls are to be looked at anew."""
        self._told.clear()
        self._passes_left = PASSES

    async def _changed(self, path: Path) -> Rules | None:
        """What the file says now, if that is new, good and wholly written."""
        try:
            rules = Rules.load(path)
            is_known = self._rules is not None and rules.sha256 == self._rules.sha256
            if not is_known:
                await asyncio.sleep(SAME_FOR)
                if Rules.load(path).sha256 != rules.sha256:
                    return None  # somebody is writing it: it is looked at again
        except InvalidPolicy as error:
            self._say(error)
            return None
        self._refused = None
        return None if is_known else rules

    def _say(self, error: InvalidPolicy) -> None:
        if self._refused == str(error):
            return
        self._refused = str(error)
        kept = (
            f"the policy {short_hash(self._rules.sha256)} stays in force" if self._rules else "what is in force stays"
        )
        _log.error(
            "the policy in %s cannot be followed (problems: %d; assent policy check says which); %s",
            self._path,
            len(error.problems),
            kept,
        )

    async def _end_denied(self, in_force: InForce) -> int:
        """Tell every open approval that is denied, once; tells how many there were."""
        found = 0
        for plan, why in await self._denied(in_force):
            if plan.approval_id not in self._told:
                await _withdraw(self._client, plan, why)
                self._told.add(plan.approval_id)
                found += 1
        if found:
            _log.warning("%d open approvals are denied by what is in force now, and end", found)
        return found

    async def _denied(self, in_force: InForce) -> list[tuple[Plan, str]]:
        manifests: dict[str, Manifest | None] = {}
        denied = []
        offset: int | None = 0
        while offset is not None:
            plans, offset = await self._ledger.open_plans(offset, PAGE, self._client.namespace)
            for plan in plans:
                if plan.tool not in manifests:
                    manifests[plan.tool] = await self._ledger.manifest(plan.tool)
                if (manifest := manifests[plan.tool]) is None:
                    continue
                effective = await effective_now(self._ledger, in_force, manifest, plan)
                if effective.denied and not effective.in_doubt:  # what nobody can say is looked at when it begins
                    denied.append((plan, effective.denied))
            await asyncio.sleep(0)  # many calls and many rules: let others have their turn
        return denied


async def _withdraw(client: Client, plan: Plan, why: str) -> None:
    withdrawal = Withdrawal(reason=why, surface=Surface.POLICY)
    try:
        await client.get_workflow_handle(names.approval_workflow(plan.approval_id)).signal(names.CANCEL, withdrawal)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended meanwhile
            raise
