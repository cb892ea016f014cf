"""Deciding in every way, through either door: edits, delegations, results, what waits, what is remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Assent, Identity, InvalidRequest, NotAllowed, SyncAssent
from assent.types import PendingItem, State, Unhashable
from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.simulated_feishu import served
from tests.support.tools import CHIEFS, HAN_MEIMEI, PEOPLE, marks
from tests.support.waiting import until
from tests.support.web import Web

STRANGER = Identity(open_id="ou_stranger")


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("deciding")
    async with AsyncExitStack() as stack:
        yield Web(await open_service(stack, client, await new_database("sqlite", directory)), directory)


@dataclass
class Doors:
    """The client of who asks, and the client of who decides."""

    asking: Assent
    deciding: Assent

    async def asked(
        self, tool: str, path: Path, requester: Identity = ME, **arguments: Any
    ) -> tuple[ApprovalHandle, ApprovalHandle, State]:
        """A new request, as each of them sees it, and how it stands."""
        handle = await self.asking.request(tool, {"path": str(path / "m"), **arguments}, requester=requester)
        return handle, self.deciding.approval(handle.id), await handle.state()

    async def reviewing(self, path: Path, **arguments: Any) -> tuple[ApprovalHandle, ApprovalHandle, State]:
        """A call that ran, and whose result waits to be released, as who decides sees it."""
        mine, theirs, state = await self.asked("looked_at", path, **arguments)
        await theirs.decide("approve", actor=ME, payload_sha256=state.payload_sha256)

        async def seen() -> State | None:
            found = await theirs.state()
            return found if found.phase == "reviewing" else None

        return mine, theirs, await until(seen)


@pytest.fixture(params=["temporal", "http"])
async def doors(request: pytest.FixtureRequest, web: Web) -> AsyncIterator[Doors]:
    if request.param == "temporal":
        yield Doors(web.service.gate, web.service.gate)
    else:
        async with web.gate() as asking, web.gate("approver") as deciding:
            yield Doors(asking, deciding)


# Edits


async def test_an_edited_call_runs_as_edited_and_the_agent_is_told_both(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.asked("mark", tmp_path, note="proposed")
    edited = {"path": str(tmp_path / "other"), "note": "edited"}
    verdict = await theirs.decide("edit", actor=ME, payload_sha256=state.payload_sha256, arguments=edited)
    assert verdict.kind == "accepted"
    outcome = await mine.outcome()
    assert (outcome.status, outcome.content["note"]) == ("executed", "edited")
    assert (marks(tmp_path / "m"), marks(tmp_path / "other")) == (0, 1)
    assert outcome.edit is not None
    assert (outcome.edit.by.open_id, outcome.edit.proposed_payload_sha256) == (ME.open_id, state.payload_sha256)
    assert json.loads(outcome.edit.proposed_payload)["arguments"]["note"] == "proposed"
    assert json.loads(outcome.edit.payload)["arguments"]["note"] == "edited"
    assert outcome.edit.payload_sha256 == outcome.payload_sha256 != state.payload_sha256


@pytest.mark.parametrize("arguments", [None, {}, {"path": 1}, {"path": "x", "unknown": 1}])
async def test_an_edit_that_the_tool_refuses_is_invalid_and_nothing_runs(
    doors: Doors, tmp_path: Path, arguments: dict[str, Any] | None
) -> None:
    _, theirs, state = await doors.asked("mark", tmp_path)
    verdict = await theirs.decide("edit", actor=ME, payload_sha256=state.payload_sha256, arguments=arguments)
    assert verdict.kind == "invalid"
    assert verdict.reason
    after = await theirs.state()
    assert (after.phase, after.payload_sha256, marks(tmp_path / "m")) == ("pending", state.payload_sha256, 0)


async def test_what_could_not_be_hashed_is_refused_before_it_is_sent(doors: Doors, tmp_path: Path) -> None:
    _, theirs, state = await doors.asked("mark", tmp_path)
    unhashable: list[dict[Any, Any]] = [{"path": float("nan")}, {"path": 2**60}, {"path": "\ud800"}, {1: "path"}]
    for arguments in unhashable:
        with pytest.raises(Unhashable):
            await theirs.decide("edit", actor=ME, payload_sha256=state.payload_sha256, arguments=arguments)
    for kind, more in (("approve", {"arguments": {"path": "x"}}), ("reject", {"delegate_to": HAN_MEIMEI})):
        with pytest.raises(InvalidRequest, match="would not look at"):
            await theirs.decide(kind, actor=ME, payload_sha256=state.payload_sha256, **more)
    assert not (await theirs.state()).decisions


async def test_who_approves_what_was_edited_meanwhile_is_told(doors: Doors, tmp_path: Path) -> None:
    _, theirs, state = await doors.asked("by_three", tmp_path)
    edited = {"path": str(tmp_path / "m"), "amount": 2}
    first = await theirs.decide("edit", actor=PEOPLE[0], payload_sha256=state.payload_sha256, arguments=edited)
    assert (first.kind, first.approvals, first.needed) == ("accepted", 1, 3)
    second = await theirs.decide("approve", actor=PEOPLE[1], payload_sha256=state.payload_sha256)
    assert (second.kind, second.status) == ("superseded", None)


# Several people


async def test_approvals_are_counted_and_the_inbox_knows_whose_turn_it_is(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.asked("by_stages", tmp_path)

    async def waits_for(person: Identity) -> bool:
        return mine.id in [each.approval_id async for each in doors.deciding.inbox(person)]

    assert [await waits_for(person) for person in (PEOPLE[0], PEOPLE[4], CHIEFS[0], ME)] == [True, True, False, False]
    verdict = await theirs.decide("approve", actor=PEOPLE[0], payload_sha256=state.payload_sha256)
    assert (verdict.kind, verdict.approvals, verdict.needed) == ("accepted", 1, 2)
    assert [await waits_for(person) for person in PEOPLE[:2]] == [False, True]
    verdict = await theirs.decide(
        "delegate", actor=PEOPLE[1], payload_sha256=state.payload_sha256, delegate_to=STRANGER
    )
    assert verdict.kind == "accepted"
    assert [await waits_for(person) for person in (PEOPLE[1], STRANGER)] == [False, True]
    await theirs.decide("approve", actor=STRANGER, payload_sha256=state.payload_sha256)
    assert [await waits_for(person) for person in (PEOPLE[2], CHIEFS[0])] == [False, True]
    await theirs.decide("approve", actor=CHIEFS[0], payload_sha256=state.payload_sha256)
    outcome = await mine.outcome()
    assert [person.open_id for person in outcome.approved_by] == ["ou_p0", "ou_stranger", "ou_c0"]
    assert not await waits_for(CHIEFS[1])


async def test_delegating_to_nobody_is_invalid(doors: Doors, tmp_path: Path) -> None:
    _, theirs, state = await doors.asked("mark", tmp_path)
    verdict = await theirs.decide("delegate", actor=ME, payload_sha256=state.payload_sha256)
    assert (verdict.kind, bool(verdict.reason)) == ("invalid", True)


# Results


async def test_a_result_is_seen_by_who_decides_and_released(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.reviewing(tmp_path, say="fine")

    async def listed() -> PendingItem | None:
        found = [each async for each in doors.deciding.inbox(ME) if isinstance(each, PendingItem)]
        return next((each for each in found if each.approval_id == state.approval_id), None)

    item = await until(listed)
    assert item.result is not None
    assert '"fine"' in item.result.preview
    assert (item.type, item.result.sha256) == ("result", state.result_sha256)
    assert (await theirs.result(actor=ME))["say"] == "fine"
    on_the_call = await theirs.decide("approve", actor=ME, payload_sha256=state.payload_sha256)
    assert on_the_call.kind == "already_decided"
    verdict = await theirs.decide("approve", actor=ME, payload_sha256=state.result_sha256, stage="result")
    assert verdict.kind == "accepted"
    outcome = await mine.outcome()
    assert (outcome.status, outcome.content["say"], outcome.withheld) == ("executed", "fine", False)
    assert await theirs.result(actor=ME) is None


async def test_a_withheld_result_is_a_sentence_everywhere(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.reviewing(tmp_path, say="private")
    said = {"stage": "result", "reason": "not for machines"}
    verdict = await theirs.decide("reject", actor=ME, payload_sha256=state.result_sha256, **said)  # type: ignore[arg-type]
    assert verdict.kind == "accepted"
    outcome = await mine.outcome()
    assert (outcome.status, outcome.is_error, outcome.withheld) == ("executed", False, True)
    assert outcome.content == "The call ran; its result is withheld. Reason: not for machines"
    assert (outcome.content_sha256, outcome.content_bytes) == (None, None)
    assert await mine.content() == outcome.content
    assert await theirs.result(actor=ME) is None


# Remembered decisions


async def test_a_remembered_decision_is_listed_and_revoked(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.asked("ask_once", tmp_path)
    await theirs.decide("approve", actor=ME, payload_sha256=state.payload_sha256, remember="exact")
    assert (await mine.outcome()).grant_id is None
    again = await doors.asking.call("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
    (grant,) = [each async for each in doors.deciding.grants() if each.approval_id == mine.id]
    assert (again.status, again.grant_id) == ("executed", grant.grant_id)
    assert (grant.tool, grant.scope, grant.payload_sha256) == ("ask_once", "exact", state.payload_sha256)
    assert await doors.deciding.revoke(grant.grant_id, actor=STRANGER) == "forbidden"
    assert await doors.deciding.revoke(grant.grant_id, actor=ME) == "revoked"
    assert await doors.deciding.revoke(grant.grant_id, actor=ME) == "already_revoked"
    assert await doors.deciding.revoke("no-such-grant", actor=ME) == "missing"
    handle, _, asked = await doors.asked("ask_once", tmp_path)
    assert asked.phase == "pending"
    await handle.cancel()


async def test_a_remembered_rejection_is_told_as_one(doors: Doors, tmp_path: Path) -> None:
    mine, theirs, state = await doors.asked("ask_once", tmp_path)
    await theirs.decide("reject", actor=ME, payload_sha256=state.payload_sha256, reason="never", remember="exact")
    await mine.outcome()
    again = await doors.asking.call("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
    assert (again.status, marks(tmp_path / "m")) == ("rejected", 0)
    assert "that is remembered" in again.content


@pytest.mark.parametrize("kind", ["approve", "reject"])
async def test_who_wants_to_be_asked_again_is(doors: Doors, tmp_path: Path, kind: str) -> None:
    mine, theirs, state = await doors.asked("ask_once", tmp_path)
    await theirs.decide(kind, actor=ME, payload_sha256=state.payload_sha256, remember="exact", persist_decision=False)
    await mine.outcome()
    handle, _, asked = await doors.asked("ask_once", tmp_path)
    assert (asked.phase, asked.grant_id) == ("pending", None)
    await handle.cancel()


async def test_others_words_for_a_decision_are_understood_and_never_two_at_once(web: Web, tmp_path: Path) -> None:
    async with web.gate() as asking, web.http("approver") as http:
        handle = await asking.request("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
        told = {
            "decision": "reject",
            "payload_sha256": (await handle.state()).payload_sha256,
            "actor": {"open_id": "ou_me"},
        }
        path = f"/v1/approvals/{handle.id}/decide"
        twice = await http.post(path, json={**told, "persist_decision": True, "persistDecision": False})
        assert (twice.status_code, (await handle.state()).phase) == (422, "pending")
        heard = await http.post(path, json={**told, "persistDecision": False, "rejectReason": "not today"})
        assert (heard.status_code, heard.json()["kind"]) == (200, "accepted"), heard.text
        assert (await handle.outcome()).reason == "not today"
        again = await asking.request("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await again.state()).phase == "pending"
        await again.cancel()


async def test_what_the_rules_forbid_is_told_as_such(doors: Doors, tmp_path: Path) -> None:
    outcome = await doors.asking.call("never", {"path": str(tmp_path / "m")}, requester=ME)
    assert (outcome.status, outcome.decided_by, marks(tmp_path / "m")) == ("rejected", None, 0)
    assert outcome.content.startswith("The rules of this installation do not let this call run.")


# Only over HTTP


async def test_an_agent_that_may_not_decide_learns_nothing_of_a_sealed_result(web: Web, tmp_path: Path) -> None:
    async with web.gate() as asking, web.gate("approver") as deciding:
        mine, theirs, state = await Doors(asking, deciding).reviewing(tmp_path, say="private")
        assert (await mine.state()).result_sha256 is None
        events = [record.entry.event.value for record in await mine.audit()]
        assert events[-1] == "confirm"
        assert "execute" in [record.entry.event.value for record in await theirs.audit()]
        for refused in (mine.result(actor=ME), anext(asking.inbox(ME)), anext(asking.grants())):
            with pytest.raises(NotAllowed):
                await refused
        assert await theirs.result(actor=STRANGER) is None
        await theirs.decide("reject", actor=ME, payload_sha256=state.result_sha256, stage="result")
        await mine.outcome()
        assert [record.entry.event.value for record in await mine.audit()] == events


async def test_a_token_sees_and_decides_nothing_of_what_it_asked_for_itself(web: Web, tmp_path: Path) -> None:
    async with web.gate("approver") as own:
        handle = await own.request("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
        assert handle.id not in [state.approval_id async for state in own.inbox(ME)]
        by_other = web.service.gate.approval(handle.id)
        sha = (await by_other.state()).payload_sha256
        await by_other.decide("reject", actor=ME, payload_sha256=sha, remember="exact")
        await handle.outcome()
        (grant,) = [each async for each in own.grants() if each.approval_id == handle.id]
        with pytest.raises(NotAllowed, match="may not revoke"):
            await own.revoke(grant.grant_id, actor=ME)


async def test_a_narrow_token_sees_only_what_it_may_ask_for(web: Web, tmp_path: Path) -> None:
    narrow = Identity(open_id="ou_narrow")
    async with web.gate() as asking, web.gate("narrow_approver") as deciding:
        seen = await asking.request("open_mark", {"path": str(tmp_path / "m")}, requester=narrow)
        unseen = await asking.request("mark", {"path": str(tmp_path / "m")}, requester=narrow)
        listed = {state.approval_id async for state in deciding.inbox(narrow)}
        assert seen.id in listed
        assert unseen.id not in listed
        with pytest.raises(NotAllowed, match="on behalf of"):
            await anext(deciding.inbox(ME))


async def test_what_is_said_wrongly_is_named(web: Web, tmp_path: Path) -> None:
    async with web.gate() as asking, web.http("approver") as http:
        handle = await asking.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
        state = await handle.state()
        told = {"decision": "approve", "payload_sha256": state.payload_sha256, "actor": {"open_id": "ou_me"}}
        path = f"/v1/approvals/{handle.id}"
        answers = {
            "arguments: they belong to an edit": http.post(f"{path}/decide", json={**told, "arguments": {"path": "x"}}),
            "delegate_to: it belongs to delegate": http.post(
                f"{path}/decide", json={**told, "delegate_to": {"open_id": "ou_other"}}
            ),
            "is not an identity": http.get("/v1/inbox?actor=ou_me"),
            "?actor: Field required": http.delete("/v1/grants/g"),
        }
        for said, asked in answers.items():
            answer = await asked
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
            assert said in answer.json()["detail"]
        none = await http.get(f"{path}/result?actor=open_id:ou_me")
        assert (none.status_code, none.json()["code"]) == (404, "no_result")
        assert (await handle.state()).phase == "pending"


async def test_the_blocking_client_can_do_the_same(web: Web, tmp_path: Path) -> None:
    async with web.gate() as asking:
        handle = await asking.request("ask_once", {"path": str(tmp_path / "m")}, requester=ME)
        sha = str((await handle.state()).payload_sha256)

        def decided(url: str) -> tuple[list[str], Any, list[str]]:
            with SyncAssent.connect(url, token="secret-approver") as gate:
                waiting = [state.approval_id or "" for state in gate.inbox(ME)]
                approval = gate.approval(handle.id)
                assert approval.decide("approve", actor=ME, payload_sha256=sha).kind == "accepted"
                assert approval.outcome().status == "executed"
                (grant,) = [each for each in gate.grants() if each.approval_id == handle.id]
                return waiting, approval.result(actor=ME), [gate.revoke(grant.grant_id, actor=ME)]

        async with served(web.app) as url:
            waiting, result, revoked = await asyncio.to_thread(decided, url)
    assert handle.id in waiting
    assert (result, revoked) == (None, ["revoked"])
