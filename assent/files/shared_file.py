"""A shared file: what is known of it, whose it is, and in a tool's body its bytes."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol, Self
from urllib.parse import quote

from pydantic import AliasChoices, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from assent.arguments.schema import FILE_FORMAT
from assent.contracts.values import Frozen, Id, Text

FILE_ID = r"^sf_[A-Za-z0-9_-]{1,100}$"
_KINDS = ("open_id", "union_id", "user_id")
_LASTING = ("open_id", "union_id")
"""The kinds of id that stay with a person for good; a user_id can be changed, and given to somebody else."""
_FOR_THE_MODEL = (
    "The id of a file that the person shared with the bot, such as sf_0a1b2c. "
    "Send the id alone: the tool reads the file itself."
)


class _User(Frozen):
    model_config = ConfigDict(from_attributes=True)

    open_id: Id | None = None
    union_id: Id | None = None
    user_id: Id | None = None
    tenant_key: Id | None = None


class _Resource(Frozen):
    """Something a message carries, as channels describe it."""

    model_config = ConfigDict(from_attributes=True)

    key: Id = Field(validation_alias=AliasChoices("key", "file_key"))
    kind: Id = Field(default="file", validation_alias=AliasChoices("kind", "type"))
    resource_type: Literal["image", "file"] | None = None
    name: Text | None = Field(default=None, validation_alias=AliasChoices("name", "file_name"))
    mime_type: Text | None = Field(default=None, validation_alias=AliasChoices("mime_type", "media_type"))
    size: int | None = None
    meta: dict[str, Any] = Field(default_factory=dict)


class _Message(Frozen):
    model_config = ConfigDict(from_attributes=True)

    message_id: Id = Field(validation_alias=AliasChoices("message_id", "id"))
    chat_id: Id | None = None


def shared_file_keys(user: object) -> tuple[str, ...]:
    """All keys that open a person's files: one for each id that is known of them, within their tenant.

    user: an `Identity`, or anything with an open_id, union_id, user_id and tenant_key; also a mapping of these.
    """
    given = user if isinstance(user, Mapping) else {name: getattr(user, name, None) for name in _User.model_fields}
    known = _User.model_validate({name: value or None for name, value in given.items()})
    ids = ((kind, getattr(known, kind)) for kind in _KINDS)
    return keys_within(known.tenant_key, (f"{kind}:{value}" for kind, value in ids if value))


def keys_within(tenant_key: str | None, typed_ids: Iterable[str]) -> tuple[str, ...]:
    """The keys of somebody who is known by these ids, such as `open_id:ou_1`, in a tenant."""
    tenant = f"{quote(tenant_key, safe='')}/" if tenant_key else ""
    return tuple(f"{tenant}{kind}:{quote(value, safe='')}" for kind, _, value in (i.partition(":") for i in typed_ids))


def kind_of(key: str) -> str:
    """Which kind of id a key is made of."""
    return key.rpartition("/")[2].partition(":")[0]


def are_one(one: Collection[str], other: Collection[str]) -> bool:
    """Whether two sets of keys are one person's: they share one, and no id that lasts speaks against it."""
    lasting = [{key for key in keys if kind_of(key) in _LASTING} for keys in (one, other)]
    comparable = {kind_of(key) for key in lasting[0]} & {kind_of(key) for key in lasting[1]}
    if comparable:
        return {kind_of(key) for key in lasting[0] & lasting[1]} == comparable
    return not set(one).isdisjoint(other)


class Bytes(bytes):
    """What a file holds; awaiting it gives the same, so that one `read` serves plain and asynchronous tools."""

    def __await__(self) -> Generator[None, None, bytes]:
        yield from ()
        return self


class Content(Protocol):
    """Where the bytes of an opened file are."""

    def read(self) -> bytes: ...

    def path(self) -> Path: ...


@dataclass(frozen=True, kw_only=True)
class SharedFile:
    """Something a person sent: a handle that is theirs alone; as a tool's argument also its bytes.

    name: as its sender called it; what has no name is called after its kind.
    media_type, size: as its sender's client says; None until somebody has looked at the bytes.
    kind: image, file, audio or video; resource_type is how Feishu hands it out, image or file.
    created_at, expires_at: seconds since 1970; expires_at 0 is never.
    pinned: it is kept, and does not expire.
    sha256: the hash of its bytes, where somebody has looked at them.
    """

    file_id: str
    user_keys: tuple[str, ...] = ()
    message_id: str = ""
    file_key: str = ""
    resource_type: Literal["image", "file"] = "file"
    kind: str = "file"
    name: str = "file"
    media_type: str | None = None
    size: int | None = None
    chat_id: str | None = None
    created_at: float = 0.0
    expires_at: float = 0.0
    pinned: bool = False
    meta: dict[str, Any] = field(default_factory=dict, hash=False)
    sha256: str | None = None
    content: Content | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_resource(
        cls,
        resource: object,
        *,
        user_keys: Collection[str],
        message: object,
        ttl_seconds: float,
        now: float,
        file_id: str | None = None,
    ) -> Self:
        """The handle of something a message carries; without a file_id it gets one that nobody can guess.

        resource: its key, and as far as they are known its name, mime_type, size and kind; an object or a mapping.
        message: its message_id and chat_id; an object or a mapping.
        ttl_seconds: how long it stays; 0 for ever.
        """
        found, sent = _Resource.model_validate(resource), _Message.model_validate(message)
        if ttl_seconds < 0:
            raise ValueError("ttl_seconds: nothing expires before it was sent; 0 means never")
        return cls(
            file_id=file_id or new_file_id(),
            user_keys=tuple(user_keys),
            message_id=sent.message_id,
            file_key=found.key,
            resource_type=found.resource_type or ("image" if found.kind == "image" else "file"),
            kind=found.kind,
            name=found.name or found.kind,
            media_type=found.mime_type or None,
            size=found.size,
            chat_id=sent.chat_id,
            created_at=now,
            expires_at=now + ttl_seconds if ttl_seconds else 0.0,
            meta=dict(found.meta),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave; fields of a newer version are left out."""
        known = {each.name for each in fields(cls)} - {"content"}
        given = {name: value for name, value in values.items() if name in known}
        return cls(**{**given, "user_keys": tuple(given.get("user_keys", ()))})

    def to_dict(self) -> dict[str, Any]:
        """All that is known of it, for a store; never its bytes."""
        known = asdict(_without_content(self))
        del known["content"]
        return {**known, "user_keys": list(self.user_keys)}

    def summary(self) -> dict[str, Any]:
        """What an agent and its model may see."""
        return {
            "file_id": self.file_id,
            "name": self.name,
            "media_type": self.media_type,
            "kind": self.kind,
            "size": self.size,
            "received_at": self.created_at,
            "expires_at": self.expires_at,
        }

    def is_expired(self, now: float | None = None) -> bool:
        """Whether it is no longer there, at a time in seconds since 1970 or now."""
        return self.expires_at != 0 and self.expires_at <= (time.time() if now is None else now)

    def belongs_to(self, user_keys: Collection[str]) -> bool:
        """Whether these keys are its owner's."""
        return are_one(self.user_keys, user_keys)

    def read(self) -> Bytes:
        """All of its bytes, in a tool's body; `await file.read()` gives the same."""
        return Bytes(self._opened().read())

    def path(self) -> Path:
        """A temporary file with its bytes, in a tool's body; it is removed when the body has ended."""
        return self._opened().path()

    def _opened(self) -> Content:
        if self.content is None:
            raise RuntimeError(
                f"{self.file_id} is only a handle here: a tool's body gets the bytes, "
                "a bot of your own reads them with SharedFileResolver.read_bytes"
            )
        return self.content

    # As the parameter of a tool

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        named = core_schema.with_info_after_validator_function(
            _opened_for_tool, core_schema.str_schema(pattern=FILE_ID)
        )
        return core_schema.json_or_python_schema(
            json_schema=named,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), named]),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda file: file.file_id),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "format": FILE_FORMAT, "pattern": FILE_ID, "description": _FOR_THE_MODEL}


def new_file_id() -> str:
    """An id that nobody can guess."""
    return f"sf_{secrets.token_hex(16)}"


def is_file_id(text: str) -> bool:
    return re.match(FILE_ID, text) is not None


def _without_content(file: SharedFile) -> SharedFile:
    return file if file.content is None else SharedFile(**{**file.__dict__, "content": None})


def _opened_for_tool(file_id: str, info: ValidationInfo) -> SharedFile:
    """The file that an argument names: among those that were opened for the call, where any were."""
    files: Mapping[str, SharedFile] | None = (info.context or {}).get("files")
    if files is None:
        return SharedFile(file_id=file_id)
    if file_id not in files:
        raise PydanticCustomError("shared_file", "the call was approved without this file")
    return files[file_id]
