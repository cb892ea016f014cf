"""Shared files as a library: the handle, the resolver, and the function below it that tells gone from down."""

from __future__ import annotations

import io
import logging
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assent import Identity
from assent.files import (
    Fetched,
    FileGone,
    FileTooLarge,
    FileUnavailable,
    InMemorySharedFileStore,
    SharedFile,
    SharedFileResolver,
    Source,
    SqliteSharedFileStore,
    fetch,
    shared_file_keys,
)
from assent.payload import sha256

ME = Identity(open_id="ou_secret_me", tenant_key="t1")
LIMIT = 100


class OneFile:
    """A client with one file, which is handed out as the test says."""

    def __init__(self, data: bytes = b"abc", *, declared: int | None = None, raises: Exception | None = None) -> None:
        self.data, self.declared, self.raises, self.asked = data, declared, raises, 0

    @asynccontextmanager
    async def download(self, message_id: str, file_key: str, resource_type: str) -> AsyncIterator[Source]:
        self.asked += 1
        if self.raises is not None:
            raise self.raises
        yield Source(self._chunks(), self.declared, "text/plain; charset=utf-8")

    async def _chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.data), 10):
            yield self.data[start : start + 10]


class Simple:
    """A client that returns all of it."""

    async def download(self, message_id: str, file_key: str, resource_type: str) -> bytes:
        return f"{message_id} {file_key} {resource_type}".encode()


def handle(**more: Any) -> SharedFile:
    return SharedFile(file_id="sf_1", message_id="om_1", file_key="file_1", name="notes.txt", **more)


async def fetched(client: Any, **more: Any) -> tuple[Fetched, bytes]:
    into = io.BytesIO()
    return await fetch(client, handle(**more), into, limit=LIMIT), into.getvalue()


def test_a_handle_says_what_a_model_may_see_and_no_more() -> None:
    resource = {"key": "img_1", "kind": "image", "mime_type": "image/png", "size": 9}
    file = SharedFile.from_resource(
        resource, user_keys=shared_file_keys(ME), message={"message_id": "om_1"}, ttl_seconds=5, now=1000.0
    )
    assert file.summary() == {
        "file_id": file.file_id,
        "name": "image",
        "media_type": "image/png",
        "kind": "image",
        "size": 9,
        "received_at": 1000.0,
        "expires_at": 1005.0,
    }
    assert (file.file_key, file.resource_type, file.user_keys) == ("img_1", "image", ("t1/open_id:ou_secret_me",))
    assert SharedFile.from_dict(file.to_dict()) == file
    assert SharedFile.from_dict({**file.to_dict(), "of_a_newer_version": 1}) == file


@pytest.mark.parametrize(
    ("expires_at", "now", "is_expired"), [(0, 9e9, False), (10, 9.9, False), (10, 10, True), (10, 11, True)]
)
def test_expired_is_what_its_time_says(expires_at: float, now: float, is_expired: bool) -> None:
    assert handle(expires_at=expires_at).is_expired(now) is is_expired


def test_what_was_sent_as_audio_is_handed_out_as_a_file() -> None:
    for kind, resource_type in {"image": "image", "file": "file", "audio": "file", "video": "file"}.items():
        file = SharedFile.from_resource(
            {"key": "k", "kind": kind}, user_keys=(), message={"message_id": "om"}, ttl_seconds=0, now=1, file_id="sf_x"
        )
        assert (file.file_id, file.resource_type, file.kind) == ("sf_x", resource_type, kind)


def test_a_handle_alone_has_no_bytes() -> None:
    with pytest.raises(RuntimeError, match="only a handle"):
        handle().read()


async def test_fetching_says_what_the_bytes_are() -> None:
    found, data = await fetched(OneFile(b"a" * LIMIT, declared=LIMIT))
    assert data == b"a" * LIMIT
    assert found == Fetched(name="notes.txt", media_type="text/plain", size=LIMIT, sha256=sha256(data))
    found, data = await fetched(Simple())
    assert (data, found.media_type) == (b"om_1 file_1 file", "text/plain")


@pytest.mark.parametrize(
    ("client", "size"),
    [
        (OneFile(b"a", declared=LIMIT + 1), None),
        (OneFile(b"a" * (LIMIT + 1)), None),
        (OneFile(b"a" * (LIMIT + 1), declared=1), None),
        (OneFile(b"a"), LIMIT + 1),
    ],
    ids=["declared", "sent", "declared as less", "registered as more"],
)
async def test_what_is_too_large_is_not_fetched(client: OneFile, size: int | None) -> None:
    with pytest.raises(FileTooLarge, match="larger than 100 bytes"):
        await fetched(client, size=size)


async def test_gone_and_down_are_told_apart() -> None:
    with pytest.raises(FileGone, match="recalled"):
        await fetched(OneFile(raises=FileGone("the message was recalled")))
    for down in (
        OneFile(raises=OSError("no route")),
        OneFile(b"half", declared=8),
        OneFile(raises=FileUnavailable("busy")),
    ):
        with pytest.raises(FileUnavailable):
            await fetched(down)


async def shared(store: Any, data: bytes = b"abc", **more: Any) -> tuple[SharedFileResolver, OneFile, SharedFile]:
    client = OneFile(data, **more)
    file = await store.register(ME, {"key": "k", "name": "secret-name"}, message={"message_id": "om"}, ttl_seconds=60)
    return SharedFileResolver(store, client, max_materialize_bytes=LIMIT), client, file


async def test_the_resolver_reads_the_cache_first_and_refills_what_is_pinned() -> None:
    store = InMemorySharedFileStore()
    resolver, client, file = await shared(store)
    assert await resolver.read_bytes(ME, file.file_id) == (b"abc", file)
    assert await store.read_cached(ME, file.file_id) is None
    assert await resolver.pin(ME, file.file_id)
    assert await store.read_cached(ME, file.file_id) == b"abc"
    client.raises = FileGone("deleted")
    data, pinned = await resolver.read_bytes(ME, file.file_id) or (None, None)
    assert data == b"abc"
    assert pinned is not None
    assert pinned.pinned
    assert client.asked == 2
    assert [each.file_id for each in await resolver.recent(ME)] == [file.file_id]


class Broken(InMemorySharedFileStore):
    """A store that can keep no bytes, or nothing at all."""

    def __init__(self, *, is_gone: bool = False) -> None:
        super().__init__()
        self.is_gone = is_gone

    async def get(self, user: object, file_id: str) -> SharedFile | None:
        if self.is_gone:
            raise OSError("the disk of ou_secret_me is gone")
        return await super().get(user, file_id)

    async def recent(self, user: object, *, limit: int = 10) -> list[SharedFile]:
        raise OSError("the disk of ou_secret_me is gone")

    async def pin(self, user: object, file_id: str, *, cache_bytes: bytes | None = None) -> bool:
        if cache_bytes is not None or self.is_gone:
            raise OSError("the disk of ou_secret_me is full")
        return await super().pin(user, file_id)


async def test_the_resolver_never_raises_and_logs_no_names(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = InMemorySharedFileStore()
    for problem in (FileGone("secret-name was recalled"), OSError("ou_secret_me"), FileUnavailable("ou_secret_me")):
        resolver, _, file = await shared(store, raises=problem)
        assert await resolver.read_bytes(ME, file.file_id) is None
    resolver, _, file = await shared(store, b"a" * (LIMIT + 1))
    assert await resolver.read_bytes(ME, file.file_id) is None
    await store.pin(ME, file.file_id, cache_bytes=b"a" * (LIMIT + 1))
    assert await resolver.read_bytes(ME, file.file_id) is None
    assert await resolver.read_bytes({"open_id": "ou_else"}, file.file_id) is None
    assert await resolver.read_bytes(ME, "ou_secret_me") is None
    assert not await resolver.pin(ME, "sf_other")
    resolver, _, file = await shared(Broken())
    assert await resolver.pin(ME, file.file_id)
    assert await resolver.recent(ME) == []
    resolver, _, file = await shared(Broken(is_gone=True))
    assert await resolver.read_bytes(ME, file.file_id) is None
    assert not await resolver.pin(ME, file.file_id)
    assert len(caplog.records) >= 9
    assert "secret" not in caplog.text


async def test_the_file_of_a_store_is_its_owner_s_alone_and_outlives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "new" / "files.db"
    first = SqliteSharedFileStore(path)
    file = await first.register(ME, {"key": "k"}, message={"message_id": "om"}, ttl_seconds=60)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    second = SqliteSharedFileStore(path)
    assert await second.get(ME, file.file_id) == file
    first.close()
    second.close()
