"""The client over HTTP is the same client: each behaviour here holds through both doors."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from assent import (
    ApprovalConflict,
    ApprovalHandle,
    ApprovalInterrupted,
    ApprovalNotFound,
    Assent,
    AssentError,
    ConversationBusy,
    InvalidRequest,
    NotAllowed,
    Status,
    SyncAssent,
    Unavailable,
    names,
)
from assent.api.door import HttpDoor
from assent.types import Unhashable
from ledger import Reader
from tests.conftest import ME
from tests.support import servers
from tests.support.simulated_feishu import served
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import Web, write_tokens
from workers import approvals_api
from workers.api import create_app


async def asked(gate: Assent, path: Path, tool: str = "mark", **fields: object) -> ApprovalHandle:
    return await gate.request(tool, {"path": str(path / "marks")}, requester=ME, **fields)  # type: ignore[arg-type]


async def approved(gate: Assent, web: Web, handle: ApprovalHandle) -> None:
    """Approved by somebody who may, through the same door."""
    decider = web.gate("approver") if isinstance(gate._door, HttpDoor) else gate
    approval = decider.approval(handle.id)
    verdict = await approval.decide("approve", actor=ME, payload_sha256=(await approval.state()).payload_sha256)
    assert (verdict.kind, verdict.decided_by) == ("accepted", ME)


async def test_ask_decide_and_get_the_result(gate: Assent, web: Web, tmp_path: Path) -> None:
    handle = await asked(gate, tmp_path, reason="because", ttl=timedelta(seconds=0.75 + 600))
    state = await handle.state()
    assert (state.phase, state.approval_id, state.requester, state.request_reason) == (
        "pending", handle.id, ME, "because",
    )  # fmt: skip
    waiting = asyncio.create_task(handle.outcome())
    await approved(gate, web, handle)
    outcome = await waiting
    assert (outcome.status, outcome.is_error, outcome.decided_by) == ("executed", False, ME)
    assert outcome.content["marks"] == 1
    assert await handle.content() == outcome.content
    assert (await handle.state()).decisions[0].verdict == "accepted"
    events = [record.entry.event.value for record in await handle.audit()]
    assert events[0] == "write_request"
    assert "execute" in events


async def test_a_request_is_the_same_through_both_doors(web: Web, tmp_path: Path) -> None:
    fields = {"approval_id": uuid.uuid4().hex, "ttl": timedelta(seconds=100, microseconds=1), "thread_id": "线程"}
    arguments = {"path": str(tmp_path / "marks"), "note": "é\u2028😀", "amount": "1.10"}
    await web.service.gate.request("mark", arguments, requester=ME, **fields)  # type: ignore[arg-type]
    async with web.gate() as remote:
        handle = await remote.request("mark", arguments, requester=ME, **fields)  # type: ignore[arg-type]
        assert (await handle.state()).asked_by is None, "attached to what the other door had started"


async def test_a_large_result_is_read_whole(gate: Assent, web: Web, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "marks"), "what": "large", "size": 100_000}
    handle = await gate.request("returns", arguments, requester=ME)
    await approved(gate, web, handle)
    assert (await handle.outcome()).truncated
    assert await handle.content() == {"text": "ö" * 100_000}


async def test_conflicts_and_busy_conversations_are_the_same_exceptions(gate: Assent, tmp_path: Path) -> None:
    approval_id, thread = uuid.uuid4().hex, uuid.uuid4().hex
    await asked(gate, tmp_path, approval_id=approval_id, thread_id=thread)
    with pytest.raises(ApprovalConflict) as conflict:
        await asked(gate, tmp_path, approval_id=approval_id, thread_id=thread, reason="another")
    assert conflict.value.approval_id == approval_id
    with pytest.raises(ConversationBusy) as busy:
        await asked(gate, tmp_path, thread_id=thread, when_pending="fail")
    assert (busy.value.thread_id, busy.value.pending) == (thread, approval_id)


async def test_what_is_not_valid_is_refused_before_anything_starts(gate: Assent, tmp_path: Path) -> None:
    with pytest.raises(Unhashable) as unhashable:
        await gate.request("mark", {"path": "x", "amount": 2**60}, requester=ME)
    assert unhashable.value.path == "$.arguments.amount"
    with pytest.raises(InvalidRequest, match="ttl"):
        await asked(gate, tmp_path, ttl=timedelta(0))
    with pytest.raises(InvalidRequest, match="no status"):
        [approval async for approval in gate.approvals(status="done")]


async def test_what_nobody_asked_for_is_not_found(gate: Assent) -> None:
    unknown = gate.approval(f"unknown/{uuid.uuid4()}")
    for question in (unknown.state(), unknown.outcome(), unknown.content(), unknown.audit()):
        with pytest.raises(ApprovalNotFound):
            await question
    await unknown.cancel("nothing happens")
    decider = gate.approval(unknown.id)
    if not isinstance(gate._door, HttpDoor):
        assert (await decider.decide("approve", actor=ME, payload_sha256="0")).kind == "missing"


async def test_withdrawing_gives_the_agent_its_own_sentence(gate: Assent, tmp_path: Path) -> None:
    handle = await asked(Assent(gate._door, texts={Status.CANCELLED: "It is off."}), tmp_path)
    await handle.cancel("no need")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("cancelled", "It is off. Reason: no need")
    neutral = await gate.approval(handle.id).outcome()
    assert neutral.content == "The request was withdrawn. The call did not run. Reason: no need"


async def test_an_approval_that_was_ended_by_hand_is_told_as_such(gate: Assent, web: Web, tmp_path: Path) -> None:
    handle = await asked(gate, tmp_path)
    await handle.state()
    await web.service.client.get_workflow_handle(names.approval_workflow(handle.id)).terminate()
    with pytest.raises(ApprovalInterrupted, match="terminated") as interrupted:
        await handle.outcome()
    assert interrupted.value.approval_id == handle.id


async def test_lists_and_tools_are_the_same(gate: Assent, web: Web, tmp_path: Path) -> None:
    handle = await asked(gate, tmp_path, thread_id="listed")

    async def listed() -> bool | None:
        lines = [line async for line in gate.approvals(status="pending", limit=1000)]
        return handle.id in {line.approval_id for line in lines if line.thread_id == "listed"} or None

    assert await until(listed)
    assert await gate.tools() == await web.service.gate.tools()


async def test_ask_and_wait_in_one(gate: Assent, tmp_path: Path) -> None:
    outcome = await gate.call("no_such_tool", {}, requester=ME)
    assert outcome.status == "failed"
    assert "no_such_tool" in (outcome.reason or "")


# What only the door over HTTP has


async def test_a_token_that_does_not_reach_that_far_is_an_exception_of_its_own(web: Web, tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="may not ask for the tool 'mark'"):
        await asked(web.gate("narrow"), tmp_path)
    with pytest.raises(NotAllowed, match="Bearer"):
        await web.gate("unknown").tools()
    handle = await asked(web.gate("agent"), tmp_path)
    with pytest.raises(NotAllowed, match="may not decide"):
        await handle.decide("approve", actor=ME, payload_sha256="0")


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [
        ("http://assent.example", "t", "in the clear"),
        ("http://127.0.0.1.evil.example", "t", "in the clear"),
        ("ftp://assent.example", "t", "https://"),
        ("assent.example", "t", "https://"),
        ("https://assent.example", None, "token="),
        ("https://assent.example", "a\nb", "header"),
        (None, "t", "belongs to an address"),
    ],
)
async def test_a_door_that_would_not_be_safe_is_not_opened(url: str | None, token: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        await Assent.connect(url, token=token)


async def test_a_wait_outlives_restarts_of_the_webhook(web: Web, tmp_path: Path) -> None:
    port = servers.free_port()
    async with served(web.another(tmp_path), port) as url:
        gate = await Assent.connect(url, token="secret-agent")
        handle = await asked(gate, tmp_path)
        await handle.state()
        waiting = asyncio.create_task(handle.outcome())
        await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="does not answer"):
        await gate._door._insist("GET", "/v1/tools", patience=0.2)  # type: ignore[attr-defined]
    assert not waiting.done()
    await web.service.decided(web.service.gate.approval(handle.id))
    async with served(web.another(tmp_path), port):
        assert (await asyncio.wait_for(waiting, 300)).status == "executed"
    await gate.close()


def _failing_first(answers: list[Callable[[], httpx.Response]], then: httpx.AsyncBaseTransport) -> httpx.MockTransport:
    """Something between client and service that answers a few times in its place."""

    async def handle(request: httpx.Request) -> httpx.Response:
        if answers:
            return answers.pop(0)()
        return await then.handle_async_request(request)

    return httpx.MockTransport(handle)


def _lost() -> httpx.Response:
    raise httpx.ReadError("connection reset")


async def test_a_request_whose_answer_was_lost_is_asked_once(web: Web, tmp_path: Path) -> None:
    posted: list[bytes] = []

    async def after_it_arrived(request: httpx.Request) -> httpx.Response:
        answer = await web.transport().handle_async_request(request)
        posted.append(request.content)
        if len(posted) == 1:
            raise httpx.ReadError("connection reset")
        return answer

    gate = Assent(HttpDoor("http://127.0.0.1", "secret-agent", transport=httpx.MockTransport(after_it_arrived)))
    handle = await asked(gate, tmp_path)
    assert len(posted) == 2
    assert posted[0] == posted[1]
    assert (await handle.state()).phase == "pending"


async def test_a_gateway_in_between_is_waited_out_and_a_wrong_address_is_not(web: Web, tmp_path: Path) -> None:
    handle = await asked(web.service.gate, tmp_path)
    await web.service.decided(handle)
    sick = [_lost, lambda: httpx.Response(502, html="<h1>Bad gateway</h1>"), lambda: httpx.Response(429)]
    patient = Assent(HttpDoor("http://127.0.0.1", "secret-agent", transport=_failing_first([*sick], web.transport())))
    assert (await patient.approval(handle.id).outcome()).status == "executed"
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(404, html="<h1>Not found</h1>"))
    with pytest.raises(AssentError, match="check the address"):
        await Assent(HttpDoor("http://127.0.0.1", "t", transport=elsewhere)).approval("x").outcome()


async def test_without_workers_a_request_is_kept_and_says_so(
    web: Web,
    temporal_address: str,
    namespaces: Iterator[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals_api, "_TAKEN_WITHIN", timedelta(seconds=1))  # there is nothing to wait for
    client = await servers.connect(temporal_address, next(namespaces))
    settings = web.service.settings.model_copy(update={"tokens": write_tokens(tmp_path)})
    alone = httpx.ASGITransport(create_app(settings, client, Reader(web.service.ledger)))
    gate = Assent(HttpDoor("http://127.0.0.1", "secret-agent", transport=alone))
    handle = await asked(gate, tmp_path)
    described = await client.get_workflow_handle(names.approval_workflow(handle.id)).describe()
    assert described.status is not None
    async with web.http() as http:
        ready = await http.get("/readyz")
    assert ready.status_code == 200
    async with httpx.AsyncClient(base_url="http://webhook", transport=alone) as http:
        unready = await http.get("/readyz")
    assert (unready.status_code, "approvals worker" in unready.json()["detail"]) == (503, True)


# Without asyncio


async def test_the_synchronous_twin_does_the_same_from_any_thread(web: Web, tmp_path: Path) -> None:
    def work(url: str) -> None:
        with (
            SyncAssent.connect(url, token="secret-agent") as gate,
            SyncAssent.connect(url, token="secret-approver") as approver,
        ):
            handle = gate.request("mark", {"path": str(tmp_path / "marks")}, requester=ME)
            state = handle.state()
            with ThreadPoolExecutor(2) as pool:
                waiting = [pool.submit(handle.outcome) for _ in range(2)]
                verdict = approver.approval(handle.id).decide("approve", actor=ME, payload_sha256=state.payload_sha256)
                assert verdict.kind == "accepted"
                assert [future.result(30).status for future in waiting] == ["executed", "executed"]
            assert handle.content()["marks"] == 1
            assert handle.audit()
            assert "mark" in [tool.name for tool in gate.tools()]
            assert isinstance(gate.approvals(limit=1000), list)
            assert gate.call("no_such_tool", {}, requester=ME).status == "failed"
            withdrawn = gate.request("mark", {"path": "x"}, requester=ME)
            withdrawn.cancel("no")
            assert withdrawn.outcome().status == "cancelled"
            with pytest.raises(ApprovalNotFound):
                gate.approval("unknown").state()
        with pytest.raises(RuntimeError, match="closed"):
            gate.tools()

    async with served(web.another(tmp_path)) as url:
        await asyncio.to_thread(work, url)
    assert marks(tmp_path / "marks") == 1
    assert "assent" not in [thread.name for thread in threading.enumerate()]


async def test_closing_the_synchronous_twin_frees_whoever_waits(web: Web, tmp_path: Path) -> None:
    async with served(web.another(tmp_path)) as url:
        gate = SyncAssent.connect(url, token="secret-agent")  # also inside a running loop
        handle = await asked(web.service.gate, tmp_path)
        waiting = asyncio.create_task(asyncio.to_thread(gate.approval(handle.id).outcome))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(gate.close)
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
    gate.close()
    with pytest.raises(InvalidRequest, match="in the clear"):
        SyncAssent.connect("http://assent.example", token="t")
