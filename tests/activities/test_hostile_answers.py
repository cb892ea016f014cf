"""Servers that answer in order to exhaust whoever asked: what they send costs a bounded amount of memory and time."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.exceptions import ApplicationError

from activities import announcements
from activities.announcements import AnnouncementActivities
from activities.callback_secrets import CallbackSecrets
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuUnavailable
from assent import Outcome, ProbeAnswer, ProbeResult, Registry, ToolContext, ToolResult, http_tool
from assent.contracts.audit import ClosingHead
from assent.contracts.conclude import Announcement
from assent.contracts.status import Status
from assent.settings import Settings
from assent.tools import http
from assent.tools.http import HttpOutcomeUnknown
from tests.conftest import ME
from tests.support.hostile_server import FLOOD, PLAIN, Hostile, Sending, answer, endless, hostile, whole
from tests.support.memory import awaited_peak

INFLATED = 64_000_000
MOST = 12_000_000
"""Bytes of memory that any answer may cost; a fifth of what the bomb holds, and more than is read of anything."""
CONTEXT = ToolContext(approval_id="a", requester=ME, idempotency_key="n:approval:a:" + "0" * 64)

ZEROS = b"0" * INFLATED


@cache
def _bomb(which: int) -> tuple[str, bytes]:
    if which == 0:
        return "gzip", gzip.compress(ZEROS, 6)
    if which == 1:
        return "gzip, gzip", gzip.compress(_bomb(0)[1])
    return "deflate", zlib.compress(ZEROS, 6)


def bomb(which: int, status: int) -> Sending:
    return whole(status, *_bomb(which))


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile() as own:
        yield own


async def call_tool(url: str, timeout: timedelta | None = None) -> Any:
    options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    return await http_tool("http.test", "POST", url, registry=Registry(), **options)(CONTEXT, body={})


SIGNING = CallbackSecrets(Settings(callback_secret=SecretStr("callback-secret")))


async def _closed(approval_id: str) -> ClosingHead:
    return ClosingHead(approval_id=approval_id, entries=1, head="0" * 64)


async def announce(url: str, activities: AnnouncementActivities | None = None) -> None:
    outcome = Outcome(approval_id="a", status=Status.EXECUTED)
    announcement = Announcement(url=url, outcome=outcome, ended_at=datetime.now(UTC))
    await (activities or AnnouncementActivities(SIGNING, _closed)).announce(announcement)


async def ask_feishu(url: str) -> None:
    feishu = Feishu(app_id="a", app_secret="s", domain=url)
    try:
        await feishu.members("oc_1")
    finally:
        await feishu.close()


@pytest.fixture(autouse=True, scope="module")
async def _warm() -> None:
    """What is loaded with the first request is no answer's cost. Nobody listens at that address."""
    for ask in (call_tool, announce, ask_feishu):
        await awaited_peak(ask, "http://127.0.0.1:1")


# What a bomb costs


@pytest.mark.parametrize("which", range(3))
async def test_a_compressed_answer_is_not_inflated_by_a_tool(server: Hostile, which: int) -> None:
    server.sending = bomb(which, 200)
    result, cost = await awaited_peak(call_tool, server.url)
    assert isinstance(result, ToolResult)
    assert result.outcome == "completed", "it was answered with 200: it ran"
    assert result.content["body"] is None
    assert "compressed" in result.content["problem"]
    assert cost < MOST
    assert server.encodings == [b"accept-encoding: identity"]


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("which", range(3))
async def test_an_agents_answer_to_its_callback_is_never_read(server: Hostile, status: int, which: int) -> None:
    server.sending = bomb(which, status)
    came, cost = await awaited_peak(announce, server.url)
    assert (came is None) is (status == 200)
    assert cost < 2_000_000, cost
    assert (server.asked, server.encodings) == (1, [b"accept-encoding: identity"])


async def test_a_server_in_trouble_is_not_listened_to(server: Hostile) -> None:
    server.sending = endless(answer(500, "Transfer-Encoding: chunked"), FLOOD, 0)
    came, cost = await awaited_peak(call_tool, server.url)
    assert isinstance(came, HttpOutcomeUnknown)
    assert cost < 2_000_000, cost
    assert server.asked == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br, gzip"])
async def test_feishus_answers_are_not_inflated(server: Hostile, encoding: str) -> None:
    server.sending = whole(200, encoding, _bomb(0)[1])
    came, cost = await awaited_peak(ask_feishu, server.url)
    assert isinstance(came, FeishuUnavailable)
    assert cost < 2_000_000, cost


# What it says of its letters


@pytest.mark.parametrize(
    "charset",
    [
        *("punycode", "idna", "zlib", "bz2", "hex", "base64", "uu", "quopri", "rot13", "undefined"),
        *("unicode_escape", "raw_unicode_escape", "utf-7", "utf-16", "mbcs", "no-such-thing", "a" * 9000, '""'),
    ],
)
async def test_whatever_a_server_says_of_its_letters_a_success_stays_one(server: Hostile, charset: str) -> None:
    """Some codecs raise whatever they are given, and some take for ever: text is read as UTF-8 instead."""
    server.sending = whole(200, "identity", b"\\N{}-hello\xff", f"text/plain; charset={charset}")
    own = http_tool("http.test", "POST", server.url, probe_url=server.url, registry=Registry())
    result = await own(CONTEXT, body={})
    assert (result.outcome, result.content["body"]) == ("completed", "\\N{}-hello\ufffd")
    assert own.probe is not None
    assert await own.probe(CONTEXT, body={}) == ProbeResult(ProbeAnswer.EXECUTED, "\\N{}-hello\ufffd")


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        *(("UTF-8", "é订单".encode()), ("utf8", "é订单".encode()), ("us-ascii", b"\xe9 a")),
        *(("ISO-8859-1", b"\xe9"), ("latin1", b"\xe9"), ("windows-1252", b"\x80")),
        *(("GBK", "订单".encode("gbk")), ("gb2312", "订单".encode("gb2312")), ("gb18030", "订单€".encode("gb18030"))),
    ],
)
async def test_letters_of_the_common_kinds_are_read_as_they_were_meant(
    server: Hostile, charset: str, body: bytes
) -> None:
    server.sending = whole(200, "identity", body, f'text/plain; charset="{charset}"')
    result = await call_tool(server.url)
    assert result.content["body"] == body.decode(charset, "replace")


# What has no end


async def test_of_an_answer_without_end_the_beginning_is_the_result(server: Hostile) -> None:
    result, cost = await awaited_peak(call_tool, server.url)
    assert isinstance(result, ToolResult)
    assert (result.outcome, len(result.content["body"])) == ("completed", http.MOST_READ)
    assert "larger than" in result.content["problem"]
    assert cost < 5 * http.MOST_READ
    await server.left.wait()


async def test_a_crowd_of_values_is_kept_as_text(server: Hostile) -> None:
    body = b"[" + b"[]," * 300_000 + b"1]"
    server.sending = whole(200, "identity", body)
    result, cost = await awaited_peak(call_tool, server.url)
    assert result.content == {"status": 200, "body": body.decode()}
    assert cost < 8 * len(body)


SLOW = [
    endless(PLAIN, b"1\r\n9\r\n", 0.05),
    endless(b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n", 0.05),
    endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    endless(b"HTTP/1.1 ", b"", 0.05),
]


@pytest.mark.parametrize("which", range(len(SLOW)))
async def test_a_server_that_never_ends_is_hung_up_on(
    server: Hostile, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_BEYOND", 0.0)
    monkeypatch.setattr(announcements, "_WITHIN", 1.0)
    server.sending = SLOW[which]
    with pytest.raises(HttpOutcomeUnknown):  # it was sent, and no more than that is known
        await call_tool(server.url, timedelta(seconds=1))
    await server.left.wait()
    server.left.clear()
    with nullcontext() if which == 0 else pytest.raises(ApplicationError):
        await announce(server.url)
    await server.left.wait()


@pytest.mark.parametrize(
    "flood",
    [
        endless(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"1" * 8000 + b"\r\n", 0),
        endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"1" * 8000, 0),
        endless(b"HTTP/1.1 200 ", b"O" * 8000, 0),
        endless(PLAIN + b"0\r\n", b"X-A: " + b"1" * 8000 + b"\r\n", 0),
        endless(PLAIN, b"0" * 8000, 0),
    ],
    ids=["headers", "one header", "status", "trailers", "size of a chunk"],
)
async def test_floods_around_the_body_are_cut_off(server: Hostile, flood: Sending) -> None:
    server.sending = flood
    came, cost = await awaited_peak(call_tool, server.url)
    assert isinstance(came, HttpOutcomeUnknown)
    assert cost < 2_000_000, cost
    await server.left.wait()


# What it costs to try again


async def test_one_address_that_hangs_takes_no_turn_from_the_others(server: Hostile) -> None:
    server.sending = endless(b"HTTP/1.1 ", b"", 0.05)
    own = AnnouncementActivities(SIGNING, _closed)
    hanging = [asyncio.ensure_future(announce(server.url, own)) for _ in range(12)]
    refused = [task for task in await _settled(hanging, 12 - announcements._EACH) if task.done()]
    for task in refused:
        error = task.exception()
        assert isinstance(error, ApplicationError)
        assert (error.type, "not asked" in str(error)) == ("Unanswered", True)
    async with hostile() as other:
        other.sending = whole(204, "identity", b"")
        await announce(other.url, own)
    assert server.asked <= announcements._EACH
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    assert own._lanes.has_room(server.url)


async def _settled(tasks: Sequence[asyncio.Future[Any]], count: int) -> Sequence[asyncio.Future[Any]]:
    while sum(task.done() for task in tasks) < count:
        await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
    return tasks
