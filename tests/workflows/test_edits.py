"""Approving with other arguments."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity
from assent.types import Verdict
from tests.conftest import ME, Service
from tests.support.tools import PEOPLE, marks


async def edit(handle: ApprovalHandle, arguments: dict[str, Any] | None, actor: Identity = ME, **more: Any) -> Verdict:
    sha = more.pop("payload_sha256", None) or (await handle.state()).payload_sha256
    return await handle.decide("edit", actor=actor, payload_sha256=sha, arguments=arguments, **more)


async def test_what_was_edited_is_what_runs_and_everybody_is_told(service: Service, tmp_path: Path) -> None:
    proposed = {"path": str(tmp_path / "m"), "note": "proposed"}
    handle = await service.gate.request("mark", proposed, requester=ME)
    before = await handle.state()
    assert (await edit(handle, {**proposed, "note": "edited", "amount": "2.50"})).kind == "accepted"
    outcome = await handle.outcome()
    assert outcome.status == "executed"
    assert (outcome.content["note"], outcome.content["amount"]) == ("edited", "2.50")
    change = outcome.edit
    assert change is not None
    assert change.by.is_same_person(ME)
    assert (change.proposed_payload_sha256, change.proposed_payload) == (before.payload_sha256, before.payload)
    assert change.payload_sha256 == outcome.payload_sha256 != before.payload_sha256
    assert json.loads(change.payload)["arguments"]["note"] == "edited"
    assert str(outcome.idempotency_key).endswith(str(outcome.payload_sha256))
    assert outcome.content["key"] == outcome.idempotency_key
    assert marks(tmp_path / "m") == 1
    entry = next(each for each in await service.ledger.entries(handle.id) if each.event == "confirm")
    assert (entry.payload_sha256, entry.proposed_payload_sha256) == (outcome.payload_sha256, before.payload_sha256)
    assert (entry.payload, entry.proposed_payload) == (change.payload, change.proposed_payload)
    assert not await service.ledger.verify()


WRONG: list[tuple[dict[str, Any] | None, str]] = [
    (None, "needs arguments"),
    ({}, "path"),
    ({"path": 7}, "path"),
    ({"path": "PATH", "amount": "many"}, "amount"),
    ({"path": "PATH", "amount": True}, "amount"),
    ({"path": "PATH", "more": 1}, "more"),
    ({"path": None}, "path"),
    ({"path": "PATH", "note": ["a"]}, "note"),
    ({"path": "PATH", "note": "none", "amount": "1.00"}, "nothing was changed"),
]


async def test_what_the_tool_refuses_is_said_and_the_call_still_waits(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    before = await handle.state()
    for arguments, problem in WRONG:
        given = {k: str(tmp_path / "m") if v == "PATH" else v for k, v in arguments.items()} if arguments else arguments
        verdict = await edit(handle, given)
        assert (verdict.kind, problem in str(verdict.reason)) == ("invalid", True), (given, verdict)
    state = await handle.state()
    assert (state.phase, state.payload_sha256, marks(tmp_path / "m")) == ("pending", before.payload_sha256, 0)
    assert (await service.decided(handle)).status == "executed"
    assert marks(tmp_path / "m") == 1


async def test_an_edit_voids_what_was_approved_before(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "amount": 1}
    handle = await service.gate.request("by_three", arguments, requester=ME)
    first = str((await handle.state()).payload_sha256)
    for person in PEOPLE[:2]:
        assert (await handle.decide("approve", actor=person, payload_sha256=first)).kind == "accepted"
    assert (await edit(handle, {**arguments, "amount": 5}, PEOPLE[2])).kind == "accepted"
    state = await handle.state()
    assert state.progress is not None
    assert (state.phase, state.progress.approved, marks(tmp_path / "m")) == ("pending", 1, 0)
    assert (await handle.decide("approve", actor=PEOPLE[3], payload_sha256=first)).kind == "superseded"
    for person in PEOPLE[:2]:
        verdict = await handle.decide("approve", actor=person, payload_sha256=state.payload_sha256)
        assert verdict.kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.content["amount"], outcome.approved_by) == (5, (PEOPLE[2], *PEOPLE[:2]))
    assert marks(tmp_path / "m") == 1


async def test_an_outsider_edits_nothing(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "amount": 1}
    handle = await service.gate.request("by_three", arguments, requester=ME)
    assert (await edit(handle, {**arguments, "amount": 5}, ME)).kind == "forbidden"
    assert (await edit(handle, {**arguments, "amount": 5}, PEOPLE[0], payload_sha256="0" * 64)).kind == "tampered"
    state = await handle.state()
    assert state.edit is None


async def test_an_edit_that_races_an_approval(service: Service, tmp_path: Path) -> None:
    """Whichever comes first stands, whole: either what was proposed runs, or what was edited."""
    for turn in range(6):
        path = tmp_path / f"m{turn}"
        arguments = {"path": str(path), "note": "proposed"}
        handle = await service.gate.request("mark", arguments, requester=ME)
        sha = str((await handle.state()).payload_sha256)
        both = [
            edit(handle, {**arguments, "note": "edited"}, payload_sha256=sha),
            handle.decide("approve", actor=ME, payload_sha256=sha),
        ]
        verdicts = await asyncio.gather(*(both if turn % 2 else reversed(both)))
        kinds = sorted(str(verdict.kind) for verdict in verdicts)
        assert kinds in (["accepted", "already_decided"], ["accepted", "superseded"]), kinds
        outcome = await handle.outcome()
        assert (outcome.status, marks(path)) == ("executed", 1)
        assert outcome.content["note"] == ("edited" if outcome.edit else "proposed")


async def test_an_edited_call_proposed_again_is_asked_again_and_what_ran_is_replayed(
    service: Service, tmp_path: Path
) -> None:
    proposed = {"path": str(tmp_path / "m"), "note": "proposed"}
    edited = {**proposed, "note": "edited"}
    scope = f"scope-{tmp_path.name}"
    first = await service.gate.request("mark", proposed, requester=ME, idempotency_scope=scope)
    assert (await edit(first, edited)).kind == "accepted"
    ran = await first.outcome()
    again = await service.gate.request("mark", edited, requester=ME, idempotency_scope=scope)
    replay = await service.decided(again)
    assert (replay.status, replay.content, marks(tmp_path / "m")) == ("replayed", ran.content, 1)
    other = await service.gate.request("mark", proposed, requester=ME, idempotency_scope=scope)
    assert (await service.decided(other)).status == "executed"
    assert marks(tmp_path / "m") == 2


@pytest.mark.parametrize("stage", ["call", "result"])
async def test_an_edit_of_a_closed_call_changes_nothing(service: Service, tmp_path: Path, stage: str) -> None:
    arguments = {"path": str(tmp_path / "m")}
    handle = await service.gate.request("mark", arguments, requester=ME)
    outcome = await service.decided(handle)
    verdict = await edit(handle, {**arguments, "note": "x"}, payload_sha256=outcome.payload_sha256, stage=stage)
    assert verdict.kind == ("already_decided" if stage == "call" else "tampered")
    assert marks(tmp_path / "m") == 1
