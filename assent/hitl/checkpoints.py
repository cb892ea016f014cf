"""Where the messages of a thread are kept: what was said is appended, and never changed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote

from assent.errors import AssentError
from assent.hitl.exceptions import HitlConcurrencyError
from assent.payload import sha256

Message = dict[str, Any]
"""One message of a conversation, as the model's provider has it: JSON."""


class Checkpointer(Protocol):
    """Keeps the messages of threads, in order. A list only ever grows at its end."""

    async def load(self, thread_id: str) -> list[Message]:
        """All messages of a thread, in order; none, if nobody ever appended any."""

    async def append(self, thread_id: str, messages: Sequence[Message]) -> None:
        """Add messages at the end, durably."""


@runtime_checkable
class ExclusiveCheckpointer(Protocol):
    """A checkpointer that also sees to it that a thread runs in one place, and each of its calls begins once."""

    def hold(self, thread_id: str) -> AbstractAsyncContextManager[None]:
        """Have a thread to oneself. Raises HitlConcurrencyError while it runs elsewhere."""

    async def begin(self, thread_id: str, tool_call_id: str) -> bool:
        """Note that a call begins. False if it began before: then nobody knows whether it took effect."""

    async def leave(self, thread_id: str, tool_call_id: str) -> None:
        """Note that a call that began has stopped and may begin anew."""


class FileCheckpointer:
    """Threads in a folder, a file for each: one line for each message, on the disk before anything goes on.

    One process at a time runs a thread; the lock on it ends with that process, however it ends.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    async def load(self, thread_id: str) -> list[Message]:
        """All messages of a thread, in order."""
        return await asyncio.to_thread(_read, self._file(thread_id, "jsonl"))

    async def append(self, thread_id: str, messages: Sequence[Message]) -> None:
        """Add messages at the end of the file."""
        await asyncio.to_thread(_write, self._file(thread_id, "jsonl"), [*messages])

    @asynccontextmanager
    async def hold(self, thread_id: str) -> AsyncIterator[None]:
        """Have a thread to oneself, against other processes too."""
        import fcntl

        lock = _open(self._file(thread_id, "lock"))
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HitlConcurrencyError(f"thread {thread_id!r} runs elsewhere just now") from None
            yield
        finally:
            os.close(lock)

    async def begin(self, thread_id: str, tool_call_id: str) -> bool:
        """Note that a call begins; False if it began before."""
        begun = self._file(thread_id, "begun")
        steps = [each for each in await asyncio.to_thread(_read, begun) if tool_call_id in each.values()]
        if steps and "begun" in steps[-1]:
            return False
        await asyncio.to_thread(_write, begun, [{"begun": tool_call_id}])
        return True

    async def leave(self, thread_id: str, tool_call_id: str) -> None:
        """Note that a call that began has stopped and may begin anew."""
        await asyncio.to_thread(_write, self._file(thread_id, "begun"), [{"left": tool_call_id}])

    def _file(self, thread_id: str, ending: str) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f"{quote(thread_id, safe='')[:80]}-{sha256(thread_id)[:16]}.{ending}"


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        written = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = written[: written.rfind(b"\n") + 1]  # a line without its end was never finished
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        raise AssentError(f"{path} is damaged: it holds a line that is no JSON") from None


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    lines = b"".join(json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in entries)
    file = _open(path)
    try:
        _drop_unfinished(file)
        while lines:
            lines = lines[os.write(file, lines) :]
        os.fsync(file)
    finally:
        os.close(file)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _drop_unfinished(file: int) -> None:
    """Take away the part of a line that a process left behind when it died."""
    end = os.fstat(file).st_size
    kept = end
    while kept and os.pread(file, 1, kept - 1) != b"\n":
        kept -= 1
    if kept != end:
        os.ftruncate(file, kept)
