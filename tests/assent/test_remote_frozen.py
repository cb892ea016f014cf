"""Frozen calls through both doors: listed, settled and waited for in the same way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assent import ApprovalHandle, Assent, InvalidRequest, NotAllowed, SyncAssent
from assent.api.door import HttpDoor
from assent.types import FrozenReview, NotFrozen, RulingRefused
from tests.conftest import ME, OPERATOR
from tests.support import servers
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from tests.support.web import Web


@pytest.fixture(params=["temporal", "http"])
async def gate(request: pytest.FixtureRequest, web: Web) -> AsyncIterator[Assent]:
    """An operator's client, through either door."""
    if request.param == "temporal":
        yield web.service.gate
    else:
        async with web.gate("operator") as remote:
            yield remote


async def frozen(web: Web, gate: Assent, path: Path, tool: str = "raises", **asked: Any) -> ApprovalHandle:
    """A call that may have happened, seen through that door."""
    arguments = {"path": str(path / uuid.uuid4().hex), **asked.pop("arguments", {})}
    handle = await web.service.gate.request(tool, arguments, requester=ME, **asked)
    assert (await web.service.decided(handle)).status == "frozen"
    return gate.approval(handle.id)


async def test_whoever_waits_gets_what_was_settled(web: Web, gate: Assent, tmp_path: Path) -> None:
    handle = await frozen(web, gate, tmp_path)
    waiting = asyncio.create_task(handle.settlement())
    ruled = await handle.settle("executed", operator=OPERATOR, reason="it did", content={"n": [1, None, "é"]})
    assert ruled.kind == "settled"
    settlement = await waiting
    assert settlement == ruled.settlement == await handle.settlement()
    assert (settlement.kind, settlement.content, settlement.settled_by) == (
        "executed", {"n": [1, None, "é"]}, OPERATOR,
    )  # fmt: skip
    assert (await handle.outcome()).status == "frozen"


async def test_nobody_but_an_operator_settles_and_only_the_first(web: Web, gate: Assent, tmp_path: Path) -> None:
    handle = await frozen(web, gate, tmp_path)
    outsider = await handle.settle("executed", operator=ME, reason="I want it so")
    assert (outsider.kind, outsider.settlement) == ("forbidden", None)
    first = await handle.settle("not_executed", operator=OPERATOR, reason="nothing there", ruling_id="one")
    again = await handle.settle("not_executed", operator=OPERATOR, reason="nothing there", ruling_id="one")
    second = await handle.settle("executed", operator=OPERATOR, reason="I differ")
    assert [each.kind for each in (first, again, second)] == ["settled", "settled", "already_settled"]
    assert first.settlement == again.settlement == second.settlement


async def test_refusals_are_the_same_exceptions(web: Web, gate: Assent, tmp_path: Path) -> None:
    handle = await frozen(web, gate, tmp_path)
    with pytest.raises(RulingRefused) as uncertain:
        await handle.settle("retry", operator=OPERATOR, reason="again", payload_hash="0" * 12)
    assert (uncertain.value.code, uncertain.value.approval_id) == ("NotCertain", handle.id)
    assert str(uncertain.value).endswith(f"Approval {handle.id!r} stays frozen.")
    bearing = await frozen(web, gate, tmp_path, "once_more")
    with pytest.raises(RulingRefused) as wrong:
        await bearing.settle("retry", operator=OPERATOR, reason="again", payload_hash="0" * 12)
    assert wrong.value.code == "WrongHash"
    typed = str((await bearing.state()).payload_sha256)[:12]
    assert (await bearing.settle("retry", operator=OPERATOR, reason="again", payload_hash=typed)).kind == "retrying"
    assert (await bearing.settlement()).retried
    with pytest.raises(InvalidRequest, match="reason"):
        await handle.settle("executed", operator=OPERATOR, reason="")


async def test_what_is_not_frozen_is_told_as_such(web: Web, gate: Assent, tmp_path: Path) -> None:
    own = await web.service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    handle = gate.approval(own.id)
    for question in (handle.settlement(), handle.settle("executed", operator=OPERATOR, reason="so")):
        with pytest.raises(NotFrozen) as refused:
            await question
        assert refused.value.approval_id == handle.id


async def test_an_approval_of_the_same_key_that_did_not_freeze_settles_nothing(
    web: Web, gate: Assent, tmp_path: Path
) -> None:
    arguments = {"path": str(tmp_path / "m")}
    scope = uuid.uuid4().hex
    first = await web.service.gate.request("raises", arguments, requester=ME, idempotency_scope=scope)
    await web.service.decided(first)
    second = await web.service.gate.request("raises", arguments, requester=ME, idempotency_scope=scope)
    await web.service.decided(second, "reject")
    with pytest.raises(NotFrozen):
        await gate.approval(second.id).settle("executed", operator=OPERATOR, reason="the other one did")
    assert await web.service.ledger.settlement(first.id) is None


async def test_lists_are_the_same(web: Web, gate: Assent, tmp_path: Path) -> None:
    handle = await frozen(web, gate, tmp_path)

    async def found() -> FrozenReview | None:
        return next(iter([each async for each in gate.frozen(limit=1000) if each.approval_id == handle.id]), None)

    line = await until(found)
    assert line in [each async for each in web.service.gate.frozen(limit=1000)]
    assert (line.tool, line.requester, line.risk) == ("raises", "open_id:ou_me", "medium")


# What only the door over HTTP has


async def test_a_token_that_may_not_settle_is_refused(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, web.gate("agent"), tmp_path)
    with pytest.raises(NotAllowed, match="may not settle"):
        await handle.settle("executed", operator=OPERATOR, reason="so")


async def test_a_ruling_whose_answer_was_lost_is_told_again_and_counts_once(web: Web, tmp_path: Path) -> None:
    posted: list[bytes] = []

    async def after_it_arrived(request: httpx.Request) -> httpx.Response:
        answer = await web.transport().handle_async_request(request)
        posted.append(request.content)
        if len(posted) == 1:
            raise httpx.ReadError("connection reset")
        return answer

    door = HttpDoor("http://127.0.0.1", "secret-operator", transport=httpx.MockTransport(after_it_arrived))
    handle = await frozen(web, Assent(door), tmp_path)
    ruled = await handle.settle("executed", operator=OPERATOR, reason="it did")
    assert (ruled.kind, len(posted), posted[0]) == ("settled", 2, posted[-1])


async def test_a_wait_outlives_restarts_of_the_webhook(web: Web, tmp_path: Path) -> None:
    port = servers.free_port()
    handle = await frozen(web, web.service.gate, tmp_path)
    async with served(web.another(tmp_path), port) as url:
        gate = await Assent.connect(url, token="secret-operator")
        waiting = asyncio.create_task(gate.approval(handle.id).settlement())
        await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    await handle.settle("executed", operator=OPERATOR, reason="it did")
    async with served(web.another(tmp_path), port):
        assert (await asyncio.wait_for(waiting, 300)).kind == "executed"
    await gate.close()


async def test_the_synchronous_twin_does_the_same(web: Web, tmp_path: Path) -> None:
    handle = await frozen(web, web.service.gate, tmp_path)

    async def listed() -> bool:
        return handle.id in [each.approval_id async for each in web.service.gate.frozen(limit=1000)]

    await until(listed)

    def work(url: str) -> None:
        with SyncAssent.connect(url, token="secret-operator") as gate:
            assert handle.id in [review.approval_id for review in gate.frozen(limit=1000)]
            ruled = gate.approval(handle.id).settle("executed", operator=OPERATOR, reason="it did", content=7)
            assert ruled.settlement == gate.approval(handle.id).settlement()
            assert ruled.settlement is not None
            assert ruled.settlement.content == 7

    async with served(web.another(tmp_path)) as url:
        await asyncio.to_thread(work, url)
