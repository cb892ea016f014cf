"""Where the bytes of a call's files lie while its body runs, and what is left of them afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

import pytest

from activities import opened_files
from activities.bodies import Body
from activities.opened_files import OpenedFiles, OtherBytes
from assent.payload import canonical_payload, sha256
from ledger import LedgerFiles, Pin

DATA = b"as approved"


class Kept:
    """Bytes that a ledger keeps, or others."""

    def __init__(self, data: bytes = DATA, *, is_gone: bool = False) -> None:
        self.data, self.is_gone = data, is_gone

    async def pins(self, _: str) -> dict[str, Pin]:
        pin = Pin(file_id="sf_1", sha256=sha256(DATA), size=len(DATA), media_type="text/plain", name="n")
        return {} if self.is_gone else {"sf_1": pin}

    async def parts(self, _: Pin) -> Any:
        yield self.data[:3]
        yield self.data[3:]


def payload(name: str = "a.txt") -> str:
    said = {"media_type": "text/plain", "name": name, "sha256": sha256(DATA), "size": len(DATA)}
    return canonical_payload("t", {"file": "sf_1"}, {"sf_1": said})


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(opened_files, "_own_directory", opened_files._own_directory.__wrapped__)


async def filled(files: OpenedFiles, kept: Kept) -> None:
    await files.fill(cast("LedgerFiles", kept), "a-1")


@pytest.mark.parametrize(
    "name", ["a.txt", "../../etc/passwd", "/abs", "..", "", "长" * 200 + ".pdf", "a\x00b\n.txt", ".env"]
)
async def test_a_name_leads_nowhere_else(name: str, tmp_path: Path) -> None:
    with OpenedFiles() as files:
        files.named_in(payload(name))
        await filled(files, Kept())
        place = files.by_id["sf_1"].path()
        assert tmp_path in place.resolve().parents
        assert files.by_id["sf_1"].read() == DATA
        assert await files.by_id["sf_1"].read() == DATA
        assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not place.exists()


@pytest.mark.parametrize("kept", [Kept(b"as approveD"), Kept(b"as approved."), Kept(b"as"), Kept(is_gone=True)])
async def test_other_bytes_are_refused(kept: Kept) -> None:
    with OpenedFiles() as files:
        files.named_in(payload())
        with pytest.raises(OtherBytes, match="sf_1"):
            await filled(files, kept)


async def test_they_stay_until_the_body_has_ended() -> None:
    with OpenedFiles() as files:
        files.named_in(payload())
        await filled(files, Kept())
        body = Body(files.by_id["sf_1"].path().read_bytes)
        files.stay_until_end(body)
    assert await body.end() == DATA
    assert not files.by_id["sf_1"].path().exists()


def test_what_dead_workers_left_is_removed_and_what_others_use_is_not(tmp_path: Path) -> None:
    left, foreign = tmp_path / "assent-files-left", tmp_path / "assent-files-foreign"
    for each in (left, foreign):
        each.mkdir()
    (left / "in-use").touch()
    with OpenedFiles() as mine, OpenedFiles() as other:
        for files in (mine, other):
            files.named_in(payload())
        assert not left.exists()
        assert foreign.exists()
        assert mine.by_id["sf_1"].path() != other.by_id["sf_1"].path()
        assert mine.by_id["sf_1"].path().parents[1].exists()


def test_a_call_without_files_makes_no_place(tmp_path: Path) -> None:
    with OpenedFiles() as files:
        assert files.named_in(canonical_payload("t", {})) == {}
    assert list(tmp_path.iterdir()) == []
