"""What Feishu answers, as far as it is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from assent.contracts.values import Frozen

Key = Annotated[str, StringConstraints(min_length=1)]


class Sent(Frozen):
    """A message that is in its chat."""

    message_id: Key
    chat_id: str | None = None


class SentAnswer(Frozen):
    data: Sent


class File(Frozen):
    file_key: Key


class FileAnswer(Frozen):
    data: File


class Image(Frozen):
    image_key: Key


class ImageAnswer(Frozen):
    data: Image


class User(Frozen):
    open_id: Key
    union_id: str | None = None
    user_id: str | None = None
    name: str | None = None

    @property
    def ids(self) -> dict[str, str]:
        found = {"open_id": self.open_id, "union_id": self.union_id, "user_id": self.user_id}
        return {kind: value for kind, value in found.items() if value}


class UserData(Frozen):
    user: User


class UserAnswer(Frozen):
    data: UserData


class Chat(Frozen):
    name: str | None = None
    chat_mode: str | None = None

    @property
    def is_private(self) -> bool:
        """Whether it is somebody's own chat with the bot."""
        return self.chat_mode == "p2p"


class ChatAnswer(Frozen):
    data: Chat


class Body(Frozen):
    content: str | None = None


class Item(Frozen):
    message_id: str
    chat_id: Key
    msg_type: str | None = None
    body: Body = Body()

    @property
    def content(self) -> str | None:
        """What it says, as JSON."""
        return self.body.content


class Items(Frozen):
    items: tuple[Item, ...] = ()


class ItemsAnswer(Frozen):
    data: Items


class Bot(Frozen):
    open_id: Key


class BotAnswer(Frozen):
    bot: Bot


class Member(Frozen):
    member_id: str


class Page(Frozen):
    items: tuple[Member, ...] = ()
    has_more: bool = False
    page_token: str | None = None


class PageAnswer(Frozen):
    data: Page
