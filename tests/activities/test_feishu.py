"""The Feishu client against a transport that answers as it is told."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from activities.feishu.client import Feishu
from activities.feishu.errors import REFUSED, TOKEN_REFUSED, TRY_AGAIN, FeishuRefused, FeishuUnavailable
from activities.feishu.token import Granted, Token
from assent.contracts.address import Address, AddressKind
from assent.contracts.identity import Identity
from assent.errors import FileGone, FileTooLarge, FileUnavailable
from assent.files import SharedFile, fetch
from assent.settings import Settings
from tests.support.waiting import until

TEAM = Address(kind=AddressKind.CHAT_ID, id="oc_team")
LI = Identity(open_id="ou_li", union_id="on_li")

Handler = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]
Transport = Callable[[httpx.Request], httpx.Response] | Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]


def ok(**data: Any) -> httpx.Response:
    return httpx.Response(200, json={"code": 0, "msg": "success", "data": data})


def refusal(code: int, status: int = 400, *, headers: dict[str, str] | None = None, msg: str = "no") -> httpx.Response:
    return httpx.Response(status, json={"code": code, "msg": msg}, headers=headers)


class Platform:
    """Hands out numbered tokens and answers everything else with a handler."""

    def __init__(self, handler: Handler | None = None, *, expire: float = 7200) -> None:
        self.requests: list[httpx.Request] = []
        self.tokens = 0
        self.expire = expire
        self.handler = handler or (lambda _: ok(message_id="om_1", chat_id="oc_team"))

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/tenant_access_token/internal"):
            await asyncio.sleep(0.02)
            self.tokens += 1
            token = f"t-{self.tokens}"
            return httpx.Response(200, json={"code": 0, "tenant_access_token": token, "expire": self.expire})
        self.requests.append(request)
        answer = self.handler(request)
        return await answer if isinstance(answer, Awaitable) else answer


@asynccontextmanager
async def client(platform: Transport, *, timeout: float = 5.0) -> AsyncIterator[Feishu]:
    feishu = Feishu(
        app_id="cli_1",
        app_secret="s3cret",
        domain="https://open.feishu.cn",
        transport=httpx.MockTransport(platform),
        timeout=timeout,
    )
    try:
        yield feishu
    finally:
        await feishu.close()


async def refused(handler: Handler) -> FeishuRefused:
    async with client(Platform(handler)) as feishu:
        with pytest.raises(FeishuRefused) as caught:
            await feishu.send(TEAM, "interactive", "{}", uuid="u")
        return caught.value


async def unavailable(handler: Handler) -> FeishuUnavailable:
    async with client(Platform(handler)) as feishu:
        with pytest.raises(FeishuUnavailable) as caught:
            await feishu.send(TEAM, "interactive", "{}", uuid="u")
        return caught.value


async def test_a_message_goes_to_its_chat_once_per_uuid() -> None:
    platform = Platform()
    async with client(platform) as feishu:
        sent = await feishu.send(TEAM, "interactive", '{"a": 1}', uuid="u-1")
    assert (sent.message_id, sent.chat_id) == ("om_1", "oc_team")
    [request] = platform.requests
    assert str(request.url) == "https://open.feishu.cn/open-apis/im/v1/messages?receive_id_type=chat_id"
    assert request.headers["authorization"] == "Bearer t-1"
    assert json.loads(request.content) == {
        "receive_id": "oc_team",
        "msg_type": "interactive",
        "content": '{"a": 1}',
        "uuid": "u-1",
    }


async def test_a_reply_goes_to_the_message_it_answers() -> None:
    platform = Platform()
    async with client(platform) as feishu:
        await feishu.send(TEAM.model_copy(update={"reply_to": "om_0"}), "text", "{}", uuid="u-1")
    [request] = platform.requests
    assert request.url.path == "/open-apis/im/v1/messages/om_0/reply"
    assert json.loads(request.content) == {"msg_type": "text", "content": "{}", "uuid": "u-1"}


async def test_a_card_is_replaced() -> None:
    platform = Platform(lambda _: ok())
    async with client(platform) as feishu:
        await feishu.patch("om_1", '{"schema": "2.0"}')
    [request] = platform.requests
    assert (request.method, request.url.path) == ("PATCH", "/open-apis/im/v1/messages/om_1")
    assert json.loads(request.content) == {"content": '{"schema": "2.0"}'}


async def test_a_file_is_handed_over_and_fetched_again() -> None:
    platform = Platform(lambda request: ok(file_key="file_1") if request.method == "POST" else _bytes(b"abc"))
    async with client(platform) as feishu:
        assert await feishu.upload("call.json", b"{}") == "file_1"
        assert await fetched(feishu, limit=3) == b"abc"
        with pytest.raises(FileTooLarge, match="larger than 2 bytes"):
            await fetched(feishu, limit=2)
    assert b'filename="call.json"' in platform.requests[0].content
    assert platform.requests[1].url.raw_path == b"/open-apis/im/v1/messages/om_1/resources/file_1?type=file"


async def test_a_downloaded_file_that_looks_like_an_error_is_a_file() -> None:
    content = json.dumps({"code": 99991663}).encode()
    platform = Platform(lambda _: _bytes(content))
    async with client(platform) as feishu:
        assert await fetched(feishu) == content
    assert platform.tokens == 1


async def fetched(feishu: Feishu, key: str = "file_1", *, limit: int = 100) -> bytes:
    into = io.BytesIO()
    await fetch(feishu, SharedFile(file_id="sf_1", message_id="om_1", file_key=key), into, limit=limit)
    return into.getvalue()


async def test_a_file_is_fetched_again_with_a_new_token() -> None:
    answers = iter([httpx.Response(400, json={"code": 99991663, "msg": "stale"}), _bytes(b"abc")])
    platform = Platform(lambda _: next(answers))
    async with client(platform) as feishu:
        assert await fetched(feishu) == b"abc"
    assert platform.tokens == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(400, json={"code": 230110, "msg": "deleted"}), FileGone),
        (httpx.Response(400, json={"code": 234003, "msg": "File not in msg."}), FileGone),
        (httpx.Response(500, json={"code": 5000, "msg": "internal error"}), FileUnavailable),
        (httpx.Response(429, json={"code": 99991400, "msg": "slowly"}), FileUnavailable),
        (httpx.Response(502, text="<html>bad gateway</html>"), FileUnavailable),
        (httpx.Response(200, content=b"abc", headers={"content-encoding": "x-none"}), FileUnavailable),
        (httpx.Response(200, content=b"abc", headers={"content-length": "6"}), FileUnavailable),
    ],
    ids=["deleted", "elsewhere", "down", "too fast", "no Feishu", "compressed", "half"],
)
async def test_a_file_that_is_gone_is_told_from_one_that_cannot_be_had_now(
    answer: httpx.Response, error: type[Exception]
) -> None:
    async with client(Platform(lambda _: answer)) as feishu:
        with pytest.raises(error):
            await fetched(feishu)


def _same(answer: httpx.Response, _: httpx.Request) -> httpx.Response:
    return answer


def _bytes(content: bytes) -> httpx.Response:
    return httpx.Response(200, content=content)


@pytest.mark.parametrize("code", sorted(REFUSED))
async def test_a_definite_code_is_a_refusal_with_its_meaning(code: int) -> None:
    error = await refused(lambda _: refusal(code))
    assert (error.code, error.meaning) == (code, REFUSED[code])


@pytest.mark.parametrize("code", sorted(set(TRY_AGAIN) - TOKEN_REFUSED))
@pytest.mark.parametrize("status", [200, 400])
async def test_a_passing_code_may_be_tried_again(code: int, status: int) -> None:
    assert str(code) in str(await unavailable(lambda _: refusal(code, status)))


@pytest.mark.parametrize("status", [200, 400, 403, 404])
async def test_an_unknown_code_is_a_refusal_in_its_own_words_made_safe(status: int) -> None:
    error = await refused(lambda _: refusal(123456, status, msg="never\x1b[2J heard\nof it " + "x" * 10_000))
    assert error.code == 123456
    assert error.meaning.startswith("never [2J heard of it xxx")
    assert len(str(error)) < 500
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"code": 230002, "msg": "?"}'),
        (502, b"<html>Bad Gateway</html>"),
        (503, b""),
        (200, b"<html>please log in</html>"),
        (404, b"<html>not here</html>"),
        (200, b"[]"),
        (200, b'{"msg": "no code"}'),
        (200, b'{"code": 0, "data": {}}'),
        (200, b'{"code": 0, "data": {"message_id": ""}}'),
        (302, b'{"code": 0}'),
        (429, b'{"code": 1, "msg": "slow"}'),
        (200, b"\xff\xfe"),
        (200, b" " * (5 * 1024 * 1024)),
    ],
)
async def test_what_is_no_answer_of_feishu_says_nothing_definite(status: int, body: bytes) -> None:
    assert (await unavailable(lambda _: httpx.Response(status, content=body))).retry_after is None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ogw-ratelimit-reset": "7", "retry-after": "1"}, 7.0),
        ({"Retry-After": "2.5"}, 2.5),
        ({"x-ogw-ratelimit-reset": "soon", "Retry-After": "3"}, 3.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"x-ogw-ratelimit-reset": "nan"}, None),
        ({"x-ogw-ratelimit-reset": "-4"}, 0.0),
        ({"x-ogw-ratelimit-reset": "1e9"}, 3600.0),
        ({}, None),
    ],
)
async def test_the_wait_is_as_told(headers: dict[str, str], wait: float | None) -> None:
    for answer in (refusal(99991400, headers=headers), httpx.Response(429, content=b"slow down", headers=headers)):
        assert (await unavailable(functools.partial(_same, answer))).retry_after == wait


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout])
async def test_a_lost_answer_says_nothing_definite(error: type[httpx.TransportError]) -> None:
    def lose(_: httpx.Request) -> httpx.Response:
        raise error("gone")

    assert error.__name__ in str(await unavailable(lose))


async def test_an_answer_that_never_comes_is_not_waited_for() -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(Platform(hang), timeout=0.1) as feishu:
        with pytest.raises(FeishuUnavailable, match="in time"):
            await feishu.patch("om_1", "{}")


async def test_one_token_is_fetched_for_many_callers() -> None:
    platform = Platform()
    async with client(platform) as feishu:
        await asyncio.gather(*(feishu.patch(f"om_{n}", "{}") for n in range(40)))
        await feishu.patch("om_x", "{}")
    assert platform.tokens == 1
    assert len(platform.requests) == 41


async def test_a_caller_who_gives_up_takes_the_token_from_no_one() -> None:
    platform = Platform()
    async with client(platform) as feishu:
        first = asyncio.create_task(feishu.patch("om_1", "{}"))
        second = asyncio.create_task(feishu.patch("om_2", "{}"))
        await asyncio.sleep(0)
        first.cancel()
        await second
    assert platform.tokens == 1


@pytest.mark.parametrize("code", sorted(TOKEN_REFUSED))
async def test_a_stale_token_is_replaced_once_for_all(code: int) -> None:
    def only_the_second(request: httpx.Request) -> httpx.Response:
        return ok() if request.headers["authorization"] == "Bearer t-2" else refusal(code, 401)

    platform = Platform(only_the_second)
    async with client(platform) as feishu:
        await asyncio.gather(*(feishu.patch(f"om_{n}", "{}") for n in range(20)))
    assert platform.tokens == 2
    assert len(platform.requests) == 40


async def test_a_token_that_is_never_taken_is_not_fetched_for_ever() -> None:
    platform = Platform(lambda _: refusal(99991663, 401))
    async with client(platform) as feishu:
        with pytest.raises(FeishuUnavailable, match="99991663"):
            await feishu.patch("om_1", "{}")
    assert (platform.tokens, len(platform.requests)) == (2, 2)


async def test_a_token_is_renewed_before_it_ends_without_anyone_waiting() -> None:
    now, fetched = 0.0, 0
    answered = asyncio.Event()

    async def fetch() -> Granted:
        nonlocal fetched
        fetched += 1
        await answered.wait()
        return Granted(tenant_access_token=f"t-{fetched}", expire=7200)

    token = Token(fetch, clock=lambda: now)
    answered.set()
    assert await token.get() == "t-1"
    answered.clear()
    now = 7000.0
    assert [await token.get(), await token.get()] == ["t-1", "t-1"]
    answered.set()
    await until(lambda: _is(fetched == 2))
    assert await token.get() == "t-2"
    await token.close()


async def test_a_token_that_cannot_be_renewed_is_used_to_its_end() -> None:
    now = 0.0
    problems: list[Exception] = []

    async def fetch() -> Granted:
        if problems:
            raise problems[0]
        return Granted(tenant_access_token="t-1", expire=7200)

    token = Token(fetch, clock=lambda: now)
    await token.get()
    problems.append(FeishuUnavailable("down"))
    now = 7199.0
    assert await token.get() == "t-1"
    await asyncio.sleep(0)
    now = 7200.0
    with pytest.raises(FeishuUnavailable):
        await token.get()
    assert "t-1" not in repr(Granted(tenant_access_token="t-1", expire=1))


async def _is(condition: bool) -> bool:
    return condition


async def test_a_refused_app_secret_leaves_the_request_itself_undecided() -> None:
    async with client(lambda _: refusal(10014, 400, msg="app secret invalid")) as feishu:
        with pytest.raises(FeishuUnavailable, match="ASSENT_FEISHU_APP_SECRET") as caught:
            await feishu.patch("om_1", "{}")
    assert caught.value.retry_after
    assert "s3cret" not in str(caught.value)


async def test_neither_token_nor_secret_nor_content_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    platform = Platform(lambda _: refusal(230099))
    async with client(platform) as feishu:
        with pytest.raises(FeishuRefused):
            await feishu.patch("om_1", "private content")
    assert not any(secret in caplog.text for secret in ("t-1", "s3cret", "private content"))


@pytest.mark.parametrize(
    "evil", ["../../auth", "..", ".", "om_1/../../x", "om_1?x=1", "om_1#", "om%2F1", "", "om 1", "消"]
)
async def test_an_id_cannot_lead_elsewhere(evil: str) -> None:
    platform = Platform()
    async with client(platform) as feishu:
        for call in (feishu.patch(evil, "{}"), feishu.members(evil)):
            with pytest.raises(FeishuRefused):
                await call
        with pytest.raises(FileGone):
            await fetched(feishu, evil)
        if evil:
            with pytest.raises(FeishuRefused):
                await feishu.send(TEAM.model_copy(update={"reply_to": evil}), "text", "{}", uuid="u")
            assert await feishu.name(Identity(user_id=evil)) is None
    assert platform.requests == []


async def test_a_name_is_asked_for_once_and_never_in_anyones_way() -> None:
    platform = Platform(lambda _: ok(user={"name": "李雷", "open_id": "ou_li"}))
    async with client(platform) as feishu:
        assert [await feishu.name(LI), await feishu.name(LI)] == ["李雷", "李雷"]
    [request] = platform.requests
    assert request.url.raw_path == b"/open-apis/contact/v3/users/ou_li?user_id_type=open_id"


@pytest.mark.parametrize("answer", [refusal(41050), httpx.Response(502, content=b"<html>"), ok(user={})])
async def test_a_name_that_cannot_be_known_is_none(answer: httpx.Response) -> None:
    platform = Platform(lambda _: answer)
    async with client(platform) as feishu:
        assert [await feishu.name(LI), await feishu.name(LI)] == [None, None]
    assert len(platform.requests) == 1


async def test_all_members_of_a_chat_are_found() -> None:
    def page(request: httpx.Request) -> httpx.Response:
        number = int(request.url.params.get("page_token", "0"))
        return ok(items=[{"member_id": f"ou_{number}"}], has_more=number < 3, page_token=str(number + 1))

    platform = Platform(page)
    async with client(platform) as feishu:
        assert await feishu.members("oc_team") == {"ou_0", "ou_1", "ou_2", "ou_3"}
        assert len(await feishu.members("oc_team")) == 4
    assert len(platform.requests) == 4


async def test_members_that_cannot_be_listed_to_the_end_are_not_half_listed() -> None:
    async with client(Platform(lambda _: ok(items=[], has_more=True, page_token="x"))) as feishu:
        with pytest.raises(FeishuUnavailable):
            await feishu.members("oc_team")


async def test_a_chat_gets_its_messages_in_order_and_at_its_pace_and_the_rest_is_sent_back() -> None:
    arrived: list[str] = []

    def note(request: httpx.Request) -> httpx.Response:
        arrived.append(json.loads(request.content)["uuid"])
        return ok(message_id="om_1")

    async with client(Platform(note)) as feishu:
        calls = [feishu.send(TEAM, "text", "{}", uuid=f"{n:02}") for n in range(30)]
        results = await asyncio.gather(*calls, return_exceptions=True)
    late = [result for result in results if isinstance(result, FeishuUnavailable)]
    assert arrived == [f"{n:02}" for n in range(30 - len(late))]
    assert late == results[len(arrived) :]
    assert all(error.retry_after is not None and error.retry_after > 1.5 for error in late)
    assert late


async def test_a_chat_that_is_full_or_hangs_holds_up_no_other() -> None:
    async def hang_in_team(request: httpx.Request) -> httpx.Response:
        if b"oc_team" in request.content:
            await asyncio.Event().wait()
        return ok(message_id="om_1")

    async with client(Platform(hang_in_team)) as feishu:
        sick = [asyncio.create_task(feishu.send(TEAM, "text", "{}", uuid=str(n))) for n in range(40)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        for n in range(20):
            await feishu.send(Address(kind=AddressKind.OPEN_ID, id=f"ou_{n}"), "text", "{}", uuid="u")
        assert time.monotonic() - began < 4  # what hangs is given up after five
        for task in sick:
            task.cancel()
        await asyncio.gather(*sick, return_exceptions=True)


def test_without_an_app_there_is_no_client() -> None:
    assert Feishu.of(Settings()) is None


async def test_the_client_is_made_as_configured() -> None:
    feishu = Feishu.of(
        Settings(feishu_app_id="cli_1", feishu_app_secret="x", feishu_domain="lark", feishu_tenant_key="t")
    )
    assert feishu is not None
    assert str(feishu._http.base_url) == "https://open.larksuite.com"
    await feishu.close()
