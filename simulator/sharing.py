"""What people send to the bot: files and words, and the events that the platform makes of them."""

from __future__ import annotations

import mimetypes
import secrets
from typing import Any

from simulator.delivery import Courier
from simulator.people import Chat, Person
from simulator.state import Message, Simulator, compact

BOT = "ou_bot"
"""By which id people mention the bot."""
_AT = "@_user_1"


def kind_of(name: str) -> str:
    """How the platform's client sends a file of this name."""
    kind = (mimetypes.guess_type(name)[0] or "").partition("/")[0]
    return {"image": "image", "audio": "audio", "video": "media"}.get(kind, "file")


def file_message(
    simulator: Simulator, person: Person, chat: Chat, name: str, data: bytes, *, kind: str, mentions: bool
) -> Message:
    """Put a file into a chat as a person does; one that mentions the bot is a post with a picture in it."""
    file = simulator.add_file(name, kind, data)
    if mentions:
        at = {"tag": "at", "user_id": _AT, "user_name": "Assent"}
        line = [at, {"tag": "img", "image_key": file.file_key}]
        return simulator.add_message(chat, "post", {"title": "", "content": [line]}, sender=person.open_id)
    content: dict[str, Any] = {"image": {"image_key": file.file_key}}.get(kind, {"file_key": file.file_key})
    if kind in ("file", "media"):
        content["file_name"] = name
    if kind in ("audio", "media"):
        content["duration"] = 1000
    if kind == "media":
        content["image_key"] = f"img_v3_{secrets.token_hex(8)}"
    return simulator.add_message(chat, kind, content, sender=person.open_id)


def is_told(message: Message, chat: Chat, *, mentions: bool) -> bool:
    """Whether the platform tells the bot of a message: in groups only of those that mention it."""
    return chat.has_bot and (chat.kind == "p2p" or mentions)


def received(simulator: Simulator, person: Person, chat: Chat, message: Message, *, mentions: bool) -> dict[str, Any]:
    """The event that tells the bot of a message."""
    settings = simulator.settings
    told: dict[str, Any] = {
        "message_id": message.message_id,
        "create_time": str(message.created_at),
        "chat_id": chat.chat_id,
        "chat_type": chat.kind,
        "message_type": message.msg_type,
        "content": compact(message.content),
    }
    if mentions:
        bot = {"open_id": BOT, "union_id": "on_bot", "user_id": ""}
        told["mentions"] = [{"key": _AT, "id": bot, "name": "Assent", "tenant_key": settings.tenant_key}]
    if message.reply_to is not None:
        told |= {"parent_id": message.reply_to, "root_id": message.root}
    ids = {"open_id": person.open_id, "union_id": person.union_id, "user_id": person.user_id}
    sender = {"sender_id": ids, "sender_type": "user", "tenant_key": settings.tenant_key}
    return {
        "schema": "2.0",
        "header": {
            "event_id": secrets.token_hex(16),
            "token": settings.verification_token,
            "create_time": str(simulator.now_ms()),
            "event_type": "im.message.receive_v1",
            "tenant_key": settings.tenant_key,
            "app_id": settings.app_id,
        },
        "event": {"sender": sender, "message": told},
    }


async def tell(courier: Courier, event: dict[str, Any], message: Message) -> dict[str, Any]:
    """Hand an event to the app, and say what became of it."""
    delivery = (await courier.deliver(event, message.message_id)).delivery
    return {"delivery_id": delivery.delivery_id, "status": delivery.status, "error": delivery.error}
