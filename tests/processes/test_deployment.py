"""The whole service by wire only: real processes, a simulated Feishu, an agent over HTTP; also when they die."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from assent import names
from ledger import Ledger
from tests.support import servers
from tests.support.deployment import Deployment, opened_deployment, said
from tests.support.feishu_service import buttons
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.worker_processes import Proxy

IN_TIME = None
"""The platform's word for an answer within its three seconds: no error."""


@pytest.fixture(scope="module")
async def deployment(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Deployment]:
    async with opened_deployment(
        temporal_address, next(namespaces), "postgres", tmp_path_factory.mktemp("deployment")
    ) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def honest(deployment: Deployment) -> AsyncIterator[None]:
    """Whatever a test did, Feishu behaves again and the audit's chain is whole."""
    yield
    await deployment.chat.behave()
    ledger = Ledger.open(deployment.database)
    try:
        assert await ledger.verify() == []
    finally:
        await ledger.dispose()


async def asked(deployment: Deployment, directory: Path, name: str, **more: Any) -> tuple[str, dict[str, Any], Path]:
    """An approval with its card, and a directory for its mark."""
    own = directory / name
    own.mkdir()
    approval_id = await deployment.ask(own, **more)
    return approval_id, await deployment.chat.card(approval_id), own


async def test_request_card_click_toast_execution_and_final_card(deployment: Deployment, tmp_path: Path) -> None:
    approved, card, own = await asked(deployment, tmp_path, "approved", chat_id="oc_team", reason="because")
    rejected, other, others = await asked(deployment, tmp_path, "rejected", chat_id="oc_team")
    assert (card["chat_id"], set(buttons(card["content"]))) == ("oc_team", {"approve", "reject", "edit", "delegate"})

    refused = await deployment.press(card, "approve", "ou_outsider")
    assert refused.was("forbidden", "error")
    assert await deployment.status(approved) is None
    assert (await deployment.press(card, "approve")).was("approved", "success")
    assert await deployment.status(approved, wait=60) == "executed"
    final = await deployment.chat.final(approved, said("line.executed"))
    assert [message["message_id"] for message in await deployment.chat.cards(approved)] == [final["message_id"]]
    assert (final["message_id"], marks(own / "marks")) == (card["message_id"], 1)
    events = await deployment.events(approved)
    assert 1 <= events.count("forbid") <= refused.times  # a click that had to be made again may have arrived before
    steps = [event for event, _ in itertools.groupby(events)]
    assert steps == ["write_request", "deliver", "forbid", "confirm", "execute"]

    assert (await deployment.press(other, "reject", reason="not today")).was("rejected", "success")
    assert await deployment.status(rejected, wait=60) == "rejected"
    assert "not today" in str(await deployment.chat.final(rejected, said("line.rejected")))
    assert marks(others / "marks") == 0
    late = await deployment.chat.click(other, "approve")
    assert late["error"] is IN_TIME
    assert "decided" in late["toast"]["i18n"]["en_us"]
    assert await deployment.events(rejected) == ["write_request", "deliver", "confirm"]


async def test_the_same_through_the_long_connection_of_the_official_sdk(deployment: Deployment, tmp_path: Path) -> None:
    longconn = await deployment.start("longconn")
    await until(lambda: _is(deployment.connections(), 1))
    approval_id, card, own = await asked(deployment, tmp_path, "connected", arguments={"note": "字" * 5000})
    told = await deployment.press(card, "approve", "ou_requester")
    assert told.was("approved", "success"), told
    deliveries = (await deployment.chat.http.get("/api/deliveries", params={"limit": 1})).json()["deliveries"]
    assert [delivery["url"] for delivery in deliveries] == ["ws"]
    await deployment.executed_once(approval_id, own)
    over_the_connection = await deployment.replay(told)
    assert over_the_connection.was("duplicate", "info"), over_the_connection
    await deployment.duplicate(told, "webhook", fresh=True)
    longconn.send(signal.SIGTERM)
    assert await longconn.ended() == 0
    await until(lambda: _is(deployment.connections(), 0))
    await deployment.executed_once(approval_id, own)


async def test_everything_dies_at_bad_moments_and_nothing_is_lost_or_done_twice(
    deployment: Deployment, temporal_address: str, tmp_path: Path
) -> None:
    """Killed: while a card is sent, while final cards are patched, and between a click's signal and its answer.

    While no worker runs people go on clicking, and old clicks are replayed; then everything comes back.
    """
    done, done_card, done_dir = await asked(deployment, tmp_path, "done")
    first = await deployment.press(done_card, "approve")
    await deployment.executed_once(done, done_dir)
    pending, pending_card, pending_dir = await asked(deployment, tmp_path, "pending", chat_id="oc_team")
    refused = await deployment.press(pending_card, "approve", "ou_outsider")
    assert refused.was("forbidden", "error"), refused
    await deployment.start("webhook", "another")
    for click in (first, refused):
        for webhook, fresh in itertools.product(("webhook", "another"), (True, False)):
            await deployment.duplicate(click, webhook, fresh=fresh)

    patching, patching_card, patching_dir = await asked(
        deployment, tmp_path, "patching", chat_id="oc_ops", tool="open_mark"
    )
    failing, failing_card, failing_dir = await asked(deployment, tmp_path, "failing", chat_id="oc_team")
    answering, answering_card, answering_dir = await asked(deployment, tmp_path, "answering")
    down, down_card, down_dir = await asked(deployment, tmp_path, "down")
    rejected, rejected_card, rejected_dir = await asked(deployment, tmp_path, "rejected")
    await deployment.chat.misbehave(
        {"on": "patch", "kind": "slow", "seconds": 30, "match": {"chat_id": "oc_ops"}},
        {"on": "patch", "kind": "html", "match": {"chat_id": "oc_team"}},
        {"on": "send", "kind": "slow", "seconds": 30, "match": {"chat_id": "oc_ops"}},
    )
    for card, who in ((patching_card, "ou_operator"), (failing_card, "ou_requester")):
        assert (await deployment.press(card, "approve", who)).was("approved", "success")
    await deployment.chat.final(patching)  # it arrived, and nobody was told so
    sending, sending_card, sending_dir = await asked(
        deployment, tmp_path, "sending", chat_id="oc_ops", tool="open_mark"
    )
    deployment.parts["approvals"].send(signal.SIGSTOP)
    unanswered = asyncio.create_task(deployment.press(answering_card, "approve"))
    await signalled(temporal_address, deployment.namespace, answering)
    await deployment.kill("webhook", "approvals", "tools")
    assert (await unanswered).error == "unreachable"
    assert buttons((await deployment.chat.card(failing))["content"])

    await deployment.start("webhook")
    counted = await deployment.press(down_card, "approve")
    declined = await deployment.press(rejected_card, "reject", reason="no")
    early = await deployment.press(sending_card, "approve", "ou_operator")
    for told in (counted, declined, early):
        assert (told.error, told.toast) == (IN_TIME, said("toast.received")), told
    assert (await deployment.replay(first)).error is IN_TIME
    assert marks(down_dir / "marks") == 0
    await deployment.chat.behave()

    await asyncio.gather(deployment.start("approvals"), deployment.start("tools"))
    for approval_id, own in (
        (answering, answering_dir),
        (down, down_dir),
        (patching, patching_dir),
        (failing, failing_dir),
        (sending, sending_dir),
        (done, done_dir),
    ):
        await deployment.executed_once(approval_id, own)
    assert await deployment.status(rejected, wait=60) == "rejected"
    await deployment.chat.final(rejected, said("line.rejected"))
    assert marks(rejected_dir / "marks") == 0
    for click in (first, refused, counted, declined, early):
        await deployment.duplicate(click, "webhook", fresh=False)
        await deployment.duplicate(click, "another", fresh=True)
    await deployment.executed_once(done, done_dir)
    assert await deployment.events(rejected) == ["write_request", "deliver", "confirm"]
    assert await deployment.events(pending) == ["write_request", "deliver", "forbid"]
    assert (await deployment.press(pending_card, "approve")).was("approved", "success")
    assert await deployment.status(pending, wait=60) == "executed"
    assert marks(pending_dir / "marks") == 1


async def signalled(address: str, namespace: str, approval_id: str) -> None:
    """Wait until Temporal has a decision on record, whether a worker looked at it or not."""
    client = await servers.connect(address, namespace)
    workflow = client.get_workflow_handle(names.approval_workflow(approval_id))

    async def on_record() -> bool:
        events = (await workflow.fetch_history()).events
        return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED for event in events)

    await until(on_record)


async def test_while_temporal_is_out_of_reach_the_person_is_told_in_time_that_nothing_was_recorded(
    deployment: Deployment, temporal_address: str, tmp_path: Path
) -> None:
    approval_id, card, own = await asked(deployment, tmp_path, "unreached")
    proxy = Proxy(temporal_address)
    await deployment.start("webhook", "cut_off", TEMPORAL_ADDRESS=await proxy.start())
    proxy.silence()
    told = await deployment.press_at("cut_off", card, "approve")
    assert (told.error, told.kind, told.toast) == (IN_TIME, "error", said("toast.not_recorded"))
    assert await deployment.status(approval_id) is None
    assert (await deployment.press(card, "approve")).was("approved", "success")
    await deployment.executed_once(approval_id, own)


async def _is(asked: Any, wanted: object) -> bool:
    return bool(await asked == wanted)
