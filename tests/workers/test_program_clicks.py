"""A program answered on its cards: through the webhook, from a simulated Feishu, with its one message of progress."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Approvers, Identity, names
from assent.contracts.answers import Answer
from assent.contracts.runs import SIGNATURE_INVALID
from ledger import MessageKind
from tests.support.cards import values
from tests.support.deployment import FeishuServiceWithWebhook, opened_feishu_service_with_webhook, said
from tests.support.feishu_service import OUTSIDER, REQUESTER, buttons
from tests.support.programs import PROMPTS, lines, script
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


async def running(feishu: FeishuServiceWithWebhook, path: Path, tool: str = "prompted") -> ApprovalHandle:
    asked = {"script": str(script(path, PROMPTS)), "counter": str(path / "read")}
    handle = await feishu.service.gate.request(tool, asked, requester=REQUESTER, chat_id="oc_team")
    card = await feishu.chat.card(handle.id)
    for argument in asked.values():
        assert argument in json.dumps(card["content"]), "the vector is on the card"
    state = await handle.state()
    await handle.decide("approve", actor=REQUESTER, payload_sha256=state.payload_sha256)
    return handle


async def asked(feishu: FeishuServiceWithWebhook, handle: ApprovalHandle, request_id: str) -> str:
    async def found() -> str | None:
        async for line in feishu.service.gate.questions(status="pending"):
            known = await feishu.service.ledger.question(line.question_id)
            if known and known.approval_id == handle.id and line.question_id.endswith(f":{request_id}"):
                return line.question_id
        return None

    return await until(found)


async def card_of(feishu: FeishuServiceWithWebhook, question_id: str) -> dict[str, Any]:
    return await feishu.chat.card(names.question_workflow(question_id))


async def test_three_prompts_by_card_and_one_message_of_progress(
    feishu: FeishuServiceWithWebhook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handle = await running(feishu, tmp_path)
    where = await asked(feishu, handle, "where")
    message = await card_of(feishu, where)
    staging = values(message["content"])[0]
    assert await feishu.toast(message, staging, person=OUTSIDER) == said("question.forbidden")
    forged = {**staging, "questions_sha256": "0" * 64}
    assert await feishu.toast(message, forged) == said("toast.tampered")
    assert await feishu.toast(message, {**staging, "given": "mars"}) != said("question.thanks")
    assert lines(tmp_path / "read") == []
    assert await feishu.toast(message, staging) == said("question.thanks")
    assert await feishu.toast(message, values(message["content"])[1]) != said("question.thanks")
    who = await asked(feishu, handle, "who")
    reply = await card_of(feishu, who)
    other = {**values(reply["content"])[0], "question": where}
    assert await feishu.toast(reply, other, name="answer", form={"answer_text": "x"}) == said("toast.tampered")
    send = values(reply["content"])[0]
    broken = await feishu.toast(reply, send, name="answer", form={"answer_text": "two\nlines"})
    assert "one line" in broken
    told = await feishu.toast(reply, send, name="answer", form={"answer_text": "the secret word"})
    assert told == said("question.thanks")
    last = await asked(feishu, handle, "input-3")
    await feishu.toast(
        await card_of(feishu, last),
        values((await card_of(feishu, last))["content"])[0],
        name="answer",
        form={"answer_text": "no"},
    )
    outcome = await handle.outcome()
    assert outcome.status == "executed"
    assert lines(tmp_path / "read") == ["staging", "the secret word", "no"]
    run = names.run_workflow(where.partition(":")[0])

    async def ended() -> dict[str, Any] | None:
        found = await feishu.chat.cards(run, MessageKind.NOTICE)
        assert len(found) <= 1, "one message"
        return found[0] if found and said("run.done") in json.dumps(found[0]["content"]) else None

    shown = await until(ended)
    assert "Anything else?" in json.dumps(shown["content"])
    assert buttons(shown["content"]) == {}
    await nowhere(feishu, "a secret of the transcript", [names.approval_workflow(handle.id), run], caplog)
    assert "the secret word" not in json.dumps(shown["content"])


async def nowhere(
    feishu: FeishuServiceWithWebhook, words: str, workflows: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What a program said is in no chat, no history and no log."""
    assert words not in json.dumps(await feishu.chat.messages())
    assert words not in caplog.text
    for workflow in workflows:
        history = await feishu.service.client.get_workflow_handle(workflow).fetch_history()
        assert words not in history.to_json()


async def test_an_unsigned_click_writes_nothing(feishu: FeishuServiceWithWebhook, tmp_path: Path) -> None:
    handle = await running(feishu, tmp_path)
    question = feishu.service.gate.question(await asked(feishu, handle, "where"))
    state = await question.state()
    given = Answer(
        question_id=question.id,
        questions_sha256=state.questions_sha256,
        answers={"answer": "staging"},
        actor=REQUESTER,
        event_id="unsigned",
        proof="feishu-token",
    )
    verdict = await question.submit(given)
    assert (verdict.kind, verdict.reason) == ("tampered", SIGNATURE_INVALID)
    audited = await feishu.service.ledger.entries(names.question_workflow(question.id))
    assert [entry.error for entry in audited if entry.event == "tamper"] in ([], [SIGNATURE_INVALID])
    signed = given.model_copy(update={"event_id": "long", "proof": "feishu-connection"})
    assert (await question.submit(signed)).kind == "accepted"
    assert lines(tmp_path / "read") == ["staging"]


async def test_fifty_answers_at_once_from_ten_people_are_one_line(
    feishu: FeishuServiceWithWebhook, tmp_path: Path
) -> None:
    people = [Identity(open_id=f"ou_many_{n}") for n in range(10)]
    assert Approvers.of(people).people == tuple(people)
    handle = await running(feishu, tmp_path, "prompted_by_anyone")
    question = feishu.service.gate.question(await asked(feishu, handle, "where"))
    sha256 = (await question.state()).questions_sha256

    async def answer(n: int) -> str:
        value = ("staging", "production")[n % 2]
        verdict = await question.respond({"answer": value}, actor=people[n % 10], questions_sha256=sha256)
        assert verdict.kind in ("accepted", "already_decided"), verdict
        assert verdict.answered_by is not None, "everybody is told who"
        return verdict.kind.value

    counted = Counter(await asyncio.gather(*(answer(n) for n in range(50))))
    assert counted == {"accepted": 1, "already_decided": 49}
    outcome = await question.answer()
    assert outcome.answers is not None
    await asked(feishu, handle, "who")
    assert lines(tmp_path / "read") == [outcome.answers["answer"]]
