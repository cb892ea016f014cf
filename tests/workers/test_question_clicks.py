"""Questions answered on their cards: through the webhook, from a simulated Feishu."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

import activities.questions
from activities.feishu.client import Feishu
from assent import Identity, InvalidRequest, QuestionHandle, names
from tests.support.cards import values
from tests.support.deployment import FeishuServiceWithWebhook, opened_feishu_service_with_webhook, said
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER
from tests.support.questions import ALL, GOOD, SURE, WHERE, WHY
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuServiceWithWebhook]:
    directory = tmp_path_factory.mktemp("feishu")
    async with opened_feishu_service_with_webhook(
        temporal_address, next(namespaces), directory, patience=25, limits=False
    ) as opened:
        yield opened


async def ask(feishu: FeishuServiceWithWebhook, *questions: Any, **more: Any) -> QuestionHandle:
    return await feishu.service.gate.ask(questions or ALL, requester=REQUESTER, **more)


async def card_of(feishu: FeishuServiceWithWebhook, handle: QuestionHandle) -> dict[str, Any]:
    return await feishu.chat.card(names.question_workflow(handle.id))


async def press(
    feishu: FeishuServiceWithWebhook,
    message: dict[str, Any],
    value: dict[str, Any] | None = None,
    form: dict[str, Any] | None = None,
    who: Identity = REQUESTER,
) -> str:
    """What whoever presses is told, in English."""
    name = "answer" if form is not None else None
    value = value or values(message["content"])[0]
    return await feishu.toast(message, value, person=who, name=name, form=form)


FORM = {"s0": "staging", "c1": "yes", "t2": "", "m3": ["web", "jobs"], "o3": ""}


async def test_a_card_is_filled_in_corrected_and_answered(feishu: FeishuServiceWithWebhook) -> None:
    handle = await ask(feishu, chat_id="oc_team")
    message = await card_of(feishu, handle)
    wrong = await press(feishu, message, form={**FORM, "t2": "far too long to be an answer"})
    assert wrong == "Not taken yet. why: at most 20 characters, please."
    assert (await handle.state()).status == "pending"
    assert await press(feishu, message, form=FORM) == said("question.thanks")
    outcome = await handle.answer()
    assert outcome.answers == GOOD
    assert outcome.answered_by is not None
    assert outcome.answered_by.open_id == REQUESTER.open_id
    final = await feishu.chat.final(names.question_workflow(handle.id))
    assert "Staging" in str(final["content"])
    events = await feishu.service.events(names.question_workflow(handle.id))
    assert events == ["ask", "deliver", "answer"]
    assert await feishu.service.ledger.verify() == []


async def test_forged_foreign_replayed_late_and_strangers_clicks_change_nothing(
    feishu: FeishuServiceWithWebhook,
) -> None:
    handle, other = await ask(feishu, WHERE), await ask(feishu, SURE)
    message, others = await card_of(feishu, handle), await card_of(feishu, other)
    value = values(message["content"])[0]
    tampered, unreadable = said("toast.tampered"), said("toast.unreadable")
    told = {
        "another hash": await press(feishu, message, {**value, "questions_sha256": "0" * 64}),
        "another card": await press(feishu, others, value),
        "another question": await press(feishu, message, values(others["content"])[0]),
        "no option": await press(feishu, message, {**value, "given": "the moon"}),
        "no question": await press(feishu, message, {**value, "question": "nobody knows it"}),
        "two of ours": await press(feishu, message, {**value, "approval_id": "a"}),
        "no ids": await press(feishu, message, {**value, "ids": "where"}),
        "a stranger": await press(feishu, message, value, who=OUTSIDER),
    }
    assert told == {
        "another hash": tampered,
        "another card": tampered,
        "another question": tampered,
        "no option": "Not taken yet. where: that is not one of the options.",
        "no question": said("question.missing"),
        "two of ours": unreadable,
        "no ids": unreadable,
        "a stranger": said("question.forbidden"),
    }
    assert [(await each.state()).status for each in (handle, other)] == ["pending", "pending"]
    assert await press(feishu, message, value) == said("question.thanks")
    assert await press(feishu, message, value) == said("question.answered_already")
    assert await press(feishu, message, value, who=OUTSIDER) == said("question.forbidden")
    await other.cancel("not needed")
    await other.answer()
    assert await press(feishu, others, values(others["content"])[0]) == said("question.withdrawn_already")


async def test_the_members_of_a_chat_answer_and_nobody_else(feishu: FeishuServiceWithWebhook) -> None:
    handle = await ask(feishu, WHERE, chat_id="oc_ops", members=True)
    message = await card_of(feishu, handle)
    value = values(message["content"])[1]
    assert await press(feishu, message, value, who=OUTSIDER) == said("question.forbidden")
    members = [APPROVER, Identity(open_id="ou_operator")]
    told = await asyncio.gather(*(press(feishu, message, value, who=members[n % 2]) for n in range(12)))
    counted = Counter(told)
    assert counted[said("question.thanks")] == 1
    late = counted[said("toast.received")]  # on a busy machine one may be told to look at the card
    assert counted[said("question.answered_already")] + late == 11
    assert (await handle.answer()).answers == {"where": "production"}


async def test_a_card_that_nobody_can_be_sent_cancels_the_question(feishu: FeishuServiceWithWebhook) -> None:
    handle = await ask(feishu, SURE, chat_id="oc_nowhere")
    outcome = await handle.answer()
    assert (outcome.status, (outcome.reason or "").partition(":")[0]) == (
        "cancelled",
        "the card could not be delivered",
    )


async def test_a_feishu_that_is_down_holds_up_neither_other_doors_nor_the_end(
    feishu: FeishuServiceWithWebhook,
) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "5xx"})
    handle = await ask(feishu, SURE)
    state = await handle.state()
    verdict = await handle.respond({"sure": True}, actor=REQUESTER, questions_sha256=state.questions_sha256)
    assert verdict.kind == "accepted"
    await feishu.chat.behave()
    assert (await handle.answer()).answers == {"sure": True}


async def test_people_are_reminded_once_on_a_new_card(
    feishu: FeishuServiceWithWebhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.questions, "_WORTH_REMINDING", timedelta(0))
    soon = await ask(feishu, SURE, ttl=timedelta(seconds=30))
    record = names.question_workflow(soon.id)

    async def both() -> list[dict[str, Any]] | None:
        found = await feishu.chat.cards(record)
        return found if len(found) == 2 and not values(found[0]["content"]) else None

    older, newer = await until(both)
    assert said("question.title_reminder") in str(newer["content"])
    assert await press(feishu, older, values(newer["content"])[0]) == said("question.thanks")
    assert (await soon.answer()).answers == {"sure": True}
    await until(lambda: _are_final(feishu, record))
    assert (await feishu.service.events(record)).count("remind") == 1


async def test_that_a_reminder_follows_does_not_cover_the_end(
    feishu: FeishuServiceWithWebhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.questions, "_WORTH_REMINDING", timedelta(0))
    patch, held, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()
    handle = await ask(feishu, SURE, ttl=timedelta(seconds=6))
    older, record = await card_of(feishu, handle), names.question_workflow(handle.id)

    async def held_up(client: Feishu, message_id: str, card: str) -> None:
        if message_id == older["message_id"] and not held.is_set():
            held.set()
            await goes_on.wait()
        await patch(client, message_id, card)

    monkeypatch.setattr(Feishu, "patch", held_up)
    await held.wait()  # that the reminder took its place is on its way to it
    await handle.cancel("no longer needed", actor=REQUESTER)
    await handle.answer()

    async def changed(times: int) -> list[Any] | None:
        answer = await feishu.chat.http.get(f"/api/messages/{older['message_id']}")
        revisions: list[Any] = answer.raise_for_status().json()["revisions"]
        return revisions if len(revisions) == times + 1 else None

    *_, end = await until(lambda: changed(1))
    goes_on.set()
    *_, covered, again = await until(lambda: changed(3))
    assert again == end != covered
    assert len(await feishu.chat.cards(record)) == 2


async def _are_final(feishu: FeishuServiceWithWebhook, record: str) -> bool:
    return all(said("question.resolved") in str(each["content"]) for each in await feishu.chat.cards(record))


async def test_what_no_card_can_hold_is_refused(feishu: FeishuServiceWithWebhook) -> None:
    invisible = WHY.model_copy(update={"prompt": "\u202e" * 2000})
    with pytest.raises(InvalidRequest, match="no card can hold them"):
        await ask(feishu, invisible, invisible.model_copy(update={"id": "b", "prompt": "\u202e" * 600}))
