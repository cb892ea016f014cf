"""A small client of Feishu's (or Lark's) open platform.

The official SDK is not imported here: importing any part of it takes seconds and 168 MB of memory, each of its calls
opens a new connection, and its asynchronous calls fetch their token synchronously, holding up the whole loop. What
this service needs of Feishu is a handful of calls.

It retries nothing but a stale token: trying again is Temporal's business, which remembers what it has tried. What an
answer means stands in `errors`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from activities.feishu import errors
from activities.feishu.answers import (
    BotAnswer,
    Chat,
    ChatAnswer,
    FileAnswer,
    ImageAnswer,
    Item,
    ItemsAnswer,
    PageAnswer,
    Sent,
    SentAnswer,
    User,
    UserAnswer,
)
from activities.feishu.breaker import Breaker, NoAnswer, is_hurried
from activities.feishu.errors import TOKEN_REFUSED, FeishuRefused, FeishuSilent, FeishuUnavailable
from activities.feishu.pacing import Memory, Pacer, TooLate
from activities.feishu.token import Granted, Token
from activities.lanes import Lanes, TurnedAway
from assent.contracts.address import Address
from assent.contracts.identity import Identity
from assent.errors import FileGone, FileUnavailable
from assent.files import Source
from assent.settings import Settings
from assent.tls import trusted
from assent.tools import bounded_http
from assent.tools.bounded_http import PLAIN

_SENDS = 5
"""Messages that one chat or person takes in a second; one message takes as many changes."""
_CALLS = 50
"""What the app may send in a second."""
_PATIENCE = 1.5
"""How long a call waits for its turn before it is sent back to Temporal."""
_HURRIED_PATIENCE = 0.3
"""The same where a workflow's task waits."""
_PEOPLE = "people"
"""The contact API, which is one place, whoever is asked for."""
_SOON = 1.0
"""The seconds in which a chat that is well answers."""
_HURRIED = 32
"""How many calls may hold a workflow's task at the same time: a third of those that a worker takes."""
_SILENT = 32
"""How many calls may wait for chats that do not answer: a sixth of what the outbound worker does at a time."""
_CONNECTIONS = 256
"""Enough for every call that can wait, so that slow chats take no connection from the others."""
_FILE_PATIENCE = 2
"""How many times longer than other calls one with a file may take."""
_DOWNLOAD_PATIENCE = 7
"""And one that fetches a file."""
_DOWNLOADS, _DOWNLOADS_OF_ONE = 16, 2
"""How many files are fetched at the same time: they take long, and others wait for the same worker."""
_CHUNK = 64 * 1024
_NAME_WITHIN = 2.0
"""A name is a courtesy: nobody waits long for it."""
_LARGEST_ANSWER = 4 * 1024 * 1024
_MOST_PAGES = 1000
_NAME_KEPT, _NO_NAME_KEPT, _MEMBERS_KEPT = 3600.0, 60.0, 30.0
_PATH_PART = re.compile(r"(?!\.+$)[A-Za-z0-9_.@=:+~-]{1,200}")

_Parsed = TypeVar("_Parsed", bound=BaseModel)


class Feishu:
    """The calls that this service makes, over pooled connections, at the pace that Feishu allows."""

    def __init__(
        self,
        *,
        app_id: str,
        app_secret: str,
        domain: str,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = 9.0,
    ) -> None:
        self._app_id = app_id
        self._app_secret = app_secret
        self._timeout = timeout
        is_remote = urlsplit(domain).scheme == "https"  # a proxy has no business between us and this machine
        self._http = httpx.AsyncClient(
            base_url=domain,
            transport=transport,
            headers=PLAIN,
            timeout=None,  # each call has one limit for all of it
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=32, keepalive_expiry=60),
            trust_env=is_remote,
            verify=trusted(trust_env=is_remote),
        )
        self._downloads = Lanes(each=_DOWNLOADS_OF_ONE, overall=_DOWNLOADS)
        self._own_open_id: str | None = None
        self._token = Token(self._fetch_token)
        self._breaker = Breaker(soon=min(_SOON, timeout), hurried=_HURRIED, silent=_SILENT)
        self._sends = Pacer(each=_SENDS, overall=_CALLS, patience=_PATIENCE)
        self._names: Memory[str | None] = Memory(10_000)
        self._chats: Memory[Chat] = Memory(1000)
        self._members: Memory[frozenset[str]] = Memory(200)

    @classmethod
    def of(cls, settings: Settings) -> Feishu | None:
        """The client of the configured app; None when there is none."""
        if not settings.feishu_app_id:
            return None
        return cls(
            app_id=settings.feishu_app_id,
            app_secret=settings.feishu_app_secret.get_secret_value(),
            domain=settings.feishu_domain,
        )

    async def send(self, to: Address, msg_type: str, content: str, *, uuid: str) -> Sent:
        """Put a message into a chat, where the address says so as a reply. For one hour a `uuid` sends once."""
        body = {"msg_type": msg_type, "content": content, "uuid": uuid}
        if to.reply_to is not None:
            path, params = f"/open-apis/im/v1/messages/{_part(to.reply_to)}/reply", {}
        else:
            path, params = "/open-apis/im/v1/messages", {"receive_id_type": to.kind.value}
            body["receive_id"] = to.id
        answer = await self._write(_recipient(to), "POST", path, params=params, json=body)
        return _parsed(SentAnswer, answer).data

    def check(self, to: Address) -> None:
        """Raise `FeishuSilent` if there is no sending there just now, before anything is prepared for it."""
        with _silence():
            self._breaker.check(_recipient(to))

    def check_message(self, message_id: str) -> None:
        """The same of a card that is to be replaced."""
        with _silence():
            self._breaker.check(_card(message_id))

    async def patch(self, message_id: str, card: str) -> None:
        """Replace a card."""
        path = f"/open-apis/im/v1/messages/{_part(message_id)}"
        await self._write(_card(message_id), "PATCH", path, json={"content": card})

    async def upload(self, name: str, data: bytes) -> str:
        """Hand over a file; returns the key under which a message can carry it."""
        answer = await self._reach(
            f"file:{uuid4()}",  # one that is slow to take says nothing of the next
            "POST",
            "/open-apis/im/v1/files",
            data={"file_type": "stream", "file_name": name},
            files={"file": (name, data, "application/octet-stream")},
            within=self._timeout * _FILE_PATIENCE,
        )
        return _parsed(FileAnswer, answer).data.file_key

    async def upload_image(self, name: str, data: BinaryIO) -> str:
        """Hand over a picture; returns the key under which a card can show it."""
        answer = await self._reach(
            f"file:{uuid4()}",
            "POST",
            "/open-apis/im/v1/images",
            data={"image_type": "message"},
            files={"image": (name, data, "application/octet-stream")},
            within=self._timeout * _FILE_PATIENCE,
        )
        return _parsed(ImageAnswer, answer).data.image_key

    @asynccontextmanager
    async def download(self, message_id: str, file_key: str, resource_type: str) -> AsyncIterator[Source]:
        """Open a file that a message carries, as `assent.files` fetches them. It is read within a minute, or not."""
        try:
            with self._downloads.taken(file_key):
                async with asyncio.timeout(self._timeout * _DOWNLOAD_PATIENCE), AsyncExitStack() as stack:
                    answer = await self._opened(stack, message_id, file_key, resource_type)
                    length = answer.headers.get("content-length", "")
                    declared = int(length) if length.isdigit() else None
                    yield Source(answer.aiter_bytes(_CHUNK), declared, answer.headers.get("content-type"))
        except FeishuRefused as refused:
            raise FileGone(str(refused)) from None
        except FeishuUnavailable as error:
            raise FileUnavailable(str(error), retry_after=error.retry_after) from None
        except TurnedAway:
            raise FileUnavailable("many others are fetched just now", retry_after=_FILE_PATIENCE) from None
        except TimeoutError:
            raise FileUnavailable("Feishu did not send it in time") from None
        except httpx.HTTPError as error:
            raise FileUnavailable(f"the connection failed ({type(error).__name__})") from None

    async def _opened(
        self, stack: AsyncExitStack, message_id: str, file_key: str, resource_type: str
    ) -> httpx.Response:
        """A file's answer before its bytes were read, once more with a new token if the first was stale."""
        path = f"/open-apis/im/v1/messages/{_part(message_id)}/resources/{_part(file_key)}"
        token = await self._token.get()
        for is_last in (False, True):
            headers = {"Authorization": f"Bearer {token}"}
            asking = self._http.stream("GET", path, params={"type": resource_type}, headers=headers)
            answer = await stack.enter_async_context(asking)
            if answer.status_code == 200 and answer.headers.get("content-encoding", "identity") in ("", "identity"):
                return answer
            body = await _read(answer)
            if not is_last and errors.code_of(body) in TOKEN_REFUSED:
                token = await self._token.get(refused=token)
                continue
            errors.check(answer.status_code, answer.headers, body)
            break
        raise FeishuUnavailable("it sends something else than the file")

    async def name(self, person: Identity) -> str | None:
        """What a person is called; None when that cannot be known, for whatever reason."""
        address = Address.of(person)
        key = f"{address.kind}:{address.id}"
        if key not in self._names:
            name, kept = None, _NO_NAME_KEPT
            try:
                name = (await self._user(address, within=min(_NAME_WITHIN, self._timeout))).name or None
                kept = _NAME_KEPT if name else _NO_NAME_KEPT
            except FeishuRefused:
                pass
            except FeishuUnavailable as error:
                kept = min(error.retry_after or 5.0, _NO_NAME_KEPT)
            self._names.keep(key, name, kept)
            return name
        return self._names[key]

    async def ids(self, person: Address) -> dict[str, str]:
        """The ids of a person that this app may see; `user_id` only with a permission of its own."""
        user = await self._user(person)
        if user.ids.get(person.kind, person.id) != person.id:
            raise FeishuUnavailable("it told of another person than it was asked for")
        return user.ids

    async def chat(self, chat_id: str) -> Chat:
        """What a chat is called, and whether it is a private one; nothing when that cannot be known."""
        if chat_id not in self._chats:
            chat, kept = Chat(), _NO_NAME_KEPT
            path = f"/open-apis/im/v1/chats/{_part(chat_id)}"
            try:
                answer = await self._reach(f"chat:{chat_id}", "GET", path, within=min(_NAME_WITHIN, self._timeout))
                chat, kept = _parsed(ChatAnswer, answer).data, _NAME_KEPT
            except (FeishuRefused, FeishuUnavailable):
                pass  # a name is a courtesy
            self._chats.keep(chat_id, chat, kept)
            return chat
        return self._chats[chat_id]

    async def chat_of(self, message_id: str) -> str:
        """The chat that a message is in."""
        return (await self.message(message_id)).chat_id

    async def message(self, message_id: str) -> Item:
        """A message: the chat that it is in, and what it says."""
        answer = await self._reach(_card(message_id), "GET", f"/open-apis/im/v1/messages/{_part(message_id)}")
        found = [item for item in _parsed(ItemsAnswer, answer).data.items if item.message_id == message_id]
        if not found:
            raise FeishuRefused(0, "it knows no such message")
        return found[0]

    async def own_open_id(self) -> str:
        """By which id the bot is mentioned."""
        if self._own_open_id is None:
            answer = await self._reach(_PEOPLE, "GET", "/open-apis/bot/v3/info")
            self._own_open_id = _parsed(BotAnswer, answer).bot.open_id
        return self._own_open_id

    async def members(self, chat_id: str, *, fresh: bool = False) -> frozenset[str]:
        """The open_ids of all people in a chat.

        fresh: as Feishu says now, not as it said a moment ago.
        """
        if fresh or chat_id not in self._members:
            found = await self._all_members(chat_id)
            self._members.keep(chat_id, found, _MEMBERS_KEPT)
            return found
        return self._members[chat_id]

    async def _user(self, person: Address, within: float | None = None) -> User:
        path = f"/open-apis/contact/v3/users/{_part(person.id)}"
        answer = await self._reach(_PEOPLE, "GET", path, params={"user_id_type": person.kind.value}, within=within)
        return _parsed(UserAnswer, answer).data.user

    async def close(self) -> None:
        await self._token.close()
        await self._http.aclose()

    async def _all_members(self, chat_id: str) -> frozenset[str]:
        path = f"/open-apis/im/v1/chats/{_part(chat_id)}/members"
        found: set[str] = set()
        params = {"member_id_type": "open_id", "page_size": "100"}
        for _ in range(_MOST_PAGES):
            page = _parsed(PageAnswer, await self._reach(f"members:{chat_id}", "GET", path, params=params)).data
            found.update(member.member_id for member in page.items)
            if not page.has_more:
                return frozenset(found)
            if not page.page_token or page.page_token == params.get("page_token"):
                raise FeishuUnavailable("the list of a chat's members does not go on")
            params["page_token"] = page.page_token
        raise FeishuRefused(0, "the chat has more members than can be listed")

    async def _write(self, destination: str, method: str, path: str, **request: Any) -> bytes:
        """A call that puts or changes a message, when it is its destination's turn."""
        with _silence():
            self._breaker.check(destination)
        await self._turn(destination)
        return await self._reach(destination, method, path, **request)

    async def _reach(
        self, destination: str, method: str, path: str, *, within: float | None = None, **request: Any
    ) -> bytes:
        """A call to somebody who may not answer; whoever does not is soon no longer waited for."""
        with _silence():
            async with self._breaker.answered(destination, within or self._timeout):
                return await self._call(method, path, within=within, **request)

    async def _turn(self, destination: str) -> None:
        try:
            await self._sends.turn(destination, _HURRIED_PATIENCE if is_hurried() else None)
        except TooLate as late:
            raise FeishuUnavailable(
                "others wait to write to the same place; nothing was sent", retry_after=late.wait
            ) from None

    async def _call(self, method: str, path: str, **request: Any) -> bytes:
        """One call with a token, and once more with a new one if it was stale. Returns what a success answered."""
        token = await self._token.get()
        status, headers, body = await self._exchange(method, path, token=token, **request)
        if errors.code_of(body) in TOKEN_REFUSED:
            token = await self._token.get(refused=token)
            status, headers, body = await self._exchange(method, path, token=token, **request)
        errors.check(status, headers, body)
        return body

    async def _fetch_token(self) -> Granted:
        status, headers, body = await self._exchange(
            "POST",
            "/open-apis/auth/v3/tenant_access_token/internal",
            json={"app_id": self._app_id, "app_secret": self._app_secret},
        )
        try:
            errors.check(status, headers, body)
        except FeishuRefused as refused:
            # Nothing was refused yet but us. Whoever asked need not give up: a corrected secret makes it work.
            raise FeishuUnavailable(
                f"it gives the app no access token ({refused.code}: {refused.meaning}); "
                "check ASSENT_FEISHU_APP_ID, ASSENT_FEISHU_APP_SECRET and ASSENT_FEISHU_DOMAIN",
                retry_after=_FILE_PATIENCE * self._timeout,
            ) from None
        return _parsed(Granted, body)

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        within: float | None = None,
        **request: Any,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request and its answer, all within its time."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with (
                asyncio.timeout(within or self._timeout),
                self._http.stream(method, path, headers=headers, **request) as answer,
            ):
                return answer.status_code, answer.headers, await _read(answer)
        except TimeoutError:
            raise FeishuSilent("it did not answer in time") from None
        except httpx.HTTPError as error:
            raise FeishuUnavailable(f"the connection failed ({type(error).__name__})") from None


async def _read(answer: httpx.Response) -> bytes:
    """The whole body, if it is no larger than it may be."""
    found = await bounded_http.read(answer, _LARGEST_ANSWER)
    if found.problem is not None:
        errors.unreadable(answer.status_code, answer.headers)
    return found.data


def _parsed(model: type[_Parsed], body: bytes) -> _Parsed:
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise FeishuUnavailable("it said yes in a way that cannot be read; whether it happened is not known") from None


def _recipient(to: Address) -> str:
    return f"{to.kind}:{to.id}"


def _card(message_id: str) -> str:
    return f"message:{message_id}"


@contextmanager
def _silence() -> Iterator[None]:
    """Say of Feishu what the breaker says of a destination."""
    try:
        yield
    except NoAnswer:
        raise FeishuSilent("it did not answer in time") from None
    except TurnedAway:
        raise FeishuSilent("it has not answered lately, or others wait for it already; nothing was sent") from None


def _part(untrusted: str) -> str:
    """An id as one part of a path: one that could lead elsewhere is not asked for at all."""
    if not _PATH_PART.fullmatch(untrusted):
        raise FeishuRefused(0, "an id has characters that no id of Feishu has")
    return quote(untrusted, safe="")
