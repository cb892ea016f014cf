"""Consent to a call that the agent makes itself: an approval like any other, of which nothing runs here."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from assent import ApprovalHandle, InvalidTool, tool
from assent.contracts.decision import DecisionKind, Remember
from assent.contracts.grants import Remembering
from assent.tools.definition import Registry
from tests.conftest import ME, OPERATOR, Service, accepted
from tests.support.policies import rule

BASH = {"name": "bash", "arguments": {"cmd": "ls", "depth": [1, {"a": None}]}}


async def ask(service: Service, **more: Any) -> ApprovalHandle:
    return await service.gate.request("agent_call", {**BASH, **more}, requester=ME, tool_call_id="call-1")


async def test_the_stricter_of_overrides_holds_for_all_its_calls_and_for_some(service: Service) -> None:
    policy = service.gate.policy
    try:
        await policy.override("agent_call:bash", execution="ask-always", actor=ME)
        await policy.override("agent_call", execution="deny", actor=ME)
        assert (await (await ask(service)).outcome()).status == "rejected"
        await policy.override("agent_call", execution="ask-always", actor=OPERATOR)
        await policy.override("agent_call:bash", execution="deny", actor=ME)
        assert (await (await ask(service)).outcome()).status == "rejected"
        handle = await ask(service, name="zsh")
        assert (await handle.state()).phase == "pending"
        await handle.cancel()
    finally:
        for name in ("agent_call", "agent_call:bash"):
            await policy.override(name, actor=OPERATOR)


async def test_it_ends_approved_with_its_arguments_and_takes_no_claim(service: Service) -> None:
    handle = await ask(service)
    outcome = await service.decided(handle)
    assert (outcome.status, outcome.is_error) == ("approved", False)
    assert outcome.content == BASH["arguments"]
    assert (outcome.decided_by, outcome.approved_by) == (ME, (ME,))
    assert await service.ledger.attempts_of(handle.id) == ()
    assert await service.events(handle.id) == ["write_request", "confirm"]
    assert (await handle.state()).status == "approved"
    assert await handle.content() == BASH["arguments"]


async def test_the_same_request_again_is_the_same_consent_and_another_is_refused(service: Service) -> None:
    handle = await ask(service)
    outcome = await service.decided(handle)
    again = await service.gate.request("agent_call", BASH, requester=ME, tool_call_id="call-1", approval_id=handle.id)
    assert await again.outcome() == outcome


async def test_a_person_may_change_its_arguments_and_not_which_tool_it_is(service: Service) -> None:
    handle = await ask(service)
    state = await handle.state()
    other = {"name": "rm", "arguments": {}}
    said: dict[str, Any] = {"actor": ME, "payload_sha256": state.payload_sha256}
    refused = await handle.decide("edit", **said, arguments=other)
    assert refused.kind == "invalid"
    assert "cannot be changed" in (refused.reason or "")
    assert (await handle.decide("edit", **said, arguments={**BASH, "arguments": {"cmd": "pwd"}})).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("approved", {"cmd": "pwd"})
    assert outcome.edit is not None


@pytest.mark.parametrize("kind", ["reject", "cancel"])
async def test_other_endings_are_those_of_any_approval(service: Service, kind: str) -> None:
    handle = await ask(service)
    if kind == "cancel":
        await handle.cancel("not now")
        outcome = await handle.outcome()
    else:
        outcome = await service.decided(handle, "reject")
    assert (outcome.status, outcome.is_error) == ("cancelled" if kind == "cancel" else "rejected", True)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"name": "bash"}, {"name": "", "arguments": {}}, {**BASH, "more": 1}, {"name": "b", "arguments": []}],
)
async def test_what_is_no_call_of_an_agents_is_failed_and_nobody_is_asked(
    service: Service, arguments: dict[str, Any]
) -> None:
    outcome = await service.gate.call("agent_call", arguments, requester=ME)
    assert (outcome.status, outcome.decided_by) == ("failed", None)


async def test_what_could_not_be_told_whole_is_refused(service: Service) -> None:
    outcome = await service.gate.call("agent_call", {"name": "bash", "arguments": {"text": "x" * 62_000}}, requester=ME)
    assert outcome.status == "failed"
    assert "bytes" in str(outcome.content)


def test_no_tool_of_the_service_takes_its_name() -> None:
    with pytest.raises(InvalidTool, match="agents run themselves"):

        @tool(name="agent_call", registry=Registry())
        def call() -> None:
            """Call."""


async def test_rules_name_the_agents_tools(service: Service) -> None:
    rules = "\n".join(
        [
            rule('tools = ["agent_call:read_*"]', 'execution = "auto"', 'result = "always"', name="reading"),
            rule('tools = ["agent_call:rm"]', 'execution = "deny"', name="no removing"),
            rule('tools = ["agent_call"]', f'approvers = [{{people = ["{OPERATOR}"]}}]', name="others"),
        ]
    )
    async with service.policy(rules):
        read, removed = [
            await service.gate.call("agent_call", {"name": name, "arguments": {"path": "x"}}, requester=ME)
            for name in ("read_file", "rm")
        ]
        assert (read.status, read.content, read.withheld) == ("approved", {"path": "x"}, False)
        assert (removed.status, removed.rule and removed.rule.name) == ("rejected", "no removing")
        handle = await ask(service)
        state = await handle.state()
        said: dict[str, Any] = {"payload_sha256": state.payload_sha256}
        assert (await handle.decide("approve", actor=ME, **said)).kind == "forbidden"
        assert (await handle.decide("approve", actor=OPERATOR, **said)).kind == "accepted"
        assert (await handle.outcome()).status == "approved"


async def test_a_remembered_decision_counts_for_that_tool_of_the_agent_alone(service: Service) -> None:
    async with service.policy(rule('tools = ["agent_call:*"]', 'execution = "ask-once"')):
        first = await ask(service)
        assert (await service.decided(first)).status == "approved"
        state = await first.state()
        await service.ledger.remember(
            Remembering(
                approval_id=first.id,
                payload_sha256=state.payload_sha256 or "",
                scope=Remember.TOOL,
                decision=DecisionKind.APPROVE,
                actor=ME,
                chat_id="oc_1",
                now=datetime.now(UTC),
            )
        )
        granted = [grant async for grant in service.gate.grants() if grant.approval_id == first.id]
        assert {grant.tool for grant in granted} == {"agent_call:bash"}
        again = await ask(service)
        outcome = await again.outcome()
        assert (outcome.status, outcome.grant_id is not None) == ("approved", True)
        other = await ask(service, name="rm")
        assert (await other.state()).phase == "pending"
        await other.cancel()


async def test_consent_does_not_outlive_the_policy_it_was_given_under(
    service: Service,
) -> None:
    handle = await ask(service)
    state = await handle.state()
    async with service.policy(rule('tools = ["agent_call:bash"]', 'execution = "deny"', name="closed")):
        await accepted(handle, state)
        outcome = await handle.outcome()
    assert (outcome.status, outcome.is_error) == ("failed", True)
    assert "closed" in (outcome.reason or "")
    assert await service.events(handle.id) == ["write_request", "confirm", "deny"]


async def test_of_twenty_who_decide_at_once_one_counts(service: Service) -> None:
    handle = await ask(service)
    state = await handle.state()
    kinds = ["approve", "reject"] * 10
    verdicts = await asyncio.gather(
        *(handle.decide(kind, actor=ME, payload_sha256=state.payload_sha256) for kind in kinds)
    )
    assert [verdict.kind.value for verdict in verdicts].count("accepted") == 1
    outcome = await handle.outcome()
    assert outcome.status in ("approved", "rejected")
    assert (await service.events(handle.id)).count("confirm") == 1


async def test_its_audit_can_be_verified(service: Service) -> None:
    handle = await ask(service)
    await service.decided(handle)
    assert await service.ledger.verify() == []
