"""Handles in this process's memory: for tests, and for bots that may forget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from assent.files.shared_file import SharedFile, shared_file_keys
from assent.files.store import owner_keys


class InMemorySharedFileStore:
    """Forgets everything when its process ends."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._files: dict[str, SharedFile] = {}
        self._bytes: dict[str, bytes] = {}

    async def register(self, user: object, resource: object, *, message: object, ttl_seconds: float) -> SharedFile:
        keys = owner_keys(user)
        file = SharedFile.from_resource(
            resource, user_keys=keys, message=message, ttl_seconds=ttl_seconds, now=self._clock()
        )
        for known in self._files.values():
            if (known.message_id, known.file_key) == (file.message_id, file.file_key) and known.belongs_to(keys):
                return known
        self._files[file.file_id] = file
        return file

    async def get(self, user: object, file_id: str) -> SharedFile | None:
        return next((file for file in self._of(user) if file.file_id == file_id), None)

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        return list(self._of(user))[: max(limit, 0)]

    async def pin(self, user: object, file_id: str, *, cache_bytes: bytes | None = None) -> bool:
        file = await self.get(user, file_id)
        if file is None:
            return False
        self._files[file_id] = replace(file, pinned=True, expires_at=0.0)
        if cache_bytes is not None:
            self._bytes[file_id] = bytes(cache_bytes)
        return True

    async def read_cached(self, user: object, file_id: str) -> bytes | None:
        return self._bytes.get(file_id) if await self.get(user, file_id) else None

    async def purge_expired(self) -> int:
        expired = [file_id for file_id, file in self._files.items() if file.is_expired(self._clock())]
        for file_id in expired:
            del self._files[file_id]
            self._bytes.pop(file_id, None)
        return len(expired)

    def _of(self, user: object) -> Iterator[SharedFile]:
        """Somebody's files, the newest first."""
        keys, now = shared_file_keys(user), self._clock()
        newest_last = sorted(self._files.values(), key=lambda file: file.created_at)
        for file in reversed(newest_last):
            if file.belongs_to(keys) and not file.is_expired(now):
                yield file
