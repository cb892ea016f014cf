"""Frozen calls over HTTP: seen and settled by tokens that may, and every refusal says that the call stays frozen."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from assent import ApprovalHandle, Identity, names
from tests.conftest import ME, OPERATOR, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import Web, is_problem
from workers.sweeping import sweep

OPERATING = {"open_id": OPERATOR.open_id}


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("frozen")
    async with AsyncExitStack() as stack:
        yield Web(await open_service(stack, client, await new_database("sqlite", directory)), directory)


async def frozen(
    web: Web, path: Path, tool: str = "raises", *, token: str = "agent", requester: Identity = ME, **asked: Any
) -> ApprovalHandle:
    """A call that was asked for over HTTP and may have happened."""
    arguments = {"path": str(path / "marks"), **asked.pop("arguments", {})}
    handle = await web.gate(token).request(tool, arguments, requester=requester, **asked)
    assert (await web.service.decided(web.service.gate.approval(handle.id), actor=requester)).status == "frozen"
    return handle


async def settle(web: Web, handle: ApprovalHandle, token: str = "operator", **said: Any) -> httpx.Response:
    told = {"ruling": "executed", "operator": OPERATING, "reason": "it is in the books", **said}
    async with web.http(token) as http:
        return await http.post(f"/v1/frozen/{handle.id}/settle", json=told)


async def seen(web: Web, handle: ApprovalHandle, token: str = "agent") -> dict[str, Any]:
    async with web.http(token) as http:
        found: dict[str, Any] = (await http.get(f"/v1/approvals/{handle.id}")).raise_for_status().json()
        return found


async def test_settling_is_told_to_whoever_waits_and_kept_with_its_proof(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, tmp_path)
    assert (await seen(web, handle))["settlement"] is None
    async with web.http() as http:
        still = await http.get(f"/v1/approvals/{handle.id}/settlement?wait=1")
        assert still.json() == {"approval_id": handle.id, "settlement": None}
        waiting = asyncio.create_task(http.get(f"/v1/approvals/{handle.id}/settlement?wait=30"))
        ruled = await settle(web, handle, content={"booking": 7})
        settlement = (await waiting).json()["settlement"]
        again = await http.get(f"/v1/approvals/{handle.id}/settlement")
    assert (ruled.status_code, ruled.json()["kind"]) == (200, "settled")
    assert (settlement["kind"], settlement["content"]) == ("executed", {"booking": 7})
    assert (settlement["surface"], settlement["settled_by"]["open_id"]) == ("http", OPERATOR.open_id)
    assert settlement == ruled.json()["settlement"] == again.json()["settlement"]
    view = await seen(web, handle)
    assert (view["status"], view["settlement"]) == ("frozen", settlement)
    entry = (await web.service.ledger.entries(handle.id))[-1]
    assert (entry.event, entry.actor, entry.proof) == ("settle", OPERATOR, "token:operator")


async def test_only_tokens_that_may_settle_do_and_never_their_own(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, tmp_path, message_id=str(tmp_path))
    own = await frozen(web, tmp_path, token="operator", message_id=str(tmp_path))
    for token in ("agent", "approver", "narrow"):
        refused = await settle(web, handle, token)
        assert is_problem(refused, 403, "forbidden"), token
        assert "may not settle" in refused.json()["detail"]
    for each in (own, handle):  # one answer for both, so the token that asked for one settles neither
        refused = await settle(web, each, "operator")
        assert is_problem(refused, 403, "forbidden")
        assert "asked for this call" in refused.json()["detail"]
    assert await web.service.ledger.settlement(handle.id) is None
    assert (await settle(web, handle, "narrow_operator")).status_code == 404
    assert marks(tmp_path / "marks") == 1


async def test_a_token_settles_only_in_the_name_of_people_it_may_act_for(web: Web, tmp_path: Path) -> None:
    narrow = Identity(open_id="ou_narrow")
    handle = await frozen(web, tmp_path, requester=narrow)
    refused = await settle(web, handle, "narrow_operator", operator={"open_id": "ou_somebody"})
    assert is_problem(refused, 403, "forbidden")
    outsider = await settle(web, handle, "narrow_operator", operator={"open_id": "ou_narrow"})
    assert is_problem(outsider, 403, "forbidden_operator")
    assert "stays frozen" in outsider.json()["certain"]
    assert (await settle(web, handle, "narrow_operator")).json()["kind"] == "settled"


async def test_what_a_token_may_not_ask_for_looks_like_nothing(web: Web, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    foreign = await frozen(web, tmp_path)
    own = await frozen(web, tmp_path / "own", requester=Identity(open_id="ou_narrow"))

    async def listed(token: str) -> list[str]:
        async with web.http(token) as http:
            found = (await http.get("/v1/frozen?limit=1000")).raise_for_status().json()["frozen"]
            return [line["approval_id"] for line in found]

    async def both() -> bool:
        return {foreign.id, own.id} <= {*await listed("agent")}

    await until(both)
    assert foreign.id not in await listed("narrow_operator")
    assert own.id in await listed("narrow_operator")
    assert await listed("nothing") == []
    async with web.http("narrow_operator") as http:
        hidden = await http.get(f"/v1/approvals/{foreign.id}/settlement")
    assert is_problem(hidden, 404, "approval_not_found")
    assert is_problem(await settle(web, foreign, "narrow_operator"), 404, "approval_not_found")
    async with web.http() as http:
        (line,) = (await http.get("/v1/frozen?limit=1")).json()["frozen"]
    assert {"approval_id", "review_id", "tool", "requester", "risk", "frozen_at"} == line.keys()


async def test_what_is_not_frozen_cannot_be_settled(web: Web, tmp_path: Path) -> None:
    executed = await web.gate().request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    await web.service.decided(web.service.gate.approval(executed.id))
    await frozen(web, tmp_path, message_id=str(tmp_path))
    rejected = await web.gate().request(
        "raises", {"path": str(tmp_path / "marks")}, requester=ME, message_id=str(tmp_path)
    )
    await web.service.decided(web.service.gate.approval(rejected.id), "reject")
    for handle in (executed, rejected):
        assert is_problem(await settle(web, handle), 409, "not_frozen")
        async with web.http() as http:
            none = await http.get(f"/v1/approvals/{handle.id}/settlement?wait=30")
        assert is_problem(none, 404, "no_settlement")
    unknown = web.gate().approval(f"unknown-{uuid.uuid4()}")
    assert is_problem(await settle(web, unknown), 404, "approval_not_found")


async def test_trying_again_is_refused_with_the_reason_and_taken_with_the_hash(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, tmp_path)
    uncertain = await settle(web, handle, ruling="retry", payload_hash="0" * 12)
    assert is_problem(uncertain, 409, "ruling_refused")
    assert uncertain.json()["why"] == "not_certain"
    (tmp_path / "f").mkdir()
    bearing = await frozen(web, tmp_path / "f", "once_more")
    for wrong in (None, "0" * 12):
        refused = await settle(web, bearing, ruling="retry", payload_hash=wrong)
        assert is_problem(refused, 409, "ruling_refused")
        assert refused.json()["why"] == "wrong_hash"
    typed = (await seen(web, bearing))["state"]["payload_sha256"][:12]
    assert (await settle(web, bearing, ruling="retry", payload_hash=typed)).json()["kind"] == "retrying"
    async with web.http() as http:
        view = (await http.get(f"/v1/approvals/{bearing.id}/settlement?wait=30")).json()
    assert (view["settlement"]["kind"], view["settlement"]["retried"]) == ("executed", True)


async def test_a_repeated_ruling_gets_its_answer_and_another_is_told_who_settled(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, tmp_path)
    first = await settle(web, handle, ruling_id="first")
    again = await settle(web, handle, ruling_id="first")
    other = await settle(web, handle, ruling_id="other", ruling="not_executed")
    assert [answer.json()["kind"] for answer in (first, again, other)] == ["settled", "settled", "already_settled"]
    assert first.json()["settlement"] == again.json()["settlement"] == other.json()["settlement"]


async def test_a_call_whose_approval_was_ended_by_hand_is_settled_all_the_same(web: Web, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = await web.gate().request("soon_over", {"path": str(tmp_path / "marks"), "gate": str(gate)}, requester=ME)
    own = web.service.gate.approval(handle.id)
    await own.decide("approve", actor=ME, payload_sha256=(await own.state()).payload_sha256)

    async def began() -> bool:
        return marks(tmp_path / "marks") == 1

    async def swept() -> bool:
        return await sweep(web.service.client, web.service.ledger) > 0

    await until(began)
    await web.service.client.get_workflow_handle(names.approval_workflow(handle.id)).terminate()
    await until(swept)
    gate.touch()
    async with web.http() as http:
        still = await http.get(f"/v1/approvals/{handle.id}/settlement?wait=1")
    assert (still.status_code, still.json()["settlement"]) == (200, None)
    assert (await settle(web, handle)).json()["kind"] == "settled"


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"ruling": "done"}, "$.ruling"),
        ({"reason": ""}, "$.reason"),
        ({"reason": None}, "$.reason"),
        ({"operator": {}}, "$.operator"),
        ({"proof": "feishu-signature"}, "$.proof"),
        ({"surface": "feishu"}, "$.surface"),
        ({"ruling_id": "x" * 300}, "$.ruling_id"),
    ],
)
async def test_an_invalid_field_is_named(web: Web, said: dict[str, Any], where: str) -> None:
    answer = await settle(web, web.gate().approval("any"), **said)
    assert is_problem(answer, 422, "invalid_request")
    assert [flaw["path"] for flaw in answer.json()["errors"]] == [where]
