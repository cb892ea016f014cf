"""What survives a restart: one SQLite table of JSON documents, some with bytes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Store:
    """Keeps documents in the order they were first put. Without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A test double may lose its last moment in a power cut; the death of the process loses nothing.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS documents ("
            "position INTEGER PRIMARY KEY, kind TEXT, key TEXT, json TEXT, bytes BLOB, UNIQUE (kind, key))"
        )

    def put(self, kind: str, key: str, document: dict[str, Any], content: bytes | None = None) -> None:
        if self._connection is not None:
            self._connection.execute(
                "INSERT INTO documents (kind, key, json, bytes) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (kind, key) DO UPDATE SET json = excluded.json, bytes = excluded.bytes",
                (kind, key, json.dumps(document, ensure_ascii=False), content),
            )

    def all(self, kind: str) -> Iterator[tuple[dict[str, Any], bytes]]:
        if self._connection is not None:
            rows = self._connection.execute(
                "SELECT json, bytes FROM documents WHERE kind = ? ORDER BY position", (kind,)
            )
            for document, content in rows:
                yield json.loads(document), content or b""

    def remove(self, kind: str, key: str) -> None:
        if self._connection is not None:
            self._connection.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key))

    def clear(self) -> None:
        if self._connection is not None:
            self._connection.execute("DELETE FROM documents")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
