"""`assent feishu check`: whether the app in Feishu's console is set up as this service needs it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import click
import httpx

from assent.cli import common, listings, tables
from assent.contracts.address import Address, AddressKind
from assent.contracts.identity import Identity
from assent.safe import one_line

_DOMAINS = {"": "https://open.feishu.cn", "feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
_WITHIN = 10.0
_GRANTED = 1
_NEEDED = {
    "send cards and change them": ("im:message", "im:message:send_as_bot"),
    "attach files to cards": ("im:resource", "im:resource:upload"),
}
"""What each of these needs: one of the scopes."""
_USEFUL = {
    "let the members of a chat decide": ("im:chat.members:read", "im:chat:readonly", "im:chat"),
    "let people ask the bot what waits for them": ("im:message.p2p_msg:readonly", "im:message.p2p_msg"),
    "name the chats that the bot tells of": ("im:chat:readonly", "im:chat", "im:chat:read"),
    "know who a requester is": ("contact:contact.base:readonly",),
    "say who decided": ("contact:user.base:readonly",),
}


class Finding(StrEnum):
    """How one thing stands."""

    OK = "ok"
    WRONG = "wrong"
    """It must be put right."""
    MISSING = "missing"
    """Something that one may want does not work."""
    UNKNOWN = "not checked"


@dataclass(frozen=True)
class Checked:
    """One thing that was looked at."""

    what: str
    found: Finding
    said: str


@dataclass(frozen=True)
class App:
    """The app, as the service's variables name it."""

    app_id: str
    app_secret: str
    encrypt_key: str
    verification_token: str
    tenant_key: str
    domain: str

    @classmethod
    def of_environment(cls) -> App:
        def said(name: str) -> str:
            return os.environ.get(f"ASSENT_FEISHU_{name}", "").strip()

        domain = said("DOMAIN")
        return cls(
            app_id=said("APP_ID"),
            app_secret=said("APP_SECRET"),
            encrypt_key=said("ENCRYPT_KEY"),
            verification_token=said("VERIFICATION_TOKEN"),
            tenant_key=said("TENANT_KEY"),
            domain=_DOMAINS.get(domain, domain).rstrip("/"),
        )


@common.cli.group("feishu")
def _feishu() -> None:
    """See whether the Feishu app is set up correctly."""


@_feishu.command("check")
@click.option(
    "--callback", metavar="URL", help="Check that this public address reaches the webhook: https://…/feishu/callback."
)
@common.identity("--to", "person", help="Send a test card to this person.")
@click.option("--chat-id", metavar="CHAT", help="Send a test card into this chat.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def _check(callback: str | None, person: Identity | None, chat_id: str | None, as_json: bool) -> None:
    """Look at the app of ASSENT_FEISHU_*: credentials, bot, company, scopes and callback; send a test card.

    Exit code 0: what must be right is right. 1: something is wrong, and the list says what to do.
    """
    to = [Address.of(person)] if person else []
    to += [Address(kind=AddressKind.CHAT_ID, id=chat_id)] if chat_id else []
    found = asyncio.run(_all(App.of_environment(), callback, to))
    if as_json:
        tables.print_for_programs([asdict(each) for each in found])
    else:
        tables.print_for_people(listings.check_listing([(each.what, each.found, each.said) for each in found]))
    is_wrong = any(each.found is Finding.WRONG for each in found)
    click.get_current_context().exit(common.Exit.REFUSED if is_wrong else common.Exit.DONE)


async def _all(app: App, callback: str | None, to: list[Address]) -> list[Checked]:
    async with httpx.AsyncClient(timeout=_WITHIN, follow_redirects=False) as http:
        return [each async for each in _findings(http, app, callback, to)]


async def _findings(
    http: httpx.AsyncClient, app: App, callback: str | None, to: list[Address]
) -> AsyncIterator[Checked]:
    if not app.app_id or not app.app_secret:
        yield Checked("credentials", Finding.WRONG, "set ASSENT_FEISHU_APP_ID and ASSENT_FEISHU_APP_SECRET")
        return
    path = "/open-apis/auth/v3/tenant_access_token/internal"
    body = {"app_id": app.app_id, "app_secret": app.app_secret}
    token = await _ask(http, "POST", f"{app.domain}{path}", body)
    if "tenant_access_token" not in token:
        yield Checked("credentials", Finding.WRONG, f"{app.domain} refuses app id and secret: {_why(token)}")
        return
    yield Checked("credentials", Finding.OK, f"{app.app_id} at {app.domain}")
    http.headers["authorization"] = f"Bearer {token['tenant_access_token']}"
    yield await _bot(http, app)
    yield await _company(http, app)
    async for each in _scopes(http, app):
        yield each
    yield await _callback(http, app, callback)
    if not to:
        yield Checked("test card", Finding.UNKNOWN, "say --to open_id:… or --chat-id oc_… to have one sent")
    for address in to:
        yield await _card(http, app, address)


async def _bot(http: httpx.AsyncClient, app: App) -> Checked:
    answer = await _ask(http, "GET", f"{app.domain}/open-apis/bot/v3/info")
    bot = answer.get("bot")
    if not isinstance(bot, dict):
        return Checked("bot", Finding.WRONG, f"the app has no bot: add it under Features ({_why(answer)})")
    return Checked("bot", Finding.OK, f"{bot.get('app_name') or app.app_id}, open_id:{bot.get('open_id')}")


async def _company(http: httpx.AsyncClient, app: App) -> Checked:
    answer = await _ask(http, "GET", f"{app.domain}/open-apis/tenant/v2/tenant/query")
    tenant = (answer.get("data") or {}).get("tenant") or {}
    key = tenant.get("tenant_key")
    if not key:
        said = "needs the scope tenant:tenant:readonly; every event's header has the tenant key, too"
        return Checked("company", Finding.UNKNOWN if app.tenant_key else Finding.WRONG, f"{said} ({_why(answer)})")
    if app.tenant_key == key:
        return Checked("company", Finding.OK, f"{tenant.get('name') or ''} {key}".strip())
    return Checked("company", Finding.WRONG, f"set ASSENT_FEISHU_TENANT_KEY={key}: that is {tenant.get('name')}")


async def _scopes(http: httpx.AsyncClient, app: App) -> AsyncIterator[Checked]:
    answer = await _ask(http, "GET", f"{app.domain}/open-apis/application/v6/scopes")
    listed = (answer.get("data") or {}).get("scopes")
    if not isinstance(listed, list):
        yield Checked("scopes", Finding.UNKNOWN, f"Feishu does not say which were granted ({_why(answer)})")
        return
    granted = {each.get("scope_name") for each in listed if each.get("grant_status") == _GRANTED}
    for found, wanted in ((Finding.WRONG, _NEEDED), (Finding.MISSING, _USEFUL)):
        for purpose, scopes in wanted.items():
            having = next((scope for scope in scopes if scope in granted), None)
            missing = f"cannot {purpose}: add {scopes[0]}, and publish a version"
            yield Checked("scope", Finding.OK if having else found, f"{having}: {purpose}" if having else missing)


async def _callback(http: httpx.AsyncClient, app: App, url: str | None) -> Checked:
    """Ask the webhook what Feishu's console asks as one saves the address."""
    if not app.encrypt_key and not app.verification_token:
        said = "no ASSENT_FEISHU_ENCRYPT_KEY or _VERIFICATION_TOKEN: right only with the long connection"
        return Checked("callback", Finding.WRONG if url else Finding.UNKNOWN, said)
    if url is None:
        return Checked(
            "callback", Finding.UNKNOWN, "say --callback https://…/feishu/callback; the long connection has none"
        )
    challenge = secrets.token_hex(8)
    asked: dict[str, Any] = {"challenge": challenge, "token": app.verification_token, "type": "url_verification"}
    sent = {"encrypt": _encrypted(app.encrypt_key, asked)} if app.encrypt_key else asked
    body = json.dumps(sent).encode()
    request = http.build_request("POST", url, content=body, headers=_signature(app.encrypt_key, body))
    request.headers.pop("authorization", None)  # that is for Feishu alone
    answer = await _sent(http, request)
    if answer.get("challenge") == challenge:
        return Checked("callback", Finding.OK, f"{url} answers as the console will ask it")
    return Checked("callback", Finding.WRONG, f"{url} does not answer with the same key and token ({_why(answer)})")


async def _card(http: httpx.AsyncClient, app: App, to: Address) -> Checked:
    url = f"{app.domain}/open-apis/im/v1/messages?receive_id_type={to.kind.value}"
    said = {"zh_cn": "Assent 可以把卡片发到这里。", "en_us": "Assent can send cards here."}
    text = {"tag": "plain_text", "content": said["en_us"], "i18n_content": said}
    card = {"schema": "2.0", "body": {"elements": [{"tag": "div", "text": text}]}}
    content = json.dumps(card, ensure_ascii=False)
    answer = await _ask(http, "POST", url, {"receive_id": to.id, "msg_type": "interactive", "content": content})
    if answer.get("code") == 0:
        return Checked("test card", Finding.OK, f"sent to {to.id}")
    return Checked("test card", Finding.WRONG, f"not sent to {to.id}: {_why(answer)}")


async def _ask(http: httpx.AsyncClient, method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return await _sent(http, http.build_request(method, url, json=body))


async def _sent(http: httpx.AsyncClient, request: httpx.Request) -> dict[str, Any]:
    """What is answered, as an object; what cannot be reached says why."""
    try:
        answer = await http.send(request)
        found = answer.json()
    except httpx.HTTPError as error:
        return {"msg": f"no answer: {type(error).__name__}"}
    except ValueError:
        return {"msg": f"HTTP {answer.status_code}, and no JSON"}
    return found if isinstance(found, dict) else {"msg": f"HTTP {answer.status_code}"}


def _why(answer: dict[str, Any]) -> str:
    code, said = answer.get("code"), str(answer.get("msg") or answer.get("detail") or "no reason was given")
    return one_line(f"{code}: {said}" if code else said)[:200]


def _signature(key: str, body: bytes) -> dict[str, str]:
    """The headers by which the platform signs what it sends, where there is a key."""
    timestamp, nonce = str(int(time.time())), secrets.token_hex(8)
    signed = hashlib.sha256(f"{timestamp}{nonce}{key}".encode() + body).hexdigest()
    names = ("Timestamp", "Nonce")
    headers = {f"X-Lark-Request-{name}": value for name, value in zip(names, (timestamp, nonce), strict=True)}
    return {"Content-Type": "application/json", **({**headers, "X-Lark-Signature": signed} if key else {})}


def _encrypted(key: str, event: dict[str, Any]) -> str:
    """As the platform encrypts what it sends: AES-256-CBC under the key's hash, the first block in front."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    plain = json.dumps(event).encode()
    padding = 16 - len(plain) % 16
    start = secrets.token_bytes(16)
    cipher = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(start)).encryptor()
    sealed = start + cipher.update(plain + bytes([padding]) * padding) + cipher.finalize()
    return base64.b64encode(sealed).decode()
