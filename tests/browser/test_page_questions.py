"""Questions in the simulator's page, in a real Chromium: asked by its buttons, answered, corrected, photographed.

`UPDATE_SCREENSHOTS=1` makes their pictures anew, as in tests/browser/test_page.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, expect

from assent import QuestionHandle, names
from tests.support.chat_page import APPROVE, WORDING, Album, Asked, Scene, Seat
from tests.support.waiting import until
from workers.sample_requests import SAMPLES

FIRST = len(SAMPLES)
"""The number of the first button that asks a question."""
CHOICE, SEVERAL, TEXT = range(FIRST, FIRST + 3)
THANKS = ("success", WORDING("question.thanks").en)
SEND = WORDING("question.submit").en


@pytest.fixture(scope="module")
async def seat(scene: Scene) -> Seat:
    return await scene.seat(calm=True, size=(1280, 1400))


async def shown(scene: Scene, question_id: str) -> tuple[QuestionHandle, Asked]:
    """A question, and the message that holds its card."""
    message = await scene.chat.card(names.question_workflow(question_id))
    return scene.service.gate.question(question_id), Asked(question_id, message["message_id"], {})


async def pressed(scene: Scene, seat: Seat, number: int) -> tuple[QuestionHandle, Asked]:
    async with seat.page.expect_response(f"**/api/shortcuts/{number}") as answer:
        await seat.page.get_by_test_id(f"shortcut-{number}").click()
    body: dict[str, Any] = (await (await answer.value).json())["body"]
    return await shown(scene, body["question_id"])


async def is_answered(seat: Seat, asked: Asked) -> Locator:
    tags = seat.card(asked).locator(".card-header .text-tag")
    await expect(tags).to_have_text([WORDING("question.tag").en, WORDING("question.resolved").en])
    assert await seat.has_no_buttons(asked)
    return seat.card(asked)


async def test_a_choice_is_one_press(scene: Scene, seat: Seat, album: Album) -> None:
    handle, asked = await pressed(scene, seat, CHOICE)
    await expect(seat.card(asked)).to_contain_text(WORDING("question.runs_nothing").en)
    await album.take("question-choice", asked, None)
    assert await seat.press(asked, "Production / 生产") == THANKS
    assert (await handle.answer()).answers == {"where": "production"}
    await expect(await is_answered(seat, asked)).to_contain_text("Han Meimei")
    await album.take("question-answered", asked, None)


async def test_several_choices_own_words_and_a_yes_are_corrected_and_sent(
    scene: Scene, seat: Seat, album: Album
) -> None:
    handle, asked = await pressed(scene, seat, SEVERAL)
    await album.take("question-several", asked, None)
    card = seat.card(asked)
    await card.locator("details.multi summary").click()
    await card.get_by_label("web", exact=True).check()
    await card.get_by_label("jobs", exact=True).check()
    await card.locator("details.multi summary").click()
    await card.get_by_placeholder(WORDING("question.own_hint").en).fill("the docs")
    kind, told = await seat.press(asked, SEND)
    assert (kind, told) == ("error", "Not taken yet. backup: an answer is needed.")
    await card.locator("select[data-name=c2]").select_option("yes")
    assert await seat.press(asked, SEND) == THANKS
    assert (await handle.answer()).answers == {"parts": ("web", "jobs", "the docs"), "backup": True}


async def test_a_text_that_is_too_long_is_corrected(scene: Scene, seat: Seat, album: Album) -> None:
    handle, asked = await pressed(scene, seat, TEXT)
    await album.take("question-text", asked, None)
    field = seat.card(asked).get_by_placeholder(WORDING("question.text_hint").en)
    await field.fill("a name that is far too long")
    assert await seat.press(asked, SEND) == ("error", "Not taken yet. name: at most 20 characters, please.")
    await field.fill("Kestrel")
    assert await seat.press(asked, SEND) == THANKS
    assert (await handle.answer()).answers == {"name": "Kestrel"}


async def test_a_running_tool_asks_and_goes_on(scene: Scene, seat: Seat, album: Album) -> None:
    number = [sample.tool for sample in SAMPLES].index("publish_release")
    _, call = await scene.press_sample(seat, number)
    await seat.press(call, APPROVE)

    async def asks() -> str | None:
        async for line in scene.service.gate.questions(status="pending"):
            if line.tool == "publish_release":
                return line.question_id
        return None

    _, asked = await shown(scene, await until(asks))
    await expect(seat.card(call)).to_contain_text("It waits for an answer")
    await album.take("question-tool", asked, None)
    assert await seat.press(asked, "Testers / 测试人员") == THANKS
    await seat.shows(call, "executed")
    assert [each["to"] for each in scene.tools.done("releases")] == ["testers"]
