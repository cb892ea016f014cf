"""Files that people share: what a message carries, what became of it, and what is known of bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Text


class SharedResource(Frozen):
    """Something that a message carries."""

    key: Id
    kind: Literal["image", "file", "audio", "video"]
    name: Text | None = None


class FileMessage(Frozen):
    """Input of *register_files*: somebody sent files to the bot."""

    sender: Identity
    message_id: Id
    chat_id: Id | None = None
    resources: tuple[SharedResource, ...] = ()
    in_group: bool = False
    mentioned: tuple[Id, ...] = ()
    """Whom it mentions, by their open_ids: in a group only what mentions the bot is meant for it."""
    replies_to: Id | None = None
    """The message that it answers: where it carries no file itself, the files may be there."""


class ReceivedFile(Frozen):
    """A file as its sender is told of it."""

    name: str
    kind: str
    expires_at: datetime | None = None


class ReceivedFiles(Frozen):
    """Input of *answer_files*: what was registered of a message."""

    sender: Identity
    message_id: Id
    files: tuple[ReceivedFile, ...] = ()


class FileSummary(Frozen):
    """What agents and models may know of a file: not its owner, not where it lies, never what is in it."""

    file_id: str
    name: str
    media_type: str | None
    """None until somebody has looked at it."""
    kind: str
    """image, file, audio or video."""
    size: int | None
    """In bytes; None until somebody has looked at it."""
    received_at: float
    """In seconds since 1970."""
    expires_at: float
    """In seconds since 1970; 0 is never."""


class FileDigest(Frozen):
    """Which bytes a call would get: its files as they stand in the hashed payload."""

    file_id: str
    name: str
    media_type: str
    size: int
    sha256: str
    preview: str | None = None
    """The image that Feishu can show of it; it is no part of the payload."""

    def in_payload(self) -> dict[str, str | int]:
        """What is hashed of it."""
        return self.model_dump(include={"media_type", "name", "sha256", "size"})


class FilesWanted(Frozen):
    """The files that a call names, before anybody has looked at them."""

    approval_id: str
    requester: Identity
    file_ids: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Those of which nobody sees a preview."""
    until: datetime
    """The approval's deadline."""
