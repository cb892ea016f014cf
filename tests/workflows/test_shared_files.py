"""Files from a chat to a tool: what is shown is what was kept, and what runs gets exactly that."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from assent import ApprovalHandle, Identity, Outcome, names
from assent.payload import payload_files, sha256
from ledger.engine import Connection
from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, settings_of, simulated
from tests.support.shared_files import MIB, PNG, Sharing, seen
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import TENANT

ME = REQUESTER.within(TENANT)
LARGEST: dict[str, dict[str, int]] = {"sqlite": {}, "postgres": {"files_max": 21 * MIB - 1}}
"""How large a file may be, where it is not the 20 MiB that are allowed where nobody says anything."""
MARKER = b"the-marker-that-stands-in-the-file-alone"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def feishu(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        url = await new_database(request.param, tmp_path_factory.mktemp("files"))
        more = {**settings_of(chat.url), "operators_chat": "oc_ops", **LARGEST[request.param]}
        yield FeishuService(await open_service(stack, client, url, **more), chat)


@pytest.fixture
async def sharing(feishu: FeishuService) -> AsyncIterator[Sharing]:
    yield Sharing(feishu)
    await feishu.chat.behave()


async def ask(
    feishu: FeishuService, tmp_path: Path, file_id: str, tool: str = "count_bytes", **more: Any
) -> ApprovalHandle:
    return await feishu.ask(tmp_path, tool, arguments={"file": file_id}, **more)


def written(tmp_path: Path) -> list[str]:
    """What tools wrote down outside."""
    path = tmp_path / "marks"
    return path.read_text().splitlines() if path.exists() else []


async def test_what_was_shared_is_shown_approved_and_counted_outside(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    data = b"quarter three" * 1000
    file_id = await sharing.share(data, "q3 报告.pdf")
    handle = await ask(feishu, tmp_path, file_id)
    card = json.dumps((await feishu.chat.card(handle.id))["content"], ensure_ascii=False)
    assert all(text in card for text in ("q3 报告.pdf", "application/pdf", sha256(data)[:12], "Files (1)", "文件（1）"))
    assert f"q3 报告.pdf ({file_id})" in card
    plan = await feishu.service.ledger.plan(handle.id)
    assert plan is not None
    said = {"media_type": "application/pdf", "name": "q3 报告.pdf", "sha256": sha256(data), "size": len(data)}
    assert payload_files(plan.payload) == {file_id: said}
    outcome = await feishu.decided(handle)
    assert (outcome.status, outcome.content) == ("executed", said)
    assert written(tmp_path) == [seen("q3 报告.pdf", data)]
    summary = (await feishu.service.ledger.files.recent(ME, limit=1))[0].summary()
    assert (summary["size"], summary["media_type"]) == (len(data), "application/pdf")


async def test_a_picture_is_shown_as_one_unless_it_is_sensitive(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    file_id = await sharing.share(PNG, "receipt.png")
    shown, hidden = [await ask(feishu, tmp_path, file_id, tool) for tool in ("count_bytes", "count_hidden")]
    card = json.dumps((await feishu.chat.card(shown.id))["content"])
    assert '"tag": "img"' in card
    masked = json.dumps((await feishu.chat.card(hidden.id))["content"])
    assert '"tag": "img"' not in masked
    assert "receipt" not in masked
    assert file_id not in masked
    assert sha256(PNG)[:12] in masked
    for handle in (shown, hidden):
        assert (await feishu.decided(handle)).status == "executed"
    assert written(tmp_path) == [seen("image.png", PNG)] * 2


async def test_files_within_lists_and_objects_are_read_by_either_way_and_removed(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    one, two = await sharing.share(b"one", "../../a b.txt"), await sharing.share(b"", "empty.bin")
    handle = await feishu.ask(tmp_path, "count_folder", arguments={"folder": {"files": [one, two, one], "cover": two}})
    outcome = await feishu.decided(handle)
    assert outcome.status == "executed", outcome
    assert sorted(set(written(tmp_path))) == sorted({seen("../../a b.txt", b"one"), seen("empty.bin", b"")})
    assert len(outcome.content) == 4

    async def removed() -> bool | None:
        return not any(map(os.path.exists, outcome.content)) or None

    await until(removed)


@pytest.mark.parametrize("change", ["swapped", "deleted"])
async def test_what_becomes_of_the_source_after_the_card_changes_nothing(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path, change: str
) -> None:
    file_id = await sharing.share(b"as approved", "a.txt")
    handle = await ask(feishu, tmp_path, file_id)
    await feishu.chat.card(handle.id)
    await (sharing.swap(file_id, b"something else") if change == "swapped" else sharing.delete(file_id))
    assert (await feishu.decided(handle)).status == "executed"
    assert written(tmp_path) == [seen("a.txt", b"as approved")]


async def failed(handle: ApprovalHandle, feishu: FeishuService) -> str:
    """Why a call was refused, of which nobody was asked."""
    outcome = await handle.outcome()
    assert outcome.status == "failed", outcome
    assert await feishu.chat.cards(handle.id) == []
    return str(outcome.reason)


async def test_what_cannot_be_had_ends_failed_and_nobody_is_asked(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    own, gone = await sharing.share(b"mine"), await sharing.share(b"gone")
    large = await sharing.share(bytes(21 * MIB))
    theirs = await sharing.share(b"theirs", who=APPROVER)
    expired = await sharing.share(b"old")
    await sharing.delete(gone)
    await feishu.service.ledger.engine.write(_expire, expired)
    reasons = [
        await failed(await ask(feishu, tmp_path, file_id), feishu) for file_id in (theirs, expired, "sf_invented")
    ]
    said = [
        reason.replace(file_id, "") for reason, file_id in zip(reasons, (theirs, expired, "sf_invented"), strict=True)
    ]
    assert len(set(said)) == 1
    assert "no such file" in said[0]
    assert "File not in msg" in await failed(await ask(feishu, tmp_path, gone), feishu)
    too_large = f"larger than {feishu.service.settings.files_max} bytes"
    assert too_large in await failed(await ask(feishu, tmp_path, large), feishu)
    for lie in ("undeclared", "understated"):
        await feishu.chat.misbehave({"on": "download", "kind": lie})
        assert too_large in await failed(await ask(feishu, tmp_path, large), feishu)
        await feishu.chat.behave()
    assert "invalid arguments" in await failed(await ask(feishu, tmp_path, "no id"), feishu)
    unproved = Identity(open_id="ou_requester", union_id="on_approver")
    assert "not all of one person" in await failed(await ask(feishu, tmp_path, own, requester=unproved), feishu)
    assert written(tmp_path) == []


async def _expire(connection: Connection, file_id: str) -> None:
    await connection.execute(text("UPDATE shared_files SET expires_at = 1 WHERE file_id = :id"), {"id": file_id})


@pytest.mark.parametrize("kind", ["5xx", "half", "refuse", "html", "ratelimit", "slow"])
async def test_a_feishu_that_is_down_is_waited_for(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path, kind: str
) -> None:
    file_id = await sharing.share(b"there in the end", "a.txt")
    await feishu.chat.misbehave({"on": "download", "kind": kind, "times": 2, "seconds": 1})
    handle = await ask(feishu, tmp_path, file_id)
    await feishu.chat.card(handle.id)
    assert (await feishu.decided(handle)).status == "executed"
    assert written(tmp_path) == [seen("a.txt", b"there in the end")]


async def test_it_is_waited_for_until_the_deadline_and_no_longer(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    file_id = await sharing.share(b"never")
    await feishu.chat.misbehave({"on": "download", "kind": "5xx"})
    handle = await ask(feishu, tmp_path, file_id, ttl=timedelta(seconds=2))
    outcome = await handle.outcome()
    assert outcome.status == "expired"
    assert "could not hand out the files in time" in str(outcome.reason)
    assert written(tmp_path) == []


async def test_other_bytes_do_not_run(feishu: FeishuService, sharing: Sharing, tmp_path: Path) -> None:
    for change in (_tamper, _lose):
        data = f"as approved, {change.__name__}".encode()
        file_id = await sharing.share(data)
        handle = await ask(feishu, tmp_path, file_id)
        await feishu.chat.card(handle.id)
        await feishu.service.ledger.engine.write(change, sha256(data))
        outcome = await feishu.decided(handle)
        assert outcome.status == "failed", outcome
        assert "bytes of" in str(outcome.reason)
    assert written(tmp_path) == []


async def _tamper(connection: Connection, digest: str) -> None:
    await connection.execute(
        text("UPDATE file_chunks SET data = :data WHERE sha256 = :digest"), {"data": b"other", "digest": digest}
    )


async def _lose(connection: Connection, digest: str) -> None:
    await connection.execute(text("DELETE FROM file_chunks WHERE sha256 = :digest"), {"digest": digest})


async def test_bytes_are_kept_while_anybody_may_need_them(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    files, data = feishu.service.ledger.files, b"kept once for two"
    file_id = await sharing.share(data)
    first, second = await ask(feishu, tmp_path, file_id), await ask(feishu, tmp_path, file_id)
    for handle in (first, second):
        await feishu.chat.card(handle.id)
    await feishu.decided(first, "reject")
    await files.purge_expired()
    assert (await files.pins(first.id), set(await files.pins(second.id))) == ({}, {file_id})
    await sharing.delete(file_id)
    await feishu.service.ledger.engine.write(_expire, file_id)
    await files.purge_expired()
    assert await files.get(ME, file_id) is None
    assert (await feishu.decided(second)).status == "executed"
    await files.purge_expired()
    assert await files.pins(second.id) == {}
    assert written(tmp_path) == [seen("q3.pdf", data)]


async def test_a_frozen_call_is_tried_again_after_the_file_has_expired(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    files, data = feishu.service.ledger.files, b"for two tries"
    file_id = await sharing.share(data)
    handle = await ask(feishu, tmp_path, file_id, "count_or_raise")
    assert (await feishu.decided(handle)).status == "frozen"
    await sharing.delete(file_id)
    await feishu.service.ledger.engine.write(_expire, file_id)
    await files.purge_expired()
    assert set(await files.pins(handle.id)) == {file_id}
    operator = Identity(open_id="ou_operator", tenant_key=TENANT)
    shown = (await handle.state()).payload_sha256 or ""
    await handle.settle("retry", operator=operator, reason="nothing arrived", payload_hash=shown[:12])
    assert (await handle.settlement()).kind == "executed"
    assert written(tmp_path) == [seen("q3.pdf", data)] * 2

    async def let_go() -> bool | None:
        await files.purge_expired()
        return not await files.pins(handle.id) or None

    await until(let_go)


async def test_an_edit_keeps_what_it_does_not_change_and_fetches_what_is_new(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    old, new = await sharing.share(b"old", "old.txt"), await sharing.share(b"new", "new.txt")
    foreign = await sharing.share(b"foreign", who=APPROVER)
    arguments = {"path": str(tmp_path / "marks"), "folder": {"files": [old]}}
    handle = await feishu.service.gate.request("count_folder", arguments, requester=REQUESTER)
    await feishu.chat.card(handle.id)
    await sharing.swap(old, b"swapped after it was shown")
    seen_sha = (await handle.state()).payload_sha256
    edit = {**arguments, "folder": {"files": [old, foreign]}}
    refused = await handle.decide("edit", actor=ME, payload_sha256=seen_sha, arguments=edit)
    assert refused.kind == "invalid", refused
    edit = {**arguments, "folder": {"files": [old, new]}}
    verdict = await handle.decide("edit", actor=ME, payload_sha256=seen_sha, arguments=edit)
    assert verdict.kind == "accepted", verdict
    outcome = await handle.outcome()
    assert outcome.status == "executed", outcome
    assert written(tmp_path) == [seen("old.txt", b"old"), seen("new.txt", b"new")]


async def test_a_tool_that_asks_nobody_gets_the_bytes_that_were_kept(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path
) -> None:
    file_id = await sharing.share(b"unasked", "a.txt")
    outcome = await (await ask(feishu, tmp_path, file_id, "count_unasked")).outcome()
    assert outcome.status == "executed"
    assert written(tmp_path) == [seen("a.txt", b"unasked")]


async def test_no_byte_of_a_file_stands_where_it_has_no_business(
    feishu: FeishuService, sharing: Sharing, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    file_id = await sharing.share(MARKER * 100, "a.txt")
    outcomes: list[Outcome] = []
    for tool, kind in (("count_or_raise", "approve"), ("count_bytes", "approve"), ("count_bytes", "reject")):
        handle = await ask(feishu, tmp_path, file_id, tool)
        await feishu.chat.card(handle.id)
        outcomes.append(await feishu.decided(handle, kind))
        history = await feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id)).fetch_history()
        assert MARKER.decode() not in history.to_json()
        assert b"bWFya2Vy" not in history.to_json().encode()  # nor in base64
        assert MARKER.decode() not in (await handle.state()).model_dump_json()
        assert MARKER.decode() not in json.dumps(await feishu.chat.messages(), ensure_ascii=False)
    assert [each.status for each in outcomes] == ["frozen", "executed", "rejected"]
    assert "the line broke at b'•••" in (outcomes[0].reason or "")
    await feishu.chat.misbehave({"on": "download", "kind": "half"})
    other = await sharing.share(MARKER * 200, "b.txt")
    expired = await (await ask(feishu, tmp_path, other, ttl=timedelta(seconds=1))).outcome()
    for outcome in (*outcomes, expired):
        assert MARKER.decode() not in outcome.model_dump_json()
    assert MARKER.decode() not in caplog.text
    assert MARKER.decode() not in json.dumps([file.to_dict() for file in await feishu.service.ledger.files.recent(ME)])
    assert marks(tmp_path / "marks") == 2
