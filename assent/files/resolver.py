"""The one place where a bot of one's own gets at bytes."""

from __future__ import annotations

import io
import logging

from assent.files.fetching import MAX_BYTES, FileClient, fetch
from assent.files.shared_file import SharedFile, is_file_id
from assent.files.store import SharedFileStore


class SharedFileResolver:
    """Reads files for the person who asks: from the store's cache, else from where they were shared.

    It never raises: whatever fails gives nothing, and is logged without anybody's name.
    """

    def __init__(
        self,
        store: SharedFileStore,
        client: FileClient,
        *,
        max_materialize_bytes: int = MAX_BYTES,
        logger: logging.Logger | None = None,
    ) -> None:
        self._store = store
        self._client = client
        self._limit = max_materialize_bytes
        self._log = logger or logging.getLogger(__name__)

    async def read_bytes(self, user: object, file_id: str) -> tuple[bytes, SharedFile] | None:
        """A file of the person's, and all of its bytes; None if there is none, or it cannot be had now.

        user: who the conversation is with, never whom a model names.
        """
        try:
            file = await self._store.get(user, file_id)
            if file is None:
                self._log.info("%s: no such file", _shown(file_id))
                return None
            data = await self._store.read_cached(user, file_id)
            if data is None:
                data = await self._fetched(user, file)
            elif len(data) > self._limit:
                self._log.warning("%s: it is larger than %d bytes", _shown(file_id), self._limit)
                return None
        except Exception as error:
            self._log.warning("%s cannot be read: %s", _shown(file_id), type(error).__name__)
            return None
        return data, file

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        """Somebody's files, the newest first."""
        try:
            return await self._store.recent(user, limit=limit)
        except Exception as error:
            self._log.warning("the files cannot be listed: %s", type(error).__name__)
            return []

    async def pin(self, user: object, file_id: str) -> bool:
        """Keep a file beyond its time, with its bytes where they can be had now."""
        try:
            if not await self._store.pin(user, file_id):
                return False
        except Exception as error:
            self._log.warning("%s cannot be pinned: %s", _shown(file_id), type(error).__name__)
            return False
        await self.read_bytes(user, file_id)
        return True

    async def _fetched(self, user: object, file: SharedFile) -> bytes:
        into = io.BytesIO()
        await fetch(self._client, file, into, limit=self._limit)
        data = into.getvalue()
        if file.pinned:
            try:
                await self._store.pin(user, file.file_id, cache_bytes=data)
            except Exception as error:
                self._log.warning("%s is pinned, and not cached: %s", file.file_id, type(error).__name__)
        return data


def _shown(file_id: object) -> str:
    """An id as a log may show it: what is none is somebody's text."""
    return file_id if isinstance(file_id, str) and is_file_id(file_id) else "what is no id of a file"
