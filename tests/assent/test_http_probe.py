"""The probe of an HTTP tool: one GET that says whether the request took effect, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import InvalidTool, ProbeAnswer, ProbeResult, Registry, Tool, ToolContext, http_tool
from assent.tools import http as module
from assent.tools.http import HttpOutcomeUnknown
from tests.conftest import ME, OPERATOR, Service
from tests.support import servers
from tests.support.http_server import Server, listening
from tests.support.http_tools import CONTEXT, SECRET
from tests.support.waiting import until
from workers.tools import tool_workers


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as own:
        yield own


def declared(url: str, probe_url: str | None, method: str = "POST", **options: Any) -> Tool:
    return http_tool("http.probed", method, url, probe_url=probe_url, registry=Registry(), **options)


async def probed(own: Tool, context: ToolContext = CONTEXT, **arguments: Any) -> ProbeResult | ProbeAnswer:
    assert own.probe is not None
    found: ProbeResult | ProbeAnswer = await own.probe(context, **arguments)
    return found


async def test_it_asks_by_the_parameters_and_the_key_with_the_headers_of_the_tool(server: Server) -> None:
    own = declared(
        server.url + "/orders/{shop}",
        server.url + "/orders/{shop}/{number}?key={idempotency_key}",
        parameters={"number": int, "note": (str, "")},
        headers=lambda: {"Authorization": SECRET},
    )
    await probed(own, shop="a/b", number=7, note="x")
    (request,) = server.received
    assert (request.method, request.body) == ("GET", b"")
    assert request.target.startswith("/orders/a%2Fb/7?key=")
    assert request.query == [("key", CONTEXT.idempotency_key)]
    assert request.header("Authorization") == [SECRET]
    assert request.header("Idempotency-Key") == []


async def test_a_key_that_no_header_can_carry_is_asked_for_as_it_was_sent(server: Server) -> None:
    context = CONTEXT.model_copy(update={"idempotency_key": "n:caller:订单:h"})
    own = declared(server.url, server.url + "/{idempotency_key}")
    await own(context, body={})
    await probed(own, context, body={})
    sent, asked = server.received
    assert asked.target == "/" + sent.header("Idempotency-Key")[0]


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, '{"order": 7}', ProbeResult(ProbeAnswer.EXECUTED, {"order": 7})),
        (204, "", ProbeResult(ProbeAnswer.EXECUTED, "")),
        (200, "plain é", ProbeResult(ProbeAnswer.EXECUTED, "plain é")),
        (404, "", ProbeAnswer.NOT_EXECUTED),
        (410, "", ProbeAnswer.NOT_EXECUTED),
        (301, "", ProbeAnswer.UNKNOWN),
        (302, "", ProbeAnswer.UNKNOWN),
        (401, "", ProbeAnswer.UNKNOWN),
        (403, "", ProbeAnswer.UNKNOWN),
        (405, "", ProbeAnswer.UNKNOWN),
        (429, "", ProbeAnswer.UNKNOWN),
        (500, "", ProbeAnswer.UNKNOWN),
        (503, "", ProbeAnswer.UNKNOWN),
    ],
)
async def test_only_a_clear_answer_is_an_answer(
    server: Server, status: int, body: str, found: ProbeResult | ProbeAnswer
) -> None:
    server.answers(status, body, f"Location: {server.url}/elsewhere", "Content-Type: application/json; charset=utf-8")
    assert await probed(declared(server.url, server.url + "/found"), body={}) == found
    assert len(server.received) == 1, "redirects are not followed"


@pytest.mark.parametrize("trouble", ["silence", "hangs up", "nobody there", "no header"])
async def test_without_an_answer_it_raises_and_says_nothing_secret(
    server: Server, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROBED_WITHIN", 0.3)
    url, headers = server.url, {"Authorization": SECRET}
    if trouble == "silence":
        server.answer = None
    elif trouble == "hangs up":
        server.answer = b""
    elif trouble == "nobody there":
        url = f"http://127.0.0.1:{servers.free_port()}"
    else:
        headers = {"Authorization": SECRET + "\n秘"}
    with pytest.raises(HttpOutcomeUnknown) as raised:
        await probed(declared(url, url, headers=headers), body={})
    assert "s3cr3t" not in str(raised.value)
    assert raised.value.__cause__ is None


async def test_a_large_answer_is_read_up_to_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PROBED", 1000)
    server.answers(200, "x" * 100_000)
    found = await probed(declared(server.url, server.url), body={})
    assert found == ProbeResult(ProbeAnswer.EXECUTED, "x" * 1000)


async def test_a_value_that_would_be_another_path_is_not_asked_for(server: Server) -> None:
    own = declared(server.url, server.url + "/{name}/x", parameters={"name": str})
    with pytest.raises(HttpOutcomeUnknown):
        await probed(own, name="..")
    assert server.received == []


@pytest.mark.parametrize(
    ("probe_url", "options", "said"),
    [
        ("https://x/{other}", {}, "other is not a parameter"),
        ("https://x/{body}", {}, "body is not a parameter"),
        ("https://x/{idempotency_key.x}", {}, "plain names"),
        ("https://x/{idempotency_key}", {"parameters": {"idempotency_key": str}}, "cannot be told"),
        ("https://x/", {"probe": lambda ctx, **_: "unknown"}, "not both"),
    ],
)
def test_a_probe_that_could_not_be_asked_is_refused_at_once(probe_url: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTool, match=said):
        declared("https://x/", probe_url, **options)


def test_not_found_counts_only_after_requests_can_no_longer_be_in_flight() -> None:
    assert declared("https://x/", "https://x/").manifest.in_flight == timedelta(minutes=10)
    short = declared("https://x/", "https://x/", in_flight=timedelta(seconds=1))
    assert short.manifest.in_flight == timedelta(seconds=1)
    own = declared("https://x/", None, probe=lambda ctx, **_: "unknown")
    assert own.manifest.in_flight == timedelta(minutes=10), "its server may be as slow"
    without = declared("https://x/", None)
    assert (without.manifest.has_probe, without.manifest.in_flight) == (False, None)


async def test_what_the_server_knows_settles_the_call_and_its_absence_only_after_a_while(
    service: Service, server: Server, tmp_path: Path
) -> None:
    registry = Registry()
    for name, in_flight in (("soon", timedelta(milliseconds=1)), ("late", timedelta(hours=1))):
        http_tool(
            f"http.{name}.{tmp_path.name}",
            "POST",
            server.url + "/orders",
            probe_url=server.url + "/orders/{idempotency_key}",
            in_flight=in_flight,
            queue=f"http-{tmp_path.name}-{service.client.namespace}",
            registry=registry,
        )
    await service.ledger.publish((tool.manifest for tool in registry.tools.values()), datetime.now(UTC))
    soon, late = registry.tools
    (worker,) = tool_workers(service.client, service.ledger, registry)
    server.answers(503)
    async with worker:
        handles = {}
        for name in (soon, late):
            handles[name] = await service.gate.request(name, {"body": {}}, requester=ME)
            assert (await service.decided(handles[name])).status == "frozen"
        server.answers(404)
        assert (await handles[soon].settlement()).kind == "not_executed"
        asked = len(server.received)
        await until(lambda: _more(server, asked))
        assert await service.ledger.settlement(handles[late].id) is None
        server.answers(200, '{"order": 7}')
        settlement = await handles[late].settlement()
    assert (settlement.kind, settlement.content, settlement.surface) == ("executed", {"order": 7}, "probe")
    ruled = await handles[late].settle("not_executed", operator=OPERATOR, reason="no")
    assert ruled.kind == "already_settled"


async def _more(server: Server, than: int) -> bool:
    return len(server.received) > than
