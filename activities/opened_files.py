"""The files of a call, opened for its body: exactly the bytes that were approved, for as long as the body runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

from activities.bodies import Body
from activities.quoting import unquoted
from assent import reasons
from assent.content import describe
from assent.errors import FileGone
from assent.files import SharedFile
from assent.payload import payload_files
from ledger import LedgerFiles, Pin

_PREFIX = "assent-files-"
_LOCK = "in-use"
_NAME_BYTES = 100


class OtherBytes(Exception):
    """What is kept of a file is not what was approved."""


class _OnDisk:
    """The bytes of one file in a place that is this call's alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        return self._path.read_bytes()

    def path(self) -> Path:
        return self._path


class OpenedFiles:
    """The files of a call. From `fill` on their bytes are there, until it is left or the body has ended."""

    def __init__(self) -> None:
        self.by_id: dict[str, SharedFile] = {}
        self._is_lent = False
        self._directory: Path | None = None

    def named_in(self, payload: str) -> dict[str, SharedFile]:
        """The files that a payload names, each with a place for its bytes."""
        named = payload_files(payload)
        if named:
            self._directory = Path(tempfile.mkdtemp(dir=_own_directory()))
        self.by_id = {
            file_id: SharedFile(file_id=file_id, **said, content=_OnDisk(self._place(n, str(said["name"]))))
            for n, (file_id, said) in enumerate(named.items())
        }
        return self.by_id

    async def fill(self, files: LedgerFiles, approval_id: str) -> None:
        """Put the bytes in their places, a part at a time, and compare them with what was approved.

        Raises OtherBytes where they are not that, or are not there any more.
        """
        kept = await files.pins(approval_id) if self.by_id else {}
        for file_id, file in self.by_id.items():
            if file_id not in kept:
                raise OtherBytes(reasons.BYTES_ARE_GONE(file_id=file_id))
            await self._copy(files, kept[file_id], file)

    async def _copy(self, files: LedgerFiles, pin: Pin, file: SharedFile) -> None:
        digest, size = hashlib.sha256(), 0
        path = file.path()
        path.parent.mkdir(mode=0o700)
        try:
            with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as data:  # noqa: ASYNC230
                async for part in files.parts(pin):
                    digest.update(part)
                    size += len(part)
                    data.write(part)
        except FileGone:
            raise OtherBytes(reasons.BYTES_ARE_GONE(file_id=file.file_id)) from None
        if (digest.hexdigest(), size) != (file.sha256, file.size):
            raise OtherBytes(reasons.OTHER_BYTES(file_id=file.file_id))

    def said(self, error: BaseException) -> str:
        """What is told of what a body raises: none of its files' bytes, which it may quote."""
        return unquoted(describe(error), [file.path() for file in self.by_id.values()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_lent:
            self._remove()

    def stay_until_end(self, body: Body) -> None:
        """Stay until a body has ended, also one that nobody waits for any more."""
        self._is_lent = True
        body.then(self._remove)

    def _remove(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _place(self, n: int, name: str) -> Path:
        assert self._directory is not None, "there are files"
        return self._directory / str(n) / _safe(name)


def _safe(name: str) -> str:
    """A name that leads nowhere else, and keeps its ending."""
    plain = re.sub(r"[^\w.()\[\] -]+", "_", name).strip(". ") or "file"
    while len(plain.encode()) > _NAME_BYTES:
        plain = plain[1:]
    return plain.lstrip(". ") or "file"


@cache
def _own_directory() -> Path:
    """Where this process puts files. What dead processes have left is removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_left(left)
    while True:
        own = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(own / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for as long as this process lives
        if (own / _LOCK).exists():
            return own
        os.close(lock)  # somebody took it for left behind, before it was locked


def _remove_if_left(directory: Path) -> None:
    if directory.is_symlink() or directory.stat().st_uid != os.getuid():
        return
    lock = os.open(directory / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)
