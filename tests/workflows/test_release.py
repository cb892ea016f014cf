"""Results that a person looks at before the agent gets them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity
from assent.types import PendingItem, State, Verdict
from tests.conftest import ME, OPERATOR, Service
from tests.support.tools import marks
from tests.support.waiting import until

STRANGER = Identity(open_id="ou_stranger")


async def ran(service: Service, tool: str, arguments: dict[str, Any], **more: Any) -> tuple[ApprovalHandle, State]:
    """A call that was approved, and whose result waits to be released."""
    handle = await service.gate.request(tool, arguments, requester=ME, **more)
    sha = (await handle.state()).payload_sha256
    assert (await handle.decide("approve", actor=ME, payload_sha256=sha)).kind == "accepted"

    async def reviewing() -> State | None:
        state = await handle.state()
        return state if state.phase == "reviewing" else None

    return handle, await until(reviewing)


async def about_result(handle: ApprovalHandle, state: State, kind: str, actor: Identity = ME, **more: Any) -> Verdict:
    return await handle.decide(kind, actor=actor, payload_sha256=state.result_sha256, stage="result", **more)


async def test_a_released_result_is_the_tools_own(service: Service, tmp_path: Path) -> None:
    handle, state = await ran(service, "looked_at", {"path": str(tmp_path / "m"), "say": "fine"})
    assert marks(tmp_path / "m") == 1
    assert (await about_result(handle, state, "approve", STRANGER)).kind == "forbidden"
    assert (await about_result(handle, state, "approve")).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content, outcome.withheld) == ("executed", {"marks": 1, "say": "fine"}, False)
    assert "release" in await service.events(handle.id)
    assert not await service.ledger.verify()


async def listed(service: Service, handle: ApprovalHandle, actor: Identity = ME) -> PendingItem | None:
    waiting = [one async for one in service.gate.inbox(actor) if isinstance(one, PendingItem)]
    return next((each for each in waiting if each.approval_id == handle.id), None)


async def test_a_pending_item_tells_what_waits_and_the_result_only_to_who_may_release_it(
    service: Service, tmp_path: Path
) -> None:
    arguments = {"path": str(tmp_path / "m"), "say": "x" * 3000}
    asked = await service.gate.request("looked_at", arguments, requester=ME)
    await asked.state()
    item = await until(lambda: listed(service, asked))
    assert (item.type, item.result) == ("execution", None)
    assert item.arguments is not None
    assert item.arguments.items() >= arguments.items()
    assert item.definition is not None
    assert item.definition.parameters["properties"].keys() >= {"path", "say"}
    assert item.description == item.definition.description != ""
    assert item.created_at is not None
    assert item.created_at < datetime.now(UTC)
    handle, state = await ran(service, "looked_at", arguments)
    item = await until(lambda: listed(service, handle))
    assert (item.type, state.type) == ("result", "result")
    assert item.result is not None
    assert item.result.truncated
    assert item.result.size > 3000
    assert item.result.preview.startswith('{"marks": 1') or item.result.preview.startswith('{"marks":1')
    assert item.result.sha256 == state.result_sha256
    assert "result" not in state.model_dump()
    assert await listed(service, handle, STRANGER) is None
    await about_result(handle, state, "reject")
    await asked.cancel()
    assert (await handle.state()).type is None


async def test_a_withheld_result_is_withheld_from_every_way_of_reading_it(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "say": "a private matter"}
    scope = f"scope-{tmp_path.name}"
    handle, state = await ran(service, "looked_at", arguments, idempotency_scope=scope)
    twin = await service.gate.request("looked_at", arguments, requester=ME, idempotency_scope=scope)
    meanwhile = await service.decided(twin)  # while nobody has decided about the result
    assert (meanwhile.status, meanwhile.withheld) == ("replayed", True)
    assert (await about_result(handle, state, "reject", reason="not for machines")).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.is_error, outcome.withheld) == ("executed", False, True)
    assert outcome.withheld_reason == "not for machines"
    later = await service.decided(
        await service.gate.request("looked_at", arguments, requester=ME, idempotency_scope=scope)
    )
    assert (later.status, later.withheld, marks(tmp_path / "m")) == ("replayed", True, 1)
    read = [outcome, meanwhile, later, await handle.content(), await twin.content(), await handle.state()]
    read += [(await service.gate.approval(handle.id).outcome())]
    for each in read:
        text = (
            each.model_dump_json(exclude={"payload", "arguments"})
            if hasattr(each, "model_dump_json")
            else json.dumps(each)
        )
        assert "a private matter" not in text
    assert await service.ledger.content(handle.id) is None
    assert "withhold" in await service.events(handle.id)


async def test_a_click_on_the_call_releases_nothing(service: Service, tmp_path: Path) -> None:
    handle, state = await ran(service, "looked_at", {"path": str(tmp_path / "m")})
    again = await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    assert again.kind == "already_decided"
    wrong = await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256, stage="result")
    assert wrong.kind == "tampered"
    assert (await handle.state()).phase == "reviewing"
    await about_result(handle, state, "approve")
    assert (await about_result(handle, state, "reject")).kind in ("already_decided", "tampered")
    assert not (await handle.outcome()).withheld


async def test_what_may_be_cancelled_no_longer_while_its_result_waits(service: Service, tmp_path: Path) -> None:
    handle, state = await ran(service, "looked_at", {"path": str(tmp_path / "m")})
    await handle.cancel("too late")
    await about_result(handle, state, "approve")
    assert (await handle.outcome()).status == "executed"


@pytest.mark.parametrize(("how", "status"), [("failed", "failed"), ("raise", "frozen")])
async def test_errors_are_looked_at_where_the_tool_says_so(
    service: Service, tmp_path: Path, how: str, status: str
) -> None:
    handle, state = await ran(service, "looked_at_on_error", {"path": str(tmp_path / "m"), "how": how})
    assert "a private matter" not in state.model_dump_json()
    await about_result(handle, state, "reject", reason="private")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.withheld) == (status, True)
    assert "a private matter" not in outcome.model_dump_json()
    if status == "frozen":
        await handle.settle("executed", operator=OPERATOR, reason="it did", content={"said": "a private matter"})
        settlement = await handle.settlement()
        assert settlement.kind == "executed"
        assert "a private matter" not in settlement.model_dump_json()


async def test_a_success_is_not_looked_at_where_only_errors_are(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request(
        "looked_at_on_error", {"path": str(tmp_path / "m"), "how": "completed"}, requester=ME
    )
    outcome = await service.decided(handle)
    assert (outcome.status, outcome.withheld, outcome.content) == ("executed", False, {"said": "a private matter"})


@pytest.mark.parametrize("fallback", ["release", "withhold"])
async def test_a_result_that_nobody_decides_about(service: Service, tmp_path: Path, fallback: str) -> None:
    rule = f"""
[[rule]]
name = "soon"
tools = ["looked_at"]
when = 'arguments.say == "soon"'
result_ttl = "1s"
result_fallback = "{fallback}"
"""
    async with service.policy(rule):
        handle = await service.gate.request("looked_at", {"path": str(tmp_path / "m"), "say": "soon"}, requester=ME)
        outcome = await service.decided(handle)
    assert (outcome.status, outcome.withheld) == ("executed", fallback == "withhold")
    assert ("soon" in json.dumps(outcome.content)) == (fallback == "release")
    assert marks(tmp_path / "m") == 1
