"""Shared files in the ledger: a `SharedFileStore`, and what approvals keep of them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import BinaryIO

from pydantic import ValidationError

from assent.contracts.identity import Identity
from assent.files import Fetched, FileGone, SharedFile
from assent.files.store import owner_keys
from ledger import pins, shared_files
from ledger.engine import Engine
from ledger.pins import CHUNK, OWN, Pin

_TRIES = 3
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


class LedgerFiles:
    """The files that people shared. Any id of a person's opens theirs, by all that Feishu has proved of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # As every store of shared files

    async def register(self, user: object, resource: object, *, message: object, ttl_seconds: float) -> SharedFile:
        keys = owner_keys(user)
        file = SharedFile.from_resource(resource, user_keys=keys, message=message, ttl_seconds=ttl_seconds, now=0.0)
        identity = _identity(user)
        assert identity is not None, "it has a key"
        return await self._engine.write(shared_files.register, identity, file, ttl_seconds)

    async def get(self, user: object, file_id: str) -> SharedFile | None:
        return await self._engine.read(shared_files.get, _identity(user), file_id)

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        return await self._engine.read(shared_files.recent, _identity(user), limit)

    async def pin(self, user: object, file_id: str, *, cache_bytes: bytes | None = None) -> bool:
        file = await self.get(user, file_id)
        if file is None:
            return False
        if cache_bytes is not None:
            digest = hashlib.sha256(cache_bytes).hexdigest()
            kept = Fetched(file.name, file.media_type or "", len(cache_bytes), digest)
            await self.keep(OWN, file_id, kept, io.BytesIO(cache_bytes), until=_NEVER)
        await self._engine.write(shared_files.keep, file_id)
        return True

    async def read_cached(self, user: object, file_id: str) -> bytes | None:
        if await self.get(user, file_id) is None:
            return None
        kept = (await self.pins(OWN)).get(file_id)
        return b"".join([part async for part in self.parts(kept)]) if kept else None

    async def purge_expired(self) -> int:
        """Remove what has expired, and the bytes that nobody can need any more; tells how many files."""
        purged = 0
        while some := await self._engine.write(shared_files.purge):
            purged += some
        await self._engine.write(pins.purge)
        return purged

    # What approvals keep

    async def keep(
        self,
        holder: str,
        file_id: str,
        fetched: Fetched,
        data: BinaryIO,
        *,
        until: datetime,
        preview: str | None = None,
    ) -> Pin:
        """Keep a file's bytes for an approval; of two that fetched it, the first one's.

        until: when an approval of which the ledger never heard may be given up.
        """
        pin = Pin(
            file_id=file_id,
            sha256=fetched.sha256,
            size=fetched.size,
            media_type=fetched.media_type,
            name=fetched.name,
            preview=preview,
        )
        for _ in range(_TRIES):
            if not await self._engine.read(pins.has_bytes, pin.sha256, pin.size):
                await self._store(pin.sha256, data)
            kept = await self._engine.write(pins.pin, holder, pin, until, replaces=holder == OWN)
            if kept is not None:
                return kept
        raise RuntimeError("bytes that were just written are gone")

    async def _store(self, sha256: str, data: BinaryIO) -> None:
        """Write the bytes a part at a time, each by itself: nobody waits for the whole of a large file."""
        data.seek(0)
        n = 0
        while chunk := data.read(CHUNK):
            await self._engine.write(pins.put, sha256, n, chunk)
            n += 1

    async def pins(self, holder: str) -> dict[str, Pin]:
        """What an approval keeps, by the file's id."""
        return await self._engine.read(pins.pins_of, holder)

    async def parts(self, pin: Pin) -> AsyncIterator[bytes]:
        """The bytes that are kept, a part at a time. Raises FileGone where one is missing."""
        for n in range(-(-pin.size // CHUNK)):
            part = await self._engine.read(pins.part, pin.sha256, n)
            if part is None:
                raise FileGone("its bytes are no longer kept")
            yield part

    async def describe(self, file_id: str, fetched: Fetched) -> None:
        """Say of a file what its bytes are, now that somebody has seen them."""
        await self._engine.write(shared_files.describe, file_id, fetched.name, fetched.media_type, fetched.size)


def _identity(user: object) -> Identity | None:
    """Whom a store is asked about; None for nobody."""
    if isinstance(user, Identity):
        return user
    ids = ("open_id", "union_id", "user_id", "tenant_key")
    given = user if isinstance(user, dict) else {name: getattr(user, name, None) for name in ids}
    try:
        return Identity.model_validate({name: value or None for name, value in given.items()})
    except ValidationError:
        return None
