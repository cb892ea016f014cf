"""What keeps handles."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from assent.files.shared_file import SharedFile, shared_file_keys

NO_IDENTITY = "a shared file belongs to somebody: name an open_id, union_id or user_id"


@runtime_checkable
class SharedFileStore(Protocol):
    """Keeps handles, each for one person: any of their ids opens it, nobody else's does.

    What is not there, has expired or is somebody else's is all the same: None, False, or left out.
    """

    async def register(self, user: object, resource: object, *, message: object, ttl_seconds: float) -> SharedFile:
        """Keep what somebody sent, once for each person, message and file key. ValueError without an identity."""
        ...

    async def get(self, user: object, file_id: str) -> SharedFile | None: ...

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        """Somebody's files, the newest first."""
        ...

    async def pin(self, user: object, file_id: str, *, cache_bytes: bytes | None = None) -> bool:
        """Keep a file beyond its time, with its bytes if they are given; without them it keeps those it has."""
        ...

    async def read_cached(self, user: object, file_id: str) -> bytes | None: ...

    async def purge_expired(self) -> int:
        """Remove what has expired; tells how many."""
        ...


def owner_keys(user: object) -> tuple[str, ...]:
    """The keys of whoever registers a file; ValueError if there are none."""
    if not (keys := shared_file_keys(user)):
        raise ValueError(NO_IDENTITY)
    return keys
