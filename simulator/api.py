"""`/api`: the simulator as its page and programs use it."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Body, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from simulator import people
from simulator.clicks import CannotClick, Click, click, settle
from simulator.delivery import Courier
from simulator.faults import Fault
from simulator.longconn import Hub
from simulator.people import Chat, Person
from simulator.post import Answered, NoAnswer, Poster
from simulator.settings import BadSettings, require_loopback
from simulator.sharing import file_message, is_told, kind_of, received, tell
from simulator.state import File, Message, Simulator, compact

_SHORTCUT_SECONDS = 30

router = APIRouter(prefix="/api")


def _simulator(request: Request) -> Simulator:
    simulator: Simulator = request.app.state.simulator
    return simulator


def _courier(request: Request) -> Courier:
    courier: Courier = request.app.state.courier
    return courier


# Messages and files


@router.get("/messages")
async def messages(request: Request, chat_id: str | None = None, limit: int | None = None) -> dict[str, Any]:
    """The messages of a chat or of all, oldest first; `limit` keeps the newest."""
    simulator = _simulator(request)
    shown = [message for message in simulator.messages.values() if chat_id in (None, message.chat_id)]
    if limit is not None:
        shown = shown[-limit:] if limit > 0 else []
    return {"messages": [simulator.view(message) for message in shown]}


@router.get("/messages/{message_id}")
async def message(request: Request, message_id: str) -> dict[str, Any]:
    """One message with every version of it."""
    found = _message(request, message_id)
    return {**_simulator(request).view(found), "revisions": found.revisions}


class Age(BaseModel):
    days: float


@router.post("/messages/{message_id}/age")
async def age(request: Request, message_id: str, asked: Age) -> dict[str, Any]:
    """Let a message have been sent so many days earlier."""
    found = _message(request, message_id)
    _simulator(request).age(found, asked.days)
    return _simulator(request).view(found)


@router.get("/files/{file_key}")
async def file(request: Request, file_key: str) -> Response:
    found = _kept_file(request, file_key)
    media_type = mimetypes.guess_type(found.file_name)[0] or "application/octet-stream"
    # What was uploaded must not run as part of the page.
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(found.file_name)}",
        "x-content-type-options": "nosniff",
    }
    return Response(found.content, media_type=media_type, headers=headers)


@router.put("/files/{file_key}")
async def swap_file(request: Request, file_key: str) -> dict[str, Any]:
    """Let a file hold other bytes from now on: what no platform should do."""
    _simulator(request).swap_file(_kept_file(request, file_key), await request.body())
    return {}


@router.delete("/files/{file_key}")
async def remove_file(request: Request, file_key: str) -> dict[str, Any]:
    """Let a file be gone."""
    _simulator(request).remove_file(_kept_file(request, file_key))
    return {}


@router.post("/files")
async def share(
    request: Request,
    open_id: str,
    name: str,
    chat_id: str = "",
    kind: Literal["image", "file", "audio", "media"] | None = None,
    mention: bool = False,
) -> dict[str, Any]:
    """Send the body as a file, as a person does: to the bot, or into a chat. `mention` makes it a post that does."""
    simulator = _simulator(request)
    person, chat = _member(simulator, open_id, chat_id)
    sent = file_message(
        simulator, person, chat, name, await request.body(), kind=kind or kind_of(name), mentions=mention
    )
    return await _told(request, person, chat, sent, mentions=mention)


class Words(BaseModel):
    model_config = ConfigDict(extra="forbid")

    open_id: str
    text: str
    chat_id: str = ""
    """Without one, to the bot."""
    mention: bool = False
    reply_to: str | None = None


@router.post("/words")
async def write(request: Request, asked: Words) -> dict[str, Any]:
    """Write something, as a person does."""
    simulator = _simulator(request)
    person, chat = _member(simulator, asked.open_id, asked.chat_id)
    answered = _message(request, asked.reply_to) if asked.reply_to else None
    sent = simulator.add_message(chat, "text", {"text": asked.text}, sender=person.open_id, reply_to=answered)
    return await _told(request, person, chat, sent, mentions=asked.mention)


async def _told(request: Request, person: Person, chat: Chat, sent: Message, *, mentions: bool) -> dict[str, Any]:
    """The message as it is shown, and what became of its event."""
    simulator = _simulator(request)
    delivered = None
    if is_told(sent, chat, mentions=mentions):
        event = received(simulator, person, chat, sent, mentions=mentions)
        delivered = await tell(_courier(request), event, sent)
    return {**simulator.view(sent), "delivered": delivered}


def _member(simulator: Simulator, open_id: str, chat_id: str) -> tuple[Person, Chat]:
    person = people.find("open_id", open_id)
    if person is None:
        raise HTTPException(404, "no such person")
    chat = simulator.chat(chat_id) if chat_id else simulator.private_chat(person)
    if chat is None or open_id not in chat.members:
        raise HTTPException(404, "no such chat")
    return person, chat


def _kept_file(request: Request, file_key: str) -> File:
    found = _simulator(request).files.get(file_key)
    if found is None:
        raise HTTPException(404, "no such file")
    return found


def _message(request: Request, message_id: str) -> Message:
    found = _simulator(request).messages.get(message_id)
    if found is None:
        raise HTTPException(404, "no such message")
    return found


# People, chats, and what the page offers


@router.get("/people")
async def everyone() -> list[dict[str, Any]]:
    return [asdict(person) for person in people.PEOPLE]


@router.get("/chats")
async def chats(request: Request) -> list[dict[str, Any]]:
    return [
        {
            "chat_id": chat.chat_id,
            "name": chat.name,
            "kind": chat.kind,
            "members": chat.members,
            "has_bot": chat.has_bot,
        }
        for chat in _simulator(request).all_chats()
    ]


class Members(BaseModel):
    model_config = ConfigDict(extra="forbid")

    members: list[str] = Field(min_length=1)
    """open ids"""


@router.put("/chats/{chat_id}/members")
async def put_members(request: Request, chat_id: str, asked: Members) -> dict[str, Any]:
    """Let these people be in a group, and nobody else, until the next reset."""
    simulator = _simulator(request)
    chat = simulator.chats.get(chat_id)
    if chat is None or chat.kind != "group":
        raise HTTPException(404, "no such group")
    if unknown := [each for each in asked.members if people.find("open_id", each) is None]:
        raise HTTPException(422, f"nobody is called {', '.join(unknown)}")
    simulator.set_members(chat, tuple(dict.fromkeys(asked.members)))
    return {"chat_id": chat_id, "members": simulator.chats[chat_id].members}


@router.get("/links")
async def links(request: Request) -> list[dict[str, Any]]:
    return list(_simulator(request).settings.links)


@router.get("/shortcuts")
async def shortcuts(request: Request) -> list[dict[str, Any]]:
    """What can be pressed, without the addresses and secrets behind it."""
    return [
        {
            "label": shortcut.get("label"),
            "description": shortcut.get("description"),
            **({"endings": shortcut.get("endings", {})} if "follow" in shortcut else {}),
        }
        for shortcut in _simulator(request).settings.shortcuts
    ]


class Press(BaseModel):
    open_id: str = ""
    chat_id: str = ""


@router.post("/shortcuts/{index}")
async def press(request: Request, index: int, asked: Press) -> dict[str, Any]:
    """POST a shortcut's body to its address."""
    return await _file(_shortcut(request, index), _words(asked))


@router.get("/shortcuts/{index}/followed/{uuid}")
async def followed(request: Request, index: int, uuid: str) -> dict[str, Any]:
    """What became of what a shortcut filed, where it says how to ask."""
    shortcut = _shortcut(request, index)
    if not uuid.isalnum() or "follow" not in shortcut:
        raise HTTPException(404, "nothing to follow")
    url = str(shortcut["follow"]).replace("{uuid}", uuid)
    return await _answered(url, lambda poster: poster.get(url, shortcut.get("headers", {})))


def _shortcut(request: Request, index: int) -> dict[str, Any]:
    known = _simulator(request).settings.shortcuts
    if not 0 <= index < len(known):
        raise HTTPException(404, "no such shortcut")
    return known[index]


def _words(asked: Press) -> dict[str, str]:
    return {"{open_id}": asked.open_id, "{chat_id}": asked.chat_id, "{uuid}": secrets.token_hex(16)}


async def _file(offered: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json", **offered.get("headers", {})}
    if look_up := offered.get("look_up"):
        words = {**words, "{found}": await _looked_up(_filled(look_up, words), headers)}
    url, body = str(offered["url"]), compact(_filled(offered.get("body", {}), words)).encode()
    said = await _answered(url, lambda poster: poster.post(url, body, headers))
    return {**said, "uuid": words["{uuid}"]}


async def _answered(url: str, ask: Callable[[Poster], Awaitable[Answered]]) -> dict[str, Any]:
    poster = Poster()
    try:
        async with asyncio.timeout(_SHORTCUT_SECONDS):
            answer = await ask(poster)
    except (NoAnswer, TimeoutError) as error:
        raise HTTPException(502, f"{url} does not answer: {error}") from error
    finally:
        poster.close()
    try:
        said: Any = json.loads(answer.text)
    except ValueError:
        said = answer.text
    return {"status": answer.status, "body": said}


class Call(Press):
    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, Any]


@router.get("/tools")
async def tools(request: Request) -> list[dict[str, Any]]:
    """What can be asked for by filling in a form; nothing where nobody says so."""
    catalogue = _simulator(request).settings.catalogue
    if catalogue is None:
        return []
    url = str(catalogue["list"])
    answer = await _answered(url, lambda poster: poster.get(url, catalogue.get("headers", {})))
    found = answer["body"].get("tools") if isinstance(answer["body"], dict) else None
    shown = ("name", "description", "parameters")
    return [{key: tool.get(key) for key in shown} for tool in found or [] if isinstance(tool, dict)]


@router.post("/tools")
async def ask(request: Request, asked: Call) -> dict[str, Any]:
    """Ask for a call that somebody filled in."""
    catalogue = _simulator(request).settings.catalogue
    if catalogue is None:
        raise HTTPException(404, "nobody says what can be asked for")
    return await _file(catalogue, {**_words(asked), "{tool}": asked.tool, "{arguments}": asked.arguments})


class Saying(BaseModel):
    model_config = ConfigDict(extra="forbid")

    open_id: str
    text: str = Field(min_length=1, max_length=4000)


@router.post("/say")
async def say(request: Request, asked: Saying) -> dict[str, Any]:
    """Write to the bot in private, as a person does: the app is told of it as of any message."""
    simulator, settings = _simulator(request), _simulator(request).settings
    person = people.find("open_id", asked.open_id)
    if person is None:
        raise HTTPException(404, "nobody is called so")
    chat = simulator.private_chat(person)
    message = simulator.add_message(chat, "text", {"text": asked.text}, sender=person.open_id)
    sender = {
        "sender_id": {kind: person.id(kind) for kind in people.ID_KINDS},
        "sender_type": "user",
        "tenant_key": settings.tenant_key,
    }
    said = {
        "message_id": message.message_id,
        "create_time": str(message.created_at),
        "chat_id": chat.chat_id,
        "chat_type": "p2p",
        "message_type": "text",
        "content": compact({"text": asked.text}),
    }
    event = Event(event_type="im.message.receive_v1", event={"sender": sender, "message": said}, attempts=3)
    return {"message_id": message.message_id, **await events(request, event)}


async def _looked_up(look_up: dict[str, Any], headers: dict[str, str]) -> str:
    """What a shortcut needs to know before it can be pressed: what lies at a path in another answer."""
    url = str(look_up["url"])
    found: Any = (await _answered(url, lambda poster: poster.get(url, headers)))["body"]
    try:
        for step in look_up["path"]:
            found = found[step]
    except (LookupError, TypeError):
        raise HTTPException(409, str(look_up.get("missing", "it is not there"))) from None
    return str(found)


def _filled(value: Any, words: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if value in words:
            return words[value]
        for placeholder, word in words.items():
            value = value.replace(placeholder, word) if isinstance(word, str) else value
        return value
    if isinstance(value, dict):
        return {key: _filled(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, words) for each in value]
    return value


# Clicks, deliveries and events


@router.post("/clicks")
async def clicks(request: Request, asked: Click) -> dict[str, Any]:
    """Click as a person does; see `Click`."""
    try:
        return await click(_simulator(request), _courier(request), asked)
    except KeyError as error:
        raise HTTPException(404, f"there is no {error.args[0]}") from error
    except CannotClick as error:
        raise HTTPException(409, str(error)) from error


@router.get("/deliveries")
async def deliveries(request: Request, limit: int | None = None) -> dict[str, Any]:
    """Everything handed to the app so far, oldest first; `limit` keeps the newest."""
    shown = list(_simulator(request).deliveries.values())
    if limit is not None:
        shown = shown[-limit:] if limit > 0 else []
    return {"deliveries": [vars(delivery) for delivery in shown]}


class Replay(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: str | None = None
    fresh: bool = False


@router.post("/deliveries/{delivery_id}/replay")
async def replay(request: Request, delivery_id: str, asked: Replay | None = None) -> dict[str, Any]:
    """The same bytes again, or the same event newly sealed, to the same place or to another webhook."""
    simulator, wish = _simulator(request), asked or Replay()
    delivery = simulator.deliveries.get(delivery_id)
    if delivery is None:
        raise HTTPException(404, "no such delivery")
    if wish.url is not None:
        _require_loopback(wish.url)
    outcome = await _courier(request).replay(delivery, url=wish.url, fresh=wish.fresh)
    return settle(simulator, outcome)


class Event(BaseModel):
    """Any event. The platform repeats one that was not answered with 200; here without its long pauses."""

    model_config = ConfigDict(extra="forbid")

    event_type: str
    event: dict[str, Any] = Field(default_factory=dict)
    event_id: str | None = None
    attempts: int = Field(default=1, ge=1, le=10)
    url: str | None = None


@router.post("/events")
async def events(request: Request, asked: Event) -> dict[str, Any]:
    """Send an event until it is answered with 200 or the attempts are used up."""
    simulator, settings = _simulator(request), _simulator(request).settings
    if asked.url is not None:
        _require_loopback(asked.url)
    event = {
        "schema": "2.0",
        "header": {
            "event_id": asked.event_id or secrets.token_hex(16),
            "token": settings.verification_token,
            "create_time": str(simulator.now_ms()),
            "event_type": asked.event_type,
            "tenant_key": settings.tenant_key,
            "app_id": settings.app_id,
        },
        "event": asked.event,
    }
    tries = []
    for _ in range(asked.attempts):
        delivery = (await _courier(request).deliver(event, url=asked.url or "")).delivery
        tries.append({"delivery_id": delivery.delivery_id, "status": delivery.status, "error": delivery.error})
        if delivery.status == 200:
            break
    return {"event_id": delivery.event_id, "delivered": delivery.status == 200, "attempts": tries}


@router.post("/url_verification")
async def url_verification(request: Request, url: str | None = None) -> dict[str, Any]:
    """What the platform does when a webhook's address is saved: a challenge that must come back."""
    simulator = _simulator(request)
    if url is not None:
        _require_loopback(url)
    challenge = secrets.token_hex(16)
    token = simulator.settings.verification_token
    asked = {"challenge": challenge, "token": token, "type": "url_verification"}
    outcome = await _courier(request).deliver(asked, url=url or simulator.settings.callback_url)
    verified = (outcome.answer or {}).get("challenge") == challenge
    return {"verified": verified, "status": outcome.delivery.status, "error": outcome.delivery.error}


def _require_loopback(url: str) -> None:
    try:
        require_loopback(url, "url")
    except BadSettings as error:
        raise HTTPException(422, str(error)) from error


# Misbehaviour


@router.get("/faults")
async def faults(request: Request) -> list[Fault]:
    return _simulator(request).faults.all


@router.put("/faults")
async def put_faults(request: Request, asked: list[Fault] = Body()) -> list[Fault]:  # noqa: B008
    """Misbehave in these ways from now on, and in no others."""
    simulator, hub = _simulator(request), _hub(request)
    simulator.faults.replace(asked)
    if len(hub) and simulator.faults.take("ws", {}, frozenset({"disconnect"})):
        await hub.disconnect()
    return simulator.faults.all


@router.delete("/faults")
async def delete_faults(request: Request) -> list[Fault]:
    _simulator(request).faults.replace([])
    return []


@router.post("/expire_tokens")
async def expire_tokens(request: Request) -> dict[str, Any]:
    """From now on no token given out so far is good."""
    _simulator(request).expire_tokens()
    return {}


@router.get("/connections")
async def connections(request: Request) -> dict[str, int]:
    """How many long connections are open."""
    return {"open": len(_hub(request))}


def _hub(request: Request) -> Hub:
    hub: Hub = request.app.state.hub
    return hub


# Live


@router.get("/stream")
async def stream(request: Request) -> StreamingResponse:
    """Server-sent events: what happens from now on."""
    simulator = _simulator(request)
    listener = simulator.listen()

    async def told() -> AsyncIterator[str]:
        try:
            yield ": welcome\n\n"
            while (what := await listener.get()) is not None:
                yield f"data: {json.dumps(what, ensure_ascii=False)}\n\n"
        finally:
            simulator.stop_listening(listener)

    return StreamingResponse(told(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


@router.post("/reset")
async def reset(request: Request) -> dict[str, Any]:
    """Forget messages, files, deliveries and faults."""
    _simulator(request).reset()
    return {}
