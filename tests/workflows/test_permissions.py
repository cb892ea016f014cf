"""Whether a person is asked: the tool's own permission, the operator's policy above it, and what is remembered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.worker import Worker

from activities.tools import ToolActivities
from assent import Identity, Permission
from assent.errors import InvalidTool, NotAllowed
from assent.tools.definition import Registry, registry, tool
from assent.types import Execution, ResultReview
from tests.conftest import ME, OPERATOR, Service
from tests.support import servers
from tests.support.deciding import said
from tests.support.tools import marks
from tests.support.waiting import until

STRANGER = Identity(open_id="ou_stranger")


def test_the_older_words_mean_what_they_meant() -> None:
    levels = {"public": "auto", "moderate": "ask-once", "sensitive": "ask-always"}
    for level, execution in levels.items():
        assert Permission.model_validate({"level": level}).execution == execution
    own = Registry()
    made = {
        "plain": tool(name="plain", registry=own)(lambda: None),
        "free": tool(name="free", require_execution_approval=False, registry=own)(lambda: None),
        "seen": tool(name="seen", require_result_approval=True, registry=own)(lambda: None),
        "both": tool(name="both", permission="public", require_result_approval=True, registry=own)(lambda: None),
    }
    permissions = {name: each.manifest.permission for name, each in made.items()}
    assert permissions["plain"] == Permission(execution=Execution.ASK_ALWAYS, result=ResultReview.NEVER)
    assert permissions["free"] == Permission(execution=Execution.AUTO)
    assert permissions["seen"] == Permission(result=ResultReview.ALWAYS)
    assert permissions["both"] == Permission(execution=Execution.AUTO, result=ResultReview.ALWAYS)
    with pytest.raises(InvalidTool, match="public, moderate or sensitive"):
        tool(name="x", permission="secret", registry=own)(lambda: None)


def test_the_words_of_others_mean_the_same() -> None:
    own = Registry()
    strict = Permission(execution=Execution.ASK_ONCE, result=ResultReview.ALWAYS)
    words = {"executionPolicy": "ask-once", "resultApprovalPolicy": "always"}
    assert Permission.model_validate(words) == strict
    assert Permission.model_validate({"requireResultApproval": True, "execution": "ask-once"}) == strict
    assert tool(name="a", permission=words, registry=own)(lambda: None).manifest.permission == strict
    made = tool(name="b", executionPolicy="ask-once", requireResultApproval=True, registry=own)(lambda: None)
    assert made.manifest.permission == strict
    free = tool(name="c", requireExecutionApproval=False, registry=own)(lambda: None)
    assert free.manifest.permission == Permission(execution=Execution.AUTO)
    with pytest.raises(InvalidTool, match="say it once"):
        tool(name="d", requireResultApproval=True, require_result_approval=True, registry=own)(lambda: None)
    with pytest.raises(TypeError, match="executionPolice"):
        tool(name="e", executionPolice="auto", registry=own)(lambda: None)


async def test_an_override_holds_for_a_while_and_only_operators_loosen(service: Service, tmp_path: Path) -> None:
    arguments, policy = {"path": str(tmp_path / "m")}, service.gate.policy
    with pytest.raises(NotAllowed, match="only operators"):
        await policy.override("mark", execution="auto", actor=ME)
    made = await policy.override("mark", execution="auto", until=timedelta(hours=1), actor=OPERATOR)
    try:
        assert made in await policy.overrides()
        outcome = await service.gate.call("mark", arguments, requester=ME)
        assert (outcome.status, outcome.decided_by) == ("executed", None)
        asked = await service.gate.request("mark.other", arguments, requester=ME)
        await asked.state()
        await policy.override("mark.other", execution="deny", reason="an incident")
        stopped = await service.decided(asked)
        assert (stopped.status, marks(tmp_path / "m")) == ("failed", 1)
        denied = await service.gate.call("mark.other", arguments, requester=ME)
        assert (denied.status, denied.reason) == ("rejected", "an operator's override does not allow it: an incident")
        (entry,) = [each for each in await service.ledger.entries(denied.approval_id) if each.event == "deny"]
        assert entry.override is not None
    finally:
        await policy.override("mark")
        await policy.override("mark.other", actor=OPERATOR)
    again = await service.gate.request("mark", arguments, requester=ME)
    assert (await again.state()).phase == "pending"
    await again.cancel()


async def test_auto_runs_without_asking(service: Service, tmp_path: Path) -> None:
    outcome = await service.gate.call("at_once", {"path": str(tmp_path / "m")}, requester=ME)
    assert (outcome.status, outcome.decided_by, marks(tmp_path / "m")) == ("executed", None, 1)
    assert await service.events(outcome.approval_id) == ["write_request", "execute"]


async def test_denied_is_rejected_and_nobody_is_asked(service: Service, tmp_path: Path) -> None:
    outcome = await service.gate.call("never", {"path": str(tmp_path / "m")}, requester=ME)
    assert (outcome.status, outcome.decided_by, marks(tmp_path / "m")) == ("rejected", None, 0)
    assert "deny" in await service.events(outcome.approval_id)


async def test_a_rule_stands_above_the_tool_and_the_audit_names_it(service: Service, tmp_path: Path) -> None:
    rules = """
[[rule]]
name = "marks need two"
tools = ["open_m*"]
risk = "high"
approvers = {people = ["open_id:ou_x", "open_id:ou_y"], threshold = 2}
warnings = [{text = "look twice"}, {when = "arguments.path == 'nowhere'", text = "not this"}]
"""
    async with service.policy(rules):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        state = await handle.state()
    assert (state.risk, state.warnings) == ("high", ("look twice",))
    assert state.rule is not None
    assert state.rule.name == "marks need two"
    assert (await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)).kind == "forbidden"
    for n in "xy":
        actor = Identity(open_id=f"ou_{n}")
        assert (await handle.decide("approve", actor=actor, payload_sha256=state.payload_sha256)).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.rule, marks(tmp_path / "m")) == ("executed", state.rule, 1)
    entry = next(each for each in await service.ledger.entries(handle.id) if each.rule)
    assert (entry.rule, entry.policy_sha256) == ("marks need two", state.rule.policy_sha256)


async def test_a_stricter_rule_stops_what_was_planned_before(service: Service, tmp_path: Path) -> None:
    """Allowed when it was shown, not any more when it would run."""
    handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
    state = await handle.state()
    switch = """
[[rule]]
name = "kill switch"
execution = "deny"
reason = "the books are closed"
"""
    async with service.policy(switch):
        await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
        outcome = await handle.outcome()
    assert (outcome.status, marks(tmp_path / "m")) == ("failed", 0)
    assert "the books are closed" in str(outcome.reason)


async def test_ask_once_remembers_the_first_decision_for_exactly_this_call(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m")}
    first = await service.decided(await service.gate.request("ask_once", arguments, requester=ME))
    assert (first.status, first.grant_id) == ("executed", None)
    second = await service.gate.call("ask_once", arguments, requester=ME)
    assert (second.status, marks(tmp_path / "m")) == ("executed", 2)
    assert second.grant_id is not None
    assert second.decided_by == first.decided_by
    entries = await service.ledger.entries(second.approval_id)
    assert [each.grant_id for each in entries if each.event == "grant"] == [second.grant_id]
    others = [
        await service.gate.request("ask_once", {**arguments, "note": "other"}, requester=ME),
        await service.gate.request("ask_once", arguments, requester=STRANGER),
    ]
    for other in others:
        assert (await other.state()).phase == "pending"
        await other.cancel()


async def test_a_rejection_is_remembered_too(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "note": "no"}
    handle = await service.gate.request("ask_once", arguments, requester=ME)
    sha = (await handle.state()).payload_sha256
    await handle.decide("reject", actor=ME, payload_sha256=sha, reason="never this")
    assert (await handle.outcome()).status == "rejected"
    again = await service.gate.call("ask_once", arguments, requester=ME)
    assert (again.status, again.reason, marks(tmp_path / "m")) == ("rejected", "never this", 0)
    assert again.grant_id is not None


@pytest.mark.parametrize("kind", ["approve", "reject"])
async def test_who_wants_to_be_asked_again_is(service: Service, tmp_path: Path, kind: str) -> None:
    arguments = {"path": str(tmp_path / "m")}
    for _ in range(2):
        handle = await service.gate.request("ask_once", arguments, requester=ME)
        verdict = await said(handle, ME, kind, persist_decision=False)
        assert verdict.kind == "accepted"
        assert (await handle.outcome()).grant_id is None
    assert [entry.persist_decision for entry in await service.ledger.entries(handle.id)] == [
        *(None, False),
        *([None] if kind == "approve" else []),
    ]


async def test_one_of_several_who_wants_to_be_asked_again_is_enough(service: Service, tmp_path: Path) -> None:
    rules = f"""
[[rule]]
name = "two"
tools = ["ask_once"]
approvers = {{ people = ["{ME}", "{OPERATOR}"], threshold = 2 }}
"""
    arguments = {"path": str(tmp_path / "m")}
    async with service.policy(rules):
        for persists in (False, True):
            handle = await service.gate.request("ask_once", arguments, requester=ME)
            await said(handle, ME, persist_decision=persists)
            await said(handle, OPERATOR)
            assert (await handle.outcome()).grant_id is None
        assert (await service.gate.call("ask_once", arguments, requester=ME)).grant_id is not None


async def test_a_revoked_grant_lets_nothing_through(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "note": "revoked"}
    await service.decided(await service.gate.request("ask_once", arguments, requester=ME))
    granted = (await service.gate.call("ask_once", arguments, requester=ME)).grant_id
    assert granted is not None
    assert await service.gate.revoke(granted, actor=STRANGER) == "forbidden"
    assert await service.gate.revoke(granted, actor=OPERATOR) == "revoked"
    assert await service.gate.revoke(granted, actor=OPERATOR) == "already_revoked"
    handle = await service.gate.request("ask_once", arguments, requester=ME)
    assert (await handle.state()).phase == "pending"
    await handle.cancel()
    assert marks(tmp_path / "m") == 2


async def test_a_grant_revoked_while_the_call_waits_for_a_worker_stops_it(
    service: Service, tmp_path: Path, temporal_address: str
) -> None:
    arguments = {"path": str(tmp_path / "m")}
    first = await service.gate.request("ask_once_unserved", arguments, requester=ME)
    sha = (await first.state()).payload_sha256
    await first.decide("approve", actor=ME, payload_sha256=sha)

    async def granted() -> str | None:
        found = [each async for each in service.gate.grants() if each.approval_id == first.id]
        return found[0].grant_id if found else None

    grant_id = await until(granted)
    second = await service.gate.request("ask_once_unserved", arguments, requester=ME)

    async def executing() -> bool:
        return (await second.state()).phase == "executing"

    await until(executing)
    assert await service.gate.revoke(grant_id, actor=ME) == "revoked"
    own = ToolActivities(service.ledger, registry)
    client = await servers.connect(temporal_address, service.client.namespace)
    async with Worker(client, task_queue="nobody", activities=[own.execute, own.probe]):
        outcome = await second.outcome()
        assert (await first.outcome()).status == "executed"
    assert (outcome.status, marks(tmp_path / "m")) == ("failed", 1)
    assert "revoked" in str(outcome.reason)


async def test_a_changed_risk_ends_a_grant(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "note": "risk"}
    await service.decided(await service.gate.request("ask_once", arguments, requester=ME))
    riskier = """
[[rule]]
name = "riskier"
tools = ["ask_once"]
risk = "high"
"""
    async with service.policy(riskier):
        handle = await service.gate.request("ask_once", arguments, requester=ME)
        assert (await handle.state()).phase == "pending"
        await handle.cancel()
    assert marks(tmp_path / "m") == 1


async def test_a_grant_expires_by_itself(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "note": "expires"}
    short = """
[[rule]]
name = "short"
tools = ["ask_once"]
when = 'arguments.note == "expires"'
remember_for = "1s"
"""
    async with service.policy(short):
        first = await service.decided(await service.gate.request("ask_once", arguments, requester=ME))
    found = [each async for each in service.gate.grants() if each.approval_id == first.approval_id]
    assert found[0].expires_at - found[0].granted_at == timedelta(seconds=1)

    async def expired() -> bool:
        return datetime.now(UTC) > found[0].expires_at

    await until(expired)
    handle = await service.gate.request("ask_once", arguments, requester=ME)
    assert (await handle.state()).phase == "pending"
    await handle.cancel()


async def test_a_remembered_yes_does_not_stand_in_for_those_whom_the_policy_asks_now(
    service: Service, tmp_path: Path
) -> None:
    arguments = {"path": str(tmp_path / "m")}
    first = await service.gate.request("ask_once", arguments, requester=ME)
    assert (await said(first, ME)).kind == "accepted"
    await first.outcome()
    chief = '[[rule]]\nname = "chief"\ntools = ["ask_once"]\napprovers = {people = ["open_id:ou_c0"]}\n'
    async with service.policy(chief):
        again = await service.gate.request("ask_once", arguments, requester=ME)
        state = await again.state()
        assert (state.phase, state.grant_id) == ("pending", None)
    assert marks(tmp_path / "m") == 1
