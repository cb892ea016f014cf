"""An approval, or a question, is reset after newer cards took the place of its first: they are its cards still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import names
from assent.contracts.answers import Answer
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.changing_cards import TEAM, all_cards, has_no_buttons, named, rules
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, open_feishu_service
from tests.support.questions import SURE
from tests.support.replaying import replays
from tests.support.temporal_operations import reset
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        directory = tmp_path_factory.mktemp("feishu")
        yield await open_feishu_service(stack, client, directory, question_remind_after=0.02)


@pytest.mark.parametrize("generations", [1, 2, 3])
async def test_what_was_clicked_on_newer_cards_counts_and_they_can_be_clicked(
    feishu: FeishuService, tmp_path: Path, generations: int
) -> None:
    people = named(OPERATOR, APPROVER, REQUESTER)
    async with feishu.service.policy(rules(approvers=f"{{people = {people}, threshold = 3}}")):
        handle = await feishu.ask(tmp_path, chat_id=TEAM)
        for generation in range(1, generations):
            await all_cards(feishu, handle, generation)
            seen = (await handle.state()).payload_sha256
            other = {"path": str(tmp_path / f"marks-{generation}")}
            await handle.decide("edit", arguments=other, actor=OPERATOR.within("tenant_1"), payload_sha256=seen)
        newest = (await all_cards(feishu, handle, generations))[-1]
        for person in (OPERATOR, APPROVER)[min(generations - 1, 1) :]:  # whoever changes a call approves it
            assert await feishu.click(handle, newest, who=person) == "accepted"
        await reset(feishu.service, handle, nth_task=0, keep_signals=True)
        cards = await feishu.chat.cards(handle.id)
        assert [each["message_id"] for each in cards].count(newest["message_id"]) == 1
        assert await feishu.click(handle, cards[-1], who=REQUESTER) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert "tamper" not in await feishu.service.events(handle.id)
    for card in await feishu.chat.cards(handle.id):
        await until(lambda card=card: has_no_buttons(feishu, card))  # type: ignore[misc]
    assert await replays(feishu.service.client, handle)


async def test_a_reminder_of_a_question_can_be_answered(feishu: FeishuService) -> None:
    handle = await feishu.service.gate.ask(SURE, requester=REQUESTER, ttl=timedelta(minutes=3))

    async def reminder() -> dict[str, Any] | None:
        found = await feishu.chat.cards(names.question_workflow(handle.id))
        return found[1] if len(found) == 2 else None

    card = await until(reminder)
    await reset(feishu.service, handle, nth_task=0, keep_signals=True)
    answer = Answer(
        question_id=handle.id,
        questions_sha256=(await handle.state()).questions_sha256 or "",
        answers={"sure": True},
        actor=REQUESTER,
        event_id="event-1",
        delivery_id="1",
        received_at=datetime.now(UTC),
        message_id=card["message_id"],
    )
    assert (await handle.submit(answer)).kind == "accepted"
    assert (await handle.answer()).status == "resolved"
