"""The policy file while the service runs: published when it is good, kept out when it is not, carried out at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import activities.policy
from activities.policy import PolicyInForce
from assent.contracts.permission import Execution
from assent.contracts.plan import Plan
from assent.contracts.policy import NewOverride, Override, Policy
from assent.contracts.request import Request
from assent.contracts.signals import Withdrawal
from assent.contracts.values import Surface
from assent.payload import canonical_payload, sha256
from assent.policy.file import InvalidPolicy
from assent.policy.rules import Rules
from assent.settings import Settings
from ledger import Ledger
from tests import conftest
from tests.conftest import Service, new_database
from tests.support.policies import ME, manifest, plan, rule
from tests.support.tools import marks
from tests.support.waiting import until
from workers import policy
from workers.process import Misconfigured

OPEN = rule('tools = ["read"]', 'execution = "auto"', name="reading")
SHUT = rule('execution = "deny"', 'reason = "Month-end closing."', name="closing")
LARGE = rule('execution = "deny"', 'when = "has(arguments.amount) && arguments.amount > 100"', name="large")


class Temporal:
    """What the watcher needs of Temporal: somebody to signal, in the namespace that open calls live in."""

    namespace = "default"

    def __init__(self) -> None:
        self.signals: list[tuple[str, str, Withdrawal]] = []
        self.ended: set[str] = set()
        self.is_down = False

    def get_workflow_handle(self, workflow_id: str) -> Any:
        temporal = self

        class Handle:
            async def signal(self, name: str, withdrawal: Withdrawal) -> None:
                if temporal.is_down:
                    raise RPCError("down", RPCStatusCode.UNAVAILABLE, b"")
                if workflow_id in temporal.ended:
                    raise RPCError("ended", RPCStatusCode.NOT_FOUND, b"")
                temporal.signals.append((workflow_id, name, withdrawal))

        return Handle()

    @property
    def told(self) -> list[str]:
        return [workflow_id for workflow_id, _, _ in self.signals]


@pytest.fixture
def temporal() -> Temporal:
    return Temporal()


@pytest.fixture
async def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ledger]:
    monkeypatch.setattr(policy, "SAME_FOR", 0.01)
    ledger = Ledger.open(await new_database("sqlite", tmp_path))
    await ledger.upgrade()
    await ledger.publish([manifest()], datetime.now(UTC))
    yield ledger
    await ledger.dispose()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    write(file, OPEN)
    return file


def write(file: Path, text: str) -> None:
    file.write_text(text)


def remove(file: Path) -> None:
    file.unlink()


@pytest.fixture
def published(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is published, in order."""
    published: list[str] = []
    put = ledger.put_policy

    async def noting(text: str, sha256: str, now: datetime) -> None:
        published.append(text)
        await put(text, sha256, now)

    monkeypatch.setattr(ledger, "put_policy", noting)
    return published


@asynccontextmanager
async def watched(ledger: Ledger, temporal: Temporal, file: Path | None) -> AsyncIterator[None]:
    settings = Settings(policy=file, policy_every=timedelta(milliseconds=20))
    watching = asyncio.create_task(policy.keep_policy(ledger, cast("Client", temporal), settings))
    try:
        yield
        assert not watching.done()
    finally:
        watching.cancel()


async def opened(ledger: Ledger, approval_id: str, **arguments: Any) -> Plan:
    """An approval that waits."""
    payload = canonical_payload("send_mail", arguments)
    now = datetime.now(UTC)
    request = Request(approval_id=approval_id, tool="send_mail", arguments=arguments, requester=ME)
    planned = plan(
        approval_id=approval_id, payload=payload, payload_sha256=sha256(payload), request_sha256=request.sha256
    )
    await ledger.register(request, planned, None, now=now, open_until=now + timedelta(hours=1))
    return planned


async def in_force(ledger: Ledger, text: str) -> None:
    async def is_in_force() -> bool:
        found = await ledger.policy()
        return found is not None and found.text == text

    await until(is_in_force, 20)


# At the start


async def test_worker_refuses_to_start_with_a_file_that_is_wrong(ledger: Ledger, file: Path) -> None:
    assert policy.load(Settings(policy=None)) is None
    assert cast("Rules", policy.load(Settings(policy=file))).names == ("reading",)
    write(file, rule("ttl = 0") + rule('risk = "huge"', name="s"))
    with pytest.raises(Misconfigured) as refused:
        await policy.publish(ledger, Settings(policy=file))
    assert "rule 1 ('r'): ttl: " in str(refused.value)
    assert "rule 2 ('s'): risk: " in str(refused.value)
    assert f"assent policy check {file}" in str(refused.value)
    with pytest.raises(Misconfigured, match="it cannot be read: No such file"):
        policy.load(Settings(policy=file.with_name("missing.toml")))
    assert await ledger.policy() is None


async def test_policy_is_in_force_before_the_first_call_and_stays_since_when_it_was(ledger: Ledger, file: Path) -> None:
    await policy.publish(ledger, Settings(policy=file))
    first = await ledger.policy()
    assert first is not None
    assert (first.text, first.sha256) == (OPEN, sha256(OPEN))
    await policy.publish(ledger, Settings(policy=file))
    assert await ledger.policy() == first
    await policy.publish(ledger, Settings(policy=None))
    assert await ledger.policy() == first


async def test_without_a_file_what_is_in_force_stays_and_that_is_said(
    ledger: Ledger, temporal: Temporal, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def looked() -> bool:
        return bool(caplog.records)

    async with watched(ledger, temporal, None):
        assert await ledger.policy() is None
    assert not caplog.records
    await policy.publish(ledger, Settings(policy=file))
    async with watched(ledger, temporal, None):
        await until(looked)
    assert f"the policy {sha256(OPEN)[:12]} stays in force" in caplog.text


async def test_what_an_override_denies_ends_with_or_without_a_file(ledger: Ledger, temporal: Temporal) -> None:
    await ledger.publish([manifest()], datetime.now(UTC))
    await opened(ledger, "waits")
    denies = NewOverride(tool="send_mail", execution=Execution.DENY, reason="an incident", once="x")

    async def told() -> bool:
        return temporal.told == ["approval/waits"]

    async with watched(ledger, temporal, None):
        await ledger.override(denies, may_loosen=False)
        await until(told)


# While running


async def test_changed_file_is_published(ledger: Ledger, temporal: Temporal, file: Path) -> None:
    async with watched(ledger, temporal, file):
        await in_force(ledger, OPEN)
        write(file, SHUT)
        await in_force(ledger, SHUT)


async def test_wrong_or_vanished_file_keeps_the_last_good_policy_and_is_said_once(
    ledger: Ledger, temporal: Temporal, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    def said() -> int:
        return len(caplog.records)

    async def has_said(times: int) -> None:
        async def enough() -> bool:
            return said() >= times

        await until(enough, 20)

    async with watched(ledger, temporal, file):
        await in_force(ledger, OPEN)
        write(file, rule('exceution = "hunter2"'))
        await has_said(1)
        remove(file)
        await has_said(2)
        write(file, "")
        await has_said(3)
        before = await ledger.policy()
        write(file, LARGE)
        await in_force(ledger, LARGE)
    assert before is not None
    assert before.text == OPEN
    assert said() == 3
    assert "exceution" not in caplog.text
    assert "hunter2" not in caplog.text
    assert all(f"the policy {sha256(OPEN)[:12]} stays in force" in record.getMessage() for record in caplog.records)


async def test_file_that_is_being_written_is_not_taken_for_what_it_will_say(
    ledger: Ledger, temporal: Temporal, file: Path, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, half = Rules.load, OPEN + LARGE

    def growing(path: Path) -> Rules:
        """Somebody goes on writing right after the first half was read."""
        rules = load(path)
        if rules.text == half:
            write(file, half + SHUT)
        return rules

    monkeypatch.setattr(Rules, "load", growing)
    async with watched(ledger, temporal, file):
        await in_force(ledger, OPEN)
        write(file, half)
        await in_force(ledger, half + SHUT)
    assert published == [OPEN, half + SHUT]


async def test_two_workers_with_different_files_do_not_go_on_overruling_each_other(
    ledger: Ledger, temporal: Temporal, file: Path, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, looks = Rules.load, list[Path]()

    def noting(path: Path) -> Rules:
        looks.append(path)
        return load(path)

    monkeypatch.setattr(Rules, "load", noting)
    other = file.with_name("other.toml")
    write(other, LARGE)
    async with watched(ledger, temporal, file):
        await in_force(ledger, OPEN)
        async with watched(ledger, temporal, other):
            await in_force(ledger, LARGE)
            write(file, SHUT)
            await in_force(ledger, SHUT)
            looks.clear()

            async def have_looked() -> bool:
                return min(looks.count(file), looks.count(other)) > 5

            await until(have_looked)
    assert published == [OPEN, LARGE, SHUT]


# The kill switch


async def test_open_calls_that_are_denied_now_are_told_once_with_the_rule_and_its_reason(
    ledger: Ledger, temporal: Temporal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "PASSES", 10_000)
    for number in range(3):
        await opened(ledger, f"a{number}")
    async with watched(ledger, temporal, file):
        await in_force(ledger, OPEN)
        assert temporal.signals == []
        write(file, SHUT)
        await until(lambda: _told(temporal, 3))
        await opened(ledger, "after")  # planned by the former rules, and registered after they were changed
        await until(lambda: _told(temporal, 4))
    assert temporal.told == [f"approval/{name}" for name in ("a0", "a1", "a2", "after")]
    _, name, withdrawal = temporal.signals[0]
    assert (name, withdrawal.surface) == ("cancel", Surface.POLICY)
    assert withdrawal.reason == "the operator's rule 'closing' does not allow it: Month-end closing."


async def _told(temporal: Temporal, many: int) -> bool:
    return len(temporal.signals) >= many


async def test_only_those_calls_end_that_the_rule_is_about(ledger: Ledger, temporal: Temporal, file: Path) -> None:
    await opened(ledger, "small", amount=5)
    await opened(ledger, "large", amount=500)
    await opened(ledger, "none")
    write(file, LARGE)
    async with watched(ledger, temporal, file):
        await until(lambda: _told(temporal, 1))
        write(file, LARGE + "# once more\n")
        await until(lambda: _told(temporal, 2))  # another policy: it is said again
    assert set(temporal.told) == {"approval/large"}


async def test_many_open_calls_are_all_told(
    ledger: Ledger, temporal: Temporal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "PAGE", 2)
    for number in range(5):
        await opened(ledger, f"a{number}")
    temporal.ended.add("approval/a1")
    write(file, SHUT)
    async with watched(ledger, temporal, file):
        await until(lambda: _told(temporal, 4))
    assert sorted(temporal.told) == [f"approval/a{number}" for number in (0, 2, 3, 4)]


async def test_restarted_worker_ends_what_its_predecessor_left(ledger: Ledger, temporal: Temporal, file: Path) -> None:
    write(file, SHUT)
    await policy.publish(ledger, Settings(policy=file))
    await opened(ledger, "left")
    async with watched(ledger, temporal, file):
        await until(lambda: _told(temporal, 1))
    assert temporal.told == ["approval/left"]


async def test_calls_are_told_when_temporal_is_back(
    ledger: Ledger, temporal: Temporal, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await opened(ledger, "a")
    temporal.is_down = True
    write(file, SHUT)

    async def failed() -> bool:
        return "looked at again" in caplog.text

    async with watched(ledger, temporal, file):
        await until(failed)
        temporal.is_down = False
        await until(lambda: _told(temporal, 1))
    assert temporal.told == ["approval/a"]


# What all workers agree on


class Counting:
    """A ledger that counts how often it is asked."""

    def __init__(self, policy: Policy | None) -> None:
        self.asked = 0
        self.in_force = policy

    async def policy(self) -> Policy | None:
        self.asked += 1
        return self.in_force

    async def overrides(self) -> dict[str, Override]:
        return {}


async def test_policy_in_force_is_read_again_when_it_changed_and_at_most_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def published(text: str) -> Policy:
        return Policy(text=text, sha256=sha256(text), since=datetime.now(UTC))

    ledger = Counting(None)
    current = PolicyInForce(cast("Ledger", ledger))
    monkeypatch.setattr(activities.policy, "FRESH_FOR", 3600.0)
    assert {in_force.rules.names for in_force in await asyncio.gather(*(current.now() for _ in range(20)))} == {()}
    assert ledger.asked == 1
    monkeypatch.setattr(activities.policy, "FRESH_FOR", 0.0)
    current = PolicyInForce(cast("Ledger", ledger))
    ledger.in_force = published(OPEN)
    first = (await current.now()).rules
    assert first.names == ("reading",)
    assert (await current.now()).rules is first
    ledger.in_force = published(SHUT)
    assert (await current.now()).rules.names == ("closing",)
    ledger.in_force = Policy(text=OPEN, sha256=sha256("another"), since=datetime.now(UTC))
    with pytest.raises(InvalidPolicy):
        await current.now()
    ledger.in_force = published("")
    assert (await current.now()).rules.names == ()


async def test_policy_in_the_ledger_is_that_of_every_worker(ledger: Ledger, file: Path) -> None:
    one, other = PolicyInForce(ledger), PolicyInForce(ledger)
    await policy.publish(ledger, Settings(policy=file))
    assert (await one.now()).rules.sha256 == (await other.now()).rules.sha256 == sha256(OPEN)


# In a whole service


async def test_what_the_file_lets_run_runs_and_nobody_is_asked(service: Service, tmp_path: Path) -> None:
    """Whoever writes it says so of every tool, however careful its authors were."""
    file = tmp_path / "policy.toml"
    write(file, rule('execution = "auto"', 'risk = "low"', name="everything"))
    arguments = {"path": f"{tmp_path}/mark", "secret": "s"}
    settings = Settings(policy=file, policy_every=timedelta(milliseconds=50))
    watching = asyncio.create_task(policy.keep_policy(service.ledger, service.client, settings))
    try:
        await in_force(service.ledger, file.read_text())
        outcome = await service.gate.call("guarded_mark", arguments, requester=conftest.ME)
    finally:
        watching.cancel()
        await service.ledger.put_policy("", sha256(""), datetime.now(UTC))
    assert (outcome.status, outcome.decided_by, marks(tmp_path / "mark")) == ("executed", None, 1)


async def test_waiting_call_is_rejected_within_seconds_with_the_reason(service: Service, tmp_path: Path) -> None:
    about = f"when = \"has(arguments.path) && arguments.path == '{tmp_path}/mark'\""
    file = tmp_path / "policy.toml"
    write(file, rule(about, 'execution = "deny"', 'reason = "Month-end closing."', name="closing"))
    arguments = {"path": f"{tmp_path}/mark"}
    waiting = await service.gate.request("mark", arguments, requester=conftest.ME)
    other = await service.gate.request("mark", {"path": f"{tmp_path}/other"}, requester=conftest.ME)
    assert (await waiting.state()).phase == "pending"
    settings = Settings(policy=file, policy_every=timedelta(milliseconds=50))
    watching = asyncio.create_task(policy.keep_policy(service.ledger, service.client, settings))
    try:
        async with asyncio.timeout(300):
            ended = await waiting.outcome()
            proposed_again = await (await service.gate.request("mark", arguments, requester=conftest.ME)).outcome()
    finally:
        watching.cancel()
        await service.ledger.put_policy("", sha256(""), datetime.now(UTC))
    for outcome in (ended, proposed_again):
        assert (outcome.status, outcome.decided_by) == ("rejected", None)
        assert "rule 'closing' does not allow it: Month-end closing." in (outcome.reason or "")
    denied = [entry for entry in await service.ledger.entries(proposed_again.approval_id) if entry.event == "deny"]
    assert [(entry.rule, entry.policy_sha256) for entry in denied] == [("closing", sha256(file.read_bytes()))]
    assert not (tmp_path / "mark").exists()
    assert (await other.state()).phase == "pending"
    await other.cancel()
