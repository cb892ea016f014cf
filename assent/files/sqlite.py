"""Handles in a SQLite file of their own, for a bot that outlives its process."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from assent.files.shared_file import SharedFile, are_one, shared_file_keys
from assent.files.store import owner_keys

_Found = TypeVar("_Found")
_BUSY_SECONDS = 20.0
_COLUMNS = (
    *("file_id", "message_id", "file_key", "resource_type", "kind", "name", "media_type", "size", "chat_id"),
    *("created_at", "expires_at", "pinned", "meta"),
)
_TABLES = """
CREATE TABLE IF NOT EXISTS shared_files (
    file_id TEXT PRIMARY KEY, message_id TEXT NOT NULL, file_key TEXT NOT NULL, resource_type TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, media_type TEXT, size INTEGER, chat_id TEXT,
    created_at REAL NOT NULL, expires_at REAL NOT NULL, pinned INTEGER NOT NULL, meta TEXT NOT NULL,
    cached BLOB
);
CREATE TABLE IF NOT EXISTS shared_file_owners (
    owner_key TEXT NOT NULL, file_id TEXT NOT NULL REFERENCES shared_files (file_id) ON DELETE CASCADE,
    PRIMARY KEY (owner_key, file_id)
);
CREATE INDEX IF NOT EXISTS shared_file_owners_of_file ON shared_file_owners (file_id);
CREATE INDEX IF NOT EXISTS shared_files_of_message ON shared_files (message_id, file_key);
CREATE INDEX IF NOT EXISTS shared_files_expiring ON shared_files (expires_at) WHERE expires_at != 0;
"""
_ROWS = f"SELECT {', '.join(_COLUMNS)}, (SELECT json_group_array(owner_key) FROM shared_file_owners AS o WHERE o.file_id = f.file_id) AS user_keys FROM shared_files AS f"  # noqa: E501


class SqliteSharedFileStore:
    """One file, its owner's alone; any number of processes may share it."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._connection = _open(Path(path))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    async def register(self, user: object, resource: object, *, message: object, ttl_seconds: float) -> SharedFile:
        file = SharedFile.from_resource(
            resource, user_keys=owner_keys(user), message=message, ttl_seconds=ttl_seconds, now=self._clock()
        )
        return await self._do(lambda: self._register(file))

    async def get(self, user: object, file_id: str) -> SharedFile | None:
        keys = shared_file_keys(user)
        return await self._do(lambda: self._get(keys, file_id))

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        keys = shared_file_keys(user)
        return await self._do(lambda: self._recent(keys, limit))

    async def pin(self, user: object, file_id: str, *, cache_bytes: bytes | None = None) -> bool:
        keys = shared_file_keys(user)

        def pin() -> bool:
            if self._get(keys, file_id) is None:
                return False
            keeping = (
                "UPDATE shared_files SET pinned = 1, expires_at = 0, cached = coalesce(?, cached) WHERE file_id = ?"
            )
            self._connection.execute(keeping, (cache_bytes, file_id))
            return True

        return await self._do(pin)

    async def read_cached(self, user: object, file_id: str) -> bytes | None:
        keys = shared_file_keys(user)

        def read() -> bytes | None:
            reading = "SELECT cached FROM shared_files WHERE file_id = ?"
            found = self._connection.execute(reading, (file_id,)).fetchone() if self._get(keys, file_id) else None
            return found["cached"] if found else None

        return await self._do(read)

    async def purge_expired(self) -> int:
        purging = "DELETE FROM shared_files WHERE expires_at != 0 AND expires_at <= ?"
        return await self._do(lambda: self._connection.execute(purging, (self._clock(),)).rowcount)

    async def _do(self, operation: Callable[[], _Found]) -> _Found:
        """One operation as one transaction, in a thread: a slow disk holds up nobody."""

        def work() -> _Found:
            with self._lock, _transaction(self._connection):
                return operation()

        return await asyncio.to_thread(work)

    def _register(self, file: SharedFile) -> SharedFile:
        same = self._connection.execute(
            f"{_ROWS} WHERE message_id = ? AND file_key = ?", (file.message_id, file.file_key)
        )
        for row in same:
            if are_one((known := _file(row)).user_keys, file.user_keys):
                return known
        given = {**file.to_dict(), "meta": json.dumps(file.meta)}
        self._connection.execute(
            f"INSERT INTO shared_files ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})",
            {name: given[name] for name in _COLUMNS},
        )
        owners = [(key, file.file_id) for key in file.user_keys]
        self._connection.executemany("INSERT INTO shared_file_owners (owner_key, file_id) VALUES (?, ?)", owners)
        return file

    def _get(self, keys: Collection[str], file_id: str) -> SharedFile | None:
        row = self._connection.execute(f"{_ROWS} WHERE file_id = ?", (file_id,)).fetchone()
        file = _file(row) if row else None
        return file if file and file.belongs_to(keys) and not file.is_expired(self._clock()) else None

    def _recent(self, keys: Collection[str], limit: int) -> list[SharedFile]:
        theirs = ", ".join("?" * len(keys))
        rows = self._connection.execute(
            f"{_ROWS} WHERE file_id IN (SELECT file_id FROM shared_file_owners WHERE owner_key IN ({theirs})) "
            "AND (expires_at = 0 OR expires_at > ?) ORDER BY created_at DESC, rowid DESC",
            (*keys, self._clock()),
        )
        found: list[SharedFile] = []
        while len(found) < limit and (row := rows.fetchone()):
            if (file := _file(row)).belongs_to(keys):
                found.append(file)
        rows.close()
        return found


def _file(row: sqlite3.Row) -> SharedFile:
    values: dict[str, Any] = dict(row)
    return SharedFile.from_dict(
        {
            **values,
            "pinned": bool(values["pinned"]),
            "meta": json.loads(values["meta"]),
            "user_keys": sorted(json.loads(values["user_keys"])),
        }
    )


def _open(path: Path) -> sqlite3.Connection:
    """The file is its owner's alone; the directory too, if it is ours to make."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.executescript(_TABLES)
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
