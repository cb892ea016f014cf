"""The HTTP tool against a real server that answers anything, hangs, or hangs up: it says only what is certain."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from assent import InvalidRequest, InvalidTool, Registry, Tool, ToolResult, http_tool
from assent.arguments.schema import complete
from assent.tools.http import HttpOutcomeUnknown
from tests.support import servers
from tests.support.http_server import Server, listening
from tests.support.http_tools import CONTEXT, SECRET


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as own:
        yield own


def declared(method: str, url: str, **options: Any) -> Tool:
    return http_tool("http.test", method, url, registry=Registry(), **options)


async def called(own: Tool, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Run it as a worker would: complete, parse, bind."""
    completed = complete(own.manifest.parameters, arguments or {})
    result = await own.bound(own.parse(json.dumps(completed).encode()), CONTEXT)()
    assert isinstance(result, ToolResult)
    return result


# What is sent


async def test_request_carries_the_key_and_the_headers(server: Server) -> None:
    await called(declared("post", server.url + "/pay", headers={"Authorization": SECRET}), {"body": {"a": 1}})
    (request,) = server.received
    assert (request.method, request.target, json.loads(request.body)) == ("POST", "/pay", {"a": 1})
    assert request.header("Idempotency-Key") == [CONTEXT.idempotency_key]
    assert request.header("Authorization") == [SECRET]
    assert request.header("User-Agent") != []


async def test_certificates_are_read_once_and_not_for_each_call(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = declared("POST", server.url)
    await called(own)
    monkeypatch.setattr(ssl, "create_default_context", None)  # reading them again would fail
    await called(own)
    assert len(server.received) == 2


async def test_headers_may_be_made_for_each_request(server: Server) -> None:
    tokens = iter(["one", "two"])
    own = declared("POST", server.url, headers=lambda: {"X-Token": next(tokens)})
    for _ in range(2):
        await called(own)
    assert [request.header("X-Token") for request in server.received] == [["one"], ["two"]]


async def test_nobody_else_names_the_key(server: Server) -> None:
    await called(declared("POST", server.url, headers={"idempotency-key": "mine"}))
    assert server.received[0].header("Idempotency-Key") == [CONTEXT.idempotency_key]


async def test_key_that_no_header_can_carry_is_sent_as_one_that_tells_calls_apart(server: Server) -> None:
    own = declared("POST", server.url)
    for key in ("n:caller:订单:h", "n:caller:订单二:h", "n:caller:a\r\nX-Evil: 1:h", "n:caller:订单:h"):
        await own(CONTEXT.model_copy(update={"idempotency_key": key}), body={})
    keys = [request.header("Idempotency-Key")[0] for request in server.received]
    assert (len(set(keys)), keys[0]) == (3, keys[3])
    assert all(request.header("X-Evil") == [] for request in server.received)


async def test_placeholders_are_quoted(server: Server) -> None:
    own = declared("POST", server.url + "/customers/{id}/notes/{id}?of={who}", parameters={"text": str})
    await called(own, {"id": "a/b?c#d%2f王", "who": "x&y=z", "text": "hello"})
    (request,) = server.received
    quoted = "a%2Fb%3Fc%23d%252f%E7%8E%8B"
    assert request.target == f"/customers/{quoted}/notes/{quoted}?of=x%26y%3Dz"
    assert json.loads(request.body) == {"text": "hello"}


@pytest.mark.parametrize("text", ["", ".", ".."])
async def test_placeholder_cannot_climb_out_of_its_place(server: Server, text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"\$\.id"):
        await called(declared("DELETE", server.url + "/customers/{id}"), {"id": text})
    result = await called(declared("DELETE", server.url + "/customers/{id}", parameters={"id": str}), {"id": text})
    assert (result.outcome, "did not run" in result.content) == ("failed", True)
    assert server.received == []


async def test_placeholder_may_hold_dots_among_other_things(server: Server) -> None:
    await called(declared("GET", server.url + "/{file}"), {"file": "..a"})
    assert server.received[0].target == "/..a"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_method_without_a_body_sends_a_query(server: Server, method: str) -> None:
    server.answers(200)
    await called(declared(method, server.url + "/items", parameters={"a": str, "n": (int, 7)}), {"a": "x y&z"})
    (request,) = server.received
    assert (request.method, request.query, request.body) == (method, [("a", "x y&z"), ("n", "7")], b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_method_with_a_body_sends_json(server: Server, method: str) -> None:
    own = declared(method, server.url + "/items", parameters={"a": str, "n": (int, 7)})
    await called(own, {"a": "王"})
    (request,) = server.received
    assert (request.method, request.target, json.loads(request.body)) == (method, "/items", {"a": "王", "n": 7})
    assert request.header("Content-Type") == ["application/json"]


async def test_query_in_the_url_is_kept(server: Server) -> None:
    own = declared("DELETE", server.url + "/items?id={id}&v=1")
    await called(own, {"id": "7"})
    await called(own, {"id": "7", "query": {"force": "yes"}})
    assert [request.query for request in server.received] == [
        [("id", "7"), ("v", "1")],
        [("id", "7"), ("v", "1"), ("force", "yes")],
    ]


class Size(StrEnum):
    LARGE = "large"


VALUES: dict[str, Any] = {"flag": bool, "n": int, "amount": Decimal, "when": datetime, "size": Size, "ids": list[int]}
GIVEN = {"flag": True, "n": 5, "amount": "1.50", "when": "2026-01-01T09:00:00Z", "size": "large", "ids": [1, 2]}


async def test_values_are_sent_as_they_were_shown(server: Server) -> None:
    await called(declared("POST", server.url, parameters=VALUES), GIVEN)
    await called(declared("GET", server.url, parameters=VALUES), GIVEN)
    placeholders = "/{flag}/{n}/{amount}/{when}/{size}"
    await called(declared("POST", server.url + placeholders, parameters=VALUES), GIVEN)
    body, query, path = server.received
    assert json.loads(body.body) == GIVEN
    shown = {"flag": "true", "n": "5", "amount": "1.50", "when": "2026-01-01T09:00:00Z", "size": "large"}
    assert query.query == [*shown.items(), ("ids", "1"), ("ids", "2")]
    assert path.target == "/true/5/1.50/2026-01-01T09%3A00%3A00Z/large"
    assert json.loads(path.body) == {"ids": [1, 2]}


# What is made of the answer


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_success_is_completed_with_the_body(server: Server, status: int) -> None:
    body = "" if status == 204 else '{"id": 7}'
    server.answers(status, body)
    result = await called(declared("POST", server.url))
    assert result.outcome == "completed"
    assert result.content == {"status": status, "body": {"id": 7} if body else ""}


@pytest.mark.parametrize("body", ["plain text", "{broken", "[" * 5000 + "]" * 5000, "\x00\x01"])
async def test_success_is_completed_whatever_the_body_is(server: Server, body: str) -> None:
    server.answers(200, body, "Content-Type: application/json")
    result = await called(declared("POST", server.url))
    assert (result.outcome, result.content["body"]) == ("completed", body)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422, 425, 429, 451])
async def test_refusal_is_failed_with_the_servers_words(server: Server, status: int) -> None:
    server.answers(status, '{"error": "no"}')
    result = await called(declared("POST", server.url))
    assert (result.outcome, result.content) == ("failed", {"status": status, "body": {"error": "no"}})
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [408, 409, 500, 501, 502, 503, 504, 599])
async def test_answer_that_does_not_tell_is_unknown(server: Server, status: int) -> None:
    server.answers(status, "try again", "Retry-After: 0")
    with pytest.raises(HttpOutcomeUnknown, match=str(status)):
        await called(declared("POST", server.url))
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_and_none_counts_as_done(server: Server, status: int) -> None:
    server.answers(status, "", f"Location: {server.url}/elsewhere")
    try:
        assert (await called(declared("POST", server.url + "/here"))).outcome == "failed"
        assert status in (307, 308), "only these say that nothing was done"
    except HttpOutcomeUnknown:
        assert status in (301, 302, 303)
    assert [request.target for request in server.received] == ["/here"]


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"HTTP/1.1 200 O", b"nonsense\r\n\r\n"]
)
async def test_connection_lost_after_sending_is_unknown(server: Server, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(HttpOutcomeUnknown, match="sent"):
        await called(declared("POST", server.url))
    assert len(server.received) == 1


async def test_silence_after_sending_is_unknown(server: Server) -> None:
    server.answer = None
    own = declared("POST", server.url, timeout=timedelta(milliseconds=200))
    with pytest.raises(HttpOutcomeUnknown, match="sent"):
        await called(own)
    assert len(server.received) == 1
    assert own.manifest.timeout > timedelta(milliseconds=200)


async def test_could_not_connect_is_failed_and_did_not_run() -> None:
    result = await called(declared("POST", f"http://127.0.0.1:{servers.free_port()}"))
    assert (result.outcome, "did not run" in result.content) == ("failed", True)


def no_token() -> Mapping[str, str]:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    "headers",
    [no_token, {"Authorization": SECRET + "\r\nX-Evil: 1"}, {"Authorization": SECRET + "王"}, {"a b": SECRET}],
)
async def test_request_that_could_not_even_be_made_is_failed_and_tells_no_secret(
    server: Server, headers: Mapping[str, str] | Callable[[], Mapping[str, str]]
) -> None:
    result = await called(declared("POST", server.url, headers=headers))
    assert (result.outcome, "did not run" in result.content) == ("failed", True)
    assert "s3cr3t" not in result.content
    assert server.received == []


# What is declared


def test_what_the_tool_says_of_itself() -> None:
    own = declared(
        "delete", "https://crm/customers/{id}", headers={"X": SECRET}, risk="high", timeout=timedelta(seconds=9)
    )
    assert (own.name, own.manifest.description, own.manifest.risk) == (
        "http.test", "DELETE https://crm/customers/{id}", "high"
    )  # fmt: skip
    assert list(own.manifest.parameters["properties"]) == ["id", "query"]
    assert own.manifest.parameters["required"] == ["id"]
    assert SECRET not in own.manifest.model_dump_json()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("https://h/{}", {}),
        ("https://h/{0}", {}),
        ("https://h/{a.b}", {}),
        ("https://h/{a", {}),
        ("https://h/{class}", {}),
        ("https://h/{ctx}", {}),
        ("https://h/{body}", {}),
        ("https://h", {"parameters": {"ctx": str}}),
        ("https://h", {"parameters": {"not a name": str}}),
        ("https://h", {"timeout": timedelta(0)}),
        ("https://h", {"timeout": timedelta(seconds=-1)}),
        ("https://h", {"approvers": []}),
    ],
)
def test_declaration_that_could_not_work_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match=r"http\.test"):
        declared("POST", url, **options)
