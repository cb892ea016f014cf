"""The HTTP API: agents ask, wait and look within their rights, and every error says what is certain."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.service import RPCError, RPCStatusCode

from assent import names, strict_json
from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import Web, is_problem
from workers.edge import MAX_BODY

NARROW = {"open_id": "ou_narrow"}


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("api")
    async with AsyncExitStack() as stack:
        yield Web(await open_service(stack, client, await new_database("sqlite", directory)), directory)


def request_for(path: Path, tool: str = "open_mark", **fields: Any) -> dict[str, Any]:
    arguments = {"path": str(path / "marks")}
    return {"approval_id": uuid.uuid4().hex, "tool": tool, "arguments": arguments, "requester": NARROW, **fields}


async def asked(web: Web, path: Path, name: str = "agent", **fields: Any) -> dict[str, Any]:
    async with web.http(name) as http:
        answer = await http.post("/v1/approvals", json=request_for(path, **fields))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def approve(web: Web, view: dict[str, Any], name: str = "approver", **fields: Any) -> httpx.Response:
    told = {
        "decision": "approve",
        "payload_sha256": view["state"]["payload_sha256"],
        "actor": view["state"]["requester"],
        **fields,
    }
    async with web.http(name) as http:
        return await http.post(f"/v1/approvals/{view['approval_id']}/decide", json=told)


async def is_started(web: Web, approval_id: str) -> bool:
    try:
        await web.service.client.get_workflow_handle(names.approval_workflow(approval_id)).describe()
        return True
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise


# Asking and waiting


async def test_from_the_request_to_the_result(web: Web, tmp_path: Path) -> None:
    view = await asked(web, tmp_path, reason="because")
    assert (view["phase"], view["status"], view["outcome"]) == ("pending", None, None)
    assert (view["state"]["asked_by"], view["state"]["request_reason"]) == ("agent", "because")
    async with web.http() as http:
        waiting = asyncio.create_task(http.get(f"/v1/approvals/{view['approval_id']}?wait=30"))
        verdict = await approve(web, view)
        assert verdict.json()["kind"] == "accepted"
        ended = (await waiting).json()
        content = await http.get(f"/v1/approvals/{view['approval_id']}/content")
        trail = (await http.get(f"/v1/audit/{view['approval_id']}")).json()
    assert (ended["phase"], ended["status"], ended["outcome"]["content"]) == ("closed", "executed", "mark 1")
    assert (ended["outcome"]["is_error"], ended["outcome"]["neutral"]) == (False, False)
    assert content.json() == "mark 1"
    entries = [record["entry"] for record in trail["entries"]]
    proofs = {entry["event"]: (entry["surface"], entry["proof"]) for entry in entries}
    assert proofs["write_request"] == ("http", "token:agent")
    assert proofs["confirm"] == ("http", "token:approver")
    assert [record["previous"] for record in trail["entries"][1:]] == [r["hash"] for r in trail["entries"][:-1]]


async def test_a_repeated_request_attaches_and_another_one_conflicts(web: Web, tmp_path: Path) -> None:
    request = request_for(tmp_path)
    async with web.http() as http:
        first = await http.post("/v1/approvals", json=request)
        again = await http.post("/v1/approvals", json={**request, "ttl": 900})
        other = await http.post("/v1/approvals", json={**request, "ttl": "PT20M"})
    assert [answer.status_code for answer in (first, again)] == [201, 200]
    assert first.headers["location"] == again.headers["location"] == f"/v1/approvals/{request['approval_id']}"
    assert is_problem(other, 409, "approval_conflict")
    assert other.json()["approval_id"] == request["approval_id"]


async def test_without_an_id_every_request_is_a_new_one(web: Web, tmp_path: Path) -> None:
    first, second = (await asked(web, tmp_path, approval_id=None), await asked(web, tmp_path, approval_id=None))
    assert first["approval_id"] != second["approval_id"]


@pytest.mark.parametrize(
    "name", ["[settle it](https://evil.example/)", "\u202egnp.exe", "![x](https://evil.example/)", "订" * 60]
)
async def test_what_temporal_lists_of_a_request_is_no_markup(web: Web, tmp_path: Path, name: str) -> None:
    """Its UI shows summaries as Markdown, and a tool is any text that fits the token's pattern."""
    view = await asked(web, tmp_path, "narrow", tool=f"open_{name}")
    described = await web.service.client.get_workflow_handle(names.approval_workflow(view["approval_id"])).describe()
    summary = await described.static_summary()
    assert summary is not None
    assert not set(summary) & set("[]()!\u202e")
    assert summary.startswith("open&#95;")


async def test_a_busy_conversation_is_named(web: Web, tmp_path: Path) -> None:
    thread = uuid.uuid4().hex
    view = await asked(web, tmp_path, thread_id=thread)
    async with web.http() as http:
        busy = await http.post("/v1/approvals", json=request_for(tmp_path, thread_id=thread, when_pending="fail"))
    assert is_problem(busy, 409, "conversation_busy")
    assert (busy.json()["thread_id"], busy.json()["pending"]) == (thread, view["approval_id"])


async def test_a_wait_that_is_over_says_how_it_stands(web: Web, tmp_path: Path) -> None:
    view = await asked(web, tmp_path)
    async with web.http() as http:
        still = await http.get(f"/v1/approvals/{view['approval_id']}?wait=1")
        early = await http.get(f"/v1/approvals/{view['approval_id']}/content")
    assert (still.status_code, still.json()["phase"], still.json()["outcome"]) == (200, "pending", None)
    assert is_problem(early, 409, "not_ended")


async def test_withdrawing_ends_it_and_the_agent_gets_a_sentence(web: Web, tmp_path: Path) -> None:
    view = await asked(web, tmp_path)
    async with web.http() as http:
        answer = await http.post(f"/v1/approvals/{view['approval_id']}/cancel", json={"reason": "changed my mind"})
        assert answer.json()["status"] == "cancelled"
        ended = (await http.get(f"/v1/approvals/{view['approval_id']}?wait=20")).json()
        again = await http.post(f"/v1/approvals/{view['approval_id']}/cancel")
        content = (await http.get(f"/v1/approvals/{view['approval_id']}/content")).json()
    assert ended["outcome"]["neutral"] is True
    assert "changed my mind" in ended["outcome"]["content"] == content
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    assert marks(tmp_path / "marks") == 0


async def test_a_large_result_is_read_whole(web: Web, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "marks"), "what": "large", "size": 200_000}
    view = await asked(web, tmp_path, tool="returns", arguments=arguments)
    assert (await approve(web, view)).json()["kind"] in ("accepted", "received")
    async with web.http() as http:
        ended = (await http.get(f"/v1/approvals/{view['approval_id']}?wait=30")).json()
        content = await http.get(f"/v1/approvals/{view['approval_id']}/content")
    assert ended["outcome"]["truncated"] is True
    assert content.json() == {"text": "ö" * 200_000}


@pytest.mark.parametrize("approval_id", ["a/b", "a/content", "../x", "a%2Fb", "审批 1?#&+", ".", "%"])
async def test_any_id_works_as_one_segment_of_the_path(web: Web, tmp_path: Path, approval_id: str) -> None:
    approval_id = f"{approval_id}{uuid.uuid4().hex}" if approval_id != "." else approval_id
    async with web.http() as http:
        asked_for = await http.post("/v1/approvals", json=request_for(tmp_path, approval_id=approval_id))
        assert asked_for.status_code == 201, asked_for.text
        found = await http.get(asked_for.headers["location"])
        early = await http.get(f"{asked_for.headers['location']}/content")
    assert found.json()["approval_id"] == approval_id
    assert is_problem(early, 409, "not_ended")


# What is refused, and where


@pytest.mark.parametrize(
    ("body", "status", "code", "where"),
    [
        ("{", 400, "malformed", None),
        ("\xff", 400, "malformed", None),
        ("[" * 100_000, 400, "malformed", None),
        ("[]", 422, "invalid_request", "$"),
        ('{"tool": "mark"}', 422, "invalid_request", "$.arguments"),
        ('{"arguments": {"n": 9007199254740993}}', 422, "unhashable", "$.arguments.n"),
        ('{"arguments": {"n": ' + "9" * 5000 + "}}", 422, "unhashable", "$.arguments.n"),
        ('{"arguments": {"list": [1, NaN]}}', 422, "unhashable", "$.arguments.list[1]"),
        ('{"arguments": {"n": 1e400}}', 422, "unhashable", "$.arguments.n"),
        ('{"arguments": {"a": {"x": 1, "x": 2}}}', 422, "unhashable", "$.arguments.a.x"),
        ('{"arguments": {"a": "\\ud800"}}', 422, "unhashable", "$.arguments.a"),
        ('{"arguments": ' + '{"a":' * 70 + "1" + "}" * 70 + "}", 422, "unhashable", None),
    ],
)
async def test_what_two_readers_could_read_differently_is_refused_with_its_path(
    web: Web, body: str, status: int, code: str, where: str | None
) -> None:
    async with web.http() as http:
        answer = await http.post(
            "/v1/approvals", content=body.encode("latin-1"), headers={"Content-Type": "application/json"}
        )
    assert is_problem(answer, status, code)
    if where:
        assert where in [flaw["path"] for flaw in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"ttl": 0}, "$.ttl"),
        ({"ttl": "15 minutes"}, "$.ttl"),
        ({"ttl": True}, "$.ttl"),
        ({"ttl": "P2Y"}, "$.ttl"),
        ({"tool": 5}, "$.tool"),
        ({"requester": {}}, "$.requester"),
        ({"requester": {"open_id": "x" * 300}}, "$.requester.open_id"),
        ({"when_pending": "queue"}, "$.when_pending"),
        ({"callback_url": "http://agent.example/hooks/"}, "$.callback_url"),
        ({"callback_url": "https://agent.example:99999/hooks/"}, "$.callback_url"),
        ({"callback_url": "https://agent.example:x/hooks/"}, "$.callback_url"),
        ({"callback_url": "https://[::1/hooks/"}, "$.callback_url"),
    ],
)
async def test_an_invalid_field_is_named(web: Web, tmp_path: Path, fields: dict[str, Any], where: str) -> None:
    request = request_for(tmp_path, **fields)
    async with web.http() as http:
        answer = await http.post("/v1/approvals", json=request)
    assert is_problem(answer, 422, "invalid_request")
    assert [flaw["path"] for flaw in answer.json()["errors"]] == [where]
    assert not await is_started(web, request["approval_id"])


async def test_a_body_beyond_the_limit_is_refused_while_it_is_read(web: Web) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * MAX_BODY:
            sent += 65536
            yield b" " * 65536

    async with web.http() as http:
        answer = await http.post("/v1/approvals", content=endless(), headers={"Content-Type": "application/json"})
    assert is_problem(answer, 413, "too_large")


@pytest.mark.parametrize("path", ["/v1/approvals", "/v1/frozen"])
async def test_for_whoever_can_see_nothing_nothing_is_looked_through(
    web: Web, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(web.service.client), "list_workflows", lambda *_, **__: pytest.fail("it was searched"))
    async with web.http("nothing") as http:
        answer = await http.get(path)
    assert (answer.status_code, list(answer.json().values())) == (200, [[]])


CROWD = b"[" + b"1e30," * 190_000 + b"0]"
"""As many values as fit into a body."""


@pytest.mark.parametrize(
    "path", ["/v1/approvals", "/v1/bundles", "/v1/approvals/none/decide", "/v1/frozen/none/settle"]
)
async def test_of_whoever_has_no_right_to_say_it_no_body_is_read(
    web: Web, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "parse", lambda *_, **__: pytest.fail("it was read"))
    async with web.http("nothing") as http:
        answer = await http.post(path, content=CROWD, headers={"Content-Type": "application/json"})
    assert is_problem(answer, 403, "forbidden")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/approvals", b'{"tool":"t","requester":{"open_id":"ou_1"},"arguments":{"a":%s}}'),
        ("/v1/bundles", b'{"calls":[{"tool":"t","requester":{"open_id":"ou_1"},"arguments":{"a":%s}}]}'),
        ("/v1/approvals/none/decide", b'{"decision":"edit","actor":{"open_id":"ou_1"},"arguments":{"a":%s}}'),
        ("/v1/approvals/none/cancel", b'{"reason":%s}'),
    ],
)
async def test_a_crowd_of_values_is_refused_before_any_of_them_is_made(
    web: Web, path: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One agent within its rate would leave nothing for the others."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    async with web.http("console") as http:
        answer = await http.post(path, content=body % CROWD, headers={"Content-Type": "application/json"})
    monkeypatch.undo()
    assert is_problem(answer, 422, "invalid_request")
    assert "values" in answer.json()["detail"]


async def test_as_many_values_as_a_call_may_hold_are_read(web: Web, tmp_path: Path) -> None:
    """Also with all that may stand around them; one more is counted exactly."""
    around = {"reason": "because", "thread_id": "t", "ttl": 900, "message_id": "m", "requester": {"open_id": "ou_1"}}
    async with web.http() as http:
        full = await http.post("/v1/approvals", json={"tool": "t", "arguments": {"a": [[]] * 9999}, **around})
        more = await http.post("/v1/approvals", json={"tool": "t", "arguments": {"a": [[]] * 10_000}, **around})
    assert full.status_code == 201, full.text
    assert is_problem(more, 422, "invalid_request")
    assert "10001 values" in more.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "no_such_path"),
        ("GET", "/v1/approvals/", 404, "no_such_path"),
        ("DELETE", "/v1/approvals", 405, "method_not_allowed"),
        ("GET", "/v1/approvals/none", 404, "approval_not_found"),
        ("GET", "/v1/approvals/%ff", 404, "approval_not_found"),
        ("GET", "/v1/audit/none", 404, "approval_not_found"),
        ("POST", "/v1/approvals/none/cancel", 404, "approval_not_found"),
        ("GET", "/v1/approvals?limit=0", 422, "invalid_request"),
        ("GET", "/v1/approvals?status=done", 422, "invalid_request"),
        ("GET", "/v1/approvals/none?wait=61", 422, "invalid_request"),
    ],
)
async def test_every_error_is_a_problem(web: Web, method: str, path: str, status: int, code: str) -> None:
    async with web.http() as http:
        answer = await http.request(method, path)
    assert is_problem(answer, status, code)
    if status == 405:
        assert answer.headers["allow"] == "GET, POST"


async def test_a_body_that_does_not_say_it_is_json_is_refused(web: Web) -> None:
    async with web.http() as http:
        answer = await http.post("/v1/approvals", content=b"{}", headers={"Content-Type": "text/plain"})
    assert is_problem(answer, 400, "malformed")
    assert "Content-Type" in answer.json()["detail"]


# Who may what


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", "Basic secret-agent", "secret-agent", "Bearer \xff"]
)
async def test_without_a_known_token_nothing_is_read(web: Web, header: str | None) -> None:
    headers = {b"Authorization": header.encode("latin-1")} if header is not None else {}
    async with web.http(None) as http:
        for method, path in (("POST", "/v1/approvals"), ("GET", "/v1/tools"), ("GET", "/v1/approvals/x")):
            answer = await http.request(method, path, headers=headers, content=b"{" if method == "POST" else None)
            assert is_problem(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("nothing", {}),
        ("narrow", {"tool": "mark"}),
        ("narrow", {"requester": {"open_id": "ou_boss"}}),
        ("narrow", {"requester": {"open_id": "ou_narrow", "union_id": "on_boss"}}),
        ("narrow", {"callback_url": "https://agent.example/hooks/1"}),
        ("narrow", {"tool": "open_mark", "requester": {"open_id": "ou_narrow"}, "chat_id": "oc_other"}),
        ("agent", {"callback_url": "https://evil.example/hooks/1"}),
        ("agent", {"callback_url": "https://agent.example/hooks/../admin"}),
    ],
)
async def test_a_token_that_reaches_beyond_its_rights_starts_nothing(
    web: Web, tmp_path: Path, name: str, fields: dict[str, Any]
) -> None:
    request = request_for(tmp_path, **fields)
    async with web.http(name) as http:
        answer = await http.post("/v1/approvals", json=request)
    assert is_problem(answer, 403, "forbidden")
    assert not await is_started(web, request["approval_id"])


async def test_what_a_token_may_not_ask_for_looks_like_nothing(web: Web, tmp_path: Path) -> None:
    other_tool = await asked(web, tmp_path, tool="mark")
    other_person = await asked(web, tmp_path, requester={"open_id": "ou_boss"})
    async with web.http("narrow_approver") as http:
        for view in (other_tool, other_person):
            path = f"/v1/approvals/{view['approval_id']}"
            told = {"decision": "approve", "payload_sha256": view["state"]["payload_sha256"], "actor": NARROW}
            answers = [
                await http.get(path),
                await http.get(f"{path}/content"),
                await http.get(f"/v1/audit/{view['approval_id']}"),
                await http.post(f"{path}/cancel", json={}),
                await http.post(f"{path}/decide", json=told),
            ]
            unknown = await http.get("/v1/approvals/unknown")
            for answer in answers:
                assert is_problem(answer, 404, "approval_not_found")
                assert answer.json()["title"] == unknown.json()["title"]
            assert (await web.service.gate.approval(view["approval_id"]).state()).phase == "pending"


async def test_lists_hold_only_what_the_token_may_see(web: Web, tmp_path: Path) -> None:
    own = await asked(web, tmp_path, name="narrow")
    foreign = [await asked(web, tmp_path, tool="mark"), await asked(web, tmp_path, requester={"open_id": "ou_boss"})]

    async def listed(name: str, query: str = "") -> set[str]:
        async with web.http(name) as http:
            answer = await http.get(f"/v1/approvals?limit=1000{query}")
            return {line["approval_id"] for line in answer.json()["approvals"]}

    async def all_there() -> bool | None:
        return {view["approval_id"] for view in (own, *foreign)} <= await listed("agent", "&status=pending") or None

    await until(all_there)
    narrow = await listed("narrow")
    assert own["approval_id"] in narrow
    assert narrow.isdisjoint(view["approval_id"] for view in foreign)
    assert await listed("nothing") == set()
    assert own["approval_id"] not in await listed("narrow", "&status=executed")
    async with web.http("narrow") as http:
        tools = [tool["name"] for tool in (await http.get("/v1/tools")).json()["tools"]]
    assert tools == ["open_mark"]


async def test_an_agent_never_approves_itself(web: Web, tmp_path: Path) -> None:
    mine = await asked(web, tmp_path, name="approver")
    assert is_problem(await approve(web, mine), 403, "forbidden")
    theirs = await asked(web, tmp_path, name="narrow")
    assert is_problem(await approve(web, theirs, "narrow"), 403, "forbidden")
    assert is_problem(await approve(web, theirs, "narrow_approver", actor={"open_id": "ou_boss"}), 403, "forbidden")
    for view in (mine, theirs):
        state = await web.service.gate.approval(view["approval_id"]).state()
        assert (state.phase, state.decisions) == ("pending", ())
    assert (await approve(web, theirs, "narrow_approver")).json()["kind"] == "accepted"


async def test_whose_request_it_is_cannot_be_forged_in_the_body(web: Web, tmp_path: Path) -> None:
    forged = {"tool": "open_mark", "arguments": {"path": "x"}, "requester": {"open_id": "ou_me"}}
    for field in ({"surface": "feishu"}, {"asked_by": "someone else"}, {"reasn": "misspelt"}):
        async with web.http("approver") as http:
            assert is_problem(await http.post("/v1/approvals", json=forged | field), 422, "invalid_request")
    view = await asked(web, tmp_path, name="approver")
    assert view["state"]["asked_by"] == "approver"
    assert is_problem(await approve(web, view, proof="feishu-signature"), 422, "invalid_request")
    assert is_problem(await approve(web, view, name="approver"), 403, "forbidden")
    entries = await web.service.ledger.entries(view["approval_id"])
    assert [(entry.surface, entry.proof) for entry in entries] == [("http", "token:approver")]


async def test_a_decision_on_another_payload_is_tampered(web: Web, tmp_path: Path) -> None:
    view = await asked(web, tmp_path)
    for forged in ("0" * 64, None):
        answer = await approve(web, view, payload_sha256=forged)
        assert (answer.status_code, answer.json()["kind"]) == (200, "tampered")
    assert marks(tmp_path / "marks") == 0


async def test_a_repeated_sending_gets_its_verdict_and_a_repeated_decision_is_a_duplicate(
    web: Web, tmp_path: Path
) -> None:
    view = await asked(web, tmp_path)
    sending = {"event_id": "evt", "delivery_id": "first"}
    kinds = [(await approve(web, view, **sending)).json()["kind"] for _ in range(2)]
    again = await approve(web, view, event_id="evt", delivery_id="second")
    assert [*kinds, again.json()["kind"]] == ["accepted", "accepted", "duplicate"]


async def test_tools_are_described_for_whoever_asks_for_them(web: Web) -> None:
    async with web.http() as http:
        tools = {tool["name"]: tool for tool in (await http.get("/v1/tools")).json()["tools"]}
    guarded = tools["guarded_mark"]
    assert (guarded["risk"], guarded["approvers"], guarded["max_ttl"]) == ("high", "people", "PT4H")
    assert "ou_lilei" not in json.dumps(tools)
    assert set(guarded["parameters"]["properties"]) == {"path", "secret"}
    described = await web.service.gate.tools()
    assert {tool.name for tool in described} == set(tools)


async def test_the_requester_of_the_core_is_seen_by_any_of_the_ids(web: Web, tmp_path: Path) -> None:
    handle = await web.service.gate.request("open_mark", {"path": str(tmp_path / "marks")}, requester=ME)
    await handle.state()
    async with web.http("narrow") as http:
        assert (await http.get(f"/v1/approvals/{handle.id}")).status_code == 404
    async with web.http() as http:
        assert (await http.get(f"/v1/approvals/{handle.id}")).json()["state"]["asked_by"] is None


async def test_a_fault_is_told_without_a_word_of_what_was_sent(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = uuid.uuid4().hex

    async def broken(*_: object) -> None:
        raise KeyError(secret)

    monkeypatch.setattr("assent.temporal.door.TemporalDoor.tools", broken)
    async with web.http() as http:
        answer = await http.get("/v1/tools")
    assert is_problem(answer, 500, "fault")
    assert "KeyError" in caplog.text
    assert secret not in answer.text + caplog.text
