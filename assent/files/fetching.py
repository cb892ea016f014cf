"""Fetching a file's bytes: how many they may be, and whether one that cannot be had is gone or only out of reach."""

from __future__ import annotations

import hashlib
import inspect
import mimetypes
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from assent.errors import FileGone, FileTooLarge, FileUnavailable
from assent.files.shared_file import SharedFile

MAX_BYTES = 20 * 1024 * 1024
"""How large a file may be where nobody says otherwise."""
_LONGEST_TYPE = 100


@dataclass(frozen=True)
class Source:
    """A file on its way: its bytes as they come, and what was said of them before."""

    chunks: AsyncIterator[bytes]
    declared_size: int | None = None
    """What Content-Length says, if anything."""
    media_type: str | None = None


class FileClient(Protocol):
    """What hands out the files that messages carry.

    It raises `FileGone` for what can never be had again; whatever else it raises means: try again later.
    """

    def download(
        self, message_id: str, file_key: str, resource_type: str
    ) -> AbstractAsyncContextManager[Source] | Awaitable[bytes]:
        """Open a file; or, where nobody minds the memory, return all of it."""
        ...


@dataclass(frozen=True)
class Fetched:
    """What is known of a file once its bytes are here."""

    name: str
    media_type: str
    size: int
    sha256: str


async def fetch(client: FileClient, file: SharedFile, into: BinaryIO, *, limit: int = MAX_BYTES) -> Fetched:
    """Write a file's bytes to *into*, as they come, and say what they are.

    Raises `FileGone` where they can never be had (`FileTooLarge` where they are more than *limit*), and
    `FileUnavailable` where trying again may help. What is in *into* then is not the file.
    """
    if (file.size or 0) > limit:
        raise FileTooLarge(limit)
    try:
        opening = client.download(file.message_id, file.file_key, file.resource_type)
        if inspect.isawaitable(opening):
            data = await opening
            return await _copied(file, Source(_once(data), len(data)), into, limit)
        async with opening as source:
            return await _copied(file, source, into, limit)
    except (FileGone, FileUnavailable):
        raise
    except Exception as error:
        raise FileUnavailable(type(error).__name__) from error


async def _copied(file: SharedFile, source: Source, into: BinaryIO, limit: int) -> Fetched:
    if (source.declared_size or 0) > limit:
        raise FileTooLarge(limit)
    digest, size = hashlib.sha256(), 0
    async for chunk in source.chunks:
        size += len(chunk)
        if size > limit:
            raise FileTooLarge(limit)
        digest.update(chunk)
        into.write(chunk)
    if source.declared_size is not None and size != source.declared_size:
        raise FileUnavailable("it sent another number of bytes than it said")
    into.flush()
    media_type = (source.media_type or "").partition(";")[0].strip().lower()
    if not media_type.isascii() or not media_type.isprintable() or media_type in ("", "application/octet-stream"):
        media_type = file.media_type or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    name = file.name
    if "." not in name and (ending := mimetypes.guess_extension(media_type)):
        name += ending
    return Fetched(name=name, media_type=media_type[:_LONGEST_TYPE], size=size, sha256=digest.hexdigest())


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
