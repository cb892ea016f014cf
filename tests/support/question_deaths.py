"""A question, of an agent's or of a running tool's, with a worker that is killed on the way; one answer counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from temporalio.client import Client

from assent import QuestionHandle, names
from tests.conftest import Service
from tests.support.dying_worker import QUESTION_STEPS
from tests.support.feishu_service import REQUESTER
from tests.support.file_deaths import dying_service
from tests.support.program_deaths import answer_all, approve
from tests.support.questions import WHERE
from tests.support.waiting import until

_TOOL = "asks_and_dies"


class Seen(NamedTuple):
    """What was seen of a question: how it ended, how many answers counted, and what became of the call that asked."""

    status: str
    answers: str
    call: str = ""


_OF_AN_AGENT, _OF_A_TOOL = Seen("resolved", "1"), Seen("resolved", "1", "executed")
ROWS = {name: _OF_A_TOOL if step.kind == "tools" else _OF_AN_AGENT for name, step in QUESTION_STEPS.items()}
"""What must be seen after each death."""


async def killed_at(name: str, client: Client, address: str, database: str, directory: Path) -> None:
    """Ask, and answer as often as it takes to be heard, while a worker dies at a step and another comes after it."""
    step = QUESTION_STEPS[name]
    async with dying_service(name, client, address, database, directory) as feishu:
        service = feishu.service
        answering = asyncio.ensure_future(answer_all(service, "where", lambda _: "staging"))
        call = await _called(service, directory) if step.kind == "tools" else ""
        question = await _asked(service, is_tools=bool(call))
        outcome = await question.answer()
        answering.cancel()
        events = await service.events(names.question_workflow(question.id))
        assert Seen(outcome.status.value, str(events.count("answer")), call) == ROWS[name], (name, outcome, events)
        assert await service.ledger.verify() == []


async def _called(service: Service, directory: Path) -> str:
    """How a call ended whose tool asks."""
    handle = await service.gate.request(_TOOL, {"path": str(directory / "marks")}, requester=REQUESTER)
    await approve(handle)
    return (await handle.outcome()).status.value


async def _asked(service: Service, *, is_tools: bool) -> QuestionHandle:
    """The one question; a tool's was asked by its call."""
    if not is_tools:
        return await service.gate.ask(WHERE, requester=REQUESTER)

    async def listed() -> list[str]:
        return [line.question_id async for line in service.gate.questions() if line.tool == _TOOL]

    found = await until(listed)
    assert len(found) == 1, "nobody is asked twice"
    return service.gate.question(found[0])
