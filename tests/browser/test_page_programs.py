"""A running program in the simulator's page, in a real Chromium: its prompts are answered, its progress is one message.

`UPDATE_SCREENSHOTS=1` makes their pictures anew, as in tests/browser/test_page.py.
"""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from assent import names
from ledger import MessageKind
from tests.support.chat_page import APPROVE, WORDING, Album, Asked, Scene, Seat
from tests.support.waiting import until
from workers.sample_requests import SAMPLES

THANKS = ("success", WORDING("question.thanks").en)
SUBMIT = WORDING("run.submit").en


@pytest.fixture(scope="module")
async def seat(scene: Scene) -> Seat:
    return await scene.seat(calm=True, size=(1280, 1400))


async def asked(scene: Scene, request_id: str) -> Asked:
    """What the run asks, and the message that holds its card."""

    async def found() -> str | None:
        async for line in scene.service.gate.questions(status="pending"):
            if line.question_id.endswith(f":{request_id}"):
                return line.question_id
        return None

    question_id = await until(found)
    message = await scene.chat.card(names.question_workflow(question_id))
    return Asked(question_id, message["message_id"], {})


async def test_a_program_asks_three_times_and_its_progress_is_one_message(
    scene: Scene, seat: Seat, album: Album
) -> None:
    number = [sample.tool for sample in SAMPLES].index("rebuild")
    _, call = await scene.press_sample(seat, number)
    await expect(seat.card(call)).to_contain_text("sample_program.sh")
    await album.take("program", call, None)
    await seat.press(call, APPROVE)
    how = await asked(scene, "how")
    await expect(seat.card(how)).to_contain_text(WORDING("run.gets_line").en)
    await album.take("interaction-choice", how, None)
    assert await seat.press(how, "Only what changed / 仅改动部分") == THANKS
    name = await asked(scene, "name")
    await album.take("interaction-text", name, None)
    field = seat.card(name).get_by_placeholder(WORDING("run.reply_hint").en)
    kind, told = await seat.press(name, SUBMIT)
    assert (kind, "an answer is needed" in told) == ("error", True)
    await field.fill("customers-2")
    assert await seat.press(name, SUBMIT) == THANKS
    note = await asked(scene, "note")
    await seat.card(note).get_by_placeholder(WORDING("run.reply_hint").en).fill("nothing special")
    assert await seat.press(note, SUBMIT) == THANKS
    await seat.shows(call, "executed")
    run = names.run_workflow(how.approval_id.partition(":")[0])

    async def ended() -> str | None:
        found = await scene.chat.cards(run, MessageKind.NOTICE)
        is_over = found and WORDING("run.done").en in json.dumps(found[0]["content"])
        return found[0]["message_id"] if len(found) == 1 and is_over else None

    summary = Asked(run, await until(ended), {})
    await expect(seat.card(summary)).to_contain_text("The index is rebuilt")
    await album.take("run", summary, None)
