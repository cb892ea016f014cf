"""One table for everything that keeps shared files: whose they are, how long they stay, and what of them is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assent import Identity
from assent.files import InMemorySharedFileStore, SharedFile, SharedFileStore, SqliteSharedFileStore, shared_file_keys
from ledger import Ledger
from ledger.engine import Connection
from tests.conftest import new_database
from tests.support.waiting import until

HOUR = 3600.0
SOON_OVER = 1e-6
ME = Identity(open_id="ou_me", union_id="on_me", user_id="u_me", tenant_key="t1")
BOB = Identity(open_id="ou_bob", union_id="on_bob", user_id="u_bob", tenant_key="t1")


@pytest.fixture(scope="module", params=["memory", "sqlite", "ledger on sqlite", "ledger on postgres"])
async def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, Ledger | None]]:
    """Which store it is; a ledger is made once."""
    kind: str = request.param
    if not kind.startswith("ledger"):
        yield kind, None
        return
    ledger = Ledger.open(await new_database(kind.rpartition(" ")[2], tmp_path_factory.mktemp("files")))
    await ledger.upgrade()
    yield "ledger", ledger
    await ledger.dispose()


@pytest.fixture
async def store(kept: tuple[str, Ledger | None], tmp_path: Path) -> AsyncIterator[SharedFileStore]:
    kind, ledger = kept
    match kind:
        case "ledger":
            assert ledger is not None
            await ledger.engine.write(_forget)
            yield ledger.files
        case "memory":
            yield InMemorySharedFileStore()
        case "sqlite":
            own = SqliteSharedFileStore(tmp_path / "own" / "files.db")
            yield own
            own.close()


async def _forget(connection: Connection) -> None:
    for table in ("shared_file_owners", "shared_files", "file_pins", "file_chunks"):
        await connection.execute(f"DELETE FROM {table}")


async def share(store: SharedFileStore, key: str = "file_1", user: object = ME, **more: Any) -> SharedFile:
    resource = {"key": key, "name": "q3.pdf", **more.pop("resource", {})}
    message = more.pop("message", SimpleNamespace(message_id="om_1", chat_id="oc_1"))
    return await store.register(user, resource, message=message, ttl_seconds=more.pop("ttl", HOUR))


async def test_it_is_a_store(store: SharedFileStore) -> None:
    assert isinstance(store, SharedFileStore)


async def test_what_is_registered_is_found_as_it_was(store: SharedFileStore) -> None:
    file = await share(store, resource={"mime_type": "application/pdf", "size": 3, "meta": {"duration": 7}})
    assert await store.get(ME, file.file_id) == file
    assert (file.file_key, file.media_type, file.size) == ("file_1", "application/pdf", 3)
    assert (file.message_id, file.chat_id, file.meta) == ("om_1", "oc_1", {"duration": 7})
    assert file.expires_at == pytest.approx(file.created_at + HOUR)


@pytest.mark.parametrize("alias", [{"open_id": "ou_me"}, {"union_id": "on_me"}, {"user_id": "u_me"}])
async def test_any_alias_of_the_person_opens(store: SharedFileStore, alias: dict[str, str]) -> None:
    file = await share(store)
    user = Identity(**alias, tenant_key="t1")
    assert await store.get(user, file.file_id) == file
    assert await store.recent(user) == [file]
    assert await store.pin(user, file.file_id, cache_bytes=b"abc")
    assert await store.read_cached(user, file.file_id) == b"abc"


@pytest.mark.parametrize(
    "user",
    [
        BOB,
        Identity(open_id="ou_me", tenant_key="t2"),
        Identity(open_id="ou_me"),
        Identity(union_id="ou_me", tenant_key="t1"),
        Identity(open_id="ou_bob", user_id="u_me", tenant_key="t1"),
        Identity(open_id="ou_bob", union_id="on_me", tenant_key="t1"),
        SimpleNamespace(open_id="", union_id=None),
    ],
    ids=["another", "tenant", "no tenant", "kind", "handed-on user_id", "mixed up", "nobody"],
)
async def test_nobody_else_s_alias_does(store: SharedFileStore, user: object) -> None:
    file = await share(store)
    await store.pin(ME, file.file_id, cache_bytes=b"abc")
    assert await store.get(user, file.file_id) is None
    assert await store.read_cached(user, file.file_id) is None
    assert not await store.pin(user, file.file_id, cache_bytes=b"xyz")
    assert await store.recent(user) == []
    assert await store.read_cached(ME, file.file_id) == b"abc"


async def test_who_got_another_user_id_still_opens_their_files(store: SharedFileStore) -> None:
    file = await share(store)
    assert await store.get(Identity(open_id="ou_me", user_id="u_new", tenant_key="t1"), file.file_id) == file


async def test_foreign_expired_purged_and_invented_are_all_the_same(store: SharedFileStore) -> None:
    foreign = await share(store, "file_1", BOB)
    expired = await share(store, "file_2", ttl=SOON_OVER)

    async def is_over() -> bool:
        return await store.get(ME, expired.file_id) is None

    await until(is_over)  # with the store's clock, which may count milliseconds
    for file_id in (foreign.file_id, expired.file_id, "sf_invented", "'; --", ""):
        assert await store.get(ME, file_id) is None
        assert not await store.pin(ME, file_id)
        assert await store.read_cached(ME, file_id) is None
    assert await store.purge_expired() == 1
    assert await store.get(ME, expired.file_id) is None
    assert await store.recent(ME) == []


async def test_the_same_again_is_the_same_file(store: SharedFileStore) -> None:
    file = await share(store)
    again = await asyncio.gather(*(share(store, user=Identity(open_id="ou_me", tenant_key="t1")) for _ in range(5)))
    assert {each.file_id for each in again} == {file.file_id}
    assert await share(store, resource={"name": "renamed"}, ttl=9 * HOUR) == file
    assert [each.file_id for each in await store.recent(ME)] == [file.file_id]


async def test_another_person_message_or_key_is_another_file(store: SharedFileStore) -> None:
    others = [
        await share(store),
        await share(store, user=BOB),
        await share(store, "file_2"),
        await share(store, message={"message_id": "om_2", "chat_id": "oc_1"}),
    ]
    assert len({each.file_id for each in others}) == 4
    assert len(await store.recent(ME)) == 3


async def test_recent_are_the_newest_first_and_ten_unless_told(store: SharedFileStore) -> None:
    files = [await share(store, f"file_{n}") for n in range(12)]
    assert await store.recent(ME) == files[:1:-1]
    assert await store.recent(ME, limit=2) == [files[11], files[10]]
    assert await store.recent(ME, limit=0) == []
    assert len(await store.recent(ME, limit=100)) == 12


async def test_zero_is_never(store: SharedFileStore) -> None:
    file = await share(store, ttl=0)
    assert file.expires_at == 0
    assert await store.purge_expired() == 0
    assert await store.get(ME, file.file_id) == file


async def test_what_is_pinned_stays_and_keeps_its_bytes(store: SharedFileStore) -> None:
    file = await share(store)
    assert await store.read_cached(ME, file.file_id) is None
    assert await store.pin(ME, file.file_id, cache_bytes=b"abc")
    assert await store.pin(ME, file.file_id)
    assert await store.read_cached(ME, file.file_id) == b"abc"
    assert await store.pin(ME, file.file_id, cache_bytes=b"")
    assert await store.read_cached(ME, file.file_id) == b""
    pinned = await store.get(ME, file.file_id)
    assert pinned is not None
    assert (pinned.pinned, pinned.expires_at) == (True, 0)
    assert not pinned.is_expired(now=file.expires_at + 1)


async def test_purging_takes_what_has_expired_and_nothing_else(store: SharedFileStore) -> None:
    stays = await share(store)
    for n in range(3):
        await share(store, f"old_{n}", ttl=SOON_OVER)
    purged = 0

    async def are_gone() -> bool:
        nonlocal purged
        purged += await store.purge_expired()
        return purged == 3  # of files shared at the same moment the last is a little younger

    await until(are_gone)
    assert await store.purge_expired() == 0
    assert await store.recent(ME) == [stays]


async def test_without_an_identity_nothing_is_registered(store: SharedFileStore) -> None:
    for nobody in ({}, SimpleNamespace(open_id=None), {"open_id": "", "tenant_key": "t1"}):
        with pytest.raises(ValueError, match="open_id"):
            await share(store, user=nobody)
    assert not shared_file_keys({})


async def test_ids_cannot_be_guessed(store: SharedFileStore) -> None:
    ids = {(await share(store, f"file_{n}")).file_id for n in range(20)}
    assert len(ids) == 20
    assert all(each.startswith("sf_") and len(each) == 35 for each in ids)
