"""Servers that answer in order to exhaust whoever asked: what they send costs a bounded amount of memory and time."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
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

INFLATED = 64_000_000
MOST = 12_000_000
"""Bytes of memory that any answer may cost; a fifth of what the bomb holds, and more than is read of anything."""
CONTEXT = ToolContext(approval_id="a", requester=ME, idempotency_key="n:approval:a:" + "0" * 64)

ZEROS = b"0" * INFLATED


def bombs(status: int) -> list[Sending]:
    return [
        whole(status, "gzip", gzip.compress(ZEROS, 6)),
        whole(status, "gzip, gzip", gzip.compress(gzip.compress(ZEROS, 6))),
        whole(status, "deflate", zlib.compress(ZEROS, 6)),
    ]


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile() as own:
        yield own


async def peak(call: Callable[[], Awaitable[Any]]) -> tuple[Any, int]:
    """What a call came to, and how much memory it took on the way."""
    gc.collect()
    tracemalloc.start()
    try:
        try:
            came: Any = await call()
        except Exception as error:
            came = error
        return came, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def tool_of(url: str, **options: Any) -> Callable[[], Awaitable[Any]]:
    own = http_tool("http.test", "POST", url, registry=Registry(), **options)
    return lambda: own(CONTEXT, body={})


SIGNING = CallbackSecrets(Settings(callback_secret=SecretStr("callback-secret")))


async def _closed(approval_id: str) -> ClosingHead:
    return ClosingHead(approval_id=approval_id, entries=1, head="0" * 64)


def announcing(url: str, activities: AnnouncementActivities | None = None) -> Callable[[], Awaitable[Any]]:
    outcome = Outcome(approval_id="a", status=Status.EXECUTED)
    announcement = Announcement(url=url, outcome=outcome, ended_at=datetime.now(UTC))
    own = activities or AnnouncementActivities(
        CallbackSecrets(Settings(callback_secret=SecretStr("callback-secret"))), _closed
    )
    return lambda: own.announce(announcement)


# What a bomb costs


@pytest.mark.parametrize("which", range(3))
async def test_a_compressed_answer_is_not_inflated_by_a_tool(server: Hostile, which: int) -> None:
    server.sending = bombs(200)[which]
    result, cost = await peak(tool_of(server.url))
    assert isinstance(result, ToolResult)
    assert result.outcome == "completed", "it was answered with 200: it ran"
    assert result.content["body"] is None
    assert "compressed" in result.content["problem"]
    assert cost < MOST
    assert server.encodings == [b"accept-encoding: identity"]


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("which", range(3))
async def test_an_agents_answer_to_its_callback_is_never_read(server: Hostile, status: int, which: int) -> None:
    server.sending = bombs(status)[which]
    came, cost = await peak(announcing(server.url))
    assert (came is None) is (status == 200)
    assert cost < 2_000_000
    assert (server.asked, server.encodings) == (1, [b"accept-encoding: identity"])


async def test_a_server_in_trouble_is_not_listened_to(server: Hostile) -> None:
    server.sending = endless(answer(500, "Transfer-Encoding: chunked"), FLOOD, 0)
    came, cost = await peak(tool_of(server.url))
    assert isinstance(came, HttpOutcomeUnknown)
    assert cost < 2_000_000
    assert server.asked == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br, gzip"])
async def test_feishus_answers_are_not_inflated(server: Hostile, encoding: str) -> None:
    server.sending = whole(200, encoding, gzip.compress(ZEROS, 6))
    feishu = Feishu(app_id="a", app_secret="s", domain=server.url)
    came, cost = await peak(lambda: feishu.members("oc_1"))
    assert isinstance(came, FeishuUnavailable)
    assert cost < 2_000_000
    await feishu.close()


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
    result = await tool_of(server.url)()
    assert result.content["body"] == body.decode(charset, "replace")


# What has no end


async def test_of_an_answer_without_end_the_beginning_is_the_result(server: Hostile) -> None:
    result, cost = await peak(tool_of(server.url))
    assert isinstance(result, ToolResult)
    assert (result.outcome, len(result.content["body"])) == ("completed", http.MOST_READ)
    assert "larger than" in result.content["problem"]
    assert cost < 5 * http.MOST_READ
    await server.left.wait()


async def test_a_crowd_of_values_is_kept_as_text(server: Hostile) -> None:
    body = b"[" + b"[]," * 300_000 + b"1]"
    server.sending = whole(200, "identity", body)
    result, cost = await peak(tool_of(server.url))
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
    came, _ = await peak(tool_of(server.url, timeout=timedelta(seconds=1)))
    assert isinstance(came, HttpOutcomeUnknown), "it was sent, and no more than that is known"
    await server.left.wait()
    server.left.clear()
    came, _ = await peak(announcing(server.url))
    assert (came is None) if which == 0 else isinstance(came, ApplicationError)
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
    came, cost = await peak(tool_of(server.url))
    assert isinstance(came, HttpOutcomeUnknown)
    assert cost < 2_000_000
    await server.left.wait()


# What it costs to try again


async def test_one_address_that_hangs_takes_no_turn_from_the_others(server: Hostile) -> None:
    server.sending = endless(b"HTTP/1.1 ", b"", 0.05)
    own = AnnouncementActivities(SIGNING, _closed)
    hanging = [asyncio.ensure_future(announcing(server.url, own)()) for _ in range(12)]
    refused = [task for task in await _settled(hanging, 12 - announcements._EACH) if task.done()]
    for task in refused:
        error = task.exception()
        assert isinstance(error, ApplicationError)
        assert (error.type, "not asked" in str(error)) == ("Unanswered", True)
    async with hostile() as other:
        other.sending = whole(204, "identity", b"")
        await announcing(other.url, own)()
    assert server.asked <= announcements._EACH
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    assert own._lanes.has_room(server.url)


async def _settled(tasks: Sequence[asyncio.Future[Any]], count: int) -> Sequence[asyncio.Future[Any]]:
    while sum(task.done() for task in tasks) < count:
        await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
    return tasks
