"""What the platform knows: tokens, chats, messages, files and what was delivered to the app."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.faults import Faults
from simulator.limits import Limits
from simulator.people import GROUPS, PEOPLE, Chat, Person, private_chat
from simulator.settings import Settings
from simulator.store import Store

TOKEN_SECONDS = 7200
_NEW_TOKEN_BELOW = 1800
_DEDUPE_SECONDS = 3600
_DAY = 86400
_LIVES_DAYS = 14
_STREAM_BACKLOG = 1000

Listener = asyncio.Queue[dict[str, Any] | None]


@dataclass
class Message:
    """A message, with every version of its content."""

    message_id: str
    chat_id: str
    msg_type: str
    revisions: list[dict[str, Any]]
    created_at: int
    updated_at: int
    sender: str
    reply_to: str | None = None
    root: str | None = None
    uuid: str | None = None

    @property
    def content(self) -> dict[str, Any]:
        return self.revisions[-1]

    @property
    def revision(self) -> int:
        return len(self.revisions) - 1


@dataclass(frozen=True)
class File:
    file_key: str
    file_name: str
    file_type: str
    content: bytes = field(repr=False)


@dataclass
class Delivery:
    """One attempt to hand an event to the app, as it was sent, and what came back."""

    delivery_id: str
    event_id: str
    event: dict[str, Any]
    url: str
    """A webhook's address, or `ws` for a long connection."""
    body: str
    headers: dict[str, str]
    created_at: int
    message_id: str | None = None
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    elapsed_ms: float = 0.0


class Simulator:
    """The state of the simulated platform. Everything that changes it goes through here and is kept."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.clock = clock
        """Seconds since the epoch. A test may put its own in place."""
        self.faults = Faults()
        self.limits = Limits()
        self.messages: dict[str, Message] = {}
        self.files: dict[str, File] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.chats: dict[str, Chat] = {chat.chat_id: chat for chat in GROUPS}
        self._private = {private_chat(person).chat_id: private_chat(person) for person in PEOPLE}
        self._tokens: dict[str, float] = {}
        self._uuids: dict[str, str] = {}
        self._listeners: set[Listener] = set()
        self._store = Store(settings.data)
        self._load()

    def _load(self) -> None:
        for document, content in self._store.all("file"):
            file = File(**document, content=content)
            self.files[file.file_key] = file
        for document, _ in self._store.all("message"):
            self._remember(Message(**document))
        for document, _ in self._store.all("delivery"):
            delivery = Delivery(**document)
            self.deliveries[delivery.delivery_id] = delivery

    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    # Tokens

    def token(self) -> tuple[str, int]:
        """A tenant token and its remaining seconds: the same one until it has less than half an hour left."""
        now = self.clock()
        for token, ends in self._tokens.items():
            if ends - now > _NEW_TOKEN_BELOW:
                return token, int(ends - now)
        token = f"t-{secrets.token_hex(16)}"
        self._tokens[token] = now + TOKEN_SECONDS
        return token, TOKEN_SECONDS

    def is_token(self, token: str) -> bool:
        return self._tokens.get(token, 0.0) > self.clock()

    def expire_tokens(self) -> None:
        self._tokens.clear()

    # Chats

    def chat(self, chat_id: str) -> Chat | None:
        """A chat that the platform knows. Private ones exist before anyone has written in them."""
        return self.chats.get(chat_id) or self._private.get(chat_id)

    def all_chats(self) -> list[Chat]:
        """Every chat, the groups first; everybody has one with the bot."""
        return list({**self.chats, **self._private}.values())

    def private_chat(self, person: Person) -> Chat:
        return self._private[private_chat(person).chat_id]

    def set_members(self, chat: Chat, members: tuple[str, ...]) -> None:
        """Let these people be in a group, and nobody else."""
        self.chats[chat.chat_id] = replace(chat, members=members)
        self.tell("members", chat_id=chat.chat_id)

    # Messages

    def add_message(
        self,
        chat: Chat,
        msg_type: str,
        content: dict[str, Any],
        *,
        reply_to: Message | None = None,
        uuid: str | None = None,
        sender: str | None = None,
    ) -> Message:
        """Let a message be there: the app's, or a person's."""
        now = self.now_ms()
        message = Message(
            message_id=f"om_{secrets.token_hex(16)}",
            chat_id=chat.chat_id,
            msg_type=msg_type,
            revisions=[content],
            created_at=now,
            updated_at=now,
            sender=sender or self.settings.app_id,
            reply_to=reply_to.message_id if reply_to else None,
            root=(reply_to.root or reply_to.message_id) if reply_to else None,
            uuid=uuid,
        )
        self._remember(message)
        self._keep_message(message)
        self.tell("message", message_id=message.message_id, chat_id=message.chat_id, message=self.view(message))
        return message

    def revise(self, message: Message, card: dict[str, Any]) -> None:
        message.revisions.append(card)
        message.updated_at = self.now_ms()
        self._keep_message(message)
        self.tell("patched", message_id=message.message_id, chat_id=message.chat_id, message=self.view(message))

    def age(self, message: Message, days: float) -> None:
        """Let this message have been sent longer ago."""
        message.created_at -= int(days * _DAY * 1000)
        self._keep_message(message)

    def is_past_changing(self, message: Message) -> bool:
        """Whether the 14 days are over in which a card can be clicked and updated."""
        return self.now_ms() - message.created_at >= _LIVES_DAYS * _DAY * 1000

    def sent_as(self, uuid: str) -> Message | None:
        """The message that was sent under this uuid within the hour."""
        message = self.messages.get(self._uuids.get(uuid, ""))
        fresh = message and self.now_ms() - message.created_at < _DEDUPE_SECONDS * 1000
        return message if fresh else None

    def view(self, message: Message) -> dict[str, Any]:
        """A message as `/api` shows it."""
        file = next((self.files[key] for key in file_keys(message.content) if key in self.files), None)
        shown = {"file_key": file.file_key, "file_name": file.file_name, "size": len(file.content)} if file else None
        return {
            "message_id": message.message_id,
            "chat_id": message.chat_id,
            "msg_type": message.msg_type,
            "sender": message.sender,
            "content": {**message.content, "file_name": file.file_name} if file else message.content,
            "created_at": message.created_at,
            "updated_at": message.updated_at,
            "revision": message.revision,
            "reply_to": message.reply_to,
            "uuid": message.uuid,
            "files": [shown] if shown else [],
        }

    def _remember(self, message: Message) -> None:
        self.messages[message.message_id] = message
        if message.chat_id in self._private:
            self.chats[message.chat_id] = self._private[message.chat_id]
        if message.uuid:
            self._uuids[message.uuid] = message.message_id

    def _keep_message(self, message: Message) -> None:
        self._store.put("message", message.message_id, vars(message))

    # Files

    def add_file(self, file_name: str, file_type: str, content: bytes) -> File:
        kind = "img" if file_type == "image" else "file"
        file = File(f"{kind}_v3_{secrets.token_hex(16)}", file_name, file_type, content)
        self._keep_file(file)
        return file

    def swap_file(self, file: File, content: bytes) -> None:
        """Let a file hold something else from now on, as no platform should."""
        self._keep_file(replace(file, content=content))

    def remove_file(self, file: File) -> None:
        del self.files[file.file_key]
        self._store.remove("file", file.file_key)

    def _keep_file(self, file: File) -> None:
        self.files[file.file_key] = file
        kept = {"file_key": file.file_key, "file_name": file.file_name, "file_type": file.file_type}
        self._store.put("file", file.file_key, kept, file.content)

    # Deliveries

    def keep_delivery(self, delivery: Delivery) -> None:
        self.deliveries[delivery.delivery_id] = delivery
        self._store.put("delivery", delivery.delivery_id, vars(delivery))

    # Those who watch

    def tell(self, kind: str, **about: Any) -> None:
        """Let everyone who watches know."""
        for listener in list(self._listeners):
            if listener.full():
                self._dismiss(listener)  # who reads so slowly starts over with a new connection
            else:
                listener.put_nowait({"kind": kind, **about})

    def listen(self) -> Listener:
        """Everything that happens from now on; None when there is no more."""
        listener: Listener = asyncio.Queue(_STREAM_BACKLOG)
        self._listeners.add(listener)
        return listener

    def stop_listening(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def dismiss_listeners(self) -> None:
        """Tell those who watch that there is no more, so that the server can end."""
        for listener in list(self._listeners):
            self._dismiss(listener)

    def _dismiss(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if listener.full():
            listener.get_nowait()
        listener.put_nowait(None)

    # All of it

    def reset(self) -> None:
        """Forget messages, files, deliveries and faults."""
        self.messages.clear()
        self.files.clear()
        self.deliveries.clear()
        self._uuids.clear()
        self.limits.clear()
        self.faults.replace([])
        self.chats = {chat.chat_id: chat for chat in GROUPS}
        self._store.clear()
        self.tell("reset")

    def close(self) -> None:
        self.dismiss_listeners()
        self._store.close()


def file_keys(content: dict[str, Any]) -> list[str]:
    """The keys of the files and pictures that a message carries."""
    said = [content.get("file_key"), content.get("image_key")]
    lines = content.get("content")
    for line in lines if isinstance(lines, list) else ():
        said += [element.get("image_key") for element in line if isinstance(element, dict)]
    return [key for key in said if isinstance(key, str)]


def compact(value: Any) -> str:
    """JSON as the platform writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
